//! What the keyboard is for at the moment.

use nero_wire::v1::ExperimentView;

use crate::ask::LineAnswer;
use crate::input::Input;

/// What an edited line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptKind {
    /// A selector: rows follow while it is typed.
    Selector,
    /// The words of a line of neroman.
    Line,
    /// Names of columns.
    Columns,
    /// A column or an expression by which rows are sorted.
    Sort,
    /// Words that are searched for in the log.
    Search,
}

impl PromptKind {
    /// The sign before the line.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Selector | Self::Search => "/",
            Self::Line => "neroman ",
            Self::Columns => "columns: ",
            Self::Sort => "sort by: ",
        }
    }
}

/// A line that is edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub kind: PromptKind,
    pub input: Input,
    /// What was there before, for Esc.
    pub before: String,
    /// Words that fit.
    pub words: Vec<String>,
}

/// A line of neroman that waits for Enter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Confirmation {
    pub line: String,
    /// What it would do, once that is known.
    pub trial: Option<LineAnswer>,
}

/// What the keyboard is for.
#[derive(Clone, Debug, Default)]
pub(crate) enum Mode {
    /// Rows and panes.
    #[default]
    Browse,
    Prompt(Prompt),
    Confirm(Confirmation),
    /// All keys, from this line on.
    Help(usize),
    /// The last lines with their answers, from this line on.
    Answers(usize),
    /// What differs between experiments; absent until they are there.
    Compare(Option<Vec<ExperimentView>>),
}
