//! Runs of a lost machine that lie on a node: they come here with their numbers, their tokens
//! and their rules.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use nero_format::{Definition, SharedPart, Source, SourceKind};
use nero_model::safe::Safe;
use nero_model::{ExperimentId, RunId, RunToken};

use crate::fold::change::{Change, ExperimentRecord, NewRun, Rule};
use crate::fold::experiment::{Experiment, Origin, Stamp};
use crate::fold::run::{Dispatch, Run, RunDemands, RunRecord, UNREAD};
use crate::fold::state::State;

/// Limit of experiment numbers: specs from a node are not trusted, and each
/// number below costs memory here.
const EXPERIMENTS_MAX: u64 = 1_000_000;
/// Like [`EXPERIMENTS_MAX`], for the runs of one experiment.
const RUNS_MAX: u32 = 100_000;
/// Like [`EXPERIMENTS_MAX`], for rules.
const RULES_MAX: u64 = 1_000_000;
/// Like [`EXPERIMENTS_MAX`], for the hand-overs of a run.
const GENERATIONS_MAX: u32 = 1_000_000;
/// Limit of placeholders for runs on other nodes, of all experiments.
const ELSEWHERE_MAX: usize = 1_000_000;

/// A run as its spec on the node tells of it.
#[derive(Clone, Debug)]
pub struct FoundRun {
    pub made: RunRecord,
    /// The name of its experiment.
    pub name: String,
    /// The number of the hand-over that brought the spec; 0: not stated.
    pub generation: u32,
    pub rules_version: u64,
    pub rules: Vec<Rule>,
    /// The encoded spec without rules; opaque here.
    pub spec: Arc<[u8]>,
}

/// What is taken over.
#[derive(Debug, Default)]
pub struct TakeOver {
    pub experiments: usize,
    pub runs: usize,
    pub changes: Vec<Change>,
    /// What stays on the node, and what is missing, for people.
    pub notes: Vec<String>,
    /// Numbers of runs that are not on this node.
    elsewhere: usize,
}

/// Turns the runs of a node into changes. Runs that are known already stay. All
/// new ones count as handed over until their journals have been read: for that
/// moment several runs of an experiment may look live.
///
/// `folder` is the placeholder of the missing source, and `definition` tells what the spec
/// of a run describes.
pub fn take_over(
    state: &State,
    node: &str,
    folder: &Path,
    runs: Vec<FoundRun>,
    definition: impl Fn(&FoundRun) -> Definition,
    now_ms: i64,
) -> TakeOver {
    let mut taken = TakeOver::default();
    let mut by_experiment: BTreeMap<ExperimentId, BTreeMap<u32, FoundRun>> = BTreeMap::new();
    for run in runs {
        let id = run.made.id;
        let has_place =
            (1..=EXPERIMENTS_MAX).contains(&id.experiment.0) && (1..=RUNS_MAX).contains(&id.number);
        if !has_place {
            taken.notes.push(format!("{id}: no run has such a number"));
            continue;
        }
        let runs = by_experiment.entry(id.experiment).or_default();
        runs.insert(id.number, run);
    }
    let mut work = state.clone();
    let (source, new) = placeholder(&work, folder);
    if let Some(new) = new {
        taken.take(&mut work, new);
    }
    let all = by_experiment.values().flat_map(BTreeMap::values);
    taken.take_rules(&mut work, all);
    for (id, runs) in by_experiment {
        let Some((_, newest)) = runs.last_key_value() else {
            continue;
        };
        if work.experiment(id).is_none() {
            let described = ExperimentRecord {
                gone: true,
                ..ExperimentRecord::new(id, definition(newest), source, now_ms)
            };
            taken.take(&mut work, Change::Experiment(Arc::new(described)));
            taken.experiments += 1;
        }
        if let Some(known) = work.experiment(id).filter(|known| !owns(known, &runs)) {
            let runs = match runs.len() {
                1 => "1 run".to_owned(),
                count => format!("{count} runs"),
            };
            taken.notes.push(format!(
                "experiment {id} here is another one, `{}`; {runs} of `{}` stay untouched on {node}",
                known.definition.name,
                Safe::line(&newest.name)
            ));
            continue;
        }
        for run in runs.into_values() {
            taken.take_run(&mut work, node, run, now_ms);
        }
    }
    taken
}

/// Whether these runs belong to the experiment that has their number here: it has their name,
/// or one of them.
fn owns(known: &Experiment, runs: &BTreeMap<u32, FoundRun>) -> bool {
    let is_here = |run: &FoundRun| {
        let here = known.run(run.made.id.number);
        here.is_some_and(|here| here.made.token == run.made.token)
    };
    let name = &known.definition.name;
    runs.values().any(|run| run.name == *name || is_here(run))
}

/// The number of a placeholder source, and the change that makes it where it is new.
pub fn placeholder(state: &State, folder: &Path) -> (u64, Option<Change>) {
    if let Some(known) = state.origin_at(folder) {
        return (known.id, None);
    }
    let id = state.origins.last_key_value().map_or(0, |(id, _)| *id) + 1;
    let file = folder.join("neronet.yaml");
    let origin = Origin {
        id,
        source: Source::new(
            SourceKind::Folder,
            file,
            folder.to_path_buf(),
            String::new(),
        ),
        stamp: Stamp::default(),
        companion: Stamp::default(),
        written: Stamp::default(),
    };
    (id, Some(Change::Origin(Arc::new(origin))))
}

impl TakeOver {
    fn take(&mut self, work: &mut State, change: Change) {
        work.apply(&change);
        self.changes.push(change);
    }

    /// Rules keep their numbers: journals name them.
    fn take_rules<'a>(&mut self, work: &mut State, runs: impl Iterator<Item = &'a FoundRun>) {
        let mut all: BTreeMap<u64, &Rule> = BTreeMap::new();
        for rule in runs.flat_map(|run| &run.rules) {
            all.entry(rule.id).or_insert(rule);
        }
        for (id, rule) in all {
            if (1..=RULES_MAX).contains(&id) && !work.rules.contains_key(&id) {
                self.take(work, Change::Rule(Arc::new(rule.clone())));
            }
        }
    }

    fn take_run(&mut self, work: &mut State, node: &str, run: FoundRun, now_ms: i64) {
        let id = run.made.id;
        if work.by_token(&run.made.token).is_some() {
            return;
        }
        let known = work.experiment(id.experiment);
        let known = known.map_or(0, |experiment| experiment.runs.len());
        let place = usize::try_from(id.number).unwrap_or(usize::MAX);
        let unread = work.run(id).is_some_and(Run::is_unread);
        if place <= known && !unread {
            self.notes.push(format!(
                "{id}: another run has this number here; that on {node} stays there untouched"
            ));
            return;
        }
        let missing = place.saturating_sub(known + 1);
        if self.elsewhere + missing > ELSEWHERE_MAX {
            let note = format!("{id}: too many runs before it are not on {node}");
            self.notes.push(note);
            return;
        }
        self.elsewhere += missing;
        for number in known + 1..place {
            let missing = RunId {
                number: u32::try_from(number).unwrap_or(u32::MAX),
                ..id
            };
            self.take(work, elsewhere(missing, now_ms));
            self.notes.push(format!(
                "{missing}: it is not on {node}; taking over the node that has it brings it"
            ));
        }
        // A rule of another text may have its number here.
        let is_own = |rule: &&Rule| {
            let known = work.rules.get(&rule.id);
            known.is_some_and(|known| known.action == rule.action && known.text == rule.text)
        };
        let rules = run.rules.iter().filter(is_own).map(|rule| rule.id);
        let new = NewRun {
            rules: rules.collect(),
            made: Arc::new(run.made),
            dispatch: Dispatch::taken_over(
                node,
                run.generation.min(GENERATIONS_MAX),
                run.rules_version,
            ),
            spec: run.spec,
        };
        self.take(work, Change::Run(Arc::new(new)));
        self.runs += 1;
    }
}

/// A placeholder run for a number that another node has, or no node any more. Its token is made
/// of its number: no node has a run with it.
fn elsewhere(id: RunId, now_ms: i64) -> Change {
    let mut token = [0; 16];
    token[..8].copy_from_slice(&id.experiment.0.to_be_bytes());
    token[8..12].copy_from_slice(&id.number.to_be_bytes());
    let made = RunRecord {
        token: RunToken::from_bytes(token),
        id,
        node: UNREAD.to_owned(),
        placing: false,
        created_ms: now_ms,
        created: None,
        tree: String::new(),
        git: String::new(),
        fingerprint: String::new(),
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
    };
    Change::Run(Arc::new(NewRun {
        made: Arc::new(made),
        dispatch: Dispatch::reserved(now_ms),
        rules: Arc::from([]),
        // The encoded form of an empty spec.
        spec: Arc::from([]),
    }))
}
