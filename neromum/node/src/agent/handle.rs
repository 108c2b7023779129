//! Messages to the agent, and its replies.

use std::collections::HashSet;
use std::path::PathBuf;

use nero_model::{RunId, RunToken};
use nero_wire::v1::{
    AnswerStepRequest, FollowRequest, HandOverReply, RelayClaims, RelayOrder, RuleSet,
    WatcherCommand,
};
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

use super::calls::{
    CallRefusal, Candidate, EndRequest, Milestone, NodeLoad, OrderAnswer, Outcome, OutcomesTo,
    PauseCall, PauseOutcome, Verdict, WatcherNews,
};
use super::{FollowStream, PlacementResult};
use crate::launch::bare;
use crate::letters::NotifiedEnds;

/// A message to the agent.
#[derive(Debug)]
pub(super) enum Message {
    /// Hand over runs whose folders are made.
    HandOver(PlacementResult, oneshot::Sender<HandOverReply>),
    /// Request the end of runs.
    End(EndRequest, OutcomesTo),
    /// Pause runs, or let them go on.
    Pause(
        PauseCall,
        oneshot::Sender<Result<Vec<PauseOutcome>, CallRefusal>>,
    ),
    /// Set the rules of one run.
    SetRules(RunToken, RuleSet, oneshot::Sender<Result<u64, CallRefusal>>),
    AnswerStep(
        RunToken,
        AnswerStepRequest,
        oneshot::Sender<Result<(), CallRefusal>>,
    ),
    /// Clean the folders of runs; with `true`, only decide.
    Clean(Vec<Candidate>, bool, oneshot::Sender<Vec<Verdict>>),
    /// The folders of these runs are gone, or stay after all.
    Cleaned(Vec<RunToken>),
    /// Which runs are not over?
    Open(oneshot::Sender<HashSet<RunId>>),
    /// How busy is the node?
    Describe(oneshot::Sender<NodeLoad>),
    /// A follower begins.
    Follow(FollowRequest, oneshot::Sender<FollowStream>),
    /// A follower sends further positions.
    FollowMore(u64, FollowRequest),
    /// A follower took events, and more wait.
    FollowRoom(u64),
    /// A follower left.
    FollowGone(u64),
    /// An event of a watcher.
    Attached(WatcherNews),
    /// An event of a launcher.
    Launcher(bare::News),
    /// Reply when a run has reached this stage (or is not known).
    Until(RunToken, Milestone, oneshot::Sender<()>),
    /// A connection was made (+1) or closed (-1).
    Connection(i64),
    /// A neroman greeted that counts generations, or one that does not.
    Greeted(bool),
    /// To the task of a scheduler.
    Task(TaskMessage),
    /// Tell people of ends while no neroman follows.
    Letters(Box<RelayOrder>, OrderAnswer),
    /// Leave in order.
    Stop,
}

/// A message to the task of a scheduler.
#[derive(Clone, Copy, Debug)]
pub enum TaskMessage {
    /// The allocation ends: stop every start, then leave.
    EndAll,
    /// Something may lie in the control folders.
    RingAll,
    /// A cancel request may lie in the control folder of a run that waits.
    LookForRequests,
}

/// What the agent gets.
#[derive(Debug)]
pub(super) enum Mail<O> {
    Message(Message),
    /// Work off the reactor is done.
    Done(WorkResult<O>),
}

/// Answer of `nerokid settle` about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleAnswer {
    Well,
    /// The disk has no room, which may pass.
    Full,
    /// Another process watches, which nearly always passes.
    Busy,
    Failed,
}

/// Results of work off the reactor; `O`: of the driver's.
#[derive(Debug)]
pub enum WorkResult<O> {
    /// A run's folder.
    Prepared(
        RunToken,
        u32,
        Result<Box<crate::launch::orders::Start>, crate::staging::PrepareError>,
    ),
    /// The ledger was synced.
    Synced(std::io::Result<()>),
    /// One run of a settling, and whether it went well.
    Settled(PathBuf, SettleAnswer, String),
    /// The settling process is gone.
    SettlerGone,
    /// The runs whose files can be read again.
    Looked(HashSet<RunToken>),
    /// The order of letters that holds from here on; none: the one before.
    Ordered(Option<Box<RelayOrder>>),
    /// Letters were sent, or not.
    Told(NotifiedEnds),
    /// Followers have more to get.
    FollowRoom,
    /// Work of the driver.
    Driver(O),
}

/// Speaks to the agent. A method that returns an answer returns when the effect
/// has happened; all fail only when neromum is leaving.
#[derive(Clone, Debug)]
pub struct AgentHandle {
    mailbox: mpsc::Sender<Message>,
}

/// Room for one message of a watcher.
#[derive(Debug)]
pub struct Room<'a>(mpsc::Permit<'a, Message>);

impl Room<'_> {
    /// Sends it.
    pub fn watcher(self, news: WatcherNews) {
        self.0.send(Message::Attached(news));
    }
}

/// The agent is gone: neromum is leaving.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("neromum is leaving; try again")]
pub struct AgentGone;

impl From<AgentGone> for Status {
    fn from(leaving: AgentGone) -> Self {
        Self::unavailable(leaving.to_string())
    }
}

impl AgentHandle {
    pub(super) fn new(mailbox: mpsc::Sender<Message>) -> Self {
        Self { mailbox }
    }

    /// Accepts runs whose folders are made.
    pub async fn hand_over(&self, placing: PlacementResult) -> Result<HandOverReply, AgentGone> {
        self.ask(|answer| Message::HandOver(placing, answer)).await
    }

    /// Requests the end of runs, or recalls them; the outcomes come in their
    /// order.
    pub async fn end(
        &self,
        ending: EndRequest,
    ) -> Result<Result<Vec<Outcome>, CallRefusal>, AgentGone> {
        self.ask(|answer| Message::End(ending, answer)).await
    }

    /// Pauses runs, or lets them go on; the outcomes come in their order.
    pub async fn pause(
        &self,
        pausing: PauseCall,
    ) -> Result<Result<Vec<PauseOutcome>, CallRefusal>, AgentGone> {
        self.ask(|answer| Message::Pause(pausing, answer)).await
    }

    /// Takes an order of letters in; returns what was told since the one before.
    pub async fn letters(
        &self,
        order: RelayOrder,
    ) -> Result<Result<RelayClaims, CallRefusal>, AgentGone> {
        self.ask(|answer| Message::Letters(Box::new(order), answer))
            .await
    }

    /// Sets the rules of one run; returns the version under which they are kept.
    pub async fn set_rules(
        &self,
        token: RunToken,
        rules: RuleSet,
    ) -> Result<Result<u64, CallRefusal>, AgentGone> {
        self.ask(|answer| Message::SetRules(token, rules, answer))
            .await
    }

    /// Keeps the end of a step that neroman's machine executed.
    pub async fn answer_step(
        &self,
        token: RunToken,
        request: AnswerStepRequest,
    ) -> Result<Result<(), CallRefusal>, AgentGone> {
        self.ask(|answer| Message::AnswerStep(token, request, answer))
            .await
    }

    /// Decides which folders may go; unless it is a rehearsal, the agent forgets
    /// these runs until [`AgentHandle::cleaned`].
    pub async fn clean(
        &self,
        candidates: Vec<Candidate>,
        rehearsal: bool,
    ) -> Result<Vec<Verdict>, AgentGone> {
        self.ask(|answer| Message::Clean(candidates, rehearsal, answer))
            .await
    }

    /// The folders of these runs are gone, or stay after all.
    pub async fn cleaned(&self, tokens: Vec<RunToken>) -> Result<(), AgentGone> {
        self.tell(Message::Cleaned(tokens)).await
    }

    /// Runs that are not over.
    pub async fn open_runs(&self) -> Result<HashSet<RunId>, AgentGone> {
        self.ask(Message::Open).await
    }

    /// How busy the node is.
    pub async fn busy(&self) -> Result<NodeLoad, AgentGone> {
        self.ask(Message::Describe).await
    }

    /// Begins to replicate runs from these positions.
    pub async fn follow(&self, from: FollowRequest) -> Result<FollowStream, AgentGone> {
        self.ask(|answer| Message::Follow(from, answer)).await
    }

    /// Further positions of a follower.
    pub async fn follow_more(&self, id: u64, from: FollowRequest) -> Result<(), AgentGone> {
        self.tell(Message::FollowMore(id, from)).await
    }

    /// A follower took events, and more wait.
    pub(super) fn follower_has_room(&self, id: u64) {
        self.tell_now(Message::FollowRoom(id));
    }

    /// A follower left.
    pub(super) fn follower_gone(&self, id: u64) {
        self.tell_now(Message::FollowGone(id));
    }

    /// A watcher's connection began; returns whether its run is known.
    pub async fn attach(
        &self,
        id: u64,
        token: RunToken,
        incarnation: u32,
        commands: mpsc::Sender<WatcherCommand>,
    ) -> Result<bool, AgentGone> {
        let attached = |answer| {
            Message::Attached(WatcherNews::Attached {
                id,
                token,
                incarnation,
                commands,
                answer,
            })
        };
        self.ask(attached).await
    }

    /// An event of an attached watcher.
    pub async fn watcher(&self, news: WatcherNews) -> Result<(), AgentGone> {
        self.tell(Message::Attached(news)).await
    }

    /// Waits until the mailbox has room.
    pub async fn room(&self) -> Result<Room<'_>, AgentGone> {
        self.mailbox
            .reserve()
            .await
            .map(Room)
            .map_err(|_| AgentGone)
    }

    /// An event of a launcher.
    pub(super) async fn launcher(&self, news: bare::News) -> Result<(), AgentGone> {
        self.tell(Message::Launcher(news)).await
    }

    /// Returns what gets a message when the run has reached this stage, or is not
    /// known.
    pub async fn until(
        &self,
        token: RunToken,
        until: Milestone,
    ) -> Result<oneshot::Receiver<()>, AgentGone> {
        let (answer, reached) = oneshot::channel();
        self.tell(Message::Until(token, until, answer)).await?;
        Ok(reached)
    }

    /// A neroman greeted. `generations`: see [`nero_wire::hello::GENERATIONS`].
    pub fn greeted(&self, generations: bool) {
        self.tell_now(Message::Greeted(generations));
    }

    /// A connection was made (+1) or closed (-1).
    pub fn connection(&self, change: i64) {
        self.tell_now(Message::Connection(change));
    }

    /// Asks the agent to leave in order.
    pub async fn stop(&self) -> Result<(), AgentGone> {
        self.tell(Message::Stop).await
    }

    /// Tells the agent of a scheduler's task, without waiting.
    pub fn tell_task(&self, message: TaskMessage) {
        self.tell_now(Message::Task(message));
    }

    /// As [`AgentHandle::stop`], without waiting.
    pub fn stop_now(&self) {
        self.tell_now(Message::Stop);
    }

    /// Sends a message; waits while the mailbox is full.
    async fn tell(&self, message: Message) -> Result<(), AgentGone> {
        self.mailbox.send(message).await.map_err(|_| AgentGone)
    }

    /// Sends a question and waits for its answer.
    async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Message,
    ) -> Result<T, AgentGone> {
        let (answer, answered) = oneshot::channel();
        self.tell(question(answer)).await?;
        answered.await.map_err(|_| AgentGone)
    }

    /// Sends without waiting, for places that must not wait (a `Drop`).
    fn tell_now(&self, message: Message) {
        if let Err(mpsc::error::TrySendError::Full(message)) = self.mailbox.try_send(message)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // This task ends when the agent has taken the message, or is gone.
            let mailbox = self.mailbox.clone();
            runtime.spawn(async move { mailbox.send(message).await });
        }
    }
}
