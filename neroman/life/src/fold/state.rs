//! The state of the daemon, in memory. Clones share all parts, so that readers
//! keep the committed state while the one writer goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nero_expr::{Expr, NameKind, ParseContext, RulePlace};
use nero_model::{ExperimentId, RunId, RunToken};

use super::change::{Change, ExperimentRecord, NewRun, Rule};
use super::experiment::{Experiment, Origin, params_text, tags_text};
use super::groups;
use super::members::Members;
use super::names::NameIndex;
use super::numbers::NumberSet;
use super::run::Run;
use super::shelf::{Drawers, Shelf};
use crate::facts::hold::BatchCount;
use crate::facts::mail::post::Post;
use crate::facts::nodes::{NodeLedger, RestoreState};

/// The counts of one node's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeCount {
    /// Runs that may still get records from the node, or work for it.
    pub open: u64,
    /// The live runs among them.
    pub live: u64,
    /// Processors that the live runs take.
    pub cores: f64,
}

/// One run's part of the counts.
struct Share {
    live: bool,
    unplaced: bool,
    deferred: bool,
    apart: bool,
    open: bool,
    left: bool,
    cores: f64,
    node: Option<String>,
    ended: bool,
    batch: Option<RunId>,
}

impl Share {
    fn of(run: &Run) -> Self {
        Self {
            live: run.phase().is_live(),
            unplaced: run.unplaced(),
            deferred: run.deferred().is_some(),
            apart: run.waits_apart(),
            open: run.open(),
            left: run.is_left_behind(),
            cores: (run.node()).map_or_else(
                || run.made.takes.cores(),
                |node| run.made.takes.on(node).cores(),
            ),
            node: run.node().map(str::to_owned),
            ended: run.has_ended(),
            batch: run.made.counts_in(),
        }
    }

    fn same(&self, run: &Run) -> bool {
        self.live == run.phase().is_live()
            && self.unplaced == run.unplaced()
            && self.deferred == run.deferred().is_some()
            && self.open == run.open()
            && self.left == run.is_left_behind()
            && self.ended == run.has_ended()
            && self.node.as_deref() == run.node()
    }
}

/// The state of one neroman.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// By number.
    pub experiments: Shelf<Experiment>,
    /// By their names, whatever the collection.
    names: NameIndex,
    /// What words of sources mean; made when it is asked for first.
    members: Arc<OnceLock<Members>>,
    tokens: Drawers<[u8; 16], Option<RunId>>,
    /// The counts of batches, by their first run.
    batches: Drawers<RunId, BatchCount>,
    /// The experiments of a batch, by its first run. The experiment of that run is left out, since
    /// the key names it.
    batch_members: Drawers<RunId, NumberSet>,
    /// Experiments with such a run.
    active: NumberSet,
    /// Experiments with a run that was given up on a node, which is not told yet.
    left: NumberSet,
    /// Experiments that differ from their source, copies among them.
    edited: NumberSet,
    /// Experiments that name another one by its number.
    numbered: NumberSet,
    /// Those that are not hidden; made when it is asked for first.
    listed: Arc<OnceLock<Vec<ExperimentId>>>,
    /// By number.
    pub origins: Arc<BTreeMap<u64, Arc<Origin>>>,
    /// Path that was added → number of the source.
    origin_paths: Arc<BTreeMap<PathBuf, u64>>,
    /// By id.
    pub rules: Arc<BTreeMap<u64, Arc<Rule>>>,
    /// The conditions of those that the daemon evaluates, by id.
    pub daemon_rules: Arc<BTreeMap<u64, Arc<Expr>>>,
    /// Names of parameters and metrics that any experiment has.
    pub known_names: Arc<BTreeSet<(NameKind, String)>>,
    /// The experiments that `last` names; ascending.
    pub last: Arc<[ExperimentId]>,
    /// Highest number given to an experiment.
    pub highest: u64,
    /// Number of runs.
    pub runs: u64,
    /// Number of live runs.
    pub live: u64,
    /// The counts of runs by node.
    pub nodes: Arc<BTreeMap<String, NodeCount>>,
    /// Live runs that wait for the placer.
    pub unplaced: u64,
    /// Runs that their nodes cannot take for now, while other nodes may.
    pub deferred: u64,
    /// Runs that wait for a node without certain other runs.
    pub apart: u64,
    /// Runs whose outputs are home and wait for their processors.
    pub unprocessed: Arc<BTreeSet<RunId>>,
    /// Runs with commands of rules and steps that this machine is to run, or runs.
    pub unacted: Arc<BTreeSet<RunId>>,
    /// Runs that wait for other experiments.
    pub waiting: Arc<BTreeSet<RunId>>,
    /// Notices for people, and their deliveries.
    pub post: Arc<Post>,
    /// What is still to be learnt after this home was restored from a backup.
    pub restored: Arc<RestoreState>,
    /// The ledgers with which the nodes answered last.
    pub ledgers: Arc<BTreeMap<String, NodeLedger>>,
    /// Grows with every change.
    pub revision: u64,
}

impl State {
    /// The experiment with this number.
    pub fn experiment(&self, id: ExperimentId) -> Option<&Arc<Experiment>> {
        self.experiments.get(id.0)
    }

    /// The run with this id.
    pub fn run(&self, id: RunId) -> Option<&Run> {
        self.experiment(id.experiment)?.run(id.number)
    }

    /// The run that has this token.
    pub fn by_token(&self, token: &RunToken) -> Option<RunId> {
        self.tokens.get(token.as_bytes()).copied().flatten()
    }

    /// The experiments of this name, of any collection.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &Arc<Experiment>> {
        let all = self.names.get(name).filter_map(|id| self.experiment(id));
        all.filter(move |one| one.definition.name == name)
    }

    /// Those of these numbers.
    fn those<'a>(&'a self, numbers: &'a NumberSet) -> impl Iterator<Item = &'a Arc<Experiment>> {
        let numbers = numbers.iter();
        numbers.filter_map(|number| self.experiments.get(number))
    }

    /// The experiments with a run that is live, may still get records, or for which a node is
    /// looked for.
    pub fn active(&self) -> impl Iterator<Item = &Arc<Experiment>> {
        self.those(&self.active)
    }

    /// The runs that a node is to be told to end.
    pub fn left_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Run> {
        let runs = self.those(&self.left).flat_map(|one| one.runs.iter());
        runs.filter(move |run| run.is_left_on(node))
    }

    /// The live runs, by experiment.
    pub fn live_runs(&self) -> impl Iterator<Item = &Run> {
        self.active().flat_map(|one| one.live())
    }

    /// The experiments that differ from their source, copies among them.
    pub fn edited(&self) -> impl Iterator<Item = &Arc<Experiment>> {
        self.those(&self.edited)
    }

    /// Whether an experiment names another one by its number.
    pub(crate) fn has_numbered(&self) -> bool {
        !self.numbered.is_empty()
    }

    /// The experiments that are not hidden, by number.
    pub(crate) fn listed(&self) -> &[ExperimentId] {
        self.listed.get_or_init(|| {
            let shown = |one: &&Arc<Experiment>| one.hidden_ms.is_none();
            self.experiments
                .iter()
                .filter(shown)
                .map(|one| one.id)
                .collect()
        })
    }

    /// Which experiments words of sources mean.
    pub(crate) fn members(&self) -> &Members {
        self.members.get_or_init(|| Members::of(&self.experiments))
    }

    /// The source that was added under this path.
    pub fn origin_at(&self, path: &Path) -> Option<&Arc<Origin>> {
        self.origins.get(self.origin_paths.get(path)?)
    }

    /// The experiments of a source.
    pub fn of_origin(&self, origin: u64) -> impl Iterator<Item = &Arc<Experiment>> {
        self.experiments
            .iter()
            .filter(move |experiment| experiment.source == origin)
    }

    /// Applies one change. Changes to unknown items are ignored: they come from
    /// decisions over this same state.
    pub fn apply(&mut self, change: &Change) {
        self.revision += 1;
        match change {
            Change::Origin(origin) => {
                let paths = Arc::make_mut(&mut self.origin_paths);
                if let Some(moved) = self.origins.get(&origin.id) {
                    paths.remove(&moved.source.path);
                }
                paths.insert(origin.source.path.clone(), origin.id);
                Arc::make_mut(&mut self.origins).insert(origin.id, Arc::clone(origin));
            }
            Change::Experiment(described) => self.describe(described),
            Change::Rule(rule) => {
                // A text of another build may have words that this one does not know.
                let expr = Expr::parse(&rule.text, &ParseContext::utc(0).standing()).ok();
                if let Some(expr) = expr.filter(|expr| expr.rule_place() == RulePlace::Daemon) {
                    Arc::make_mut(&mut self.daemon_rules).insert(rule.id, Arc::new(expr));
                }
                Arc::make_mut(&mut self.rules).insert(rule.id, Arc::clone(rule));
            }
            Change::Run(new) => self.add_run(new),
            Change::Dispatch { run, dispatch, .. } => {
                for name in dispatch
                    .processed
                    .iter()
                    .flat_map(|made| made.metrics.keys())
                {
                    self.know(NameKind::Metric, name);
                }
                self.change_run(*run, |found| found.take(change));
            }
            Change::Journal { run, journal } => {
                for name in journal.metrics.keys() {
                    self.know(NameKind::Metric, name);
                }
                self.change_run(*run, |found| found.take(change));
            }
            // The history is read from the database when it is shown, and what was written into
            // cells when more is written; the identity is fixed at the daemon's start.
            Change::Event { .. } | Change::Cells(_) | Change::Adopted { .. } => {}
            Change::Last(last) => self.last = Arc::clone(last),
            Change::Post(change) => Arc::make_mut(&mut self.post).apply(change),
            Change::Restored(restored) => self.restored = Arc::clone(restored),
            Change::Ledgers(ledgers) => self.ledgers = Arc::clone(ledgers),
        }
    }

    fn describe(&mut self, new: &ExperimentRecord) {
        self.highest = self.highest.max(new.id.0);
        self.members = Arc::default();
        let marks = &new.by_hand;
        let is_edited = !marks.overrides.is_empty() || marks.copy_of.is_some();
        self.edited.set(new.id.0, is_edited);
        let is_numbered = groups::names_a_number(&new.definition.precedence);
        self.numbered.set(new.id.0, is_numbered);
        let before = self.experiment(new.id).map(|one| one.hidden_ms);
        if before != Some(new.hidden_ms) {
            self.listed = Arc::default();
        }
        for param in &new.definition.params {
            self.know(NameKind::Param, &param.name);
        }
        let revision = self.revision;
        if let Some(old) = self.experiments.get_mut(new.id.0) {
            let renamed = old.definition.name != new.definition.name;
            let before = std::mem::replace(&mut old.definition, Arc::clone(&new.definition));
            old.fingerprint = Arc::clone(&new.fingerprint);
            old.params_text = params_text(&new.definition);
            old.source = new.source;
            old.gone = new.gone;
            old.hidden_ms = new.hidden_ms;
            old.modified_ms = new.modified_ms;
            old.modified = new.modified.clone();
            old.extra_rules = Arc::clone(&new.extra_rules);
            old.by_hand = Arc::clone(&new.by_hand);
            old.tags_text = tags_text(&new.definition, &new.by_hand);
            old.revision = revision;
            if renamed {
                self.names.remove(&before.name, new.id);
                self.names.put(&new.definition.name, new.id);
            }
            return;
        }
        self.experiments.put(
            new.id.0,
            Experiment {
                id: new.id,
                definition: Arc::clone(&new.definition),
                fingerprint: Arc::clone(&new.fingerprint),
                params_text: params_text(&new.definition),
                source: new.source,
                gone: new.gone,
                hidden_ms: new.hidden_ms,
                created_ms: new.created_ms,
                modified_ms: new.modified_ms,
                modified: new.modified.clone(),
                extra_rules: Arc::clone(&new.extra_rules),
                by_hand: Arc::clone(&new.by_hand),
                tags_text: tags_text(&new.definition, &new.by_hand),
                runs: Vec::new(),
                revision,
            },
        );
        self.names.put(&new.definition.name, new.id);
    }

    fn know(&mut self, kind: NameKind, name: &str) {
        // A set of pairs cannot be searched with a borrowed name without a
        // copy; names are short and this runs once per change.
        let key = (kind, name.to_owned());
        if !self.known_names.contains(&key) {
            Arc::make_mut(&mut self.known_names).insert(key);
        }
    }

    fn add_run(&mut self, new: &NewRun) {
        let run = Run::judged(
            Arc::clone(&new.made),
            new.dispatch.clone(),
            Arc::default(),
            Arc::clone(&new.rules),
        );
        self.put_run(run);
    }

    /// Puts a run that was read from its node into the place reserved for it.
    fn replace_unread(&mut self, run: Run) {
        let id = run.made.id;
        let before = self.run(id).map(|run| run.made.token);
        if let Some(before) = before {
            self.tokens.put(*before.as_bytes(), None);
        }
        self.tokens.put(*run.made.token.as_bytes(), Some(id));
        self.join_batch(&run);
        self.change_run(id, |found| *found = run);
    }

    fn join_batch(&mut self, run: &Run) {
        let experiment = run.made.id.experiment;
        if let Some(first) = run
            .made
            .batch
            .filter(|first| first.experiment != experiment)
        {
            self.batch_members.entry(first).set(experiment.0, true);
        }
    }

    /// Adds a stored run; it has the next number of its experiment.
    pub fn put_run(&mut self, run: Run) {
        let revision = self.revision;
        let id = run.made.id;
        for (name, _) in run.metrics() {
            self.know(NameKind::Metric, name);
        }
        if self.run(id).is_some_and(Run::is_unread) {
            self.replace_unread(run);
            return;
        }
        let Some(experiment) = self.experiments.get_mut(id.experiment.0) else {
            return;
        };
        if experiment.runs.len() + 1 != id.number as usize {
            return;
        }
        self.runs += 1;
        if run.awaits_processing() {
            Arc::make_mut(&mut self.unprocessed).insert(id);
        }
        if run.has_commands_here(&self.rules) {
            Arc::make_mut(&mut self.unacted).insert(id);
        }
        if run.waits_for_others() {
            Arc::make_mut(&mut self.waiting).insert(id);
        }
        self.join_batch(&run);
        let share = Share::of(&run);
        if share.left {
            self.left.set(id.experiment.0, true);
        }
        if run.is_active() {
            self.active.set(id.experiment.0, true);
        }
        self.count(&share, true);
        let Some(experiment) = self.experiments.get_mut(id.experiment.0) else {
            return;
        };
        self.tokens.put(*run.made.token.as_bytes(), Some(id));
        experiment.revision = revision;
        // Most have one run; by itself the first would take the room of four.
        if experiment.runs.is_empty() {
            experiment.runs.reserve_exact(1);
        }
        experiment.runs.push(run);
    }

    fn change_run(&mut self, id: RunId, change: impl FnOnce(&mut Run)) {
        let revision = self.revision;
        let Some(experiment) = self.experiments.get_mut(id.experiment.0) else {
            return;
        };
        let Some(run) = (id.number as usize)
            .checked_sub(1)
            .and_then(|index| experiment.runs.get_mut(index))
        else {
            return;
        };
        let before = Share::of(run);
        change(run);
        let after = (!before.same(run)).then(|| Share::of(run));
        let waits = run.awaits_processing();
        let needs = run.waits_for_others();
        let acts = run.has_commands_here(&self.rules);
        experiment.revision = revision;
        if after.is_some() {
            let is_active = experiment.runs.iter().any(Run::is_active);
            self.active.set(id.experiment.0, is_active);
            let is_left = experiment.runs.iter().any(Run::is_left_behind);
            self.left.set(id.experiment.0, is_left);
        }
        for (index, is_in) in [
            (&mut self.waiting, needs),
            (&mut self.unprocessed, waits),
            (&mut self.unacted, acts),
        ] {
            if is_in != index.contains(&id) {
                let index = Arc::make_mut(index);
                if is_in {
                    index.insert(id)
                } else {
                    index.remove(&id)
                };
            }
        }
        if let Some(after) = after {
            self.count(&before, false);
            self.count(&after, true);
        }
    }

    /// Adds a run to the counts, or subtracts it.
    fn count(&mut self, share: &Share, add: bool) {
        let step = |number: &mut u64, counts: bool| {
            if add {
                *number += u64::from(counts);
            } else {
                *number -= u64::from(counts);
            }
        };
        step(&mut self.live, share.live);
        step(&mut self.unplaced, share.unplaced);
        step(&mut self.deferred, share.deferred);
        step(&mut self.apart, share.apart);
        if let Some(batch) = share.batch {
            let count = self.batches.entry(batch);
            if add {
                count.runs += 1;
                count.ended += u32::from(share.ended);
            } else {
                count.runs -= 1;
                count.ended -= u32::from(share.ended);
            }
        }
        let Some(node) = share.node.as_ref().filter(|_| share.open) else {
            return;
        };
        let nodes = Arc::make_mut(&mut self.nodes);
        let count = match nodes.get_mut(node) {
            Some(count) => count,
            None => nodes.entry(node.clone()).or_default(),
        };
        step(&mut count.open, true);
        if share.live {
            step(&mut count.live, true);
            count.cores += if add { share.cores } else { -share.cores };
        }
        if count.live == 0 {
            // Inexact sums leave no trace.
            count.cores = 0.0;
        }
    }

    /// The counts of the batch that begins with this run.
    pub fn batch(&self, first: RunId) -> BatchCount {
        self.batches.get(&first).copied().unwrap_or_default()
    }

    /// The runs of a batch, by experiment.
    pub fn batch_runs(&self, first: RunId) -> impl Iterator<Item = &Run> {
        let runs = self.batch_experiments(first).into_iter();
        let runs = runs.flat_map(|one| one.runs.iter());
        runs.filter(move |run| run.made.batch == Some(first))
    }

    /// The experiments of a batch, by number.
    pub(crate) fn batch_experiments(&self, first: RunId) -> Vec<&Arc<Experiment>> {
        let members = self.batch_members.get(&first).cloned();
        let mut members = members.unwrap_or_default();
        members.set(first.experiment.0, true);
        let members = members.iter();
        members
            .filter_map(|number| self.experiments.get(number))
            .collect()
    }

    /// The counts of a node's runs.
    pub fn on_node(&self, node: &str) -> NodeCount {
        self.nodes.get(node).copied().unwrap_or_default()
    }

    /// Checks the sets of numbers for one experiment.
    fn check_indexes(&self, experiment: &Experiment) {
        assert_eq!(
            self.active.contains(experiment.id.0),
            experiment.runs.iter().any(Run::is_active)
        );
        assert_eq!(
            self.left.contains(experiment.id.0),
            experiment.runs.iter().any(Run::is_left_behind)
        );
        let marks = &experiment.by_hand;
        assert_eq!(
            self.edited.contains(experiment.id.0),
            !marks.overrides.is_empty() || marks.copy_of.is_some()
        );
        let is_listed = self.listed().binary_search(&experiment.id).is_ok();
        assert_eq!(is_listed, experiment.hidden_ms.is_none());
        for run in &experiment.runs {
            if let Some(first) = run
                .made
                .batch
                .filter(|first| first.experiment != experiment.id)
            {
                let members = self.batch_members.get(&first);
                assert!(members.is_some_and(|those| those.contains(experiment.id.0)));
            }
        }
    }

    /// Checks the invariants of every state; tests call it after every step.
    ///
    /// # Panics
    /// When counts, indexes and runs do not match.
    pub fn check_invariants(&self) {
        let (mut runs, mut live, mut unplaced, mut deferred) = (0, 0, 0, 0);
        let mut nodes: BTreeMap<String, NodeCount> = BTreeMap::new();
        let mut batches: BTreeMap<RunId, BatchCount> = BTreeMap::new();
        assert!(
            self.edited
                .iter()
                .chain(self.numbered.iter())
                .all(|id| id <= self.highest)
        );
        // A walk of the test itself does not count as one.
        let all = (1..=self.highest).filter_map(|number| self.experiments.get(number));
        assert_eq!(all.clone().count(), self.experiments.len());
        assert_eq!(self.names.len(), self.experiments.len());
        for experiment in all {
            self.check_indexes(experiment);
            let mut named = self.named(&experiment.definition.name);
            assert!(named.any(|one| one.id == experiment.id));
            // `reserve_exact` may give more, and does not for so large elements.
            let room = experiment.runs.capacity();
            assert!(experiment.runs.len() != 1 || room == 1, "{room}");
            let waiting = experiment.runs.iter().filter(|run| run.phase().is_live());
            let lone = waiting.filter(|run| run.after().is_none()).count();
            assert!(lone <= 1, "{} has {lone} live runs", experiment.id);
            for (index, run) in experiment.runs.iter().enumerate() {
                assert_eq!(run.made.id.experiment, experiment.id);
                assert_eq!(run.made.id.number as usize, index + 1);
                assert_eq!(self.by_token(&run.made.token), Some(run.made.id));
                assert_eq!(run.outcome.ended_ms.is_some(), run.phase().is_end());
                assert!(run.rules.iter().all(|rule| self.rules.contains_key(rule)));
                runs += 1;
                live += u64::from(run.phase().is_live());
                unplaced += u64::from(run.unplaced());
                deferred += u64::from(run.deferred().is_some());
                assert_eq!(self.waiting.contains(&run.made.id), run.waits_for_others());
                if let Some(first) = run.made.counts_in() {
                    let count = batches.entry(first).or_default();
                    count.runs += 1;
                    count.ended += u32::from(run.has_ended());
                }
                if let Some(node) = run.node().filter(|_| run.open()) {
                    let count = nodes.entry(node.to_owned()).or_default();
                    count.open += 1;
                    count.live += u64::from(run.phase().is_live());
                }
            }
        }
        assert_eq!(
            (runs, live, unplaced, deferred),
            (self.runs, self.live, self.unplaced, self.deferred)
        );
        for (first, count) in batches {
            assert_eq!(self.batch(first), count, "of the batch {first}");
        }
        for (node, count) in self.nodes.iter() {
            let seen = nodes.get(node).copied().unwrap_or_default();
            assert_eq!(
                (seen.open, seen.live),
                (count.open, count.live),
                "of {node}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::definition;

    fn described(state: &mut State, id: u64, name: &str) {
        let record = ExperimentRecord::new(ExperimentId(id), definition(name, "1"), 1, 0);
        state.apply(&Change::Experiment(Arc::new(record)));
        state.check_invariants();
    }

    fn named(state: &State, name: &str) -> Vec<u64> {
        state.named(name).map(|one| one.id.0).collect()
    }

    #[test]
    fn an_experiment_is_found_by_its_present_name_alone() {
        let mut state = State::default();
        for id in [2, 1, 3] {
            described(&mut state, id, "a");
        }
        let before = state.clone();
        described(&mut state, 2, "b");
        assert_eq!(named(&before, "a"), [1, 2, 3]);
        assert_eq!(named(&state, "a"), [1, 3]);
        assert_eq!(named(&state, "b"), [2]);
    }

    #[test]
    fn names_of_one_hash_are_told_apart() {
        let mut state = State::default();
        described(&mut state, 1, "a");
        described(&mut state, 2, "b");
        // As if `b` had the hash of `a`.
        state.names.put("a", ExperimentId(2));
        assert_eq!(named(&state, "a"), [1]);
    }
}
