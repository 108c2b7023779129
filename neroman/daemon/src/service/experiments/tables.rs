//! Has the file of a table read, or written into, by `neroman-office`: a small file can unfold into
//! gigabytes, and a parser can go astray.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use nero_child::{ChildError, Office};
use nero_table::child::{CELLS_VERB, CellsAnswer, CellsToWrite, NUMBER_VERB, NumbersToWrite, VERB};
use nero_table::{Sheet, UnreadableTable};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads a sheet of a file: the one of this name, else the first. Blocks.
pub(crate) fn read_sheet(path: &Path, sheet: Option<&str>) -> Result<Sheet, UnreadableTable> {
    let words = [Some(path.as_os_str()), sheet.map(OsStr::new)];
    ask(VERB, words.into_iter().flatten(), &())
}

/// Writes numbers of rows into a file; returns the backup. Blocks.
///
/// # Errors
/// Why the file is as it was.
pub(crate) fn write_numbers(
    path: &Path,
    numbers: &NumbersToWrite,
) -> Result<Option<PathBuf>, UnreadableTable> {
    ask(NUMBER_VERB, [path], numbers)
}

/// Has a process tell what would become of cells of a file, or write them. Blocks.
///
/// # Errors
/// Why the file is as it was.
pub(crate) fn write_cells(
    path: &Path,
    cells: &CellsToWrite,
) -> Result<CellsAnswer, UnreadableTable> {
    ask(CELLS_VERB, [path], cells)
}

fn ask<T: DeserializeOwned>(
    verb: &str,
    words: impl IntoIterator<Item = impl AsRef<OsStr>>,
    input: &impl Serialize,
) -> Result<T, UnreadableTable> {
    let input = nero_child::json_line(input);
    let answer = Office::own().and_then(|office| {
        nero_child::blocking(async { office.ask_json(verb, words, [input]).await })
    });
    answer.unwrap_or_else(|error| Err(unreadable(&error)))
}

fn unreadable(error: &ChildError) -> UnreadableTable {
    let hint = match error {
        ChildError::Processor | ChildError::Memory => {
            "if the file is yours, copy the sheet with the plan into a new workbook"
        }
        ChildError::Damaged => "open it in a spreadsheet program and save it anew",
        ChildError::Absent(_) | ChildError::OtherBuild(_) | ChildError::Killed => "",
        ChildError::System { .. }
        | ChildError::Late { .. }
        | ChildError::Long { .. }
        | ChildError::Failed(_) => "try again",
    };
    UnreadableTable::file(format!("could not be read: {error}"), hint)
}
