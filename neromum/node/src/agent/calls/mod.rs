//! What is asked of the agent and told to it, what it answers, and what it does when runs are to
//! end, to pause or to be removed. Questions and answers import none of the files beside them.

mod clean;
pub(super) mod control;
mod pause;
mod recall;

use bytes::Bytes;
use nero_model::{RequestId, RunId, RunToken};
use nero_node_core::Stage;
use nero_wire::v1::{self, RelayClaims, WatcherCommand, pause_runs_reply};
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

/// A call that requests the end of runs.
#[derive(Clone, Debug)]
pub struct EndRequest {
    /// Identifies the call; the same call again gets the same answer.
    pub request: Option<RequestId>,
    /// The runs.
    pub runs: Vec<Target>,
    /// How they are to end.
    pub cancel: Cancel,
    /// Not 0: the runs are only recalled, up to this generation.
    pub recall: u32,
}

/// A run of a call.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its token.
    pub token: RunToken,
    /// Its id, which names its folder.
    pub id: RunId,
}

/// The details of a request for the end of a run.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    /// 0: the run's own.
    pub grace_ms: u32,
    /// 0: SIGTERM.
    pub signal: i32,
    /// Who asked.
    pub author: String,
    /// The bytes of the call's id, as the ledger has them.
    pub request: Vec<u8>,
}

/// What became of the request for one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was to be recalled, and that cannot be decided now.
    Undecided,
    /// Its supervisor was told.
    Asked,
    /// It never starts here.
    NeverStarted,
    /// It was over.
    Ended,
    /// There is no such run.
    UnknownRun,
    /// It was to be recalled, and was started already: nothing was done.
    GoesOn,
}

/// Gets the outcomes of a call, in the order of its runs.
pub(super) type OutcomesTo = oneshot::Sender<Result<Vec<Outcome>, CallRefusal>>;

impl From<Outcome> for v1::cancel_reply::Outcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Undecided => Self::Unspecified,
            Outcome::Asked => Self::Asked,
            Outcome::NeverStarted => Self::NeverStarted,
            Outcome::Ended => Self::Ended,
            Outcome::UnknownRun => Self::UnknownRun,
            Outcome::GoesOn => Self::GoesOn,
        }
    }
}

impl From<v1::cancel_reply::Outcome> for Outcome {
    fn from(outcome: v1::cancel_reply::Outcome) -> Self {
        use v1::cancel_reply::Outcome as Wire;
        match outcome {
            Wire::Unspecified => Self::Undecided,
            Wire::Asked => Self::Asked,
            Wire::NeverStarted => Self::NeverStarted,
            Wire::Ended => Self::Ended,
            Wire::UnknownRun => Self::UnknownRun,
            Wire::GoesOn => Self::GoesOn,
        }
    }
}

/// A call that pauses runs, or lets them go on.
#[derive(Clone, Debug)]
pub struct PauseCall {
    /// Tokens of the runs.
    pub runs: Vec<RunToken>,
    /// Which of the two.
    pub wanted: PauseState,
    /// Leave runs alone that have begun.
    pub waiting: bool,
    /// Who asked.
    pub author: String,
}

pub use nero_node_core::PauseState;
pub use pause_runs_reply::Outcome as PauseOutcome;

/// A run to be cleaned, with the facts from its folder.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Token of the run.
    pub token: RunToken,
    /// The run.
    pub id: RunId,
    /// Whether its segments contain its end.
    pub ended: bool,
    /// Whether nothing of it was ever started.
    pub never_began: bool,
    /// Name of another node of this deployment that has it.
    pub elsewhere: Option<String>,
}

/// The reason why a run must stay; `None`: it may go.
pub type Verdict = Option<String>;

/// A stage that a caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Milestone {
    /// The run's claim was seen.
    Started,
    /// No record of its life can follow.
    Ended,
}

impl Milestone {
    pub(super) fn is_reached(self, stage: &Stage) -> bool {
        match stage {
            Stage::Waiting
            | Stage::Starting { .. }
            | Stage::Submitted { .. }
            | Stage::Held { .. } => false,
            Stage::Running { .. } => self == Self::Started,
            Stage::Ended { .. } | Stage::Settled { .. } | Stage::TakenAway | Stage::Refused => true,
        }
    }
}

/// An event of a watcher's connection, for the agent.
#[derive(Debug)]
pub enum WatcherNews {
    /// The watcher began; the reply is whether its run is known.
    Attached {
        /// Names the connection.
        id: u64,
        /// Token of the run.
        token: RunToken,
        /// Number of the start.
        incarnation: u32,
        /// Sends commands to the watcher.
        commands: mpsc::Sender<WatcherCommand>,
        /// Gets whether the run is known.
        answer: oneshot::Sender<bool>,
    },
    /// The watcher appended to its segment.
    Appended(AppendedRecords),
    /// The connection ended.
    Gone {
        /// Names the connection.
        id: u64,
        /// Token of the run.
        token: RunToken,
    },
}

/// Records that a watcher appended to its segment.
#[derive(Debug)]
pub struct AppendedRecords {
    /// Names the connection.
    pub id: u64,
    /// Token of the run.
    pub token: RunToken,
    /// Number of the start.
    pub incarnation: u32,
    /// Id of the watcher's segment.
    pub segment: [u8; 8],
    /// Offset of the first byte in the segment.
    pub offset: u64,
    /// Whole records.
    pub data: Bytes,
}

/// Gets what was told of the runs of the order before.
pub(super) type OrderAnswer = oneshot::Sender<Result<RelayClaims, CallRefusal>>;

/// Reason why a call is refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallRefusal {
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

impl From<CallRefusal> for Status {
    fn from(refused: CallRefusal) -> Self {
        let text = refused.to_string();
        match refused {
            CallRefusal::Disk(_) => Self::resource_exhausted(text),
            CallRefusal::UnknownRun => Self::not_found(text),
            CallRefusal::Invalid(_) => Self::invalid_argument(text),
        }
    }
}

/// How busy the node is.
#[derive(Clone, Debug, Default)]
pub struct NodeLoad {
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
    /// What was counted of the scheduler, where the node has one.
    pub scheduler: Option<nero_wire::v1::SchedulerUse>,
}
