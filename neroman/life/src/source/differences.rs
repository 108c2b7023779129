//! What differs between two readings of an experiment, in words.

use std::collections::BTreeMap;

use nero_format::{Definition, Value};

/// The differences of two definitions, one phrase each.
pub(crate) fn differences(old: &Definition, new: &Definition) -> Vec<String> {
    let mut phrases = params(old, new);
    if crate::fold::taken_over::without_source(old) {
        // It has of the rest only what specs of runs hold.
        return phrases;
    }
    // The name of a row that a block made follows its parameters.
    if old.name != new.name && (phrases.is_empty() || old.block != new.block) {
        phrases.insert(0, format!("name {} → {}", old.name, new.name));
    }
    let mut say = |differs: bool, what: &str| {
        if differs {
            phrases.push(what.to_owned());
        }
    };
    // The command follows the parameters; another change of it is listed.
    let filled_alike = old.params == new.params || old.argv.len() != new.argv.len();
    say(filled_alike && old.argv != new.argv, "command changed");
    say(old.collections != new.collections, "collections changed");
    say(old.env != new.env, "env changed");
    say(old.resources != new.resources, "resources changed");
    say(
        old.files != new.files
            || old.linked_files != new.linked_files
            || old.required_files != new.required_files,
        "files changed",
    );
    say(old.outputs != new.outputs, "outputs changed");
    let rules = |definition: &Definition| -> Vec<_> {
        definition
            .rules
            .iter()
            .map(|rule| (rule.action, rule.text.clone()))
            .collect()
    };
    say(rules(old) != rules(new), "rules changed");
    say(
        old.metric_patterns != new.metric_patterns || old.metric_reading != new.metric_reading,
        "metrics changed",
    );
    say(old.progress != new.progress, "progress changed");
    say(old.monitor != new.monitor, "monitor changed");
    say(old.buffering != new.buffering, "buffering changed");
    say(old.results_dir != new.results_dir, "results_dir changed");
    say(
        old.results_max_bytes != new.results_max_bytes,
        "results_max changed",
    );
    if phrases.is_empty() && old.fingerprint() != new.fingerprint() {
        phrases.push("definition changed".to_owned());
    }
    phrases
}

fn params(old: &Definition, new: &Definition) -> Vec<String> {
    let before: BTreeMap<&str, (&str, &Value)> = old
        .params
        .iter()
        .map(|param| (param.name.as_str(), (param.text.as_str(), &param.value)))
        .collect();
    let mut phrases = Vec::new();
    for param in &new.params {
        match before.get(param.name.as_str()) {
            Some((text, value)) if *text == param.text && **value == param.value => {}
            Some((text, _)) => phrases.push(format!("{} {text} → {}", param.name, param.text)),
            None => phrases.push(format!("{} {} (new)", param.name, param.text)),
        }
    }
    for param in &old.params {
        if !new.params.iter().any(|other| other.name == param.name) {
            phrases.push(format!("{} removed", param.name));
        }
    }
    phrases
}
