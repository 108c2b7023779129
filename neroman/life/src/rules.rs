//! Rules that are added and removed by hand: for live runs at once, for later
//! ones with the experiment.

use std::collections::BTreeMap;
use std::sync::Arc;

use nero_expr::{Asked, Expr, ExprError, ParseContext};
use nero_model::ExperimentId;

use super::change::{Change, Described, Rule};
use super::experiment::Experiment;
use super::input::Input;
use super::now::Now;
use super::run::Run;
use super::scope::Sight;
use super::start::identify;
use super::state::State;
use super::step::{fits, step};

/// Adds a rule to the picked experiments; returns its id.
pub fn add(state: &State, picked: &[ExperimentId], rule: Rule, now_ms: i64) -> (u64, Vec<Change>) {
    let mut fresh = Vec::new();
    let id = identify(state, &mut fresh, rule);
    let mut changes: Vec<Change> = fresh
        .into_iter()
        .map(|rule: Rule| Change::Rule(Arc::new(rule)))
        .collect();
    for experiment in picked.iter().filter_map(|id| state.experiment(*id)) {
        if !experiment.extra_rules.contains(&id) {
            let with = appended(&experiment.extra_rules, id);
            changes.push(extra(experiment, with));
        }
        if let Some(run) = live(experiment).filter(|run| !run.rules.contains(&id)) {
            changes.extend(in_force(run, appended(&run.rules, id), now_ms));
        }
    }
    (id, changes)
}

/// Rules that cannot apply to some of the experiments that have them: off there
/// alone, while their other rules stand.
#[derive(Debug, Default)]
pub struct Off {
    parsed: BTreeMap<u64, Result<Expr, ExprError>>,
    /// By text, place in a file, and reason.
    found: BTreeMap<(String, String, String), Vec<ExperimentId>>,
}

impl Off {
    /// Checks one rule of one experiment. `place` is the file and line of the rule;
    /// empty for a rule that a person gives on the command line.
    pub fn look(&mut self, rule: u64, text: &str, place: &str, experiment: &Experiment) {
        let parsed = self
            .parsed
            .entry(rule)
            .or_insert_with(|| Expr::parse(text, &ParseContext::utc(0).standing()));
        let params = &experiment.definition.params;
        let names = params.iter().map(|param| param.name.as_str());
        let problem = match parsed {
            Ok(expr) if expr.check_place(names.clone()).is_err() => expr.check_place(names).err(),
            // A metric may come with the run; only a parameter is missed before
            // it.
            Ok(expr)
                if expr
                    .unbound_names()
                    .iter()
                    .all(|name| name.asked != Asked::Param) =>
            {
                None
            }
            Ok(expr) => expr
                .bind(&Sight::defined(experiment, &Now::default()))
                .err(),
            Err(error) => Some(error.clone()),
        };
        if let Some(problem) = problem {
            let key = (text.to_owned(), place.to_owned(), problem.to_string());
            self.found.entry(key).or_default().push(experiment.id);
        }
    }

    /// A line for each rule and reason.
    pub fn notes(&self) -> Vec<String> {
        let found = self.found.iter();
        found
            .map(|((text, place, why), ids)| {
                let named: Vec<String> = ids
                    .iter()
                    .take(NAMED_MAX)
                    .map(ToString::to_string)
                    .collect();
                let named = named.join(", ");
                let more = match ids.len().saturating_sub(NAMED_MAX) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let at = match place.as_str() {
                    "" => String::new(),
                    place => format!(" ({place})"),
                };
                format!("rule `{text}` is off in {named}{more}: {why}; its other rules stand{at}")
            })
            .collect()
    }
}

/// Most experiments that a note names.
const NAMED_MAX: usize = 8;

/// The result of removing a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The experiment never had it.
    NotThere,
    /// The rule is removed, for later runs, too.
    Gone,
    /// The rule is removed from the live run; the definition still has it.
    FromRunOnly,
}

/// Removes a rule from an experiment and its live run.
pub fn remove(experiment: &Experiment, id: u64, now_ms: i64) -> (Removed, Vec<Change>) {
    let mut changes = Vec::new();
    let by_hand = experiment.extra_rules.contains(&id);
    if by_hand {
        changes.push(extra(experiment, without(&experiment.extra_rules, id)));
    }
    if let Some(run) = live(experiment).filter(|run| run.rules.contains(&id)) {
        changes.extend(in_force(run, without(&run.rules, id), now_ms));
    }
    let removed = match (by_hand, changes.is_empty()) {
        (true, _) => Removed::Gone,
        (false, false) => Removed::FromRunOnly,
        (false, true) => Removed::NotThere,
    };
    (removed, changes)
}

fn live(experiment: &Experiment) -> Option<&Run> {
    experiment.live().next()
}

fn appended(ids: &[u64], id: u64) -> Arc<[u64]> {
    ids.iter().copied().chain([id]).collect()
}

fn without(ids: &[u64], id: u64) -> Arc<[u64]> {
    ids.iter().copied().filter(|one| *one != id).collect()
}

fn in_force(run: &Run, ids: Arc<[u64]>, now_ms: i64) -> Vec<Change> {
    fits(step(run, &Input::Rules { ids }, now_ms))
}

fn extra(experiment: &Experiment, extra_rules: Arc<[u64]>) -> Change {
    Change::Experiment(Arc::new(Described {
        extra_rules,
        ..Described::of(experiment)
    }))
}
