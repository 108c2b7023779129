//! The rules in force of one run, and what its node has of them.

use std::sync::Arc;

use nero_model::paths::run::RULES_VERSION_MAX;

use super::late::{LateInput, StepResult};
use crate::facts::peers::PeersNumber;
use crate::fold::change::{Change, Rule, dispatch_changed};
use crate::fold::experiment::Experiment;
use crate::fold::run::Run;
use crate::fold::state::State;

/// Records that the rules which were sent as `version` lie on the run's node as `kept`.
/// Rules that were changed since then get a version above that one.
pub(crate) fn delivered(run: &Run, version: u64, kept: u64) -> Option<Change> {
    let changed = run.rules_version() > version;
    dispatch_changed(run, |dispatch| {
        dispatch.rules_delivered = dispatch.rules_delivered.max(version);
        if (version + 1..RULES_VERSION_MAX).contains(&kept) {
            dispatch.rules_version = dispatch.rules_version.max(kept + u64::from(changed));
            dispatch.rules_delivered = kept;
        }
    })
}

/// Puts new aggregates over its peers in force, with the next version of its rules.
pub(crate) fn folded(run: &Run, numbers: &Arc<[PeersNumber]>) -> StepResult {
    if !run.takes_peers() {
        return Err(LateInput);
    }
    let changed = dispatch_changed(run, |dispatch| {
        dispatch.rules_version = run.rules_version().saturating_add(1);
        dispatch.peers = numbers.to_vec();
    });
    Ok(changed.into_iter().collect())
}

/// Puts these rules in force, with the next version.
pub(crate) fn changed(run: &Run, ids: &Arc<[u64]>) -> Change {
    let mut dispatch = run.dispatch.clone();
    dispatch.rules_version = run.rules_version().saturating_add(1);
    Change::Dispatch {
        run: run.made.id,
        dispatch: Box::new(dispatch),
        rules: Some(Arc::clone(ids)),
    }
}

/// The rules of a new run: those of its definition, then those added by hand.
/// New rules get ids from `next` on and are returned, too.
pub fn rules(state: &State, experiment: &Experiment, fresh: &mut Vec<Rule>) -> Vec<u64> {
    let defined = experiment.definition.rules.iter();
    let mut ids: Vec<u64> = defined
        .map(|rule| identify(state, fresh, Rule::of(rule, "", &rule.place.to_string())))
        .collect();
    ids.extend(experiment.extra_rules.iter().copied());
    let mut seen = std::collections::HashSet::new();
    ids.retain(|id| seen.insert(*id));
    ids
}

/// The id of a rule; a new one if there is none like it.
pub fn identify(state: &State, fresh: &mut Vec<Rule>, mut rule: Rule) -> u64 {
    let mut known = (state.rules.values().map(|known| &**known)).chain(fresh.iter());
    if let Some(known) = known.find(|known| known.is_like(&rule)) {
        return known.id;
    }
    let highest = state.rules.last_key_value().map_or(0, |(id, _)| *id);
    rule.id = highest + 1 + fresh.len() as u64;
    fresh.push(rule);
    highest + fresh.len() as u64
}
