//! The process that writes results into the cells of one file.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use nero_table::child::{
    CellFound, CellsAnswer, CellsFound, CellsToWrite, FileTimes, OpenElsewhere,
};
use nero_table::{CellValue, Header, Sheet, UnreadableTable, cell_name};
use nero_workbook::{
    BookFile, BookStamp, CellChange, CellObstacle, CellOutcome, FileError, Lock, TargetSheet,
    lock_of,
};

use crate::child;
use crate::child::of_file;
use crate::number::{of_book, writable};

/// Tells what would become of the cells from its input in the file that the command line names
/// behind its verb, or writes them, and prints the answer.
pub fn write_cells(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    child::write(arguments, write)
}

/// Where the wanted cells are.
struct Places {
    /// Places in the sheet, from one, by row and cell of what was asked for; else why a cell has
    /// none.
    cells: Vec<Vec<Result<(u32, u32), CellFound>>>,
    /// The first row below the header, from 0.
    first_row: u32,
}

fn write(path: &Path, wanted: &CellsToWrite) -> Result<CellsAnswer, UnreadableTable> {
    let format = writable(path)?;
    if let Some(lock) = lock_of(path) {
        return Ok(CellsAnswer::Open(open(lock)));
    }
    let file = match BookFile::read(path) {
        Err(FileError::Changed { .. }) => return Ok(CellsAnswer::Busy),
        read => read.map_err(|error| of_file(&error))?,
    };
    let digest = blake3::hash(file.bytes()).to_hex().to_string();
    let order = wanted.order.as_ref();
    if order.is_some_and(|order| order.digest != digest) {
        return Ok(CellsAnswer::Busy);
    }
    let ending = path.extension().and_then(|ending| ending.to_str());
    let ending = ending.unwrap_or("").to_ascii_lowercase();
    let name = wanted.sheet.as_deref();
    let sheet = crate::read(file.bytes(), &ending, name)?;
    let places = places(&sheet, wanted)?;
    let asked = || wanted.rows.iter().flat_map(|row| &row.cells);
    let placed = asked().zip(places.cells.iter().flatten());
    let changes: Vec<CellChange> = placed
        .filter_map(|(cell, place)| {
            let (row, column) = *place.as_ref().ok()?;
            Some(CellChange {
                row: row - 1,
                column: column - 1,
                value: cell.value.clone(),
                ours: cell.ours.clone(),
            })
        })
        .collect();
    let target = TargetSheet {
        name,
        first_row: places.first_row,
    };
    let edited = nero_workbook::edit(format, file.bytes(), target, &changes);
    let edited = edited.map_err(|error| of_book(&error))?;
    let mut written = None;
    if let (Some(order), Some(bytes)) = (order, &edited.bytes) {
        let after = crate::read(bytes, &ending, name)?;
        let ours = places.cells.iter().flatten().flatten();
        let ours: HashSet<(u32, u32)> = ours.copied().collect();
        if !is_same_beside(&sheet, &after, &ours) {
            let why = "a change would reach other cells; please report this mistake of neroman";
            return Err(UnreadableTable::file(why, ""));
        }
        written = match file.replace(bytes, order.has_backup) {
            Ok(replaced) => Some(times(replaced.stamp)),
            Err(FileError::Open { lock, .. }) => return Ok(CellsAnswer::Open(open(lock))),
            Err(FileError::Changed { .. } | FileError::Busy { .. }) => {
                return Ok(CellsAnswer::Busy);
            }
            Err(error) => return Err(of_file(&error)),
        };
    }
    let mut outcomes = edited.outcomes.into_iter();
    let found = |place: &Result<(u32, u32), CellFound>| match place {
        Ok((row, column)) => outcomes.next().map_or(CellFound::Absent, |outcome| {
            let cell = cell_name(name.unwrap_or(""), *row, *column).to_string();
            found(cell, outcome)
        }),
        Err(found) => found.clone(),
    };
    let mut flat = places.cells.iter().flatten().map(found);
    let cells = places.cells.iter();
    let cells = cells
        .map(|row| flat.by_ref().take(row.len()).collect())
        .collect();
    Ok(CellsAnswer::Cells(CellsFound {
        read: times(file.stamp()),
        digest,
        cells,
        written,
    }))
}

/// Finds the cells by the numbers of their rows and the headings of their columns.
fn places(sheet: &Sheet, wanted: &CellsToWrite) -> Result<Places, UnreadableTable> {
    let header =
        Header::read(sheet, wanted.header, Some(wanted.header_rows)).map_err(|mistakes| {
            let what = mistakes.into_iter().next().map(|one| one.what);
            UnreadableTable::file(what.unwrap_or_default(), "")
        })?;
    let column = |heading: &str| {
        let mut columns = header.columns.iter();
        let found = columns.find(|column| column.full() == heading);
        found.map(|column| column.number)
    };
    let Some(numbers) = column(&wanted.number) else {
        let why = format!(
            "it has no column `{}`, whose numbers lead to its rows",
            wanted.number
        );
        return Err(UnreadableTable::file(why, "`neroman add` it again"));
    };
    let columns: Vec<Option<u32>> = wanted.headings.iter().map(|name| column(name)).collect();
    let last = header.rows.last().copied().unwrap_or(0);
    let mut rows: HashMap<u64, Option<u32>> = HashMap::new();
    for row in sheet.rows.iter().filter(|row| row.number > last) {
        if let Some(number) = row.cell(numbers).and_then(CellValue::row_number) {
            // Which of two rows with one number is meant nobody knows.
            rows.entry(number)
                .and_modify(|row| *row = None)
                .or_insert(Some(row.number));
        }
    }
    let never = |cell: String, why: &str| {
        let why = why.to_owned();
        Err(CellFound::Never { cell, why })
    };
    let cells = wanted.rows.iter().map(|row| {
        let at = rows.get(&row.number).copied();
        let place = |heading: usize| match (at, columns.get(heading).copied().flatten()) {
            (None, _) => Err(CellFound::Absent),
            (Some(None), _) => never(format!("number {}", row.number), "in two rows"),
            (Some(Some(_)), None) => {
                let heading = wanted.headings.get(heading).map_or("", String::as_str);
                never(format!("column `{heading}`"), "no longer there")
            }
            (Some(Some(row)), Some(column)) => Ok((row, column)),
        };
        let cells = row.cells.iter();
        cells.map(|cell| place(cell.heading)).collect()
    });
    Ok(Places {
        cells: cells.collect(),
        first_row: last,
    })
}

fn found(cell: String, outcome: CellOutcome) -> CellFound {
    let why = match outcome {
        CellOutcome::Written => return CellFound::Written,
        CellOutcome::Same => return CellFound::Same,
        CellOutcome::Left(CellObstacle::Owner { shows }) => {
            return CellFound::Foreign { cell, shows };
        }
        CellOutcome::Left(CellObstacle::Formula) => "a formula",
        CellOutcome::Left(CellObstacle::Merged) => "under a merged cell",
        CellOutcome::Left(CellObstacle::Header) => "part of a header or of totals",
        CellOutcome::Left(CellObstacle::Outside) => "outside of the sheet",
    };
    let why = why.to_owned();
    CellFound::Never { cell, why }
}

/// Whether all cells but ours read the same. A formula that depends on a written cell has no
/// value until a program computes it.
fn is_same_beside(before: &Sheet, after: &Sheet, ours: &HashSet<(u32, u32)>) -> bool {
    let others = |sheet: &Sheet| -> Vec<(u32, u32, CellValue)> {
        let rows = sheet.rows.iter();
        let cells = rows.flat_map(|row| {
            let cells = row.cells.iter();
            cells.map(|(column, cell)| (row.number, *column, cell.clone()))
        });
        cells
            .filter(|(row, column, _)| !ours.contains(&(*row, *column)))
            .collect()
    };
    let (before, after) = (others(before), others(after));
    before.len() == after.len()
        && before.iter().zip(&after).all(|(one, other)| {
            let is_same = one == other || other.2 == CellValue::Uncomputed;
            (one.0, one.1) == (other.0, other.1) && is_same
        })
}

fn open(lock: Lock) -> OpenElsewhere {
    let since = lock.since.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    OpenElsewhere {
        program: lock.program.to_string(),
        lock: lock.path,
        owner: lock.owner,
        host: lock.host,
        since_ms: since.and_then(|since| i64::try_from(since.as_millis()).ok()),
        is_left_behind: lock.is_left_behind,
    }
}

fn times(stamp: BookStamp) -> FileTimes {
    FileTimes {
        modified_ns: stamp.modified_ns,
        bytes: stamp.bytes,
        inode: stamp.inode,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nero_table::child::{CellToWrite, RowToWrite, WriteOrder};

    use super::*;

    fn text(text: &str) -> CellValue {
        CellValue::Text(text.to_owned())
    }

    /// State and loss of experiments, by number.
    fn wanted(rows: &[(u64, &str, &str)]) -> CellsToWrite {
        let row = |(number, state, loss): &(u64, &str, &str)| RowToWrite {
            number: *number,
            cells: vec![
                CellToWrite {
                    heading: 0,
                    value: Some(text(state)),
                    ours: vec![text("running")],
                },
                CellToWrite {
                    heading: 1,
                    value: Some(CellValue::Number((*loss).to_owned())),
                    ours: Vec::new(),
                },
            ],
        };
        CellsToWrite {
            sheet: None,
            header: None,
            header_rows: 1,
            number: "nr".to_owned(),
            headings: vec!["state".to_owned(), "loss".to_owned()],
            rows: rows.iter().map(row).collect(),
            order: None,
        }
    }

    fn found(path: &Path, wanted: &CellsToWrite) -> CellsFound {
        match write(path, wanted) {
            Ok(CellsAnswer::Cells(found)) => found,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rows_are_found_by_number_and_columns_by_heading_at_every_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.csv");
        let before = "loss;nr;note;state\n;7;\"a;b\";running\n0,5;3;;done\n";
        fs::write(&path, before).unwrap();
        let mut wanted = wanted(&[
            (3, "finished", "0.25"),
            (7, "finished", "0.75"),
            (9, "lost", "1"),
        ]);
        let told = found(&path, &wanted);
        let foreign = |cell: &str, shows: &str| CellFound::Foreign {
            cell: cell.to_owned(),
            shows: shows.to_owned(),
        };
        assert_eq!(
            told.cells,
            [
                vec![foreign("D3", "done"), foreign("A3", "0,5")],
                vec![CellFound::Written, CellFound::Written],
                vec![CellFound::Absent, CellFound::Absent],
            ]
        );
        assert_eq!(
            (told.written, fs::read_to_string(&path).unwrap()),
            (None, before.to_owned())
        );
        wanted.order = Some(WriteOrder {
            digest: told.digest,
            has_backup: true,
        });
        let done = found(&path, &wanted);
        let after = "loss;nr;note;state\n0,75;7;\"a;b\";finished\n0,5;3;;done\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), after);
        let backup = folder.path().join("plan.before-neronet.csv");
        assert_eq!(fs::read_to_string(backup).unwrap(), before);
        // The next look knows the file as the one that was written.
        wanted.order = None;
        let again = found(&path, &wanted);
        assert_eq!(Some(again.read), done.written);
        assert_eq!(again.cells[1], [CellFound::Same, CellFound::Same]);
    }

    #[test]
    fn a_file_that_was_saved_after_the_asking_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.csv");
        fs::write(&path, "nr,state,loss\n1,,\n").unwrap();
        let mut wanted = wanted(&[(1, "finished", "0.25")]);
        wanted.order = Some(WriteOrder {
            digest: found(&path, &wanted).digest,
            has_backup: false,
        });
        let hers = "nr,state,loss\n2,,\n1,,\n";
        fs::write(&path, hers).unwrap();
        assert_eq!(write(&path, &wanted), Ok(CellsAnswer::Busy));
        let lock = folder.path().join(".~lock.plan.csv#");
        fs::write(&lock, ",ada,far.example.org,24.11.2026 06:00,file:///x;").unwrap();
        match write(&path, &wanted) {
            Ok(CellsAnswer::Open(open)) => {
                assert_eq!((open.owner.as_deref(), open.lock), (Some("ada"), lock));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), hers);
    }

    #[test]
    fn two_rows_with_one_number_and_a_missing_column_get_nothing_and_tell_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.csv");
        fs::write(&path, "nr,state\n1,\n1,\n2,\n").unwrap();
        let told = found(
            &path,
            &wanted(&[(1, "finished", "1"), (2, "finished", "1")]),
        );
        let never = |cell: &str, why: &str| CellFound::Never {
            cell: cell.to_owned(),
            why: why.to_owned(),
        };
        let twice = never("number 1", "in two rows");
        assert_eq!(told.cells[0], [twice.clone(), twice]);
        let gone = never("column `loss`", "no longer there");
        assert_eq!(told.cells[1], [CellFound::Written, gone]);
        fs::write(&path, "number,state\n1,\n").unwrap();
        assert!(write(&path, &wanted(&[])).is_err());
    }
}
