//! How the results of a run come home, as far as it is kept: begun, complete, given
//! up; and that its folder on the node was taken away.

use super::late::{LateInput, StepResult};
use super::needs;
use crate::facts::results::Results;
use crate::facts::stage::Stage;
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::run::Run;

/// Records that results are fetched into this folder. After a crash they go on
/// in the same folder.
pub(crate) fn begun(run: &Run, folder: &str) -> Option<Change> {
    dispatch_changed(run, |dispatch| {
        dispatch.results = Results::Fetching {
            folder: folder.to_owned(),
            why: String::new(),
        };
    })
}

/// Records what results wait for on this machine; empty: nothing any more.
pub(crate) fn waits(run: &Run, why: &str) -> StepResult {
    let known = match &run.dispatch.results {
        Results::Fetching { why, .. } => why,
        Results::Open => "",
        Results::Done { .. } | Results::Nothing | Results::Failed { .. } => return Err(LateInput),
    };
    if known == why {
        return Ok(Vec::new());
    }
    let change = dispatch_changed(run, |dispatch| {
        dispatch.results = Results::Fetching {
            folder: dispatch.results.folder().to_owned(),
            why: why.to_owned(),
        };
    });
    Ok(change.into_iter().collect())
}

/// Records that results are complete, and what may be behind the run's end.
pub(crate) fn done(run: &Run, done: &Results, hints: &[String]) -> Option<Change> {
    dispatch_changed(run, |dispatch| {
        dispatch.results = done.clone();
        dispatch.hints = hints.to_vec();
        dispatch.outdate_processed(!run.made.processing.is_empty());
    })
}

/// Records that results are given up, and why.
pub(crate) fn given_up(run: &Run, why: &str) -> Option<Change> {
    dispatch_changed(run, |dispatch| {
        dispatch.results = Results::Failed {
            folder: dispatch.results.folder().to_owned(),
            why: why.to_owned(),
        };
    })
}

/// Records that a person wants the run cleaned before all of it was home.
pub(crate) fn forgone(run: &Run) -> StepResult {
    if !needs::of(run).results {
        return Err(LateInput);
    }
    let change = given_up(run, "cleaned before all of it was home");
    Ok(change.into_iter().collect())
}

/// Records that the run's folder on its node was taken away.
pub(crate) fn cleaned(run: &Run, now_ms: i64) -> Option<Change> {
    dispatch_changed(run, |dispatch| dispatch.cleaned_ms = Some(now_ms))
}

/// Records the tree of the checkpoints that the run begins with.
pub(crate) fn checkpoints(run: &Run, overlay: &str) -> Option<Change> {
    dispatch_changed(run, |dispatch| dispatch.overlay = Some(overlay.to_owned()))
}

/// Records whether the run's points are asked for again: all of them came, and the database of
/// series has only `held`, so it is another one now.
pub(crate) fn counted(run: &Run, held: u64) -> Option<Change> {
    let lacks = held < run.points_told() && run.phase().is_end();
    let sent_all = match run.dispatch.stage {
        Stage::Begun { closed, .. } => closed || run.dispatch.sent.is_all(),
        Stage::Behind { .. }
        | Stage::Unplaced
        | Stage::Chosen { .. }
        | Stage::Offered { .. }
        | Stage::Accepted { .. }
        | Stage::Recalled { .. }
        | Stage::Over { .. } => false,
    };
    let there = sent_all && !run.in_doubt() && needs::lies_there(run);
    let again = lacks && there;
    if again == run.dispatch.points_again {
        return None;
    }
    dispatch_changed(run, |dispatch| dispatch.points_again = again)
}
