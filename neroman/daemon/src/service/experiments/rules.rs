//! The calls `RuleAdd` and `RuleRemove` change the standing rules of experiments and live runs.

use nero_expr::{Expr, ParseContext};
use nero_format::RuleAction;
use nero_wire::v1;
use nero_wire::v1::rule_change_reply::One;

use crate::service::Man;
use crate::service::change::ChangeRequest as _;
use crate::service::select;
use nero_home::failure::Failure;
use nero_home::ledger::Decision;
use nero_life::change::Rule;
use nero_life::rules::{self, RuleRemoval};

impl Man {
    /// Adds a rule to the picked experiments, also to live runs.
    pub(crate) async fn rule_add(
        &self,
        request: v1::RuleAddRequest,
    ) -> Result<v1::RuleChangeReply, Failure> {
        let now_ms = self.clock.now_ms();
        let (action, argument) = checked_action(&request.action)?;
        let given = request.selection.clone().unwrap_or_default();
        let zone = select::zone(&given.zone, given.utc_offset_s);
        let context = ParseContext::new(now_ms, zone).standing();
        let expr = Expr::parse(&request.text, &context).map_err(|error| {
            Failure::usage(error.to_string())
                .report(nero_expr::point_at(&request.text, error.span))
                .hint(error.hint.unwrap_or_default())
        })?;
        action
            .check(&expr)
            .map_err(|(message, hint)| Failure::usage(message).hint(hint))?;
        let text = expr.canonical();
        let head = request.head();
        let (ids, picked) = self.picked(request.selection, "").await?;
        let new = Rule {
            id: 0,
            action: action.as_str().to_owned(),
            argument: argument.to_owned(),
            text: text.clone(),
            repeat_ms: 0,
            author: request.author,
            origin: "rule add".to_owned(),
        };
        self.decided(&head, move |state, now_ms| {
            let (rule, changes) = rules::add(state, &ids, new, now_ms);
            let mut off = rules::InapplicableRules::default();
            for experiment in ids.iter().filter_map(|id| state.experiment(*id)) {
                off.check(rule, &text, "", experiment);
            }
            if let Some(never) = off.never_holds(ids.len()) {
                let failure = Failure::usage(format!("the rule never holds: {never}"))
                    .report(nero_expr::point_at(&text, never.span));
                return Err(failure.hint(never.hint.clone().unwrap_or_default()));
            }
            let mut notes = picked.notes.clone();
            notes.extend(off.notes());
            let changed = ids
                .iter()
                .map(|id| One {
                    experiment: id.0,
                    rule,
                    note: text.clone(),
                })
                .collect();
            Ok(Decision {
                answer: v1::RuleChangeReply { changed, notes },
                changes,
            })
        })
        .await
    }

    /// Removes a rule from the picked experiments, also from live runs.
    pub(crate) async fn rule_remove(
        &self,
        request: v1::RuleRemoveRequest,
    ) -> Result<v1::RuleChangeReply, Failure> {
        let head = request.head();
        let (ids, picked) = self.picked(request.selection, "all").await?;
        let rule = request.rule;
        self.decided(&head, move |state, now_ms| {
            if !state.rules.contains_key(&rule) {
                return Err(Failure::usage(format!("there is no rule {rule}"))
                    .hint("`neroman rule list` shows their numbers"));
            }
            let mut changes = Vec::new();
            let mut changed = Vec::new();
            for experiment in ids.iter().filter_map(|id| state.experiment(*id)) {
                let (removed, more) = rules::remove(state, experiment, rule, now_ms);
                changes.extend(more);
                let note = match removed {
                    RuleRemoval::NotThere => continue,
                    RuleRemoval::Gone => "",
                    RuleRemoval::FromRunOnly => {
                        "its definition still has it: later runs take it again"
                    }
                };
                changed.push(One {
                    experiment: experiment.id.0,
                    rule,
                    note: note.to_owned(),
                });
            }
            if changed.is_empty() {
                return Err(Failure::failed(format!(
                    "no experiment that was picked has rule {rule}"
                )));
            }
            Ok(Decision {
                answer: v1::RuleChangeReply {
                    changed,
                    notes: picked.notes,
                },
                changes,
            })
        })
        .await
    }
}

/// The action of a rule as it was typed, and its argument.
fn checked_action(request: &str) -> Result<(RuleAction, &str), Failure> {
    let (word, argument) = action_of(request);
    let mut known = RuleAction::ALL.into_iter();
    let words: Vec<&str> = known.clone().map(RuleAction::as_str).collect();
    let Some(action) = known.find(|action| action.as_str() == word) else {
        let failure = Failure::usage(format!("there is no action `{request}`"));
        return Err(failure.hint(words.join(", ")));
    };
    let checked = match action {
        RuleAction::Signal => RuleAction::check_signal(argument),
        RuleAction::Run | RuleAction::RunLocal => action.check_command(argument),
        _ if argument.is_empty() => Ok(()),
        _ => Err((
            format!("`{word}` takes nothing before the colon"),
            format!("as in `{word}: loss > 5`"),
        )),
    };
    checked.map_err(|(message, hint)| Failure::usage(message).hint(hint))?;
    Ok((action, argument))
}

/// An action as it is typed, in its word and what stands behind it: `signal USR1`.
pub(crate) fn action_of(typed: &str) -> (&str, &str) {
    let (word, argument) = typed.split_once(' ').unwrap_or((typed, ""));
    (word, argument.trim())
}
