//! Messages to the agent, and its replies.

use std::collections::HashSet;
use std::path::PathBuf;

use nero_model::{RunId, RunToken};
use nero_wire::v1::{
    CancelReply, CancelRequest, FollowRequest, HandOverReply, SetRulesReply, SetRulesRequest,
};
use tokio::sync::{mpsc, oneshot};

use super::{Candidate, FollowStream, KidNews, Placing, Verdict};
use crate::core::Stage;
use crate::warden::bare;

/// A message to the agent.
#[derive(Debug)]
pub enum Message {
    /// Hand over runs whose folders are made.
    HandOver(Placing, oneshot::Sender<HandOverReply>),
    /// Request the end of runs.
    Cancel(CancelRequest, oneshot::Sender<Result<CancelReply, Refused>>),
    /// Set the rules of one run.
    SetRules(
        SetRulesRequest,
        oneshot::Sender<Result<SetRulesReply, Refused>>,
    ),
    /// Clean the folders of runs; with `true`, only decide.
    Clean(Vec<Candidate>, bool, oneshot::Sender<Vec<Verdict>>),
    /// The folders of these runs are gone, or stay after all.
    Cleaned(Vec<RunToken>),
    /// Which runs are not over?
    Open(oneshot::Sender<HashSet<RunId>>),
    /// How busy is the node?
    Describe(oneshot::Sender<Busy>),
    /// A follower begins.
    Follow(FollowRequest, oneshot::Sender<FollowStream>),
    /// A follower sends further positions.
    FollowMore(u64, FollowRequest),
    /// A follower took events, and more wait.
    FollowRoom(u64),
    /// A follower left.
    FollowGone(u64),
    /// An event of a watcher.
    Kid(KidNews),
    /// An event of a launcher.
    Launcher(bare::News),
    /// Work off the reactor is done.
    Done(Done),
    /// Reply when a run has reached this stage (or is not known).
    Until(RunToken, Until, oneshot::Sender<()>),
    /// A connection was made (+1) or closed (-1).
    Connection(i64),
    /// Leave in order.
    Stop,
}

/// A stage that a caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The run's claim was seen.
    Started,
    /// No record of its life can follow.
    Ended,
}

impl Until {
    pub(super) fn is_reached(self, stage: &Stage) -> bool {
        match stage {
            Stage::Waiting | Stage::Starting { .. } | Stage::Held { .. } => false,
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
        Result<Box<super::effects::Start>, crate::staging::PrepareError>,
    ),
    /// The ledger was synced.
    Synced(std::io::Result<()>),
    /// One run of a settling, and whether it went well.
    Settled(PathBuf, super::settle::Answer),
    /// The settling process is gone.
    SettlerGone,
    /// The runs whose files can be read again.
    Looked(HashSet<RunToken>),
}

/// Reason why a call is refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refused {
    /// The disk refuses; a retry may help.
    #[error("cannot keep it: {0}")]
    Disk(String),
    /// There is no such run.
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
    /// CPUs that no run holds.
    pub cpus_free: f64,
    /// Reason why nothing new starts.
    pub hold: String,
    /// Memory that runs were given.
    pub memory_given: u64,
    /// Free disk to keep.
    pub min_free: u64,
    /// Files of the node that cannot be used.
    pub unreadable: Vec<nero_wire::v1::Unreadable>,
}

/// Speaks to the agent.
#[derive(Clone, Debug)]
pub struct AgentHandle {
    pub(super) mailbox: mpsc::Sender<Message>,
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

    /// Sends without waiting, for places that must not wait (a `Drop`).
    pub fn tell_now(&self, message: Message) {
        if let Err(mpsc::error::TrySendError::Full(message)) = self.mailbox.try_send(message)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let mailbox = self.mailbox.clone();
            runtime.spawn(async move { mailbox.send(message).await });
        }
    }
}
