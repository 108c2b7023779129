//! Reads a sheet from a file of a spreadsheet program: `.xlsx`, `.xlsm`, `.xlsb`, `.xls`,
//! `.ods`, and text with commas, semicolons or tabs.
//!
//! Files come from anywhere, and a small one can unfold into gigabytes. So [`answer`] is
//! a process of its own, of `neroman-office`, which limits its memory and its time
//! before it looks at the file; the daemon reads its answer and nothing else. Its first
//! bytes show what the file is; its name only decides what a person is told about it.
//!
//! [`number()`] is the process that writes numbers of rows into such a file, [`write_cells`]
//! the one that writes results, and [`write_book`] the one that makes a workbook of results,
//! with the same limits, by `nero-workbook`.
//!
//! Never done here: computing formulas, and what the cells mean.

mod book;
mod cells;
mod child;
mod csv;
mod gather;
mod kind;
mod number;
mod ods;
mod package;
mod value;
mod workbook;

use nero_table::{Sheet, UnreadableTable};

pub use book::write_book;
pub use cells::write_cells;
pub use child::answer;
pub use number::number;

/// No honest table is larger.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads a sheet from the bytes of a file: the one of this name, else the first that is
/// not hidden. `ending` is the file's, without the dot.
///
/// # Errors
/// Why there is none.
pub fn read(bytes: &[u8], ending: &str, sheet: Option<&str>) -> Result<Sheet, UnreadableTable> {
    let mut read = match kind::of(bytes, ending)? {
        kind::FileFormat::Text => csv::read(bytes, ending, sheet),
        kind::FileFormat::Ods => ods::read(bytes, sheet),
        kind::FileFormat::Xlsx => workbook::xlsx(bytes, sheet),
        kind::FileFormat::Xlsb => workbook::xlsb(bytes, sheet),
        kind::FileFormat::Xls => workbook::xls(bytes, sheet),
    }?;
    read.digest = blake3::hash(bytes).to_hex().to_string();
    Ok(read)
}
