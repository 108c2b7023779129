//! What the screen asks for, and what it is told.

use nero_wire::v1::{ExperimentView, MetricsReply, NodesReply, RuleState, WatchEvent};
use ratatui::crossterm::event::{KeyEvent, MouseEvent};

/// Rows that the screen wants to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The selector; empty: all.
    pub selection: String,
    /// An expression by which rows are sorted; empty: by number.
    pub sort: String,
    /// Whether the largest comes first.
    pub descending: bool,
    /// The first row.
    pub offset: u64,
    /// How many.
    pub count: u32,
    /// Facts and expressions that columns need.
    pub facts: Vec<String>,
}

impl Query {
    /// Whether it is another window over the same rows in the same order.
    pub(crate) fn is_of_same_rows(&self, other: &Self) -> bool {
        (&self.selection, &self.sort, self.descending)
            == (&other.selection, &other.sort, other.descending)
    }
}

/// A log, or the part of one that is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// The experiment.
    pub id: u64,
    /// Its run; 0: it has none.
    pub run: u32,
    /// Standard error in the place of standard output.
    pub stderr: bool,
}

/// What a command answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineAnswer {
    /// The words behind `neroman`.
    pub line: String,
    /// Its exit code; absent: it could not be started, or a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub text: String,
}

/// What the caller is to do. Of each kind the newest counts: what was asked before is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Watch these rows.
    Rows(Query),
    /// The page of `neroman show` about one experiment.
    Detail(u64),
    /// A log from its last lines on.
    Log(LogRequest),
    /// No log any more.
    NoLog,
    /// The curves of these experiments, for a picture of so many columns.
    Curves {
        /// The experiments.
        ids: Vec<u64>,
        /// The metrics; empty: those that are there.
        names: Vec<String>,
        /// Columns of the picture.
        width: u32,
    },
    /// The nodes.
    Nodes,
    /// These experiments, to compare them.
    Compare(Vec<u64>),
    /// The words that begin so.
    Complete(String),
    /// What a line would do: it with `--dry-run`.
    Try(String),
    /// A line that a person typed, executed: where it asks, it is refused without `--yes`.
    Execute(String),
    /// A line that a person confirmed after what it would do was shown.
    ExecuteConfirmed(String),
    /// A text for the clipboard.
    Copy(String),
    /// The terminal back to the shell for a while.
    Suspend,
    /// The end.
    Quit,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A key.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// Text that was pasted.
    Paste(String),
    /// Columns and lines of the terminal.
    Resize(u16, u16),
    /// Rows of a query.
    Rows(Query, Box<WatchEvent>),
    /// Why a query cannot be answered: the message of the daemon with its place.
    Refused(Query, String),
    /// The page of `neroman show` about an experiment.
    Detail(u64, Result<String, String>),
    /// A part of a log: whether it begins anew, and the text.
    Log(LogRequest, bool, Vec<u8>),
    /// Curves, with the rules over them.
    Curves(
        Vec<u64>,
        Result<Box<(MetricsReply, Vec<RuleState>)>, String>,
    ),
    /// The nodes.
    Nodes(Result<Box<NodesReply>, String>),
    /// Experiments to compare.
    Compared(Result<Vec<ExperimentView>, String>),
    /// The words that begin so.
    Words(String, Vec<String>),
    /// What a line would do.
    Tried(LineAnswer),
    /// What a line did.
    Done(LineAnswer),
    /// Whether the daemon answers; else why not.
    Daemon(Option<String>),
}
