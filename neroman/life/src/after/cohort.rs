//! Aggregates over the peers of runs: `median(peers.loss@10)`.
//!
//! Peers of a run are the newest runs of the other experiments of its cohort: its block,
//! or those with the same `cohort:`. [`Cohorts`] keeps the number of each peer, and looks
//! only at runs that reported since. A new number becomes an [`Input`] of the runs whose
//! rules name it, and goes to their watchers with the next version of these rules.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use nero_expr::{Cohort, Expr, Fact, NameKind, ParseContext, Past, Scope, Value};
use nero_model::{ExperimentId, RunId};

use crate::facts::journal::Journal;
use crate::facts::now::PresentTime;
use crate::facts::peers::PeersNumber;
use crate::facts::series::Pasts;
use crate::fold::change::Rule;
use crate::fold::experiment::Experiment;
use crate::fold::pasts;
use crate::fold::run::Run;
use crate::fold::scope::Sight;
use crate::fold::state::State;
use crate::step::input::Input;

/// A run gets new numbers at most this often.
pub const EVERY_MS: i64 = 10_000;

/// What experiments of one cohort have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum CohortKey<'a> {
    Named(&'a str),
    /// Source and block.
    Block(u64, &'a str),
}

impl<'a> CohortKey<'a> {
    pub(crate) fn of(experiment: &'a Experiment) -> Self {
        match &*experiment.definition.cohort {
            Some(name) => Self::Named(name),
            None => Self::Block(experiment.source, &experiment.definition.block),
        }
    }
}

/// A cohort that has a live run whose rules ask for it.
#[derive(Debug, Default)]
struct PeerGroup<'a> {
    /// By text.
    aggregates: BTreeMap<&'a str, &'a Cohort>,
    /// The runs that ask, with their rules.
    asking: Vec<(&'a Run, Vec<&'a Expr>)>,
    peers: Vec<(&'a Experiment, &'a Run)>,
}

/// The numbers of one peer, from what it reported.
#[derive(Debug)]
struct Peer {
    journal: Arc<Journal>,
    /// Version of what was made of its outputs.
    processed: u32,
    /// By text of the aggregate.
    numbers: HashMap<Box<str>, Option<f64>>,
    /// Values at steps that the run has passed: these do not change any more.
    passed: StepValues,
}

/// Values at steps by metric and step.
type StepValues = HashMap<(Box<str>, u64), Option<f64>>;

/// All cohorts, and what is known of their peers.
#[derive(Debug, Default)]
pub struct Cohorts {
    seen: Arc<BTreeMap<u64, Arc<Rule>>>,
    /// The rules with aggregates over peers.
    rules: HashMap<u64, Expr>,
    peers: HashMap<RunId, Peer>,
}

/// What a look at all cohorts comes to.
#[derive(Debug, Default)]
pub struct CohortUpdate {
    pub inputs: Vec<(RunId, Input)>,
    /// When a number that came too soon after the last one may be sent.
    pub due_ms: Option<i64>,
}

impl Cohorts {
    /// The series whose points are needed before [`Cohorts::fold`].
    pub fn wanted(&mut self, state: &State) -> Pasts {
        self.read_rules(state);
        let mut wanted = Pasts::default();
        for group in groups(&self.rules, state).values() {
            for (_, run) in &group.peers {
                let known = self.peers.get(&run.made.id);
                let known = known.filter(|known| known.is_of(run));
                let fresh =
                    |text: &str| known.is_none_or(|known| !known.numbers.contains_key(text));
                let passed = self.peers.get(&run.made.id).map(|known| &known.passed);
                let asked = group.aggregates.values().filter(|one| fresh(one.text()));
                for (metric, step) in asked.flat_map(|one| passed_steps(one, run)) {
                    let key = (metric.into(), step.to_bits());
                    if passed.is_none_or(|passed| !passed.contains_key(&key)) {
                        wanted.want(run.made.id, metric, Past::At(step));
                    }
                }
            }
        }
        wanted
    }

    /// Folds all cohorts of the state that [`Cohorts::wanted`] saw; `now` has the points.
    pub fn fold(&mut self, state: &State, now: &PresentTime) -> CohortUpdate {
        let Self { rules, peers, .. } = self;
        let groups = groups(rules, state);
        let mut folded = CohortUpdate::default();
        let mut met: HashSet<RunId> = HashSet::new();
        for group in groups.values() {
            for (experiment, run) in &group.peers {
                let id = run.made.id;
                met.insert(id);
                let known = peers.entry(id).or_insert_with(|| Peer::of(run));
                known.follow(run);
                for aggregate in group.aggregates.values() {
                    known.add_number(aggregate, experiment, run, now);
                }
            }
            group.fold(peers, now.ms, &mut folded);
        }
        peers.retain(|id, _| met.contains(id));
        folded
    }

    fn read_rules(&mut self, state: &State) {
        if Arc::ptr_eq(&self.seen, &state.rules) {
            return;
        }
        let context = ParseContext::utc(0).standing();
        for (id, rule) in state.rules.iter() {
            if !self.seen.contains_key(id)
                && rule.text.contains("peers.")
                && let Ok(expr) = Expr::parse(&rule.text, &context)
                && !expr.cohorts().is_empty()
            {
                self.rules.insert(*id, expr);
            }
        }
        self.seen = Arc::clone(&state.rules);
    }
}

/// The cohorts that live runs ask for.
fn groups<'a>(
    rules: &'a HashMap<u64, Expr>,
    state: &'a State,
) -> HashMap<CohortKey<'a>, PeerGroup<'a>> {
    let mut groups: HashMap<CohortKey<'_>, PeerGroup<'_>> = HashMap::new();
    if rules.is_empty() || state.live == 0 {
        return groups;
    }
    for experiment in state.active() {
        for run in experiment.live().filter(|run| run.takes_peers()) {
            // An older watcher has such a rule off.
            let off = &run.journal.rules_off;
            let standing = run.rules.iter().filter(|id| !off.contains_key(id));
            let asking: Vec<&Expr> = standing.filter_map(|id| rules.get(id)).collect();
            if asking.is_empty() {
                continue;
            }
            let group = groups.entry(CohortKey::of(experiment)).or_default();
            let aggregates = asking.iter().flat_map(|rule| rule.cohorts());
            (group.aggregates).extend(aggregates.map(|one| (one.text(), one)));
            group.asking.push((run, asking));
        }
    }
    if groups.is_empty() {
        return groups;
    }
    for experiment in state.experiments.iter() {
        let is_left_out = experiment.hidden_ms.is_some() || experiment.is_gone();
        let newest = experiment.newest();
        if let Some(run) = newest.filter(|_| !is_left_out || experiment.is_live())
            && let Some(group) = groups.get_mut(&CohortKey::of(experiment))
        {
            group.peers.push((experiment, run));
        }
    }
    groups
}

/// The metrics and steps of an aggregate that a run has passed.
fn passed_steps<'a>(aggregate: &'a Cohort, run: &'a Run) -> impl Iterator<Item = (&'a str, f64)> {
    let asked = aggregate.of_each().named_pasts();
    let at = asked.filter_map(|(name, past)| match past {
        Past::At(step) => Some((name, step)),
        Past::Over { .. } => None,
    });
    at.flat_map(|(name, step)| {
        let metrics = run.metrics();
        let means = metrics.filter(move |(metric, _)| pasts::means(name, metric));
        means
            .filter(move |(_, known)| known.step >= step)
            .map(move |(metric, _)| (metric.as_str(), step))
    })
}

impl PeerGroup<'_> {
    /// Makes the inputs of the runs that ask.
    fn fold(&self, peers: &HashMap<RunId, Peer>, now_ms: i64, folded: &mut CohortUpdate) {
        let mut own: HashMap<ExperimentId, &Peer> = HashMap::new();
        for (experiment, run) in &self.peers {
            own.extend(peers.get(&run.made.id).map(|known| (experiment.id, known)));
        }
        let numbers = |text: &str| {
            let numbers = own.values().filter_map(|known| known.number(text));
            let mut numbers: Vec<f64> = numbers.collect();
            numbers.sort_unstable_by(f64::total_cmp);
            numbers
        };
        let sorted: HashMap<&str, Vec<f64>> = (self.aggregates.keys())
            .map(|text| (*text, numbers(text)))
            .collect();
        for (run, rules) in &self.asking {
            let mut told: Vec<PeersNumber> = Vec::new();
            for aggregate in rules.iter().flat_map(|rule| rule.cohorts()) {
                let text = aggregate.text();
                if told.iter().any(|one| one.text == text) {
                    continue;
                }
                let known = own.get(&run.made.id.experiment);
                let own = known.and_then(|known| known.number(text));
                let (value, peers) = aggregate.fold(&sorted[text], own);
                told.push(PeersNumber {
                    text: text.to_owned(),
                    value,
                    peers,
                    at_ms: now_ms,
                });
            }
            let before = run.peers();
            let is_same = before.len() == told.len()
                && before
                    .iter()
                    .zip(&told)
                    .all(|(one, other)| one.says_the_same(other));
            // What was never sent is unknown, too.
            let is_nothing = before.is_empty() && told.iter().all(|one| one.value.is_none());
            if is_same || is_nothing {
                continue;
            }
            let last_ms = before.iter().map(|one| one.at_ms).max();
            // A later moment is from before a step of the clock.
            let due_ms = last_ms.filter(|last_ms| *last_ms <= now_ms);
            match due_ms.map(|last_ms| last_ms + EVERY_MS) {
                Some(due_ms) if due_ms > now_ms => {
                    let first = folded.due_ms.map_or(due_ms, |known| known.min(due_ms));
                    folded.due_ms = Some(first);
                }
                Some(_) | None => {
                    let numbers = told.into();
                    folded.inputs.push((run.made.id, Input::Peers { numbers }));
                }
            }
        }
    }
}

impl Peer {
    fn of(run: &Run) -> Self {
        Self {
            journal: Arc::clone(&run.journal),
            processed: processed(run),
            numbers: HashMap::new(),
            passed: HashMap::new(),
        }
    }

    fn is_of(&self, run: &Run) -> bool {
        Arc::ptr_eq(&self.journal, &run.journal) && self.processed == processed(run)
    }

    /// Forgets numbers from before the run's last report.
    fn follow(&mut self, run: &Run) {
        if !self.is_of(run) {
            self.numbers.clear();
            self.journal = Arc::clone(&run.journal);
            self.processed = processed(run);
        }
    }

    fn number(&self, text: &str) -> Option<f64> {
        self.numbers.get(text).copied().flatten()
    }

    fn add_number(
        &mut self,
        aggregate: &Cohort,
        experiment: &Experiment,
        run: &Run,
        now: &PresentTime,
    ) {
        if self.numbers.contains_key(aggregate.text()) {
            return;
        }
        for (metric, step) in passed_steps(aggregate, run) {
            let read = || pasts::answer(run, metric, Past::At(step), now);
            let key = (metric.into(), step.to_bits());
            self.passed.entry(key).or_insert_with(read);
        }
        let sight = PeerSight {
            sight: Sight {
                experiment,
                run: Some(run),
                now,
            },
            passed: &self.passed,
        };
        let number = aggregate.number_of(&sight);
        self.numbers.insert(aggregate.text().into(), number);
    }
}

fn processed(run: &Run) -> u32 {
    run.processed().map_or(0, |made| made.version)
}

/// A peer with the values at steps that it has passed.
struct PeerSight<'a> {
    sight: Sight<'a>,
    passed: &'a StepValues,
}

impl Scope for PeerSight<'_> {
    fn now_ms(&self) -> i64 {
        self.sight.now_ms()
    }

    fn fact(&self, fact: Fact) -> Value<'_> {
        self.sight.fact(fact)
    }

    fn param(&self, name: &str) -> Value<'_> {
        self.sight.param(name)
    }

    fn metric(&self, name: &str) -> Option<f64> {
        self.sight.metric(name)
    }

    fn past(&self, name: &str, past: Past) -> Option<f64> {
        match past {
            Past::At(step) => *self.passed.get(&(name.into(), step.to_bits()))?,
            Past::Over { .. } => self.sight.past(name, past),
        }
    }

    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        self.sight.visit_names(visit);
    }
}
