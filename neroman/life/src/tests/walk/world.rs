//! The world of a walk: virtual time, one heap of events, and what is true whatever anybody
//! knows of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nero_model::{RunId, RunToken};

use super::cards::Lock;
use super::head::Head;
use super::node::Node;
use super::people::{Happening, Plan, Rates};
use super::wire::{Answer, Items, Request, SentRun};

/// What comes next; numbers are those of nodes, connections and processes.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Happens(Happening),
    /// The placer looks at the runs that wait for a node.
    Placer,
    /// The driver of a node tries to connect.
    Connect(usize),
    /// A new machine takes over the runs of a node.
    TakeOver(usize),
    /// Something of the driver of a node is due, if this connection is its newest.
    Driver(usize, u32, DriverDue),
    /// To a node, by a connection, for a process.
    ToNode(usize, u32, u32, Request),
    /// Something of this neromum is due, if it is there still.
    Agent(usize, u32, Due),
    /// A launcher tells its neromum of a start.
    Told(usize, u32, RunToken, u32, News),
    /// A shim on the machine goes on.
    Start(usize, u32, Go),
}

impl Event {
    /// Whether a node gets runs by it.
    fn hands_over(&self) -> bool {
        matches!(
            self,
            Self::ToNode(.., Request::HandOver(_)) | Self::Agent(.., Due::HandOver(..))
        )
    }
}

/// What is due in the driver of a node.
#[derive(Clone, Debug)]
pub(super) enum DriverDue {
    /// The end of the connection shows here.
    Lost,
    /// The driver looks at the runs that changed.
    Look,
    /// All runs of the node are to be looked at again.
    LookAtAll,
    /// The files of these runs, with their generations, are on the node.
    Staged(Vec<(RunId, u32)>),
    Close,
    Fetched(RunId),
    Reply(Answer),
    Stream(Items),
}

/// What is due in neromum.
#[derive(Clone, Debug)]
pub(super) enum Due {
    Launcher,
    /// The next folder is made for a hand-over by this connection. Behind the last one the
    /// agent accepts the runs.
    HandOver(u32, Vec<SentRun>),
    Prepared(RunToken, u32),
    Settled(RunToken),
    Release,
    Cards,
}

/// The news of a launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Begun,
    Ended,
    Superseded,
    NoClaim,
    /// Another process has its shares of cards.
    Locked,
}

/// The next step of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    Claim,
    Begin,
    Gate,
    End,
    Ring,
}

/// A job that passed its gate.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub run: RunId,
    pub token: RunToken,
    pub node: usize,
    pub cpus: u32,
    pub lock: Option<Lock>,
    pub is_alive: bool,
    /// Whether its folder was deleted, and nothing more of it is known.
    pub is_lost: bool,
}

/// Random numbers of a seed.
#[derive(Clone, Debug, Default)]
pub(super) struct Dice(pub u64);

impl Dice {
    /// A number below `most`.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most.max(1)
    }

    /// Whether something that happens so many times in a thousand happens.
    pub fn chance(&mut self, in_thousand: u64) -> bool {
        self.below(1000) < in_thousand
    }

    pub fn token(&mut self) -> RunToken {
        let mut bytes = [1; 16];
        bytes[..8].copy_from_slice(&self.below(u64::MAX).to_le_bytes());
        RunToken::from_bytes(bytes)
    }

    /// Milliseconds from `least` to `most`.
    pub fn ms(&mut self, least: i64, most: i64) -> i64 {
        least + self.below((most - least + 1).unsigned_abs()).cast_signed()
    }
}

/// Time, what is to come, and what happened.
#[derive(Debug, Default)]
pub(super) struct Clock {
    pub now: i64,
    next: u64,
    pub heap: BTreeMap<(i64, u64), Event>,
    /// Number of the hand-overs among them.
    pub hand_overs: usize,
    pub dice: Dice,
    pub jobs: Vec<Job>,
    /// Whether a job or a run changed since all promises were checked.
    pub is_new: bool,
    /// What was seen, with the run that it concerns.
    pub story: Vec<(i64, Option<RunId>, String)>,
    /// Whether the story is written.
    pub is_told: bool,
    pub broken: Option<(String, Option<RunId>)>,
    pub rates: Rates,
    /// Whether no fault comes any more.
    pub is_calm: bool,
}

impl Clock {
    /// Lets an event happen after so many milliseconds.
    pub fn after(&mut self, ms: i64, event: Event) {
        self.next += 1;
        self.hand_overs += usize::from(event.hands_over());
        self.heap.insert((self.now + ms, self.next), event);
    }

    /// Lets it happen soon, or late.
    pub fn soon(&mut self, event: Event) {
        let ms = self.soon_ms();
        self.after(ms, event);
    }

    /// Time until something that mostly happens soon.
    pub fn soon_ms(&mut self) -> i64 {
        let is_late = self.fails(self.rates.lost / 4);
        let most = if is_late { 5000 } else { 30 };
        self.dice.ms(1, most)
    }

    /// Whether a fault happens.
    pub fn fails(&mut self, in_thousand: u64) -> bool {
        !self.is_calm && self.dice.chance(in_thousand)
    }

    /// Writes a sentence of the story; see `note!`.
    pub fn note(&mut self, run: Option<RunId>, text: fmt::Arguments<'_>) {
        if self.is_told {
            self.story.push((self.now, run, text.to_string()));
        }
    }

    pub fn job_ends(&mut self, job: Option<usize>) {
        if let Some(job) = job.and_then(|job| self.jobs.get_mut(job)) {
            (job.is_alive, self.is_new) = (false, true);
        }
    }

    /// A promise does not hold.
    pub fn breaks(&mut self, promise: &str, run: Option<RunId>) {
        if self.broken.is_none() {
            self.note(run, format_args!("BROKEN: {promise}"));
            self.broken = Some((promise.to_owned(), run));
        }
    }
}

/// Writes a sentence of the story, about a run or `None`.
macro_rules! note {
    ($clock:expr, $run:expr, $($text:tt)*) => { $clock.note($run, format_args!($($text)*)) };
}
pub(super) use note;

/// All of it.
pub(super) struct World {
    pub clock: Clock,
    pub head: Head,
    pub nodes: Vec<Node>,
    pub plan: Plan,
    /// Runs that a person gave up although they may go on.
    pub deceived: BTreeSet<RunId>,
    /// Runs that a person paused at some time.
    pub paused: BTreeSet<RunId>,
    /// Number of the jobs that were found to be the first ones of their runs.
    pub jobs_checked: usize,
    /// Number of the reports about an earlier hand-over than the newest.
    pub late_reports: usize,
    pub events: u64,
}

impl World {
    pub fn new(plan: &Plan) -> Self {
        let mut clock = Clock {
            now: 1000,
            dice: Dice(plan.seed),
            rates: plan.rates,
            ..Clock::default()
        };
        let names = plan.nodes.iter().enumerate();
        let nodes: Vec<Node> = names.map(|(at, cpus)| Node::new(at, *cpus)).collect();
        for (at_ms, happening) in &plan.happenings {
            clock.after(*at_ms, Event::Happens(happening.clone()));
        }
        clock.after(plan.faults_ms, Event::Happens(Happening::Calm));
        Self {
            head: Head::new(plan),
            clock,
            nodes,
            plan: plan.clone(),
            deceived: BTreeSet::new(),
            paused: BTreeSet::new(),
            jobs_checked: 0,
            late_reports: 0,
            events: 0,
        }
    }

    /// Plays until all is at rest or a promise is broken.
    pub fn play(&mut self) {
        let end_ms = 1000 + self.plan.faults_ms + self.plan.rest_ms();
        while let Some(((now, _), event)) = self.clock.heap.pop_first() {
            if now > end_ms || self.clock.broken.is_some() {
                break;
            }
            self.clock.now = now;
            self.clock.hand_overs -= usize::from(event.hands_over());
            self.events += 1;
            self.happen(event);
            if std::mem::take(&mut self.clock.is_new) {
                self.check();
            }
        }
        if self.clock.broken.is_none() {
            self.check_rest();
        }
    }

    fn happen(&mut self, event: Event) {
        if let Event::Driver(node, _, DriverDue::Reply(_) | DriverDue::Stream(_))
        | Event::ToNode(node, ..) = &event
            && !self.nodes[*node].is_reached
        {
            // It comes when the network is back, if the connection outlives that.
            let back_ms = self.nodes[*node].back_ms - self.clock.now;
            return self.clock.after(back_ms.max(1), event);
        }
        match event {
            Event::Happens(happening) => self.person(happening),
            Event::Placer => self.place(),
            Event::Connect(node) => self.connect(node),
            Event::TakeOver(node) => self.take_over(node),
            Event::Driver(node, conn, due) => {
                if conn > 0 && self.head.links[node].conn == conn {
                    self.driver(node, due);
                }
            }
            Event::ToNode(node, conn, process, request) => {
                self.arrives(node, conn, process, request);
            }
            Event::Agent(node, process, due) => self.nodes[node].due(&mut self.clock, process, due),
            Event::Told(node, launcher, token, start, news) => {
                self.nodes[node].told(&mut self.clock, launcher, token, start, news);
            }
            Event::Start(node, shim, go) => self.nodes[node].goes(&mut self.clock, shim, go),
        }
    }
}
