//! Standing rules: those of `rules`, and those that `conditions` of the original mean.
//!
//! Every expression is parsed here, so that a mistake is found when the experiment is
//! added and not when the rule should have fired. A rule with a word that is not built
//! is kept as such and never half accepted.

use crate::block::{Given, Scope};
use crate::conditions;
use crate::definition::{NotBuilt, RuleAction, RuleDef};
use crate::expression::checked;
use crate::fields::{ACTIONS, ACTIONS_LATER, Field};
use crate::problem::printable;
use crate::reader::Reader;
use nero_model::names::word_hint;
use nero_model::safe::quoted;
use nero_yaml::{Entry, Kind, Mark, Node};

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
                        let text = printable(text.trim());
                        format!(
                            "quote the expression alone: `- {}: '{text}'`",
                            action.trim()
                        )
                    }
                    _ => format!("say what it does: `- abort: '{}'`", printable(text)),
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
    let is_later = |entry: &&Entry| ACTIONS_LATER.contains(&entry.key.as_str());
    let later: Vec<&Entry> = entries.iter().filter(is_later).collect();
    for entry in &later {
        reader.not_built(not_built, &format!("rules.{}", entry.key), entry.key_mark);
    }
    for entry in entries {
        let mut known = RuleAction::ALL.into_iter();
        let action = match (known.find(|one| one.word() == entry.key), &*entry.key) {
            (Some(action), _) => action,
            (None, key) if ACTIONS_LATER.contains(&key) => continue,
            (None, key) => {
                let mut hint = word_hint(key, ACTIONS, ACTIONS_LATER);
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
            let written = printable(reader.text.written(node));
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
