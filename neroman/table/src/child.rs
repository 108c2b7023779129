//! What the daemon or the command line and the process that reads, numbers or makes a file for
//! them agree on.

use serde::{Deserialize, Serialize};

/// The word of our program's command line that begins such a process; no verb for people.
/// File and sheet follow, and the answer is JSON: a `Result<Sheet, UnreadableTable>`.
pub const VERB: &str = "read-table";
/// The same for the process that writes numbers of rows. The file follows; [`NumbersToWrite`]
/// is its input as JSON, and the answer is a `Result<Option<PathBuf>, UnreadableTable>`: the
/// backup.
pub const NUMBER_VERB: &str = "number-table";
/// The same for the process that makes a workbook. The file follows; its input is as in
/// [`crate::book`], and the answer is a `Result<(), UnreadableTable>`.
pub const BOOK_VERB: &str = "write-book";
/// The address space of the process.
pub const ADDRESS_SPACE_MAX: u64 = 768 << 20;
/// Its time on a processor.
pub const CPU_SECONDS_MAX: u64 = 20;
/// The longest answer.
pub const ANSWER_BYTES_MAX: u64 = 256 << 20;

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
