//! Rows of a file that is a table from its first line on (`.csv`, `.tsv`): a line of
//! names, and under it a line of cells for each row. Other than in printed text, cells
//! may be text, and only the cells with numbers are values.

use crate::found::{LinePairs, NAME_BYTES_MAX};
use crate::labels::label::{self, Labels};
use crate::tables::table::TableStage;
use crate::tokens::{number, step};

/// Limit of columns.
const COLUMNS_MAX: usize = 4096;
/// Limit of a line of names, in bytes.
const NAMES_BYTES_MAX: usize = 64 * 1024;
/// Signs that may separate cells.
const SIGNS: &[u8] = b",;\t|";

/// The columns of a file.
#[derive(Debug, Default)]
pub struct Columns {
    /// What separates cells, where the name of the file tells it.
    given: Option<u8>,
    /// What separates cells.
    sign: u8,
    /// Whether a comma between digits is the decimal point.
    decimal_comma: bool,
    header: Vec<u8>,
    names: Vec<String>,
    step_column: Option<usize>,
    /// Columns that tell the set of a row.
    label_columns: Vec<usize>,
    stage: TableStage,
}

impl Columns {
    /// Columns of a file whose cells are separated by `sign`, if that is known.
    pub fn new(sign: Option<u8>) -> Self {
        Self {
            given: sign,
            ..Self::default()
        }
    }

    /// Reads `0,25` as a number, where commas separate no cells.
    pub fn with_decimal_comma(mut self, decimal_comma: bool) -> Self {
        self.decimal_comma = decimal_comma;
        self
    }

    /// How far the file has come.
    pub fn stage(&self) -> TableStage {
        self.stage
    }

    /// Takes the next line; returns whether it is one of names.
    pub fn line(&mut self, line: &[u8], found: &mut LinePairs) -> bool {
        let line = without_mark(line).trim_ascii_end();
        let is_known = line == self.header.as_slice();
        if line.trim_ascii().is_empty() || is_known || self.row(line, found) {
            return false;
        }
        let may_begin = match self.stage {
            // A remark may come before the names.
            TableStage::None | TableStage::Named => true,
            // A program that goes on in the same file may write more columns.
            TableStage::Rows(_) => self.has_a_known_name(line),
        };
        may_begin && self.take_names(line)
    }

    fn row(&mut self, line: &[u8], found: &mut LinePairs) -> bool {
        if self.stage == TableStage::None {
            return false;
        }
        let mark = found.len();
        let mut step = None;
        let mut labels = Labels::default();
        for (at, cell) in cells(line, self.sign).enumerate() {
            let value = self.value(cell);
            let Some(name) = self.names.get(at) else {
                if cell.is_empty() {
                    continue;
                }
                found.truncate(mark);
                return false;
            };
            if self.label_columns.contains(&at) {
                label::note_cell(name.as_bytes(), cell, &mut labels);
            }
            let Some(value) = value else {
                found.left_out += u32::from(cell.first().is_some_and(u8::is_ascii_digit));
                continue;
            };
            if self.step_column == Some(at) {
                step = Some(value).filter(|step| step.is_finite());
            }
            found.push(name.as_bytes(), value);
        }
        if found.len() == mark {
            return false;
        }
        if let Some(step) = step {
            found.give_step(step, false);
        }
        label::write_all(found, labels, ' ');
        self.stage = TableStage::Rows(self.names.len() as u32);
        true
    }

    fn value(&self, cell: &[u8]) -> Option<f64> {
        if self.decimal_comma && self.sign != b',' && memchr::memchr(b',', cell).is_some() {
            let pointed: Vec<u8> = cell
                .iter()
                .map(|byte| if *byte == b',' { b'.' } else { *byte })
                .collect();
            return number::measured(&pointed);
        }
        number::measured(cell)
    }

    fn has_a_known_name(&self, line: &[u8]) -> bool {
        let is_known = |cell: &[u8]| self.names.iter().any(|name| name.as_bytes() == cell);
        cells(line, self.sign).any(|cell| !cell.is_empty() && is_known(cell))
    }

    /// Whether names under the present ones, without a row between, take their place. A
    /// remark stands above the names and has fewer cells, or its sign; a first row without
    /// a number (`start,,`) has no more cells than the names.
    fn is_replaced_by(&self, names: &[String]) -> bool {
        let filled = |names: &[String]| names.iter().filter(|name| !name.is_empty()).count();
        matches!(self.header.first(), Some(b'#' | b'%')) || filled(names) > filled(&self.names)
    }

    /// Takes the names of a line in which no cell is a number.
    fn take_names(&mut self, line: &[u8]) -> bool {
        let text = match line {
            [b'#' | b'%', rest @ ..] => rest.trim_ascii_start(),
            line => line,
        };
        if line.len() > NAMES_BYTES_MAX || text.contains(&0) {
            return false;
        }
        let sign = match self.stage {
            TableStage::Rows(_) => self.sign,
            TableStage::None | TableStage::Named => {
                self.given.unwrap_or_else(|| most_frequent(text))
            }
        };
        let mut names = Vec::new();
        for cell in cells(text, sign).take(COLUMNS_MAX) {
            let Ok(name) = std::str::from_utf8(cell) else {
                return false;
            };
            if number::measured(cell).is_some() || name.len() > NAME_BYTES_MAX {
                return false;
            }
            names.push(name.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
        }
        if names.iter().all(String::is_empty) {
            return false;
        }
        if self.stage == TableStage::Named && !self.is_replaced_by(&names) {
            return false;
        }
        let rank = |at: &usize| step::rank(names[*at].as_bytes());
        self.step_column = (0..names.len())
            .filter(|at| rank(at).is_some())
            .min_by_key(|at| rank(at));
        let is_label = |at: &usize| label::is_told_by(names[*at].as_bytes());
        self.label_columns = (0..names.len()).filter(is_label).collect();
        self.header.clear();
        self.header.extend_from_slice(line);
        self.names = names;
        self.sign = sign;
        self.stage = TableStage::Named;
        true
    }
}

/// A line without the byte order mark that spreadsheets write.
fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// The sign that separates most cells of a line of names.
fn most_frequent(line: &[u8]) -> u8 {
    let count = |sign: u8| cells(line, sign).count();
    let best = SIGNS.iter().rev().max_by_key(|sign| count(**sign));
    best.copied().unwrap_or(b',')
}

/// The cells of a line, without blanks and quotes around them.
fn cells(line: &[u8], sign: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut is_quoted = false;
        let end = text.iter().position(|byte| {
            is_quoted ^= *byte == b'"';
            *byte == sign && !is_quoted
        });
        rest = end.map(|end| &text[end + 1..]);
        let cell = text[..end.unwrap_or(text.len())].trim_ascii();
        Some(match cell {
            [b'"', inside @ .., b'"'] => inside.trim_ascii(),
            cell => cell,
        })
    })
}
