//! Rules added and taken away by hand: for live runs at once, for later ones
//! with the experiment.

use std::sync::Arc;

use nero_model::ExperimentId;

use super::change::{Change, Described, Rule};
use super::experiment::Experiment;
use super::run::Run;
use super::start::identify;
use super::state::State;

/// Adds a rule to the picked experiments; returns its id.
pub(crate) fn add(
    state: &State,
    picked: &[ExperimentId],
    action: &str,
    text: &str,
    author: &str,
) -> (u64, Vec<Change>) {
    let mut fresh = Vec::new();
    let id = identify(state, &mut fresh, action, text, author, "rule add");
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
            changes.push(next_version(run, appended(&run.rules, id)));
        }
    }
    (id, changes)
}

/// What taking a rule away did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    /// The experiment never had it.
    NotThere,
    /// It is gone, for later runs, too.
    Gone,
    /// It is gone from the live run; the definition still has it.
    FromRunOnly,
}

/// Takes a rule away from an experiment and its live run.
pub(crate) fn remove(experiment: &Experiment, id: u64) -> (Removed, Vec<Change>) {
    let mut changes = Vec::new();
    let by_hand = experiment.extra_rules.contains(&id);
    if by_hand {
        changes.push(extra(experiment, without(&experiment.extra_rules, id)));
    }
    if let Some(run) = live(experiment).filter(|run| run.rules.contains(&id)) {
        changes.push(next_version(run, without(&run.rules, id)));
    }
    let removed = match (by_hand, changes.is_empty()) {
        (true, _) => Removed::Gone,
        (false, false) => Removed::FromRunOnly,
        (false, true) => Removed::NotThere,
    };
    (removed, changes)
}

fn live(experiment: &Experiment) -> Option<&Run> {
    experiment.newest().filter(|run| run.phase().is_live())
}

fn appended(ids: &[u64], id: u64) -> Arc<[u64]> {
    ids.iter().copied().chain([id]).collect()
}

fn without(ids: &[u64], id: u64) -> Arc<[u64]> {
    ids.iter().copied().filter(|one| *one != id).collect()
}

fn next_version(run: &Run, rules: Arc<[u64]>) -> Change {
    let mut desk = run.desk.clone();
    desk.rules_version += 1;
    Change::Desk {
        run: run.made.id,
        desk: Box::new(desk),
        rules: Some(rules),
    }
}

fn extra(experiment: &Experiment, extra_rules: Arc<[u64]>) -> Change {
    Change::Experiment(Arc::new(Described {
        id: experiment.id,
        definition: Arc::clone(&experiment.definition),
        fingerprint: Arc::clone(&experiment.fingerprint),
        source: experiment.source,
        gone: experiment.gone,
        created_ms: experiment.created_ms,
        modified_ms: experiment.modified_ms,
        extra_rules,
    }))
}
