//! A workbook that is to be made. The process that makes it reads [`NewBook`] as a line of JSON,
//! then each row of each sheet as a line: cells are many, and none is kept in memory there.

use serde::{Deserialize, Serialize};

use crate::CellValue;

/// Characters of a text in a cell, in UTF-16 code units.
pub const CELL_TEXT_MAX: usize = 32_767;

/// A cell; `None` is an empty one.
pub type BookCell = Option<CellValue>;

/// A whole workbook without its rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NewBook {
    /// Its sheets, in order.
    pub sheets: Vec<NewSheet>,
    /// Charts, on a sheet of their own behind the others. `.ods` has none.
    pub charts: Vec<NewChart>,
}

/// One sheet: a header of one row, and rows below it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NewSheet {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<NewColumn>,
    /// Whether its header has buttons that filter.
    pub has_filter: bool,
    /// How many rows are below the header, each with a cell per column.
    pub row_count: u32,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewColumn {
    /// Its name.
    pub title: String,
    /// Its width in characters.
    pub width: u16,
    /// The look of its numbers.
    pub format: NumberFormat,
    /// Whether its cells are numbers or moments, and so at the right.
    pub is_figures: bool,
}

/// The look of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NumberFormat {
    /// As the spreadsheet program does by itself.
    General,
    /// Digits behind the point.
    Decimals(u8),
    /// One digit, three digits behind the point, and the power of ten.
    Scientific,
    /// Date and time of day.
    Moment,
}

/// One chart over rows of one sheet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewChart {
    /// Above it.
    pub title: String,
    /// Below it.
    pub x_title: String,
    /// Beside it.
    pub y_title: String,
    /// The position of its sheet in the book.
    pub sheet: usize,
    /// Curves or points.
    pub kind: ChartKind,
    /// What it shows.
    pub series: Vec<ChartSeries>,
}

/// The kind of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChartKind {
    /// A curve per series.
    Lines,
    /// A point per row with a bar for its deviation.
    Points {
        /// The column of the deviations, from zero.
        deviation: u16,
    },
}

/// Rows of a sheet as a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChartSeries {
    /// Its name.
    pub name: String,
    /// The column of x, from zero.
    pub x: u16,
    /// The column of y, from zero.
    pub y: u16,
    /// First and last row below the header, from zero.
    pub rows: (u32, u32),
}
