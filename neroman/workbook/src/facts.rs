//! What readers of cells do not tell of a sheet.

use std::collections::{BTreeMap, BTreeSet};

use crate::dependents::Formula;
use crate::error::WorkbookError;
use crate::formula::Reads;
use crate::place::Rect;
use crate::{BookFormat, ods, xlsx};

/// Facts of one sheet. Rows and columns count from 0; both ends of a span are within.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SheetFacts {
    /// The merged areas: rows and columns.
    pub merged: Vec<((u32, u32), (u32, u32))>,
    /// Whole numbers that are longer than a floating-point number keeps, as they are written.
    pub whole: BTreeMap<(u32, u32), String>,
    /// For each column with formulas the columns of the sheet that these name.
    pub reads: BTreeMap<u32, BTreeSet<(u32, u32)>>,
}

impl SheetFacts {
    pub(crate) fn new(own: usize, merged: &[Rect], formulas: &[Formula]) -> Self {
        let mut facts = Self {
            merged: merged.iter().map(|one| (one.rows, one.columns)).collect(),
            ..Self::default()
        };
        for formula in formulas.iter().filter(|formula| formula.sheet == own) {
            let Reads::Cells(references) = &formula.reads else {
                continue;
            };
            let own = references.iter().filter(|one| one.sheet == own);
            let columns = own.map(|one| one.rect().columns);
            let column = formula.shows.columns.0;
            facts.reads.entry(column).or_default().extend(columns);
        }
        facts
    }
}

/// Reads the facts of a sheet; the merged areas and long numbers of `.xlsx` alone.
///
/// # Errors
/// When the file is none that we write, or is damaged.
pub fn sheet_facts(
    format: BookFormat,
    bytes: &[u8],
    sheet: Option<&str>,
) -> Result<SheetFacts, WorkbookError> {
    match format {
        BookFormat::Xlsx => xlsx::facts(bytes, sheet),
        BookFormat::Ods => ods::facts(bytes, sheet),
        BookFormat::Csv | BookFormat::Tsv => Ok(SheetFacts::default()),
    }
}
