//! Experiments by their names.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use nero_model::ExperimentId;

/// How many parts there are: a change after a clone copies one.
const PARTS: usize = 512;

/// Which experiments may have a name: a hash stands for it, since each experiment holds its name.
#[derive(Clone, Debug)]
pub(crate) struct NameIndex {
    parts: Arc<Vec<Arc<HashedNames>>>,
}

type HashedNames = BTreeSet<(u64, ExperimentId)>;

impl Default for NameIndex {
    fn default() -> Self {
        Self {
            parts: Arc::new(vec![Arc::default(); PARTS]),
        }
    }
}

impl NameIndex {
    /// Puts an experiment in under its name.
    pub(crate) fn put(&mut self, name: &str, id: ExperimentId) {
        let hash = hash(name);
        self.part(hash).insert((hash, id));
    }

    /// Takes an experiment out that has another name now.
    pub(crate) fn remove(&mut self, name: &str, id: ExperimentId) {
        let hash = hash(name);
        self.part(hash).remove(&(hash, id));
    }

    /// The experiments that were put in under names of this one's hash, ascending.
    pub(crate) fn get(&self, name: &str) -> impl Iterator<Item = ExperimentId> {
        let hash = hash(name);
        let all = (hash, ExperimentId(0))..=(hash, ExperimentId(u64::MAX));
        self.parts[place(hash)].range(all).map(|(_, id)| *id)
    }

    fn part(&mut self, hash: u64) -> &mut HashedNames {
        Arc::make_mut(&mut Arc::make_mut(&mut self.parts)[place(hash)])
    }
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

fn place(hash: u64) -> usize {
    hash as usize % PARTS
}
