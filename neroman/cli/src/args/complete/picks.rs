//! Words that pick experiments, and names in expressions. Experiments, parameters and metrics
//! are known to the daemon: it is asked where it runs. A completion starts no daemon, and goes
//! without its words when the daemon does not answer soon.

use std::ffi::OsStr;
use std::time::Duration;

use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use nero_expr::{Fact, State, is_name_char};
use nero_format::ACTIONS;
use nero_model::Home;
use nero_wire::v1::CompleteRequest;
use nero_wire::v1::complete_request::Kind;
use nero_wire::v1::man_client::ManClient;

use super::{CompletionWord, fitting};
use crate::connect::{Client, Program};

/// A person who pressed a key waits no longer.
const PATIENCE: Duration = Duration::from_millis(800);

/// What a name in an expression may be.
const VALUES: &[Kind] = &[Kind::Params, Kind::Metrics];

/// Completes a selector.
pub fn picked() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| last_element(begun, Vec::new()))
}

/// Completes a selector of `rm`, after `--undo` what was removed.
pub fn picked_or_removed() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let is_undo = std::env::args().any(|word| word == "--undo");
        let kind = if is_undo {
            Kind::Removed
        } else {
            Kind::Experiments
        };
        last_of(begun, Vec::new(), kind)
    })
}

/// Completes a selector or a path.
pub fn picked_or_path() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let picked = last_element(begun, Vec::new());
        if picked.is_empty() {
            PathCompleter::any().complete(begun)
        } else {
            picked
        }
    })
}

/// Completes the last name of an expression, or of several that commas join.
pub fn value_name() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| last_name(begun, VALUES, facts().collect()))
}

/// Completes the name of a metric.
pub fn metric_name() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| last_name(begun, &[Kind::Metrics], Vec::new()))
}

/// Completes the name of a parameter.
pub fn param_name() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| last_name(begun, &[Kind::Params], Vec::new()))
}

/// Completes the name before the `=` of an assignment.
pub fn param_to_set() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let names = begun.to_str().filter(|text| !text.contains('='));
        let names = names.map(|text| asked(text, &[Kind::Params]));
        let names = names.unwrap_or_default().into_iter();
        fitting(
            begun,
            names.map(|(name, about)| (format!("{name}="), about)),
        )
    })
}

/// Completes the action of a rule, then its expression.
pub fn rule_text() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        if begun.to_string_lossy().contains(':') {
            return last_name(begun, VALUES, facts().chain(states()).collect());
        }
        let actions = ACTIONS.iter();
        fitting(
            begun,
            actions.map(|word| (format!("{word}:"), String::new())),
        )
    })
}

/// Completes the last of the elements that commas join; `others` are words
/// that stand alone.
pub fn last_element(begun: &OsStr, others: Vec<CompletionWord>) -> Vec<CompletionCandidate> {
    last_of(begun, others, Kind::Experiments)
}

fn last_of(begun: &OsStr, others: Vec<CompletionWord>, kind: Kind) -> Vec<CompletionCandidate> {
    let Some(text) = begun.to_str() else {
        return Vec::new();
    };
    let (before, last) = match text.rsplit_once(',') {
        Some((before, last)) => (format!("{before},"), last),
        None => (String::new(), text),
    };
    // An expression has begun.
    if !last.chars().all(|c| is_name_char(c) || c == '*') {
        return last_name(begun, VALUES, facts().chain(states()).collect());
    }
    let alone = others.into_iter().filter(|_| before.is_empty());
    let words = alone.chain(states()).chain(plain(["all", "last"]));
    // Names of values are many: an expression may begin with each.
    let kinds: &[Kind] = if last.is_empty() {
        &[kind]
    } else {
        &[kind, Kind::Params, Kind::Metrics]
    };
    let words = words.chain(asked(last, kinds));
    fitting(
        begun,
        words.map(|(word, about)| (format!("{before}{word}"), about)),
    )
}

/// The words for the last name of a text; `others` need no daemon.
fn last_name(
    begun: &OsStr,
    kinds: &[Kind],
    others: Vec<CompletionWord>,
) -> Vec<CompletionCandidate> {
    let Some(text) = begun.to_str() else {
        return Vec::new();
    };
    let before = text.trim_end_matches(is_name_char);
    let mut last = text.get(before.len()..).unwrap_or_default();
    // `-loss` sorts from the end.
    last = last.strip_prefix('-').unwrap_or(last);
    let before = text.strip_suffix(last).unwrap_or_default();
    let words = others.into_iter().chain(asked(last, kinds));
    fitting(
        begun,
        words.map(|(word, about)| (format!("{before}{word}"), about)),
    )
}

fn facts() -> impl Iterator<Item = CompletionWord> {
    let facts = Fact::ALL.into_iter();
    facts.map(|fact| (fact.as_str().to_owned(), "a fact".to_owned()))
}

fn states() -> impl Iterator<Item = CompletionWord> {
    plain(State::words())
}

fn plain(words: impl IntoIterator<Item = &'static str>) -> impl Iterator<Item = CompletionWord> {
    let words = words.into_iter();
    words.map(|word| (word.to_owned(), String::new()))
}

/// The daemon's words that begin so; none where no daemon runs, or it does not answer.
fn asked(begun: &str, kinds: &[Kind]) -> Vec<CompletionWord> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return Vec::new();
    };
    let asking = async { tokio::time::timeout(PATIENCE, ask(begun, kinds)).await };
    runtime.block_on(asking).ok().flatten().unwrap_or_default()
}

async fn ask(begun: &str, kinds: &[Kind]) -> Option<Vec<CompletionWord>> {
    let (home, program) = (Home::find().ok()?, Program::own().ok()?);
    let mut client = Client::connect_only(&home, &program).await.ok()??;
    let request = CompleteRequest {
        begun: begun.to_owned(),
        kinds: kinds.iter().map(|kind| (*kind).into()).collect(),
    };
    // Asked once: a daemon that ends meanwhile is not started again.
    let asked = client.once(request, ManClient::complete);
    let words = asked.await.ok()??.words.into_iter();
    Some(words.map(|one| (one.word, one.about)).collect())
}
