//! Mails about what happened: subject, text and HTML, and the JSON of one event.
//!
//! [`letter`] turns an [`Account`] into a [`LetterText`]. Text reads alone in 72 columns; HTML
//! tells the same, fits light and dark screens, and loads nothing. Names, reasons and output of
//! jobs are bytes from elsewhere: no character of them acts. Pure: the caller gives the time zone.

mod html;
mod json;
mod page;
mod sentence;
mod text;

use jiff::tz::TimeZone;

pub use json::event_json;

/// The width of a picture in a mail.
pub const CURVES_WIDTH: u16 = 640;

/// What one mail tells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// The collection that it is about; none for nodes.
    pub collection: Option<String>,
    /// What happened, in the order of time. All of it: the mail shows a part and counts the rest.
    pub events: Vec<LetterEvent>,
    /// How far the runs of one start came.
    pub progress: Option<BatchProgress>,
    /// Runs that wait until a person acts, by the reason.
    pub held: Vec<HeldRuns>,
    /// Values of runs.
    pub table: Option<LetterTable>,
    /// Curves of metrics.
    pub curves: LetterCurves,
    /// Whether it is a digest: its progress is then its subject.
    pub is_digest: bool,
}

/// Something that happened to a run or a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterEvent {
    /// The run, `144.2`; empty for a node.
    pub run: String,
    /// The name of its experiment.
    pub name: String,
    /// The collection of its experiment.
    pub collection: String,
    /// The node.
    pub node: String,
    /// When it happened, in milliseconds since 1970.
    pub at_ms: i64,
    /// What happened.
    pub kind: EventKind,
}

/// What happened to a run or a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// The run started.
    Started,
    /// It ended with success.
    Finished {
        /// How long it ran.
        runtime_ms: Option<u64>,
        /// Its last values, by name.
        values: Vec<(String, String)>,
    },
    /// It ended with an error.
    Crashed {
        /// `exit code 1`, `signal 9 (KILL)`.
        how: String,
        /// How long it ran.
        runtime_ms: Option<u64>,
        /// The end of its standard error, any bytes.
        stderr: Vec<u8>,
    },
    /// A rule ended it.
    Aborted {
        /// The rule.
        rule: String,
        /// The values in it when it fired.
        values: Vec<(String, String)>,
    },
    /// A person or a scheduler ended it.
    Cancelled {
        /// Who.
        by: String,
    },
    /// It reached its time limit.
    TimedOut {
        /// The limit.
        limit_ms: Option<u64>,
    },
    /// It is not known what became of it.
    Lost {
        /// Why not.
        why: String,
    },
    /// A rule warns of it.
    Warned {
        /// The rule.
        rule: String,
        /// The values in it when it fired.
        values: Vec<(String, String)>,
    },
    /// It does something odd.
    Remarked {
        /// What.
        text: String,
    },
    /// It prints nothing.
    Stalled {
        /// For how long.
        silent_ms: u64,
    },
    /// The node is out of reach.
    NodeAway {
        /// Since when, in milliseconds since 1970.
        since_ms: i64,
        /// What the attempt to reach it met.
        why: String,
    },
    /// The node is in reach again.
    NodeBack {
        /// How long it was not.
        away_ms: u64,
    },
    /// All runs of one start have ended.
    AllDone {
        /// How many with success.
        finished: u64,
        /// How many otherwise.
        failed: u64,
        /// How long all of it took.
        took_ms: Option<u64>,
    },
}

/// Runs that wait until a person acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRuns {
    /// Their experiments.
    pub experiments: Vec<u64>,
    /// Why they are held.
    pub why: String,
    /// Whether `resume` has them go on. What a node holds goes on by itself, or is started anew.
    pub can_resume: bool,
}

/// How far the runs of one start came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchProgress {
    /// How many ended.
    pub done: u64,
    /// How many there are.
    pub of: u64,
    /// How many of those that ended failed.
    pub failed: u64,
    /// How long the rest may take.
    pub left_ms: Option<u64>,
    /// When the last may end, in milliseconds since 1970.
    pub ends_at_ms: Option<i64>,
}

/// Values of runs: ten rows are shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LetterTable {
    /// Names of the columns.
    pub header: Vec<String>,
    /// A row per run.
    pub rows: Vec<Vec<String>>,
}

/// A picture with curves of metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LetterCurves {
    /// There is nothing to draw.
    #[default]
    None,
    /// The mail has it, as `cid:plot`.
    Drawn {
        /// The metrics.
        of: String,
    },
    /// It could not be drawn.
    Failed {
        /// Why not.
        why: String,
    },
}

/// A mail without its headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterText {
    /// One line.
    pub subject: String,
    /// Plain text, in lines of at most 72 characters.
    pub text: String,
    /// A document of HTML.
    pub html: String,
}

/// The mail that tells an account.
pub fn letter(account: &Account, zone: &TimeZone) -> LetterText {
    rendered(page::page(account, zone))
}

/// A mail that tells nothing but that mail arrives, and of what it will tell.
pub fn test_letter(told_of: &[&str]) -> LetterText {
    rendered(page::test_page(told_of))
}

fn rendered(page: page::Page) -> LetterText {
    LetterText {
        text: text::text(&page),
        html: html::html(&page),
        subject: page.subject,
    }
}

#[cfg(test)]
mod tests;
