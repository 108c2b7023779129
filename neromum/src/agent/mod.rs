//! The agent: one task that owns the core, the ledger and what is known of
//! every run's segments. Everybody else speaks to it through [`AgentHandle`].
//!
//! A turn takes what has gathered in the mailbox, handles each message, then
//! carries out the effects together: one write to the launcher, one sync of the
//! ledger, one round over the followers. Nothing here waits for anybody.

mod clean;
mod control;
mod effects;
mod follow;
mod hand_over;
mod kids;
mod launchers;
mod recover;
pub mod segments;
mod settle;
mod sync;
mod timers;

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use nero_model::paths::NodePaths;
use nero_model::{RequestId, RunId, RunToken};
use nero_wire::v1::{
    CancelReply, CancelRequest, FollowRequest, HandOverReply, SetRulesReply, SetRulesRequest,
};
use tokio::sync::{mpsc, oneshot};

use crate::config;
use crate::core::facts::Facts;
use crate::core::{Core, Stage};
use crate::ledger::{self, Ledger};
use crate::staging::environment::Base;
use crate::warden::bare;

pub use clean::{Candidate, Verdict};
pub use follow::FollowStream;
pub use hand_over::{Placer, Placing};
pub use kids::KidNews;
pub use recover::Raw;
use segments::Seg;

/// What the agent is told.
#[derive(Debug)]
pub enum Message {
    /// Runs whose folders are made.
    HandOver(Placing, oneshot::Sender<HandOverReply>),
    /// A wish that runs end.
    Cancel(CancelRequest, oneshot::Sender<Result<CancelReply, Refused>>),
    /// Rules for one run.
    SetRules(
        SetRulesRequest,
        oneshot::Sender<Result<SetRulesReply, Refused>>,
    ),
    /// Somebody wants the folders of runs to go; `true`: only to know.
    Clean(Vec<Candidate>, bool, oneshot::Sender<Vec<Verdict>>),
    /// The folders of these runs are gone, or stay after all.
    Cleaned(Vec<RunToken>),
    /// Which runs are not over.
    Open(oneshot::Sender<HashSet<RunId>>),
    /// How busy the node is.
    Describe(oneshot::Sender<Busy>),
    /// Somebody follows.
    Follow(FollowRequest, oneshot::Sender<FollowStream>),
    /// A follower says more.
    FollowMore(u64, FollowRequest),
    /// A follower took what it was sent, and more waits.
    FollowRoom(u64),
    /// A follower left.
    FollowGone(u64),
    /// A watcher says something.
    Kid(KidNews),
    /// A launcher says something.
    Launcher(bare::News),
    /// Work off the reactor is done.
    Done(Done),
    /// To be answered when a run has come that far (or is not known).
    Until(RunToken, Until, oneshot::Sender<()>),
    /// A connection was made (+1) or closed (-1).
    Connection(i64),
    /// Leave in order.
    Stop,
}

/// How far somebody waits for a run to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Its claim was seen.
    Started,
    /// No record of its life can follow.
    Ended,
}

impl Until {
    fn is_reached(self, stage: &Stage) -> bool {
        match stage {
            Stage::Waiting | Stage::Starting { .. } => false,
            Stage::Running { .. } => self == Self::Started,
            Stage::Ended { .. } | Stage::Settled { .. } | Stage::TakenAway | Stage::Refused => true,
        }
    }
}

/// Results of work off the reactor.
#[derive(Debug)]
pub enum Done {
    /// A run's folder.
    Prepared(
        RunToken,
        u32,
        Result<Box<effects::Start>, crate::staging::PrepareError>,
    ),
    /// The ledger was synced.
    Synced(std::io::Result<()>),
    /// One run of a settling, and whether it went well.
    Settled(PathBuf, settle::Answer),
    /// The settling process is gone.
    SettlerGone,
}

/// Why a call is refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refused {
    /// The disk does not take it; trying again may help.
    #[error("cannot keep it: {0}")]
    Disk(String),
    /// No such run.
    #[error("the run is not known here")]
    UnknownRun,
    /// The call makes no sense.
    #[error("{0}")]
    Invalid(&'static str),
}

/// How busy the node is.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    /// Runs that hold a slot.
    pub live: u32,
    /// Runs that wait.
    pub waiting: u32,
    /// CPUs that nobody holds.
    pub cpus_free: f64,
    /// Why nothing new starts.
    pub hold: String,
    /// Memory that runs were given.
    pub memory_given: u64,
    /// Free disk to keep.
    pub min_free: u64,
}

/// Speaks to the agent.
#[derive(Clone, Debug)]
pub struct AgentHandle {
    mailbox: mpsc::Sender<Message>,
}

/// The agent is gone: neromum is leaving.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("neromum is leaving; try again")]
pub struct Leaving;

impl AgentHandle {
    /// Sends a message; waits while the mailbox is full.
    ///
    /// # Errors
    /// When neromum is leaving.
    pub async fn tell(&self, message: Message) -> Result<(), Leaving> {
        self.mailbox.send(message).await.map_err(|_| Leaving)
    }

    /// Sends a question and waits for its answer.
    ///
    /// # Errors
    /// When neromum is leaving.
    pub async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Message,
    ) -> Result<T, Leaving> {
        let (answer, answered) = oneshot::channel();
        self.tell(question(answer)).await?;
        answered.await.map_err(|_| Leaving)
    }

    /// Tells without waiting, from where nobody may wait (a `Drop`).
    pub fn tell_now(&self, message: Message) {
        if let Err(mpsc::error::TrySendError::Full(message)) = self.mailbox.try_send(message)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let mailbox = self.mailbox.clone();
            runtime.spawn(async move { mailbox.send(message).await });
        }
    }
}

/// What the agent needs to know from the start.
#[derive(Debug)]
pub struct Setup {
    /// Where things lie.
    pub paths: NodePaths,
    /// What jobs begin with.
    pub base: Base,
    /// This machine's start.
    pub boot_id: [u8; 16],
    /// Free disk to keep.
    pub min_free: u64,
    /// When to leave.
    pub leave_after: std::time::Duration,
    /// The launcher of this build.
    pub launcher: bare::Launcher,
    /// The watcher's program.
    pub watcher: PathBuf,
    /// Our own socket.
    pub socket: PathBuf,
    /// Our epoch, where several hosts share the root.
    pub lease: Option<Arc<crate::lease::Held>>,
}

/// Beside what the core decides by: what is known of a run.
#[derive(Debug)]
struct Entry {
    id: RunId,
    /// Newest incarnation looked at; 0 when there is none.
    incarnation: u32,
    /// What its segments say.
    facts: Facts,
    /// All segments of all incarnations.
    segments: Vec<Seg>,
    /// Those of them that nobody may read, as was told.
    shut: Vec<PathBuf>,
    /// Why its segments could not be read when they were looked at last.
    unread: Option<String>,
    /// The records with which it ended, until the ledger has them.
    ends: Vec<nero_journal::v1::ledger_exited::Copy>,
    /// The ledger had its end already when neromum started.
    kept: bool,
    /// Its end (or that of its main process) is not synced yet: followers do
    /// not see it.
    unsynced: bool,
    /// Some launcher said that it looks after the run.
    tracked: Option<bare::LinkId>,
    /// The host on which it was claimed, when that is another one.
    elsewhere: Option<String>,
    /// An earlier leader may have started it, as far as the ledger tells.
    inherited: bool,
    /// How often its watcher's last words were waited for in vain.
    waits: u8,
    /// The run whose checkpoints it begins with.
    earlier: Option<RunToken>,
    /// It has rules, so that a watcher must see its output.
    rules: bool,
    /// `control/` may hold wishes up to this number.
    cancels: u32,
    /// The attached watcher.
    kid: Option<kids::Kid>,
    /// Tries of settling so far.
    settle_tries: u8,
    /// Those of them that failed for a reason that does not pass by itself.
    settle_failures: u8,
    /// When it was launched.
    launched: Option<tokio::time::Instant>,
    /// Whoever waits for its start or end.
    waiters: Vec<(Until, oneshot::Sender<()>)>,
    /// Its state changed this often.
    version: u32,
}

impl Entry {
    fn new(id: RunId) -> Self {
        Self {
            id,
            incarnation: 0,
            facts: Facts::default(),
            segments: Vec::new(),
            shut: Vec::new(),
            unread: None,
            ends: Vec::new(),
            kept: false,
            unsynced: false,
            tracked: None,
            elsewhere: None,
            inherited: false,
            waits: 0,
            earlier: None,
            rules: false,
            cancels: 0,
            kid: None,
            settle_tries: 0,
            settle_failures: 0,
            launched: None,
            waiters: Vec::new(),
            version: 0,
        }
    }

    /// From now on it is this incarnation that counts, if it is a newer one:
    /// what became of the one before says nothing of it.
    fn begin(&mut self, incarnation: u32) {
        if incarnation > self.incarnation {
            self.incarnation = incarnation;
            self.facts = Facts::default();
            self.ends.clear();
        }
    }
}

/// The task.
#[derive(Debug)]
pub struct Agent {
    setup: Arc<Setup>,
    core: Core,
    ledger: Ledger,
    entries: HashMap<RunToken, Entry>,
    next_order: u64,
    answers: VecDeque<(RequestId, Vec<u8>)>,
    launchers: launchers::Launchers,
    sync: sync::Syncs,
    followers: follow::Followers,
    settling: settle::Settling,
    /// Runs whose folders are going right now.
    cleaning: HashSet<RunToken>,
    /// Runs that another node may have taken since.
    turned_away: hand_over::TurnedAway,
    timers: timers::Timers,
    /// Results of work off the reactor. Not bounded: each stands for work in
    /// flight, of which there is at most one per slot, sync and settled run.
    done: mpsc::UnboundedSender<Message>,
    connections: i64,
    stopping: bool,
    /// The ledger can no longer be trusted.
    broken: Option<std::io::Error>,
}

/// Why the agent ended.
#[derive(Debug)]
pub enum End {
    /// Told to, or nothing left to do.
    Orderly,
    /// The disk refused what must be durable.
    Broken(std::io::Error),
}

/// Both ends of the agent's mailbox.
#[derive(Debug)]
pub struct Mailboxes {
    mailbox: mpsc::Receiver<Message>,
    done: mpsc::UnboundedReceiver<Message>,
}

impl Agent {
    /// An agent that knows what ledger and folders say, its handle, and what
    /// [`Agent::run`] takes.
    pub fn new(
        setup: Setup,
        capacity: crate::core::capacity::Capacity,
        ledger: Ledger,
        state: ledger::State,
    ) -> (Self, AgentHandle, Mailboxes) {
        let (mailbox, inbox) = mpsc::channel(config::MAILBOX);
        let (done, done_inbox) = mpsc::unbounded_channel();
        let mut agent = Self {
            setup: Arc::new(setup),
            core: Core::new(capacity),
            ledger,
            entries: HashMap::new(),
            next_order: state.next_order.max(1),
            answers: VecDeque::new(),
            launchers: launchers::Launchers::default(),
            sync: sync::Syncs::default(),
            followers: follow::Followers::default(),
            settling: settle::Settling::default(),
            cleaning: HashSet::new(),
            turned_away: hand_over::TurnedAway::default(),
            timers: timers::Timers::default(),
            done,
            connections: 0,
            stopping: false,
            broken: None,
        };
        agent.recover(state);
        let mailboxes = Mailboxes {
            mailbox: inbox,
            done: done_inbox,
        };
        (agent, AgentHandle { mailbox }, mailboxes)
    }

    /// Serves until told to stop or nothing is left to do.
    pub async fn run(mut self, handle: AgentHandle, mut boxes: Mailboxes) -> End {
        self.launchers.handle = Some(handle.clone());
        self.followers.handle = Some(handle);
        self.open_launchers();
        self.turn_end();
        let mut batch = Vec::with_capacity(config::BATCH);
        while !self.stopping && self.broken.is_none() {
            let deadline = self.next_deadline();
            // The agent holds an end of both boxes: neither ever closes.
            tokio::select! {
                biased;
                message = boxes.done.recv() => batch.extend(message),
                message = boxes.mailbox.recv() => batch.extend(message),
                () = timers::until(deadline) => {}
            }
            // Frozen or cut off for long, another may lead by now: then nothing
            // of this turn is done.
            if !self.leads() {
                break;
            }
            // Messages that never end must not keep what is due waiting.
            if deadline.is_some_and(|at| at <= tokio::time::Instant::now()) {
                self.timers_due();
            }
            // What gathered meanwhile belongs to the same turn.
            while batch.len() < config::BATCH
                && let Ok(message) = boxes.done.try_recv().or_else(|_| boxes.mailbox.try_recv())
            {
                batch.push(message);
            }
            for message in batch.drain(..) {
                self.handle(message);
            }
            self.turn_end();
        }
        self.leave(boxes).await
    }

    /// Whether we are sure to lead. Asks no file unless we were away for long.
    fn leads(&self) -> bool {
        let lease = self.setup.lease.as_ref();
        lease.is_none_or(|held| held.is_sure())
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::HandOver(placing, answer) => self.hand_over(placing, answer),
            Message::Cancel(request, answer) => self.cancel(request, answer),
            Message::SetRules(request, answer) => self.set_rules(request, answer),
            Message::Clean(candidates, rehearsal, answer) => {
                self.clean(candidates, rehearsal, answer);
            }
            Message::Cleaned(tokens) => self.cleaned(&tokens),
            Message::Open(answer) => drop(answer.send(self.open_runs())),
            // An asker that left needs no answer; so for all answers here.
            Message::Describe(answer) => drop(answer.send(self.busy())),
            Message::Follow(request, answer) => self.follow(request, answer),
            Message::FollowMore(follower, request) => self.follow_more(follower, request),
            Message::FollowRoom(follower) => self.followers.room(follower),
            Message::FollowGone(follower) => self.followers.gone(follower),
            Message::Kid(news) => self.kid(news),
            Message::Launcher(news) => self.launcher(news),
            Message::Done(done) => self.done(done),
            Message::Until(token, until, answer) => self.until(token, until, answer),
            Message::Connection(change) => self.connections += change,
            Message::Stop => self.stopping = true,
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Prepared(token, incarnation, result) => self.prepared(token, incarnation, result),
            Done::Synced(result) => self.synced(result),
            Done::Settled(run_dir, answer) => self.settled_one(&run_dir, answer),
            Done::SettlerGone => self.settler_gone(),
        }
    }

    /// Everything that is done once for all messages of a turn.
    fn turn_end(&mut self) {
        self.start_what_fits();
        self.carry_out();
        self.launchers.flush();
        self.start_sync();
        self.start_settling();
        self.pump();
        self.see_whether_to_leave();
    }

    fn busy(&self) -> Busy {
        let free = self
            .core
            .capacity()
            .micro_cpus
            .saturating_sub(self.core.used().micro_cpus);
        Busy {
            live: self.core.live() as u32,
            waiting: self.core.waiting() as u32,
            cpus_free: crate::core::capacity::cpus(free),
            hold: self.hold_shown(),
            memory_given: self.core.used().memory_bytes,
            min_free: self.setup.min_free,
        }
    }

    fn until(&mut self, token: RunToken, until: Until, answer: oneshot::Sender<()>) {
        let reached = self
            .core
            .run(&token)
            .is_none_or(|run| until.is_reached(&run.stage));
        match self.entries.get_mut(&token) {
            Some(entry) if !reached => {
                // Readers of a log come and go while a run goes on for weeks.
                entry.waiters.retain(|(_, waiter)| !waiter.is_closed());
                entry.waiters.push((until, answer));
            }
            _ => drop(answer.send(())),
        }
    }

    fn run_dir(&self, id: RunId) -> PathBuf {
        self.setup.paths.run(id)
    }

    /// Leaves: what is written is made durable, nothing of a job is touched.
    async fn leave(mut self, mut boxes: Mailboxes) -> End {
        self.followers = follow::Followers::default();
        let retire = self.core.live() == 0 && self.core.waiting() == 0 && self.leads();
        if retire && self.launchers.own_link().is_some() {
            self.launchers.retire_own();
            self.launchers.flush();
            let gone = async {
                while let Some(message) = boxes.mailbox.recv().await {
                    if matches!(
                        message,
                        Message::Launcher(bare::News::Down { own: true, .. })
                    ) {
                        return;
                    }
                }
            };
            // It leaves at once, unless something of a job is still its care.
            let _ = tokio::time::timeout(config::RETIRE_PATIENCE, gone).await;
        }
        self.launchers.flush();
        match self.broken {
            Some(error) => End::Broken(error),
            None => match self.ledger.syncer().sync_data() {
                Ok(()) => End::Orderly,
                Err(error) => End::Broken(error),
            },
        }
    }
}
