//! `conditions` of the original, as the rules that they mean.
//!
//! A condition compares the value that a line of the log gives to one variable, the
//! whole word of it. `when: time MINUTES` is a grace period counted from running, so
//! it becomes a bound on `runtime`.

use super::expression::{ParsedAction, checked};
use crate::definition::{RuleAction, RuleDef, Value};
use crate::read::block::Setting;
use crate::read::reader::Reader;
use crate::read::scalar::typed;
use nero_model::safe::quoted;
use nero_yaml::{Entry, Node};

/// The rules of a `conditions` map.
pub(crate) fn read(reader: &mut Reader<'_>, given: &Setting, rules: &mut Vec<RuleDef>) {
    let example = "conditions: {high_loss: {variablename: loss, killvalue: 3, comparator: gt, when: immediately, action: kill}}";
    for entry in reader.map(&given.key, &given.value, example) {
        if let Some(rule) = condition(reader, entry) {
            rules.push(rule);
        }
    }
}

const CONDITION_KEYS: &[&str] = &["variablename", "killvalue", "comparator", "when", "action"];

const COMPARATORS: &[(&str, &str)] = &[
    ("gt", ">"),
    ("lt", "<"),
    ("eq", "=="),
    ("geq", ">="),
    ("leq", "<="),
];

const ACTIONS: &[(&str, RuleAction)] = &[
    ("kill", RuleAction::Abort),
    ("warn", RuleAction::Warn),
    ("email", RuleAction::Notify),
];

/// One condition as the rule that it means.
fn condition(reader: &mut Reader<'_>, entry: &Entry) -> Option<RuleDef> {
    let name = &entry.key;
    let before = reader.count();
    let example =
        "{variablename: loss, killvalue: 3, comparator: gt, when: immediately, action: kill}";
    let entries = reader.map(name, &entry.value, example);
    if reader.count() > before {
        return None;
    }
    for other in entries {
        if !CONDITION_KEYS.contains(&other.key.as_str()) {
            reader.unknown(other, "is no part of a condition", CONDITION_KEYS, &[]);
        }
    }
    let mut part = |key: &str, needed: bool| {
        let found = entries.iter().find(|e| e.key == key && !e.value.is_null());
        match found {
            Some(found) => reader
                .single(key, &found.value)
                .map(|text| (text, &*found.value)),
            None => {
                if needed {
                    let message = format!("the condition {} has no `{key}`", quoted(name));
                    reader.wrong(entry.key_mark, message, format!("for example {example}"));
                }
                None
            }
        }
    };
    let variable = part("variablename", true);
    let killvalue = part("killvalue", true);
    let comparator = part("comparator", true);
    let action = part("action", true);
    let when = part("when", false);
    let variable = variable.and_then(|(text, node)| variable_name(reader, text, node));
    let value = killvalue.and_then(|(text, node)| kill_value(reader, text, node));
    let operator = comparator.and_then(|(_, node)| reader.choice("comparator", node, COMPARATORS));
    let action = action.and_then(|(_, node)| reader.choice("action", node, ACTIONS));
    let grace = match when {
        Some((text, node)) => when_seconds(reader, text, node)?,
        None => None,
    };
    let (variable, value, operator, action) = (variable?, value?, operator?, action?);
    let compared = format!("{variable} {operator} {value}");
    let written = match grace {
        Some(seconds) => format!("runtime >= {seconds}s && {compared}"),
        None => compared,
    };
    if reader.count() > before {
        return None;
    }
    // Made of parts that were checked; nothing of it can be not built.
    checked(
        reader,
        &mut Vec::new(),
        &ParsedAction::of(action),
        Some(name.clone()),
        (&written, entry),
        entry,
    )
}

/// The variable as an expression names it: always the metric, as a whole token.
fn variable_name(reader: &mut Reader<'_>, text: &str, node: &Node) -> Option<String> {
    // `loss:` and `loss =` are what people copy from their log.
    let name = text.trim().trim_end_matches([':', '=']).trim_end();
    if name.is_empty() || name.chars().any(char::is_control) {
        reader.wrong(
            node.mark,
            "a condition names no variable",
            "write the word that the log begins with",
        );
        return None;
    }
    let mut letters = name.chars();
    let is_word = letters
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    Some(if is_word {
        format!("metric.{name}")
    } else {
        format!("metric('{}')", name.replace('\'', "''"))
    })
}

fn kill_value(reader: &mut Reader<'_>, text: &str, node: &Node) -> Option<String> {
    let number = match typed(text.trim(), true) {
        Value::Int(n) => Some(n.to_string()),
        Value::Float(x) if x.is_finite() => Some(x.to_string()),
        Value::Null | Value::Bool(_) | Value::Float(_) | Value::Text(_) => None,
    };
    if number.is_none() {
        let message = format!("{} is no number for `killvalue`", quoted(text));
        reader.wrong(node.mark, message, "for example `killvalue: 0.4`");
    }
    number
}

/// `immediately`, or `time MINUTES`: the grace period in seconds. The outer `None` is
/// a mistake.
fn when_seconds(reader: &mut Reader<'_>, text: &str, node: &Node) -> Option<Option<f64>> {
    let mut words = text.split_whitespace();
    let minutes = match (words.next(), words.next(), words.next()) {
        (Some("immediately"), None, None) => return Some(None),
        (Some("time"), Some(number), None) => typed(number, true).number(),
        _ => None,
    };
    match minutes {
        Some(minutes) if minutes.is_finite() && minutes >= 0.0 => Some(Some(minutes * 60.0)),
        _ => {
            let message = format!("{} is no time for `when`", quoted(text));
            reader.wrong(
                node.mark,
                message,
                "`immediately`, or `time 10` for ten minutes of grace",
            );
            None
        }
    }
}
