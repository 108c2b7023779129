//! What the daemon or the command line and `neroman-office`, which reads, writes or makes a file
//! for them, agree on.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::CellValue;

/// The word that has `neroman-office` read a table. File and sheet follow, and the answer is JSON: a `Result<Sheet, UnreadableTable>`.
pub const VERB: &str = "read-table";
/// The same for writing numbers of rows. The file follows; [`NumbersToWrite`]
/// is its input as JSON, and the answer is a `Result<Option<PathBuf>, UnreadableTable>`: the
/// backup.
pub const NUMBER_VERB: &str = "number-table";
/// The same for writing results. The file follows; [`CellsToWrite`] is its
/// input as JSON, and the answer is a `Result<CellsAnswer, UnreadableTable>`.
pub const CELLS_VERB: &str = "write-cells";
/// The same for making a workbook. The file follows; its input is as in
/// [`crate::book`], and the answer is a `Result<(), UnreadableTable>`.
pub const BOOK_VERB: &str = "write-book";

/// Numbers of rows, and where they belong. Rows and columns count from one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumbersToWrite {
    /// The sheet; a text file has none.
    pub sheet: Option<String>,
    /// BLAKE3 of the file's bytes that the rows were read from, in hexadecimal.
    pub digest: String,
    /// The column.
    pub column: u32,
    /// What its header is called and the row of that, where it is to be made.
    pub header: Option<(u32, String)>,
    /// The first row below the header.
    pub first_row: u32,
    /// Rows with their numbers.
    pub numbers: Vec<(u32, u64)>,
}

/// Cells of experiments that are found by the numbers of their rows and the headings of their
/// columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellsToWrite {
    /// The sheet; a text file has none.
    pub sheet: Option<String>,
    /// The row in which its header begins, where the YAML file names it.
    pub header: Option<u32>,
    /// How many rows its header has.
    pub header_rows: u8,
    /// The heading of the column with the numbers.
    pub number: String,
    /// The headings of the columns to write.
    pub headings: Vec<String>,
    /// The rows.
    pub rows: Vec<RowToWrite>,
    /// To write; none: only tells what would become of each cell.
    pub order: Option<WriteOrder>,
}

/// The cells of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowToWrite {
    /// The number in the sheet.
    pub number: u64,
    /// Its cells.
    pub cells: Vec<CellToWrite>,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellToWrite {
    /// Index of its heading.
    pub heading: usize,
    /// What it shall hold; none: nothing.
    pub value: Option<CellValue>,
    /// What we wrote there before.
    pub ours: Vec<CellValue>,
}

/// The order to write what was told before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteOrder {
    /// BLAKE3 of the bytes for which that was told, in hexadecimal; others are left.
    pub digest: String,
    /// Whether these bytes are kept beside the file.
    pub has_backup: bool,
}

/// What became of the cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CellsAnswer {
    /// The file is open in a program.
    Open(OpenElsewhere),
    /// The file is changing; the next try may find it still.
    Busy,
    /// Told, or written.
    Cells(CellsFound),
}

/// Who has a file open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenElsewhere {
    /// `LibreOffice` or `Excel`.
    pub program: String,
    /// The lock file.
    pub lock: PathBuf,
    /// The person's name.
    pub owner: Option<String>,
    /// The machine.
    pub host: Option<String>,
    /// When it was opened, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Whether no such program runs on its machine any more, if that is known.
    pub is_left_behind: Option<bool>,
}

/// What became of the cells of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellsFound {
    /// The file as it was read.
    pub read: FileTimes,
    /// BLAKE3 of the bytes that were read, in hexadecimal.
    pub digest: String,
    /// In the order of the rows and cells that were asked for.
    pub cells: Vec<Vec<CellFound>>,
    /// The file as it was written, if it was.
    pub written: Option<FileTimes>,
}

/// What tells two states of a file apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTimes {
    /// In nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its length.
    pub bytes: u64,
    /// Its number in the file system.
    pub inode: u64,
}

/// What became of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CellFound {
    /// It is written, or would be.
    Written,
    /// It holds the value already.
    Same,
    /// The file has no such row.
    Absent,
    /// It holds something that is not known as ours.
    Foreign {
        /// Its name.
        cell: String,
        /// What it holds.
        shows: String,
    },
    /// It is not written, whatever it holds.
    Never {
        /// Its name; of a column that is gone and a number in two rows, that.
        cell: String,
        /// Why.
        why: String,
    },
}
