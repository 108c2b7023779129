//! Experiments that a person hides, and shows again. Runs are not touched.

use std::sync::Arc;

use nero_model::ExperimentId;
use nero_model::safe::quoted;

use crate::fold::change::{Change, ExperimentRecord};
use crate::fold::experiment::Experiment;
use crate::fold::state::State;

/// What becomes of one picked experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    pub experiment: ExperimentId,
    pub name: String,
    /// The word under which those are counted that are left as they are, and why it is.
    pub refusal: Option<(&'static str, String)>,
}

/// Hides the experiments; with `undo` shows them again.
pub fn remove(
    state: &State,
    ids: &[ExperimentId],
    undo: bool,
    now_ms: i64,
) -> (Vec<Removal>, Vec<Change>) {
    let mut removals = Vec::new();
    let mut changes = Vec::new();
    for experiment in ids.iter().filter_map(|id| state.experiment(*id)) {
        let refusal = refusal(state, experiment, undo);
        if refusal.is_none() {
            changes.push(Change::Experiment(Arc::new(ExperimentRecord {
                hidden_ms: (!undo).then_some(now_ms),
                ..ExperimentRecord::of(experiment)
            })));
            let text = if undo { "brought back" } else { "removed" };
            changes.push(Change::Event {
                experiment: experiment.id,
                run: None,
                at_ms: now_ms,
                text: text.to_owned(),
            });
        }
        removals.push(Removal {
            experiment: experiment.id,
            name: experiment.definition.name.clone(),
            refusal,
        });
    }
    (removals, changes)
}

fn refusal(state: &State, experiment: &Experiment, undo: bool) -> Option<(&'static str, String)> {
    let mut runs = experiment.runs.iter();
    if let Some(run) = runs.find(|run| run.phase().is_live() || run.in_doubt()) {
        let (id, label) = (run.made.id, run.phase().as_str());
        let why = if run.in_doubt() {
            format!("{label}: {id} may still run on {}", run.node_word())
        } else {
            format!("{label}: {id} has not ended; `neroman abort {id}` ends it")
        };
        return Some((label, why));
    }
    let why = undo.then(|| name_taken(state, experiment)).flatten()?;
    Some(("name taken", why))
}

/// Why a copy cannot come back: its source may have taken its name while it was removed.
fn name_taken(state: &State, copy: &Experiment) -> Option<String> {
    copy.by_hand.copy_of?;
    let definition = &copy.definition;
    let other = state.named(&definition.name).find(|other| {
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
