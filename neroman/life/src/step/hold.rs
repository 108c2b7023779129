//! Holds of a run, its wait for other experiments, and their ends.

use super::late::{LateInput, StepResult};
use crate::facts::hold::{Hold, HoldCause};
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::run::Run;

/// Whether a run can be held: it has not begun.
pub(crate) fn may_be_held(run: &Run) -> bool {
    let waits = run.phase().is_live() && run.dispatch.stage.is_before_start();
    waits && run.dispatch.hold.is_none() && run.dispatch.cancel.is_none()
}

/// Holds a run.
pub(crate) fn hold(run: &Run, cause: HoldCause) -> StepResult {
    if !may_be_held(run) {
        return Err(LateInput);
    }
    let told = false;
    let change = dispatch_changed(run, |dispatch| {
        dispatch.hold = Some(Hold::On { cause, told });
    });
    Ok(change.into_iter().collect())
}

/// Lifts the hold of a run. A node that has accepted the run may hold it, and is told.
pub(crate) fn lifted(run: &Run) -> StepResult {
    let cause = run.hold_cause();
    if cause.is_none() && !run.awaits_nodes() {
        return Err(LateInput);
    }
    let may_be_told = run.dispatch.stage.is_accepted();
    let change = dispatch_changed(run, |dispatch| match cause {
        // It still waits for what the nodes of a restored home know.
        Some(HoldCause::Others) => dispatch.waits_for_others = false,
        Some(HoldCause::AtMost) => dispatch.in_line = false,
        Some(HoldCause::Pilot | HoldCause::Crashes(_)) => {
            dispatch.restored = false;
            dispatch.hold = may_be_told.then_some(Hold::Lifted);
        }
        None => dispatch.restored = false,
    });
    Ok(change.into_iter().collect())
}

/// Records a node's answer to a hold or to its end: whether it holds the run now.
pub(crate) fn answered(run: &Run, holds: bool) -> StepResult {
    let change = dispatch_changed(run, |dispatch| match &mut dispatch.hold {
        Some(Hold::On { told, .. }) if holds => *told = true,
        // The run has begun or ended there.
        Some(Hold::On { .. }) => dispatch.hold = None,
        Some(Hold::Lifted) if holds => {}
        Some(Hold::Lifted) | None => dispatch.hold = None,
    });
    Ok(change.into_iter().collect())
}

/// Records that a run needs no other experiment now.
pub(crate) fn met(run: &Run, now_ms: i64) -> StepResult {
    if !run.waits_for_others() {
        return Err(LateInput);
    }
    let id = run.made.id;
    let event = Change::Event {
        experiment: id.experiment,
        run: Some(id.number),
        at_ms: now_ms,
        text: format!("{id}: what it depends on is done"),
    };
    let change = dispatch_changed(run, |dispatch| dispatch.waits_for_others = false);
    Ok(change.into_iter().chain([event]).collect())
}
