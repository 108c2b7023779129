//! The recall of a run from a node that has it, or may have it. It is recorded
//! before the node is asked, and over when the node has promised that it never
//! starts the run. If neroman or neromum dies in between, the node is asked again
//! and answers the same.

use super::deferred;
use super::late::{LateInput, StepResult};
use super::refusal::{self, DepartureKind, become_so};
use crate::facts::dispatch::Dispatch;
pub(crate) use crate::facts::leaving::Cause;
pub use crate::facts::leaving::Recall;
use crate::facts::leaving::Refusal;
use crate::facts::now::Moment;
use crate::facts::reason::WaitReason;
use crate::facts::stage::{HandOverStage, Stage};
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::run::Run;

/// The node's answer to a recall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallAnswer {
    /// The node has nothing of the run, and will not get it.
    Nothing,
    /// The run lies there, was not started and never will be.
    Never,
    /// The run was started: it stays.
    Begun,
}

/// Records that a node which accepted a run refuses it: another node of its group
/// gets it, or it ends.
pub(crate) fn refused(run: &Run, dispatch: &mut Dispatch, why: String, at_ms: i64) {
    if !may_leave(run, dispatch) {
        dispatch.never_starts(why, at_ms);
        return;
    }
    let node = run.node_word().to_owned();
    dispatch.why = WaitReason::RefusedBy {
        node: node.clone(),
        why: why.clone(),
    };
    let asked = matches!(&dispatch.stage, Stage::Recalled { recall, .. } if recall.asked);
    dispatch.stage = Stage::Recalled {
        recall: Recall {
            refusal: Refusal {
                node: node.clone(),
                why,
                hint: String::new(),
                at_ms,
            },
            passes: false,
            to: None,
            asked,
        },
        node,
        from: HandOverStage::Pending,
    };
}

/// Recalls a run that its node cannot take for now.
pub(crate) fn deferred(run: &Run, now: &Moment) -> StepResult {
    let deferred = run.deferred().ok_or(LateInput)?;
    let refusal = Refusal {
        node: deferred.node.clone(),
        why: deferred.why.clone(),
        hint: String::new(),
        at_ms: now.ms,
    };
    leave_for_now(run, refusal, None, now)
}

/// Takes a run from its node, for the node `to` if one has room: at once, or when the node gives
/// it back.
fn leave_for_now(run: &Run, refusal: Refusal, to: Option<String>, now: &Moment) -> StepResult {
    if run.movable() {
        let kind = DepartureKind::ForNow(now);
        return Ok(refusal::leave_node(run, refusal, &kind));
    }
    let mut dispatch = run.dispatch.clone();
    if let Some(to) = to.clone() {
        dispatch.why = WaitReason::GoesTo {
            to,
            from: refusal.node.clone(),
        };
    }
    dispatch.stage = Stage::Recalled {
        node: refusal.node.clone(),
        recall: Recall {
            refusal,
            passes: true,
            to,
            asked: false,
        },
        from: dispatch.stage.handing(),
    };
    Ok(vec![become_so(run, dispatch)])
}

/// Whether another node may have the run after its own gave its promise.
fn may_leave(run: &Run, dispatch: &Dispatch) -> bool {
    let waits = dispatch.stage.is_before_start() && dispatch.cancel.is_none();
    run.of_several() && waits
}

/// Whether a run is to leave this node, which has not given its promise.
pub fn is_leaving(run: &Run, node: &str) -> bool {
    run.dispatch.leaves() && run.node() == Some(node)
}

/// Records that the node may have been asked for its promise.
pub(crate) fn asked(run: &Run) -> StepResult {
    if !run.dispatch.leaves() {
        return Err(LateInput);
    }
    let change = dispatch_changed(run, |dispatch| {
        if let Stage::Recalled { recall, .. } = &mut dispatch.stage {
            recall.asked = true;
        }
    });
    Ok(change.into_iter().collect())
}

/// The changes from the node's answer.
pub(crate) fn answered(run: &Run, said: RecallAnswer, now: &Moment) -> StepResult {
    let recall = run.dispatch.recall().ok_or(LateInput)?;
    if said == RecallAnswer::Begun {
        return Ok(stays(run, String::new()));
    }
    let mut refusal = recall.refusal.clone();
    refusal.at_ms = now.ms;
    // If a folder of it lies there, with a cancel request, it never starts there
    // again.
    let comes_back = said == RecallAnswer::Nothing;
    let how = match recall.cause() {
        Cause::NoRoomNow if comes_back => DepartureKind::ForNow(now),
        Cause::CannotStart | Cause::NoRoomNow => DepartureKind::Refused,
        Cause::RoomElsewhere if comes_back => DepartureKind::ForNow(now),
        Cause::RoomElsewhere => DepartureKind::ForGood(now),
    };
    Ok(refusal::leave_node(run, refusal, &how))
}

/// Keeps the run on a node that cannot give its promise; a run that it refused
/// ends.
pub(crate) fn cannot(run: &Run) -> StepResult {
    let leaves = run.dispatch.leaves();
    let recall = run.dispatch.recall().filter(|_| leaves).ok_or(LateInput)?;
    let why = recall.refusal.why.clone();
    match recall.cause() {
        Cause::NoRoomNow => return Ok(stays(run, why)),
        Cause::RoomElsewhere => return Ok(stays(run, String::new())),
        Cause::CannotStart => {}
    }
    let mut dispatch = run.dispatch.clone();
    let at_ms = recall.refusal.at_ms;
    dispatch.never_starts(why, at_ms);
    Ok(vec![become_so(run, dispatch)])
}

/// Keeps the run on its node.
fn stays(run: &Run, why: String) -> Vec<Change> {
    let mut dispatch = run.dispatch.clone();
    dispatch.stage.keep();
    dispatch.why = why.into();
    deferred::taken(&mut dispatch, run.node_word());
    vec![become_so(run, dispatch)]
}

/// Whether a run waits on its node, and another one may have it. A run that goes on
/// from checkpoints stays: they may lie there. So does a paused one: its node holds it,
/// and no other node would.
pub fn waits_freely(run: &Run) -> bool {
    let waits = match &run.dispatch.stage {
        Stage::Chosen { sending, .. } | Stage::Offered { sending, .. } => !sending,
        Stage::Accepted { .. } => true,
        Stage::Behind { .. }
        | Stage::Unplaced
        | Stage::Recalled { .. }
        | Stage::Begun { .. }
        | Stage::Over { .. } => false,
    };
    let bound = run.made.resume.is_some() || !run.made.takes.prefer.is_empty();
    let asked = run.dispatch.cancel.is_some() || run.dispatch.send_spec;
    let stays = bound || asked || run.dispatch.paused || run.elsewhere().is_some();
    let moves = run.of_several() && !stays;
    waits && moves
}

/// The changes that recall a run for a node with room.
pub(crate) fn for_room(run: &Run, node: &str, to: &str, now: &Moment) -> StepResult {
    if run.node() != Some(node) || !waits_freely(run) {
        return Err(LateInput);
    }
    let refusal = Refusal {
        node: node.to_owned(),
        why: format!("{to} has room"),
        hint: String::new(),
        at_ms: now.ms,
    };
    leave_for_now(run, refusal, Some(to.to_owned()), now)
}
