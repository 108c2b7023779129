//! Where definitions come from: places, sources, and the columns of tables.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A place in a source: lines and columns count from one, columns in characters. In a
/// table they are the row and the column of a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The file as it is shown to the user.
    pub file: String,
    /// Line, from one.
    pub line: u32,
    /// Column in characters, from one.
    pub column: u32,
    /// The sheet of a cell, empty in a table of text; none in any other text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sheet: Option<Box<str>>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            file, line, column, ..
        } = self;
        match &self.sheet {
            Some(sheet) => write!(f, "{file}:{}", nero_table::cell_name(sheet, *line, *column)),
            None => write!(f, "{file}:{line}:{column}"),
        }
    }
}

/// What was named when the source was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// A folder: `neronet.yaml`, else `config.yaml`, is looked for at each reading.
    Folder,
    /// One file.
    File,
}

/// Where definitions come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The path to read again: the folder or the file, absolute.
    pub path: PathBuf,
    /// What that path is.
    pub kind: SourceKind,
    /// The file that was read, absolute.
    pub file: PathBuf,
    /// The folder that experiments of this source work from, absolute.
    pub folder: PathBuf,
    /// BLAKE3 of the file's bytes, in hexadecimal.
    pub digest: String,
    /// How a table is read; none: it is no table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableOptions>,
    /// The columns of a table that neronet writes; none: it writes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundTable>,
    /// How a file of rows is read; none: it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<RowsOptions>,
    /// BLAKE3 of the configuration's `defaults` as they were written, in hexadecimal; empty
    /// without any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub defaults: String,
    /// The files that `parent` named, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<ParentFile>,
}

impl Source {
    /// A file that is no table and no file of rows, without defaults and parents.
    pub fn new(kind: SourceKind, file: PathBuf, folder: PathBuf, digest: String) -> Self {
        let path = match kind {
            SourceKind::Folder => &folder,
            SourceKind::File => &file,
        };
        Self {
            path: path.clone(),
            kind,
            file,
            folder,
            digest,
            table: None,
            bound: None,
            rows: None,
            defaults: String::new(),
            parents: Vec::new(),
        }
    }
}

/// A file whose fields hold below those of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentFile {
    /// The file, absolute.
    pub file: PathBuf,
    /// BLAKE3 of its bytes, in hexadecimal.
    pub digest: String,
}

/// What was typed for a file of rows: one of both, or neither.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct RowsOptions {
    /// The command of each row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The block of the folder's description that each row is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
}

/// Columns of a table that show results and states of its rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundTable {
    /// The sheet; a text file has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sheet: Option<String>,
    /// The row in which its header begins, where the YAML file names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<u32>,
    /// How many rows its header has.
    pub header_rows: u8,
    /// The full name of the column with the numbers.
    pub number: String,
    /// The columns.
    pub columns: Vec<BoundColumn>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundColumn {
    /// Its full name.
    pub heading: String,
    /// Its content.
    pub shows: ShownValue,
    /// Texts of the owner that count as an empty cell from the first start on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<String>,
}

/// The content of a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownValue {
    /// The state of the experiment.
    State,
    /// The value of an expression, as it was written.
    Expression(String),
}

/// What was typed when a table was added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableOptions {
    /// The YAML file that is read with it, absolute; none: the one of the same name beside
    /// it, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with: Option<PathBuf>,
    /// Added to the numbers of its rows.
    pub offset: u64,
}
