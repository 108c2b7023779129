//! The changes from a decision about a run's node.

use super::change::{Change, dispatch_changed};
use super::deferred;
use super::place::Choice;
use super::refusal;
use super::run::Run;
use super::stage::Stage;
use super::text::bounded;

/// The change of a run whose earlier run is over.
pub(crate) fn released(run: &Run) -> Option<Change> {
    dispatch_changed(run, |dispatch| {
        if let Stage::Behind { node, .. } = &mut dispatch.stage {
            dispatch.stage = match node.take() {
                Some(node) => Stage::Chosen {
                    node,
                    sending: false,
                },
                None => Stage::Unplaced,
            };
        }
    })
}

/// The changes from a choice, if the run still waits for one.
pub(crate) fn decided(run: &Run, choice: &Choice, now_ms: i64) -> Vec<Change> {
    if !run.unplaced() {
        return Vec::new();
    }
    let id = run.made.id;
    let event = match choice {
        Choice::On(name) => Some(Change::Event {
            experiment: id.experiment,
            run: Some(id.number),
            at_ms: now_ms,
            text: format!("{id}: placed on {name}"),
        }),
        Choice::Nowhere(_) | Choice::Never(_) | Choice::Wait => None,
    };
    let change = dispatch_changed(run, |dispatch| match choice {
        Choice::On(name) => {
            dispatch.stage = Stage::Chosen {
                node: name.clone(),
                sending: false,
            };
            dispatch.why.clear();
        }
        Choice::Nowhere(why) => dispatch.why = bounded(why),
        Choice::Never(why) => {
            let why = bounded(why);
            let why = refusal::with_hint(&why, &refusal::hints(&dispatch.refused));
            dispatch.never_starts(why, now_ms);
            dispatch.why.clear();
            // No node has anything of the run.
            dispatch.stage.close();
        }
        Choice::Wait => {}
    });
    change.into_iter().chain(event).collect()
}

/// The changes from taking a run back, if its node still never got it.
pub(crate) fn unplaced(run: &Run, node: &str, why: &str, now_ms: i64) -> Vec<Change> {
    if run.node() != Some(node) || !run.movable() {
        return Vec::new();
    }
    let id = run.made.id;
    let change = dispatch_changed(run, |dispatch| {
        dispatch.stage = Stage::Unplaced;
        deferred::taken(dispatch, node);
    });
    let event = Change::Event {
        experiment: id.experiment,
        run: Some(id.number),
        at_ms: now_ms,
        text: format!("{id}: taken back from {node}: {why}"),
    };
    change.into_iter().chain([event]).collect()
}
