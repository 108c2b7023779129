//! A sheet of a spreadsheet as its cells, and the names of its columns.
//!
//! [`Sheet`] is what a reader of files answers: the cells that hold something, row by
//! row, with their types. [`Header`] finds the rows that name the columns, and which
//! group each column is in. [`book`] is a workbook that is to be made. Used by the reader of files (`nero-workbook`), which runs
//! in `neroman-office`, and by the reader of experiments.
//!
//! Never done here: files, formats of files, and what a column means.

pub mod book;
pub mod child;
pub mod columns;
mod header;
mod sheet;

pub use header::{Column, Header, HeaderMistake};
pub use sheet::{CellValue, MergedRows, Sheet, SheetRow, UnreadableTable, cell_name, column_name};

/// The last row of the largest sheet that any program makes.
pub const ROWS_MAX: u32 = 1 << 20;
/// Its last column.
pub const COLUMNS_MAX: u32 = 1 << 14;
/// Rows that hold something. More are no plan of experiments.
pub const FILLED_ROWS_MAX: usize = 100_100;
/// Cells that hold something.
pub const CELLS_MAX: usize = 3_000_000;
/// Bytes of all texts together.
pub const TEXT_BYTES_MAX: usize = 64 << 20;
