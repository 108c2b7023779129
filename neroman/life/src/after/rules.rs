//! Rules that are added and removed by hand: for live runs at once, for later
//! ones with the experiment.

use std::collections::BTreeMap;
use std::sync::Arc;

use nero_expr::{Doubt, Expr, ExprError, NameForm, ParseContext};
use nero_model::ExperimentId;

use super::acts;
use crate::facts::now::PresentTime;
use crate::fold::change::{Change, ExperimentRecord, Rule};
use crate::fold::experiment::Experiment;
use crate::fold::run::Run;
use crate::fold::scope::Sight;
use crate::fold::state::State;
use crate::step::in_force::identify;
use crate::step::input::Input;
use crate::step::{fits, step};

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
pub struct InapplicableRules {
    parsed: BTreeMap<u64, Result<Expr, ExprError>>,
    /// By text, place in a file, and reason.
    found: BTreeMap<(String, String, String), (ExprError, Vec<ExperimentId>)>,
    /// Rules that stand and are in doubt, likewise.
    doubted: BTreeMap<(String, String, String), (Doubt, Vec<ExperimentId>)>,
}

impl InapplicableRules {
    /// Checks one rule of one experiment. `place` is the file and line of the rule;
    /// empty for a rule that a person gives on the command line.
    pub fn check(&mut self, rule: u64, text: &str, place: &str, experiment: &Experiment) {
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
                    .all(|name| name.asked != NameForm::Param) =>
            {
                None
            }
            Ok(expr) => expr
                .bind(&Sight::defined(experiment, &PresentTime::default()))
                .err(),
            Err(error) => Some(error.clone()),
        };
        let key = |why: &ExprError| (text.to_owned(), place.to_owned(), why.to_string());
        if let Some(problem) = problem {
            let found = self.found.entry(key(&problem));
            found
                .or_insert_with(|| (problem, Vec::new()))
                .1
                .push(experiment.id);
        } else if let Ok(expr) = parsed
            && let Some(doubt) = expr.doubt(&Sight::defined(experiment, &PresentTime::default()))
        {
            let doubted = self.doubted.entry(key(&doubt.error));
            doubted
                .or_insert_with(|| (doubt, Vec::new()))
                .1
                .push(experiment.id);
        }
    }

    /// The reason why the only rule that was looked at can never hold in any of so many
    /// experiments.
    pub fn never_holds(&self, experiments: usize) -> Option<&ExprError> {
        let certain = self.doubted.values().filter(|(doubt, _)| doubt.is_certain);
        let certain = certain.map(|(doubt, ids)| (&doubt.error, ids.len()));
        let off = self.found.values().map(|(error, ids)| (error, ids.len()));
        let all = certain.chain(off);
        let count: usize = all.clone().map(|(_, count)| count).sum();
        let (error, _) = all.max_by_key(|(_, count)| *count)?;
        (count == experiments).then_some(error)
    }

    /// A line for each rule and reason.
    pub fn notes(&self) -> Vec<String> {
        let off = self.found.iter().map(|((text, place, why), (_, ids))| {
            let (ids, at) = (named(ids), at(place));
            format!("rule `{text}` is off in {ids}: {why}; the other rules there stay in force{at}")
        });
        let doubted = self.doubted.iter();
        let doubted = doubted.map(|((text, place, why), (doubt, ids))| {
            let (ids, at) = (named(ids), at(place));
            let what = if doubt.is_certain {
                "never holds"
            } else {
                "may never hold"
            };
            let hint = match &doubt.error.hint {
                Some(hint) => format!(" ({hint})"),
                None => String::new(),
            };
            format!("rule `{text}` {what} in {ids}: {why}{hint}{at}")
        });
        off.chain(doubted).collect()
    }
}

/// The numbers of some experiments; many are counted.
fn named(ids: &[ExperimentId]) -> String {
    let named = ids.iter().take(NAMED_MAX).map(ToString::to_string);
    let named: Vec<String> = named.collect();
    let named = named.join(", ");
    match ids.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn at(place: &str) -> String {
    match place {
        "" => String::new(),
        place => format!(" ({place})"),
    }
}

/// Most experiments that a note names.
const NAMED_MAX: usize = 8;

/// The result of removing a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleRemoval {
    /// The experiment never had it.
    NotThere,
    /// The rule is removed, for later runs, too.
    Gone,
    /// The rule is removed from the live run; the definition still has it.
    FromRunOnly,
}

/// Removes a rule from an experiment and its live run.
pub fn remove(
    state: &State,
    experiment: &Experiment,
    id: u64,
    now_ms: i64,
) -> (RuleRemoval, Vec<Change>) {
    let mut changes = Vec::new();
    let by_hand = experiment.extra_rules.contains(&id);
    if by_hand {
        changes.push(extra(experiment, without(&experiment.extra_rules, id)));
    }
    if let Some(run) = live(experiment).filter(|run| run.rules.contains(&id)) {
        changes.extend(in_force(run, without(&run.rules, id), now_ms));
    }
    let why = "not run: the rule was removed";
    let runs = experiment.runs.iter();
    changes.extend(runs.filter_map(|run| acts::forget(state, run, id, why, now_ms)));
    let removed = match (by_hand, changes.is_empty()) {
        (true, _) => RuleRemoval::Gone,
        (false, false) => RuleRemoval::FromRunOnly,
        (false, true) => RuleRemoval::NotThere,
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
    Change::Experiment(Arc::new(ExperimentRecord {
        extra_rules,
        ..ExperimentRecord::of(experiment)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Lab, definition};

    #[test]
    fn a_rule_that_can_never_hold_is_told_where_it_cannot() {
        let mut lab = Lab::default();
        let mut flagged = definition("b", "0.1");
        flagged.params[0].name = "fast".to_owned();
        flagged.params[0].value = nero_format::Value::Bool(true);
        lab.add("/lab", vec![definition("a", "0.1"), flagged]);
        let mut off = InapplicableRules::default();
        for id in [1, 2] {
            let experiment = lab.state.experiment(ExperimentId(id)).unwrap();
            off.check(1, "fast && (loss > 1)", "", experiment);
            off.check(2, "exit_code != 0", "", experiment);
        }
        assert_eq!(off.never_holds(2), None, "it can hold in 2");
        assert_eq!(
            off.notes(),
            [
                "rule `exit_code != 0` may never hold in 1, 2: `exit_code` is no fact or parameter \
                 (did you mean `exit`? a metric is written `metric.exit_code`)",
                "rule `fast && (loss > 1)` never holds in 1: no parameter is called `fast` \
                 (a metric is compared: `fast > …`)"
            ]
        );
        let mut off = InapplicableRules::default();
        for id in [1, 2] {
            let experiment = lab.state.experiment(ExperimentId(id)).unwrap();
            off.check(1, "lr && fast == 'slow'", "", experiment);
        }
        assert!(off.never_holds(2).is_some(), "for two reasons");
        let only = lab.state.experiment(ExperimentId(1)).unwrap();
        let mut off = InapplicableRules::default();
        off.check(1, "fast && (loss > 1)", "", only);
        assert!(off.never_holds(1).is_some());
    }
}
