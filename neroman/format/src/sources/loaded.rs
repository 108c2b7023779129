//! What reading a source comes to.

use super::table::NumberColumn;
use crate::definition::problem::FormatErrors;
use crate::definition::{AppliedEdit, Definition, Note, Source};
use crate::read::doubts;
use crate::read::groups::precedence;
use crate::read::reader::Reader;

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

/// What the text of a source describes.
#[derive(Default)]
pub(crate) struct SourceContent {
    definitions: Vec<Definition>,
    notes: Vec<Note>,
    edited: Vec<AppliedEdit>,
}

impl SourceContent {
    pub(crate) fn of(mut reader: Reader<'_>) -> Self {
        Self {
            definitions: std::mem::take(&mut reader.definitions),
            edited: std::mem::take(&mut reader.edited),
            notes: reader.into_notes(),
        }
    }

    pub(crate) fn loaded(self, source: Source) -> LoadedSource {
        LoadedSource {
            source,
            definitions: self.definitions,
            notes: self.notes,
            numbers: None,
            edited: self.edited,
        }
    }
}

/// Checks the definitions of a source with each other, once all are read.
///
/// # Errors
/// All mistakes of the source.
pub(crate) fn check(reader: &mut Reader<'_>) -> Result<(), FormatErrors> {
    doubts::report(reader);
    precedence::check(reader);
    reader.text.checked(std::mem::take(&mut reader.fields))
}
