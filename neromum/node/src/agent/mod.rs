//! The agent: one task that owns the core, the ledger and the state of every
//! run's segments. All other tasks use its [`AgentHandle`].
//!
//! A turn takes what has gathered in the mailbox, handles each message, then
//! carries out the effects together: one write to the launcher, one sync of the
//! ledger, one round over the followers. No turn waits for another task.
//!
//! Parts own their fields: the launchers' links, syncs, followers, settling,
//! admission, answers, timers. The agent owns the core and the order of effects.
//!
//! Some file work stays in the task: it reads what was appended to a run's
//! segments, reads specs, and makes small files (a cancel request, a rule set, a
//! record of its own, an append to the ledger). Each decision follows from
//! exactly the bytes that were read before it, and each answer from the file that
//! was made before it; another message in between would need a state for each
//! such step. These are files of some KB that were just written, or are about to
//! be. A file server that hangs holds up the agent, and would hold up every
//! decision anyway: jobs, shims and launchers go on without neromum, and the
//! lease has a thread of its own. The folder of a start with a few small files is
//! made here, too. Everything longer has its own thread or task: folders of other
//! starts, syncs, settling, looks at files that cannot be read, and
//! the file work of calls.

mod calls;
mod cards;
pub mod driver;
mod effects;
mod entry;
mod follow;
mod hand_over;
pub mod handle;
mod launchers;
mod letters;
mod look;
mod off_reactor;
pub mod recover;
mod settle;
mod sync;
pub mod timers;
mod unreadable;
mod watchers;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use nero_model::paths::NodePaths;
use nero_model::{RunId, RunToken};
use nero_node_core::Core;
use nero_node_core::capacity::Capacity;
use nero_node_core::cards::Pool;
use tokio::sync::{mpsc, oneshot};

use crate::cards::Cards;
use crate::config;
use crate::launch::bare;
use crate::launch::orders::Orders;
use crate::ledger::{self, Ledger};
use crate::letters::LetterDesk;
use crate::runs::unreadable::Unreadable;

pub use calls::{
    AppendedRecords, CallRefusal, Cancel, Candidate, EndRequest, Milestone, NodeLoad, PauseCall,
    PauseState, Target, Verdict, WatcherNews,
};
pub use driver::{Bare, Driver};
pub use entry::Entry;
pub use follow::FollowStream;
pub use hand_over::{PlacementResult, Placer};
pub use handle::{AgentGone, AgentHandle, Room};
use handle::{Mail, Message, WorkResult};

/// Settings and resources of the agent.
#[derive(Debug)]
pub struct Setup {
    /// Folders of the node.
    pub paths: NodePaths,
    /// Makes the orders to launchers.
    pub orders: Orders,
    /// Boot id of the machine.
    pub boot_id: [u8; 16],
    /// Free disk to keep.
    pub min_free: u64,
    /// Time without work after which neromum leaves.
    pub leave_after: std::time::Duration,
    /// The launcher of this build.
    pub launcher: bare::Launcher,
    /// Whether no earlier neromum served this node since the machine was
    /// booted: a start on disk is then over.
    pub first_since_boot: bool,
    /// Our epoch, where several hosts share the root.
    pub lease: Option<Arc<crate::lease::HeldEpoch>>,
    /// The cards of this host, where no scheduler gives them.
    pub cards: Option<Arc<Cards>>,
}

/// The task.
#[derive(Debug)]
pub struct Agent<D: Driver> {
    /// What it was made with.
    pub setup: Arc<Setup>,
    /// What starts the runs.
    pub driver: D,
    /// What is decided about the runs, and why.
    pub core: Core,
    /// The node's ledger.
    pub ledger: Ledger,
    /// What is known of each run beside that.
    pub entries: HashMap<RunToken, Entry>,
    admission: hand_over::Admission,
    answers: calls::control::Answers,
    launchers: launchers::Launchers,
    sync: sync::Syncs,
    followers: follow::Followers,
    settling: settle::UnreadRuns,
    letters: letters::Letters,
    /// Shims and launchers that the last look at live runs found stopped.
    stopped: HashSet<nero_model::ProcessId>,
    /// When something is due.
    pub timers: timers::Timers,
    /// Results of work off the reactor. Not bounded: each stands for work in
    /// flight, at most one per slot, sync and settled run.
    done: mpsc::UnboundedSender<WorkResult<D::Result>>,
    connections: i64,
    /// Number of times that the segments of a run were read.
    pub reads: u64,
    /// Parts of the ledger that cannot be used.
    damaged_ledger: Vec<Unreadable>,
    /// Whether the allocation ends: nothing is started any more.
    pub ending: bool,
    /// Why it leaves after this turn.
    pub leaving: Option<End>,
}

/// Reason why the agent ended.
#[derive(Debug)]
pub enum End {
    /// It was told to, or had nothing left to do.
    Orderly,
    /// The disk refused what must be durable.
    Broken(std::io::Error),
}

/// Both ends of the agent's mailbox.
#[derive(Debug)]
pub struct Mailboxes<O> {
    mailbox: mpsc::Receiver<Message>,
    /// Results of work off the reactor.
    pub done: mpsc::UnboundedReceiver<WorkResult<O>>,
}

impl<O> Mailboxes<O> {
    /// What has arrived; results of work come first.
    fn next(&mut self) -> Option<Mail<O>> {
        let done = self.done.try_recv().map(Mail::Done);
        done.or_else(|_| self.mailbox.try_recv().map(Mail::Message))
            .ok()
    }
}

impl<D: Driver> Agent<D> {
    /// An agent with the state of ledger and folders, its handle, and the
    /// argument of [`Agent::run`].
    pub fn new(
        setup: Setup,
        driver: D,
        capacity: Capacity,
        ledger: Ledger,
        state: ledger::LedgerState,
    ) -> (Self, AgentHandle, Mailboxes<D::Result>) {
        let (mut agent, handle, mailboxes) = Self::empty(setup, driver, capacity, ledger);
        agent.admission = hand_over::Admission::new(state.next_order);
        agent.damaged_ledger = unreadable::of_ledger(&state);
        agent.recover(state);
        agent.letters.recover();
        (agent, handle, mailboxes)
    }

    /// An agent without runs.
    pub fn empty(
        setup: Setup,
        driver: D,
        capacity: Capacity,
        ledger: Ledger,
    ) -> (Self, AgentHandle, Mailboxes<D::Result>) {
        let (mailbox, inbox) = mpsc::channel(config::MAILBOX);
        #[expect(
            clippy::disallowed_methods,
            reason = "one message for each piece of work that the agent began"
        )]
        let (done, done_inbox) = mpsc::unbounded_channel();
        let mut core = Core::new(capacity);
        if setup.cards.is_some() {
            core.set_pool(Pool::Unknown("they are being looked at".to_owned()));
        }
        let letters = letters::Letters::new(LetterDesk::new(&setup.paths.mum()));
        let agent = Self {
            setup: Arc::new(setup),
            driver,
            core,
            ledger,
            entries: HashMap::new(),
            admission: hand_over::Admission::new(1),
            answers: calls::control::Answers::default(),
            launchers: launchers::Launchers::default(),
            sync: sync::Syncs::default(),
            followers: follow::Followers::default(),
            settling: settle::UnreadRuns::default(),
            letters,
            stopped: HashSet::new(),
            timers: timers::Timers::default(),
            done,
            connections: 0,
            reads: 0,
            damaged_ledger: Vec::new(),
            ending: false,
            leaving: None,
        };
        let mailboxes = Mailboxes {
            mailbox: inbox,
            done: done_inbox,
        };
        (agent, AgentHandle::new(mailbox), mailboxes)
    }

    /// Serves until it is told to stop, or nothing is left to do.
    pub async fn run(
        mut self,
        handle: AgentHandle,
        mut boxes: Mailboxes<D::Result>,
    ) -> (End, Self) {
        self.launchers.handle = Some(handle.clone());
        self.followers.handle = Some(handle);
        if D::STARTS_HERE || self.core.live() > 0 {
            self.open_launchers();
        }
        self.turn_end();
        let mut batch = Vec::with_capacity(config::BATCH);
        while self.leaving.is_none() {
            let deadline = self.next_deadline();
            // The agent holds an end of both boxes: neither ever closes.
            tokio::select! {
                biased;
                done = boxes.done.recv() => batch.extend(done.map(Mail::Done)),
                message = boxes.mailbox.recv() => batch.extend(message.map(Mail::Message)),
                () = timers::until(deadline) => {}
            }
            // After a long freeze or cut another neromum may lead: then no
            // message of this turn is handled.
            if !self.leads() {
                break;
            }
            // An endless stream of messages must not delay due timers.
            if deadline.is_some_and(|at| at <= tokio::time::Instant::now()) {
                self.timers_due();
            }
            // Messages that arrived meanwhile belong to the same turn.
            while batch.len() < config::BATCH
                && let Some(mail) = boxes.next()
            {
                batch.push(mail);
            }
            for mail in batch.drain(..) {
                match mail {
                    Mail::Message(message) => self.handle(message),
                    Mail::Done(done) => self.done(done),
                }
            }
            self.turn_end();
        }
        self.leave(boxes).await
    }

    /// Whether we are sure to lead. Reads no file unless we were away for long.
    fn leads(&self) -> bool {
        let lease = self.setup.lease.as_ref();
        lease.is_none_or(|held| held.is_sure())
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::HandOver(placing, answer) => self.hand_over(placing, answer),
            Message::End(ending, answer) => self.end(ending, answer),
            Message::Pause(pausing, answer) => {
                // A caller that has left asks again: what is so already is so.
                let _ = answer.send(self.pause(&pausing));
            }
            Message::SetRules(token, rules, answer) => {
                // A caller that has left asks again: the same version is the same
                // file.
                let _ = answer.send(self.write_rules(token, &rules));
            }
            Message::AnswerStep(token, request, answer) => {
                // A caller that has left asks again: the first answer stays.
                let _ = answer.send(self.write_answer(token, &request));
            }
            Message::Clean(candidates, rehearsal, answer) => {
                self.clean(candidates, rehearsal, answer);
            }
            Message::Cleaned(tokens) => self.admission.cleaned(&tokens),
            Message::Open(answer) => drop(answer.send(self.open_runs())),
            // A caller that has left needs no answer; this holds for all
            // answers here.
            Message::Describe(answer) => drop(answer.send(self.busy())),
            Message::Follow(request, answer) => self.follow(request, answer),
            Message::FollowMore(follower, request) => self.follow_more(follower, request),
            Message::FollowRoom(follower) => self.followers.room(follower),
            Message::FollowGone(follower) => self.followers.gone(follower),
            Message::Attached(news) => self.watcher(news),
            Message::Launcher(news) => self.launcher(news),
            Message::Until(token, until, answer) => self.until(token, until, answer),
            Message::Connection(change) => self.connections += change,
            Message::Greeted(generations) => self.admission.generations = generations,
            Message::Task(message) => D::hear(self, message),
            Message::Letters(order, answer) => self.order_letters(*order, answer),
            Message::Stop => drop(self.leaving.get_or_insert(End::Orderly)),
        }
    }

    /// Takes in a result of work off the reactor.
    pub fn done(&mut self, done: WorkResult<D::Result>) {
        match done {
            WorkResult::Prepared(token, incarnation, result) => {
                self.prepared(token, incarnation, result)
            }
            WorkResult::Synced(result) => self.synced(result),
            WorkResult::Settled(run_dir, answer, why) => self.settled_one(&run_dir, answer, &why),
            WorkResult::SettlerGone => self.settler_gone(),
            WorkResult::Looked(found) => self.looked_again(&found),
            WorkResult::Ordered(order) => self.ordered(order),
            WorkResult::Told(told) => self.record_notified_ends(told),
            WorkResult::FollowRoom => self.followers.room(0),
            WorkResult::Driver(done) => D::done(self, done),
        }
    }

    /// Does the work that is done once for all messages of a turn.
    fn turn_end(&mut self) {
        self.see_to_cards();
        self.start_what_fits();
        self.carry_out();
        D::turn_ends(self);
        self.carry_out();
        self.launchers.flush();
        self.start_sync();
        self.start_settling();
        self.pump();
        self.see_to_letters();
        self.see_whether_to_leave();
    }

    fn busy(&self) -> NodeLoad {
        let free = self
            .core
            .capacity()
            .micro_cpus
            .saturating_sub(self.core.used().micro_cpus);
        NodeLoad {
            live: self.core.live() as u32,
            waiting: self.core.waiting() as u32,
            cpus_free: nero_node_core::capacity::cpus(free),
            hold: self.hold_shown(),
            memory_given: self.core.used().memory_bytes,
            min_free: self.setup.min_free,
            unreadable: self.unreadable_files(),
            scheduler: D::counted(self),
        }
    }

    fn until(&mut self, token: RunToken, until: Milestone, answer: oneshot::Sender<()>) {
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

    /// The folder of a run.
    pub fn run_dir(&self, id: RunId) -> PathBuf {
        self.setup.paths.run(id)
    }

    /// Whether the node's folder was deleted, or is being deleted.
    fn root_gone(&self) -> bool {
        let mum = self.setup.paths.mum();
        match self.setup.lease {
            Some(_) => !mum.exists(),
            None => !mum.join(config::LOCK).exists(),
        }
    }

    /// Leaves: makes the written records durable, and touches no job.
    async fn leave(mut self, mut boxes: Mailboxes<D::Result>) -> (End, Self) {
        self.followers = follow::Followers::default();
        let idle = self.core.live() == 0 && self.core.waiting() == 0 && self.leads();
        // Without the node's folder no neromum comes back for it.
        let task_done = D::TAKES_LAUNCHERS_ALONG && self.core.live() == 0;
        let retire = idle || task_done || self.root_gone();
        if retire && self.launchers.own_link().is_some() {
            self.launchers.retire_own();
            self.launchers.flush();
            // Elsewhere launchers of other builds look after their runs.
            let mut awaited = if D::TAKES_LAUNCHERS_ALONG {
                self.launchers.all_links()
            } else {
                self.launchers.own_link().into_iter().collect()
            };
            let gone = async {
                while !awaited.is_empty()
                    && let Some(message) = boxes.mailbox.recv().await
                {
                    if let Message::Launcher(bare::News::Down { link, .. }) = message {
                        awaited.remove(&link);
                    }
                }
            };
            // It leaves at once, unless it still looks after a job.
            let _ = tokio::time::timeout(config::RETIRE_PATIENCE, gone).await;
        }
        self.launchers.flush();
        let synced = self.ledger.syncer().map(|file| file.sync_data());
        let why = match (self.leaving.take(), synced) {
            (Some(End::Broken(error)), _) | (_, Some(Err(error))) => End::Broken(error),
            (Some(End::Orderly) | None, Some(Ok(())) | None) => End::Orderly,
        };
        (why, self)
    }
}
