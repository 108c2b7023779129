//! `Remove`: hides experiments, and shows them again. Runs are not touched;
//! experiments that were hidden for long are deleted when the databases are
//! opened.

use std::sync::Arc;

use nero_wire::v1;
use nero_wire::v1::remove_reply::One;

use crate::failure::Failure;
use crate::ledger::Decision;
use crate::service::change::ChangeRequest as _;
use crate::service::{Man, blocking};
use nero_life::change::{Change, Described};
use nero_life::experiment::Experiment;
use nero_life::state::State;
use nero_model::ExperimentId;
use nero_model::safe::quoted;

impl Man {
    /// Hides the picked experiments; with `undo` shows them again.
    pub(crate) async fn remove(
        &self,
        request: v1::RemoveRequest,
    ) -> Result<v1::RemoveReply, Failure> {
        let head = request.head();
        let selection = self.selection(request.selection, "").await?;
        let state = self.ledger.state();
        let undo = request.undo;
        let (ids, picked) = blocking(move || {
            if undo {
                selection.removed(&state)
            } else {
                selection.experiments(&state)
            }
        })
        .await??;
        self.decided(&head, move |state, now_ms| {
            let (experiments, changes) = hide(state, &ids, undo, now_ms);
            Ok(Decision {
                answer: v1::RemoveReply {
                    experiments,
                    notes: picked.notes,
                    explicit: picked.explicit,
                },
                changes,
            })
        })
        .await
    }
}

fn hide(state: &State, ids: &[ExperimentId], undo: bool, now_ms: i64) -> (Vec<One>, Vec<Change>) {
    let mut ones = Vec::new();
    let mut changes = Vec::new();
    for experiment in ids.iter().filter_map(|id| state.experiment(*id)) {
        let mut runs = experiment.runs.iter();
        let may_run = runs.find(|run| run.phase().is_live() || run.in_doubt());
        let taken = undo.then(|| name_taken(state, experiment)).flatten();
        let skipped_as = may_run.map(|run| run.phase().word());
        let skipped_as = skipped_as.or(taken.as_ref().map(|_| "name taken"));
        let skipped = may_run.map(|run| {
            let (id, word) = (run.made.id, run.phase().word());
            if run.in_doubt() {
                format!("{word}: {id} may still run on {}", run.node_word())
            } else {
                format!("{word}: {id} has not ended; `neroman abort {id}` ends it")
            }
        });
        let skipped = skipped.or(taken);
        if skipped.is_none() {
            changes.push(Change::Experiment(Arc::new(Described {
                hidden_ms: (!undo).then_some(now_ms),
                ..Described::of(experiment)
            })));
            changes.push(Change::Event {
                experiment: experiment.id,
                run: None,
                at_ms: now_ms,
                text: if undo {
                    "brought back".to_owned()
                } else {
                    "removed".to_owned()
                },
            });
        }
        ones.push(One {
            experiment: experiment.id.0,
            name: experiment.definition.name.clone(),
            skipped: skipped.unwrap_or_default(),
            skipped_as: skipped_as.unwrap_or_default().to_owned(),
        });
    }
    (ones, changes)
}

/// Why a copy cannot come back: its source may have taken its name while it was removed.
fn name_taken(state: &State, copy: &Experiment) -> Option<String> {
    copy.by_hand.copy_of?;
    let definition = &copy.definition;
    let others = state.named(&definition.name).iter();
    let mut others = others.filter_map(|id| state.experiment(*id));
    let other = others.find(|other| {
        other.id != copy.id
            && !other.gone
            && other.hidden_ms.is_none()
            && other.definition.collection() == definition.collection()
    })?;
    let (name, other) = (quoted(&definition.name), other.id);
    Some(format!(
        "{name} is the name of {other} now; rename that in its source first"
    ))
}
