//! Cells.

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
