//! What reading a source comes to.

use super::table::NumberColumn;
use crate::definition::{AppliedEdit, Definition, Note, Source};

/// A source that was read without a mistake.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedSource {
    /// Where it came from.
    pub source: Source,
    /// Every experiment, in the order of the file.
    pub definitions: Vec<Definition>,
    /// Remarks for the user.
    pub notes: Vec<Note>,
    /// Where numbers belong, for rows of a table that have none.
    pub numbers: Option<NumberColumn>,
    /// What people changed of the experiments, with what came of it.
    pub edited: Vec<AppliedEdit>,
}
