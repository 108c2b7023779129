//! The daemon: its state, and the drivers of its nodes. The decisions are those of this crate;
//! what stands here is the part of `neroman/daemon` that writes, sends and waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

use nero_format::{Definition, Precedence, SharedPart};
use nero_model::RunId;

use super::people::{EXPERIMENTS_MAX, Happening, Plan, stage};
use super::take_over::TAKEN_OVER;
use super::wire::Items;
use super::world::{Event, World, note};
use crate::after::retry::{self, Next};
use crate::facts::now::{Moment, Tick};
use crate::fold::change::Change;
use crate::fold::groups;
use crate::fold::run::Run;
use crate::fold::state::State;
use crate::place::waits::WaitIndex;
use crate::place::{batch, locks};
use crate::source::abort;
use crate::step::input::Input;
use crate::step::needs;
use crate::step::steps;
use crate::tests::reach::world::read_again;
use crate::tests::{Lab, definition};

/// A state with this many experiments; none of them has a run yet.
fn base(count: usize) -> State {
    static BASES: [OnceLock<State>; EXPERIMENTS_MAX as usize + 1] =
        [const { OnceLock::new() }; EXPERIMENTS_MAX as usize + 1];
    let staged = |number: usize| Definition {
        precedence: SharedPart::from(Precedence {
            stage: Some(stage(number as u64)),
            ..Precedence::default()
        }),
        ..definition(&format!("e{number}"), "1")
    };
    let made = BASES[count].get_or_init(|| {
        let mut lab = Lab::default();
        lab.add("/lab", (1..=count).map(staged).collect());
        lab.state
    });
    made.clone()
}

/// What the daemon knows, and its drivers.
pub(super) struct Head {
    pub state: State,
    /// Number of the records of each run that were folded.
    pub known: BTreeMap<RunId, usize>,
    /// The same as of the last sync.
    pub synced: (State, BTreeMap<RunId, usize>),
    /// The experiments without their runs.
    pub base: State,
    pub waits: WaitIndex,
    pub is_described: bool,
    pub is_up: bool,
    /// Nodes that a new machine has not taken over yet.
    pub untaken: BTreeSet<usize>,
    pub boot: u32,
    pub links: Vec<Link>,
    pub placer: super::placer::Placer,
    /// Runs that were recalled for a node with room, with the nodes that they left.
    pub moved_from: BTreeSet<(RunId, String)>,
}

/// The driver of a node.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// Number of the connection; 0: there is none.
    pub conn: u32,
    pub conns: u32,
    pub process: u32,
    pub is_trying: bool,
    pub failures: u32,
    /// Since when the node is out of reach.
    pub away_ms: Option<i64>,
    /// Runs of requests that wait for their turn, and what they are for.
    pub todo: VecDeque<(Errand, Vec<RunId>)>,
    /// Whether an answer to a request is awaited, and whether it is for the end of runs.
    pub awaits: Option<Errand>,
    pub to_send: BTreeSet<RunId>,
    /// Whether the answer to a hand-over is awaited.
    pub sends: bool,
    /// Whether the node does not know yet that it is followed.
    pub begins: bool,
    pub dirty: BTreeSet<RunId>,
    pub is_all: bool,
    pub is_looking: bool,
    pub is_closing: bool,
    pub to_close: BTreeSet<RunId>,
    pub ended: BTreeSet<RunId>,
    pub fetched: BTreeSet<RunId>,
    /// News that wait for the answer to a hand-over.
    pub news: VecDeque<Items>,
    pub about: Option<About>,
    pub asked_ms: Option<i64>,
}

/// The description of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub at_ms: i64,
    pub waiting: usize,
    pub is_held: bool,
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    Abandoned,
    Cancel,
    Hold,
    Lift,
    Recall,
}

impl Head {
    pub fn new(plan: &Plan) -> Self {
        let base = base(plan.experiments.len());
        Self {
            synced: (base.clone(), BTreeMap::new()),
            state: base.clone(),
            base,
            known: BTreeMap::new(),
            waits: WaitIndex::default(),
            is_described: true,
            is_up: true,
            untaken: BTreeSet::new(),
            boot: 1,
            links: plan.nodes.iter().map(|_| Link::default()).collect(),
            placer: super::placer::Placer::default(),
            moved_from: BTreeSet::new(),
        }
    }

    /// Whether people ask it for something: while they take over nodes they do nothing else.
    pub fn takes_orders(&self) -> bool {
        self.is_up && self.untaken.is_empty()
    }

    /// The node of this name.
    pub fn at(&self, name: &str) -> usize {
        name[1..].parse().expect("nodes are numbered")
    }
}

impl Link {
    /// The connection is over: what was on its way gets no answer.
    pub fn forget(&mut self) {
        *self = Self {
            conns: self.conns,
            failures: self.failures,
            away_ms: self.away_ms,
            is_trying: self.is_trying,
            about: self.about,
            ..Self::default()
        };
    }
}

fn take(state: &mut State, touched: &mut BTreeSet<RunId>, changes: &[Change]) {
    for change in changes {
        state.apply(change);
        touched.extend(change.run());
        if let Change::Run(new) = change {
            touched.insert(new.made.id);
        }
    }
}

impl World {
    pub fn tick(&self) -> Tick {
        Tick {
            boot: format!("h{}", self.head.boot),
            ms: self.clock.now,
        }
    }

    pub fn moment(&self) -> Moment {
        Moment {
            ms: self.clock.now,
            tick: self.tick(),
        }
    }

    /// Decides inputs and commits what they change.
    pub fn input(&mut self, label: &str, word: bool, durable: bool, inputs: Vec<(RunId, Input)>) {
        let inputs_of = inputs.iter().map(|(id, input)| (*id, input));
        let changes = steps(&self.head.state, inputs_of, self.clock.now, |_| {});
        let mut changed = changes.iter().filter_map(Change::run);
        let late = inputs.iter().filter(|(id, input)| self.is_late(*id, input));
        let late: BTreeSet<RunId> = late.map(|(id, _)| *id).collect();
        if let Some(run) = changed.find(|run| late.contains(run)) {
            let promise = "an answer about an earlier hand-over changes nothing";
            self.clock.breaks(promise, Some(run));
        }
        self.commit(label, word, durable, changes);
    }

    /// Whether it is an answer about a hand-over before the present one.
    fn is_late(&self, run: RunId, input: &Input) -> bool {
        let (Input::HandOver { at, .. }
        | Input::CancelAnswered { at, .. }
        | Input::HoldAnswered { at, .. }
        | Input::RecallAnswered { at, .. }) = input
        else {
            return false;
        };
        let run = self.head.state.run(run);
        run.is_some_and(|run| run.placement().as_ref() != Some(at))
    }

    /// Commits changes with what follows from them, as the ledger's writer does.
    pub fn commit(&mut self, label: &str, word: bool, durable: bool, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let (now, moment) = (self.clock.now, self.moment());
        let before = self.head.state.clone();
        let work = &mut self.head.state;
        let (mut touched, mut durable) = (BTreeSet::new(), durable);
        take(work, &mut touched, &changes);
        let named = touched.clone();
        for id in &named {
            match retry::next(work, *id, || self.clock.dice.token(), &moment) {
                None => {}
                Some(Next::None(changes)) => take(work, &mut touched, &changes),
                Some(Next::Run { new, event }) => {
                    durable = true;
                    take(work, &mut touched, &[Change::Run(Arc::new(*new)), event]);
                }
            }
        }
        let ends = touched.clone();
        let concerns = |id: &RunId| groups::concerns_others(before.run(*id), work.run(*id));
        let changed: Vec<RunId> = touched.iter().copied().filter(concerns).collect();
        let described = std::mem::take(&mut self.head.is_described);
        let changes = self.head.waits.release(work, &changed, described, now);
        take(work, &mut touched, &changes);
        let changes = batch::follow(&before, work, ends.iter().copied(), now);
        take(work, &mut touched, &changes);
        let changes = batch::next_in_line(&before, work, touched.clone(), now);
        take(work, &mut touched, &changes);
        for id in ends {
            if let Some((_, changes)) = abort::released_by(&before, work, id, now) {
                take(work, &mut touched, &changes);
            }
        }
        self.clock.is_new = true;
        if label != TAKEN_OVER {
            self.check_released(&before, &touched, label);
        }
        if durable {
            self.head.synced = (self.head.state.clone(), self.head.known.clone());
        }
        for id in touched {
            let (old, new) = (before.run(id), self.head.state.run(id));
            // The label tells nothing of the runs that only follow.
            let is_named = named.contains(&id);
            let label = if is_named { label } else { "it follows" };
            let news = needs::changed(old, new);
            let is_apart = self.head.state.apart > 0;
            let place = needs::deferred(old, new) || locks::may_free(old, new, is_apart);
            let node = new.and_then(Run::node).map(str::to_owned);
            let shown = |run: Option<&Run>| {
                run.map_or_else(String::new, |run| {
                    format!("{} {}", run.dispatch.stage.label(), run.phase().as_str())
                })
            };
            if self.clock.is_told && shown(old) != shown(new) {
                let (now, node) = (shown(new), node.as_deref().unwrap_or(""));
                note!(self.clock, Some(id), "head: {label} → {now} {node}");
            }
            if let Some(old) = old.filter(|old| !old.is_unread()) {
                self.judge(old, label, true, word);
            }
            match node {
                Some(node) if news => {
                    let node = self.head.at(&node);
                    self.ring(node, [id]);
                }
                None if news => self.ring_placer(),
                _ => {}
            }
            if place {
                self.ring_placer();
            }
        }
    }

    pub fn ring_placer(&mut self) {
        if !std::mem::replace(&mut self.head.placer.is_rung, true) {
            self.clock.soon(Event::Placer);
        }
    }

    /// The daemon dies; `power`: with its machine, which loses what was not synced.
    pub fn daemon_dies(&mut self, power: bool) {
        if !self.head.is_up {
            return;
        }
        if power {
            (self.head.state, self.head.known) = self.head.synced.clone();
            self.head.boot += 1;
        }
        self.head.is_up = false;
        for link in &mut self.head.links {
            link.forget();
            (link.conn, link.is_trying, link.away_ms, link.about) = (0, false, None, None);
        }
        self.head.placer = super::placer::Placer::default();
        let ms = self.clock.dice.ms(50, 5000);
        self.clock.after(ms, Event::Happens(Happening::DaemonBack));
    }

    /// A daemon reads what was stored.
    pub fn daemon_back(&mut self) {
        let mut state = self.head.base.clone();
        for experiment in self.head.state.experiments.iter() {
            let runs = experiment.runs.iter();
            runs.for_each(|run| state.put_run(read_again(run)));
        }
        self.head.state = state;
        self.head.synced = (self.head.state.clone(), self.head.known.clone());
        self.head.waits = WaitIndex::default();
        self.head.is_described = true;
        self.head.is_up = true;
        for node in 0..self.nodes.len() {
            self.want(node);
        }
        self.ring_placer();
    }
}
