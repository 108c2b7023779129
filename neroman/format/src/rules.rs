//! Standing rules: those of `rules`, and those that `conditions` of the original mean.
//!
//! Every expression is parsed here, so that a mistake is found when the experiment is
//! added and not when the rule should have fired. A rule with a word that is not built
//! is kept as such and never half accepted.

use crate::block::{Given, Scope};
use crate::definition::{NotBuilt, RuleAction, RuleDef, Value};
use crate::fields::{ACTIONS, ACTIONS_LATER, Field, word_hint};
use crate::problem::{printable, quoted};
use crate::reader::Reader;
use crate::scalar::typed;
use crate::source::Mark;
use crate::tree::{Entry, Kind, Node};
use nero_expr::{ErrorKind, Expr, ExprError};

/// The rules of a block, `conditions` and `rules` together in the order of the file.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    scope: &Scope,
    not_built: &mut Vec<NotBuilt>,
) -> Vec<RuleDef> {
    let mut given: Vec<(Field, &Given)> = [Field::Conditions, Field::Rules]
        .into_iter()
        .filter_map(|field| scope.get(field).map(|given| (field, given)))
        .collect();
    given.sort_by_key(|(_, given)| given.key_mark);
    let mut rules = Vec::new();
    for (field, given) in given {
        if field == Field::Conditions {
            conditions(reader, given, &mut rules);
        } else {
            native(reader, &given.value, not_built, &mut rules);
        }
    }
    rules
}

fn native(
    reader: &mut Reader<'_>,
    node: &Node,
    not_built: &mut Vec<NotBuilt>,
    rules: &mut Vec<RuleDef>,
) {
    let items = match &node.kind {
        Kind::List(items) => items.iter().map(|item| &**item).collect(),
        Kind::Map(_) | Kind::Scalar { .. } => vec![node],
    };
    for item in items {
        match &item.kind {
            Kind::Map(entries) => rule(reader, entries, not_built, rules),
            Kind::Scalar { text, .. } if !item.is_null() => {
                let hint = format!("say what it does: `- abort: '{}'`", printable(text));
                reader.wrong(item.mark, "a rule is an action with an expression", hint);
            }
            Kind::Scalar { .. } => empty(reader, item.mark, "abort"),
            Kind::List(_) => reader.wrong(
                item.mark,
                "a rule is an action with an expression, not a list",
                "for example `- abort: 'runtime > 2h'`",
            ),
        }
    }
}

fn empty(reader: &mut Reader<'_>, mark: Mark, action: &str) {
    reader.wrong(
        mark,
        "an empty rule",
        format!("quote an expression that begins with `!` or `#`: `- {action}: '!finished'`"),
    );
}

fn rule(
    reader: &mut Reader<'_>,
    entries: &[Entry],
    not_built: &mut Vec<NotBuilt>,
    rules: &mut Vec<RuleDef>,
) {
    let is_later = |entry: &&Entry| ACTIONS_LATER.contains(&entry.key.as_str());
    let later: Vec<&Entry> = entries.iter().filter(is_later).collect();
    for entry in &later {
        reader.not_built(not_built, &format!("rules.{}", entry.key), entry.key_mark);
    }
    for entry in entries {
        let action = match entry.key.as_str() {
            "abort" => RuleAction::Abort,
            "warn" => RuleAction::Warn,
            "notify" => RuleAction::Notify,
            key if ACTIONS_LATER.contains(&key) => continue,
            key => {
                let known = [ACTIONS, ACTIONS_LATER].concat();
                let mut hint = word_hint(key, &known);
                if key.contains([' ', '(', ')', '>', '<', '=']) || entry.value.is_null() {
                    hint.push_str("; in braces quote the expression, since a comma ends it");
                }
                reader.wrong(
                    entry.key_mark,
                    format!("{} is no action of a rule", quoted(key)),
                    hint,
                );
                continue;
            }
        };
        if let Some(text) = expression(reader, entry)
            && let Some(made) = checked(reader, not_built, action, None, text, entry)
            && later.is_empty()
        {
            rules.push(made);
        }
    }
}

/// The text of an action's expression.
fn expression<'n>(reader: &mut Reader<'_>, entry: &'n Entry) -> Option<&'n str> {
    let node = &entry.value;
    match node.scalar() {
        Some(text) if node.is_null() || text.trim().is_empty() => {
            empty(reader, entry.key_mark, &entry.key);
            None
        }
        Some(text) => Some(text),
        None => {
            let written = printable(node.written(reader.text));
            reader.wrong(
                node.mark,
                format!(
                    "`{}` takes an expression, not {}",
                    entry.key,
                    node.describe()
                ),
                format!("quote it: `- {}: '{written}'`", entry.key),
            );
            None
        }
    }
}

/// Parses an expression; a mistake in it is reported, a word not built kept.
fn checked(
    reader: &mut Reader<'_>,
    not_built: &mut Vec<NotBuilt>,
    action: RuleAction,
    name: Option<String>,
    text: &str,
    entry: &Entry,
) -> Option<RuleDef> {
    match Expr::parse(text, reader.context) {
        Ok(expr) => Some(RuleDef {
            name,
            action,
            text: expr.canonical(),
            written: text.to_owned(),
            place: reader.text.place(entry.key_mark),
        }),
        Err(error) => {
            let mark = entry.value.mark_inside(reader.text, error.span.start);
            if error.kind == ErrorKind::NotBuilt {
                let word = format!("rules.{}: {}", entry.key, not_built_word(&error, text));
                reader.not_built(not_built, &word, mark);
            } else {
                reader.wrong(mark, error.message, error.hint.unwrap_or_default());
            }
            None
        }
    }
}

fn not_built_word(error: &ExprError, text: &str) -> String {
    match error.span.of(text) {
        "" => error.message.clone(),
        word => word.to_owned(),
    }
}

fn conditions(reader: &mut Reader<'_>, given: &Given, rules: &mut Vec<RuleDef>) {
    let example = "conditions: {high_loss: {variablename: loss, killvalue: 3, comparator: gt, when: immediately, action: kill}}";
    for entry in reader.map(&given.key, &given.value, example) {
        if let Some(rule) = condition(reader, entry) {
            rules.push(rule);
        }
    }
}

const CONDITION_KEYS: &[&str] = &["variablename", "killvalue", "comparator", "when", "action"];

/// One condition as the rule that it means.
fn condition(reader: &mut Reader<'_>, entry: &Entry) -> Option<RuleDef> {
    let name = &entry.key;
    let before = reader.problems.count();
    let example =
        "{variablename: loss, killvalue: 3, comparator: gt, when: immediately, action: kill}";
    let entries = reader.map(name, &entry.value, example);
    if reader.problems.count() > before {
        return None;
    }
    for other in entries {
        if !CONDITION_KEYS.contains(&other.key.as_str()) {
            let message = format!("{} is no part of a condition", quoted(&other.key));
            reader.wrong(
                other.key_mark,
                message,
                word_hint(&other.key, CONDITION_KEYS),
            );
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
    let operator = comparator.and_then(|(text, node)| {
        choice(
            reader,
            "comparator",
            text,
            node,
            &[
                ("gt", ">"),
                ("lt", "<"),
                ("eq", "=="),
                ("geq", ">="),
                ("leq", "<="),
            ],
        )
    });
    let action = action.and_then(|(text, node)| {
        choice(
            reader,
            "action",
            text,
            node,
            &[
                ("kill", RuleAction::Abort),
                ("warn", RuleAction::Warn),
                ("email", RuleAction::Notify),
            ],
        )
    });
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
    if reader.problems.count() > before {
        return None;
    }
    // Made of parts that were checked; nothing of it can be not built.
    checked(
        reader,
        &mut Vec::new(),
        action,
        Some(name.clone()),
        &written,
        entry,
    )
}

fn choice<T: Copy>(
    reader: &mut Reader<'_>,
    key: &str,
    text: &str,
    node: &Node,
    known: &[(&str, T)],
) -> Option<T> {
    let found = known.iter().find(|(word, _)| *word == text);
    if found.is_none() {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        let message = format!("{} is no `{key}`", quoted(text));
        reader.wrong(
            node.mark,
            message,
            format!("known are {}", words.join(", ")),
        );
    }
    found.map(|(_, value)| *value)
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
    Some(match is_word {
        true => format!("metric.{name}"),
        false => format!("metric('{}')", name.replace('\'', "''")),
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
