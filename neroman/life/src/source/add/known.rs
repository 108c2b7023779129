//! The experiments that the definitions of sources are, by their origins and by what they say.

use std::collections::HashSet;
use std::sync::Arc;

use nero_model::ExperimentId;

use crate::fold::experiment::{Experiment, Origin};
use crate::fold::state::State;
use crate::fold::taken_over;
use crate::source::add::StampedSource;
use crate::source::identity;

/// A source that was read, with the part of the state that it matches.
pub(super) struct MatchedSource<'a> {
    pub(super) read: &'a StampedSource,
    pub(super) id: u64,
    pub(super) before: Option<&'a Arc<Origin>>,
    /// Its experiments before this reading.
    pub(super) old: Vec<&'a Experiment>,
    /// The experiment of each definition.
    pub(super) pairs: Vec<Option<&'a Experiment>>,
}

/// The known source of each of these, and the experiment of each definition.
pub(super) fn recognised<'a>(
    state: &'a State,
    sources: &'a [StampedSource],
    missing: &HashSet<u64>,
) -> Vec<MatchedSource<'a>> {
    let mut next_origin = state.origins.last_key_value().map_or(1, |(id, _)| id + 1);
    let mut claimed: HashSet<u64> = HashSet::new();
    let mut known = Vec::new();
    for read in sources {
        let before = origin_of(state, read, missing, &claimed);
        if before.is_some_and(|before| !claimed.insert(before.id)) {
            continue; // Named twice in one command.
        }
        let id = before.map_or(next_origin, |origin| origin.id);
        if before.is_none() {
            next_origin += 1;
        }
        let old: Vec<&Experiment> = match before {
            Some(_) => {
                let all = state.of_origin(id).map(|old| &**old);
                all.filter(|old| old.by_hand.copy_of.is_none()).collect()
            }
            None => Vec::new(),
        };
        known.push(MatchedSource {
            pairs: identity::pair(&old, &read.loaded.definitions),
            read,
            id,
            before,
            old,
        });
    }
    known
}

/// The source as which a source was read before, if it was.
pub(crate) fn origin_of<'a>(
    state: &'a State,
    read: &StampedSource,
    missing: &HashSet<u64>,
    claimed: &HashSet<u64>,
) -> Option<&'a Arc<Origin>> {
    known_origin(state, read).or_else(|| moved_from(state, read, missing, claimed))
}

fn known_origin<'a>(state: &'a State, read: &StampedSource) -> Option<&'a Arc<Origin>> {
    let source = &read.loaded.source;
    state.origin_at(&source.path).or_else(|| {
        state
            .origins
            .values()
            .find(|origin| origin.source.file == source.file)
    })
}

/// The missing source that this new one was before its folder was moved or renamed,
/// if they have something in common: first the same file, then the same content,
/// then the same folder's name, then the most in common.
fn moved_from<'a>(
    state: &'a State,
    read: &StampedSource,
    missing: &HashSet<u64>,
    claimed: &HashSet<u64>,
) -> Option<&'a Arc<Origin>> {
    let source = &read.loaded.source;
    let names: HashSet<&str> = (read.loaded.definitions.iter())
        .map(|definition| definition.name.as_str())
        .collect();
    let candidates = state.origins.values().filter(|origin| {
        missing.contains(&origin.id)
            && !claimed.contains(&origin.id)
            && !taken_over::stands_in(&origin.source)
    });
    candidates
        .map(|origin| {
            let common = state
                .of_origin(origin.id)
                .filter(|old| names.contains(old.definition.name.as_str()))
                .count();
            let like = (
                origin.stamp.inode != 0 && origin.stamp.inode == read.stamp.inode,
                origin.source.digest == source.digest,
                origin.source.folder.file_name() == source.folder.file_name(),
                common,
            );
            (like, origin)
        })
        .filter(|((_, same_content, _, common), _)| *common > 0 || *same_content)
        // The first of equal ones.
        .rev()
        .max_by_key(|(like, _)| *like)
        .map(|(_, origin)| origin)
}

/// Finds the experiments of definitions that are new to their source, among those
/// that another source has lost: a file of the same folder, a source that is
/// missing, or a take-over without a source.
pub(super) fn across<'a>(state: &'a State, all: &mut [MatchedSource<'a>], missing: &HashSet<u64>) {
    let mut paired: HashSet<ExperimentId> = HashSet::new();
    let mut leaving: HashSet<ExperimentId> = HashSet::new();
    for one in &*all {
        paired.extend(one.pairs.iter().flatten().map(|old| old.id));
    }
    for one in &*all {
        let left = one.old.iter().filter(|old| !paired.contains(&old.id));
        leaving.extend(left.map(|old| old.id));
    }
    for one in all {
        let source = &one.read.loaded.source;
        for (definition, pair) in one.read.loaded.definitions.iter().zip(&mut one.pairs) {
            if pair.is_some() {
                continue;
            }
            let number = definition.number.map(ExperimentId);
            let numbered = number.and_then(|number| state.experiment(number));
            let named = number
                .is_none()
                .then(|| state.named(&definition.name))
                .into_iter()
                .flatten();
            let mut fits = numbered
                .into_iter()
                .chain(named)
                .filter(|old| !paired.contains(&old.id))
                .filter(|old| old.source != one.id && old.by_hand.copy_of.is_none())
                .filter(|old| match number {
                    None => old.definition.collection() == definition.collection(),
                    // A number alone is no evidence: other tables count from 1 as well.
                    Some(_) => {
                        taken_over::without_source(&old.definition)
                            || old.definition.name == definition.name
                            || missing.contains(&old.source)
                                && old.definition.folder == source.folder
                    }
                })
                .filter(|old| {
                    let beside = old.definition.folder == source.folder;
                    taken_over::without_source(&old.definition)
                        || missing.contains(&old.source)
                        || beside && (old.gone || leaving.contains(&old.id))
                });
            if let Some(old) = fits.next() {
                paired.insert(old.id);
                *pair = Some(old);
            }
        }
    }
}
