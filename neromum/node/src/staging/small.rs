//! The lists of small trees, kept in memory. The runs of an experiment begin with
//! the same few files, and copying these takes less time than waking a thread that
//! does so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use nero_wire::v1::Tree;

/// Limit of the entries of a small tree.
const ENTRIES_MAX: usize = 8;
/// Limit of the bytes of all its files.
const BYTES_MAX: u64 = 64 * 1024;
/// Number of lists that are kept.
const LISTS_MAX: usize = 16;

/// Hashes of lists and what they list, the newest first.
type Lists = VecDeque<(Vec<u8>, Arc<Tree>)>;

/// The lists that were read last. Clones share the memory.
#[derive(Clone, Debug, Default)]
pub struct SmallTrees(Arc<Mutex<Lists>>);

impl SmallTrees {
    /// The list with this hash, if its tree is small and was read lately.
    pub fn get(&self, hash: &[u8]) -> Option<Arc<Tree>> {
        let lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, tree) = lists.iter().find(|(known, _)| known == hash)?;
        Some(Arc::clone(tree))
    }

    /// Keeps a list that was just read and checked, if its tree is small.
    pub fn note(&self, hash: &[u8], tree: &Tree) {
        let bytes = tree.entries.iter().map(|entry| entry.size);
        let is_small = tree.entries.len() <= ENTRIES_MAX
            && bytes.fold(0, u64::saturating_add) <= BYTES_MAX
            && !tree.entries.iter().any(|entry| entry.shared);
        if !is_small || self.get(hash).is_some() {
            return;
        }
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.truncate(LISTS_MAX - 1);
        lists.push_front((hash.to_vec(), Arc::new(tree.clone())));
    }
}

#[cfg(test)]
mod tests {
    use nero_wire::v1::TreeEntry;

    use super::*;

    fn tree(files: usize, size: u64, shared: bool) -> Tree {
        let entry = |number| TreeEntry {
            path: format!("file{number}"),
            size,
            shared,
            ..TreeEntry::default()
        };
        Tree {
            entries: (0..files).map(entry).collect(),
        }
    }

    #[test]
    fn the_lists_of_small_trees_are_kept_and_the_oldest_make_room() {
        let lists = SmallTrees::default();
        for (name, large) in [
            ("many files", tree(ENTRIES_MAX + 1, 1, false)),
            ("many bytes", tree(2, BYTES_MAX / 2 + 1, false)),
            ("links", tree(1, 1, true)),
        ] {
            lists.note(b"large", &large);
            assert!(lists.get(b"large").is_none(), "{name}");
        }
        let small = tree(ENTRIES_MAX, 100, false);
        for number in 0..=LISTS_MAX {
            lists.note(&[number as u8], &small);
        }
        assert_eq!(lists.get(&[1]).as_deref(), Some(&small));
        assert!(lists.get(&[0]).is_none());
    }
}
