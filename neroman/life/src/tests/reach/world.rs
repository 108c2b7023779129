//! One experiment, two nodes and every input that may come next: each step calls the
//! decision that the daemon would call, under the daemon's condition.

use std::collections::HashMap;
use std::sync::Arc;

use nero_model::RunToken;

use super::node::{NEVER_AGAIN, Node, Rec, Request, There, journal};
use super::shown::shown;
use crate::abort::{self, Answer as Cancelled};
use crate::change::{Change, NewRun};
use crate::hand_over::{self, Answer, Sending};
use crate::input::{Input, Placement};
use crate::kept::Kept;
use crate::now::Tick;
use crate::place::Choice;
use crate::reason::NoNode;
use crate::recall::{self, Said};
use crate::report::{self, Report, Standing, Stray};
use crate::run::{Cancel, Dispatch, Made, Results, Run, Takes};
use crate::stage::Stage;
use crate::state::State;
use crate::step;
use crate::tests::{Lab, definition, run as id};
use crate::{balance, clean, gone, needs};

/// Time stands still: the order of steps does not depend on it.
const NOW: i64 = 1000;
/// That moment on the boot clock.
fn tick() -> Tick {
    Tick {
        boot: "b".to_owned(),
        ms: NOW,
    }
}

/// The changes of an input whose condition the daemon has looked at: it is never late.
fn happens(run: &Run, input: Input) -> Vec<Change> {
    step(run, &input, NOW).unwrap()
}

/// The changes of an input that may come late.
fn may_happen(run: &Run, input: Input) -> Option<Vec<Change>> {
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

    fn make(&mut self, number: u32, after: Option<u32>, asked: Asked) {
        let one = asked == Asked::OneNode;
        let made = Made {
            token: RunToken::from_slice(&[number as u8; 16]).unwrap(),
            id: id(1, number),
            node: if one { NODES[0] } else { "lab" }.to_owned(),
            placing: true,
            created_ms: NOW,
            created: None,
            tree: String::new(),
            git: String::new(),
            fingerprint: "f".to_owned(),
            time_ms: 0,
            outputs: true,
            all_made: false,
            takes: Takes::default(),
            resume: None,
        };
        let dispatch = Dispatch::planned(one.then(|| NODES[0].to_owned()), after);
        self.take(vec![Change::Run(Arc::new(NewRun {
            made: Arc::new(made),
            dispatch,
            rules: Arc::default(),
            spec: Arc::default(),
        }))]);
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
    fn take(&mut self, changes: Vec<Change>) {
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
    fn is_new(&mut self) {
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
            steps.records(index);
            steps.by_itself(index);
        }
        steps.results();
        steps.steps
    }
}

/// A state with one experiment that has no run.
fn defined() -> State {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("e", "1")]);
    lab.state
}

/// Reads runs as they were stored; the same run once.
#[derive(Default)]
pub(super) struct StoredRuns {
    known: HashMap<(u32, u32, String), Vec<(Run, Run)>>,
}

impl StoredRuns {
    fn read(&mut self, run: &Run) -> Run {
        let key = (run.made.id.number, run.dispatch.came_back, shown(run));
        let known = self.known.entry(key).or_default();
        let same =
            |(one, _): &&(Run, Run)| one.dispatch == run.dispatch && one.journal == run.journal;
        if let Some((_, read)) = known.iter().find(same) {
            return read.clone();
        }
        let dispatch = serde_json::to_vec(&Kept::of(run)).unwrap();
        let facts = serde_json::to_vec(&*run.journal).unwrap();
        let kept: Kept = serde_json::from_slice(&dispatch).unwrap();
        let journal = Arc::new(serde_json::from_slice(&facts).unwrap());
        let read = kept.run((*run.made).clone(), journal, Arc::clone(&run.rules));
        known.push((run.clone(), read.clone()));
        read
    }
}

struct Steps<'a> {
    from: &'a World,
    asked: Asked,
    stored: &'a mut StoredRuns,
    steps: Vec<Step>,
}

impl Steps<'_> {
    fn push(&mut self, label: &str, changes: impl IntoIterator<Item = Change>) {
        self.with(label, false, changes, |_| {});
    }

    /// Adds a step that changes the world, too.
    fn with(
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
    fn unheard(&mut self, label: &str, world: impl FnOnce(&mut World)) {
        let mut to = self.from.clone();
        world(&mut to);
        self.steps.push(Step {
            label: label.to_owned(),
            heard: false,
            word: false,
            to,
        });
    }

    fn people(&mut self) {
        let run = self.from.run();
        let cancel = Cancel {
            asked_ms: NOW,
            author: "me".to_owned(),
            grace_ms: 0,
            signal: 0,
            delivered: false,
        };
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

    fn start_again(&mut self, live: bool) {
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

    fn placer(&mut self) {
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
    fn restart(&mut self) {
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

    fn sending(&mut self, index: usize) {
        let (run, name, node) = (self.from.run(), NODES[index], &self.from.nodes[index]);
        // The nodes are alike: one of them shows what a late hand-over does beside another.
        let late = index > 0 && node.late.is_some();
        if !hand_over::is_due(run, name) || node.request.is_some() || late {
            return;
        }
        let why = || "why".to_owned();
        for (label, sending) in [
            ("its files go to the node", Sending::FilesGo),
            ("its checkpoints are not home yet", Sending::Waits(why())),
            (
                "the node has no room for its files",
                Sending::Deferred(why()),
            ),
            ("its files are not here any more", Sending::Never(why())),
        ] {
            let node = name.to_owned();
            let tick = tick();
            let input = Input::Sending {
                node,
                sending,
                tick,
            };
            self.push(label, happens(run, input));
        }
        let node = name.to_owned();
        if let Some(offered) = may_happen(run, Input::Offer { node }) {
            self.push("it is offered", offered);
        }
        let generation = run.dispatch.generation();
        if hand_over::may_send(run, name, generation) {
            let request = Request {
                generation,
                again: hand_over::is_sent_again(run),
                question: false,
            };
            self.unheard("it is sent", |to| to.nodes[index].request = Some(request));
        }
        if hand_over::is_asked_for(run, name) {
            let request = Request {
                generation,
                again: false,
                question: true,
            };
            let label = "its files are not here, the node is asked for it";
            self.unheard(label, |to| to.nodes[index].request = Some(request));
        }
    }

    /// Adds the arrival of a hand-over, with or without its answer.
    fn arrival(&mut self, index: usize) {
        let node = &self.from.nodes[index];
        if let Some(generation) = node.late {
            self.unheard("a late hand-over arrives", |to| {
                to.nodes[index].late = None;
                to.nodes[index].accept(generation);
            });
        }
        let Some(request) = node.request else { return };
        self.unheard("the connection is lost", |to| to.nodes[index].hang_up());
        let (why, hint) = ("why".to_owned(), String::new());
        let accepted = Answer::Accepted { rules_version: 1 };
        let deferred = Answer::Later {
            why: why.clone(),
            lacks: None,
            hint: hint.clone(),
        };
        let refused = |only_here| Answer::Refused {
            why: why.clone(),
            lacks: None,
            hint: hint.clone(),
            only_here,
        };
        let answers = match node.there {
            There::Nothing if request.again => vec![Answer::Unknown],
            There::Nothing | There::Recalled if request.question => {
                vec![Answer::NotThere { why: why.clone() }]
            }
            There::Nothing if node.fence == NEVER_AGAIN => vec![refused(true)],
            There::Nothing if request.generation <= node.fence => vec![Answer::Unknown],
            There::Nothing => vec![accepted, deferred, refused(true), refused(false)],
            There::Recalled => vec![refused(true)],
            There::Waiting
            | There::Refused
            | There::Started
            | There::Ended
            | There::Settled
            | There::TakenAway => vec![accepted],
        };
        for answer in answers {
            let comes_in = matches!(answer, Answer::Accepted { .. });
            // It refuses what is still on its way of such a run, too.
            let fence = match answer {
                Answer::Refused {
                    only_here: true, ..
                } => NEVER_AGAIN,
                Answer::Unknown | Answer::NotThere { .. } => request.generation,
                Answer::Accepted { .. }
                | Answer::Later { .. }
                | Answer::CannotTell { .. }
                | Answer::Refused { .. } => 0,
            };
            let world = |to: &mut World| {
                let node = &mut to.nodes[index];
                node.request = None;
                node.raise_fence(fence);
                if comes_in {
                    node.accept(request.generation);
                }
            };
            let label = match &answer {
                Answer::Accepted { .. } => "the node accepts it",
                Answer::Later { .. } => "the node cannot take it now",
                Answer::NotThere { .. } => "the node does not have it, its files are not here",
                Answer::CannotTell { .. } => "the node cannot tell whether it has it",
                Answer::Unknown => "the node does not have it and does not take it",
                Answer::Refused {
                    only_here: true, ..
                } => "the node refuses it: only here",
                Answer::Refused {
                    only_here: false, ..
                } => "the node refuses it: everywhere",
            };
            let node = NODES[index].to_owned();
            let generation = request.generation;
            let input = Input::HandOver {
                at: Placement { node, generation },
                answer,
                tick: tick(),
            };
            let changes = happens(self.from.run(), input);
            self.with(label, true, changes, world);
        }
    }

    fn reports(&mut self, index: usize) {
        let (run, node) = (self.from.run(), &self.from.nodes[index]);
        let here = self.from.here() == Some(index);
        let asker = node.request.is_some();
        // Records are sent before the report that they were.
        let sent = !here || self.from.known == node.records.len() || !run.takes_records();
        if let Some(generation) = node.gave_back {
            // The answer to a hand-over is recorded before, any other report after it.
            if !asker {
                self.report_given_back(index, generation);
            }
            return;
        }
        let standing = match node.there {
            There::Nothing if asker || !here => return,
            There::Nothing if !run.reached_its_node() => return,
            There::Nothing => Standing::Unknown,
            There::Waiting => Standing::Waiting,
            There::Refused => Standing::Refused,
            There::Started if node.records.len() == 1 => Standing::Starting,
            There::Started => Standing::Running,
            There::Ended | There::Settled if !sent => return,
            There::Ended => Standing::Ended,
            There::Settled => Standing::Settled,
            There::TakenAway | There::Recalled => Standing::TakenAway,
        };
        self.report(index, standing);
        if node.there != There::Nothing && here {
            self.report(index, Standing::Held);
        }
        let holds = matches!(standing, Standing::Waiting | Standing::Running);
        if holds && here && self.asked == Asked::OneNode {
            self.report_of(index, standing, true);
        }
    }

    /// Adds the report of a run that the node gave back, which may have come in again.
    fn report_given_back(&mut self, index: usize, generation: u32) {
        let (run, node) = (self.from.run(), NODES[index].to_owned());
        let here = self.from.here() == Some(index);
        let why = "why".to_owned();
        let report = Report {
            why,
            generation,
            ..Report::unknown()
        };
        let changes = may_happen(run, Input::Reported { node, report });
        let whose = if here { "its node" } else { "another node" };
        let what = match changes {
            Some(_) => "it is given back",
            None => "it was given back before",
        };
        let label = format!("{whose} reports: {what}");
        let changes = changes.unwrap_or_default();
        self.with(&label, here, changes, |to| to.nodes[index].gave_back = None);
    }

    fn report(&mut self, index: usize, standing: Standing) {
        self.report_of(index, standing, false);
    }

    /// Adds a report of a run whose spec is usable, or not any more.
    fn report_of(&mut self, index: usize, standing: Standing, send_spec: bool) {
        let (run, name) = (self.from.run(), NODES[index]);
        let mut changes = Vec::new();
        let here = self.from.here() == Some(index);
        if report::stray(run, name, standing) == Some(Stray::Live) {
            let node = name.to_owned();
            changes.extend(happens(run, Input::Stray { node }));
        }
        let mut to = self.from.clone();
        to.take(changes);
        let run = to.run().clone();
        if here && !run.is_closed() {
            let why = match standing {
                Standing::Ended | Standing::Settled | Standing::Unknown => String::new(),
                _ => "why".to_owned(),
            };
            let report = Report {
                standing,
                why,
                send_spec,
                ..Report::unknown()
            };
            let node = name.to_owned();
            to.take(happens(&run, Input::Reported { node, report }));
        }
        let whose = if here { "its node" } else { "another node" };
        let what = match standing {
            Standing::Held => "it cannot be read now",
            Standing::Waiting => "it waits",
            Standing::Starting => "it starts",
            Standing::Running => "it runs",
            Standing::Ended => "it ended",
            Standing::Settled => "it is settled",
            Standing::TakenAway => "it is taken away",
            Standing::Refused => "it can never start",
            Standing::Unknown => "it is unknown",
        };
        let spec = if send_spec { ", without its spec" } else { "" };
        self.steps.push(Step {
            label: format!("{whose} reports: {what}{spec}"),
            heard: true,
            word: here,
            to,
        });
    }

    fn cancel(&mut self, index: usize) {
        let (run, name, node) = (self.from.run(), NODES[index], &self.from.nodes[index]);
        if node.request.is_some() {
            return;
        }
        let over = node.records.last().is_some_and(|last| last.is_last());
        let (answer, there) = match node.there {
            There::Nothing => (Cancelled::Unknown, There::Nothing),
            There::Waiting | There::Refused | There::TakenAway => {
                (Cancelled::NeverStarted, There::TakenAway)
            }
            There::Recalled => (Cancelled::NeverStarted, There::Recalled),
            There::Started if over => (Cancelled::Ended, There::Started),
            There::Started => (Cancelled::Asked, There::Started),
            There::Ended | There::Settled => (Cancelled::Ended, node.there),
        };
        let told = move |to: &mut World| {
            let node = &mut to.nodes[index];
            node.there = there;
            node.cancelled |= answer == Cancelled::Asked;
            if answer == Cancelled::Unknown {
                node.raise_fence(NEVER_AGAIN);
            }
        };
        if self.from.here() == Some(index) && needs::of(run).cancel {
            let what = match answer {
                Cancelled::Unknown => "unknown",
                Cancelled::NeverStarted => "never started",
                Cancelled::Asked => "asked",
                Cancelled::Ended => "ended",
                Cancelled::Unclear | Cancelled::GoesOn => unreachable!(),
            };
            let asked_ms = Some(NOW);
            let at = run.placement().unwrap();
            let input = Input::CancelAnswered {
                at,
                answer,
                asked_ms,
            };
            let changes = happens(run, input);
            self.with(
                &format!("the node is told to end it: {what}"),
                true,
                changes,
                told,
            );
            self.unheard("the node ends it, its answer is lost", told);
        }
        if run.is_left_on(name) {
            let node = name.to_owned();
            let changes = happens(run, Input::EndedThere { node });
            let label = "a node that it was left behind on ends it";
            self.with(label, false, changes, told);
        }
    }

    fn recall(&mut self, index: usize) {
        let (run, name, node) = (self.from.run(), NODES[index], &self.from.nodes[index]);
        if node.request.is_some() || !recall::is_leaving(run, name) || !needs::of(run).recall {
            return;
        }
        let asked = matches!(&run.dispatch.stage, Stage::Recalled { recall, .. } if recall.asked);
        if !asked {
            let at = run.placement().unwrap();
            let asked = happens(run, Input::RecallAsked { at: at.clone() });
            self.push("the node is about to be asked", asked);
            let unsupported = happens(run, Input::RecallUnsupported { at });
            self.push("the node knows no recall", unsupported);
            return;
        }
        let generation = run.dispatch.generation();
        // What waits and no process of the node ever was to start leaves no trace.
        let answers = match node.there {
            There::Nothing => vec![(Some(Said::Nothing), There::Nothing, generation)],
            There::Waiting => vec![
                (Some(Said::Never), There::Recalled, node.fence),
                (Some(Said::Nothing), There::Nothing, generation),
            ],
            There::Refused | There::TakenAway | There::Recalled => {
                vec![(Some(Said::Never), There::Recalled, node.fence)]
            }
            There::Started => vec![(Some(Said::Begun), There::Started, node.fence)],
            There::Ended | There::Settled => vec![(None, node.there, node.fence)],
        };
        for (said, there, fence) in answers {
            self.recall_answered(index, said, there, fence);
        }
    }

    fn recall_answered(&mut self, index: usize, said: Option<Said>, there: There, fence: u32) {
        let told = move |to: &mut World| {
            to.nodes[index].there = there;
            to.nodes[index].raise_fence(fence);
        };
        self.unheard("the node is asked, its answer is lost", told);
        let Some(said) = said else { return };
        let what = match said {
            Said::Nothing => "nothing of it is there",
            Said::Never => "it never starts there",
            Said::Begun => "it goes on",
        };
        let run = self.from.run();
        let input = Input::RecallAnswered {
            at: run.placement().unwrap(),
            said,
            tick: tick(),
        };
        let changes = happens(run, input);
        let label = format!("the node answers the recall: {what}");
        self.with(&label, true, changes, told);
    }

    fn records(&mut self, index: usize) {
        let (run, node) = (self.from.run(), &self.from.nodes[index]);
        if self.from.here() != Some(index) || !run.takes_records() {
            return;
        }
        let folded = |records: &[Rec]| Change::Journal {
            run: run.made.id,
            journal: Arc::new(journal(records)),
        };
        let known = self.from.known;
        if let Some(record) = node.records.get(known) {
            let what = match record {
                Rec::Claimed => "it was claimed",
                Rec::Started => "its job started",
                Rec::StopAsked => "its job is stopped",
                Rec::Exited => "its job exited",
                Rec::TreeGone => "nothing of it is alive",
                Rec::GateClosed => "the start is made again",
                Rec::NotExecuted => "its program cannot be executed",
                Rec::NotStartedCancelled => "its start was cancelled",
                Rec::Rebooted => "its machine was restarted",
                Rec::FolderGone => "its folder is gone",
            };
            let changes = [folded(&node.records[..=known])];
            // The steps after a start do not depend on the word that was asked for.
            let explored = *record == Rec::Started && self.asked == Asked::Group;
            self.with(&format!("record: {what}"), true, changes, |to| {
                to.known = known + 1;
                to.explored |= explored;
            });
        }
    }

    fn results(&mut self) {
        let run = self.from.run();
        if needs::of(run).results {
            let done = Results::Done {
                folder: "r".to_owned(),
                notes: Vec::new(),
                left: 0,
                warnings: Vec::new(),
            };
            let hints = Vec::new();
            let home = happens(run, Input::ResultsDone { done, hints });
            self.push("its results are home", home);
            let why = "why".to_owned();
            let given_up = happens(run, Input::ResultsGivenUp { why });
            self.push("its results are given up", given_up);
            if clean::stays(run, true).is_none() {
                self.push("a person cleans it", happens(run, Input::ResultsForgone));
            }
        }
        if clean::lies_there(run) && run.is_closed() {
            self.push("its folder is cleaned", happens(run, Input::Cleaned));
        }
        if let Some(close) = may_happen(run, Input::MayForget) {
            self.push("the node may forget it", close);
        }
        if needs::of(run).rules {
            let taken = happens(
                run,
                Input::RulesDelivered {
                    version: 1,
                    kept: 1,
                },
            );
            self.push("the node takes its rules", taken);
        }
    }

    /// Adds the steps of a node without us.
    fn by_itself(&mut self, index: usize) {
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
