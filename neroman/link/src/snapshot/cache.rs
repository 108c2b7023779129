//! The hashes of files at the last freezes, in memory: a file with an unchanged
//! stamp is not read again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nero_blobs::Stamp;

use super::git;

/// Files that are remembered; about 150 bytes each.
const FILES_MAX: usize = 500_000;
/// A file that changed so recently may change again with the same stamp, since
/// clocks of file systems tick slowly.
const TOO_NEW: Duration = Duration::from_secs(2);

/// Remembers the hashes of files, and the output of git.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    files: HashMap<PathBuf, FrozenFile>,
    git: HashMap<PathBuf, CachedGitState>,
}

/// A file at its last freeze.
#[derive(Clone, Copy, Debug)]
struct FrozenFile {
    stamp: Stamp,
    hash: [u8; 32],
    /// Whether a change of the file would change its stamp.
    is_settled: bool,
}

/// The output of git for a folder, and the marks for which it holds.
#[derive(Debug)]
struct CachedGitState {
    marks: git::Marks,
    tree: [u8; 32],
    text: Option<String>,
}

impl Cache {
    /// The content of a file with this stamp.
    pub(super) fn hash(&self, path: &Path, stamp: &Stamp) -> Option<[u8; 32]> {
        let seen = self.files.get(path)?;
        (seen.is_settled && seen.stamp == *stamp).then_some(seen.hash)
    }

    /// The content of a file of this size at its last freeze; it may be the same
    /// still.
    pub(super) fn guess(&self, path: &Path, size: u64) -> Option<[u8; 32]> {
        let seen = self.files.get(path)?;
        (seen.stamp.size == size).then_some(seen.hash)
    }

    /// Remembers a file that began to be read at `began`.
    pub(super) fn learn(&mut self, path: &Path, stamp: Stamp, hash: [u8; 32], began: SystemTime) {
        if self.files.len() >= FILES_MAX {
            self.files.clear();
        }
        let seen = FrozenFile {
            stamp,
            hash,
            is_settled: is_settled(&stamp, began),
        };
        self.files.insert(path.to_path_buf(), seen);
    }

    /// The output of git for a folder; `ask` is called anew when the repository
    /// or the frozen tree changed since.
    pub(super) fn git(
        &mut self,
        folder: &Path,
        tree: &[u8; 32],
        ask: impl FnOnce(&Path) -> Option<String>,
    ) -> Option<String> {
        let marks = git::marks(folder)?;
        if let Some(said) = self.git.get(folder)
            && said.marks == marks
            && said.tree == *tree
        {
            return said.text.clone();
        }
        let text = ask(folder);
        self.git.insert(
            folder.to_path_buf(),
            CachedGitState {
                marks,
                tree: *tree,
                text: text.clone(),
            },
        );
        text
    }

    /// Forgets the output of git: a diff that it names may be swept.
    pub(crate) fn forget_git(&mut self) {
        self.git.clear();
    }

    /// Remembers a file, however new it is.
    #[cfg(test)]
    pub(super) fn believe(&mut self, path: &Path, stamp: Stamp, hash: [u8; 32]) {
        let seen = FrozenFile {
            stamp,
            hash,
            is_settled: true,
        };
        self.files.insert(path.to_path_buf(), seen);
    }
}

/// Whether a change of the file since `at` would show.
fn is_settled(stamp: &Stamp, at: SystemTime) -> bool {
    let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let limit = at.saturating_sub(TOO_NEW).as_nanos() as i128;
    stamp.modified_ns < limit && stamp.changed_ns < limit
}
