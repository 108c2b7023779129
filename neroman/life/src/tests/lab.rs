//! A state that only decisions change, and what is put into it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use nero_format::{Definition, LoadedSource, Param, Place, SharedPart, Source, SourceKind, Value};
use nero_model::{ExperimentId, Phase, RunId, RunToken};

use crate::facts::journal::{Exit, Incarnation, Key, TreeEnd};
use crate::facts::now::{Moment, Tick};
use crate::fold::change::{Change, NewRun};
use crate::fold::experiment::Stamp;
use crate::fold::groups;
use crate::fold::run::{Cancel, Dispatch, Line, Results, RunDemands, RunRecord};
use crate::fold::state::State;
use crate::place::batch;
use crate::place::start::{self, Plan, StartOptions};
use crate::place::waits::WaitIndex;
use crate::source::abort::{self, CancelOutcome};
use crate::source::add::{self, MergeOutcome, StampedSource};
use crate::step::input::Input;

pub(crate) fn definition(name: &str, lr: &str) -> Definition {
    Definition {
        name: name.to_owned(),
        block: name.to_owned().into(),
        collections: vec!["lab".to_owned()].into(),
        folder: PathBuf::from("/lab").into(),
        place: Place {
            file: "neronet.yaml".to_owned(),
            line: 1,
            column: 1,
            sheet: None,
        }
        .into(),
        argv: vec!["true".to_owned(), lr.to_owned()],
        command_text: format!("true {lr}"),
        params: vec![Param::new("lr", lr, Value::Text(lr.to_owned()))],
        ..Definition::default()
    }
}

pub(crate) fn source(path: &str, definitions: Vec<Definition>) -> StampedSource {
    StampedSource {
        loaded: LoadedSource {
            source: Source::new(
                SourceKind::Folder,
                PathBuf::from(path).join("neronet.yaml"),
                PathBuf::from(path),
                String::new(),
            ),
            definitions,
            notes: Vec::new(),
            numbers: None,
            edited: Vec::new(),
        },
        stamp: Stamp::default(),
        companion: Stamp::default(),
    }
}

/// A run that was started for this node or group, and asks for nothing else.
pub(crate) fn made(id: RunId, node: &str) -> RunRecord {
    RunRecord {
        token: RunToken::from_slice(&[id.number as u8; 16]).unwrap(),
        id,
        node: node.to_owned(),
        placing: true,
        created_ms: 1,
        created: None,
        tree: String::new(),
        git: String::new(),
        fingerprint: "f".to_owned(),
        time_ms: 0,
        outputs: false,
        all_made: false,
        takes: RunDemands::default(),
        resume: None,
        batch: None,
        again: SharedPart::default(),
        checkpoint: false,
        processing: SharedPart::default(),
        precedence: SharedPart::default(),
        priority: 0,
        rank: 0,
        line: None,
        follows: None,
    }
}

/// The change that adds a run.
pub(crate) fn new_run(made: RunRecord, dispatch: Dispatch) -> Change {
    Change::Run(Arc::new(NewRun {
        made: Arc::new(made),
        dispatch,
        rules: Arc::default(),
        spec: Arc::default(),
    }))
}

/// A person's request to end a run.
pub(crate) fn cancel(author: &str, asked_ms: i64) -> Cancel {
    Cancel {
        asked_ms,
        author: author.to_owned(),
        grace_ms: 0,
        signal: 0,
        delivered: false,
        rule: None,
    }
}

/// The end of the way home of a run's results, into this folder.
pub(crate) fn results_done(folder: &str) -> Input {
    let done = Results::Done {
        folder: folder.to_owned(),
        notes: Vec::new(),
        left: 0,
        warnings: Vec::new(),
    };
    let hints = Vec::new();
    Input::ResultsDone { done, hints }
}

/// A state that only decisions change.
#[derive(Clone, Default)]
pub(crate) struct Lab {
    pub state: State,
    pub now_ms: i64,
    /// Of the runs of the next batches so many go on at once.
    pub at_most: Option<u32>,
    pub waits: WaitIndex,
    /// The state in which waiting runs were let go last; `None`: experiments changed since.
    pub looked: Option<State>,
}

/// A moment of this boot at which both clocks show this time.
pub(crate) fn moment(ms: i64) -> Moment {
    let boot = "boot".to_owned();
    let tick = Tick { boot, ms };
    Moment { ms, tick }
}

impl Lab {
    pub(crate) fn take(&mut self, changes: Vec<Change>) {
        for change in changes {
            self.state.apply(&change);
        }
        self.state.check_invariants();
    }

    pub(crate) fn add(&mut self, path: &str, definitions: Vec<Definition>) -> MergeOutcome {
        self.now_ms += 1;
        let reads = [source(path, definitions)];
        let merged = add::merge(&self.state, &reads, &HashSet::new(), &moment(self.now_ms));
        self.take(merged.changes.clone());
        self.looked = None;
        merged
    }

    /// Lets the runs go on that need no others any more: the same ones as a look at all finds.
    fn release(&mut self) {
        let all = self.state.experiments.iter().flat_map(|one| &one.runs);
        let all = all.map(|run| run.made.id);
        let looked = self.looked.as_ref();
        let changed = all.filter(|id| {
            let before = looked.and_then(|state| state.run(*id));
            groups::concerns_others(before, self.state.run(*id))
        });
        let changed: Vec<RunId> = changed.collect();
        let described = looked.is_none();
        let (waits, state) = (&mut self.waits, &self.state);
        let changes = waits.release(state, &changed, described, self.now_ms);
        let found = WaitIndex::default().release(state, &[], true, self.now_ms);
        let runs = |changes: &[Change]| changes.iter().map(Change::run).collect::<Vec<_>>();
        assert_eq!(runs(&changes), runs(&found));
        self.take(changes);
        self.looked = Some(self.state.clone());
    }

    /// Starts the picked experiments; returns the plans.
    pub(crate) fn start(&mut self, ids: &[u64], wanted: StartOptions) -> Vec<Plan> {
        self.start_as(ids, wanted, None, false)
    }

    /// Starts the picked experiments as a batch.
    pub(crate) fn start_batch(&mut self, ids: &[u64], pilot: bool) {
        self.start_as(ids, StartOptions::default(), Some(run(ids[0], 1)), pilot);
    }

    /// Starts the picked experiments as further runs of a batch.
    pub(crate) fn start_in_batch(&mut self, ids: &[u64], batch: Option<RunId>) {
        self.start_as(ids, StartOptions::default(), batch, false);
    }

    fn start_as(
        &mut self,
        ids: &[u64],
        wanted: StartOptions,
        batch: Option<RunId>,
        pilot: bool,
    ) -> Vec<Plan> {
        self.now_ms += 1;
        let ids: Vec<ExperimentId> = ids.iter().map(|id| ExperimentId(*id)).collect();
        let plans = start::plan(&self.state, &ids, wanted);
        let mut made_runs = 0;
        for plan in &plans {
            let Plan::Run { id, after } = plan else {
                continue;
            };
            let experiment = Arc::clone(self.state.experiment(id.experiment).unwrap());
            if after.is_some() {
                let cancels = abort::for_restart(&experiment, "restart", self.now_ms);
                for change in cancels {
                    self.state.apply(&change);
                }
            }
            let still = self
                .state
                .experiment(id.experiment)
                .unwrap()
                .runs
                .iter()
                .any(|run| run.phase().is_live());
            let made = RunRecord {
                token: RunToken::random(),
                created_ms: self.now_ms,
                fingerprint: experiment.fingerprint.to_string(),
                time_ms: experiment.definition.resources.time_ms.unwrap_or(0),
                placing: batch.is_some(),
                takes: RunDemands {
                    memory_bytes: experiment.definition.resources.memory_bytes.unwrap_or(0),
                    limit_s: experiment.definition.scheduler_limit_s(),
                    on_nodes: experiment.definition.resources.on_nodes.clone().into(),
                    ..RunDemands::default()
                },
                batch,
                again: experiment.definition.again.clone(),
                checkpoint: experiment.definition.again.requeues_timeout,
                processing: experiment.definition.processing.clone(),
                precedence: experiment.definition.precedence.clone(),
                line: self
                    .at_most
                    .zip(batch)
                    .map(|(at_most, of)| Line { of, at_most }),
                ..made(*id, "local")
            };
            let mut dispatch = if pilot && batch != Some(*id) {
                Dispatch::behind_pilot(after.filter(|_| still))
            } else {
                let node = batch.map(|_| "local".to_owned());
                Dispatch::planned(node, after.filter(|_| still))
            };
            let needs_others = experiment.definition.precedence.waits_for_others();
            let waits = |at_most| needs_others || made_runs >= at_most;
            if self.at_most.is_some_and(waits) {
                dispatch = dispatch.in_line();
            }
            if needs_others {
                dispatch = dispatch.behind_others();
            }
            self.take(vec![new_run(made, dispatch)]);
            made_runs += u32::from(!needs_others);
        }
        self.release();
        plans
    }

    pub(crate) fn cancel(&mut self, id: RunId) -> CancelOutcome {
        self.now_ms += 1;
        let cancel = cancel("me", self.now_ms);
        let run = self.state.run(id).unwrap();
        let cancelled = abort::comes_to(run);
        let changes = crate::step(run, &Input::Cancel(cancel), self.now_ms).unwrap_or_default();
        self.take(changes);
        cancelled
    }

    /// Folds a start as a node would send it.
    pub(crate) fn say(&mut self, id: RunId, incarnation: Incarnation) {
        let before = self.state.clone();
        let mut journal = (*self.state.run(id).unwrap().journal).clone();
        journal.incarnations.insert(1, incarnation.into());
        self.take(vec![Change::Journal {
            run: id,
            journal: Arc::new(journal),
        }]);
        self.release();
        self.take(batch::follow(&before, &self.state, [id], self.now_ms));
        let all: Vec<RunId> = (self.state.experiments.iter())
            .flat_map(|one| one.runs.iter().map(|run| run.made.id))
            .collect();
        self.take(batch::next_in_line(&before, &self.state, all, self.now_ms));
        if let Some((_, changes)) = abort::released(&self.state, id, self.now_ms) {
            self.take(changes);
        }
    }

    /// A live run reported a metric this long after its begin.
    pub(crate) fn reports_after(&mut self, id: RunId, ms: i64) {
        let mut journal = (*self.state.run(id).unwrap().journal).clone();
        let started = running();
        let metric = crate::facts::journal::Metric {
            key: (1, Key::default()),
            last: 0.5,
            step: 1.0,
            min: 0.5,
            max: 0.5,
            count: 1,
            at_ms: started.started_ms.unwrap() + ms,
        };
        journal.incarnations.insert(1, started.into());
        journal.metrics.insert("loss".to_owned(), metric);
        self.take(vec![Change::Journal {
            run: id,
            journal: Arc::new(journal),
        }]);
    }

    pub(crate) fn happens(&mut self, id: RunId, input: &Input) {
        let before = self.state.clone();
        let changes = crate::step(self.state.run(id).unwrap(), input, self.now_ms).unwrap();
        self.take(changes);
        self.take(batch::next_in_line(&before, &self.state, [id], self.now_ms));
        if let Some((_, changes)) = abort::released(&self.state, id, self.now_ms) {
            self.take(changes);
        }
    }

    pub(crate) fn dispatch(&mut self, id: RunId, change: impl FnOnce(&mut Dispatch)) {
        let mut dispatch = self.state.run(id).unwrap().dispatch.clone();
        change(&mut dispatch);
        self.take(vec![Change::Dispatch {
            run: id,
            dispatch: Box::new(dispatch),
            rules: None,
        }]);
        if let Some((_, changes)) = abort::released(&self.state, id, self.now_ms) {
            self.take(changes);
        }
    }

    pub(crate) fn phase(&self, id: RunId) -> Phase {
        self.state.run(id).unwrap().phase()
    }
}

pub(crate) fn run(experiment: u64, number: u32) -> RunId {
    RunId {
        experiment: ExperimentId(experiment),
        number,
    }
}

pub(crate) fn running() -> Incarnation {
    Incarnation {
        started_ms: Some(5),
        ..Incarnation::default()
    }
}

pub(crate) fn ended(code: i32) -> Incarnation {
    let key = |offset| Key {
        rank: 0,
        made_ns: 0,
        offset,
    };
    Incarnation {
        started_ms: Some(5),
        exit: Some(Exit {
            key: key(5),
            code,
            signal: 0,
            core_dumped: false,
            code_unknown: false,
            user_cpu_us: 0,
            system_cpu_us: 0,
            peak_rss_bytes: 0,
            disk_free_bytes: None,
            oom_kills: 0,
            stderr_line: String::new(),
            run_ms: 1,
            at_ms: 6,
        }),
        gone: Some(TreeEnd {
            key: key(6),
            strays_killed: 0,
            stdout_bytes: 0,
            stderr_bytes: 0,
            left_alive: 0,
            strays_ms: 0,
            strays_left: 0,
            strays: Vec::new(),
            at_ms: 6,
        }),
        ..Incarnation::default()
    }
}

pub(crate) fn skipped(plans: &[Plan]) -> Vec<String> {
    plans
        .iter()
        .filter_map(|plan| match plan {
            Plan::Skip { why, .. } => Some(why.to_string()),
            Plan::Run { .. } => None,
        })
        .collect()
}

pub(crate) const RESTART: StartOptions = StartOptions {
    restart: true,
    abandon: false,
    resume: false,
    same_code: false,
};
