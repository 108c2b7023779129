//! What a person changed of experiments, beside their sources: overrides of parameters
//! and fields, and copies.
//!
//! Reading a source needs them, since an override is applied where its experiment is
//! made; `edits` finds them for the definitions of a source. `merge` compares them with
//! the state that it changes: where they are others by then, the source is read again.

use std::collections::{BTreeSet, HashMap, HashSet};

use nero_format::{AppliedEdit, Edit, Edits, Override};
use nero_model::ExperimentId;

use super::add::{self, StampedSource};
use super::identity;
use crate::fold::experiment::Experiment;
use crate::fold::state::State;

/// What a person typed and no experiment has yet.
#[derive(Clone, Debug, Default)]
pub struct PendingEdits {
    /// Whose it is.
    pub of: HashSet<ExperimentId>,
    /// Keys with their values.
    pub set: Vec<(String, String)>,
    /// Keys that are the source's again.
    pub unset: Vec<String>,
    /// The name of a copy that gets the values, instead of the experiment itself.
    pub copy: Option<String>,
}

impl PendingEdits {
    /// The overrides of an experiment that has these.
    fn over(&self, stored: &[Override]) -> Vec<Override> {
        let is_kept = |one: &&Override| {
            let mut typed = self.set.iter().map(|(key, _)| key).chain(&self.unset);
            !typed.any(|key| one.is_of(key))
        };
        let kept = stored.iter().filter(is_kept).cloned();
        let typed = self.set.iter();
        kept.chain(typed.map(|(key, text)| Override::typed(key, text)))
            .collect()
    }

    /// A key to unset that no experiment has an override of, with the keys that they have.
    pub fn unset_in_vain<'a>(&'a self, state: &'a State) -> Option<(&'a str, BTreeSet<&'a str>)> {
        let experiments = self.of.iter().filter_map(|id| state.experiment(*id));
        let stored: Vec<&Override> = experiments.flat_map(|one| &one.by_hand.overrides).collect();
        let is_stored = |key: &str| stored.iter().any(|one| one.is_of(key));
        let key = self.unset.iter().find(|key| !is_stored(key))?;
        Some((key, stored.iter().map(|one| &*one.key).collect()))
    }

    /// An experiment that none of these sources describes any more.
    pub fn missed(&self, reads: &[StampedSource]) -> Option<ExperimentId> {
        let edited = reads.iter().flat_map(|read| &read.loaded.edited);
        if self.copy.is_some() {
            let mut new = edited.filter(|one| one.edit.experiment.is_none());
            return match new.next() {
                Some(_) => None,
                None => self.of.iter().min().copied(),
            };
        }
        let met: HashSet<u64> = edited.filter_map(|one| one.edit.experiment).collect();
        let mut missed = self.of.iter().filter(|id| !met.contains(&id.0));
        missed.next().copied()
    }

    /// The edit of an experiment, if there is one.
    fn edit(&self, one: &Experiment) -> Option<Edit> {
        let stored = &one.by_hand.overrides;
        let is_changed = self.copy.is_none() && self.of.contains(&one.id);
        let is_copy = one.by_hand.copy_of.is_some();
        (is_changed || is_copy || !stored.is_empty()).then(|| Edit {
            experiment: Some(one.id.0),
            name: is_copy.then(|| one.definition.name.clone()),
            overrides: if is_changed {
                self.over(stored)
            } else {
                stored.clone()
            },
            before: stored.clone(),
        })
    }

    /// The edit of a copy that is made of an experiment.
    fn new_copy(&self, one: &Experiment) -> Option<Edit> {
        let name = self.copy.clone()?;
        self.of.contains(&one.id).then(|| Edit {
            experiment: None,
            name: Some(name),
            overrides: self.over(&one.by_hand.overrides),
            before: one.by_hand.overrides.clone(),
        })
    }
}

/// The copies of each experiment.
pub(crate) fn copies(state: &State) -> HashMap<ExperimentId, Vec<&Experiment>> {
    let mut copies: HashMap<ExperimentId, Vec<&Experiment>> = HashMap::new();
    for one in state.edited() {
        if let Some(of) = one.by_hand.copy_of {
            copies.entry(of).or_default().push(one);
        }
    }
    copies
}

/// Whether an experiment differs from its source, or will.
pub fn any(state: &State, pending: &PendingEdits) -> bool {
    !pending.of.is_empty() || state.edited().next().is_some()
}

/// The edits for the definitions of a source that was read without them.
pub fn edits(
    state: &State,
    read: &StampedSource,
    missing: &HashSet<u64>,
    pending: &PendingEdits,
) -> Edits {
    let mut edits = Edits::new();
    let Some(origin) = add::origin_of(state, read, missing, &HashSet::new()) else {
        return edits;
    };
    let old: Vec<&Experiment> = state.of_origin(origin.id).map(|one| &**one).collect();
    let old = old.into_iter().filter(|one| one.by_hand.copy_of.is_none());
    let old: Vec<&Experiment> = old.collect();
    let copies = copies(state);
    let pairs = identity::pair(&old, &read.loaded.definitions);
    for (at, old) in pairs.into_iter().enumerate() {
        let Some(old) = old else { continue };
        let copies = copies.get(&old.id).map_or(&[][..], Vec::as_slice);
        let family = || std::iter::once(old).chain(copies.iter().copied());
        let mut those: Vec<Edit> = family().filter_map(|one| pending.edit(one)).collect();
        those.extend(family().filter_map(|one| pending.new_copy(one)));
        if !those.is_empty() {
            edits.insert(at, those);
        }
    }
    edits
}

/// What people changed of the experiments of a source, by experiment.
pub(crate) struct EditedOnes<'a> {
    of: HashMap<u64, &'a AppliedEdit>,
    new: Vec<&'a AppliedEdit>,
}

impl<'a> EditedOnes<'a> {
    pub(crate) fn of(read: &'a StampedSource) -> Self {
        let all = || read.loaded.edited.iter();
        let known = all().filter_map(|one| Some((one.edit.experiment?, one)));
        Self {
            of: known.collect(),
            new: all().filter(|one| one.edit.experiment.is_none()).collect(),
        }
    }

    pub(crate) fn of_experiment(&self, id: ExperimentId) -> Option<&'a AppliedEdit> {
        self.of.get(&id.0).copied()
    }

    /// The copies that are made of what a definition describes.
    pub(crate) fn new_copies(&self, definition: usize) -> impl Iterator<Item = &'a AppliedEdit> {
        let new = self.new.iter().copied();
        new.filter(move |one| one.of == definition)
    }
}
