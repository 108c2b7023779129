//! Tables: a line of names, and under it lines of as many numbers.
//!
//! The names are cut at commas, semicolons, tabs or bars, where the line has any; else
//! at two blanks, at each blank, or where the columns of the first row end, whichever
//! gives as many names as that row has numbers. Blank lines and rules (`----`) may lie
//! between. Lines that do not fit do not end a table, but one of two columns that
//! blanks separate; a line of names begins the next.

use crate::found::{LinePairs, NAME_BYTES_MAX};
use crate::number;
use crate::step;

/// Limit of a line of names, in bytes.
const HEADER_BYTES_MAX: usize = 4096;
/// Limit of columns.
const COLUMNS_MAX: usize = 512;
/// What a byte is in a line of names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteKind {
    Letter,
    Other,
    Sign,
    /// A line with it is none of names.
    Foreign,
}

const KINDS: [ByteKind; 256] = {
    let mut kinds = [ByteKind::Foreign; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' => ByteKind::Letter,
            b'0'..=b'9' | b' ' | b'"' | b'_' | b'-' | b'.' | b'/' | b'@' | b'%' => ByteKind::Other,
            b'(' | b')' | b'[' | b']' | b'#' | b'^' | b'*' | b'+' => ByteKind::Other,
            b'<' | b'>' | b'~' | b'\'' | 0x80.. => ByteKind::Other,
            b',' | b';' | b'\t' | b'|' => ByteKind::Sign,
            _ => ByteKind::Foreign,
        };
        byte += 1;
    }
    kinds
};

/// How a line is cut into cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Cut {
    /// At blanks.
    #[default]
    Blanks,
    /// At this byte.
    At(u8),
}

/// How far a table has come, for a reader that goes on with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableStage {
    /// There is none.
    #[default]
    None,
    /// There is a line that may hold its names.
    Named,
    /// Rows of so many columns were read.
    Rows(u32),
}

/// A table that is being read.
#[derive(Debug, Default)]
pub struct Table {
    stage: TableStage,
    header: Vec<u8>,
    cut: Cut,
    /// The names, once a row has decided how they are cut.
    names: Vec<String>,
    step_column: Option<usize>,
    /// Cells of the present line: the value and the end of its text.
    cells: Vec<(Option<f64>, usize)>,
}

impl Table {
    /// A table as a former reader left it: its line of names and its stage.
    pub fn resumed(header: &[u8], stage: TableStage) -> Self {
        let mut table = Self::default();
        if let Some(cut) = cut_of_header(header) {
            table.header.extend_from_slice(header);
            table.cut = cut;
            table.stage = stage;
        }
        table
    }

    /// How far it has come.
    pub fn stage(&self) -> TableStage {
        self.stage
    }

    /// Reads a line as a row; returns whether it is one.
    pub fn row(&mut self, line: &[u8], found: &mut LinePairs) -> bool {
        if self.stage == TableStage::None || !begins_like_a_row(line) || !self.read_cells(line) {
            return false;
        }
        let columns = self.cells.len();
        if let TableStage::Rows(known) = self.stage
            && known as usize != columns
        {
            return false;
        }
        if self.names.is_empty() && !self.name_columns() {
            return false;
        }
        self.stage = TableStage::Rows(columns as u32);
        for (name, (value, _)) in self.names.iter().zip(&self.cells) {
            if let Some(value) = value {
                found.push(name.as_bytes(), *value);
            }
        }
        let step = self.step_column.and_then(|column| self.cells[column].0);
        if let Some(step) = step.filter(|step| step.is_finite()) {
            found.give_step(step, true);
        }
        true
    }

    /// Takes a line that gave no values: one of names begins a table. Returns
    /// whether it does.
    pub fn other(&mut self, line: &[u8]) -> bool {
        if let Some(cut) = cut_of_header(line)
            && !self.is_remark(cut)
        {
            self.header.clear();
            self.header.extend_from_slice(line);
            self.cut = cut;
            self.names.clear();
            self.stage = TableStage::Named;
            return true;
        }
        if !is_rule(line) {
            self.interrupted();
        }
        false
    }

    /// A line that is no row came between.
    pub fn interrupted(&mut self) {
        match self.stage {
            TableStage::None => {}
            TableStage::Named => self.stage = TableStage::None,
            TableStage::Rows(columns) => {
                if columns == 2 && self.cut == Cut::Blanks {
                    self.stage = TableStage::None;
                }
            }
        }
    }

    /// Whether a line of words is a remark between rows: it lacks the sign that
    /// separates the columns.
    fn is_remark(&self, cut: Cut) -> bool {
        matches!(self.stage, TableStage::Rows(_)) && cut == Cut::Blanks && self.cut != Cut::Blanks
    }

    /// Fills `cells`; returns whether all of them are numbers, or empty between
    /// signs.
    fn read_cells(&mut self, line: &[u8]) -> bool {
        self.cells.clear();
        let mut numbers = 0;
        for (from, to) in cells(line, self.cut) {
            let text = bare(&line[from..to]);
            let value = match text {
                [] => None,
                _ => match number::measured(text) {
                    Some(value) => {
                        numbers += 1;
                        Some(value)
                    }
                    None => return false,
                },
            };
            if self.cells.len() == COLUMNS_MAX {
                return false;
            }
            self.cells.push((value, to));
        }
        self.cells.len() > 1 && numbers > 0
    }

    /// Cuts the header for a row with the present cells; returns whether it fits.
    fn name_columns(&mut self) -> bool {
        let columns = self.cells.len();
        let header = self.header.as_slice();
        let cut = self.cut;
        let all = |pieces: Vec<&[u8]>| -> Option<Vec<String>> {
            let names: Option<Vec<String>> = pieces.into_iter().map(name).collect();
            let has_all = |names: &Vec<String>| match cut {
                Cut::Blanks => !names.iter().any(String::is_empty),
                Cut::At(_) => true,
            };
            names.filter(|names| names.len() == columns && has_all(names))
        };
        let text = without_comment(header);
        let names = match cut {
            Cut::At(_) => all(cells(text, cut).map(|(from, to)| &text[from..to]).collect()),
            Cut::Blanks => all(at_two_blanks(text))
                .or_else(|| all(cells(text, cut).map(|(from, to)| &text[from..to]).collect()))
                .or_else(|| all(self.aligned()?)),
        };
        let Some(names) = names else {
            return false;
        };
        let rank = |at: &usize| match names[*at].as_str() {
            "#" => Some(u8::MAX),
            name => step::rank(name.as_bytes()),
        };
        self.step_column = (0..columns)
            .filter(|at| rank(at).is_some())
            .min_by_key(|at| rank(at));
        self.names = names;
        true
    }

    /// The header's pieces over the row's columns: names with blanks in columns of
    /// fixed width, right-aligned. `None` when an end lies within a word.
    fn aligned(&self) -> Option<Vec<&[u8]>> {
        let header = self.header.trim_ascii_end();
        let last = self.cells.last().map_or(0, |(_, end)| *end);
        if header.len() > last {
            return None;
        }
        let mut from = 0;
        let mut pieces = Vec::new();
        for (_, end) in &self.cells {
            let to = (*end).min(header.len());
            if !header.get(to).is_none_or(u8::is_ascii_whitespace) {
                return None;
            }
            pieces.push(&header[from..to]);
            from = to;
        }
        Some(pieces)
    }
}

/// The name in a header's piece; empty between signs.
fn name(piece: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bare(piece)).ok()?;
    Some(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}

/// A cell without blanks and quotes.
fn bare(cell: &[u8]) -> &[u8] {
    match cell.trim_ascii() {
        [b'"', inside @ .., b'"'] => inside.trim_ascii(),
        cell => cell,
    }
}

/// `#` and `%` begin comments in tables of numbers.
fn without_comment(line: &[u8]) -> &[u8] {
    match line.trim_ascii_start() {
        [b'#' | b'%', rest @ ..] if !rest.first().is_none_or(u8::is_ascii_punctuation) => rest,
        line => line,
    }
}

fn at_two_blanks(text: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = text.trim_ascii();
    while let Some(end) = rest.windows(2).position(|two| two == b"  ") {
        pieces.push(&rest[..end]);
        rest = rest[end..].trim_ascii_start();
    }
    pieces.push(rest);
    pieces
}

/// Bounds of the cells of a line.
fn cells(line: &[u8], cut: Cut) -> impl Iterator<Item = (usize, usize)> {
    let (mut at, mut end) = (0, line.len());
    if cut == Cut::At(b'|') {
        // `| a | b |`: the outer bars separate nothing.
        let blanks = line.len() - line.trim_ascii_start().len();
        at = if line[blanks..].starts_with(b"|") {
            blanks + 1
        } else {
            0
        };
        let text = line.trim_ascii_end();
        end = if text.len() > at && text.ends_with(b"|") {
            text.len() - 1
        } else {
            end
        };
    }
    let mut is_over = false;
    std::iter::from_fn(move || {
        if cut == Cut::Blanks {
            at += line[at..end]
                .iter()
                .take_while(|b| b.is_ascii_whitespace())
                .count();
            is_over = at == end;
        }
        if is_over {
            return None;
        }
        let ends = |byte: &u8| match cut {
            Cut::At(sign) => *byte == sign,
            Cut::Blanks => byte.is_ascii_whitespace(),
        };
        let from = at;
        let to = line[from..end]
            .iter()
            .position(ends)
            .map_or(end, |length| from + length);
        is_over = to == end;
        at = (to + 1).min(end);
        Some((from, to))
    })
}

/// How a line of names is cut; `None` when it is none.
fn cut_of_header(line: &[u8]) -> Option<Cut> {
    if line.len() > HEADER_BYTES_MAX {
        return None;
    }
    let text = without_comment(line).trim_ascii();
    let is_sentence = match text.last()? {
        b':' | b'!' | b'?' => true,
        b'.' => !text.windows(2).any(|two| two == b"  "),
        _ => false,
    };
    if is_sentence {
        return None;
    }
    let mut cut = Cut::Blanks;
    let mut has_letters = false;
    for byte in text {
        match KINDS[usize::from(*byte)] {
            ByteKind::Letter => has_letters = true,
            ByteKind::Other => {}
            ByteKind::Sign => {
                // Of several signs the one that is rarer within names separates.
                let order = |cut: Cut| match cut {
                    Cut::Blanks => 0,
                    Cut::At(sign) => 1 + b",;\t|".iter().position(|s| *s == sign).unwrap_or(0),
                };
                if order(Cut::At(*byte)) > order(cut) {
                    cut = Cut::At(*byte);
                }
            }
            ByteKind::Foreign => return None,
        }
    }
    if !has_letters {
        return None;
    }
    let mut names = 0;
    for (from, to) in cells(text, cut) {
        let name = bare(&text[from..to]);
        let is_name = match name {
            [] => cut != Cut::Blanks,
            [first, ..] => {
                let is_number = match first {
                    b'0'..=b'9' => true,
                    b'+' | b'-' | b'.' | b'n' | b'N' | b'i' | b'I' => {
                        number::measured(name).is_some()
                    }
                    _ => false,
                };
                !is_number && name.len() <= NAME_BYTES_MAX
            }
        };
        if !is_name {
            return None;
        }
        names += usize::from(!name.is_empty());
    }
    (names > 1).then_some(cut)
}

/// Whether a line can begin with a number, or a bar or quote before one.
fn begins_like_a_row(line: &[u8]) -> bool {
    matches!(
        line.trim_ascii_start().first(),
        Some(
            b'0'..=b'9'
                | b'-'
                | b'+'
                | b'.'
                | b'|'
                | b'"'
                | b','
                | b';'
                | b'n'
                | b'N'
                | b'i'
                | b'I'
        )
    ) || line.first() == Some(&b'\t')
}

/// A line that is drawn: `---`, `|---|---|`, `━━━`.
fn is_rule(line: &[u8]) -> bool {
    line.iter()
        .all(|byte| b"-=+|:_~* \t".contains(byte) || *byte >= 0x80)
}
