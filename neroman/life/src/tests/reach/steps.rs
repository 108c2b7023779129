//! Steps of a person, of the placer, and of the daemon's own death.

use super::node::{Node, There};
use super::world::{Asked, NODES, NOW, Step, StoredRuns, World, happens, may_happen, tick};
use crate::facts::hold::HoldCause;
use crate::facts::reason::NoNode;
use crate::fold::change::Change;
use crate::place::{balance, gone};
use crate::source::abort;
use crate::step::input::Input;
use crate::step::needs;
use crate::step::placement::Choice;
use crate::tests::{lab, run as id};
use std::sync::Arc;

pub(super) struct Steps<'a> {
    pub from: &'a World,
    pub asked: Asked,
    pub stored: &'a mut StoredRuns,
    pub steps: Vec<Step>,
}

impl Steps<'_> {
    pub(super) fn push(&mut self, label: &str, changes: impl IntoIterator<Item = Change>) {
        self.with(label, false, changes, |_| {});
    }

    /// Adds a step that changes the world, too.
    pub(super) fn with(
        &mut self,
        label: &str,
        word: bool,
        changes: impl IntoIterator<Item = Change>,
        world: impl FnOnce(&mut World),
    ) {
        let mut to = self.from.clone();
        world(&mut to);
        to.take(changes.into_iter().collect());
        self.steps.push(Step {
            label: label.to_owned(),
            heard: true,
            word,
            to,
        });
    }

    /// Adds a step that the daemon does not see.
    pub(super) fn unheard(&mut self, label: &str, world: impl FnOnce(&mut World)) {
        let mut to = self.from.clone();
        world(&mut to);
        self.steps.push(Step {
            label: label.to_owned(),
            heard: false,
            word: false,
            to,
        });
    }

    pub(super) fn people(&mut self) {
        let run = self.from.run();
        let cancel = lab::cancel("me", NOW);
        if run.phase().is_live() || run.forgotten() {
            self.push(
                "a person cancels",
                happens(run, Input::Cancel(cancel.clone())),
            );
        }
        // For a group the first hand-over shows all of it.
        let calm = |node: &Node| node.fence == 0 && node.late.is_none() && node.gave_back.is_none();
        let quiet = run.dispatch.came_back == 0 && self.from.nodes.iter().all(calm);
        match self.from.next() {
            None if self.asked == Asked::OneNodeHeld => {}
            None if self.asked == Asked::OneNode || quiet => {
                self.start_again(run.phase().is_live());
            }
            None => {}
            Some(next) if next.phase().is_live() => {
                let changes = happens(next, Input::Cancel(cancel));
                self.with("a person cancels the next run", false, changes, |to| {
                    to.explored = true;
                });
            }
            Some(_) => {}
        }
        for (index, name) in NODES.iter().enumerate() {
            if self.from.here() == Some(index) && run.open() {
                let elsewhere = |word: &str| word == "lab";
                let (_, changes) = gone::decide(&self.from.state, name, "me", NOW, &elsewhere);
                self.with("a person says: node gone", true, changes, |to| {
                    to.deceived = true;
                    to.nodes[index].hang_up();
                });
            }
        }
    }

    pub(super) fn start_again(&mut self, live: bool) {
        let experiment = Arc::clone(self.from.state.experiment(id(1, 1).experiment).unwrap());
        let changes = abort::for_restart(&experiment, "restart", NOW);
        let mut to = self.from.clone();
        to.take(changes);
        let still = to.run().phase().is_live();
        to.make(2, (live && still).then_some(1), self.asked);
        to.explored |= !still;
        self.steps.push(Step {
            label: "a person starts it again".to_owned(),
            heard: true,
            word: false,
            to,
        });
    }

    /// Adds what the other runs of its batch, and a person, do to its hold, and the
    /// answers of its node.
    pub(super) fn hold(&mut self, index: usize) {
        if self.asked != Asked::OneNodeHeld || self.from.here() != Some(index) {
            return;
        }
        let run = self.from.run();
        let hold = Input::Hold(HoldCause::Crashes(run.made.id));
        if let Some(held) = may_happen(run, hold) {
            self.push("the first of its batch crash alike", held);
        }
        if let Some(lifted) = may_happen(run, Input::HoldLifted) {
            self.push("a person resumes it", lifted);
        }
        let (needs, node) = (needs::of(run), &self.from.nodes[index]);
        let waits = node.there == There::Waiting;
        if !(needs.hold || needs.lift) || node.request.is_some() {
            return;
        }
        let held = needs.hold && waits;
        let told = move |to: &mut World| to.nodes[index].held = held;
        self.unheard("the node is told of its hold, its answer is lost", told);
        // A node without the run reports that itself.
        if node.there == There::Nothing && needs.hold {
            return;
        }
        let at = run.placement().unwrap();
        let answered = happens(run, Input::HoldAnswered { at, holds: held });
        let label = match (needs.hold, held) {
            (true, true) => "the node holds it",
            (true, false) => "the node answers that it began or ended",
            (false, _) => "the node lets it go on",
        };
        self.with(label, false, answered, told);
    }

    pub(super) fn placer(&mut self) {
        let run = self.from.run();
        let place = |choice| happens(run, Input::Choice(choice));
        if run.unplaced() {
            let left = |name: &str| run.dispatch.deferred.iter().any(|one| one.node == name);
            for (index, name) in NODES.iter().enumerate() {
                let excluded = run.dispatch.excluded.iter().any(|other| other == name);
                // The nodes are alike: the first one is taken first.
                let first = NODES[0];
                let due =
                    index == 0 || left(first) || run.dispatch.excluded.iter().any(|n| n == first);
                if due && !excluded {
                    let changes = place(Choice::On((*name).to_owned()));
                    self.push("the placer chooses a node", changes);
                }
            }
            let nowhere = place(Choice::Nowhere(NoNode::NoneConfigured));
            self.push("the placer finds no node", nowhere);
            if !run.dispatch.refused.is_empty() {
                let never = place(Choice::Never(NoNode::NoneConfigured));
                self.push("all nodes have refused it", never);
            }
        }
        if let Some(node) = run.node() {
            let (node, why) = (node.to_owned(), "away".to_owned());
            if let Some(back) = may_happen(run, Input::NodeAway { node, why }) {
                self.push("its node is out of reach", back);
            }
        }
        if run.deferred().is_some() {
            let changes = happens(run, Input::RecallDeferred { tick: tick() });
            self.push("another node has room", changes);
        }
        let other = self.from.here().map(|here| NODES[1 - here]);
        if let Some(to) = other.filter(|to| balance::waits_freely(run) && !balance::left(run, to)) {
            let (to, tick) = (to.to_owned(), tick());
            let from = run.node().unwrap_or_default().to_owned();
            let changes = happens(run, Input::Balance { from, to, tick });
            self.push("another node could start it now", changes);
        }
    }

    /// Adds a restart: memory is lost, the rest is read as it was stored.
    pub(super) fn restart(&mut self) {
        let mut to = self.from.clone();
        let mut state = self.from.base.clone();
        for experiment in self.from.state.experiments.iter() {
            experiment
                .runs
                .iter()
                .for_each(|run| state.put_run(self.stored.read(run)));
        }
        to.state = state;
        to.is_new();
        to.nodes.iter_mut().for_each(Node::hang_up);
        self.steps.push(Step {
            label: "the daemon restarts".to_owned(),
            heard: true,
            word: false,
            to,
        });
    }

    /// Adds the steps of a node without us.
    pub(super) fn by_itself(&mut self, index: usize) {
        let node = &self.from.nodes[index];
        let here = self.from.here() == Some(index);
        // A node is ahead of the known records by one at most.
        let ahead = here && self.from.known < node.records.len();
        // A run that goes on elsewhere is reported as that alone.
        let elsewhere = !here && node.there == There::Started;
        if elsewhere {
            return;
        }
        if node.fence > 0 || node.request.is_some() || node.late.is_some() {
            self.unheard("its neromum is killed", |to| {
                let node = &mut to.nodes[index];
                (node.fence, node.request, node.late) = (0, None, None);
                // It reports an unknown run only if neroman asks for its records.
                node.gave_back = None;
            });
        }
        // The nodes are alike: one of them gives runs back.
        let moves = node.moves().into_iter().filter(|_| !ahead);
        for moved in moves.filter(|moved| index == 0 || moved.gave_back.is_none()) {
            self.unheard("the node goes on", |to| to.nodes[index] = moved);
        }
        // A node that forgot a started run is the same for a group or one node.
        let early = self.asked == Asked::OneNode || (here && self.from.known == 0 && !ahead);
        if node.there != There::Nothing && !self.from.deceived && early {
            self.unheard("the node loses what it had", |to| {
                to.nodes[index] = Node::default();
                to.deceived = true;
            });
        }
    }
}
