//! Opening and closing both files, and the calls of the one writer.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use nero_model::paths::{make_private, sync_parents};
use nero_model::{DeploymentId, ExperimentId, Home, RequestId};

use crate::db::{Db, OpenedFile};
use crate::error::StoreError;
use crate::fold;
use crate::mark::{self, Line};
use crate::migrate::{SERIES, STATE};
use crate::place;
use crate::positions;
use crate::reader::{self, SeriesReader};
use crate::row::{
    CellRow, Event, Point, Position, Request, RunFold, RunKey, Sample, Series, StoredState,
};
use crate::state::{self, meta};
use crate::tx::Tx;

/// Lowest SQLite without the corruption of several connections in WAL mode.
const SQLITE_LOWEST: (i32, &str) = (3_051_003, "3.51.3");

/// Failure that a commit must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: `write` returns when the disk has the commit, with
    /// everything committed before. For facts that are reported to people or
    /// nodes.
    Synced,
    /// `kill -9`: the commit is ordered, and on disk with the next synced
    /// commit. For data that can be folded again.
    Ordered,
}

/// Result of opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOutcome {
    /// No file existed: both files and the deployment are new.
    pub new: bool,
    /// `series.db` did not exist and is new; records that nodes still have are
    /// folded again.
    pub series_new: bool,
    /// The last process that had the store open did not close it.
    pub unclean: bool,
    /// A file was too large to be checked at once after an unclean end: call
    /// [`crate::scrub`] from another thread.
    pub check_owed: bool,
    /// Version that `state.db` had before, when it was migrated.
    pub migrated_from: Option<i64>,
}

/// Both files, open for writing. Only one thread of one process may have it: the
/// caller holds the daemon's lock.
#[derive(Debug)]
pub struct Store {
    state: Db,
    series: Db,
    /// The highest number that a series had since the file was opened.
    numbered: i64,
    home: Home,
    deployment: DeploymentId,
    opened: OpenOutcome,
}

impl Store {
    /// Opens the files of this home, or makes them where nothing ever was.
    ///
    /// # Errors
    /// When a file is damaged, foreign, newer than this build, missing beside
    /// files that belong to it, or lies on a network file system. All files are
    /// left as they were.
    pub fn open(home: &Home) -> Result<Self, StoreError> {
        if rusqlite::version_number() < SQLITE_LOWEST.0 {
            return Err(StoreError::OldSqlite {
                found: rusqlite::version(),
                wanted: SQLITE_LOWEST.1,
            });
        }
        make_private(&home.data).map_err(StoreError::io("make", &home.data))?;
        place::check(&home.data)?;
        let new = make_state(home)?;
        if new {
            // The folders may be new, made by this process or the command line.
            let above = StoreError::io("sync the folders above", &home.data);
            sync_parents(&home.data).map_err(above)?;
        }
        let mark = mark(home);
        let unclean = exists(&mark)?;
        let [state_log, series_log] = mark::read(&mark)?;
        let (mut state, of_state) = Db::open(&home.state_db(), STATE, unclean, state_log)?;
        let deployment = deployment(&state)?;
        let series_new = make_series(home, deployment)?;
        let series_log = series_log.filter(|_| !series_new);
        let (mut series, of_series) = Db::open(&home.series_db(), SERIES, unclean, series_log)?;
        if self::deployment(&series)? != deployment {
            // A take-over changed the deployment's id before any series existed.
            if holds_nothing(&series)? {
                let open = series.begin(true)?;
                state::put_meta(&series, meta::DEPLOYMENT, deployment.as_bytes())?;
                series.finish(open)?;
            }
        }
        if self::deployment(&series)? != deployment {
            return Err(StoreError::Foreign {
                path: series.path.clone(),
                what: "belongs to another state.db",
            });
        }
        state.keep_mark(Line::new(mark::make(&mark)?, 0, state_log)?)?;
        series.keep_mark(Line::new(mark::make(&mark)?, 1, series_log)?)?;
        pass_keys(&state, &series)?;
        let numbered = fold::highest(&series)?;
        let OpenedFile {
            migrated_from,
            check_owed,
        } = of_state;
        Ok(Self {
            state,
            series,
            numbered,
            home: home.clone(),
            deployment,
            opened: OpenOutcome {
                new,
                series_new,
                unclean,
                check_owed: check_owed || of_series.check_owed,
                migrated_from,
            },
        })
    }

    /// The result of opening.
    pub fn opened(&self) -> &OpenOutcome {
        &self.opened
    }

    /// The id of this neroman, made with its database.
    pub fn deployment(&self) -> DeploymentId {
        self.deployment
    }

    /// Reads everything that a daemon needs, every row verified.
    ///
    /// # Errors
    /// The table and the row that differs from what was written.
    pub fn read_all(&self) -> Result<StoredState, StoreError> {
        state::read_all(&self.state)
    }

    /// Runs one transaction over `state.db`; it is committed when `work`
    /// succeeds and undone when it fails. Callers group their changes, since the
    /// commit is the expensive part. Parts that may fail alone go through
    /// [`Tx::attempt`].
    ///
    /// # Errors
    /// The error that `work` returns, or the failure of the commit.
    pub fn write<T, E: From<StoreError>>(
        &mut self,
        durability: Durability,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let open = self.state.begin(durability == Durability::Synced)?;
        let done = work(&mut Tx { db: &self.state })?;
        self.state.finish(open)?;
        Ok(done)
    }

    /// Whether an earlier failure of the storage was final: open a new store.
    pub fn is_broken(&self) -> bool {
        self.state.is_broken() || self.series.is_broken()
    }

    /// Whether both files can be written again after a [`StoreError::Full`]:
    /// this writes one row of each anew, with its present content, after moving
    /// the logs. The next transaction can use the space of both logs, which may
    /// be all that it needs.
    ///
    /// # Errors
    /// When writing fails for a reason other than a lack of room.
    pub fn has_room(&mut self) -> Result<bool, StoreError> {
        for db in [&self.state, &self.series] {
            match write_again(db) {
                Ok(()) => {}
                Err(StoreError::Full { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Moves the logs of both files into them, so that little lies in a log. For
    /// a quiet moment; frames that a reader still needs stay for the next one.
    ///
    /// # Errors
    /// See [`StoreError`]; nothing is lost then.
    pub fn empty_logs(&mut self) -> Result<(), StoreError> {
        self.state.empty_log()?;
        self.series.empty_log().map(drop)
    }

    /// Whether `series.db` has points or samples of this run.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn has_series(&self, run: RunKey) -> Result<bool, StoreError> {
        self.series
            .conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM series WHERE run = ?1)
                     OR EXISTS (SELECT 1 FROM sample WHERE run = ?1)",
            )
            .and_then(|mut statement| statement.query_row([run.0], |row| row.get(0)))
            .map_err(|error| self.series.failed(error))
    }

    /// The encoded `nero.v1.RunSpec` of a run.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRow`], or damage.
    pub fn spec(&self, run: RunKey) -> Result<Vec<u8>, StoreError> {
        state::spec(&self.state, run)?
            .ok_or_else(|| state::RUN_SPEC.absent(&[crate::table::cell::int(run.0)]))
    }

    /// The reply that a request got, if it was made before.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn request(&self, id: &RequestId) -> Result<Option<Request>, StoreError> {
        state::request(&self.state, id)
    }

    /// An experiment's history, oldest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn events(&self, experiment: ExperimentId) -> Result<Vec<Event>, StoreError> {
        state::events(&self.state, experiment)
    }

    /// What was written into the cells of an experiment; with `is_newest` the last part of each.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn cells(
        &self,
        experiment: ExperimentId,
        is_newest: bool,
    ) -> Result<Vec<CellRow>, StoreError> {
        state::cells(&self.state, experiment, is_newest)
    }

    /// The bytes that a delivery sends, until it came to its end.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn letter(&self, delivery: u64) -> Result<Option<Vec<u8>>, StoreError> {
        state::letter(&self.state, delivery)
    }

    /// The highest number that was ever given to an experiment, 0 for none.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn experiments_given(&self) -> Result<u64, StoreError> {
        let next = state::counter(&self.state, meta::NEXT_EXPERIMENT)?;
        Ok(next.saturating_sub(1))
    }

    /// A value of the caller, see [`Tx::set_meta`].
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        state::get_meta(&self.state, &format!("{}{name}", meta::OWN))
    }

    /// Folds metrics and samples of several runs into `series.db`, in one
    /// ordered transaction: all of it or nothing.
    ///
    /// # Errors
    /// [`StoreError::Position`] names the run whose fold does not begin at the
    /// file's position; leave it out, or [`Store::forget_series`] and fold anew.
    pub fn fold_series(&mut self, folds: &[RunFold]) -> Result<(), StoreError> {
        let open = self.series.begin(false)?;
        fold::fold(&self.series, &mut self.numbered, folds)?;
        self.series.finish(open)
    }

    /// Forgets everything that `series.db` holds of a run, positions too.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn forget_series(&mut self, run: RunKey) -> Result<(), StoreError> {
        let open = self.series.begin(false)?;
        fold::forget(&self.series, run)?;
        self.series.finish(open)
    }

    /// Forgets the positions up to which a run's segments are folded into
    /// `series.db`, for a run without further records. Its points stay.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn forget_series_positions(&mut self, run: RunKey) -> Result<(), StoreError> {
        let open = self.series.begin(false)?;
        positions::forget(&self.series, run)?;
        self.series.finish(open)
    }

    /// Positions up to which all segments are folded into `series.db`.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn series_positions(&self) -> Result<Vec<Position>, StoreError> {
        positions::all(&self.series)
    }

    /// Number of points in `series.db` for each run that has any.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn points_of_runs(&self) -> Result<HashMap<RunKey, u64>, StoreError> {
        reader::points_of_runs(&self.series)
    }

    /// Every series of every run, without points.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn all_series(&self) -> Result<Vec<Series>, StoreError> {
        reader::all_series(&self.series)
    }

    /// The series of one run, by name.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn series(&self, run: RunKey) -> Result<Vec<Series>, StoreError> {
        reader::series(&self.series, run)
    }

    /// The points of a series: by generation, then as they came.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn points(&self, series: &Series) -> Result<Vec<Point>, StoreError> {
        reader::points(&self.series, series)
    }

    /// The measurements of a run's processes, by time.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn samples(&self, run: RunKey) -> Result<Vec<Sample>, StoreError> {
        reader::samples(&self.series, run)
    }

    /// A reader of metrics with a connection of its own, for another thread.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn series_reader(&self) -> Result<SeriesReader, StoreError> {
        SeriesReader::open(&self.home)
    }
}

impl Drop for Store {
    /// Moves the logs into the files and removes the mark, so that the next
    /// start need not check. If this fails, the next start checks; nothing else
    /// is lost.
    fn drop(&mut self) {
        if self.is_broken() || std::thread::panicking() {
            return;
        }
        let moved = [&self.state, &self.series].map(Db::empty_log);
        if moved.iter().all(|moved| matches!(moved, Ok(true))) {
            mark::remove(&mark(&self.home));
            self.state.remove_log_on_close();
            self.series.remove_log_on_close();
        }
    }
}

/// The mark: a file that exists while a process has the store open.
fn mark(home: &Home) -> PathBuf {
    home.data.join("state.db.open")
}

fn exists(path: &Path) -> Result<bool, StoreError> {
    path.try_exists().map_err(StoreError::io("look at", path))
}

/// Writes a row that every file has anew, with its present content.
fn write_again(db: &Db) -> Result<(), StoreError> {
    db.use_log_again()?;
    let deployment = deployment(db)?;
    let open = db.begin(true)?;
    // SQLite writes no page when a row is replaced by an equal one, so the row goes first.
    db.change("DELETE FROM meta WHERE key = ?1", [meta::DEPLOYMENT])?;
    state::put_meta(db, meta::DEPLOYMENT, deployment.as_bytes())?;
    db.finish(open)?;
    db.use_log_again()
}

/// Makes `state.db` in an empty home.
fn make_state(home: &Home) -> Result<bool, StoreError> {
    let path = home.state_db();
    if exists(&path)? {
        return Ok(false);
    }
    for beside in [home.data.join("state.db-wal"), home.series_db(), mark(home)] {
        if exists(&beside)? {
            return Err(StoreError::Missing { path, beside });
        }
    }
    Db::create(&path, STATE, |db| {
        state::put_meta(db, meta::DEPLOYMENT, DeploymentId::random().as_bytes())?;
        [
            meta::NEXT_EXPERIMENT,
            meta::NEXT_RUN,
            meta::NEXT_RULE,
            meta::NEXT_SOURCE,
        ]
        .iter()
        .try_for_each(|key| state::put_meta(db, key, &1_u64.to_le_bytes()))
    })?;
    Ok(true)
}

fn make_series(home: &Home, deployment: DeploymentId) -> Result<bool, StoreError> {
    let path = home.series_db();
    if exists(&path)? {
        return Ok(false);
    }
    let beside = home.data.join("series.db-wal");
    if exists(&beside)? {
        return Err(StoreError::Missing { path, beside });
    }
    Db::create(&path, SERIES, |db| {
        state::put_meta(db, meta::DEPLOYMENT, deployment.as_bytes())
    })?;
    Ok(true)
}

/// Moves the next run's key beyond all keys in `series.db`: after an older copy
/// of `state.db` was put in place, metrics there belong to runs that it does not
/// know.
fn pass_keys(state: &Db, series: &Db) -> Result<(), StoreError> {
    let highest: i64 = series
        .conn
        .query_row(
            "SELECT max(coalesce((SELECT max(run) FROM series), 0),
                        coalesce((SELECT max(run) FROM segment), 0),
                        coalesce((SELECT max(run) FROM sample), 0))",
            [],
            |row| row.get(0),
        )
        .map_err(|error| series.failed(error))?;
    let next = state::counter(state, meta::NEXT_RUN)?;
    let wanted = highest.cast_unsigned() + 1;
    if next >= wanted {
        return Ok(());
    }
    let open = state.begin(true)?;
    state::put_meta(state, meta::NEXT_RUN, &wanted.to_le_bytes())?;
    state.finish(open)
}

/// Whether the file has no rows of any run.
fn holds_nothing(series: &Db) -> Result<bool, StoreError> {
    series
        .conn
        .query_row(
            "SELECT NOT EXISTS (SELECT 1 FROM series)
                AND NOT EXISTS (SELECT 1 FROM segment)
                AND NOT EXISTS (SELECT 1 FROM sample)",
            [],
            |row| row.get(0),
        )
        .map_err(|error| series.failed(error))
}

fn deployment(db: &Db) -> Result<DeploymentId, StoreError> {
    state::get_meta(db, meta::DEPLOYMENT)?
        .and_then(|bytes| DeploymentId::from_slice(&bytes))
        .ok_or_else(|| StoreError::Damaged {
            path: db.path.clone(),
            what: "it names no deployment".to_owned(),
        })
}
