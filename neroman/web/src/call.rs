//! What the server asks of the program around it.

use nero_wire::v1::{
    CompleteReply, CompleteRequest, ListReply, ListRequest, LogChunk, LogsRequest, MetricsReply,
    MetricsRequest, PathsReply, PathsRequest, RuleListReply, RuleListRequest, WatchEvent,
    WatchRequest,
};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// Where an answer goes. A browser that left has dropped the other end.
pub type CallAnswer<T> = oneshot::Sender<Result<T, Refusal>>;

/// An error as a document of docs/json.md.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// `{"schema":1,"error":{…}}`.
    pub document: Value,
    /// The exit code of a command that fails like this.
    pub exit_code: u8,
}

/// A line of neroman.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineRequest {
    /// The words behind `neroman`.
    pub words: Vec<String>,
    /// Options for its verb, where that knows them.
    pub options: Vec<&'static str>,
    /// Whether it may change something: then it goes on although the browser leaves.
    pub changes: bool,
}

/// What a line printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineResult {
    /// Its exit code; absent: a signal ended it.
    pub exit_code: Option<u8>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Whether the end of its output is missing.
    pub is_cut: bool,
}

/// What a watched window brings.
#[derive(Debug)]
pub enum RowsMessage {
    /// Rows that changed.
    Rows(Box<WatchEvent>),
    /// The daemon does not answer, or refuses what was asked for.
    Fault(Refusal),
}

/// A question of the server.
#[derive(Debug)]
pub enum ViewCall {
    /// Experiments.
    List(ListRequest, CallAnswer<ListReply>),
    /// Experiments, and what changes of them, until the other end is dropped.
    Watch(WatchRequest, mpsc::Sender<RowsMessage>),
    /// Points.
    Metrics(MetricsRequest, CallAnswer<MetricsReply>),
    /// Rules, for thresholds in pictures.
    Rules(RuleListRequest, CallAnswer<RuleListReply>),
    /// A part of a log of at most so many bytes.
    Log(LogsRequest, usize, CallAnswer<Vec<LogChunk>>),
    /// Where results lie.
    Paths(PathsRequest, CallAnswer<PathsReply>),
    /// Words that may stand next.
    Complete(CompleteRequest, CallAnswer<CompleteReply>),
    /// A line, executed.
    Line(LineRequest, CallAnswer<LineResult>),
}
