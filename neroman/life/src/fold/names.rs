//! Experiments by their names.

use std::collections::BTreeSet;

use nero_model::ExperimentId;

use super::shelf::{HashParts, hash};

/// Which experiments may have a name: a hash stands for it, since each experiment holds its name.
#[derive(Clone, Debug, Default)]
pub(super) struct NameIndex {
    hashes: HashParts<BTreeSet<(u64, ExperimentId)>>,
}

impl NameIndex {
    /// Puts an experiment in under its name.
    pub(super) fn put(&mut self, name: &str, id: ExperimentId) {
        let hash = hash(name);
        self.hashes.get_mut(hash).insert((hash, id));
    }

    /// Takes an experiment out that has another name now.
    pub(super) fn remove(&mut self, name: &str, id: ExperimentId) {
        let hash = hash(name);
        self.hashes.get_mut(hash).remove(&(hash, id));
    }

    /// The experiments that were put in under names of this one's hash, ascending.
    pub(super) fn get(&self, name: &str) -> impl Iterator<Item = ExperimentId> {
        let hash = hash(name);
        let all = (hash, ExperimentId(0))..=(hash, ExperimentId(u64::MAX));
        self.hashes.get(hash).range(all).map(|(_, id)| *id)
    }

    /// How many experiments were put in.
    pub(super) fn len(&self) -> usize {
        self.hashes.iter().map(BTreeSet::len).sum()
    }
}
