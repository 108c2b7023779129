//! Cells.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One sheet of a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sheet {
    /// Its name; a text file has none.
    pub name: Option<String>,
    /// The names of all sheets of the file.
    pub sheets: Vec<String>,
    /// BLAKE3 of the file's bytes, in hexadecimal.
    pub digest: String,
    /// A number of a text file as it is written with a decimal comma, and as it was read.
    pub decimal_comma: Option<(String, String)>,
    /// The rows that hold something, by rising number.
    pub rows: Vec<SheetRow>,
    /// Areas whose first cell is seen in all their rows.
    #[serde(default)]
    pub merged: Vec<MergedRows>,
    /// For each column with formulas the columns that these name, first and last; from one.
    #[serde(default)]
    pub reads: Vec<(u32, Vec<(u32, u32)>)>,
}

/// Cells of one column that are merged over several rows. All count from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedRows {
    /// The row of the cell that has the content.
    pub first: u32,
    /// The last row.
    pub last: u32,
    /// The column.
    pub column: u32,
}

impl Sheet {
    /// Gives the rows below the header what merged cells show in them. A row without a cell of
    /// its own stays none.
    pub fn fill_merged(&mut self, header: u32) {
        for area in self.merged.iter().filter(|area| area.first > header) {
            let at = |number| self.rows.partition_point(|row| row.number < number);
            let (first, end) = (at(area.first), at(area.last.saturating_add(1)));
            let Some((own, others)) = self.rows[first..end].split_first_mut() else {
                continue;
            };
            let value = own.cell(area.column).filter(|_| own.number == area.first);
            let Some(value) = value.cloned() else {
                continue;
            };
            for row in others {
                let cells = &mut row.cells;
                if let Err(at) = cells.binary_search_by_key(&area.column, |(column, _)| *column) {
                    cells.insert(at, (area.column, value.clone()));
                }
            }
        }
    }

    /// The columns whose formulas follow from these columns, over any number of steps.
    pub fn following(&self, columns: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
        let given: BTreeSet<u32> = columns.into_iter().collect();
        let mut found = given.clone();
        loop {
            let before = found.len();
            for (column, reads) in &self.reads {
                let follows = |(first, last): &(u32, u32)| {
                    found.range(*first..=*last).any(|one| one != column)
                };
                if reads.iter().any(follows) {
                    found.insert(*column);
                }
            }
            if found.len() == before {
                return &found - &given;
            }
        }
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SheetRow {
    /// From one.
    pub number: u32,
    /// The cells that hold something by rising column, from one.
    pub cells: Vec<(u32, CellValue)>,
}

impl SheetRow {
    /// The cell in a column.
    pub fn cell(&self, column: u32) -> Option<&CellValue> {
        let found = self.cells.binary_search_by_key(&column, |(at, _)| *at);
        found.ok().map(|index| &self.cells[index].1)
    }
}

/// What a cell holds. Texts have no blanks at either end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CellValue {
    /// Text, never empty.
    #[serde(rename = "t")]
    Text(String),
    /// A number in its shortest form.
    #[serde(rename = "n")]
    Number(String),
    /// A truth.
    #[serde(rename = "b")]
    Bool(bool),
    /// A date, a time of day or both, as ISO 8601 writes them; or a duration, `26:03:00`.
    #[serde(rename = "d")]
    Date(String),
    /// An error such as `#REF!`; never `#N/A`, which is an empty cell.
    #[serde(rename = "e")]
    Error(String),
    /// A formula whose value the file does not have.
    #[serde(rename = "f")]
    Uncomputed,
}

impl CellValue {
    /// The number of an experiment, if it holds one.
    pub fn row_number(&self) -> Option<u64> {
        let text = match self {
            Self::Number(text) | Self::Text(text) => text,
            Self::Bool(_) | Self::Date(_) | Self::Error(_) | Self::Uncomputed => return None,
        };
        let whole = text.strip_suffix(".0").unwrap_or(text);
        whole.parse().ok().filter(|number| *number > 0)
    }

    /// What it holds as text.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(text) | Self::Date(text) | Self::Error(text) => text,
            Self::Bool(true) => "true",
            Self::Bool(false) => "false",
            Self::Uncomputed => "",
        }
    }
}

/// Why a file has no sheet for us.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnreadableTable {
    /// The file as a whole.
    File {
        /// What is wrong, without the file's name: `is encrypted`.
        why: String,
        /// What to do.
        hint: String,
    },
    /// One cell or row of it.
    At {
        /// The sheet; none in a text file.
        sheet: Option<String>,
        /// Row, from one.
        row: u32,
        /// Column, from one.
        column: u32,
        /// What is wrong.
        why: String,
        /// What to do.
        hint: String,
    },
    /// It has no sheet of the wanted name.
    NoSheet {
        /// The names of its sheets.
        sheets: Vec<String>,
    },
}

impl UnreadableTable {
    /// What is wrong.
    pub fn why(&self) -> &str {
        match self {
            Self::File { why, .. } | Self::At { why, .. } => why,
            Self::NoSheet { .. } => "there is no such sheet",
        }
    }

    /// A mistake of the whole file.
    pub fn file(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::File {
            why: why.into(),
            hint: hint.into(),
        }
    }
}

/// `C` of the third column.
pub fn column_name(column: u32) -> String {
    let mut letters = Vec::new();
    let mut rest = column;
    while rest > 0 {
        rest -= 1;
        letters.push(char::from(b'A' + (rest % 26) as u8));
        rest /= 26;
    }
    letters.iter().rev().collect()
}

/// `Sheet!C7`; quoted as spreadsheets do where the name is no plain word.
pub fn cell_name(sheet: &str, row: u32, column: u32) -> impl fmt::Display {
    let cell = format!("{}{row}", column_name(column));
    let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    if sheet.is_empty() {
        cell
    } else if sheet.chars().all(plain) {
        format!("{sheet}!{cell}")
    } else {
        format!("'{}'!{cell}", sheet.replace('\'', "''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_cells_are_seen_in_all_their_rows_that_hold_something() {
        let text = |text: &str| CellValue::Text(text.to_owned());
        let row = |number, cells: &[(u32, &str)]| SheetRow {
            number,
            cells: cells.iter().map(|(at, one)| (*at, text(one))).collect(),
        };
        let area = |first, last, column| MergedRows {
            first,
            last,
            column,
        };
        let mut sheet = Sheet {
            rows: vec![
                row(1, &[(1, "Group"), (2, "n")]),
                row(2, &[(2, "m")]),
                row(3, &[(1, "a"), (2, "x")]),
                row(4, &[(2, "y")]),
                row(7, &[(2, "z")]),
            ],
            merged: vec![area(1, 2, 1), area(3, 6, 1), area(3, 7, 9)],
            ..Sheet::default()
        };
        sheet.fill_merged(2);
        let first: Vec<Option<&str>> = sheet
            .rows
            .iter()
            .map(|row| row.cell(1).map(CellValue::text))
            .collect();
        assert_eq!(first, [Some("Group"), None, Some("a"), Some("a"), None]);
    }

    #[test]
    fn columns_follow_from_others_over_several_steps() {
        let sheet = Sheet {
            reads: vec![
                (5, vec![(4, 4)]),
                (6, vec![(1, 2), (5, 5)]),
                (7, vec![(2, 3)]),
            ],
            ..Sheet::default()
        };
        assert_eq!(sheet.following([4]), BTreeSet::from([5, 6]));
        assert!(sheet.following([]).is_empty());
    }

    #[test]
    fn places_have_the_names_of_spreadsheets() {
        let columns = [
            (1, "A"),
            (26, "Z"),
            (27, "AA"),
            (702, "ZZ"),
            (703, "AAA"),
            (16384, "XFD"),
        ];
        for (column, name) in columns {
            assert_eq!(column_name(column), name);
        }
        let name = |sheet: &str| cell_name(sheet, 7, 3).to_string();
        assert_eq!(name("Experiments"), "Experiments!C7");
        assert_eq!(name("Bob's runs"), "'Bob''s runs'!C7");
        assert_eq!(name(""), "C7");
    }
}
