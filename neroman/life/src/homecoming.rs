//! How the results of a run come home, as far as it is kept: begun, complete, given
//! up; and that its folder on the node was taken away.

use super::change::{Change, dispatch_changed};
use super::needs;
use super::run::{Results, Run};

/// Takes down that results are fetched into this folder. After a crash they go on
/// in the same folder.
pub(crate) fn begun(run: &Run, folder: &str) -> Option<Change> {
    dispatch_changed(run, |dispatch| {
        dispatch.results = Results::Fetching {
            folder: folder.to_owned(),
            why: String::new(),
        };
    })
}

/// Takes down what results wait for on this machine; empty: nothing any more.
pub(crate) fn waits(run: &Run, why: &str) -> Option<Change> {
    let known = match &run.dispatch.results {
        Results::Fetching { why, .. } => why,
        Results::Open => "",
        Results::Done { .. } | Results::Nothing | Results::Failed { .. } => return None,
    };
    if known == why {
        return None;
    }
    dispatch_changed(run, |dispatch| {
        dispatch.results = Results::Fetching {
            folder: dispatch.results.folder().to_owned(),
            why: why.to_owned(),
        };
    })
}

/// Takes down that results are complete, and what may be behind the run's end.
pub(crate) fn done(run: &Run, done: &Results, hints: &[String]) -> Option<Change> {
    dispatch_changed(run, |dispatch| {
        dispatch.results = done.clone();
        dispatch.hints = hints.to_vec();
    })
}

/// Takes down that results are given up, and why.
pub(crate) fn given_up(run: &Run, why: &str) -> Option<Change> {
    dispatch_changed(run, |dispatch| {
        dispatch.results = Results::Failed {
            folder: dispatch.results.folder().to_owned(),
            why: why.to_owned(),
        };
    })
}

/// Takes down that a person wants the run cleaned before all of it was home.
pub(crate) fn forgone(run: &Run) -> Option<Change> {
    if !needs::of(run).results {
        return None;
    }
    given_up(run, "cleaned before all of it was home")
}

/// Takes down that the run's folder on its node was taken away.
pub(crate) fn cleaned(run: &Run, now_ms: i64) -> Option<Change> {
    dispatch_changed(run, |dispatch| dispatch.cleaned_ms = Some(now_ms))
}

/// Takes down the tree of the checkpoints that the run begins with.
pub(crate) fn checkpoints(run: &Run, overlay: &str) -> Option<Change> {
    dispatch_changed(run, |dispatch| dispatch.overlay = Some(overlay.to_owned()))
}
