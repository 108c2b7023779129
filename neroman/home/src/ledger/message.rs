//! What callers send to the writer.

use nero_life::cells::CellRecord;
use nero_life::change::Change;
use nero_life::state::State;
use nero_model::{ExperimentId, RequestId, RunId};
use nero_store::{Event, RunKey};
use tokio::sync::oneshot;

use super::Decision;
use crate::failure::Failure;
use crate::folding::{OwnedPart, PartsOutcome, Stand};
use crate::keep::WriteFailure;

pub(super) type NoteChanges = Box<dyn FnMut(&State, i64) -> Vec<Change> + Send>;
/// Success, or what was not written, with the reason.
pub(super) type WriteResult<T, W> = Result<T, (W, WriteFailure)>;
/// Runs with a `T` each, or why it cannot be read.
pub(super) type PerRun<T> = Vec<(RunId, Result<T, Failure>)>;

pub(super) type DecisionFunction =
    Box<dyn FnOnce(&State, i64) -> Result<Decision<Vec<u8>>, Failure> + Send>;

pub(super) enum Message {
    /// A request of a person: durable before it is answered.
    Ask {
        request: Option<RequestId>,
        decide: DecisionFunction,
        /// Decided instead, in memory alone, when there is no room to write.
        unwritten: Option<DecisionFunction>,
        reply: oneshot::Sender<Result<Vec<u8>, Failure>>,
    },
    /// A report of a node, which the node can repeat.
    Note {
        durable: bool,
        note: NoteChanges,
        reply: oneshot::Sender<WriteResult<(), NoteChanges>>,
    },
    /// Journal bytes.
    Parts {
        parts: Vec<OwnedPart>,
        reply: oneshot::Sender<WriteResult<PartsOutcome, Vec<OwnedPart>>>,
    },
    Query(Query),
    /// Looks at rules of these runs that the daemon evaluates: time alone makes them hold.
    RulesDue(Vec<RunId>),
    /// Checks whether a full disk has room again.
    LookForRoom,
    /// Moves the logs of the databases into them.
    EmptyLogs,
    Stop,
}

/// What is only read.
pub(super) enum Query {
    /// The encoded specs of runs.
    Specs {
        runs: Vec<RunId>,
        reply: oneshot::Sender<Result<PerRun<Vec<u8>>, Failure>>,
    },
    /// The positions of both databases in the segments of a run.
    Positions {
        runs: Vec<RunId>,
        reply: oneshot::Sender<Vec<(RunId, Vec<Stand>)>>,
    },
    /// The keys of runs in the database of series.
    Keys {
        runs: Vec<RunId>,
        reply: oneshot::Sender<Vec<(RunId, RunKey)>>,
    },
    /// The history of an experiment.
    Events {
        experiment: ExperimentId,
        reply: oneshot::Sender<Result<Vec<Event>, Failure>>,
    },
    /// What was written into the cells of experiments, or the last part of each cell.
    Cells {
        experiments: Vec<ExperimentId>,
        is_newest: bool,
        reply: oneshot::Sender<Result<Vec<CellRecord>, Failure>>,
    },
    /// The bytes that a delivery sends.
    Letter {
        delivery: u64,
        reply: oneshot::Sender<Result<Vec<u8>, Failure>>,
    },
}
