//! The changes from a decision about a run's node.

use nero_model::RunId;

use super::change::{Change, desk_change};
use super::later;
use super::place::Choice;
use super::refusal;
use super::run::{Handing, Run, Word};
use super::state::State;
use super::text::bounded;

/// The changes from a choice, if the run still waits for one.
pub fn decided(state: &State, id: RunId, choice: Choice, now_ms: i64) -> Vec<Change> {
    if !state.run(id).is_some_and(Run::unplaced) {
        return Vec::new();
    }
    let event = match &choice {
        Choice::On(name) => Some(Change::Event {
            experiment: id.experiment,
            run: Some(id.number),
            at_ms: now_ms,
            text: format!("{id}: placed on {name}"),
        }),
        Choice::Nowhere(_) | Choice::Never(_) | Choice::Wait => None,
    };
    let change = desk_change(state, id, |desk| match choice {
        Choice::On(name) => {
            desk.node = Some(name);
            desk.why.clear();
        }
        Choice::Nowhere(why) => desk.why = bounded(&why),
        Choice::Never(why) => {
            let why = bounded(&why);
            let why = refusal::with_hint(&why, &refusal::hints(&desk.refused));
            desk.word = Some(Word::Refused { why, at_ms: now_ms });
            desk.why.clear();
            // No node has anything of the run.
            desk.closed = true;
        }
        Choice::Wait => {}
    });
    change.into_iter().chain(event).collect()
}

/// The changes from taking a run back, if its node still never got it.
pub fn taken_back(state: &State, id: RunId, node: &str, why: &str, now_ms: i64) -> Vec<Change> {
    let here = |run: &Run| run.node() == Some(node) && run.movable();
    if !state.run(id).is_some_and(here) {
        return Vec::new();
    }
    let change = desk_change(state, id, |desk| {
        desk.node = None;
        desk.handing = Handing::Queued;
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
