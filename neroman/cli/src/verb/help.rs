//! `help`, `version` and `completions`: answered without a daemon.

use nero_model::VERSION;
use serde_json::json;

use crate::args::{self, Read, Shell};
use crate::fault::{Fault, Stop, code};
use crate::names;
use crate::say::{Out, json};
use crate::steps::Step;

const BEFORE: &str = "\
neroman runs, watches and steers computational experiments.

usage: neroman VERB …        or as flags, in order: neroman --add . --start all --wait all

";

const AFTER: &str = "
SEL picks experiments: 144  124-186  1-9:2  all  last  crashed  a name  a glob (lr_*)  and
expressions ('runtime > 2h && error_rate > 0.40', 'tmod<1h'); commas join.

`neroman help VERB` says more. Most verbs take --json. Nothing to begin with? `neroman status`.
";

/// `help [VERB]`.
pub fn run(out: &Out, topic: Option<&str>) -> Result<u8, Stop> {
    match topic {
        None => out.text(&overview())?,
        Some(topic) => out.text(&of(topic)?)?,
    }
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

/// `completions SHELL`.
pub fn completions(out: &Out, shell: Shell) -> Result<u8, Stop> {
    let script = args::completions(shell)
        .map_err(|error| Fault::new(code::BUG, "cannot write the script").because(&error))?;
    out.bytes(&script)?;
    Ok(code::OK)
}

/// Every verb with its line.
pub fn overview() -> String {
    let mut text = String::from(BEFORE);
    for (verb, about) in args::listed() {
        text.push_str(&format!("  {verb:<12} {about}\n"));
    }
    text.push_str(AFTER);
    text
}

fn of(topic: &str) -> Result<String, Fault> {
    let topic = topic.trim_start_matches('-');
    let verb = match names::read(topic) {
        names::Word::Verb("submit") => "start",
        names::Word::Verb("monitor") => "logs",
        names::Word::Verb("addnode" | "delnode") => "node",
        names::Word::Verb(verb) => verb,
        names::Word::NotBuilt(verb) => return Err(Fault::not_built(format!("`{verb}`"))),
        names::Word::Unknown => {
            return Err(Fault::usage(format!("there is no help for `{topic}`"))
                .hint("`neroman help` lists the verbs"));
        }
    };
    let step = Step {
        verb,
        words: vec!["--help".into()],
    };
    match args::read(&step)? {
        Read::Help(text) => Ok(text),
        Read::Do(_) => Ok(overview()),
    }
}
