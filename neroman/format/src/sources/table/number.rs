//! The column `nero`, into which neronet writes the numbers of rows that have none.
//!
//! Its rows keep the names that they have without numbers: neither the writing of the
//! numbers nor an older copy of the file without them renames an experiment.

use std::collections::HashSet;

use nero_table::{COLUMNS_MAX, Header};

use super::rows::Table;
use crate::definition::Definition;

/// The header of the column.
pub const NUMBERS_HEADER: &str = "nero";

/// Where numbers of rows belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberColumn {
    /// The sheet; a text file has none.
    pub sheet: Option<String>,
    /// BLAKE3 of the file's bytes that the rows were read from, in hexadecimal.
    pub digest: String,
    /// The column, from one.
    pub column: u32,
    /// The row of its header, from one, where the column is not there yet.
    pub header_row: Option<u32>,
    /// The first row below the header.
    pub first_row: u32,
}

/// Whether this column of numbers is called `nero`.
pub(super) fn is_ours(header: &Header, column: u32) -> bool {
    let mut columns = header.columns.iter();
    columns.any(|one| one.number == column && is_called_so(one))
}

fn is_called_so(column: &nero_table::Column) -> bool {
    column.group.is_none() && column.name.eq_ignore_ascii_case(NUMBERS_HEADER)
}

/// The column with the numbers, else the first behind the others.
///
/// # Errors
/// Why no number is written, and what to do.
pub(super) fn column(
    table: &Table<'_>,
    number: Option<u32>,
    definitions: &[Definition],
) -> Result<NumberColumn, String> {
    let by_hand = "insert a column `nero` yourself";
    let mut rows = HashSet::new();
    if !definitions.iter().all(|one| rows.insert(one.place.line)) {
        return Err("a row makes several experiments; write each into a row of its own".to_owned());
    }
    let (sheet, header) = (table.sheet, table.header);
    let first_row = header.rows.last().map_or(1, |row| row + 1);
    let own = |column, header_row| NumberColumn {
        sheet: sheet.name.clone(),
        digest: sheet.digest.clone(),
        column,
        header_row,
        first_row,
    };
    if let Some(column) = number {
        return Ok(own(column, None));
    }
    if table.layout.names_numbers() {
        return Err("`table: {number: …}` names another column; number its rows".to_owned());
    }
    if header.columns.iter().any(is_called_so) {
        return Err("the column `nero` holds something else; rename it".to_owned());
    }
    let columns = &header.columns;
    let (Some(first), Some(last)) = (columns.first(), columns.last()) else {
        return Err(by_hand.to_owned());
    };
    let free = last.number + 1;
    let is_whole = (last.number - first.number) as usize + 1 == columns.len();
    let is_free = sheet.rows.iter().all(|row| row.cell(free).is_none());
    // A program sorts the columns that touch each other, and no further ones.
    if !is_whole || !is_free || free > COLUMNS_MAX {
        return Err(format!(
            "a column without a name stands between or behind the others, and one behind it \
             would not be sorted with the rows; {by_hand}"
        ));
    }
    // In the first row of the header: a name below a group would be in the group.
    Ok(own(free, header.rows.first().copied()))
}
