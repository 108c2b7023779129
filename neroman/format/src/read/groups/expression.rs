//! The expression of a rule, parsed.

use crate::definition::problem::in_quotes;
use crate::definition::{NotBuilt, RuleAction, RuleDef};
use crate::read::reader::Reader;
use nero_expr::ACTIONS;
use nero_expr::{ErrorKind, Expr, ExprError};
use nero_yaml::Entry;

/// What a rule does when its condition holds.
#[derive(Debug, Clone)]
pub(crate) struct ParsedAction {
    pub(crate) action: RuleAction,
    pub(crate) argument: String,
    pub(crate) repeat_ms: u64,
}

impl ParsedAction {
    /// Without an argument.
    pub(crate) fn of(action: RuleAction) -> Self {
        Self {
            action,
            argument: String::new(),
            repeat_ms: 0,
        }
    }
}

/// Parses the condition `text` of the entry `when`, for an action that stands at `entry`; a
/// mistake in it is reported, a word not built kept.
pub(crate) fn checked(
    reader: &mut Reader<'_>,
    not_built: &mut Vec<NotBuilt>,
    done: &ParsedAction,
    name: Option<String>,
    (text, when): (&str, &Entry),
    entry: &Entry,
) -> Option<RuleDef> {
    match Expr::parse(text, reader.context) {
        Ok(expr) => {
            if let Err((message, hint)) = done.action.check(&expr) {
                reader.wrong(when.value.mark, message, hint);
                return None;
            }
            Some(RuleDef {
                name,
                action: done.action,
                argument: done.argument.clone(),
                repeat_ms: done.repeat_ms,
                text: expr.canonical(),
                written: text.to_owned(),
                place: reader.text.place(entry.key_mark),
            })
        }
        Err(error) => {
            let mark = reader.text.mark_inside(&when.value, error.span.start);
            if error.kind == ErrorKind::NotBuilt {
                let word = format!("rules.{}: {}", when.key, not_built_word(&error, text));
                reader.not_built(not_built, &word, mark);
            } else {
                let hint = match text.split_once(':') {
                    Some((action, rest)) if ACTIONS.contains(&action.trim()) => format!(
                        "the action stands before the quotes already: `- {}: {}`",
                        when.key,
                        in_quotes(rest.trim())
                    ),
                    _ => error.hint.unwrap_or_default(),
                };
                reader.wrong(mark, error.message, hint);
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
