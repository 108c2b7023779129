//! Puts cells into rows, within bounds.

use std::collections::{BTreeMap, BTreeSet};

use nero_table::book::BookCell;
use nero_table::{
    CELLS_MAX, COLUMNS_MAX, CellValue, FILLED_ROWS_MAX, MergedRows, ROWS_MAX, Sheet, SheetRow,
    TEXT_BYTES_MAX, UnreadableTable,
};

use crate::dependents::Formula;
use crate::formula::Reads;
use crate::place::Rect;

/// More merged areas are in no plan.
const MERGED_MAX: usize = 100_000;

/// The cell as a sheet has it: a text without the blanks at its ends. Blanks alone and `#N/A`, a
/// value that is not there, are no cell.
pub(crate) fn trimmed(cell: CellValue) -> BookCell {
    match cell {
        CellValue::Text(text) => {
            let is_blank = |c: char| c.is_whitespace() || c == '\u{feff}';
            match text.trim_matches(is_blank) {
                "" => None,
                inner if inner.len() == text.len() => Some(CellValue::Text(text)),
                inner => Some(CellValue::Text(inner.to_owned())),
            }
        }
        CellValue::Error(error) if error == "#N/A" => None,
        cell => Some(cell),
    }
}

/// Why a sheet is not read that has a cell where none can be.
pub(crate) fn outside() -> UnreadableTable {
    UnreadableTable::file(
        "has a cell outside of any sheet",
        "open it in a spreadsheet program and save it anew",
    )
}

/// A sheet that is being read.
#[derive(Debug, Default)]
pub(crate) struct SheetBuilder {
    pub(crate) sheet: Sheet,
    cells: usize,
    text_bytes: usize,
    /// Whether rows came in another order than their numbers.
    is_mixed: bool,
}

impl SheetBuilder {
    pub(crate) fn new(name: Option<String>, sheets: Vec<String>) -> Self {
        Self {
            sheet: Sheet {
                name,
                sheets,
                ..Sheet::default()
            },
            ..Self::default()
        }
    }

    /// Notes merged cells.
    pub(crate) fn merge(&mut self, area: &Rect) {
        if area.rows.0 < area.rows.1 && self.sheet.merged.len() < MERGED_MAX {
            self.sheet.merged.push(MergedRows {
                first: area.rows.0 + 1,
                last: area.rows.1 + 1,
                column: area.columns.0 + 1,
            });
        }
    }

    /// Notes which columns of the sheet its formulas name, by the columns that they stand in.
    pub(crate) fn formulas(&mut self, formulas: &[Formula]) {
        let mut columns: BTreeMap<u32, BTreeSet<(u32, u32)>> = BTreeMap::new();
        for formula in formulas {
            let Reads::Cells(references) = &formula.reads else {
                continue;
            };
            let own = references.iter().filter(|one| one.sheet == formula.sheet);
            let own = own.map(|one| one.rect().columns);
            let own = own.map(|(first, last)| (first + 1, last + 1));
            let column = formula.shows.columns.0 + 1;
            columns.entry(column).or_default().extend(own);
        }
        let reads = columns.into_iter();
        let reads = reads.map(|(column, reads)| (column, reads.into_iter().collect()));
        self.sheet.reads = reads.collect();
    }

    /// Adds a cell, [`trimmed`]; row and column count from one.
    pub(crate) fn add(
        &mut self,
        row: u32,
        column: u32,
        cell: CellValue,
    ) -> Result<(), UnreadableTable> {
        let Some(cell) = trimmed(cell) else {
            return Ok(());
        };
        if row == 0 || row > ROWS_MAX || column == 0 || column > COLUMNS_MAX {
            return Err(outside());
        }
        self.cells += 1;
        self.text_bytes += cell.text().len();
        let rows = &mut self.sheet.rows;
        let last = rows.last().map(|last| last.number);
        if last != Some(row) {
            self.is_mixed |= last > Some(row);
            rows.push(SheetRow {
                number: row,
                cells: Vec::new(),
            });
        }
        if rows.len() > FILLED_ROWS_MAX
            || self.cells > CELLS_MAX
            || self.text_bytes > TEXT_BYTES_MAX
        {
            let what = if rows.len() > FILLED_ROWS_MAX {
                format!("has more than {FILLED_ROWS_MAX} rows with a content")
            } else {
                format!(
                    "has more than {CELLS_MAX} cells with a content, or more than {} MiB of text",
                    TEXT_BYTES_MAX >> 20
                )
            };
            return Err(UnreadableTable::file(
                what,
                "one table makes at most 100000 experiments: take several, or ranges in a YAML file",
            ));
        }
        if let Some(last) = rows.last_mut() {
            last.cells.push((column, cell));
        }
        Ok(())
    }

    /// The sheet with rows and cells in order. Of a cell that is given twice the last
    /// counts, as in spreadsheet programs.
    pub(crate) fn finish(mut self) -> Sheet {
        if self.is_mixed {
            let rows = &mut self.sheet.rows;
            rows.sort_by_key(|row| row.number);
            let mut whole: Vec<SheetRow> = Vec::with_capacity(rows.len());
            for row in rows.drain(..) {
                match whole.last_mut().filter(|last| last.number == row.number) {
                    Some(last) => last.cells.extend(row.cells),
                    None => whole.push(row),
                }
            }
            self.sheet.rows = whole;
        }
        for row in &mut self.sheet.rows {
            if !row.cells.is_sorted_by(|(a, _), (b, _)| a < b) {
                row.cells.reverse();
                row.cells.sort_by_key(|(column, _)| *column);
                row.cells.dedup_by_key(|(column, _)| *column);
            }
        }
        self.sheet
    }
}
