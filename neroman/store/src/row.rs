//! The contents of the two files, as plain data. Texts and bytes named `kept`,
//! `made`, `dispatch` and `facts` belong to the caller; this crate never looks into
//! them.

use std::fmt;

use nero_journal::SegmentId;
use nero_model::{ExperimentId, RequestId, RunId, RunToken};

/// A run's number within the store; never reused. Metrics refer to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey(pub i64);

/// A source's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u64);

/// A rule's number; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub u64);

/// A file or folder of definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Given by [`crate::Tx::new_source`].
    pub id: SourceId,
    /// The path that the user named, absolute; one source per path.
    pub path: String,
    /// Data of the caller.
    pub kept: Vec<u8>,
}

/// An experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// Given by [`crate::Tx::new_experiment`].
    pub id: ExperimentId,
    /// The definition, as JSON.
    pub definition: String,
    /// Digest of the definition's content.
    pub fingerprint: String,
    /// The source that defines it.
    pub source: Option<SourceId>,
    /// Time at which it was added.
    pub created_ms: i64,
    /// Time of the last change of its definition.
    pub modified_ms: i64,
    /// Time at which `rm` hid it.
    pub hidden_ms: Option<i64>,
    /// It is no longer in its source.
    pub gone: bool,
    /// Data of the caller.
    pub kept: Vec<u8>,
}

/// The constant part of a run, without its spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Given by [`crate::Tx::insert_run`]; ignored there.
    pub key: RunKey,
    /// As people write it.
    pub id: RunId,
    /// Random bits that no other run ever has.
    pub token: RunToken,
    /// Data of the caller.
    pub made: Vec<u8>,
}

/// A run as [`crate::Store::read_all`] gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// The constant part.
    pub run: Run,
    /// Decisions of neroman; data of the caller.
    pub dispatch: Vec<u8>,
    /// Facts that were folded from its journal; data of the caller.
    pub facts: Vec<u8>,
}

/// A place in a segment: everything before `offset` is folded and `chain` is
/// the chain value there. Both are 0 before the first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct At {
    /// Bytes folded.
    pub offset: u64,
    /// Chain value.
    pub chain: u32,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:08x}", self.offset, self.chain)
    }
}

/// How far a database has folded one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The run.
    pub run: RunKey,
    /// Number of the job's start.
    pub incarnation: u32,
    /// The segment.
    pub segment: SegmentId,
    /// Position up to which it is folded.
    pub at: At,
}

/// One step of folding: a range of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// Number of the job's start.
    pub incarnation: u32,
    /// The segment.
    pub segment: SegmentId,
    /// Begin of the fold; refused unless the database is at this position.
    pub from: At,
    /// End of the fold.
    pub to: At,
}

/// A standing rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Given by [`crate::Tx::new_rule`].
    pub id: RuleId,
    /// `abort`, `warn`, `notify` ….
    pub action: String,
    /// What the action runs or sends; stored behind its word.
    pub argument: String,
    /// Canonical expression.
    pub text: String,
    /// Pause between two firings; 0 for the default.
    pub repeat_ms: u64,
    /// Author of the rule.
    pub author: String,
    /// `file:line`, or `rule add`.
    pub origin: String,
}

/// A reply that a repeated request gets again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The request's id.
    pub id: RequestId,
    /// Time of the reply.
    pub at_ms: i64,
    /// The encoded answer.
    pub reply: Vec<u8>,
}

/// One line of an experiment's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The experiment.
    pub experiment: ExperimentId,
    /// Number of the run, where the line is about a run.
    pub run: Option<u32>,
    /// Time of the event.
    pub at_ms: i64,
    /// Text of the line.
    pub text: String,
}

/// Values that were written into one cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellRow {
    /// The experiment of its row.
    pub experiment: ExperimentId,
    /// The heading of its column.
    pub heading: String,
    /// Counts up: a cell with many values has several rows.
    pub part: u32,
    /// Data of the caller.
    pub content: Vec<u8>,
}

/// Everything that a daemon needs in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredState {
    /// By number.
    pub sources: Vec<Source>,
    /// By number, hidden ones too.
    pub experiments: Vec<Experiment>,
    /// In the order in which they were made.
    pub runs: Vec<RunRow>,
    /// By number.
    pub rules: Vec<Rule>,
    /// Experiments that the selector `last` picks.
    pub last: Vec<ExperimentId>,
    /// Notices by number, as the caller encoded them.
    pub notices: Vec<(u64, Vec<u8>)>,
    /// Deliveries by number, as the caller encoded them.
    pub deliveries: Vec<(u64, Vec<u8>)>,
}

/// One point of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Step.
    pub step: f64,
    /// Wall time.
    pub time_ms: i64,
    /// Value, bit for bit.
    pub value: f64,
    /// Grows with each incarnation of the run, and when a step falls back: the points of a
    /// series are read in its order.
    pub generation: u32,
}

/// Facts about a series that need no reading of its points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Number within the file.
    pub id: i64,
    /// The run.
    pub run: RunKey,
    /// The metric's name.
    pub name: String,
    /// How many points.
    pub count: u64,
    /// Newest value.
    pub last: f64,
    /// Step of the newest value.
    pub last_step: f64,
    /// Time of the newest value.
    pub last_ms: i64,
    /// Generation of the newest value.
    pub generation: u32,
    /// Smallest value that is a number; NaN when none is.
    pub min: f64,
    /// Largest value that is a number; NaN when none is.
    pub max: f64,
}

/// One measurement of a run's processes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Wall time.
    pub time_ms: i64,
    /// Number of the job's start.
    pub incarnation: u32,
    /// Cores used since the sample before.
    pub cpu_cores: f64,
    /// CPU time so far.
    pub cpu_ms: u64,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Peak of the resident memory.
    pub peak_rss_bytes: u64,
    /// Read from disk so far.
    pub read_bytes: u64,
    /// Written to disk so far.
    pub written_bytes: u64,
    /// Processes alive.
    pub processes: u32,
    /// Their threads.
    pub threads: u32,
    /// Length of the standard output's log.
    pub stdout_bytes: u64,
    /// Length of the standard error's log.
    pub stderr_bytes: u64,
    /// Time since the last output.
    pub silent_ms: u64,
}

/// Metrics of a run that one fold adds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFold {
    /// The run.
    pub run: RunKey,
    /// The segments that the fold read.
    pub advances: Vec<Advance>,
    /// Names of the series that `points` speak of.
    pub names: Vec<String>,
    /// Index into `names`, and the point; in the order of the journal. An index
    /// outside of `names` is a bug of the caller and panics.
    pub points: Vec<(u32, Point)>,
    /// Measurements.
    pub samples: Vec<Sample>,
}
