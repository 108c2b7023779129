//! One experiment, two nodes and every input that may come next: each step calls the
//! decision that the daemon would call, under the daemon's condition.

use std::collections::HashMap;
use std::sync::Arc;

use super::node::Node;
use super::shown::shown;
use super::steps::Steps;
use crate::facts::now::Tick;
use crate::fold::change::Change;
use crate::fold::row::DispatchRow;
use crate::fold::run::{Dispatch, Run, RunRecord};
use crate::fold::state::State;
use crate::source::abort;
use crate::step;
use crate::step::input::Input;
use crate::tests::lab::{made, new_run};
use crate::tests::{Lab, definition, run as id};

/// Time stands still: the order of steps does not depend on it.
pub(super) const NOW: i64 = 1000;
/// That moment on the boot clock.
pub(super) fn tick() -> Tick {
    Tick {
        boot: "b".to_owned(),
        ms: NOW,
    }
}

/// The changes of an input whose condition the daemon has looked at: it is never late.
pub(super) fn happens(run: &Run, input: Input) -> Vec<Change> {
    step(run, &input, NOW).unwrap()
}

/// The changes of an input that may come late.
pub(super) fn may_happen(run: &Run, input: Input) -> Option<Vec<Change>> {
    step(run, &input, NOW).ok()
}

pub(super) const NODES: [&str; 2] = ["a", "b"];

/// The variants of the first state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    /// A run for a group of two nodes.
    Group,
    /// A run for one node.
    OneNode,
    /// The same; the other runs of its batch may have it held. It is not started again.
    OneNodeHeld,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub state: State,
    /// The state before the run.
    pub base: State,
    pub nodes: [Node; 2],
    /// The number of its node's records that were folded.
    pub known: usize,
    /// Whether a node lost the run, or a person called a living node gone.
    pub deceived: bool,
    /// Whether the further steps are explored elsewhere.
    pub explored: bool,
    /// The run and the run that waits for its end, as the table prints them.
    pub printed: Arc<(String, Option<String>)>,
}

/// One input.
pub(super) struct Step {
    pub label: String,
    /// Whether the daemon is told; else only the world moves.
    pub heard: bool,
    /// Whether it is its node's own promise about the run, or a person's decision
    /// about the node.
    pub word: bool,
    pub to: World,
}

impl World {
    pub(super) fn new(asked: Asked) -> Self {
        let base = defined();
        let mut world = Self {
            state: base.clone(),
            base,
            nodes: Default::default(),
            known: 0,
            deceived: false,
            explored: false,
            printed: Arc::default(),
        };
        world.make(1, None, asked);
        world
    }

    pub(super) fn make(&mut self, number: u32, after: Option<u32>, asked: Asked) {
        let one = asked != Asked::Group;
        let node = if one { NODES[0] } else { "lab" };
        let made = RunRecord {
            created_ms: NOW,
            outputs: true,
            ..made(id(1, number), node)
        };
        let dispatch = Dispatch::planned(one.then(|| NODES[0].to_owned()), after);
        self.take(vec![new_run(made, dispatch)]);
    }

    /// The run under test.
    pub(super) fn run(&self) -> &Run {
        self.state.run(id(1, 1)).unwrap()
    }

    /// The run that waits for its end.
    pub(super) fn next(&self) -> Option<&Run> {
        self.state.run(id(1, 2))
    }

    /// The index of its node.
    pub(super) fn here(&self) -> Option<usize> {
        let node = self.run().node()?;
        NODES.iter().position(|name| *name == node)
    }

    /// Applies changes as the ledger does, with what they release.
    pub(super) fn take(&mut self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let before = self.state.clone();
        for change in &changes {
            self.state.apply(change);
        }
        let released = abort::released_by(&before, &self.state, id(1, 1), NOW);
        if let Some((_, changes)) = released {
            changes.iter().for_each(|change| self.state.apply(change));
            self.explored = true;
        }
        self.is_new();
    }

    /// Prints runs that changed.
    pub(super) fn is_new(&mut self) {
        self.state.check_invariants();
        self.printed = Arc::new((shown(self.run()), self.next().map(shown)));
    }

    /// Every input that may come next.
    pub(super) fn steps(&self, asked: Asked, stored: &mut StoredRuns) -> Vec<Step> {
        let mut steps = Steps {
            from: self,
            asked,
            stored,
            steps: Vec::new(),
        };
        steps.people();
        steps.placer();
        steps.restart();
        for index in 0..NODES.len() {
            steps.sending(index);
            steps.arrival(index);
            steps.reports(index);
            steps.cancel(index);
            steps.recall(index);
            steps.hold(index);
            steps.records(index);
            steps.by_itself(index);
        }
        steps.results();
        steps.steps
    }
}

/// A state with one experiment that has no run.
pub(super) fn defined() -> State {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("e", "1")]);
    lab.state
}

/// A run as the next daemon reads it.
pub(in crate::tests) fn read_again(run: &Run) -> Run {
    let dispatch = serde_json::to_vec(&DispatchRow::of(run)).unwrap();
    let facts = serde_json::to_vec(&*run.journal).unwrap();
    let kept: DispatchRow = serde_json::from_slice(&dispatch).unwrap();
    let journal = Arc::new(serde_json::from_slice(&facts).unwrap());
    kept.run((*run.made).clone(), journal, Arc::clone(&run.rules))
}

/// Reads runs as they were stored; the same run once.
#[derive(Default)]
pub(super) struct StoredRuns {
    known: HashMap<(u32, u32, String), Vec<(Run, Run)>>,
}

impl StoredRuns {
    pub(super) fn read(&mut self, run: &Run) -> Run {
        let key = (run.made.id.number, run.dispatch.came_back, shown(run));
        let known = self.known.entry(key).or_default();
        let same =
            |(one, _): &&(Run, Run)| one.dispatch == run.dispatch && one.journal == run.journal;
        if let Some((_, read)) = known.iter().find(same) {
            return read.clone();
        }
        let read = read_again(run);
        known.push((run.clone(), read.clone()));
        read
    }
}
