//! Packs made anew of what is to stay of others.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::read::{content, open};
use crate::{FOLDER, Hash, Pack, Writer, is_gone};

/// Packs below this are small.
const SMALL_BYTES: u64 = 8 * 1024 * 1024;
/// So many small ones are put together.
pub(crate) const SMALL_MAX: usize = 32;

/// Puts the small packs of a store together when they have become many: each
/// costs every look into the store a file to open. Nothing of them is lost but
/// what a disk damaged.
///
/// # Errors
/// When the disk refuses: all packs are as they were then.
pub fn merge(store: &Path) -> io::Result<()> {
    merge_where_room(store, |_| true)
}

/// As [`merge`], when there `is_room` for so many bytes: the new ones are
/// written before the old ones go. Later otherwise.
///
/// # Errors
/// As [`merge`].
pub fn merge_where_room(store: &Path, is_room: impl FnOnce(u64) -> bool) -> io::Result<()> {
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

/// Writes what is to stay of some packs into new ones, as old as the youngest of
/// them, and on the disk before any goes; the paths of the new ones. A content that a disk damaged is left out: it
/// is as if it were not there. The old ones are the caller's to [`remove`].
///
/// # Errors
/// When the disk refuses.
pub fn rewrite(
    store: &Path,
    packs: &[Pack],
    stays: impl Fn(&Pack, &Hash) -> bool,
) -> io::Result<Vec<PathBuf>> {
    // In one order, so that two who do the same at once come to one pack.
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

/// Makes a pack anew without what a disk damaged of it: that is as if it had
/// never come.
///
/// # Errors
/// When the disk refuses.
pub fn heal(store: &Path, pack: &Path) -> io::Result<()> {
    let pack = [Pack::open(pack)?];
    let new = rewrite(store, &pack, |_, _| true)?;
    remove(&pack, &new)
}

/// Takes packs away that others replace: none of `new` goes, should it be the
/// same as an old one.
///
/// # Errors
/// When one cannot be removed.
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
