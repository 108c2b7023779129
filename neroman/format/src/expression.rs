//! The expression of a rule, parsed.

use crate::definition::{NotBuilt, RuleAction, RuleDef};
use crate::fields::ACTIONS;
use crate::problem::printable;
use crate::reader::Reader;
use nero_expr::{ErrorKind, Expr, ExprError};
use nero_yaml::Entry;

/// Parses an expression; a mistake in it is reported, a word not built kept.
pub(crate) fn checked(
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
            let mark = reader.text.mark_inside(&entry.value, error.span.start);
            if error.kind == ErrorKind::NotBuilt {
                let word = format!("rules.{}: {}", entry.key, not_built_word(&error, text));
                reader.not_built(not_built, &word, mark);
            } else {
                let hint = match text.split_once(':') {
                    Some((action, rest)) if ACTIONS.contains(&action.trim()) => format!(
                        "the action stands before the quotes already: `- {}: '{}'`",
                        entry.key,
                        printable(rest.trim())
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
