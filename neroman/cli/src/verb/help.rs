//! `help` and `version`: answered without a daemon.

use nero_model::VERSION;
use nero_views::json;
use serde_json::json;

use crate::fault::{Fault, Stop, code};
use crate::line;
use crate::names;
use crate::read::{Read, read};
use crate::say::{Out, Screen, page};
use crate::steps::Step;

const BEFORE: &str = "neroman runs, watches and steers computational experiments.";

const USAGE: [(&str, &str); 2] = [
    ("usage: ", "neroman VERB …"),
    (
        "or as flags, in order: ",
        "neroman --add . --start all --wait all",
    ),
];

const AFTER: [&str; 2] = [
    "SEL picks experiments: 144, 124-186, 1-9:2, all, last, crashed, a name, a glob (lr_*), and \
     expressions ('runtime > 2h && error_rate > 0.40', 'tmod<1h'); commas join.",
    "`neroman help VERB` shows options and examples. Most verbs take --json. Nothing to begin with? \
     `neroman status` prints what to type. These have a page of their own, as `neroman help rules`:",
];

const SELECTORS: &str = include_str!("../../../../docs/selectors.md");
const NODES: &str = include_str!("../../../../docs/nodes.md");
const MAIL: &str = include_str!("../../../../docs/mail.md");
const FORMAT: &str = include_str!("../../../../docs/format.md");
const METRICS: &str = include_str!("../../../../docs/metrics.md");
const GPUS: &str = include_str!("../../../../docs/gpus.md");

/// Something that help explains beside verbs.
struct Topic {
    name: &'static str,
    about: &'static str,
    /// The page of `docs/`, and the heading there.
    page: &'static str,
    heading: &'static str,
}

const fn topic(
    name: &'static str,
    about: &'static str,
    page: &'static str,
    heading: &'static str,
) -> Topic {
    Topic {
        name,
        about,
        page,
        heading,
    }
}

const TOPICS: [Topic; 10] = [
    topic("selectors", "How experiments are picked", SELECTORS, ""),
    topic(
        "expressions",
        "Conditions on facts, parameters and metrics",
        SELECTORS,
        "Expressions",
    ),
    topic(
        "rules",
        "What ends a run or warns while it lives",
        SELECTORS,
        "Rules",
    ),
    topic(
        "cohorts",
        "Rules over the peers of a run",
        SELECTORS,
        "Rules over a cohort",
    ),
    topic(
        "states",
        "What the words of the state column mean",
        SELECTORS,
        "States",
    ),
    topic("format", "What stands in neronet.yaml", FORMAT, ALL),
    topic(
        "metrics",
        "What is read from the output of jobs",
        METRICS,
        ALL,
    ),
    topic("gpus", "Who gets which card", GPUS, ""),
    topic("config", "What stands in config.yaml", NODES, "config.yaml"),
    topic("mail", "Who is told what, and how", MAIL, ""),
];

/// In the place of a heading: the page with all its sections.
const ALL: &str = "*";

impl Topic {
    fn text(&self) -> &'static str {
        match self.heading {
            ALL => page::whole(self.page),
            heading => page::section(self.page, heading),
        }
    }
}

/// `help [VERB|TOPIC]`.
pub fn run(out: &Out, wanted: Option<&str>) -> Result<u8, Stop> {
    let Some(wanted) = wanted else {
        out.text(&overview(out.screen.width))?;
        return Ok(code::OK);
    };
    let wanted = wanted.trim_start_matches('-');
    let topic = TOPICS.iter().find(|topic| topic.name == wanted);
    let page = topic.map(|topic| page::plain(topic.text(), out.screen.width));
    // `config` and `metrics` are verbs and topics.
    let verb = match (of(wanted), &page) {
        (Ok(verb), _) => Some(verb),
        (Err(_), Some(_)) => None,
        (Err(fault), None) => return Err(fault.into()),
    };
    let parts: Vec<String> = verb.into_iter().chain(page).collect();
    out.text(&parts.join("\n"))?;
    Ok(code::OK)
}

/// `--version`.
pub fn version(out: &Out, as_json: bool) -> Result<u8, Stop> {
    if as_json {
        out.json(&json::document(json!({"version": VERSION})))?;
    } else {
        out.line(&format!("neroman {VERSION}"))?;
    }
    Ok(code::OK)
}

/// Every verb with its line, and the topics.
pub fn overview(width: u16) -> String {
    let fold = |begin: &str, text: &str| page::folded(begin, text, width);
    let row = |(name, about): (String, String)| fold(&format!("  {name:<12} "), &about);
    let usage = USAGE.map(|(begin, line)| fold(begin, line)).concat();
    let verbs: String = line::listed().into_iter().map(row).collect();
    let after = AFTER.map(|text| fold("", text)).join("\n");
    let topics = TOPICS.iter();
    let topics = topics.map(|topic| row((topic.name.to_owned(), topic.about.to_owned())));
    let before = fold("", BEFORE);
    format!(
        "{before}\n{usage}\n{verbs}\n{after}\n{}",
        topics.collect::<String>()
    )
}

/// The words that `help` explains, with a line each: verbs and topics.
pub fn words() -> impl Iterator<Item = (String, String)> {
    let topics = TOPICS.iter();
    let topics = topics.map(|topic| (topic.name.to_owned(), topic.about.to_owned()));
    let verbs = line::listed();
    // `config` and `metrics` are verbs and topics.
    let topics = topics.filter(move |(name, _)| line::command().find_subcommand(name).is_none());
    verbs.into_iter().chain(topics)
}

/// The help of a verb.
fn of(topic: &str) -> Result<String, Fault> {
    let verb = match names::read(topic) {
        names::VerbWord::Verb(verb, _) => verb,
        names::VerbWord::NotBuilt(verb) => return Err(Fault::not_built(format!("`{verb}`"))),
        names::VerbWord::Unknown => {
            let known = line::command()
                .get_subcommands()
                .map(clap::Command::get_name);
            let near = nero_model::names::suggest(
                topic,
                known.chain(TOPICS.iter().map(|topic| topic.name)),
            );
            return Err(
                Fault::usage(format!("there is no help for `{topic}`")).hint(match near {
                    Some(near) => format!("did you mean `neroman help {near}`?"),
                    None => "`neroman help` lists the verbs and topics".to_owned(),
                }),
            );
        }
    };
    let step = Step {
        verb,
        words: vec!["--help".into()],
    };
    match read(&step)? {
        Read::Help(text) => Ok(text),
        Read::Do(_) => Ok(overview(Screen::find().width)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> String {
        let topic = TOPICS.iter().find(|topic| topic.name == name);
        let topic = topic.unwrap_or_else(|| panic!("no topic {name}"));
        page::plain(topic.text(), 80)
    }

    /// The words between backticks, and those that stand in a list there.
    fn words(text: &str) -> Vec<&str> {
        let quoted = text.split('`').skip(1).step_by(2);
        quoted.flat_map(str::split_whitespace).collect()
    }

    #[test]
    fn help_explains_every_word_of_the_language() {
        let states = shown("states");
        for word in nero_expr::State::words() {
            assert!(words(&states).contains(&word), "{word}: {states}");
        }
        let expressions = shown("expressions");
        let facts = expressions.replace(['(', ')', '\n'], " ");
        for fact in nero_expr::Fact::ALL {
            assert!(
                words(&facts).contains(&fact.word()),
                "{}: {facts}",
                fact.word()
            );
        }
        let rules = shown("rules");
        for action in ["abort:", "warn:", "notify:"] {
            assert!(words(&rules).contains(&action), "{action}: {rules}");
        }
        let config = shown("config");
        let keys = crate::args::config_keys();
        assert!(keys.len() > 8, "{keys:?}");
        for key in keys {
            assert!(config.contains(key), "{key}: {config}");
        }
        assert!(
            shown("selectors").contains("144.2"),
            "{}",
            shown("selectors")
        );
    }

    #[test]
    fn help_lists_its_topics_and_finds_them() {
        let all = overview(100);
        for topic in &TOPICS {
            assert!(all.contains(&format!("\n  {:<12} ", topic.name)), "{all}");
            assert!(!topic.text().is_empty(), "{}", topic.name);
        }
        for (typed, hint) in [("selector", "help selectors"), ("zzzz", "verbs and topics")] {
            assert!(of(typed).unwrap_err().hint.contains(hint), "{typed}");
        }
    }
}
