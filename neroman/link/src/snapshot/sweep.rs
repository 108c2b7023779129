//! Removes frozen files that no run has named for a while: marked from the runs,
//! swept from the store. A freeze renews the time of the files that it takes, so
//! that no file is swept between a freeze and its run.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nero_blobs::{Hash, SweepTotals, Sweeper};
use nero_wire::v1::Tree;
use prost::Message as _;

/// How long a file must be unnamed before it is removed.
pub(crate) const UNNAMED: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long a private file of a killed freeze stays.
const PRIVATE: Duration = Duration::from_secs(24 * 3600);

/// The list of a run's files cannot be read now, so its files are not known.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}, the list of a run's files")]
pub struct UnreadableList {
    path: PathBuf,
    source: io::Error,
}

/// All files in these trees, the trees included. A tree that is missing or damaged
/// has no usable files: no run can be sent with it any more.
///
/// # Errors
/// When a tree is there and cannot be read: the files that it names must stay.
pub(crate) fn named(
    store: &Path,
    trees: impl Iterator<Item = String>,
) -> Result<HashSet<Hash>, UnreadableList> {
    let mut named = HashSet::new();
    for tree in trees.filter_map(|tree| nero_blobs::parse(&tree)) {
        let path = nero_blobs::path(store, &tree);
        match fs::read(&path) {
            Ok(bytes) => {
                let decoded = Tree::decode(bytes.as_slice()).unwrap_or_default();
                let hashes = decoded.entries.iter();
                named.extend(hashes.filter_map(|entry| Hash::try_from(&*entry.hash).ok()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(UnreadableList { path, source }),
        }
        named.insert(tree);
    }
    Ok(named)
}

/// Sweeps the store; returns what was removed, or would be. Blocks. Files that
/// cannot be looked at stay.
pub(crate) fn sweep(store: &Path, named: &HashSet<Hash>, dry_run: bool) -> SweepTotals {
    let mut sweep = Sweep {
        named,
        dry_run,
        now: SystemTime::now(),
        freed: SweepTotals::default(),
    };
    for (path, found) in nero_blobs::leftovers(store, PRIVATE) {
        if dry_run || fs::remove_file(path).is_ok() {
            sweep.freed.files += 1;
            sweep.freed.bytes += found.len();
        }
    }
    if let Err(error) = nero_blobs::sweep(store, &mut sweep) {
        tracing::warn!(store = %store.display(), %error, "sweeping frozen files stopped");
    }
    sweep.freed
}

/// One sweep: the time of a file is when it was last frozen.
struct Sweep<'a> {
    named: &'a HashSet<Hash>,
    dry_run: bool,
    now: SystemTime,
    freed: SweepTotals,
}

impl Sweeper for Sweep<'_> {
    fn is_due(&mut self, hash: &Hash, modified: SystemTime) -> bool {
        let age = self.now.duration_since(modified);
        age.is_ok_and(|age| age >= UNNAMED) && !self.named.contains(hash)
    }

    fn rehearses(&self) -> io::Result<bool> {
        Ok(self.dry_run)
    }

    fn take(
        &mut self,
        _: &HashSet<Hash>,
        remove: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<bool> {
        // No freeze goes on meanwhile. What cannot be removed stays.
        Ok(remove().is_ok())
    }

    fn gone(&mut self, _: &HashSet<Hash>, freed: SweepTotals) {
        self.freed.files += freed.files;
        self.freed.bytes += freed.bytes;
    }

    fn stays(&mut self, pack: &Path, error: &io::Error) {
        tracing::warn!(pack = %pack.display(), %error, "a pack is not swept");
    }

    fn space(&self, found: &Metadata) -> u64 {
        found.len()
    }
}
