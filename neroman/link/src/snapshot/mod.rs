//! Freezing an experiment's folder when it is started: which files travel, by
//! content, into the store of frozen files.
//!
//! Called by the daemon on a blocking thread, before the run is committed; when
//! `freeze` returns, everything it names is on disk. An unchanged folder costs
//! one `stat` per file. The folder itself is never written to.

mod cache;
mod error;
mod git;
mod keep;
mod left_out;
mod overlay;
mod sweep;
mod walk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nero_wire::v1::{Tree, TreeEntry};
use prost::Message as _;

pub(crate) use cache::Cache;
pub use error::{SnapshotError, size};
pub use left_out::{LeftOut, in_words};
pub(crate) use overlay::gather;
pub use sweep::UnreadableList;
pub(crate) use sweep::{named, sweep};

/// Largest snapshot that is taken without `big`, in bytes.
pub(crate) const BYTES_MAX: u64 = 200 * 1024 * 1024;
/// Most files that are taken without `big`.
pub(crate) const FILES_MAX: u64 = 20_000;

/// Which files of a folder travel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileSelection {
    /// Globs as in `.gitignore`; `None` is the whole folder.
    pub files: Option<Vec<String>>,
    /// Globs of files that runs share as links to one read-only file.
    pub linked: Vec<String>,
    /// Files and folders that travel even if an ignore file names them.
    pub required: Vec<String>,
    /// The program's file, likewise.
    pub main: Option<String>,
    /// Folders of results besides `results/`, which never travel. Absolute, or
    /// relative to the folder.
    pub left_out: Vec<PathBuf>,
}

/// The tree of a folder, whose files lie in the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FolderSnapshot {
    /// BLAKE3 of the encoded tree, which lies in the store under it.
    pub tree_hash: [u8; 32],
    /// By path.
    pub tree: Tree,
    /// Size of all files.
    pub bytes: u64,
    /// How many files there are.
    pub files: u64,
    /// Files in the folder that do not travel.
    pub left_out: Vec<LeftOut>,
    /// Notes for a person: files that were passed over.
    pub notes: Vec<String>,
    /// The commit; if the work tree is not clean, with `+` and the hash of the
    /// diff, which lies in the store.
    pub git: Option<String>,
}

/// Freezes `folder` into `store`. Blocks.
///
/// # Errors
/// When a file cannot be read, keeps changing, or the folder is too large and
/// `big` is not set.
pub(crate) fn freeze(
    folder: &Path,
    wanted: &FileSelection,
    store: &Path,
    cache: &mut Cache,
    big: bool,
) -> Result<FolderSnapshot, SnapshotError> {
    let found = walk::walk(folder, wanted)?;
    if !big {
        walk::check_size(folder, &found)?;
    }
    let mut keeper = keep::Keeper::new(store)?;
    let mut frozen = FolderSnapshot {
        left_out: left_out::find(folder, wanted, &found),
        notes: found.notes,
        ..FolderSnapshot::default()
    };
    frozen.tree = tree(folder, wanted, found.files, |path| keeper.keep(path, cache))?;
    for entry in frozen
        .tree
        .entries
        .iter()
        .filter(|entry| entry.link.is_empty())
    {
        frozen.bytes += entry.size;
        frozen.files += 1;
    }
    frozen.tree_hash = keeper.keep_bytes(&frozen.tree.encode_to_vec())?;
    frozen.git = cache.git(folder, &frozen.tree_hash, |folder| {
        let found = git::git_state(folder)?;
        // Best effort: a commit without its diff is worth recording.
        let diff = found.diff.and_then(|diff| keeper.keep_bytes(&diff).ok());
        Some(match diff {
            None => found.commit,
            Some(hash) => format!("{}+{}", found.commit, nero_model::ids::hex(&hash)),
        })
    });
    keeper.finish()?;
    Ok(frozen)
}

/// The hash of the tree that a freeze would make now. Files with an unchanged
/// `stat` are not read, nothing is kept. Blocks.
///
/// # Errors
/// When a file cannot be read, or keeps changing.
pub(crate) fn tree_hash(
    folder: &Path,
    wanted: &FileSelection,
    cache: &mut Cache,
) -> Result<[u8; 32], SnapshotError> {
    let found = walk::walk(folder, wanted)?;
    let tree = tree(folder, wanted, found.files, |path| {
        keep::preview(path, cache)
    })?;
    Ok(*blake3::hash(&tree.encode_to_vec()).as_bytes())
}

/// The hash of a file; one with an unchanged `stat` is not read. Blocks.
///
/// # Errors
/// When it cannot be read, or keeps changing.
pub(crate) fn hash(path: &Path, cache: &mut Cache) -> Result<[u8; 32], SnapshotError> {
    keep::preview(path, cache).map(|file| file.hash)
}

/// A survey of the files that would travel, by names and sizes alone. Blocks.
///
/// # Errors
/// When a folder cannot be read.
pub fn survey(folder: &Path, wanted: &FileSelection) -> Result<Survey, SnapshotError> {
    let found = walk::walk(folder, wanted)?;
    let sizes = found.files.values().filter_map(|file| match file {
        walk::TravellingFile::File { size } => Some(*size),
        walk::TravellingFile::Link(_) => None,
    });
    let (files, bytes) = sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size));
    Ok(Survey {
        files,
        bytes,
        left_out: left_out::find(folder, wanted, &found),
    })
}

/// The files of a folder that would travel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    pub files: u64,
    /// Of all files.
    pub bytes: u64,
    pub left_out: Vec<LeftOut>,
}

/// The tree of the files found; `keep` returns the content of a file.
fn tree(
    folder: &Path,
    wanted: &FileSelection,
    files: BTreeMap<String, walk::TravellingFile>,
    mut keep: impl FnMut(&Path) -> Result<keep::StoredFile, SnapshotError>,
) -> Result<Tree, SnapshotError> {
    let linked = walk::globs(folder, &wanted.linked)?;
    let mut tree = Tree::default();
    for (path, file) in files {
        let entry = match file {
            walk::TravellingFile::Link(target) => TreeEntry {
                path,
                link: target,
                ..TreeEntry::default()
            },
            walk::TravellingFile::File { .. } => {
                let place = folder.join(&path);
                let kept = keep(&place)?;
                TreeEntry {
                    shared: walk::is_picked(&linked, &place),
                    path,
                    hash: kept.hash.to_vec(),
                    size: kept.size,
                    executable: kept.executable,
                    ..TreeEntry::default()
                }
            }
        };
        tree.entries.push(entry);
    }
    Ok(tree)
}

#[cfg(test)]
mod tests;
