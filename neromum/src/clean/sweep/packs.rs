//! Sweeping packs. Their contents are named and age as files of their own do.
//! Contents leave a pack by writing it anew without them, when that is worth
//! it.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use nero_pack::Pack;

use super::{Freed, Janitor, Named, Since, Size, Sweep, hashed, remove, size_of};

impl Janitor {
    /// Space of all packs, and of the part that no run names.
    pub(super) fn packs_usage(&self, named: Option<&Named>) -> (Size, Size) {
        let (mut all, mut unused) = (Size::default(), Size::default());
        for (_, path) in hashed(&self.store.folder().join(nero_pack::FOLDER)) {
            let Some(size) = size_of(&path) else { continue };
            all += size;
            let (Some(named), Ok(pack)) = (named, Pack::open(&path)) else {
                continue;
            };
            let is_used = |hash: &_| named.files.contains(hash) || self.store.wishes().has(hash);
            let free = pack.contents().filter(|(hash, _)| !is_used(hash));
            let free: Vec<u64> = free.map(|(_, length)| length).collect();
            unused += match free.len() == pack.hashes().count() {
                true => size,
                false => Size {
                    bytes: free.iter().sum(),
                    files: free.len() as u64,
                },
            };
        }
        (all, unused)
    }
}

impl Sweep<'_> {
    /// Removes contents that no run has named for long, when they are the whole
    /// pack or at least half of it: the rest is written anew.
    pub(super) fn packs(
        &self,
        named: &Named,
        old: &Since,
        files: &mut Since,
        freed: &mut Freed,
    ) -> io::Result<()> {
        let wishes = self.janitor.store.wishes();
        for (id, path) in hashed(&self.janitor.store.folder().join(nero_pack::FOLDER)) {
            let pack = match Pack::open(&path) {
                Ok(pack) => pack,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.unsound(id, &path, old, files, freed)?;
                    continue;
                }
                // Another process has joined it with other packs.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    freed.note(format!("{} stays: {error}", path.display()));
                    continue;
                }
            };
            let mut goes = HashSet::new();
            let (mut bytes, mut all) = (0, 0);
            for (hash, length) in pack.contents() {
                all += length;
                if named.files.contains(hash) {
                    continue;
                }
                let since = self.since(old, hash);
                files.insert(*hash, since);
                if self.is_due(since) && !wishes.has(hash) {
                    goes.insert(*hash);
                    bytes += length;
                }
            }
            let whole = goes.len() == pack.hashes().count();
            if !whole && (goes.is_empty() || bytes < all / 2) {
                continue;
            }
            self.in_time()?;
            match self.dry_run {
                true if whole => freed.add(size_of(&path).unwrap_or_default()),
                true => freed.add(Size {
                    bytes,
                    files: goes.len() as u64,
                }),
                false => {
                    if self.without(pack, &goes, freed)? {
                        for hash in &goes {
                            files.remove(hash);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Removes contents from a pack unless one of them is wished for; returns
    /// whether they are gone.
    fn without(&self, pack: Pack, goes: &HashSet<[u8; 32]>, freed: &mut Freed) -> io::Result<bool> {
        let store = &self.janitor.store;
        let before = size_of(pack.path()).unwrap_or_default();
        let pack = [pack];
        let stays = |_: &Pack, hash: &_| !goes.contains(hash);
        let new = match nero_pack::rewrite(store.folder(), &pack, stays) {
            Ok(new) => new,
            // As on a disk without room for the rest.
            Err(error) => {
                freed.note(format!("{} stays: {error}", pack[0].path().display()));
                return Ok(false);
            }
        };
        let gone = store
            .wishes()
            .unless_wished(goes.iter(), || nero_pack::remove(&pack, &new))?;
        if gone {
            let after = new.iter().filter_map(|path| size_of(path));
            let after: u64 = after.map(|size| size.bytes).sum();
            freed.add(Size {
                bytes: before.bytes.saturating_sub(after),
                files: goes.len() as u64,
            });
        }
        Ok(gone)
    }

    /// Removes an incomplete pack, which is of no use.
    fn unsound(
        &self,
        id: [u8; 32],
        path: &Path,
        old: &Since,
        files: &mut Since,
        freed: &mut Freed,
    ) -> io::Result<()> {
        let since = self.since(old, &id);
        files.insert(id, since);
        if !self.is_due(since) {
            return Ok(());
        }
        self.in_time()?;
        freed.add(size_of(path).unwrap_or_default());
        if !self.dry_run {
            remove(path)?;
            files.remove(&id);
        }
        Ok(())
    }
}
