//! Dependencies that cannot be.

use std::collections::HashSet;
use std::sync::Arc;

use nero_format::{Definition, EditMistake, experiment_number};
use nero_model::ExperimentId;

use crate::fold::change::{Change, ExperimentRecord};
use crate::fold::experiment::Experiment;
use crate::fold::groups::{groups, is_meant, is_present, members, named, names, names_a_number};
use crate::fold::state::State;

/// The dependencies that cannot be, of the experiments that these changes describe: on an
/// experiment that does not exist, on itself, on one that waits for it. Names that stand in a
/// source were looked at when it was read; those that a value makes which a person set were not.
pub(crate) fn impossible(state: &State, changes: &[Change]) -> Vec<(String, EditMistake)> {
    let needs = |definition: &Definition| {
        let precedence = &definition.precedence;
        groups(precedence).next().is_some() || names(precedence).next().is_some()
    };
    let described = changes.iter().filter_map(|change| match change {
        Change::Experiment(one) if needs(&one.definition) => Some(one),
        _ => None,
    });
    let described: Vec<_> = described.collect();
    let mut found = Vec::new();
    // Where all is by name, each source has been looked at by itself. A circle over several has a
    // number in it, and any of its members may close it.
    let has_number = !described.is_empty() && state.has_numbered()
        || (described.iter()).any(|one| names_a_number(&one.definition.precedence));
    let set_now = |one: &ExperimentRecord| {
        let before = state.experiment(one.id);
        let known = before.map_or(&[][..], |before| &before.by_hand.overrides);
        let precedence = before.map(|before| &before.definition.precedence);
        one.by_hand.overrides != known && precedence != Some(&one.definition.precedence)
    };
    let is_looked_at = |one: &&Arc<ExperimentRecord>| has_number || set_now(one);
    let described = described.into_iter().filter(is_looked_at);
    let described: Vec<(ExperimentId, bool)> =
        described.map(|one| (one.id, set_now(one))).collect();
    if described.is_empty() {
        return found;
    }
    let mut prospect = state.clone();
    for change in changes {
        prospect.apply(change);
    }
    let state = &prospect;
    for (id, is_set) in described {
        let Some(one) = state.experiment(id) else {
            continue;
        };
        let mistake = |message: String, hint: &str| {
            let place = one.definition.place.to_string();
            (place, EditMistake::new(message, hint))
        };
        let name = &one.definition.name;
        let apart = &one.definition.precedence.place.apart_from;
        for other in names(&one.definition.precedence) {
            let (message, hint) = match experiment_number(other) {
                Some(number) if number == one.id.0 && !apart.iter().any(|one| one == other) => {
                    (format!("`{name}` depends on itself ({number})"), "")
                }
                Some(number) if state.experiment(ExperimentId(number)).is_none() => (
                    format!("`{name}` depends on experiment {number}, which does not exist"),
                    "`neroman status` shows the numbers",
                ),
                None if is_set && !names_another(state, one, other) => (
                    format!("`{name}` depends on `{other}`, which is no experiment of its source"),
                    "`depends_on` and `place` name experiments with the value that was set",
                ),
                Some(_) | None => continue,
            };
            found.push(mistake(message, hint));
        }
        if found.is_empty()
            && let Some(between) = leads_back(state, one)
        {
            let message = format!("`{name}` depends on `{between}`, which waits for it");
            found.push(mistake(message, "none of them could ever start"));
        }
    }
    found
}

/// Whether a word of an experiment means another one, or for `apart_from` itself.
fn names_another(state: &State, one: &Experiment, word: &str) -> bool {
    let apart = &one.definition.precedence.place.apart_from;
    let mut all = named(state, one.source, word).filter(|other| is_present(other));
    if apart.iter().any(|apart| apart == word) {
        all.next().is_some()
    } else {
        all.any(|other| other.id != one.id && is_meant(other, word))
    }
}

/// The name of an experiment that this one depends on and that depends on it.
fn leads_back<'a>(state: &'a State, from: &'a Experiment) -> Option<&'a str> {
    let mut seen = HashSet::from([from.id]);
    let mut looked = HashSet::new();
    let mut open = vec![from];
    while let Some(one) = open.pop() {
        for group in groups(&one.definition.precedence) {
            // The first one's own group may be a glob that means itself.
            if one.id != from.id && !looked.insert((one.source, group)) {
                continue;
            }
            let members = members(state, one.source, group);
            for next in members.filter(|next| is_present(next)) {
                if next.id == from.id && one.id != from.id {
                    return Some(&one.definition.name);
                }
                if seen.insert(next.id) {
                    open.push(next);
                }
            }
        }
    }
    None
}
