//! The changes from a decision about a run's node.

use super::change::{Change, desk_changed};
use super::later;
use super::place::Choice;
use super::refusal;
use super::run::Run;
use super::stage::Stage;
use super::text::bounded;

/// The change of a run whose earlier run is over.
pub(crate) fn released(run: &Run) -> Option<Change> {
    desk_changed(run, |desk| {
        if let Stage::Behind { node, .. } = &mut desk.stage {
            desk.stage = match node.take() {
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
    let change = desk_changed(run, |desk| match choice {
        Choice::On(name) => {
            desk.stage = Stage::Chosen {
                node: name.clone(),
                sending: false,
            };
            desk.why.clear();
        }
        Choice::Nowhere(why) => desk.why = bounded(why),
        Choice::Never(why) => {
            let why = bounded(why);
            let why = refusal::with_hint(&why, &refusal::hints(&desk.refused));
            desk.never_starts(why, now_ms);
            desk.why.clear();
            // No node has anything of the run.
            desk.stage.close();
        }
        Choice::Wait => {}
    });
    change.into_iter().chain(event).collect()
}

/// The changes from taking a run back, if its node still never got it.
pub(crate) fn taken_back(run: &Run, node: &str, why: &str, now_ms: i64) -> Vec<Change> {
    if run.node() != Some(node) || !run.movable() {
        return Vec::new();
    }
    let id = run.made.id;
    let change = desk_changed(run, |desk| {
        desk.stage = Stage::Unplaced;
        later::taken(desk, node);
    });
    let event = Change::Event {
        experiment: id.experiment,
        run: Some(id.number),
        at_ms: now_ms,
        text: format!("{id}: taken back from {node}: {why}"),
    };
    change.into_iter().chain([event]).collect()
}
