//! Tables: a line of names, and under it lines of as many numbers.
//!
//! The names are cut at commas, semicolons, tabs or bars, where the line has any; else
//! at two blanks, at each blank, or where the columns of the first row end, whichever
//! gives as many names as that row has numbers. Blank lines and rules (`----`) may lie
//! between. Lines that do not fit do not end a table, but one of two columns that
//! blanks separate and that has no step; a line of names begins the next, a sentence is none.
//! A cell that is no number is left out alone. A row that ends with a progress bar ends
//! before it. A column such as `phase` or `fold` tells the set that the row belongs to.

use crate::found::{LinePairs, NAME_BYTES_MAX};
use crate::labels::label::{self, Labels};
use crate::tables::cells::{
    Cell, CellKind, Cut, aligned, at_two_blanks, bare, cells, kind, name, without_bar,
    without_comment,
};
use crate::tokens::words::is_of_sentence;
use crate::tokens::{number, step};

/// Limit of a line of names, in bytes.
const HEADER_BYTES_MAX: usize = 4096;
/// Limit of columns.
const COLUMNS_MAX: usize = 512;
/// Limit of the blanks within a name; more words are a sentence.
const NAME_BLANKS_MAX: u8 = 6;
/// What a byte is in a line of names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteKind {
    Letter = 1,
    Other = 2,
    /// A line with it is none of names.
    Foreign = 4,
    Bar = 8,
    Tab = 16,
    Semicolon = 32,
    Comma = 64,
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
            b'|' => ByteKind::Bar,
            b'\t' => ByteKind::Tab,
            b';' => ByteKind::Semicolon,
            b',' => ByteKind::Comma,
            _ => ByteKind::Foreign,
        };
        byte += 1;
    }
    kinds
};

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

/// A line of names, and how rows are cut by it.
#[derive(Debug, Default)]
struct TableLayout {
    header: Vec<u8>,
    cut: Cut,
    /// The names, once a row has decided how they are cut.
    names: Vec<String>,
    step_column: Option<usize>,
    /// Columns that tell the set of a row.
    label_columns: Vec<usize>,
    /// Whether a row may begin with a word: its first column tells the set.
    begins_with_label: bool,
    stage: TableStage,
}

/// A table that is being read.
#[derive(Debug, Default)]
pub struct Table {
    layout: TableLayout,
    /// The table before, whose rows may go on when those of the new one do not come.
    former: Option<TableLayout>,
    /// Whether the present line brought the former table back.
    is_restored: bool,
    /// Whether the next line is known to hold the names, so that it is no remark.
    begins_with_names: bool,
    cells: Vec<Cell>,
}

impl Table {
    /// A table whose line of names is the next line to be read.
    pub fn before_its_names() -> Self {
        Self {
            begins_with_names: true,
            ..Self::default()
        }
    }

    /// The same table, behind another one whose rows may go on.
    pub fn behind(self, former: Option<Self>) -> Self {
        Self {
            former: former.map(|table| table.layout),
            ..self
        }
    }

    /// Whether there is a table before it, whose rows may go on.
    pub fn has_former(&self) -> bool {
        self.former.is_some()
    }

    /// Returns whether the table before it came back since the last call.
    pub fn take_restored(&mut self) -> bool {
        std::mem::take(&mut self.is_restored)
    }

    /// How far it has come.
    pub fn stage(&self) -> TableStage {
        self.layout.stage
    }

    /// Reads a line as a row; returns the labels of its set when it is one.
    pub fn row(&mut self, line: &[u8], found: &mut LinePairs) -> Option<Labels> {
        if self.layout.stage == TableStage::None {
            return None;
        }
        if let Some(labels) = self.layout.row(line, &mut self.cells, found) {
            self.former = None;
            return Some(labels);
        }
        let former = self.former.as_mut()?;
        let labels = former.row(line, &mut self.cells, found)?;
        self.restore();
        Some(labels)
    }

    /// Takes a line that gave no values: one of names begins a table. Returns
    /// whether it does.
    pub fn other(&mut self, line: &[u8]) -> bool {
        if let Some(cut) = cut_of_header(line)
            && (std::mem::take(&mut self.begins_with_names) || !self.layout.is_remark(line, cut))
        {
            if matches!(self.layout.stage, TableStage::Rows(_)) {
                self.former = Some(std::mem::take(&mut self.layout));
            }
            self.layout.begin(line, cut);
            return true;
        }
        if !is_rule(line) {
            self.interrupted();
        }
        false
    }

    /// Goes on with the table before, if there is one.
    fn restore(&mut self) {
        self.is_restored = self.former.is_some();
        self.layout = self.former.take().unwrap_or_default();
    }

    /// A line that is no row came between.
    pub fn interrupted(&mut self) {
        match self.layout.stage {
            TableStage::None => {}
            TableStage::Named => self.restore(),
            TableStage::Rows(columns) => {
                let is_sure = self.layout.step_column.is_some();
                if columns == 2 && self.layout.cut == Cut::Blanks && !is_sure {
                    self.layout = TableLayout::default();
                }
            }
        }
    }
}

impl TableLayout {
    /// Takes another line of names.
    fn begin(&mut self, header: &[u8], cut: Cut) {
        let text = without_comment(header);
        let first = cells(text, cut).next();
        let is_label = |(from, to): (usize, usize)| label::is_told_by(bare(&text[from..to]));
        self.begins_with_label = first.is_some_and(is_label);
        self.header.clear();
        self.header.extend_from_slice(header);
        self.cut = cut;
        self.names.clear();
        self.step_column = None;
        self.label_columns.clear();
        self.stage = TableStage::Named;
    }

    fn row(&mut self, line: &[u8], row: &mut Vec<Cell>, found: &mut LinePairs) -> Option<Labels> {
        if !(begins_like_a_row(line) || self.begins_with_label) || !self.read_cells(line, row) {
            return None;
        }
        let columns = row.len();
        if let TableStage::Rows(known) = self.stage
            && known as usize != columns
        {
            return None;
        }
        if self.names.is_empty() && !self.name_columns(row) {
            return None;
        }
        self.stage = TableStage::Rows(columns as u32);
        let mut labels = Labels::default();
        let mut step = None;
        for (at, (name, cell)) in self.names.iter().zip(row).enumerate() {
            let is_step = self.step_column == Some(at);
            if self.label_columns.contains(&at) {
                label::note_cell(
                    name.as_bytes(),
                    bare(&line[cell.from..cell.to]),
                    &mut labels,
                );
            }
            match cell.kind {
                CellKind::Number(value) => found.push_column(name, value),
                CellKind::Count(value) if is_step => found.push_column(name, value),
                CellKind::Count(_) | CellKind::Unreadable => found.left_out += 1,
                CellKind::Empty | CellKind::Word => {}
            }
            if let CellKind::Number(value) | CellKind::Count(value) = cell.kind
                && is_step
                && value.is_finite()
            {
                step = Some((step::rank(name.as_bytes()).unwrap_or(0), value));
            }
        }
        if let Some((rank, step)) = step {
            found.give_step(step, true);
            found.step_rank = rank;
        }
        Some(labels)
    }

    /// Whether a line of words is a remark between rows, or above them: it lacks the sign that
    /// separates the columns, or is a sentence.
    fn is_remark(&self, line: &[u8], cut: Cut) -> bool {
        if cut != Cut::Blanks {
            return false;
        }
        let is_between = matches!(self.stage, TableStage::Rows(_));
        if is_between && self.cut != Cut::Blanks {
            return true;
        }
        let text = line.trim_ascii();
        let words = || text.split(|byte| *byte == b' ');
        let are_words =
            words().all(|word| !word.is_empty() && word.iter().all(u8::is_ascii_alphabetic));
        let is_name = |word: &[u8]| {
            step::rank(word).is_some() || self.names.iter().any(|name| name.as_bytes() == word)
        };
        if !are_words || words().any(is_name) {
            return false;
        }
        let has_long_word = words().any(|word| word.len() > 2);
        let is_steady = is_between && self.step_column.is_some();
        has_long_word && (is_steady || words().any(is_of_sentence))
    }

    /// Fills the cells of a row; returns whether the line can be one: not fewer numbers than
    /// cells that are none, and no words but between signs and as the set.
    fn read_cells(&self, line: &[u8], row: &mut Vec<Cell>) -> bool {
        row.clear();
        let (mut numbers, mut others) = (0, 0);
        for (from, to) in cells(without_bar(line), self.cut) {
            let kind = kind(bare(&line[from..to]));
            let is_label = row.is_empty() && self.begins_with_label;
            match kind {
                CellKind::Number(_) | CellKind::Count(_) => numbers += 1,
                CellKind::Empty => {}
                CellKind::Word if is_label => {}
                CellKind::Word if self.cut == Cut::Blanks => return false,
                CellKind::Unreadable | CellKind::Word => others += 1,
            }
            if row.len() == COLUMNS_MAX {
                return false;
            }
            row.push(Cell { kind, from, to });
        }
        row.len() > 1 && numbers > 0 && numbers >= others
    }

    /// Cuts the header for a row with these cells; returns whether it fits.
    fn name_columns(&mut self, row: &[Cell]) -> bool {
        let columns = row.len();
        let cut = self.cut;
        let all = |pieces: Vec<&[u8]>| -> Option<Vec<String>> {
            let names: Option<Vec<String>> = pieces.into_iter().map(name).collect();
            let has_all = |names: &Vec<String>| match cut {
                Cut::Blanks => !names.iter().any(String::is_empty),
                Cut::At(_) => true,
            };
            names.filter(|names| names.len() == columns && has_all(names))
        };
        let text = without_bar(without_comment(&self.header));
        let names = match cut {
            Cut::At(_) => all(cells(text, cut).map(|(from, to)| &text[from..to]).collect()),
            Cut::Blanks => all(at_two_blanks(text))
                .or_else(|| all(cells(text, cut).map(|(from, to)| &text[from..to]).collect()))
                .or_else(|| all(aligned(&self.header, row)?)),
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
        let is_label = |at: &usize| label::is_told_by(names[*at].as_bytes());
        self.label_columns = (0..columns).filter(is_label).collect();
        self.names = names;
        true
    }
}

/// How a line of names is cut; `None` when it is none.
fn cut_of_header(line: &[u8]) -> Option<Cut> {
    if line.len() > HEADER_BYTES_MAX {
        return None;
    }
    let text = without_bar(without_comment(line)).trim_ascii();
    let is_sentence = match text.last()? {
        b':' | b'!' | b'?' => true,
        b'.' => !text.windows(2).any(|two| two == b"  "),
        _ => false,
    };
    if is_sentence {
        return None;
    }
    let mut kinds = 0;
    // Most lines have no foreign byte early, and no sign.
    for part in text.chunks(16) {
        kinds |= part.iter().fold(0, |kinds, byte| kinds | byte_kind(*byte));
        if kinds & ByteKind::Foreign as u8 > 0 {
            return None;
        }
    }
    // Of several signs the one that is rarer within names separates.
    let signs = [
        (ByteKind::Bar, b'|'),
        (ByteKind::Tab, b'\t'),
        (ByteKind::Semicolon, b';'),
        (ByteKind::Comma, b','),
    ];
    let sign = signs.iter().find(|(kind, _)| kinds & *kind as u8 > 0);
    let cut = sign.map_or(Cut::Blanks, |(_, sign)| Cut::At(*sign));
    if kinds & ByteKind::Letter as u8 == 0 {
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
                !is_number && (is_short(name) || cut == Cut::Blanks && name.len() <= NAME_BYTES_MAX)
            }
        };
        if !is_name {
            return None;
        }
        names += usize::from(!name.is_empty());
    }
    (names > 1).then_some(cut)
}

fn byte_kind(byte: u8) -> u8 {
    KINDS[usize::from(byte)] as u8
}

/// Whether a name has no more words than one has.
fn is_short(name: &[u8]) -> bool {
    // A name is short enough for a count of one byte, which compares many bytes at once.
    let is_blank = |byte: &u8| u8::from(*byte == b' ');
    name.len() <= NAME_BYTES_MAX
        && name.iter().fold(0, |count, byte| count + is_blank(byte)) <= NAME_BLANKS_MAX
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
