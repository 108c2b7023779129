//! Rewrites packs without the contents that are to go.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::read::{content, open};
use crate::{FOLDER, Hash, Pack, Writer, is_gone};

/// Packs below this are small.
const SMALL_BYTES: u64 = 8 * 1024 * 1024;
/// So many small packs are merged.
pub(crate) const SMALL_MAX: usize = 32;
/// Merges the small packs of a store when they have become many (a look into the store opens each
/// of them) and there `is_room` for so many bytes: the new packs are written before the old ones
/// go. Otherwise a later call merges. No content is lost except those that a disk damaged.
///
/// # Errors
/// When the disk refuses; all packs are then as before.
pub fn merge(store: &Path, is_room: impl FnOnce(u64) -> bool) -> io::Result<()> {
    let entries = match fs::read_dir(store.join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let small = |entry: &fs::DirEntry| entry.metadata().is_ok_and(|is| is.len() < SMALL_BYTES);
    let small: Vec<fs::DirEntry> = entries.flatten().filter(small).collect();
    if small.len() < SMALL_MAX {
        return Ok(());
    }
    let sound = small.iter().filter_map(|one| Pack::open(&one.path()).ok());
    let packs: Vec<Pack> = sound.collect();
    let lengths = packs.iter().flat_map(Pack::contents);
    let bytes = lengths.map(|(_, length)| length).sum();
    if packs.len() < SMALL_MAX || !is_room(bytes) {
        return Ok(());
    }
    let new = rewrite(store, &packs, |_, _| true)?;
    remove(&packs, &new)
}

/// Writes the contents of some packs that are to stay into new packs, with the time of the
/// youngest, and syncs these; returns their paths. A content that a disk damaged is left out, as if
/// it did not exist. The caller [`remove`]s the old packs.
///
/// # Errors
/// When the disk cannot be written.
pub fn rewrite(
    store: &Path,
    packs: &[Pack],
    stays: impl Fn(&Pack, &Hash) -> bool,
) -> io::Result<Vec<PathBuf>> {
    // In one order, so that two callers at once make the same pack.
    let mut packs: Vec<&Pack> = packs.iter().collect();
    packs.sort_unstable_by_key(|pack| pack.id());
    let mut new = Vec::new();
    let mut writer: Option<Writer> = None;
    for pack in &packs {
        let mut entries: Vec<_> = pack.entries().collect();
        entries.retain(|(hash, ..)| stays(pack, hash));
        entries.sort_unstable_by_key(|(_, offset, _)| *offset);
        let file = open(pack.path())?;
        for (hash, offset, length) in entries {
            let content = match content(&file, hash, offset, length) {
                Err(error) if error.kind() == io::ErrorKind::InvalidData => continue,
                content => content?,
            };
            if let Some(full) = writer.take_if(|writer| writer.is_full()) {
                new.push(full.finish(true)?);
            }
            let writer = match &mut writer {
                Some(writer) => writer,
                none => none.insert(Writer::begin(store)?),
            };
            writer.add(*hash, &content)?;
        }
    }
    if let Some(last) = writer {
        new.push(last.finish(true)?);
    }
    if let Some(youngest) = packs.iter().map(|pack| pack.modified()).max() {
        for path in &new {
            open(path)?.set_modified(youngest)?;
        }
    }
    if !new.is_empty() {
        File::open(store.join(FOLDER))?.sync_all()?;
    }
    Ok(new)
}

/// Rewrites a pack without the contents that a disk damaged: they count as never stored.
///
/// # Errors
/// When the disk cannot be written.
pub fn heal(store: &Path, pack: &Path) -> io::Result<()> {
    let pack = [Pack::open(pack)?];
    let new = rewrite(store, &pack, |_, _| true)?;
    remove(&pack, &new)
}

/// Removes packs that others replace. A pack in `new` stays, should it be the same as an old one.
///
/// # Errors
/// When a pack cannot be removed.
pub fn remove(packs: &[Pack], new: &[PathBuf]) -> io::Result<()> {
    let old = packs.iter().map(|pack| pack.path().to_path_buf());
    for path in old.filter(|path| !new.contains(path)) {
        match fs::remove_file(path) {
            Err(error) if is_gone(&error) => {}
            done => done?,
        }
    }
    Ok(())
}
