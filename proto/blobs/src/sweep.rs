//! Takes contents out of a store. What nothing names, and for how long, is the
//! [`Sweeper`]'s knowledge.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use crate::{FOLDER, Hash, Pack, alone, hashed, is_gone, remove, rewrite};

/// Totals of what a sweep removed, or would remove in a rehearsal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepTotals {
    /// Files; contents of a pack that is made anew count as files.
    pub files: u64,
    /// Their space.
    pub bytes: u64,
}

/// Decides what goes.
pub trait Sweeper {
    /// Whether nothing has named a content for long enough. `modified` is the time
    /// of the file that holds it. Of a pack that is not whole the hash is its name.
    fn is_due(&mut self, hash: &Hash, modified: SystemTime) -> bool;

    /// Whether this is a rehearsal: nothing is written, only counted. Asked before
    /// each removal.
    ///
    /// # Errors
    /// End the sweep.
    fn rehearses(&self) -> io::Result<bool>;

    /// Calls `remove`, unless one of these contents is needed after all; returns
    /// whether they are gone.
    ///
    /// # Errors
    /// End the sweep.
    fn take(
        &mut self,
        hashes: &HashSet<Hash>,
        remove: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<bool>;

    /// Learns what is gone.
    fn gone(&mut self, hashes: &HashSet<Hash>, freed: SweepTotals);

    /// Learns that a pack stays, since it cannot be read or made anew.
    fn stays(&mut self, pack: &Path, error: &io::Error);

    /// The space that a file takes.
    fn space(&self, found: &Metadata) -> u64;
}

/// Sweeps files and packs. A pack goes as a whole, or is made anew of the rest
/// when at least half of it goes. What cannot be looked at stays.
///
/// # Errors
/// Those of the [`Sweeper`].
pub fn sweep(store: &Path, by: &mut impl Sweeper) -> io::Result<()> {
    for (hash, path) in alone(store) {
        file(by, hash, &path)?;
    }
    for (id, path) in hashed(&store.join(FOLDER)) {
        match Pack::open(&path) {
            Ok(pack) => contents(store, by, pack)?,
            // Not whole, it holds nothing.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => file(by, id, &path)?,
            // It was merged with others.
            Err(error) if is_gone(&error) => {}
            Err(error) => by.stays(&path, &error),
        }
    }
    Ok(())
}

fn file(by: &mut impl Sweeper, hash: Hash, path: &Path) -> io::Result<()> {
    let Ok(found) = path.symlink_metadata() else {
        return Ok(());
    };
    let Ok(modified) = found.modified() else {
        return Ok(());
    };
    // Nothing of ours makes a folder of such a name.
    if found.is_dir() || !by.is_due(&hash, modified) {
        return Ok(());
    }
    let hashes = HashSet::from([hash]);
    let rehearsal = by.rehearses()?;
    let mut remove = || {
        if rehearsal {
            return Ok(());
        }
        match fs::remove_file(path) {
            Err(error) if is_gone(&error) => Ok(()),
            done => done,
        }
    };
    if by.take(&hashes, &mut remove)? {
        let bytes = by.space(&found);
        by.gone(&hashes, SweepTotals { files: 1, bytes });
    }
    Ok(())
}

fn contents(store: &Path, by: &mut impl Sweeper, pack: Pack) -> io::Result<()> {
    let mut goes = HashSet::new();
    let (mut bytes, mut all, mut count) = (0, 0, 0);
    for (hash, length) in pack.contents() {
        (all, count) = (all + length, count + 1);
        if by.is_due(hash, pack.modified()) {
            goes.insert(*hash);
            bytes += length;
        }
    }
    let whole = goes.len() == count;
    if !whole && (goes.is_empty() || bytes < all / 2) {
        return Ok(());
    }
    let freed = if whole {
        SweepTotals {
            files: 1,
            bytes: pack.path().metadata().map_or(0, |found| by.space(&found)),
        }
    } else {
        SweepTotals {
            files: goes.len() as u64,
            bytes,
        }
    };
    let pack = [pack];
    if by.rehearses()? {
        if by.take(&goes, &mut || Ok(()))? {
            by.gone(&goes, freed);
        }
        return Ok(());
    }
    let new = match rewrite(store, &pack, |_, hash| !goes.contains(hash)) {
        Ok(new) => new,
        // As on a disk without room for the rest.
        Err(error) => {
            by.stays(pack[0].path(), &error);
            return Ok(());
        }
    };
    if by.take(&goes, &mut || remove(&pack, &new))? {
        by.gone(&goes, freed);
    }
    Ok(())
}
