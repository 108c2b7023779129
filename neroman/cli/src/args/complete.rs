//! Completions that know nodes and experiments: they read the configuration and ask a
//! daemon that runs.

mod picks;

use std::ffi::OsStr;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use nero_config::{ANY, Config, NODE_SETTINGS, NotifyEvent, SETTINGS};
use nero_model::Home;

pub use picks::{
    metric_name, param_name, param_to_set, picked, picked_or_path, picked_or_removed, rule_text,
    value_name,
};

/// Completes the name of a node.
pub fn node_name() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| fitting(begun, config().iter().flat_map(nodes)))
}

/// Completes the name of a group.
pub fn group_name() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| fitting(begun, config().iter().flat_map(groups)))
}

/// Completes a node, a group, or `any`.
pub fn target_name() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| fitting(begun, config().iter().flat_map(targets)))
}

/// Completes what `status` shows: experiments, `nodes`, a node, a group.
pub fn status_word() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let all = ("nodes".to_owned(), "all nodes and how they do".to_owned());
        let config = config();
        let named = config.iter().flat_map(|config| {
            let groups = groups(config);
            nodes(config).chain(groups)
        });
        picks::last_element(begun, [all].into_iter().chain(named).collect())
    })
}

/// Completes a node, or a run or experiment on one.
pub fn node_or_run() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let nodes = config().iter().flat_map(nodes).collect();
        picks::last_element(begun, nodes)
    })
}

/// Completes a key of `config set`.
pub fn config_key() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let own = SETTINGS.map(|(key, about)| (key.to_owned(), about.to_owned()));
        let config = config();
        let others = config.iter().flat_map(|config| {
            let groups = groups(config).map(|(name, of)| (format!("groups.{name}"), of));
            let fields = config.nodes.iter().flat_map(|(name, node)| {
                let local = node.address.is_none();
                let fields = NODE_SETTINGS
                    .iter()
                    .filter(move |(field, _)| !(local && ["address", "key"].contains(field)));
                fields.map(move |(field, about)| {
                    (format!("nodes.{name}.{field}"), (*about).to_owned())
                })
            });
            groups.chain(fields)
        });
        fitting(begun, own.into_iter().chain(others))
    })
}

/// Every key and every field of a node, for the test of help.
#[cfg(test)]
pub fn keys() -> Vec<&'static str> {
    let all = SETTINGS.iter().chain(&NODE_SETTINGS);
    all.map(|(key, _)| *key).collect()
}

/// Completes the value of `config set`, as the key before it wants it.
pub fn config_value() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let words: Vec<String> = std::env::args().collect();
        let config = config();
        let config = config.iter();
        match key_of(&words) {
            Some("default_node") => fitting(begun, config.flat_map(targets)),
            Some(key) if key.starts_with("groups.") => fitting(begun, config.flat_map(nodes)),
            Some("mail.security") => fixed(begun, &["starttls", "tls", "none"]),
            Some("notify.events") => {
                let events = NotifyEvent::ALL.map(NotifyEvent::as_str);
                fixed(begun, &events)
            }
            Some(key) if key.ends_with(".shared") => fixed(begun, &["true", "false"]),
            Some(key) if key.ends_with(".listen") => fixed(begun, &["auto", "never"]),
            _ => Vec::new(),
        }
    })
}

/// The key in the words of a line: what follows `config set`.
fn key_of(words: &[String]) -> Option<&str> {
    let at = words.windows(2).position(|two| two == ["config", "set"])?;
    words.get(at + 2).map(String::as_str)
}

/// A word, and its explanation.
type CompletionWord = (String, String);

/// The configuration. One that cannot be read completes nothing; the verb
/// reports why.
fn config() -> Option<Config> {
    let home = Home::find().ok()?;
    Config::read(&home.config).ok()
}

fn nodes(config: &Config) -> impl Iterator<Item = CompletionWord> {
    config.nodes.iter().map(|(name, node)| {
        let address = node.address.clone();
        (
            name.clone(),
            address.unwrap_or_else(|| "this machine".into()),
        )
    })
}

fn groups(config: &Config) -> impl Iterator<Item = CompletionWord> {
    let groups = config.groups.iter();
    groups.map(|(name, group)| (name.clone(), group.nodes.join(", ")))
}

fn targets(config: &Config) -> impl Iterator<Item = CompletionWord> {
    let any = (ANY.to_owned(), "whichever has most room".to_owned());
    nodes(config).chain(groups(config)).chain([any])
}

fn fixed(begun: &OsStr, words: &[&str]) -> Vec<CompletionCandidate> {
    let word = |word: &&str| ((*word).to_owned(), String::new());
    fitting(begun, words.iter().map(word))
}

/// The words that begin so.
pub fn fitting(
    begun: &OsStr,
    words: impl Iterator<Item = CompletionWord>,
) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    words
        .filter(|(word, _)| word.starts_with(&*begun))
        .map(|(word, about)| {
            let about = nero_model::safe::Safe::line(&about).to_string();
            let help = (!about.is_empty()).then(|| about.into());
            CompletionCandidate::new(word).help(help)
        })
        .collect()
}
