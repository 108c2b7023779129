//! A cancel request for one run, and its node's answer.

use super::late::{LateInput, StepResult};
use super::lost;
use crate::facts::dispatch::Cancel;
use crate::facts::stage::{Stage, Verdict};
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::run::Run;

/// The result of a cancel request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It is recorded; the node will be told.
    Asked,
    /// The run was never sent anywhere: it is over.
    TakenAway,
    /// Its node does not know the run, which was handed over: nothing is awaited.
    GivenUp,
    /// There is no run to end.
    Skipped(String),
}

/// The result of a cancel request for a run, which is recorded by [`step`](crate::step()).
pub fn comes_to(run: &Run) -> CancelOutcome {
    if run.forgotten() || run.elsewhere().is_some() {
        CancelOutcome::GivenUp
    } else if run.phase().is_end() {
        CancelOutcome::Skipped(run.phase().as_str().to_owned())
    } else if is_known_here_alone(run) {
        CancelOutcome::TakenAway
    } else {
        CancelOutcome::Asked
    }
}

/// Whether no node knows the run: an offer would be recorded.
fn is_known_here_alone(run: &Run) -> bool {
    match &run.dispatch.stage {
        Stage::Behind { .. } | Stage::Unplaced => true,
        Stage::Chosen { .. } => run.of_several(),
        Stage::Offered { .. }
        | Stage::Accepted { .. }
        | Stage::Recalled { .. }
        | Stage::Begun { .. }
        | Stage::Over { .. } => false,
    }
}

/// Records a cancel request.
pub(crate) fn cancel(run: &Run, cancel: &Cancel) -> StepResult {
    let change = match comes_to(run) {
        CancelOutcome::GivenUp => {
            return Ok(lost::given_up(run, &cancel.author, cancel.asked_ms));
        }
        CancelOutcome::Skipped(_) => return Err(LateInput),
        CancelOutcome::TakenAway => dispatch_changed(run, |dispatch| {
            dispatch.cancel = Some(Box::new(cancel.clone()));
            dispatch.stage.end(Verdict::TakenAway {
                who: cancel.author.clone(),
                at_ms: cancel.asked_ms,
            });
            dispatch.stage.close();
        }),
        CancelOutcome::Asked => dispatch_changed(run, |dispatch| {
            dispatch.cancel = Some(Box::new(cancel.clone()))
        }),
    };
    Ok(change.into_iter().collect())
}

/// A node's answer to a cancel request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The node cannot answer now.
    Unclear,
    /// The run's shim got the request.
    Asked,
    /// The run waited there, or was refused: it never starts there.
    NeverStarted,
    /// The run had ended already.
    Ended,
    /// The node has nothing of the run.
    Unknown,
    /// The run goes on; nothing was done.
    GoesOn,
}

/// Records a node's answer to the cancel request of `asked_ms`.
pub(crate) fn answered(
    run: &Run,
    answer: Answer,
    asked_ms: Option<i64>,
    now_ms: i64,
) -> Option<Change> {
    dispatch_changed(run, |dispatch| {
        // A run on the node that has not ended by its records may still be on its
        // way into the queue: the request is sent again once more is known.
        let arrived = answer != Answer::Ended;
        let same = |cancel: &&mut Box<Cancel>| arrived && asked_ms == Some(cancel.asked_ms);
        if let Some(cancel) = dispatch.cancel.as_mut().filter(same) {
            cancel.delivered = true;
        }
        match answer {
            Answer::NeverStarted | Answer::Unknown if dispatch.stage.is_before_start() => {
                dispatch.take_away(now_ms);
            }
            Answer::Unclear
            | Answer::Asked
            | Answer::NeverStarted
            | Answer::Ended
            | Answer::GoesOn
            | Answer::Unknown => {}
        }
    })
}
