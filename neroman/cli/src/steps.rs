//! Cuts a command line into steps: `neroman --add . --start all` is two.
//!
//! A verb may be the first word or a flag. A step's words end at the next flag that
//! is a verb and no option of the step's own verb; every word after `--` is an
//! operand. Only `names` and the verbs' own options are read here.

use crate::fault::Fault;
use crate::line;
use crate::names::{self, Original, VerbWord};

/// One verb with its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// A verb of the command line.
    pub verb: &'static str,
    /// Options and operands.
    pub words: Vec<String>,
}

/// Options that may stand before the first verb and then hold for every step
/// that knows them.
const FOR_ALL: &[&str] = &["--json", "--yes", "-y", "--dry-run"];

/// Cuts the words after the program's name. Without a verb they are those of `status`.
///
/// # Errors
/// Unknown verbs, verbs that are not built, options where none can stand.
pub fn cut(words: &[String]) -> Result<Vec<Step>, Fault> {
    let lead = words
        .iter()
        .take_while(|word| FOR_ALL.contains(&word.as_str()))
        .count();
    let (everywhere, words) = words.split_at(lead);
    let Some(first) = words.first() else {
        let status = Step {
            verb: "status",
            words: everywhere.to_vec(),
        };
        return Ok(vec![status]);
    };
    let mut steps = if first.starts_with('-') {
        flags(words)?
    } else {
        begun(verb(first)?, &words[1..], false)?
    };
    for word in everywhere {
        for step in &mut steps {
            if let Some(at) = line::place_of(step.verb, &step.words, word) {
                step.words.insert(at, word.clone());
            }
        }
    }
    Ok(steps)
}

/// A verb and the original's word that stands for it.
type StepVerb = (&'static str, Option<&'static Original>);

/// The words of a verb, and the steps that follow it, with the original's words
/// replaced.
fn begun((verb, original): StepVerb, words: &[String], flagged: bool) -> Result<Vec<Step>, Fault> {
    let first = original.and_then(|original| original.first);
    let first = first.map(str::to_owned).into_iter();
    let words: Vec<String> = first.chain(words.iter().cloned()).collect();
    let mut steps = rest(verb, &words, flagged)?;
    if original == Some(&names::SUBMIT) {
        steps[0] = submit(std::mem::take(&mut steps[0].words))?;
    }
    if verb == "tag" {
        steps[0].words = operands_last(std::mem::take(&mut steps[0].words));
    }
    Ok(steps)
}

/// `tag 144 -old --dry-run` is `tag --dry-run -- 144 -old`: `-old` is no option.
fn operands_last(words: Vec<String>) -> Vec<String> {
    if words.iter().any(|word| word == "--") {
        return words;
    }
    let is_option = |word: &String| word.starts_with("--") || word == "-h";
    let (mut options, operands): (Vec<_>, Vec<_>) = words.into_iter().partition(is_option);
    if !operands.is_empty() {
        options.push("--".to_owned());
        options.extend(operands);
    }
    options
}

/// A line whose first word is a flag.
fn flags(words: &[String]) -> Result<Vec<Step>, Fault> {
    match words[0].as_str() {
        "-h" | "--help" => return rest("help", &words[1..], false),
        "-V" | "--version" => return rest("version", &words[1..], false),
        _ => {}
    }
    let (name, value) = flag(&words[0]).ok_or_else(|| unknown_option(&words[0]))?;
    let verb = match names::read(name) {
        VerbWord::Verb(verb, original) => (verb, original),
        VerbWord::NotBuilt(verb) => return Err(Fault::not_built(format!("`--{verb}`"))),
        VerbWord::Unknown => return Err(unknown_option(&words[0])),
    };
    let mut all: Vec<String> = value.map(str::to_owned).into_iter().collect();
    all.extend(words[1..].iter().cloned());
    begun(verb, &all, true)
}

/// The words of a verb, and the steps that follow it.
fn rest(verb: &'static str, words: &[String], flagged: bool) -> Result<Vec<Step>, Fault> {
    let mut step = Step {
        verb,
        words: Vec::new(),
    };
    for (at, word) in words.iter().enumerate() {
        if word == "--" {
            step.words.extend(words[at..].iter().cloned());
            return Ok(vec![step]);
        }
        let next_is_operand = words.get(at + 1).is_some_and(|next| !next.starts_with('-'));
        if begins_step(&step, word, flagged && next_is_operand) {
            check_is_verb(&step, &words[at..])?;
            let mut steps = vec![step];
            steps.extend(flags(&words[at..])?);
            return Ok(steps);
        }
        step.words.push(word.clone());
    }
    Ok(vec![step])
}

/// Whether a word begins the next step. `--wait` is an option of `start` and a verb:
/// after `--start SEL` and before an operand it is the verb.
fn begins_step(step: &Step, word: &str, verb_wins: bool) -> bool {
    let Some((name, _)) = flag(word) else {
        return false;
    };
    // `start --help` asks for the help of `start`.
    if names::read(name) == VerbWord::Unknown || ["help", "version"].contains(&name) {
        return false;
    }
    let has_operand = step.words.iter().any(|word| !word.starts_with('-'));
    let is_option = line::knows(step.verb, word)
        || names::NOT_BUILT_OPTIONS
            .iter()
            .any(|(verb, option)| *verb == step.verb && *option == name);
    !is_option || (verb_wins && has_operand && line::is_switch(step.verb, word))
}

/// Refuses `add . --node zz`: it means an option that `add` has not, no verb `node`.
fn check_is_verb(step: &Step, words: &[String]) -> Result<(), Fault> {
    let Some((name, value)) = flag(&words[0]) else {
        return Ok(());
    };
    let second = value.or_else(|| words.get(1).map(String::as_str));
    let owners = line::owners(&words[0]);
    if owners.is_empty() || second.is_some_and(|second| line::has_subverb(name, second)) {
        return Ok(());
    }
    let fault = Fault::usage(format!("`{}` has no option `--{name}`", step.verb));
    Err(match (step.verb, name) {
        ("add", "node") => fault.hint(
            "name the node at the start, `neroman start SEL --node NODE`, or by `node:` \
             of the experiment",
        ),
        _ => fault.hint(format!("it is one of `{}`", owners.join("`, `"))),
    })
}

fn flag(word: &str) -> Option<(&str, Option<&str>)> {
    let word = word.strip_prefix("--").filter(|name| !name.is_empty())?;
    Some(match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    })
}

fn verb(word: &str) -> Result<StepVerb, Fault> {
    match names::read(word) {
        VerbWord::Verb(verb, original) => Ok((verb, original)),
        VerbWord::NotBuilt(verb) => Err(Fault::not_built(format!("`{verb}`"))),
        VerbWord::Unknown => {
            let fault = Fault::usage(format!("`{word}` is no verb of neroman"));
            Err(match names::near(word) {
                Some(near) => fault.hint(format!("did you mean `neroman {near}`?")),
                None => fault.hint("`neroman help` lists the verbs"),
            })
        }
    }
}

fn unknown_option(word: &str) -> Fault {
    let fault = Fault::usage(format!("`{word}` is no option of neroman"));
    let name = word.trim_start_matches('-');
    if let VerbWord::Verb(..) = names::read(name) {
        return fault.hint(format!("did you mean `--{name}`?"));
    }
    match names::near(name) {
        Some(near) if near.contains(' ') => fault.hint(format!("did you mean `neroman {near}`?")),
        Some(near) => fault.hint(format!("did you mean `--{near}`?")),
        None => fault.hint("`neroman help` lists the verbs"),
    }
}

/// `--submit SEL NODE` is `start --node NODE SEL`.
fn submit(words: Vec<String>) -> Result<Step, Fault> {
    let (operands, mut words): (Vec<String>, Vec<String>) =
        words.into_iter().partition(|word| !word.starts_with('-'));
    let (picked, node) = match operands.as_slice() {
        [picked] => (picked, None),
        [picked, node] => (picked, Some(node)),
        [] => {
            return Err(Fault::usage("`submit` needs a selector")
                .hint("usage: neroman --submit SEL [NODE]"));
        }
        [..] => {
            return Err(Fault::usage("`submit` takes a selector and a node")
                .hint("several selectors are joined by commas"));
        }
    };
    if let Some(node) = node {
        words.extend(["--node".to_owned(), node.clone()]);
    }
    words.push(picked.clone());
    Ok(Step {
        verb: "start",
        words,
    })
}

#[cfg(test)]
mod tests {
    use proptest::strategy::Strategy as _;

    use super::*;
    use crate::read;

    /// Cuts a line whose words are separated by blanks and quoted by `'`.
    fn line(text: &str) -> Result<Vec<Step>, Fault> {
        let mut words = Vec::new();
        for (at, part) in text.split('\'').enumerate() {
            if at % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        cut(&words)
    }

    /// The steps as `verb word word | verb …`.
    fn shown(text: &str) -> String {
        let steps = line(text).unwrap_or_else(|fault| panic!("{text}: {}", fault.text()));
        let steps: Vec<String> = steps
            .iter()
            .map(|step| {
                let mut words = vec![step.verb.to_owned()];
                words.extend(step.words.iter().cloned());
                words.join(" ")
            })
            .collect();
        steps.join(" | ")
    }

    #[test]
    fn verbs_are_words_and_flags() {
        let table = [
            ("start 124-186", "start 124-186"),
            ("--start 124-186", "start 124-186"),
            ("--start=124-186", "start 124-186"),
            (
                "--restart 'crashed,144-149,170,175'",
                "restart crashed,144-149,170,175",
            ),
            (
                "--abort 'runtime>7200&&errorrate>0.40'",
                "abort runtime>7200&&errorrate>0.40",
            ),
            ("--start 'tmod<1h'", "start tmod<1h"),
            (
                "--add . --start all --wait all",
                "add . | start all | wait all",
            ),
            ("--addexp a b --status", "add a b | status"),
            ("--start all --wait", "start all --wait"),
            ("--start --wait all", "start --wait all"),
            ("--start all --wait --status", "start all --wait | status"),
            ("start all --wait all", "start all --wait all"),
            (
                "start 1-3 --node local --at-most 2",
                "start 1-3 --node local --at-most 2",
            ),
            (
                "--start 1 --node local --wait 1",
                "start 1 --node local | wait 1",
            ),
            ("--submit 1-3", "start 1-3"),
            (
                "--submit 1-3 triton --status",
                "start --node triton 1-3 | status",
            ),
            ("--monitor 7", "logs --follow 7"),
            ("tag 7 +a -b --dry-run", "tag --dry-run -- 7 +a -b"),
            ("--tag 7 -b --status", "tag -- 7 -b | status"),
            ("--terminate 7 --yes", "abort 7 --yes"),
            ("ls crashed", "status crashed"),
            ("--json --status", "status --json"),
            ("--yes --abort all --status", "abort --yes all | status"),
            ("--json daemon status", "daemon status --json"),
            ("--json --rule list", "rule list --json"),
            ("--json --addnode a b", "node add --json a b"),
            ("add . --node list", "add . | node list"),
            ("--add . --node add a b", "add . | node add a b"),
            ("--yes node rm a", "node rm --yes a"),
            ("--yes node list", "node list"),
            ("--yes --delnode a --status", "node rm --yes a | status"),
            ("logs 3 -f --stderr", "logs 3 -f --stderr"),
            ("--daemon stop", "daemon stop"),
            ("rule add 1 'abort: loss > 5'", "rule add 1 abort: loss > 5"),
            ("--version", "version"),
            ("-h", "help"),
            ("help start", "help start"),
            ("--start --help", "start --help"),
            ("--status -- --start", "status -- --start"),
            ("", "status"),
            ("--json", "status --json"),
        ];
        for (text, want) in table {
            assert_eq!(shown(text), want, "{text}");
        }
    }

    #[test]
    fn every_step_is_read_by_its_verb() {
        let lines = [
            "--start 124-186",
            "--restart 'crashed,144-149,170,175'",
            "--abort 'runtime>7200&&errorrate>0.40'",
            "--abort '!finished && loss > 3' --grace 30s --signal INT --yes",
            "--add . --start all --wait all --status nodes",
            "--json daemon status",
            "--json --yes --delnode alpha",
            "status --sort -loss --columns id,loss,'val loss'",
            "results all --by lr,x --by seed --best 'test error' -o out.csv",
            "metrics 3 loss 'val loss' --csv",
            "rule rm 124-186 3",
            "logs 144.2 -f --lines 10",
            "start . --dry-run --as-added --big --at-most 3",
            "restart lost --abandon -y",
            "set 7 lr=0.1 resources.memory=8G --dry-run",
            "set 7 --unset lr --unset node",
            "--copyexp 7 slow --set lr=0.001",
            "restart 7 --set lr=0.1",
            "note 7 diverged after 3 epochs --json",
            "tag 7 +a -b --json",
        ];
        for text in lines {
            for step in line(text).expect(text) {
                let read = read::read(&step);
                assert!(
                    matches!(read, Ok(read::ParsedStep::Do(_))),
                    "{text}: {read:?}"
                );
            }
        }
    }

    #[test]
    fn every_verb_and_subverb_has_two_examples_that_are_read() {
        let verbs = line::command().get_subcommands();
        let mut all: Vec<(String, &clap::Command)> = Vec::new();
        for verb in verbs {
            let parts = verb.get_subcommands().filter(|part| !part.is_hide_set());
            let parts =
                parts.map(|part| (format!("{} {}", verb.get_name(), part.get_name()), part));
            all.push((verb.get_name().to_owned(), verb));
            all.extend(parts);
        }
        for (name, verb) in all {
            let shown = verb.get_after_help().map(ToString::to_string);
            let shown = shown.unwrap_or_default();
            let examples: Vec<&str> = shown
                .lines()
                .filter_map(|line| line.strip_prefix("  neroman "))
                .map(|line| line.split(" > ~").next().unwrap_or(line))
                .collect();
            assert!(examples.len() >= 2, "{name}: {shown}");
            for text in examples {
                let steps = line(text).unwrap_or_else(|fault| panic!("{text}: {}", fault.text()));
                assert_eq!(steps.len(), 1, "{text}");
                let typed = format!("{} {}", steps[0].verb, steps[0].words.join(" "));
                assert!(typed.starts_with(&name), "{name}: {text}");
                let read = read::read(&steps[0]);
                assert!(
                    matches!(read, Ok(read::ParsedStep::Do(_))),
                    "{text}: {read:?}"
                );
            }
        }
    }

    #[test]
    fn the_help_of_every_verb_begins_as_the_list_of_verbs_describes_it() {
        for (verb, about) in line::listed() {
            let steps = line(&format!("{verb} --help")).expect(&verb);
            let Ok(read::ParsedStep::Help(text)) = read::read(&steps[0]) else {
                panic!("{verb} has no help");
            };
            assert_eq!(text.lines().next(), Some(about.as_str()), "{verb}");
            assert!(text.contains(&format!("Usage: neroman {verb}")), "{text}");
        }
    }

    #[test]
    fn a_shell_that_completes_shows_verbs_as_their_list_does() {
        let verbs = line::all_with_options();
        for (verb, about) in line::listed() {
            let shown = verbs.find_subcommand(&verb).expect(&verb).get_about();
            assert_eq!(shown.map(ToString::to_string), Some(about), "{verb}");
        }
    }

    #[test]
    fn a_verb_that_is_not_built_is_refused_by_name() {
        let mut lines: Vec<String> = names::NOT_BUILT
            .iter()
            .flat_map(|verb| [(*verb).to_owned(), format!("--{verb} x")])
            .collect();
        lines.extend(
            names::NOT_BUILT_OPTIONS
                .iter()
                .map(|(verb, option)| format!("{verb} 1 --{option} x")),
        );
        for text in lines {
            let fault = line(&text)
                .and_then(|steps| steps.iter().map(read::read).collect::<Result<Vec<_>, _>>())
                .expect_err(&text);
            assert_eq!(fault.exit_code, 2, "{text}");
            assert!(
                fault.what.contains("not built yet"),
                "{text}: {}",
                fault.what
            );
        }
    }

    #[test]
    fn mistakes_name_what_was_meant() {
        let table = [
            ("strat all", "did you mean `neroman start`?"),
            ("--statsu", "did you mean `--status`?"),
            ("start all --at-mots 3", "--at-most"),
            ("start", "neroman start 124-186"),
            ("abort", "neroman abort last"),
            ("kill 7", "did you mean `neroman abort`?"),
            ("ps", "did you mean `neroman status`?"),
            ("list", "did you mean `neroman status`?"),
            ("--stop 7", "did you mean `--abort`?"),
            ("-start 1", "did you mean `--start`?"),
            ("delete 7", "did you mean `neroman rm`?"),
            ("log 7", "did you mean `neroman logs`?"),
            ("--nodes", "did you mean `neroman status nodes`?"),
            ("rule", "neroman rule list|why|add|backtest|rm"),
            ("daemon restart", "neroman daemon start|stop|status|logs"),
            ("frobnicate", "`neroman help` lists the verbs"),
            ("--submit", "usage: neroman --submit SEL [NODE]"),
            ("add . --node zz", "neroman start SEL --node NODE"),
            ("add . --node", "neroman start SEL --node NODE"),
            ("--add . --node=zz", "neroman start SEL --node NODE"),
            ("wait 1 --node zz", "it is one of `run`,"),
            ("completions bahs", "did you mean `bash`?"),
            ("node add box box --shared yess", "did you mean `yes`?"),
        ];
        for (text, hint) in table {
            let fault = line(text)
                .and_then(|steps| steps.iter().map(read::read).collect::<Result<Vec<_>, _>>())
                .expect_err(text);
            assert_eq!(fault.exit_code, 2, "{text}");
            assert!(fault.hint.contains(hint), "{text}: {}", fault.text());
        }
    }

    proptest::proptest! {
        /// Any line of words is read or refused, and operands are kept as typed.
        #[test]
        fn any_line_is_read_or_refused(words in proptest::collection::vec(
            proptest::prop_oneof![
                "[ -~]{0,8}",
                proptest::sample::select(vec![
                    "--start", "--wait", "--add", "start", "--", "--json", "-f", "--submit",
                    "144.2", "!x", "--node", "--rule", "add",
                ]).prop_map(str::to_owned),
            ], 0..8))
        {
            if let Ok(steps) = cut(&words) {
                for step in steps {
                    let _ = read::read(&step);
                }
            }
        }
    }
}
