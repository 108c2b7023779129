//! Sweeping: files that no run has named for long go. The time since when they are
//! unnamed is stored, so that age counts from there and not from a file's arrival.
//! A file that was asked for within the last hour is on its way to a run and
//! stays.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nero_blobs::{Hash, Pack, Sweeper, hashed};
use nero_journal::Clocks;
use nero_journal::frame::{self, FrameError, FrameKind};
use nero_journal::v1::{Unnamed, unnamed};

use super::Janitor;
use super::measure::{Size, measure, measure_alone};
use super::named::ReferencedBlobs;
use crate::config;

/// Space that was freed, or would be in a rehearsal.
#[derive(Debug, Default)]
pub struct FreedSpace {
    /// Space and files.
    pub size: Size,
    /// Notes for the caller.
    pub notes: Vec<String>,
}

impl FreedSpace {
    /// Adds to the freed space.
    pub fn add(&mut self, size: Size) {
        self.size += size;
    }

    /// Adds a note, up to a limit.
    pub fn note(&mut self, text: String) {
        const NOTES_MAX: usize = 50;
        if self.notes.len() < NOTES_MAX {
            self.notes.push(text);
        }
    }
}

type UnusedSince = HashMap<Hash, i64>;

/// One sweep.
struct Sweep<'a> {
    janitor: &'a Janitor,
    begun: Instant,
    now_ms: i64,
    unnamed_ms: u64,
    dry_run: bool,
}

impl Janitor {
    /// Removes files that no run has named for `unnamed_ms` (1: at once).
    pub fn sweep(&self, unnamed_ms: u64, dry_run: bool, freed: &mut FreedSpace) {
        let sweep = Sweep {
            janitor: self,
            begun: Instant::now(),
            now_ms: Clocks::now().wall_ns / 1_000_000,
            unnamed_ms,
            dry_run,
        };
        match self.mark() {
            Ok(named) => {
                if let Err(error) = sweep.run(&named, freed) {
                    freed.note(format!("sweeping stopped: {error}"));
                }
                named.notes.into_iter().for_each(|note| freed.note(note));
            }
            Err(error) => {
                let why = std::error::Error::source(&error)
                    .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
                freed.note(format!("the store is not swept: {why}"));
            }
        }
        self.clean_recalled(unnamed_ms, dry_run, freed);
        self.clean_builds(dry_run, freed);
    }

    /// Space of the store, and of the part that no run names.
    pub fn store_usage(&self) -> (Size, Size) {
        let (mut all, mut unused) = (Size::default(), Size::default());
        let named = self.mark();
        for (hash, path) in nero_blobs::alone(self.store.folder()) {
            let Some(size) = size_of(&path) else { continue };
            all += size;
            let is_free = |named: &ReferencedBlobs| !named.files.contains(&hash);
            if named.as_ref().is_ok_and(is_free) && !self.store.reservations().has(&hash) {
                unused += size;
            }
        }
        let (packed, free) = self.packs_usage(named.as_ref().ok());
        all += packed;
        unused += free;
        all += measure(&self.store.partials_of_all()).unwrap_or_default();
        for (hash, folder) in hashed(&self.paths.trees()) {
            // Its large files are those of the store under another name.
            let size = measure_alone(&folder).unwrap_or_default();
            all += size;
            if named
                .as_ref()
                .is_ok_and(|named| !named.trees.contains(&hash))
            {
                unused += size;
            }
        }
        (all, unused)
    }

    /// Space of all packs, and of the part that no run names.
    fn packs_usage(&self, named: Option<&ReferencedBlobs>) -> (Size, Size) {
        let (mut all, mut unused) = (Size::default(), Size::default());
        for (_, path) in hashed(&self.store.folder().join(nero_blobs::FOLDER)) {
            let Some(size) = size_of(&path) else { continue };
            all += size;
            let (Some(named), Ok(pack)) = (named, Pack::open(&path)) else {
                continue;
            };
            let is_used =
                |hash: &_| named.files.contains(hash) || self.store.reservations().has(hash);
            let free = pack.contents().filter(|(hash, _)| !is_used(hash));
            let free: Vec<u64> = free.map(|(_, length)| length).collect();
            unused += if free.len() == pack.hashes().count() {
                size
            } else {
                Size {
                    bytes: free.iter().sum(),
                    files: free.len() as u64,
                }
            };
        }
        (all, unused)
    }

    fn unnamed_path(&self) -> PathBuf {
        self.store.folder().join("unnamed")
    }
}

impl Sweep<'_> {
    fn run(&self, named: &ReferencedBlobs, freed: &mut FreedSpace) -> io::Result<()> {
        let store = &self.janitor.store;
        let (old_files, old_trees) = read(&self.janitor.unnamed_path());
        let mut trees = UnusedSince::new();
        // Before the stored files: space that both share is counted with these.
        for (hash, folder) in hashed(&self.janitor.paths.trees()) {
            if named.trees.contains(&hash) {
                continue;
            }
            let since = self.since(&old_trees, &hash);
            trees.insert(hash, since);
            if !self.is_due(since) || store.reservations().has(&hash) {
                continue;
            }
            self.in_time()?;
            let size = measure_alone(&folder)?;
            if !self.dry_run {
                self.janitor.trash.take(&folder)?;
            }
            freed.add(size);
            trees.remove(&hash);
        }
        let mut contents = Contents {
            sweep: self,
            named,
            old: old_files,
            files: UnusedSince::new(),
            freed,
        };
        nero_blobs::sweep(store.folder(), &mut contents)?;
        let files = contents.files;
        self.partials(freed)?;
        if self.dry_run {
            return Ok(());
        }
        // If this is killed while it writes, the next sweep writes the same
        // private file.
        let node = self.janitor.paths.mum();
        let node = node.file_name().unwrap_or_default().to_string_lossy();
        let private = store.folder().join(format!(".unnamed-{node}"));
        write(&private, &self.janitor.unnamed_path(), &files, &trees)
    }

    /// Removes old leftovers of broken transfers.
    fn partials(&self, freed: &mut FreedSpace) -> io::Result<()> {
        let store = &self.janitor.store;
        let kept = Duration::from_millis(self.unnamed_ms).max(config::RESERVED_FOR);
        let all = store.partials_of_all();
        let nodes = fs::read_dir(&all).into_iter().flatten().flatten();
        let folders = nodes.map(|entry| entry.path()).chain([all.clone()]);
        for (hash, path) in folders.flat_map(|folder| hashed(&folder)) {
            let old = fs::symlink_metadata(&path)
                .and_then(|found| found.modified())
                .is_ok_and(|at| {
                    SystemTime::now()
                        .duration_since(at)
                        .is_ok_and(|age| age > kept)
                });
            if !old || store.flights().has(&hash) || store.reservations().has(&hash) {
                continue;
            }
            self.in_time()?;
            freed.add(size_of(&path).unwrap_or_default());
            if !self.dry_run {
                remove(&path)?;
            }
        }
        Ok(())
    }

    fn since(&self, old: &UnusedSince, hash: &[u8; 32]) -> i64 {
        // A clock that was set back must not make a file old.
        old.get(hash)
            .copied()
            .unwrap_or(self.now_ms)
            .min(self.now_ms)
    }

    fn is_due(&self, since: i64) -> bool {
        let age = u64::try_from(self.now_ms - since).unwrap_or(0);
        age >= self.unnamed_ms.saturating_sub(1)
    }

    /// Fails when the marking may be outdated: after a freeze, or when another
    /// host leads and may have accepted runs that name these files.
    fn in_time(&self) -> io::Result<()> {
        let lease = self.janitor.lease.as_ref();
        if lease.is_some_and(|held| !held.is_sure()) {
            return Err(io::Error::other("another host leads by now"));
        }
        if self.begun.elapsed() < config::RESERVED_FOR / 2 {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "it took too long; clean once more",
        ))
    }
}

/// The part of a sweep that concerns files and packs.
struct Contents<'a> {
    sweep: &'a Sweep<'a>,
    named: &'a ReferencedBlobs,
    /// Since when contents are unnamed: as the last sweep noted it, and now.
    old: UnusedSince,
    files: UnusedSince,
    freed: &'a mut FreedSpace,
}

impl Sweeper for Contents<'_> {
    fn is_due(&mut self, hash: &Hash, _: SystemTime) -> bool {
        if self.named.files.contains(hash) {
            return false;
        }
        let since = self.sweep.since(&self.old, hash);
        self.files.insert(*hash, since);
        self.sweep.is_due(since) && !self.sweep.janitor.store.reservations().has(hash)
    }

    fn rehearses(&self) -> io::Result<bool> {
        self.sweep.in_time().map(|()| self.sweep.dry_run)
    }

    fn take(
        &mut self,
        hashes: &HashSet<Hash>,
        remove: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<bool> {
        let reservations = self.sweep.janitor.store.reservations();
        reservations.unless_reserved(hashes.iter(), remove)
    }

    fn gone(&mut self, hashes: &HashSet<Hash>, freed: nero_blobs::SweepTotals) {
        for hash in hashes {
            self.files.remove(hash);
        }
        self.freed.add(Size {
            bytes: freed.bytes,
            files: freed.files,
        });
    }

    fn stays(&mut self, pack: &Path, error: &io::Error) {
        self.freed
            .note(format!("{} stays: {error}", pack.display()));
    }

    fn space(&self, found: &Metadata) -> u64 {
        found.blocks() * 512
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn size_of(path: &Path) -> Option<Size> {
    let found = rustix::fs::lstat(path).ok()?;
    Some(Size::of(&found))
}

/// Since when files and trees are unnamed. If the file is damaged, the time counts
/// anew, which only keeps things longer.
fn read(path: &Path) -> (UnusedSince, UnusedSince) {
    let found: Unnamed = match frame::read(FrameKind::Unnamed, path) {
        Ok(found) => found,
        Err(FrameError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Unnamed::default(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "counting anew since when files are unnamed");
            Unnamed::default()
        }
    };
    let since = |list: Vec<unnamed::One>| {
        list.into_iter()
            .filter_map(|one| Some((one.hash.try_into().ok()?, one.since_ms)))
            .collect()
    };
    (since(found.files), since(found.trees))
}

fn write(private: &Path, path: &Path, files: &UnusedSince, trees: &UnusedSince) -> io::Result<()> {
    let list = |since: &UnusedSince| {
        let one = |(hash, since_ms): (&[u8; 32], &i64)| unnamed::One {
            hash: hash.to_vec(),
            since_ms: *since_ms,
        };
        since.iter().map(one).collect()
    };
    let content = Unnamed {
        files: list(files),
        trees: list(trees),
    };
    let mut file = match fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(private)
    {
        // Without a store there is nothing to remember.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    file.write_all(&frame::encode(FrameKind::Unnamed, &content))?;
    fs::rename(private, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Eye, HeldEpoch, Leases};
    use crate::staging::store::Store;
    use nero_model::DeploymentId;
    use nero_model::paths::NodePaths;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_former_leader_takes_nothing_away() {
        let folder = tempfile::tempdir().unwrap();
        let paths = NodePaths::new(folder.path(), &DeploymentId::random(), "n");
        let content = b"named by nobody";
        let hash = *blake3::hash(content).as_bytes();
        // A reservation in another process than the one that sweeps.
        let store = Store::new(&paths);
        let mut incoming = store.begin(hash, 0, true).unwrap();
        incoming.write(content).unwrap();
        store.finish(incoming).unwrap();
        let leases = Leases::open(&paths.lease()).unwrap();
        let lease = |epoch| nero_journal::v1::Lease {
            epoch,
            ..Default::default()
        };
        assert!(leases.begin(&lease(1)).unwrap());
        let eye = Eye::own().unwrap();
        let held = HeldEpoch::new(leases.clone(), eye, 1, Duration::from_millis(5), None).unwrap();
        let held = Arc::new(held);
        let janitor = Janitor::new(&paths, &Store::new(&paths), Some(held.clone()));
        assert!(leases.begin(&lease(2)).unwrap());
        held.lost().await;
        let mut freed = FreedSpace::default();
        janitor.sweep(1, false, &mut freed);
        assert_eq!(freed.notes, ["sweeping stopped: another host leads by now"]);
        assert!(store.view().has(&hash));
        let mut freed = FreedSpace::default();
        Janitor::new(&paths, &Store::new(&paths), None).sweep(1, false, &mut freed);
        assert!(!store.view().has(&hash), "{freed:?}");
    }

    #[test]
    fn a_file_that_a_tree_links_is_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let paths = NodePaths::new(folder.path(), &DeploymentId::random(), "n");
        let content = vec![7; 1_000_000];
        let hash = *blake3::hash(&content).as_bytes();
        let store = Store::new(&paths);
        let mut incoming = store.begin(hash, 0, true).unwrap();
        incoming.write(&content).unwrap();
        store.finish(incoming).unwrap();
        for tree in [[1; 32], [2; 32]] {
            let tree = paths.trees().join(nero_model::ids::hex(&tree));
            fs::create_dir_all(&tree).unwrap();
            fs::hard_link(store.path(&hash), tree.join("large")).unwrap();
        }
        let once = 1_000_000..1_500_000;
        // Another process than the one that reserved it.
        let janitor = Janitor::new(&paths, &Store::new(&paths), None);
        let (all, unused) = janitor.store_usage();
        assert!(
            once.contains(&all.bytes) && once.contains(&unused.bytes),
            "{all:?} {unused:?}"
        );
        for dry_run in [true, false] {
            let mut freed = FreedSpace::default();
            janitor.sweep(1, dry_run, &mut freed);
            assert!(once.contains(&freed.size.bytes), "{freed:?}");
            assert_eq!(freed.size.files, 3);
        }
        assert!(janitor.store_usage().0.bytes < once.start);
    }
}
