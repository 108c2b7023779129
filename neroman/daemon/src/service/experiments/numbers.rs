//! Writes the numbers of experiments into the table that they come from, after `add`: a row
//! is known by its number from then on.
//!
//! The numbers are in the database before they are in the file; what a crash leaves out
//! the next `add` writes.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nero_format::{NUMBER_MAX, NUMBERS_HEADER, NumberColumn, TableOptions};
use nero_life::add::StampedSource;
use nero_life::change::Change;
use nero_life::state::State;
use nero_model::safe::Safe;
use nero_table::child::NumbersToWrite;
use nero_table::{UnreadableTable, column_name};

use super::sources::{self, SourceReadings, SourceToRead};
use super::tables;
use crate::service::{Man, blocking};
use nero_home::failure::Failure;

/// A table with rows that have no number.
#[derive(Debug)]
pub(crate) struct UnnumberedTable {
    path: PathBuf,
    /// Of the table and the YAML file beside it, as they were read.
    digest: String,
    column: NumberColumn,
    /// The rows.
    rows: HashSet<u32>,
}

/// The tables with rows that have no number.
pub(crate) fn unnumbered(reads: &[StampedSource]) -> Vec<UnnumberedTable> {
    let found = reads.iter().filter_map(|read| {
        let definitions = read.loaded.definitions.iter();
        let rows = definitions.filter(|one| one.number.is_none());
        Some(UnnumberedTable {
            path: read.loaded.source.file.clone(),
            digest: read.loaded.source.digest.clone(),
            column: read.loaded.numbers.clone()?,
            rows: rows.map(|one| one.place.line).collect(),
        })
    });
    found.filter(|one| !one.rows.is_empty()).collect()
}

/// Whether a file is the state of a workbook before neronet wrote into it.
pub(crate) fn is_backup(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    nero_format::is_table(path) && stem.is_some_and(|stem| stem.ends_with(".before-neronet"))
}

/// The numbers of the rows of a table.
///
/// # Errors
/// Why they cannot stand there.
fn to_write(state: &State, table: &UnnumberedTable) -> Result<NumbersToWrite, UnreadableTable> {
    let origin = state.origin_at(&table.path);
    // Another command may have read the rows anew meanwhile, in other places.
    let origin = origin.filter(|origin| origin.source.digest == table.digest);
    if origin.is_none() {
        return Err(UnreadableTable::file("it was changed meanwhile", ""));
    }
    let options = origin.and_then(|origin| origin.source.table.clone());
    let TableOptions { offset, .. } = options.unwrap_or_default();
    let experiments = origin.map(|origin| state.of_origin(origin.id));
    let own = experiments.into_iter().flatten().filter(|one| {
        !one.gone
            && one.definition.number.is_none()
            && table.rows.contains(&one.definition.place.line)
    });
    let numbers: BTreeMap<u32, u64> = own
        .map(|one| (one.definition.place.line, one.id.0))
        .collect();
    let mut written = Vec::new();
    for (row, id) in numbers {
        let number = id.checked_sub(offset).filter(|number| *number > 0);
        let Some(number) = number.filter(|_| id <= NUMBER_MAX) else {
            let hint = match offset {
                0 => "",
                _ => "add it with `--offset 0`",
            };
            return Err(UnreadableTable::file(
                format!("experiment {id} has no row number in a table with the offset {offset}"),
                hint,
            ));
        };
        written.push((row, number));
    }
    let column = &table.column;
    Ok(NumbersToWrite {
        sheet: column.sheet.clone(),
        digest: column.digest.clone(),
        column: column.column,
        header: column
            .header_row
            .map(|row| (row, NUMBERS_HEADER.to_owned())),
        first_row: column.first_row,
        numbers: written,
    })
}

/// What the person is told.
fn note(table: &UnnumberedTable, written: Result<Option<PathBuf>, UnreadableTable>) -> String {
    let file = Safe::line(&table.path.display().to_string()).to_string();
    let unreadable = match written {
        Ok(backup) => {
            let column = column_name(table.column.column);
            let before = backup.and_then(|path| path.file_name()?.to_str().map(str::to_owned));
            let before = before.map_or_else(String::new, |name| {
                format!("; the file as it was: {}", Safe::line(&name))
            });
            return format!(
                "the numbers of the experiments are in column {column} (`{NUMBERS_HEADER}`) of {file}, and rows are \
                 known by them{before}"
            );
        }
        Err(unreadable) => unreadable,
    };
    let (why, hint) = match unreadable {
        UnreadableTable::File { why, hint } | UnreadableTable::At { why, hint, .. } => (why, hint),
        UnreadableTable::NoSheet { .. } => ("its sheet is gone".to_owned(), String::new()),
    };
    let hint = match hint.as_str() {
        "" => hint,
        _ => format!("{hint}, then "),
    };
    format!(
        "no numbers are written into {file}: {why}; {hint}`neroman add {file}` again. Until then a row is known \
         again by its name, else by its parameters"
    )
}

impl Man {
    /// Writes the numbers of rows that have none, and reads these tables again; returns a
    /// note for each of them, and a line for each change that its owner made meanwhile.
    pub(crate) async fn number(
        &self,
        mut sources: Vec<SourceToRead>,
        tables: Vec<UnnumberedTable>,
    ) -> Vec<String> {
        if tables.is_empty() {
            return Vec::new();
        }
        let state = self.ledger.state();
        let work = blocking(move || {
            let mut notes = Vec::new();
            let mut changed = HashSet::new();
            for table in tables {
                let written = to_write(&state, &table)
                    .and_then(|numbers| tables::write_numbers(&table.path, &numbers));
                if written.is_ok() {
                    changed.insert(table.path.clone());
                }
                notes.push(note(&table, written));
            }
            sources.retain(|source| changed.contains(&source.path));
            (notes, sources)
        });
        let Ok((mut notes, sources)) = work.await else {
            return Vec::new();
        };
        let paths: Vec<PathBuf> = sources.iter().map(|source| source.path.clone()).collect();
        // The next command reads the file again and tells what is wrong with it.
        if let Ok(lines) = self.read_numbered(sources).await {
            notes.extend(lines);
            self.note_written(paths).await;
        }
        notes
    }

    /// Notes that these tables are as neronet wrote them: the backups that were just made stay
    /// until their owner saves again.
    async fn note_written(&self, paths: Vec<PathBuf>) {
        let written = move |state: &State, _| {
            let origins = paths.iter().filter_map(|path| state.origin_at(path));
            let written = origins.map(|origin| {
                let mut next = (**origin).clone();
                next.written = next.stamp;
                Change::Origin(Arc::new(next))
            });
            written.collect()
        };
        // Otherwise there is one more backup.
        let _ = self.ledger.note_now(false, written).await;
    }

    /// Reads tables again whose numbers were written.
    async fn read_numbered(&self, sources: Vec<SourceToRead>) -> Result<Vec<String>, Failure> {
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        let (state, config) = (self.ledger.state(), self.home.config.clone());
        let at = self.clock.moment();
        let read = blocking(move || {
            let reads = sources::read_paths(&state, &sources, &config)?;
            Ok::<_, Failure>(SourceReadings::of(&state, reads, at))
        })
        .await??;
        self.merge(read).await
    }
}
