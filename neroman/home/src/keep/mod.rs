//! Writes changes to the databases, and reads the state from them at the start.
//! Called by the ledger's thread only.

mod batch;
mod change;
mod load;
mod rows;

use std::collections::HashMap;
use std::sync::Arc;

use nero_journal::SegmentId;
use nero_model::{DeploymentId, ExperimentId, Home, RequestId, RunId};
use nero_store::{Durability, Event, RunKey, Store, StoreError};

use crate::failure::Failure;
use nero_life::cells::{CellRecord, WrittenCell};
use nero_life::change::{Change, Rule};
use nero_life::clean;
use nero_life::experiment::{Experiment, Origin};
use nero_life::fold::Position;
use nero_life::state::State;
use nero_life::with_points;

pub(crate) use batch::{Batch, RunFolded};
use change::{HighestNumbers, write_change};
pub use load::LoadError;
use load::{described, in_parallel, read, stored_run};
pub use rows::unhex;
use rows::{KeptSource, json};

/// Why a batch was not written.
#[derive(Clone, Debug)]
pub(crate) struct WriteFailure {
    /// The error for a person.
    pub failure: Failure,
    /// Whether the disk is full: the batch can be written once there is room.
    pub no_room: bool,
}

impl From<Failure> for WriteFailure {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            no_room: false,
        }
    }
}

impl From<StoreError> for WriteFailure {
    fn from(error: StoreError) -> Self {
        Self {
            failure: refused(&error),
            no_room: matches!(error, StoreError::Full { .. }),
        }
    }
}

/// Both databases, and which run has which key in them.
#[derive(Debug)]
pub struct Databases {
    store: Store,
    home: Home,
    keys: HashMap<RunId, RunKey>,
    /// Positions of the series when the databases were opened; runs made later
    /// begin at zero.
    series: HashMap<RunKey, HashMap<SegmentId, Position>>,
    /// Highest numbers that the database has assigned.
    given: HighestNumbers,
    tenure: u64,
}

/// How far the series of a run are folded.
#[derive(Clone, Debug)]
pub(crate) enum SeriesPosition {
    /// Up to these positions, by segment.
    At(HashMap<SegmentId, Position>),
    /// To the end: no points are added.
    Complete,
}

impl Default for SeriesPosition {
    fn default() -> Self {
        Self::At(HashMap::new())
    }
}

/// The key of the tenure.
const TENURE: &str = "tenure";
/// The key of the nodes that were noticed as out of reach.
const NODES_AWAY: &str = "nodes away";
/// The key of what is still to be learnt after this home was restored.
const RESTORED: &str = "restored";
/// The ledgers with which the nodes answered last.
const LEDGERS: &str = "ledgers";

impl Databases {
    /// Whether a check is owed: the databases were too large to be checked at
    /// once after an unclean end.
    pub fn check_owed(&self) -> bool {
        self.store.opened().check_owed
    }

    /// Opens the databases and reads them.
    ///
    /// # Errors
    /// When a database cannot be read; nothing is changed then.
    pub fn open(home: &Home, now_ms: i64) -> Result<(Self, State), LoadError> {
        /// How long the answers to requests are kept for a repeat.
        const REMEMBER_MS: i64 = 7 * 24 * 3600 * 1000;
        let began = std::time::Instant::now();
        let mut store = Store::open(home)?;
        tracing::debug!(elapsed = ?began.elapsed(), "opened");
        let loaded = store.read_all()?;
        tracing::debug!(elapsed = ?began.elapsed(), "read");
        let mut series: HashMap<RunKey, HashMap<SegmentId, Position>> = HashMap::new();
        for position in store.series_positions()? {
            series.entry(position.run).or_default().insert(
                position.segment,
                Position {
                    offset: position.at.offset,
                    chain: position.at.chain,
                },
            );
        }
        let forgotten = store.write(Durability::Ordered, |tx| {
            tx.forget_requests_before(now_ms - REMEMBER_MS).map(drop)
        });
        match forgotten {
            // The next start can forget them as well.
            Err(StoreError::Full { .. }) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        let tenure = match store.meta(TENURE)? {
            Some(bytes) => read(&bytes, || "the tenure".to_owned())?,
            None => 0,
        };
        let mut keep = Self {
            store,
            tenure,
            home: home.clone(),
            keys: HashMap::with_capacity(loaded.runs.len()),
            series,
            given: HighestNumbers::default(),
        };
        let mut state = keep.load(loaded)?;
        if keep.delete_removed(&state, now_ms)? {
            keep.keys.clear();
            let loaded = keep.store.read_all()?;
            state = keep.load(loaded)?;
        }
        tracing::debug!(elapsed = ?began.elapsed(), "loaded");
        Ok((keep, state))
    }

    /// The home that contains the databases.
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// The id of this neroman.
    pub fn deployment(&self) -> DeploymentId {
        self.store.deployment()
    }

    /// How often the deployment was taken over.
    pub fn tenure(&self) -> u64 {
        self.tenure
    }

    /// Makes this home, which was restored from a backup, the owner of its nodes, and writes
    /// these changes; `work` is the state that includes them.
    ///
    /// # Errors
    /// When nothing was written.
    pub(crate) fn restore(
        &mut self,
        work: &State,
        changes: Vec<Change>,
    ) -> Result<(), WriteFailure> {
        let mut batch = Batch {
            durable: true,
            ..Batch::default()
        };
        let tenure = self.tenure + 1;
        batch.push(Change::Adopted {
            deployment: self.deployment(),
            tenure,
        });
        for change in changes {
            batch.push(change);
        }
        self.write(work, &batch)?;
        self.tenure = tenure;
        Ok(())
    }

    fn load(&mut self, loaded: nero_store::StoredState) -> Result<State, LoadError> {
        self.given.experiment = self.store.experiments_given()?;
        let mut state = State::default();
        state.highest = self.given.experiment;
        for source in loaded.sources {
            self.given.source = self.given.source.max(source.id.0);
            let kept: KeptSource = read(&source.kept, || format!("source {}", source.path))?;
            state.apply(&Change::Origin(Arc::new(Origin {
                id: source.id.0,
                source: kept.source,
                stamp: kept.stamp,
                companion: kept.companion,
                written: kept.written,
            })));
        }
        for rule in loaded.rules {
            self.given.rule = self.given.rule.max(rule.id.0);
            state.apply(&Change::Rule(Arc::new(Rule {
                id: rule.id.0,
                action: rule.action,
                argument: rule.argument,
                text: rule.text,
                repeat_ms: rule.repeat_ms,
                author: rule.author,
                origin: rule.origin,
            })));
        }
        let experiments = in_parallel(&loaded.experiments, described)?;
        // The memory of the rows is used again for the state.
        drop(loaded.experiments);
        for described in experiments {
            self.given.experiment = self.given.experiment.max(described.id.0);
            state.apply(&Change::Experiment(Arc::new(described)));
        }
        let mut rows = loaded.runs;
        rows.sort_by_key(|row| row.run.id);
        let held = self.store.points_of_runs()?;
        let mut lacking = 0_u64;
        let runs = in_parallel(&rows, stored_run)?;
        let keys: Vec<RunKey> = rows.into_iter().map(|row| row.run.key).collect();
        for (run, key) in runs.into_iter().zip(keys) {
            self.keys.insert(run.made.id, key);
            let run = with_points(run, held.get(&key).copied().unwrap_or(0));
            lacking += u64::from(run.asks_for_points());
            state.put_run(run);
        }
        if lacking > 0 {
            tracing::warn!(
                runs = lacking,
                "series.db lacks points of runs; their nodes are asked again"
            );
        }
        state.apply(&Change::Last(loaded.last.into()));
        let mut post = load::post(&loaded.notices, &loaded.deliveries)?;
        if let Some(bytes) = self.store.meta(NODES_AWAY)? {
            post.nodes_away = Some(read(&bytes, || "the nodes out of reach".to_owned())?);
        }
        state.apply(&Change::Post(Arc::new(post)));
        if let Some(bytes) = self.store.meta(RESTORED)? {
            let restored = read(&bytes, || "what is to be learnt from nodes".to_owned())?;
            state.apply(&Change::Restored(Arc::new(restored)));
        }
        if let Some(bytes) = self.store.meta(LEDGERS)? {
            let ledgers = read(&bytes, || "the ledgers of nodes".to_owned())?;
            state.apply(&Change::Ledgers(Arc::new(ledgers)));
        }
        Ok(state)
    }

    /// Deletes experiments that were removed long ago and are neither in their
    /// source nor on a node. Returns whether there were any.
    fn delete_removed(&mut self, state: &State, now_ms: i64) -> Result<bool, StoreError> {
        /// `rm --undo` brings an experiment back for this long.
        const KEEP_MS: i64 = 30 * 24 * 3600 * 1000;
        let is_over = |one: &&Arc<Experiment>| {
            one.gone
                && one.hidden_ms.is_some_and(|at| now_ms - at > KEEP_MS)
                && !one.is_live()
                && !one.runs.iter().any(clean::lies_there)
        };
        let over: Vec<_> = state.experiments.iter().filter(is_over).collect();
        let runs = over.iter().flat_map(|one| &one.runs);
        let keys: Vec<RunKey> = runs.filter_map(|run| self.key(run.made.id)).collect();
        if over.is_empty() {
            return Ok(false);
        }
        // Points without a run would be kept for ever, runs without points not.
        for key in &keys {
            self.store.forget_series(*key)?;
        }
        let deleted = self.store.write(Durability::Ordered, |tx| {
            for key in &keys {
                tx.delete_run(*key)?;
            }
            for one in &over {
                tx.delete_experiment(one.id)?;
            }
            Ok(())
        });
        match deleted {
            // The next start can delete them as well.
            Err(StoreError::Full { .. }) => Ok(false),
            deleted => deleted.map(|()| true),
        }
    }

    /// Writes a batch; `work` is the state that includes it.
    ///
    /// # Errors
    /// When nothing of the batch was written.
    pub(crate) fn write(&mut self, work: &State, batch: &Batch) -> Result<(), WriteFailure> {
        self.write_series(batch)?;
        let durability = if batch.durable {
            Durability::Synced
        } else {
            Durability::Ordered
        };
        let mut fresh = HashMap::new();
        let mut given = self.given;
        let keys = &self.keys;
        self.store.write(durability, |tx| {
            for change in &batch.changes {
                if let Change::Run(new) = change
                    && let Some(unread) = keys.get(&new.made.id)
                {
                    // A number that was reserved for a run of another node.
                    tx.delete_run(*unread)?;
                }
                write_change(tx, change, &mut given, &mut fresh)?;
            }
            let key = |run: &RunId| fresh.get(run).or_else(|| keys.get(run)).copied();
            for id in &batch.dispatches {
                if let (Some(key), Some(run)) = (key(id), work.run(*id)) {
                    tx.put_dispatch(key, &rows::dispatch(run))?;
                }
            }
            for id in &batch.journals {
                if let (Some(key), Some(run)) = (key(id), work.run(*id)) {
                    tx.put_facts(key, &json(&*run.journal))?;
                }
            }
            for request in &batch.requests {
                tx.insert_request(request)?;
            }
            Ok::<_, StoreError>(())
        })?;
        self.given = given;
        self.keys.extend(fresh);
        Ok(())
    }

    fn write_series(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut folds = Vec::new();
        for (id, folded) in &batch.folded {
            let Some(key) = self.keys.get(id).copied() else {
                continue;
            };
            for one in folded {
                if one.anew {
                    self.store.forget_series(key)?;
                    self.series.remove(&key);
                }
                if !one.series.is_empty() {
                    folds.push(rows::run_fold(key, one));
                }
            }
        }
        if folds.is_empty() {
            return Ok(());
        }
        self.store.fold_series(&folds)?;
        for fold in &folds {
            let known = self.series.entry(fold.run).or_default();
            for step in &fold.advances {
                let at = Position {
                    offset: step.to.offset,
                    chain: step.to.chain,
                };
                known.insert(step.segment, at);
            }
        }
        Ok(())
    }

    /// Makes points survive a power cut, before a node is told to forget a run.
    ///
    /// # Errors
    /// When the disk does not confirm the sync.
    pub(crate) fn sync_series(&self) -> Result<(), Failure> {
        let mut wal = self.home.series_db().into_os_string();
        wal.push("-wal");
        for path in [wal, self.home.series_db().into_os_string()] {
            match std::fs::File::open(&path).and_then(|file| file.sync_data()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Failure::failed("metrics could not be made durable")
                        .caused_by(&error)
                        .hint("look at that disk; the run's node keeps them meanwhile"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Forgets the positions of these runs: no more records come.
    pub(crate) fn forget_positions(&mut self, runs: &[RunId]) {
        for key in runs.iter().filter_map(|run| self.keys.get(run)) {
            if self.series.remove(key).is_some()
                && let Err(error) = self.store.forget_series_positions(*key)
            {
                tracing::warn!(%error, "positions not forgotten");
            }
        }
    }

    /// The answer that a request got before.
    pub(crate) fn answer(&self, id: RequestId) -> Result<Option<Vec<u8>>, Failure> {
        let found = self.store.request(&id).map_err(|error| refused(&error))?;
        Ok(found.map(|request| request.reply))
    }

    /// The encoded spec of a run; the inner failure is that of this run alone.
    pub(crate) fn spec(&self, run: RunId) -> Result<Result<Vec<u8>, Failure>, Failure> {
        let key = self
            .key(run)
            .ok_or_else(|| Failure::bug(format!("run {run} is not in the database")))?;
        match self.store.spec(key) {
            Ok(spec) => Ok(Ok(spec)),
            Err(error @ (StoreError::DamagedRow { .. } | StoreError::NoSuchRow { .. })) => {
                Ok(Err(refused(&error)))
            }
            Err(error) => Err(refused(&error)),
        }
    }

    /// The key of a run in both databases.
    pub(crate) fn key(&self, run: RunId) -> Option<RunKey> {
        self.keys.get(&run).copied()
    }

    /// An experiment's history.
    pub(crate) fn events(&self, experiment: ExperimentId) -> Result<Vec<Event>, Failure> {
        self.store
            .events(experiment)
            .map_err(|error| refused(&error))
    }

    /// The bytes that a delivery sends.
    pub(crate) fn letter(&self, delivery: u64) -> Result<Vec<u8>, Failure> {
        let found = self.store.letter(delivery);
        let found = found.map_err(|error| refused(&error))?;
        found.ok_or_else(|| Failure::bug(format!("delivery {delivery} has no bytes")))
    }

    /// What was written into the cells of experiments; with `is_newest` the last part of each.
    pub(crate) fn cells(
        &self,
        experiments: &[ExperimentId],
        is_newest: bool,
    ) -> Result<Vec<CellRecord>, Failure> {
        let mut records = Vec::new();
        for experiment in experiments {
            let rows = self.store.cells(*experiment, is_newest);
            for row in rows.map_err(|error| refused(&error))? {
                let cell: WrittenCell = serde_json::from_slice(&row.content).map_err(|error| {
                    Failure::bug(format!(
                        "cells of {experiment} in the database are unreadable"
                    ))
                    .caused_by(&error)
                })?;
                records.push(CellRecord {
                    experiment: row.experiment,
                    heading: row.heading.into(),
                    cell: WrittenCell {
                        part: row.part,
                        ..cell
                    },
                });
            }
        }
        Ok(records)
    }

    /// The positions of the series of a run.
    ///
    /// Points come into the database together with positions, which are deleted
    /// when no more records come. So points without positions are complete;
    /// this happens where an older copy of the facts was restored.
    pub(crate) fn series_stood(&self, run: RunId) -> SeriesPosition {
        let Some(key) = self.key(run) else {
            return SeriesPosition::default();
        };
        if let Some(positions) = self.series.get(&key) {
            return SeriesPosition::At(positions.clone());
        }
        match self.store.has_series(key) {
            Ok(true) => SeriesPosition::Complete,
            Ok(false) => SeriesPosition::default(),
            Err(error) => {
                tracing::warn!(%error, %run, "its points cannot be read, so none are added");
                SeriesPosition::Complete
            }
        }
    }

    /// Moves the logs of both databases into them. A log that cannot be moved
    /// now is moved later; the next commit finds a final failure, too.
    pub(crate) fn empty_logs(&mut self) {
        if let Err(error) = self.store.empty_logs() {
            tracing::warn!(%error, "logs not moved into the databases");
        }
    }

    /// Whether both databases can be written again after a lack of room.
    ///
    /// # Errors
    /// When they cannot be written for another reason.
    pub(crate) fn has_room(&mut self) -> Result<bool, StoreError> {
        self.store.has_room()
    }

    /// Whether the databases must be opened anew before they can be used.
    pub(crate) fn is_broken(&self) -> bool {
        self.store.is_broken()
    }
}

/// The failure of a database error, with what a person can do.
fn refused(error: &StoreError) -> Failure {
    let failure = match error {
        // The error's text is complete.
        StoreError::Full { .. } => Failure::failed(error.to_string()),
        error => Failure::failed("the database could not be used").caused_by(error),
    };
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_life::change::ExperimentRecord;

    const DAY_MS: i64 = 24 * 3600 * 1000;

    fn experiment(id: u64, hidden_ms: Option<i64>, gone: bool) -> Change {
        let folder = tempfile::tempdir().unwrap();
        let yaml = format!("collection: c{id}\ncommand: echo {id}\n");
        std::fs::write(folder.path().join("neronet.yaml"), yaml).unwrap();
        let loaded =
            nero_format::read_source(folder.path(), &nero_format::Defaults::default()).unwrap();
        let definition = loaded.definitions.into_iter().next().unwrap();
        Change::Experiment(Arc::new(ExperimentRecord {
            gone,
            hidden_ms,
            ..ExperimentRecord::new(ExperimentId(id), definition, 0, 0)
        }))
    }

    #[test]
    fn a_removed_experiment_is_deleted_after_30_days_and_its_number_stays_given() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::below(folder.path());
        let (mut keep, mut state) = Databases::open(&home, 0).unwrap();
        let mut batch = Batch::default();
        for change in [
            experiment(1, None, true),
            // Its source still contains it: it would come back as a new one.
            experiment(2, Some(0), false),
            experiment(3, Some(20 * DAY_MS), true),
            experiment(4, Some(0), true),
        ] {
            state.apply(&change);
            batch.push(change);
        }
        keep.write(&state, &batch).unwrap();
        drop(keep);
        let known = |now_ms| {
            let (_, state) = Databases::open(&home, now_ms).unwrap();
            let ids: Vec<u64> = state.experiments.iter().map(|one| one.id.0).collect();
            (ids, state.highest)
        };
        assert_eq!(known(29 * DAY_MS), (vec![1, 2, 3, 4], 4));
        assert_eq!(known(31 * DAY_MS), (vec![1, 2, 3], 4));
        assert_eq!(known(31 * DAY_MS), (vec![1, 2, 3], 4));
    }

    #[test]
    fn equal_parts_of_experiments_are_held_once_after_opening() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::below(folder.path());
        let (mut keep, mut state) = Databases::open(&home, 0).unwrap();
        let mut batch = Batch::default();
        for id in [1, 2] {
            let change = experiment(id, None, false);
            state.apply(&change);
            batch.push(change);
        }
        keep.write(&state, &batch).unwrap();
        drop(keep);
        let (_, state) = Databases::open(&home, 0).unwrap();
        let of = |id| &state.experiment(ExperimentId(id)).unwrap().definition;
        assert!(std::ptr::eq(&*of(1).scheduling, &*of(2).scheduling));
        assert_ne!(of(1).collections, of(2).collections);
    }
}
