//! Decides which runs' folders may be removed from their nodes.

use crate::fold::experiment::Experiment;
use crate::fold::run::Run;
use crate::step::needs;
pub use crate::step::needs::lies_there;

/// Reason why a later run needs the folder of this one.
pub fn needed(experiment: &Experiment, run: &Run) -> Option<String> {
    let number = Some(run.made.id.number);
    let mut later = experiment.runs.iter();
    let next = later.find(|next| {
        let waits = next.phase().is_live() && next.started_ms().is_none();
        waits && next.made.resume == number
    })?;
    Some(format!("{} is to begin with its checkpoints", next.made.id))
}

/// Reason why the folder of a run has to stay, as far as known here. With
/// `unfetched`, files that did not come home may be lost.
pub fn stays(run: &Run, unfetched: bool) -> Option<String> {
    let phase = run.phase();
    if phase.is_live() {
        return Some(phase.as_str().to_owned());
    }
    if run.forgotten() {
        return Some("lost: its node does not know it; neroman abort gives it up".to_owned());
    }
    if run.in_doubt() {
        return Some("lost: it may still run".to_owned());
    }
    if !run.dispatch.sent.is_all() && run.dispatch.stage.verdict().is_none() {
        return Some("its records are on their way".to_owned());
    }
    if unfetched {
        return None;
    }
    if needs::of(run).results {
        return Some("its outputs are on their way home".to_owned());
    }
    // The node compares its files with those here, however many were fetched.
    None
}
