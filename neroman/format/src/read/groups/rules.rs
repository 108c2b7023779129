//! Standing rules: those of `rules`, and those that `conditions` of the original mean.
//!
//! Every expression is parsed here, so that a mistake is found when the experiment is
//! added and not when the rule should have fired. A rule with a word that is not built
//! is kept as such and never half accepted.

use super::conditions;
use super::expression::{ParsedAction, checked};
use crate::definition::problem::in_quotes;
use crate::definition::{NotBuilt, RuleAction, RuleDef};
use crate::read::block::{Scope, Setting};
use crate::read::fields::Field;
use crate::read::reader::Reader;
use nero_expr::ACTIONS;
use nero_model::names::word_hint;
use nero_model::safe::quoted;
use nero_yaml::{Entry, Kind, Mark, Node, Zero};

/// Words beside an action.
const WORDS: &[&str] = &["on", "repeat"];
/// `repeat: never`: a hundred years.
const NEVER_MS: u64 = 100 * 365 * 86_400_000;

/// The rules of a block, `conditions` and `rules` together in the order of the file.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    scope: &Scope,
    not_built: &mut Vec<NotBuilt>,
) -> Vec<RuleDef> {
    let mut given: Vec<(Field, &Setting)> = [Field::Conditions, Field::Rules]
        .into_iter()
        .filter_map(|field| scope.get(field).map(|given| (field, given)))
        .collect();
    given.sort_by_key(|(_, given)| given.key_mark);
    let mut rules = Vec::new();
    for (field, given) in given {
        if field == Field::Conditions {
            conditions::read(reader, given, &mut rules);
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
                let hint = match text.split_once(':') {
                    // The quotes stand around the action, too.
                    Some((action, text)) if ACTIONS.contains(&action.trim()) => {
                        let (action, text) = (action.trim(), in_quotes(text.trim()));
                        format!("quote the expression alone: `- {action}: {text}`")
                    }
                    _ => format!("say what it does: `- abort: {}`", in_quotes(text)),
                };
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
    let named = |key: &str| entries.iter().find(|entry| entry.key == key);
    let (on, repeat) = (named("on"), named("repeat"));
    let repeat_ms = repeat.map_or(Some(0), |entry| repeat_ms(reader, entry));
    let mut actions = 0;
    for entry in entries {
        let mut known = RuleAction::ALL.into_iter();
        let action = match (known.find(|one| one.as_str() == entry.key), &*entry.key) {
            (_, "on" | "repeat") => continue,
            (Some(action), _) => action,
            (None, key) => {
                let words = [ACTIONS, WORDS].concat();
                let mut hint = word_hint(key, &words, &[]);
                if key.contains([' ', '(', ')', '>', '<', '=']) || entry.value.is_null() {
                    hint.push_str("; in braces quote the expression, since a comma ends it");
                }
                reader.wrong(
                    entry.key_mark,
                    format!("{} is no action of a rule", quoted(key)),
                    hint,
                );
                actions += 1;
                continue;
            }
        };
        actions += 1;
        let Some((done, when)) = done(reader, action, entry, on) else {
            continue;
        };
        if let Some(repeat) = repeat.filter(|_| action.ends()) {
            let message = format!("`{}` ends the run: nothing repeats", action.as_str());
            reader.wrong(repeat.key_mark, message, "leave `repeat` out");
            continue;
        }
        let is_command = matches!(action, RuleAction::Run | RuleAction::RunLocal);
        if let Some(repeat) =
            repeat.filter(|_| is_command && (1..1000).contains(&repeat_ms.unwrap_or(0)))
        {
            let message = format!("`{}` repeats at most once a second", action.as_str());
            reader.wrong(repeat.value.mark, message, "for example `repeat: 10m`");
            continue;
        }
        let done = ParsedAction {
            repeat_ms: repeat_ms.unwrap_or(0),
            ..done
        };
        if let Some(text) = expression(reader, when)
            && let Some(made) = checked(reader, not_built, &done, None, (text, when), entry)
        {
            rules.push(made);
        }
    }
    if actions == 0
        && let Some(entry) = on.or(repeat)
    {
        let message = format!("`{}` without an action", entry.key);
        let hint = "for example `{on: crashed, notify: true}`";
        reader.wrong(entry.key_mark, message, hint);
    }
}

/// What an action does, and the entry with its condition: its own, or that of `on`.
fn done<'e>(
    reader: &mut Reader<'_>,
    action: RuleAction,
    entry: &'e Entry,
    on: Option<&'e Entry>,
) -> Option<(ParsedAction, &'e Entry)> {
    let word = action.as_str();
    let Some(example) = action.argument() else {
        let is_bare = entry.value.is_null() || entry.value.scalar() == Some("true");
        return match on {
            None => Some((ParsedAction::of(action), entry)),
            Some(on) if is_bare => Some((ParsedAction::of(action), on)),
            Some(_) => {
                let message = format!("`on` and `{word}` both tell when");
                let hint = format!("write `{word}: true` beside `on`, or leave `on` out");
                reader.wrong(entry.value.mark, message, hint);
                None
            }
        };
    };
    let Some(on) = on else {
        let message = format!("`{word}` does not tell when");
        let hint = format!("for example `{{on: 'loss > 5', {word}: {example}}}`");
        reader.wrong(entry.key_mark, message, hint);
        return None;
    };
    let argument = reader.single(word, &entry.value)?.trim().to_owned();
    let checked = match action {
        RuleAction::Signal => RuleAction::check_signal(&argument),
        _ => action.check_command(&argument),
    };
    if let Err((message, hint)) = checked {
        reader.wrong(entry.value.mark, message, hint);
        return None;
    }
    let done = ParsedAction {
        argument,
        ..ParsedAction::of(action)
    };
    Some((done, on))
}

/// The pause of `repeat`; `never` is longer than any run.
fn repeat_ms(reader: &mut Reader<'_>, entry: &Entry) -> Option<u64> {
    match entry.value.scalar() {
        Some("never") => Some(NEVER_MS),
        _ => reader.duration_ms("repeat", &entry.value, Zero::Refused),
    }
}

/// The text of a condition.
fn expression<'n>(reader: &mut Reader<'_>, entry: &'n Entry) -> Option<&'n str> {
    let node = &entry.value;
    match node.scalar() {
        Some(text) if node.is_null() || text.trim().is_empty() => {
            empty(reader, entry.key_mark, &entry.key);
            None
        }
        Some(text) => Some(text),
        None => {
            let written = in_quotes(reader.text.written(node));
            reader.wrong(
                node.mark,
                format!(
                    "`{}` takes an expression, not {}",
                    entry.key,
                    node.describe()
                ),
                format!("quote it: `- {}: {written}`", entry.key),
            );
            None
        }
    }
}
