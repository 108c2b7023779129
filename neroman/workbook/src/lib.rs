//! Reads sheets of workbooks and tables, and changes cells in place and no other byte.
//!
//! [`read`] takes the bytes of a file: `.xlsx`, `.xlsm`, `.xlsb`, `.xls`, `.ods`, and text with
//! commas, semicolons or tabs. Its first bytes show what the file is; its name only decides what
//! a person is told about it.
//!
//! [`edit`] takes the bytes of a file and the wanted values, and returns the bytes of the
//! changed file with one [`CellOutcome`] for each cell. Of `.xlsx` and `.ods` only the elements of
//! changed cells differ; every other part of the package stays the same compressed bytes in the
//! same order. [`BookFile`] reads a file and puts the changed one in its place.
//!
//! A cell is ours while it is empty or holds something that we ever wrote there. The caller keeps
//! what we ever wrote and hands it in; the comparison happens in the reading that the
//! change is made of, so nothing that the owner typed is overwritten.
//!
//! Never done here: which experiment stands in which row, when to write, and parsing of
//! formulas beyond the cells that they name.

mod builder;
mod csv;
mod dependents;
mod error;
mod excel;
mod file;
mod formula;

mod kind;
mod ods;
mod package;
mod place;
mod value;
mod xlsx;
mod xml;

use std::collections::BTreeMap;
use std::path::Path;

use nero_table::book::BookCell;
use nero_table::{CellValue, Sheet, UnreadableTable};

pub use error::WorkbookError;
pub use file::{
    BookFile, BookStamp, FileError, FileReplacement, Lock, LockProgram, create, lock_of,
};
pub use ods::paragraphs;

use place::{COLUMNS_MAX, ROWS_MAX, Spot};

/// Reads a sheet from the bytes of a file: the one of this name, else the first that is
/// not hidden. `ending` is the file's, without the dot.
///
/// # Errors
/// Why there is none.
pub fn read(bytes: &[u8], ending: &str, sheet: Option<&str>) -> Result<Sheet, UnreadableTable> {
    let mut read = match kind::of(bytes, ending)? {
        kind::FileFormat::Text => csv::read(bytes, ending, sheet),
        kind::FileFormat::Ods => Ok(ods::read(bytes, sheet)?),
        kind::FileFormat::Xlsx => Ok(xlsx::read(bytes, sheet)?),
        kind::FileFormat::Xlsb => excel::xlsb(bytes, sheet),
        kind::FileFormat::Xls => excel::xls(bytes, sheet),
    }?;
    read.digest = blake3::hash(bytes).to_hex().to_string();
    Ok(read)
}

/// What a file is, by the ending of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BookFormat {
    /// `.xlsx`, `.xlsm`.
    Xlsx,
    /// `.ods`.
    Ods,
    /// `.csv`.
    Csv,
    /// `.tsv`.
    Tsv,
}

impl BookFormat {
    /// The format of a file of this name, `None` when it is none of a workbook or table.
    ///
    /// # Errors
    /// For a format that is read and never written.
    pub fn of(path: &Path) -> Result<Option<Self>, WorkbookError> {
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        match ending.to_str() {
            Some("xlsx" | "xlsm") => Ok(Some(Self::Xlsx)),
            Some("ods") => Ok(Some(Self::Ods)),
            Some("csv") => Ok(Some(Self::Csv)),
            Some("tsv") => Ok(Some(Self::Tsv)),
            Some("xls") => Err(WorkbookError::ReadOnly { format: ".xls" }),
            Some("xlsb") => Err(WorkbookError::ReadOnly { format: ".xlsb" }),
            _ => Ok(None),
        }
    }
}

/// The sheet with the cells.
#[derive(Debug, Clone, Copy)]
pub struct TargetSheet<'a> {
    /// Its name; the first sheet that is not hidden without one. A table in a text file has none.
    pub name: Option<&'a str>,
    /// The first row below the header, from 0. Nothing above it is written, and no style is
    /// taken from there.
    pub first_row: u32,
}

/// A cell and what it shall hold.
#[derive(Debug, Clone)]
pub struct CellChange {
    /// Its row, from 0. In a text file each record counts as one, also an empty one.
    pub row: u32,
    /// Its column, from 0.
    pub column: u32,
    /// The wanted value.
    pub value: BookCell,
    /// Everything that we ever wrote there. Record a value before the file is written: what a
    /// crash leaves in the file is then known to be ours.
    pub ours: Vec<CellValue>,
}

/// What became of one cell.
#[derive(Debug, Clone, PartialEq)]
pub enum CellOutcome {
    /// It holds the wanted value now.
    Written,
    /// It held the wanted value already.
    Same,
    /// It is not ours to write.
    Left(CellObstacle),
}

/// Why a cell was left as it is.
#[derive(Debug, Clone, PartialEq)]
pub enum CellObstacle {
    /// It holds something that we never wrote.
    Owner {
        /// What it holds.
        shows: String,
    },
    /// A formula stands there, or the result of one reaches there.
    Formula,
    /// It lies under a merged cell.
    Merged,
    /// It is part of a header, or of the totals of a table.
    Header,
    /// The sheet does not reach so far.
    Outside,
}

/// A changed file.
#[derive(Debug)]
pub struct EditResult {
    /// Its bytes; `None` when nothing is to be changed.
    pub bytes: Option<Vec<u8>>,
    /// What became of each cell, in the order in which they were asked for.
    pub outcomes: Vec<CellOutcome>,
}

/// Writes the cells that are ours.
///
/// # Errors
/// When the file is none that we write, or is damaged, or a cell is asked for twice.
pub fn edit(
    format: BookFormat,
    bytes: &[u8],
    sheet: TargetSheet<'_>,
    cells: &[CellChange],
) -> Result<EditResult, WorkbookError> {
    let wanted = WantedCells::new(sheet, cells)?;
    match format {
        BookFormat::Xlsx => xlsx::edit(bytes, wanted),
        BookFormat::Ods => ods::edit(bytes, wanted),
        BookFormat::Csv | BookFormat::Tsv => csv::edit(bytes, format == BookFormat::Tsv, wanted),
    }
}

/// Whether the sheet has an area that programs sort by itself: a table of Excel or a filter.
/// What stands in a column beside it stays where it is when the area is sorted.
///
/// # Errors
/// When the file is none that we write, or is damaged.
pub fn has_sorted_area(
    format: BookFormat,
    bytes: &[u8],
    sheet: Option<&str>,
) -> Result<bool, WorkbookError> {
    match format {
        BookFormat::Xlsx => xlsx::has_sorted_area(bytes, sheet),
        BookFormat::Ods => ods::has_sorted_area(bytes, sheet),
        BookFormat::Csv | BookFormat::Tsv => Ok(false),
    }
}

/// The wanted cells by their places, and what is decided about each.
#[derive(Debug)]
struct WantedCells<'a> {
    sheet: TargetSheet<'a>,
    cells: &'a [CellChange],
    at: BTreeMap<Spot, usize>,
    outcomes: Vec<CellOutcome>,
}

impl<'a> WantedCells<'a> {
    fn new(sheet: TargetSheet<'a>, cells: &'a [CellChange]) -> Result<Self, WorkbookError> {
        let mut at = BTreeMap::new();
        let mut outcomes = Vec::with_capacity(cells.len());
        for (index, cell) in cells.iter().enumerate() {
            let place = (cell.row, cell.column);
            outcomes.push(CellOutcome::Left(if cell.row < sheet.first_row {
                CellObstacle::Header
            } else {
                CellObstacle::Outside
            }));
            let is_within = cell.row < ROWS_MAX && cell.column < COLUMNS_MAX;
            if cell.row >= sheet.first_row && is_within && at.insert(place, index).is_some() {
                let cell = place::name(place);
                return Err(WorkbookError::Twice { cell });
            }
        }
        Ok(Self {
            sheet,
            cells,
            at,
            outcomes,
        })
    }

    /// The wanted columns of a row, in their order.
    fn columns(&self, row: u32) -> impl Iterator<Item = u32> {
        let cells = self.at.range((row, 0)..=(row, u32::MAX));
        cells.map(|((_, column), _)| *column)
    }

    /// Decides about a cell that holds `found`: `alike` compares that with the wanted value,
    /// `is_ours` with a value that we ever wrote. Returns the value that is to be written.
    fn decide(
        &mut self,
        place: Spot,
        found: Result<&BookCell, CellObstacle>,
        alike: impl Fn(&BookCell, Option<&CellValue>) -> bool,
        is_ours: impl Fn(&BookCell, Option<&CellValue>) -> bool,
    ) -> Option<&'a BookCell> {
        let index = self.at[&place];
        let cell = &self.cells[index];
        let outcome = match found {
            Err(left) => CellOutcome::Left(left),
            Ok(found) if alike(found, cell.value.as_ref()) => CellOutcome::Same,
            Ok(found) if value::is_nothing(found) => CellOutcome::Written,
            Ok(found) if cell.ours.iter().any(|ours| is_ours(found, Some(ours))) => {
                CellOutcome::Written
            }
            Ok(found) => CellOutcome::Left(CellObstacle::Owner {
                shows: value::display_text(found).to_owned(),
            }),
        };
        let is_written = outcome == CellOutcome::Written;
        self.outcomes[index] = outcome;
        is_written.then_some(&cell.value)
    }
}

/// Index of the sheet of this name, without a name the first that is seen. Case does not count
/// where no name is exactly so.
fn find_sheet(
    names: &[String],
    first_seen: usize,
    name: Option<&str>,
) -> Result<usize, WorkbookError> {
    let position = |is_wanted: &dyn Fn(&str) -> bool| names.iter().position(|name| is_wanted(name));
    let found = match name {
        None => (first_seen < names.len()).then_some(first_seen),
        Some(wanted) => position(&|name| name == wanted)
            .or_else(|| position(&|name| name.to_lowercase() == wanted.to_lowercase())),
    };
    found.ok_or_else(|| WorkbookError::NoSheet {
        name: name.unwrap_or_default().to_owned(),
        sheets: names.to_vec(),
    })
}
