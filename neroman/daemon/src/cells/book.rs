//! The task of one table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nero_model::ExperimentId;
use nero_model::safe::quoted;
use nero_table::child::{
    CellFound, CellToWrite, CellsAnswer, CellsFound, CellsToWrite, FileTimes, RowToWrite,
    WriteOrder,
};
use nero_table::{CellValue, UnreadableTable};
use tokio::time::Instant;

use super::folder::FolderWatch;
use super::row_values::{Columns, RowValues, ShownRow};
use super::{BookNow, BookObstacle, Desk, live};
use crate::blocking::blocking;
use crate::pasts;
use crate::service::experiments::tables;
use nero_home::failure::Failure;
use nero_home::ledger::Audience;
use nero_life::cells::{CellRecord, WrittenCell, WrittenColumn};
use nero_life::change::Change;
use nero_life::experiment::{Experiment, Origin, Stamp};
use nero_life::state::State;

/// From a change until it is written, so that several come together.
const FIRST: Duration = Duration::from_secs(2);
/// Between two writes.
const EVERY: Duration = Duration::from_secs(10);
/// Experiments whose records are read at once: other readers of the database wait meanwhile.
const LOOKED_UP_TOGETHER: usize = 64;
/// So often a refused file is tried again without news: its process may have been killed.
const TRIES_MAX: u32 = 3;

/// What the task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// A change of an experiment or of the file.
    News,
    /// The same, or the next try.
    NextTry,
}

/// A table with what is known of its cells.
#[derive(Debug)]
struct Book {
    origin: u64,
    file: PathBuf,
    watch: Option<FolderWatch>,
    columns: Columns,
    /// What was written before, of the experiments that were asked for.
    cells: HashMap<(ExperimentId, usize), WrittenCell>,
    loaded: BTreeSet<ExperimentId>,
    /// The values that the file has, or that its owner keeps out.
    brought: HashMap<ExperimentId, RowValues>,
    /// The file in which `brought` was found.
    seen: Option<FileTimes>,
    left: BTreeSet<(ExperimentId, usize)>,
    /// Rows without a number, by which results find them.
    unnumbered: usize,
    live: Option<(PathBuf, BTreeMap<ExperimentId, ShownRow>)>,
    tries: u32,
}

/// A step that did not come to its end.
enum StepFailure {
    Obstacle(BookObstacle),
    /// The file is changing.
    Busy,
    /// The database cannot be used, or the daemon is leaving.
    Failed(Failure),
}

impl From<Failure> for StepFailure {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<UnreadableTable> for StepFailure {
    fn from(unreadable: UnreadableTable) -> Self {
        let (why, hint) = match unreadable {
            UnreadableTable::File { why, hint } | UnreadableTable::At { why, hint, .. } => {
                (why, hint)
            }
            UnreadableTable::NoSheet { .. } => (
                "its sheet is gone".to_owned(),
                "`neroman add` it again".to_owned(),
            ),
        };
        Self::Obstacle(BookObstacle::Refused { why, hint })
    }
}

/// Brings results into a table until it has no columns for them any more.
pub(super) async fn keep(desk: Desk, origin: u64) {
    let mut states = desk.ledger.watch(Audience::Tables);
    states.mark_changed();
    let mut book: Option<Book> = None;
    let mut rest = Rest::News;
    let mut earliest = Instant::now();
    loop {
        let folder = book.as_ref().and_then(|book| book.watch.as_ref());
        tokio::select! {
            changed = states.changed() => if changed.is_err() {
                return;
            },
            () = async {
                match folder {
                    Some(folder) => folder.changed().await,
                    None => std::future::pending().await,
                }
            } => {}
            () = tokio::time::sleep(EVERY), if rest == Rest::NextTry => {}
        }
        tokio::time::sleep_until(earliest.max(Instant::now() + FIRST)).await;
        let state = states.state();
        let Some(source) = state.origins.get(&origin).cloned() else {
            return;
        };
        let Some(bound) = &source.source.bound else {
            return;
        };
        let is_known =
            |book: &Book| book.columns.bound == *bound && book.file == source.source.file;
        let mut one = match book.take().filter(is_known) {
            Some(book) => book,
            None => Book::of(&source, Columns::of(bound, desk.clock.now_ms())),
        };
        let began = Instant::now();
        let (is_asked, next) = one.turn(&desk, &state, &source).await;
        rest = next;
        if is_asked {
            earliest = began + EVERY;
        }
        book = Some(one);
    }
}

impl Book {
    fn of(source: &Origin, columns: Columns) -> Self {
        let file = source.source.file.clone();
        Self {
            origin: source.id,
            watch: FolderWatch::of(&file),
            file,
            columns,
            cells: HashMap::new(),
            loaded: BTreeSet::new(),
            brought: HashMap::new(),
            seen: None,
            left: BTreeSet::new(),
            unnumbered: 0,
            live: None,
            tries: 0,
        }
    }

    /// Compares values and file with what they were, and brings what differs. Returns whether the
    /// file was looked into.
    async fn turn(
        &mut self,
        desk: &Desk,
        state: &Arc<State>,
        source: &Arc<Origin>,
    ) -> (bool, Rest) {
        let mut now = desk.nodes.known().now(desk.clock);
        let wanted = self.columns.wanted(state, source);
        match pasts::read(&desk.ledger, &desk.home, state, wanted).await {
            Ok(pasts) => now.pasts = pasts,
            // Those columns stay as they are until points can be read.
            Err(failure) => tracing::warn!(%failure, "cannot read points for a table"),
        }
        // Rows that are gone, too: a row that was renumbered holds what was written for them.
        let everyone: Vec<ExperimentId> = state.of_origin(source.id).map(|one| one.id).collect();
        let is_unnumbered = |one: &&Arc<Experiment>| {
            !one.gone && one.hidden_ms.is_none() && one.definition.number.is_none()
        };
        let unnumbered = state.of_origin(source.id).filter(is_unnumbered).count();
        let (state, of, file) = (Arc::clone(state), Arc::clone(source), self.file.clone());
        let fresh = Columns::of(&self.columns.bound, now.ms);
        let mut columns = std::mem::replace(&mut self.columns, fresh);
        let computed = blocking(move || {
            let rows = columns.rows(&state, &of, &now);
            (columns, rows, times(&file))
        });
        let Ok((columns, rows, there)) = computed.await else {
            return (false, Rest::News);
        };
        self.columns = columns;
        self.left.retain(|(id, _)| rows.contains_key(id));
        let is_same_file = there.is_some() && there == self.seen;
        let is_news =
            |(id, row): &(&ExperimentId, &ShownRow)| self.brought.get(id) != Some(&row.values);
        let asked = rows.iter().filter(|one| !is_same_file || is_news(one));
        let asked: Vec<ExperimentId> = asked.map(|(id, _)| *id).collect();
        if asked.is_empty() && is_same_file && unnumbered == self.unnumbered {
            return (false, Rest::News);
        }
        self.unnumbered = unnumbered;
        let brought = match there {
            None => Err(StepFailure::Obstacle(BookObstacle::Refused {
                why: "it is not there".to_owned(),
                hint: "if it was moved, `neroman add` its new place".to_owned(),
            })),
            Some(_) => self.bring(desk, source, &everyone, &rows, &asked).await,
        };
        let (obstacle, rest) = match brought {
            Ok(seen) => {
                for id in &asked {
                    self.brought.insert(*id, Arc::clone(&rows[id].values));
                }
                self.seen = Some(seen);
                (None, Rest::News)
            }
            Err(StepFailure::Obstacle(obstacle @ BookObstacle::Open(_))) => {
                (Some(obstacle), Rest::NextTry)
            }
            Err(StepFailure::Obstacle(obstacle)) => {
                self.tries += 1;
                let rest = if self.tries < TRIES_MAX {
                    Rest::NextTry
                } else {
                    Rest::News
                };
                (Some(obstacle), rest)
            }
            Err(StepFailure::Busy) => return (true, Rest::NextTry),
            Err(StepFailure::Failed(failure)) => {
                tracing::warn!(%failure, file = %self.file.display(), "results not written");
                return (true, Rest::NextTry);
            }
        };
        match obstacle {
            None => {
                self.tries = 0;
                self.live = None;
                live::remove(&self.file);
            }
            Some(_) => self.show_beside(rows, desk.clock.now_ms()),
        }
        desk.books.set(
            self.origin,
            BookNow {
                file: self.file.clone(),
                obstacle: obstacle.or_else(|| self.without_numbers()),
                live: self.live.as_ref().map(|(path, _)| path.clone()),
                left: self.left.len(),
            },
        );
        (true, rest)
    }

    /// Why no results come into some rows.
    fn without_numbers(&self) -> Option<BookObstacle> {
        let (rows, file) = (self.unnumbered, self.file.display());
        (rows > 0).then(|| BookObstacle::Refused {
            why: format!("no number stands in {rows} of its rows, and results find a row by it"),
            hint: format!("`neroman add {file}` tells what keeps numbers out"),
        })
    }

    /// Writes the rows beside the table, if they changed.
    fn show_beside(&mut self, rows: BTreeMap<ExperimentId, ShownRow>, now_ms: i64) {
        if self
            .live
            .as_ref()
            .is_some_and(|(path, before)| *before == rows && path.exists())
        {
            return;
        }
        let at = jiff::Timestamp::from_millisecond(now_ms).unwrap_or_default();
        let as_of = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        match live::write(&self.file, &self.columns.bound, &rows, &as_of) {
            Ok(path) => self.live = Some((path, rows)),
            Err(error) => {
                self.live = None;
                tracing::warn!(%error, file = %self.file.display(), "its rows are not written beside it");
            }
        }
    }

    /// Brings the values of these experiments into the file; returns the file that has them.
    async fn bring(
        &mut self,
        desk: &Desk,
        source: &Origin,
        everyone: &[ExperimentId],
        rows: &BTreeMap<ExperimentId, ShownRow>,
        asked: &[ExperimentId],
    ) -> Result<FileTimes, StepFailure> {
        self.load(desk, asked).await?;
        let mut wanted = self.wanted(rows, asked);
        let found = self.find(desk, everyone, asked, &mut wanted).await?;
        let changes = self.records(asked, &wanted, &found, desk.clock.now_ms());
        // What a crash leaves in the file is then known to be ours.
        self.note(desk, changes).await?;
        let is_written = |cell: &CellFound| *cell == CellFound::Written;
        if !found.cells.iter().flatten().any(is_written) {
            return Ok(found.read);
        }
        let read = stamp(found.read);
        wanted.order = Some(WriteOrder {
            digest: found.digest,
            // The backup is the newest state that the owner saved.
            has_backup: read != source.written,
        });
        let written = self.ask(wanted).await?.0.written.ok_or(StepFailure::Busy)?;
        let (origin, now) = (self.origin, stamp(written));
        let store = move |state: &State, _| {
            let origin = state.origins.get(&origin);
            let changed = origin.map(|origin| {
                let mut next = (**origin).clone();
                next.written = now;
                // What the owner saved since it was read as a source stays news.
                if next.stamp == read {
                    next.stamp = now;
                }
                Change::Origin(Arc::new(next))
            });
            changed.into_iter().collect()
        };
        desk.ledger.note(false, store).await?;
        tracing::info!(file = %self.file.display(), "results written");
        Ok(written)
    }

    /// Reads what was written into the cells of these experiments before.
    async fn load(&mut self, desk: &Desk, asked: &[ExperimentId]) -> Result<(), Failure> {
        let unknown = asked.iter().filter(|id| !self.loaded.contains(id));
        let unknown: Vec<ExperimentId> = unknown.copied().collect();
        if unknown.is_empty() {
            return Ok(());
        }
        for record in desk.ledger.cells(unknown.clone(), true).await? {
            if let Some(column) = self.column(&record.heading) {
                let key = (record.experiment, column);
                if !record.cell.left.is_empty() {
                    self.left.insert(key);
                }
                self.cells.insert(key, record.cell);
            }
        }
        self.loaded.extend(unknown);
        Ok(())
    }

    fn column(&self, heading: &str) -> Option<usize> {
        let mut columns = self.columns.bound.columns.iter();
        columns.position(|column| column.heading == heading)
    }

    fn heading(&self, cell: &CellToWrite) -> &str {
        &self.columns.bound.columns[cell.heading].heading
    }

    fn wanted(
        &self,
        rows: &BTreeMap<ExperimentId, ShownRow>,
        asked: &[ExperimentId],
    ) -> CellsToWrite {
        let bound = &self.columns.bound;
        let row = |id: &ExperimentId| {
            let values = rows[id].values.iter().enumerate();
            let cells = values.map(|(heading, value)| {
                let before = self.cells.get(&(*id, heading));
                CellToWrite {
                    heading,
                    value: value.clone(),
                    ours: before.map(|cell| cell.values.clone()).unwrap_or_default(),
                }
            });
            RowToWrite {
                number: rows[id].number,
                cells: cells.collect(),
            }
        };
        CellsToWrite {
            sheet: bound.sheet.clone(),
            header: bound.header,
            header_rows: bound.header_rows,
            number: bound.number.clone(),
            headings: bound
                .columns
                .iter()
                .map(|column| column.heading.clone())
                .collect(),
            rows: asked.iter().map(row).collect(),
            order: None,
        }
    }

    async fn ask(&self, wanted: CellsToWrite) -> Result<(CellsFound, CellsToWrite), StepFailure> {
        let file = self.file.clone();
        let answer = blocking(move || {
            let answer = tables::write_cells(&file, &wanted);
            answer.map(|answer| (answer, wanted))
        });
        let (answer, wanted) = answer.await??;
        match answer {
            CellsAnswer::Cells(found) => Ok((found, wanted)),
            CellsAnswer::Open(open) => Err(StepFailure::Obstacle(BookObstacle::Open(open))),
            CellsAnswer::Busy => Err(StepFailure::Busy),
        }
    }

    /// Finds out what would become of the cells. A cell may hold what we wrote long ago, when an
    /// old copy was saved over ours, or what we wrote into another row, when rows were copied,
    /// renumbered or sorted in part: such values are looked up among all that were ever written
    /// into the column.
    async fn find(
        &self,
        desk: &Desk,
        everyone: &[ExperimentId],
        asked: &[ExperimentId],
        wanted: &mut CellsToWrite,
    ) -> Result<CellsFound, StepFailure> {
        let (found, back) = self.ask(wanted.clone()).await?;
        *wanted = back;
        let cells = wanted.rows.iter_mut().zip(&found.cells).zip(asked);
        let mut foreign: Vec<(&mut CellToWrite, &str)> = Vec::new();
        let mut is_more = false;
        for ((row, found), id) in cells {
            for (cell, found) in row.cells.iter_mut().zip(found) {
                let known = self.cells.get(&(*id, cell.heading));
                let CellFound::Foreign { shows, .. } = found else {
                    continue;
                };
                if self.columns.replaces(cell, shows) {
                    cell.ours.push(CellValue::Text(shows.clone()));
                    is_more = true;
                } else if known.is_none_or(|known| known.owner_text != *shows) {
                    foreign.push((cell, shows));
                }
            }
        }
        let headings: BTreeSet<usize> = foreign.iter().map(|(cell, _)| cell.heading).collect();
        let written = if headings.is_empty() {
            BTreeMap::new()
        } else {
            self.written(desk, everyone, &headings).await?
        };
        for (cell, shows) in foreign {
            if let Some(value) = written[&cell.heading].nearest(shows) {
                cell.ours.push(value);
                is_more = true;
            }
        }
        if !is_more {
            return Ok(found);
        }
        Ok(self.ask(wanted.clone()).await?.0)
    }

    /// What was ever written into these columns.
    async fn written(
        &self,
        desk: &Desk,
        everyone: &[ExperimentId],
        headings: &BTreeSet<usize>,
    ) -> Result<BTreeMap<usize, WrittenColumn>, Failure> {
        let cells = headings.iter().map(|heading| (*heading, Vec::new()));
        let mut cells: BTreeMap<usize, Vec<WrittenCell>> = cells.collect();
        for some in everyone.chunks(LOOKED_UP_TOGETHER) {
            for record in desk.ledger.cells(some.to_vec(), false).await? {
                let column = self.column(&record.heading);
                if let Some(cells) = column.and_then(|column| cells.get_mut(&column)) {
                    cells.push(record.cell);
                }
            }
        }
        let columns = cells.iter();
        Ok(columns
            .map(|(heading, cells)| (*heading, WrittenColumn::of(cells.iter())))
            .collect())
    }

    /// What is to be recorded before the file is written, and told about cells that are left.
    fn records(
        &mut self,
        asked: &[ExperimentId],
        wanted: &CellsToWrite,
        found: &CellsFound,
        at_ms: i64,
    ) -> Vec<Change> {
        let mut records = Vec::new();
        let mut changes = Vec::new();
        for ((row, found), id) in wanted.rows.iter().zip(&found.cells).zip(asked) {
            for (cell, found) in row.cells.iter().zip(found) {
                if let Some(next) = self.record(*id, cell, found, at_ms, &mut changes) {
                    records.push(CellRecord {
                        experiment: *id,
                        heading: self.heading(cell).into(),
                        cell: next,
                    });
                }
            }
        }
        if !records.is_empty() {
            changes.push(Change::Cells(records.into()));
        }
        changes
    }

    /// The record of one cell, if it changes.
    fn record(
        &mut self,
        id: ExperimentId,
        cell: &CellToWrite,
        found: &CellFound,
        at_ms: i64,
        changes: &mut Vec<Change>,
    ) -> Option<WrittenCell> {
        let key = (id, cell.heading);
        let before = self.cells.get(&key).cloned().unwrap_or_default();
        match found {
            CellFound::Foreign { cell: place, shows } => {
                let is_over = self.columns.is_over(cell.heading, shows);
                let told = (cell.value.is_some() && !is_over)
                    .then(|| {
                        self.leave(
                            key,
                            &before,
                            place,
                            &format!("holds {}", quoted(shows)),
                            at_ms,
                        )
                    })
                    .flatten();
                let next = told.map(|(next, change)| {
                    changes.push(change);
                    next
                });
                next.as_ref().unwrap_or(&before).owned(shows).or(next)
            }
            CellFound::Never { cell: place, why } => {
                cell.value.as_ref()?;
                let (next, change) =
                    self.leave(key, &before, place, &format!("is {why}"), at_ms)?;
                changes.push(change);
                Some(next)
            }
            CellFound::Written => {
                self.left.remove(&key);
                let copied = cell.ours.last().filter(|_| before.values.is_empty());
                let is_over = |text: &&CellValue| self.columns.is_over(cell.heading, text.text());
                if let Some(copied) = copied.filter(|copied| !is_over(copied)) {
                    changes.push(replaced(id, self.heading(cell), copied, at_ms));
                }
                before.with(cell.value.as_ref())
            }
            CellFound::Same => {
                self.left.remove(&key);
                // Its owner may have typed it.
                before.with(None)
            }
            CellFound::Absent => None,
        }
    }

    /// Leaves a cell as it is; returns its record and what its owner is told, if that is news.
    fn leave(
        &mut self,
        key: (ExperimentId, usize),
        before: &WrittenCell,
        place: &str,
        why: &str,
        at_ms: i64,
    ) -> Option<(WrittenCell, Change)> {
        self.left.insert(key);
        // Rows are sorted, and what was told holds wherever the cell is then.
        let next = before.left(why)?;
        Some((next, left(key.0, &format!("{place} {why}"), at_ms)))
    }

    async fn note(&mut self, desk: &Desk, changes: Vec<Change>) -> Result<(), Failure> {
        if changes.is_empty() {
            return Ok(());
        }
        let written = changes.clone();
        desk.ledger.note(true, move |_, _| written.clone()).await?;
        for change in changes {
            if let Change::Cells(records) = change {
                for record in records.iter() {
                    if let Some(column) = self.column(&record.heading) {
                        let key = (record.experiment, column);
                        self.cells.insert(key, record.cell.clone());
                    }
                }
            }
        }
        Ok(())
    }
}

/// The line of an experiment's history about a cell that is not ours.
fn left(experiment: ExperimentId, why: &str, at_ms: i64) -> Change {
    Change::Event {
        experiment,
        run: None,
        at_ms,
        text: format!("its result is not written: {why}"),
    }
}

/// The line about a cell into which nothing was written for this experiment, and which held what
/// was written for another.
fn replaced(experiment: ExperimentId, heading: &str, held: &CellValue, at_ms: i64) -> Change {
    Change::Event {
        experiment,
        run: None,
        at_ms,
        text: format!(
            "its cell in {} held {}, which neronet wrote into another row: replaced",
            quoted(heading),
            quoted(held.text())
        ),
    }
}

fn times(file: &Path) -> Option<FileTimes> {
    let meta = fs::metadata(file).ok()?;
    Some(FileTimes {
        modified_ns: meta
            .mtime()
            .saturating_mul(1_000_000_000)
            .saturating_add(meta.mtime_nsec()),
        bytes: meta.len(),
        inode: meta.ino(),
    })
}

fn stamp(times: FileTimes) -> Stamp {
    Stamp {
        modified_ns: times.modified_ns,
        size: times.bytes,
        inode: times.inode,
    }
}
