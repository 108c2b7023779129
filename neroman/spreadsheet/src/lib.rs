//! The processes of `neroman-office` that read, number, fill and make files of spreadsheet
//! programs.
//!
//! Files come from anywhere, and a small one can unfold into gigabytes. So [`answer`] is
//! a process of its own, of `neroman-office`, which limits its memory and its time
//! before it looks at the file; the daemon reads its answer and nothing else.
//!
//! [`number()`] is the process that writes numbers of rows into such a file, [`write_cells`]
//! the one that writes results, and [`write_book`] the one that makes a workbook of results,
//! with the same limits, by `nero-workbook`.
//!
//! Never done here: computing formulas, and what the cells mean.

mod book;
mod cells;
mod child;
mod number;

pub use book::{make_book, write_book};
pub use cells::write_cells;
pub use child::answer;
pub use nero_workbook::read;
pub use number::number;

/// No honest table is larger.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
