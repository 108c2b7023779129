//! The process that writes numbers of rows into one file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nero_table::child::NumbersToWrite;
use nero_table::{CellValue, Sheet, SheetRow, UnreadableTable, cell_name};
use nero_workbook::{BookFile, BookFormat, CellChange, CellOutcome, TargetSheet};

use crate::child;

/// Writes the numbers from its input into the file that the command line names behind its
/// verb, and prints the answer.
pub fn number(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    child::write(arguments, write)
}

/// Writes them; returns the backup.
///
/// # Errors
/// Why the file is as it was.
fn write(path: &Path, wanted: &NumbersToWrite) -> Result<Option<PathBuf>, UnreadableTable> {
    let format = writable(path)?;
    let file = BookFile::read(path).map_err(|error| child::of_file(&error))?;
    if blake3::hash(file.bytes()).to_hex().as_str() != wanted.digest {
        return Err(UnreadableTable::file("it was changed meanwhile", ""));
    }
    let sheet = wanted.sheet.as_deref();
    if wanted.header.is_some() {
        let sorted = nero_workbook::has_sorted_area(format, file.bytes(), sheet);
        if sorted.map_err(|error| of_book(&error))? {
            return Err(by_hand(
                "the sheet has a table or a filter, and a column beside that is not sorted with it",
            ));
        }
    }
    let cells = cells(wanted);
    let first = wanted
        .header
        .as_ref()
        .map_or(wanted.first_row, |(row, _)| *row);
    let target = TargetSheet {
        name: sheet,
        first_row: first - 1,
    };
    let edited = nero_workbook::edit(format, file.bytes(), target, &cells);
    let edited = edited.map_err(|error| of_book(&error))?;
    let left = edited.outcomes.iter().zip(&cells);
    let mut left = left.filter(|(outcome, _)| matches!(outcome, CellOutcome::Left(_)));
    if let Some((_, cell)) = left.next() {
        let cell = cell_name(sheet.unwrap_or(""), cell.row + 1, cell.column + 1);
        return Err(by_hand(&format!("{cell} is not free")));
    }
    let Some(bytes) = edited.bytes else {
        return Ok(None);
    };
    check(path, wanted, file.bytes(), &bytes)?;
    // All of a text is checked above.
    let has_backup = !matches!(format, BookFormat::Csv | BookFormat::Tsv);
    let replaced = file.replace(&bytes, has_backup);
    Ok(replaced.map_err(|error| child::of_file(&error))?.backup)
}

/// The format of a file that neronet may write.
pub(crate) fn writable(path: &Path) -> Result<BookFormat, UnreadableTable> {
    let format = BookFormat::of(path).map_err(|error| of_book(&error))?;
    let format = format.ok_or_else(|| {
        let why = "it is no workbook that neronet writes";
        UnreadableTable::file(why, "save it as .xlsx or .ods, and `neroman add` that")
    })?;
    let is_read_only = std::fs::metadata(path).is_ok_and(|meta| meta.permissions().readonly());
    if is_read_only {
        Err(UnreadableTable::file(
            "it is read-only",
            format!("`chmod u+w {}`", path.display()),
        ))
    } else {
        Ok(format)
    }
}

fn cells(wanted: &NumbersToWrite) -> Vec<CellChange> {
    let cell = |row: u32, value: CellValue| CellChange {
        row: row - 1,
        column: wanted.column - 1,
        value: Some(value),
        ours: Vec::new(),
    };
    let header = wanted.header.iter();
    let header = header.map(|(row, name)| cell(*row, CellValue::Text(name.clone())));
    let numbers = wanted.numbers.iter();
    let numbers = numbers.map(|(row, number)| cell(*row, CellValue::Number(number.to_string())));
    header.chain(numbers).collect()
}

/// Reads both states: all cells are the same, and the numbers are where they belong.
fn check(
    path: &Path,
    wanted: &NumbersToWrite,
    before: &[u8],
    after: &[u8],
) -> Result<(), UnreadableTable> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let ending = ending.unwrap_or("").to_ascii_lowercase();
    let mut expected = crate::read(before, &ending, wanted.sheet.as_deref())?;
    let found = crate::read(after, &ending, wanted.sheet.as_deref())?;
    if let Some((row, name)) = &wanted.header {
        put(
            &mut expected,
            *row,
            wanted.column,
            CellValue::Text(name.clone()),
        );
    }
    for (row, number) in &wanted.numbers {
        let number = CellValue::Number(number.to_string());
        put(&mut expected, *row, wanted.column, number);
    }
    if expected.rows == found.rows {
        return Ok(());
    }
    // A formula that may read the new cells has no value until a program computes it.
    Err(by_hand("a formula of the sheet may depend on a new column"))
}

fn put(sheet: &mut Sheet, number: u32, column: u32, value: CellValue) {
    let rows = &mut sheet.rows;
    let at = match rows.binary_search_by_key(&number, |row| row.number) {
        Ok(at) => at,
        Err(at) => {
            let cells = Vec::new();
            rows.insert(at, SheetRow { number, cells });
            at
        }
    };
    let cells = &mut rows[at].cells;
    match cells.binary_search_by_key(&column, |(at, _)| *at) {
        Ok(at) => cells[at].1 = value,
        Err(at) => cells.insert(at, (column, value)),
    }
}

fn by_hand(why: &str) -> UnreadableTable {
    UnreadableTable::file(why, "insert a column `nero` yourself")
}

pub(crate) fn of_book(error: &nero_workbook::WorkbookError) -> UnreadableTable {
    let hint = error.hint();
    UnreadableTable::file(child::with_cause(error), hint.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn wanted(bytes: &[u8], column: u32) -> NumbersToWrite {
        NumbersToWrite {
            sheet: None,
            digest: blake3::hash(bytes).to_hex().to_string(),
            column,
            header: Some((1, "nero".to_owned())),
            first_row: 2,
            numbers: vec![(2, 7), (3, 8)],
        }
    }

    fn refused(path: &Path, wanted: &NumbersToWrite) -> String {
        let before = fs::read(path).unwrap();
        let why = match write(path, wanted) {
            Err(UnreadableTable::File { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(fs::read(path).unwrap(), before);
        let folder = fs::read_dir(path.parent().unwrap()).unwrap();
        assert_eq!(folder.count(), 1);
        why
    }

    #[test]
    fn numbers_stand_behind_the_rows_and_no_other_byte_differs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.csv");
        let text = "lr;note\r\n0,1;\"a;b\"\r\n0,2;\r\n";
        fs::write(&path, text).unwrap();
        assert_eq!(write(&path, &wanted(text.as_bytes(), 3)), Ok(None));
        let written = fs::read_to_string(&path).unwrap();
        assert_eq!(written, "lr;note;nero\r\n0,1;\"a;b\";7\r\n0,2;;8\r\n");
    }

    #[test]
    fn a_file_that_is_not_ours_to_write_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.csv");
        let text = "lr,n\n0.1,2\n0.2,2\n";
        fs::write(&path, text).unwrap();
        let other = wanted(b"other", 3);
        assert_eq!(refused(&path, &other), "it was changed meanwhile");
        let taken = wanted(text.as_bytes(), 2);
        assert_eq!(refused(&path, &taken), "B1 is not free");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        let own = wanted(text.as_bytes(), 3);
        assert_eq!(refused(&path, &own), "it is read-only");
    }

    #[test]
    fn old_workbooks_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.xls");
        fs::write(&path, "").unwrap();
        assert_eq!(
            refused(&path, &wanted(b"", 3)),
            ".xls is read and never written"
        );
    }
}
