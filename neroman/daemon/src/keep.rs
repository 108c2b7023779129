//! Between changes and the databases: what is written where, and how it is
//! read again at the start. Called by the ledger's thread only.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use nero_config::LOCAL;
use nero_format::Definition;
use nero_journal::SegmentId;
use nero_model::{DeploymentId, ExperimentId, Home, Phase, RequestId, RunId};
use nero_store::{
    Advance, At, Durability, Event, Point, Request, RunFold, RunKey, Sample, Store, StoreError, Tx,
};
use serde::{Deserialize, Serialize};

use crate::core::change::{Change, Described, NewRun, Rule};
use crate::core::experiment::{Origin, Stamp};
use crate::core::fold::Position;
use crate::core::run::{Desk, Handing, Made, Run, Word};
use crate::core::state::State;
use crate::failure::Failure;
use crate::folding::RunFolded;

/// Everything that one transaction writes.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Somebody is told of it.
    pub durable: bool,
    changes: Vec<Change>,
    desks: BTreeSet<RunId>,
    journals: BTreeSet<RunId>,
    fresh: BTreeSet<RunId>,
    requests: Vec<Request>,
    folded: BTreeMap<RunId, Vec<RunFolded>>,
}

impl Batch {
    /// Adds a change. Of a run, only what it is at the end is written.
    pub(crate) fn push(&mut self, change: Change) {
        match change {
            Change::Desk { run, .. } => {
                self.desks.insert(run);
            }
            Change::Journal { run, .. } => {
                self.journals.insert(run);
            }
            Change::Run(new) => {
                self.fresh.insert(new.made.id);
                self.desks.insert(new.made.id);
                self.changes.push(Change::Run(new));
            }
            other @ (Change::Origin(_)
            | Change::Experiment(_)
            | Change::Rule(_)
            | Change::Event { .. }
            | Change::Adopted { .. }
            | Change::Last(_)) => self.changes.push(other),
        }
    }

    /// Adds an answer to be given again.
    pub(crate) fn answered(&mut self, id: RequestId, at_ms: i64, reply: Vec<u8>) {
        self.requests.push(Request { id, at_ms, reply });
    }

    /// Adds what was folded of a run.
    pub(crate) fn folded(&mut self, run: RunId, folded: RunFolded) {
        self.folded.entry(run).or_default().push(folded);
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
            && self.desks.is_empty()
            && self.journals.is_empty()
            && self.requests.is_empty()
            && self.folded.is_empty()
    }

    /// The runs that changed.
    pub(crate) fn touched(&self) -> BTreeSet<RunId> {
        &(&self.desks | &self.journals) | &self.fresh
    }
}

/// What is stored of an experiment beside its definition.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct KeptExperiment {
    extra_rules: Vec<u64>,
}

/// What is stored of a source beside its columns.
#[derive(Debug, Serialize, Deserialize)]
struct KeptSource {
    source: nero_format::Source,
    stamp: Stamp,
}

/// What is stored of a run's desk.
#[derive(Debug, Serialize, Deserialize)]
struct KeptDesk {
    desk: Desk,
    rules: Vec<u64>,
}

/// Why what was stored cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The database refuses.
    #[error("the database cannot be used")]
    Store(#[from] StoreError),
    /// A row holds what this build cannot read.
    #[error("{what} in the database cannot be read")]
    Content {
        what: String,
        #[source]
        source: serde_json::Error,
    },
}

impl LoadError {
    /// What a person can do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Content { .. } => {
                Some("a newer neroman wrote it: use that one again; nothing was changed".to_owned())
            }
        }
    }
}

/// Why a batch is in no database.
#[derive(Clone, Debug)]
pub(crate) struct Unwritten {
    /// As a person is told.
    pub failure: Failure,
    /// There is no room for it: it can be written when there is.
    pub no_room: bool,
}

impl From<Failure> for Unwritten {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            no_room: false,
        }
    }
}

impl From<StoreError> for Unwritten {
    fn from(error: StoreError) -> Self {
        Self {
            failure: refused(&error),
            no_room: matches!(error, StoreError::Full { .. }),
        }
    }
}

/// Both databases, and which run has which key in them.
#[derive(Debug)]
pub(crate) struct Keep {
    store: Store,
    home: Home,
    keys: HashMap<RunId, RunKey>,
    /// Where the series stood when the databases were opened; runs made later
    /// begin at nothing.
    series: HashMap<RunKey, HashMap<SegmentId, Position>>,
    /// Highest numbers that the database has given away.
    given: Given,
    tenure: u64,
}

/// Under which the tenure is kept.
const TENURE: &str = "tenure";

#[derive(Clone, Copy, Debug, Default)]
struct Given {
    experiment: u64,
    source: u64,
    rule: u64,
}

impl Keep {
    /// Whether the databases were too large to be checked at once after an
    /// unclean end.
    pub(crate) fn check_owed(&self) -> bool {
        self.store.opened().check_owed
    }

    /// Opens the databases and reads them.
    ///
    /// # Errors
    /// When something cannot be read; everything is left as it is.
    pub(crate) fn open(home: &Home, now_ms: i64) -> Result<(Self, State), LoadError> {
        /// Answers are given again for this long.
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
            // They can be forgotten at the next start as well.
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
            given: Given::default(),
        };
        let state = keep.load(loaded)?;
        tracing::debug!(elapsed = ?began.elapsed(), "loaded");
        Ok((keep, state))
    }

    /// The id of this neroman.
    pub(crate) fn deployment(&self) -> DeploymentId {
        self.store.deployment()
    }

    /// How often the deployment was taken over.
    pub(crate) fn tenure(&self) -> u64 {
        self.tenure
    }

    fn load(&mut self, loaded: nero_store::Loaded) -> Result<State, LoadError> {
        let mut state = State::default();
        for source in loaded.sources {
            self.given.source = self.given.source.max(source.id.0);
            let kept: KeptSource = read(&source.kept, || format!("source {}", source.path))?;
            state.apply(&Change::Origin(Arc::new(Origin {
                id: source.id.0,
                source: kept.source,
                stamp: kept.stamp,
            })));
        }
        for rule in loaded.rules {
            self.given.rule = self.given.rule.max(rule.id.0);
            state.apply(&Change::Rule(Arc::new(Rule {
                id: rule.id.0,
                action: rule.action,
                text: rule.text,
                author: rule.author,
                origin: rule.origin,
            })));
        }
        for described in in_parallel(&loaded.experiments, described)? {
            self.given.experiment = self.given.experiment.max(described.id.0);
            state.apply(&Change::Experiment(Arc::new(described)));
        }
        let mut rows = loaded.runs;
        rows.sort_by_key(|row| row.run.id);
        for run in in_parallel(&rows, stored_run)? {
            state.put_run(run);
        }
        self.keys
            .extend(rows.iter().map(|row| (row.run.id, row.run.key)));
        state.apply(&Change::Last(loaded.last.into()));
        Ok(state)
    }

    /// Writes a batch; `work` is the state with it.
    ///
    /// # Errors
    /// When nothing of it was written.
    pub(crate) fn write(&mut self, work: &State, batch: &Batch) -> Result<(), Unwritten> {
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
                write_change(tx, change, &mut given, &mut fresh)?;
            }
            let key = |run: &RunId| fresh.get(run).or_else(|| keys.get(run)).copied();
            for id in &batch.desks {
                if let (Some(key), Some(run)) = (key(id), work.run(*id)) {
                    if matches!(run.desk.word, Some(Word::NodeGone { .. })) {
                        tx.raise()?;
                    }
                    tx.put_desk(key, &desk_row(run))?;
                }
            }
            for id in batch.desks.union(&batch.journals) {
                let Some(run) = work.run(*id) else { continue };
                // The phase of a run without a journal follows from its desk.
                if (batch.journals.contains(id) || run.phase().is_end())
                    && let Some(key) = key(id)
                {
                    tx.put_facts(key, &facts_row(run))?;
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
                    folds.push(run_fold(key, one));
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

    /// Makes sure that points survive a power cut, before a node is told to
    /// forget a run.
    ///
    /// # Errors
    /// When the disk does not say that it has them.
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

    /// Nothing more of these runs comes.
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

    /// The encoded spec of a run.
    pub(crate) fn spec(&self, run: RunId) -> Result<Vec<u8>, Failure> {
        let key = self
            .key(run)
            .ok_or_else(|| Failure::bug(format!("run {run} is not in the database")))?;
        self.store.spec(key).map_err(|error| refused(&error))
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

    /// Where the series of a run stand.
    pub(crate) fn series_positions(&self, run: RunId) -> HashMap<SegmentId, Position> {
        self.key(run)
            .and_then(|key| self.series.get(&key).cloned())
            .unwrap_or_default()
    }

    /// Whether both databases can be written again after a lack of room.
    ///
    /// # Errors
    /// When they cannot for another reason.
    pub(crate) fn has_room(&mut self) -> Result<bool, StoreError> {
        self.store.has_room()
    }

    /// Whether the databases cannot be used any more without opening them anew.
    pub(crate) fn is_broken(&self) -> bool {
        self.store.is_broken()
    }
}

fn read<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
    what: impl FnOnce() -> String,
) -> Result<T, LoadError> {
    serde_json::from_slice(bytes).map_err(|source| LoadError::Content {
        what: what(),
        source,
    })
}

fn described(row: &nero_store::Experiment) -> Result<Described, LoadError> {
    let what = || format!("experiment {}", row.id);
    let definition: Definition = read(row.definition.as_bytes(), what)?;
    let kept: KeptExperiment = read(&row.kept, what)?;
    Ok(Described {
        id: row.id,
        definition: Arc::new(definition),
        fingerprint: row.fingerprint.as_str().into(),
        source: row.source.map_or(0, |source| source.0),
        gone: row.gone,
        created_ms: row.created_ms,
        modified_ms: row.modified_ms,
        extra_rules: kept.extra_rules.into(),
    })
}

fn stored_run(row: &nero_store::RunRow) -> Result<Run, LoadError> {
    let what = || format!("run {}", row.run.id);
    let made: Made = read(&row.run.made, what)?;
    let kept: KeptDesk = read(&row.desk.desk, what)?;
    let journal = if row.facts.facts.is_empty() {
        Arc::default()
    } else {
        Arc::new(read(&row.facts.facts, what)?)
    };
    Ok(Run::judged(
        Arc::new(made),
        kept.desk,
        journal,
        kept.rules.into(),
    ))
}

/// Turns rows into what they mean, on every processor: a start with 100 000
/// runs is to be short.
fn in_parallel<R: Sync, T: Send>(
    rows: &[R],
    turn: impl Fn(&R) -> Result<T, LoadError> + Sync,
) -> Result<Vec<T>, LoadError> {
    /// Fewer are not worth a thread.
    const ROWS_LEAST: usize = 1000;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = rows.len().div_ceil(threads).max(ROWS_LEAST);
    let turn = &turn;
    let parts: Vec<Result<Vec<T>, LoadError>> = std::thread::scope(|scope| {
        let working: Vec<_> = rows
            .chunks(part)
            .map(|rows| scope.spawn(move || rows.iter().map(turn).collect()))
            .collect();
        working
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    let mut all = Vec::with_capacity(rows.len());
    for part in parts {
        all.extend(part?);
    }
    Ok(all)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("what is kept has text keys and finite numbers only")
}

fn write_change(
    tx: &mut Tx<'_>,
    change: &Change,
    given: &mut Given,
    fresh: &mut HashMap<RunId, RunKey>,
) -> Result<(), StoreError> {
    match change {
        Change::Origin(origin) => {
            while given.source < origin.id {
                given.source = tx.new_source()?.0;
            }
            tx.put_source(&source_row(origin))
        }
        Change::Experiment(described) => {
            while given.experiment < described.id.0 {
                given.experiment = tx.new_experiment()?.0;
            }
            if asks_of_nodes(&described.definition) {
                tx.raise()?;
            }
            tx.put_experiment(&experiment_row(described))
        }
        Change::Rule(rule) => {
            while given.rule < rule.id {
                given.rule = tx.new_rule()?.0;
            }
            tx.put_rule(&nero_store::Rule {
                id: nero_store::RuleId(rule.id),
                version: 0,
                experiment: None,
                action: rule.action.clone(),
                text: rule.text.clone(),
                author: rule.author.clone(),
                origin: rule.origin.clone(),
                repeat_ms: 0,
                active: true,
                created_ms: 0,
            })
        }
        Change::Run(new) => {
            // Version 1 knows one node and would forget where this one went.
            if new.made.node != LOCAL {
                tx.raise()?;
            }
            let key = tx.insert_run(&run_row(new), &new.spec)?;
            fresh.insert(new.made.id, key);
            Ok(())
        }
        Change::Event {
            experiment,
            run,
            at_ms,
            text,
        } => tx.insert_event(&Event {
            experiment: *experiment,
            run: *run,
            at_ms: *at_ms,
            text: text.clone(),
        }),
        Change::Adopted { deployment, tenure } => {
            tx.adopt(*deployment)?;
            tx.set_meta(TENURE, &json(tenure))
        }
        Change::Last(last) => tx.set_last(last),
        // Written once per run, as it is at the end of the batch.
        Change::Desk { .. } | Change::Journal { .. } => Ok(()),
    }
}

/// Whether a definition says what builds of version 1 do not know.
fn asks_of_nodes(definition: &Definition) -> bool {
    definition.node.is_some()
        || definition.requires.is_some()
        || !definition.data.is_empty()
        || !definition.checkpoint.is_empty()
        || definition.resources.disk_bytes.is_some()
}

fn source_row(origin: &Origin) -> nero_store::Source {
    let source = &origin.source;
    nero_store::Source {
        id: nero_store::SourceId(origin.id),
        path: source.path.display().to_string(),
        kind: match source.kind {
            nero_format::SourceKind::Folder => "folder".to_owned(),
            nero_format::SourceKind::File => "file".to_owned(),
        },
        file: source.file.display().to_string(),
        folder: source.folder.display().to_string(),
        digest: source.digest.clone(),
        mtime_ns: origin.stamp.modified_ns,
        kept: json(&KeptSource {
            source: source.clone(),
            stamp: origin.stamp,
        }),
    }
}

fn experiment_row(described: &Described) -> nero_store::Experiment {
    let definition = &described.definition;
    nero_store::Experiment {
        id: described.id,
        collection: definition.collection().to_owned(),
        name: definition.name.clone(),
        definition: serde_json::to_string(&**definition)
            .expect("a definition has text keys and finite numbers only"),
        fingerprint: described.fingerprint.to_string(),
        source: Some(nero_store::SourceId(described.source)),
        path: definition.folder.display().to_string(),
        created_ms: described.created_ms,
        modified_ms: described.modified_ms,
        hidden_ms: None,
        gone: described.gone,
        kept: json(&KeptExperiment {
            extra_rules: described.extra_rules.to_vec(),
        }),
    }
}

fn run_row(new: &NewRun) -> nero_store::Run {
    let made = &new.made;
    nero_store::Run {
        key: RunKey(0),
        id: made.id,
        token: made.token,
        node: made.node.clone(),
        tree: unhex(&made.tree),
        created_ms: made.created_ms,
        made: json(&**made),
    }
}

/// Bytes of a hash in hexadecimal.
pub(crate) fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

fn desk_row(run: &Run) -> nero_store::Desk {
    nero_store::Desk {
        wish_ms: run.desk.wish.as_ref().map(|wish| wish.asked_ms),
        desk: json(&KeptDesk {
            desk: run.desk.clone(),
            rules: run.rules.to_vec(),
        }),
    }
}

fn facts_row(run: &Run) -> nero_store::Facts {
    let phase: Phase = run.phase();
    nero_store::Facts {
        phase,
        submitted_ms: (run.desk.handing >= Handing::Submitted).then_some(run.made.created_ms),
        started_ms: run.started_ms(),
        ended_ms: run.outcome.ended_ms,
        facts: json(&*run.journal),
    }
}

fn run_fold(key: RunKey, folded: &RunFolded) -> RunFold {
    let mut names: Vec<String> = Vec::new();
    let mut index: HashMap<&str, u32> = HashMap::new();
    let points = folded
        .taken
        .points
        .iter()
        .map(|point| {
            let place = *index.entry(&point.name).or_insert_with(|| {
                names.push(point.name.clone());
                (names.len() - 1) as u32
            });
            let point = Point {
                step: point.step,
                time_ms: point.at_ms,
                value: point.value,
                generation: point.generation,
            };
            (place, point)
        })
        .collect();
    let at = |position: &Position| At {
        offset: position.offset,
        chain: position.chain,
    };
    RunFold {
        run: key,
        advances: folded
            .series
            .iter()
            .map(|(segment, (incarnation, from, to))| Advance {
                incarnation: *incarnation,
                segment: *segment,
                from: at(from),
                to: at(to),
            })
            .collect(),
        names,
        points,
        samples: folded
            .taken
            .samples
            .iter()
            .map(|measured| {
                let sample = &measured.sample;
                Sample {
                    time_ms: measured.at_ms,
                    incarnation: measured.incarnation,
                    cpu_cores: sample.cpu_cores,
                    cpu_ms: sample.cpu_ms,
                    rss_bytes: sample.rss_bytes,
                    peak_rss_bytes: sample.peak_rss_bytes,
                    read_bytes: sample.read_bytes,
                    written_bytes: sample.written_bytes,
                    processes: sample.processes,
                    threads: sample.threads,
                    stdout_bytes: sample.stdout_bytes,
                    stderr_bytes: sample.stderr_bytes,
                    silent_ms: sample.silent_ms,
                }
            })
            .collect(),
    }
}

/// A refusal of the database, with what a person can do.
fn refused(error: &StoreError) -> Failure {
    let failure = match error {
        // It says all: what, and where.
        StoreError::Full { .. } => Failure::failed(error.to_string()),
        error => Failure::failed("the database could not be used").caused_by(error),
    };
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
