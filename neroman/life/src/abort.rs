//! Cancel requests for runs, and the runs that they release.

use nero_model::RunId;

use super::change::{Change, dispatch_changed};
use super::experiment::Experiment;
use super::gone;
use super::input::Input;
use super::run::{Cancel, Run};
use super::stage::{Stage, Verdict};
use super::state::State;
use super::step::{Late, Stepped, fits, step};

/// The result of a cancel request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It is recorded; the node will be told.
    Asked,
    /// The run was never sent anywhere: it is over.
    TakenAway,
    /// Its node does not know the run any more: nothing is awaited.
    GivenUp,
    /// There is no run to end.
    Skipped(String),
}

/// The result of a cancel request for a run, which is recorded by [`step`](crate::step).
pub fn comes_to(run: &Run) -> CancelOutcome {
    if run.forgotten() {
        CancelOutcome::GivenUp
    } else if run.phase().is_end() {
        CancelOutcome::Skipped(run.phase().word().to_owned())
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
pub(crate) fn cancel(run: &Run, cancel: &Cancel) -> Stepped {
    let change = match comes_to(run) {
        CancelOutcome::GivenUp => {
            return Ok(gone::given_up(run, &cancel.author, cancel.asked_ms));
        }
        CancelOutcome::Skipped(_) => return Err(Late),
        CancelOutcome::TakenAway => dispatch_changed(run, |dispatch| {
            dispatch.stage.end(Verdict::TakenAway {
                who: cancel.author.clone(),
                at_ms: cancel.asked_ms,
            });
            dispatch.stage.close();
        }),
        CancelOutcome::Asked => {
            dispatch_changed(run, |dispatch| dispatch.cancel = Some(cancel.clone()))
        }
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
        let same = |cancel: &&mut Cancel| arrived && asked_ms == Some(cancel.asked_ms);
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

/// Cancels the live runs of an experiment that is started again.
pub fn for_restart(experiment: &Experiment, author: &str, now_ms: i64) -> Vec<Change> {
    let asked = Cancel {
        asked_ms: now_ms,
        author: author.to_owned(),
        grace_ms: 0,
        signal: 0,
        delivered: false,
    };
    experiment
        .runs
        .iter()
        .filter(|run| run.phase().is_live() && run.dispatch.cancel.is_none())
        .flat_map(|run| fits(step(run, &Input::Cancel(asked.clone()), now_ms)))
        .collect()
}

/// The run that goes on because this one ended between the two states, or turned
/// out not to be in doubt any more, and its changes.
pub fn released_by(
    before: &State,
    after: &State,
    run: RunId,
    now_ms: i64,
) -> Option<(RunId, Vec<Change>)> {
    let ended = |state: &State| state.run(run).is_some_and(|run| run.phase().is_end());
    let doubt = |state: &State| state.run(run).is_some_and(Run::in_doubt);
    let clear = doubt(before) && !doubt(after);
    if !ended(after) || (ended(before) && !clear) {
        return None;
    }
    released(after, run, now_ms)
}

/// The run that waited for another one of its experiment, now that all earlier
/// ones have ended, and its changes.
pub fn released(state: &State, ended: RunId, now_ms: i64) -> Option<(RunId, Vec<Change>)> {
    let experiment = state.experiment(ended.experiment)?;
    let newest = experiment.newest()?;
    newest.after()?;
    let others = &experiment.runs[..experiment.runs.len() - 1];
    let before = others
        .iter()
        .rev()
        .find(|run| run.dispatch.stage.verdict().is_none());
    let in_doubt = before.is_some_and(Run::in_doubt);
    if newest.phase().is_end() || in_doubt || others.iter().any(|run| run.phase().is_live()) {
        return None;
    }
    Some((newest.made.id, fits(step(newest, &Input::Released, now_ms))))
}
