//! `help` and `version`: answered without a daemon.

pub mod man;
pub mod version;

use nero_views::text;

use crate::fault::{Fault, Stop, code};
use crate::line;
use crate::names;
use crate::read::{ParsedStep, read};
use crate::say::{Screen, VerbOutput, page};
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
    "SEL picks experiments: 144, 124-186, all, last, crashed, a name, a glob (lr_*), an expression \
     ('runtime > 2h && error_rate > 0.40', 'tmod<1h'); commas join.",
    "`neroman help VERB` shows options and examples. Nothing to begin with? `neroman status` prints \
     what to type. Pages: `neroman help`",
];

/// Verbs of one purpose: those of every day with a line each, the rest by name.
struct VerbGroup {
    name: &'static str,
    daily: &'static [&'static str],
    rest: &'static [&'static str],
}

const GROUPS: [VerbGroup; 6] = [
    VerbGroup {
        name: "define",
        daily: &["add", "run", "set"],
        rest: &["template", "copy", "note", "tag", "rm", "import"],
    },
    VerbGroup {
        name: "run",
        daily: &["start", "restart", "abort", "wait", "rule"],
        rest: &["pause", "resume", "adopt", "noodles"],
    },
    VerbGroup {
        name: "look",
        daily: &["status", "top", "show", "logs", "plot"],
        rest: &["web", "mcp", "metrics", "diff"],
    },
    VerbGroup {
        name: "results",
        daily: &["results", "fetch"],
        rest: &["export", "open", "path"],
    },
    VerbGroup {
        name: "nodes",
        daily: &["node", "clean"],
        rest: &["infra", "shell", "exec", "du"],
    },
    VerbGroup {
        name: "housekeeping",
        daily: &["config", "mail", "daemon"],
        rest: &["backup", "completions"],
    },
];

const SELECTORS: &str = include_str!("../../../../../docs/selectors.md");
const NODES: &str = include_str!("../../../../../docs/nodes.md");
const MAIL: &str = include_str!("../../../../../docs/mail.md");
const FORMAT: &str = include_str!("../../../../../docs/format.md");
const PARAMETERS: &str = include_str!("../../../../../docs/parameters.md");
const JOBS: &str = include_str!("../../../../../docs/jobs.md");
const ORDER: &str = include_str!("../../../../../docs/order.md");
const RESULTS: &str = include_str!("../../../../../docs/results.md");
const METRICS: &str = include_str!("../../../../../docs/metrics.md");
const GPUS: &str = include_str!("../../../../../docs/gpus.md");
const TOP: &str = include_str!("../../../../../docs/top.md");
const MCP: &str = include_str!("../../../../../docs/mcp.md");
const WEB: &str = include_str!("../../../../../docs/web.md");
const CONTAINERS: &str = include_str!("../../../../../docs/containers.md");
const SCHEDULERS: &str = include_str!("../../../../../docs/schedulers.md");
const MESSAGES: &str = include_str!("../../../../../docs/messages.md");
const VARIABLES: &str = include_str!("../../../../../docs/reference/variables.md");
const INFRA: &str = include_str!("../../../../../docs/infra.md");

/// Something that help explains beside verbs.
struct Topic {
    name: &'static str,
    about: &'static str,
    /// The page of `docs/`, and the heading there.
    page: &'static str,
    heading: &'static str,
}

/// Each topic: its name, its page, the heading there, and a line about it.
macro_rules! topics {
    ($($name:literal $page:ident $heading:expr => $about:literal)*) => {
        [$(Topic { name: $name, about: $about, page: $page, heading: $heading }),*]
    };
}

const TOPICS: [Topic; 23] = topics! {
    "selectors" SELECTORS "" => "How experiments are picked"
    "expressions" SELECTORS "Expressions" => "Conditions on facts, parameters and metrics"
    "rules" SELECTORS "Rules" => "What ends a run or warns while it lives"
    "cohorts" SELECTORS "Rules over a cohort" => "Rules over the peers of a run"
    "states" SELECTORS "States" => "What the words of the state column mean"
    "format" FORMAT ALL => "What stands in neronet.yaml"
    "parameters" PARAMETERS ALL => "Many values, and how a job gets them"
    "jobs" JOBS ALL => "What a job finds, and where it runs"
    "order" ORDER ALL => "What comes first, and what follows an end"
    "results" RESULTS ALL => "What comes home, and files of results"
    "metrics" METRICS ALL => "What is read from the output of jobs"
    "containers" CONTAINERS ALL => "Runs in podman, docker, apptainer, charliecloud"
    "infra" INFRA ALL => "A set of hosts, ready with one line"
    "view" TOP ALL => "The live view: keys, and what it costs"
    "mcp" MCP ALL => "Tools for a coding agent"
    "page" WEB ALL => "The page in the browser, and who is answered"
    "gpus" GPUS "" => "Who gets which card"
    "config" NODES "config.yaml" => "What stands in config.yaml"
    "nodes" NODES ALL => "Machines, groups, and the way to them"
    "schedulers" SCHEDULERS ALL => "Nodes with SLURM, Grid Engine or another scheduler"
    "messages" MESSAGES ALL => "What messages mean, and what to do"
    "variables" VARIABLES ALL => "Environment variables"
    "mail" MAIL "" => "Who is told what, and how"
};

/// In the place of a heading: the page with all its sections.
const ALL: &str = "*";

impl Topic {
    fn text(&self) -> &'static str {
        match self.heading {
            ALL => page::whole(self.page),
            heading => page::section(self.page, heading),
        }
    }

    /// The text for a terminal. A link to a page that is a topic, too, names that: an installed
    /// program has no pages.
    fn rendered(&self, width: u16) -> String {
        let mut text = self.text().replace("](../", "](");
        for Topic { name, .. } in &TOPICS {
            let (file, topic) = (format!("]({name}.md"), format!("]({}{name}", page::HELP));
            text = text.replace(&file, &topic);
        }
        page::plain(&text, width)
    }
}

/// `help [VERB|TOPIC]`.
pub fn run(out: &VerbOutput, wanted: Option<&str>) -> Result<u8, Stop> {
    let Some(wanted) = wanted else {
        out.text(&overview(out.screen.width))?;
        return Ok(code::OK);
    };
    let wanted = wanted.trim_start_matches('-');
    let topic = TOPICS.iter().find(|topic| topic.name == wanted);
    let page = topic.map(|topic| topic.rendered(out.screen.width));
    // `config`, `metrics` and `results` are verbs and topics.
    let verb = match (of(wanted), &page) {
        (Ok(verb), _) => Some(verb),
        (Err(_), Some(_)) => None,
        (Err(fault), None) => return Err(fault.into()),
    };
    out.text(&text::join(verb.into_iter().chain(page), "\n"))?;
    Ok(code::OK)
}

/// The verbs by their purpose, and the topics.
pub fn overview(width: u16) -> String {
    let fold = |begin: &str, text: &str| page::folded(begin, text, width);
    let usage = USAGE.map(|(begin, line)| fold(begin, line)).concat();
    let groups: String = GROUPS.iter().map(|group| group.lines(width)).collect();
    let topics = text::join(topics().map(|topic| topic.name), ", ");
    let [picks, more] = AFTER;
    let after = fold("", picks) + &fold("", &format!("{more} {topics}"));
    format!("{}\n{usage}\n{groups}\n{after}", fold("", BEFORE))
}

impl VerbGroup {
    fn lines(&self, width: u16) -> String {
        let mut lines = String::new();
        let mut heading = self.name;
        for verb in self.daily {
            let about = line::command().find_subcommand(verb);
            let about = about.and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let begin = format!("{heading:<13} {verb:<9} ");
            lines += &page::folded(&begin, &about, width);
            heading = "";
        }
        let begin = format!("{:<13} {:<9} ", "", "also");
        lines + &page::folded(&begin, &self.rest.join(", "), width)
    }
}

/// The words that `help` explains, with a line each: verbs and topics.
pub fn words() -> impl Iterator<Item = (String, String)> {
    let topics = topics().map(|topic| (topic.name.to_owned(), topic.about.to_owned()));
    line::listed().into_iter().chain(topics)
}

/// Topics alone: `config`, `metrics` and `results` are verbs, too, and listed as such.
fn topics() -> impl Iterator<Item = &'static Topic> {
    let verbs = line::command();
    let is_verb = move |name| verbs.find_subcommand(name).is_some();
    TOPICS.iter().filter(move |topic| !is_verb(topic.name))
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
        ParsedStep::Help(text) => Ok(text),
        ParsedStep::Do(_) => Ok(overview(Screen::find().width)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> String {
        let topic = TOPICS.iter().find(|topic| topic.name == name);
        let topic = topic.unwrap_or_else(|| panic!("no topic {name}"));
        topic.rendered(80)
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
                words(&facts).contains(&fact.as_str()),
                "{}: {facts}",
                fact.as_str()
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
    fn each_verb_stands_once_in_an_overview_that_fits_a_screen() {
        let all = GROUPS
            .iter()
            .flat_map(|group| group.daily.iter().chain(group.rest));
        let mut grouped: Vec<String> = all.map(|verb| (*verb).to_owned()).collect();
        grouped.sort();
        let mut verbs: Vec<String> = line::listed().into_iter().map(|(verb, _)| verb).collect();
        verbs.sort();
        assert_eq!(grouped, verbs);
        let shown = overview(80);
        assert!(shown.lines().count() <= 45, "{shown}");
        assert!(
            shown.lines().all(|line| line.chars().count() <= 80),
            "{shown}"
        );
    }

    #[test]
    fn help_lists_its_topics_and_finds_them() {
        let all = overview(100);
        for topic in &TOPICS {
            assert!(all.contains(topic.name), "{all}");
            assert!(!topic.text().is_empty(), "{}", topic.name);
        }
        for (typed, hint) in [("selector", "help selectors"), ("zzzz", "verbs and topics")] {
            assert!(of(typed).unwrap_err().hint.contains(hint), "{typed}");
        }
    }
}
