//! The text of a file, and where its lines begin: places of marks, and mistakes with their lines.

use crate::definition::Place;
use crate::definition::problem::{FormatErrors, Problem, window};
use nero_yaml::{Fields, Mark, Node};

/// The text of a file and where its lines begin.
#[derive(Debug)]
pub(crate) struct Text {
    /// The file's name as it is shown.
    pub(crate) file: String,
    /// The text without a byte order mark.
    pub(crate) text: String,
    line_starts: Vec<usize>,
    /// The table that is read with this text, and its sheet.
    table: Option<(String, String)>,
    /// Texts whose fields hold below those of this one.
    beneath: Vec<Text>,
}

/// Set in the line of a mark that is a cell of the table, not a place in the text.
const CELL: u32 = 1 << 31;

/// The lowest bit in the line of a mark that numbers the text beneath, from one; no file of
/// [`FILE_BYTES_MAX`] has as many lines.
const BENEATH_SHIFT: u32 = 26;

/// Most texts beneath one.
pub(crate) const BENEATH_MAX: usize = 31;

/// The mark of a cell.
pub(crate) fn cell_mark(row: u32, column: u32) -> Mark {
    Mark {
        line: row | CELL,
        column,
    }
}

impl Text {
    pub(crate) fn new(file: String, text: String) -> Self {
        let line_starts = line_starts(&text);
        Self {
            file,
            text,
            line_starts,
            table: None,
            beneath: Vec::new(),
        }
    }

    /// Lays a text beneath this one. Returns the lines to move its marks by (`Node::below`).
    pub(crate) fn lay_beneath(&mut self, text: Text) -> u32 {
        self.beneath.push(text);
        let number = self.beneath.len().min(BENEATH_MAX);
        u32::try_from(number).unwrap_or(0) << BENEATH_SHIFT
    }

    /// The text that a mark is in, and the mark there.
    fn of(&self, mark: Mark) -> (&Self, Mark) {
        let number = (mark.line & !CELL) >> BENEATH_SHIFT;
        let is_cell = self.table.is_some() && mark.line & CELL != 0;
        let beneath = (number as usize).checked_sub(1);
        match beneath.and_then(|index| self.beneath.get(index)) {
            Some(text) if !is_cell => {
                let line = mark.line - (number << BENEATH_SHIFT);
                (text, Mark { line, ..mark })
            }
            Some(_) | None => (self, mark),
        }
    }

    /// The mark of a byte inside the scalar's text.
    pub(crate) fn mark_inside(&self, node: &Node, offset: usize) -> Mark {
        node.mark_inside(&self.of(node.mark).0.text, offset)
    }

    /// The same text, read with a table.
    pub(crate) fn with_table(self, file: String, sheet: String) -> Self {
        Self {
            table: Some((file, sheet)),
            ..self
        }
    }

    /// A value as it is written.
    pub(crate) fn written(&self, node: &Node) -> &str {
        node.written(&self.of(node.mark).0.text)
    }

    /// The place of a mark, for storing.
    pub(crate) fn place(&self, mark: Mark) -> Place {
        if let (Some((file, sheet)), true) = (&self.table, mark.line & CELL != 0) {
            return Place {
                file: file.clone(),
                line: mark.line & !CELL,
                column: mark.column,
                sheet: Some(sheet.as_str().into()),
            };
        }
        let (text, mark) = self.of(mark);
        Place {
            file: text.file.clone(),
            line: mark.line,
            column: mark.column,
            sheet: None,
        }
    }

    /// The place of a mark in words, for a mistake of the same source: `line 7`.
    pub(crate) fn beside(&self, mark: Mark) -> String {
        match (&self.table, mark.line & CELL != 0) {
            (Some((_, sheet)), true) => {
                nero_table::cell_name(sheet, mark.line & !CELL, mark.column).to_string()
            }
            _ => match self.of(mark) {
                (text, Mark { line, .. }) if text.file == self.file => format!("line {line}"),
                (text, Mark { line, .. }) => format!("line {line} of {}", text.file),
            },
        }
    }

    /// A mistake at a mark, with its line.
    pub(crate) fn problem(
        &self,
        mark: Mark,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        let hint = hint.into();
        let place = self.place(mark);
        let snippet = match place.sheet {
            Some(_) => None,
            None => {
                let (text, mark) = self.of(mark);
                let (line, pad) = window(text.line(mark.line), mark.column as usize);
                Some((line.into(), pad))
            }
        };
        Problem {
            place: Some(place),
            message: message.into(),
            hint: (!hint.is_empty()).then_some(hint),
            snippet,
        }
    }

    /// Nothing, or all mistakes that were found, each with its line.
    pub(crate) fn checked(&self, fields: Fields) -> Result<(), FormatErrors> {
        fields.finish().map_err(|mistakes| FormatErrors {
            problems: mistakes
                .list
                .into_iter()
                .map(|one| self.problem(one.place, one.message, one.hint))
                .collect(),
            truncated: mistakes.truncated,
        })
    }

    /// A line without its end; the one behind the last is empty.
    pub(crate) fn line(&self, number: u32) -> &str {
        let index = number.saturating_sub(1) as usize;
        let Some(&start) = self.line_starts.get(index) else {
            return "";
        };
        let end = self.line_starts.get(index + 1);
        let end = end.map_or(self.text.len(), |&next| next);
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }
}

/// Lines end as YAML ends them: with LF, CR LF or CR.
fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut starts = vec![0];
    for (index, byte) in bytes.iter().enumerate() {
        let ends = match byte {
            b'\n' => true,
            b'\r' => bytes.get(index + 1) != Some(&b'\n'),
            _ => false,
        };
        if ends {
            starts.push(index + 1);
        }
    }
    starts
}

/// The mark of what follows a text.
pub(crate) fn mark_of(before: &str) -> Mark {
    let starts = line_starts(before);
    let start = starts.last().copied().unwrap_or(0);
    Mark {
        line: u32::try_from(starts.len()).unwrap_or(u32::MAX),
        column: u32::try_from(before[start..].chars().count() + 1).unwrap_or(u32::MAX),
    }
}
