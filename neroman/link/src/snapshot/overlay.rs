//! Freezes a run's checkpoints that came home, so that they can be laid over
//! the code of a later run.

use std::path::Path;

use ignore::WalkBuilder;
use ignore::gitignore::GitignoreBuilder;
use nero_model::paths::run::{STDERR, STDOUT};
use nero_wire::v1::{Tree, TreeEntry};
use prost::Message as _;

use super::cache::Cache;
use super::error::SnapshotError;
use super::keep::Keeper;

/// Freezes the files of a folder that the globs match; `None` if there are
/// none. Blocks.
///
/// # Errors
/// When a file cannot be read or kept.
pub(crate) fn gather(
    folder: &Path,
    globs: &[String],
    store: &Path,
) -> Result<Option<[u8; 32]>, SnapshotError> {
    let mut picked = GitignoreBuilder::new(folder);
    for glob in globs {
        let bad = |source| SnapshotError::Glob {
            glob: glob.clone(),
            source,
        };
        // From the folder down: as the node reads them.
        let glob = format!("/{}", glob.trim_start_matches('/'));
        picked.add_line(None, &glob).map_err(bad)?;
    }
    let picked = picked.build().map_err(|source| SnapshotError::Glob {
        glob: globs.join(", "),
        source,
    })?;
    let mut keeper = Keeper::new(store)?;
    let mut cache = Cache::default();
    let mut tree = Tree::default();
    let entries = WalkBuilder::new(folder)
        .standard_filters(false)
        .follow_links(false)
        .sort_by_file_path(Path::cmp)
        .build();
    for entry in entries {
        let entry = entry.map_err(|source| SnapshotError::Folder {
            path: folder.to_path_buf(),
            source,
        })?;
        let path = entry.path();
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        let Ok(relative) = path.strip_prefix(folder) else {
            continue;
        };
        if !is_file || is_ours(relative) {
            continue;
        }
        if !picked.matched_path_or_any_parents(path, false).is_ignore() {
            continue;
        }
        let name = relative.to_str().ok_or_else(|| SnapshotError::Name {
            path: path.to_path_buf(),
        })?;
        let kept = keeper.keep(path, &mut cache)?;
        tree.entries.push(TreeEntry {
            path: name.to_owned(),
            hash: kept.hash.to_vec(),
            size: kept.size,
            ..TreeEntry::default()
        });
    }
    if tree.entries.is_empty() {
        return Ok(None);
    }
    let hash = keeper.keep_bytes(&tree.encode_to_vec())?;
    keeper.finish()?;
    Ok(Some(hash))
}

/// Whether a file is ours: a log, or a file that is not complete.
fn is_ours(path: &Path) -> bool {
    let half = path
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with('.') && name.ends_with(".part"));
    half || [STDOUT, STDERR].iter().any(|name| path == Path::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_the_files_that_the_globs_pick_are_frozen() {
        let base = tempfile::tempdir().unwrap();
        let (folder, store) = (base.path().join("r"), base.path().join("store"));
        fs::create_dir_all(folder.join("ckpt/deep")).unwrap();
        fs::create_dir_all(folder.join("other/ckpt")).unwrap();
        for name in [
            "stdout.log",
            "ckpt/1.pt",
            "ckpt/.ab.part",
            "ckpt/deep/2.pt",
            "other/ckpt/3.pt",
            "last",
            ".gitignore",
        ] {
            fs::write(folder.join(name), name).unwrap();
        }
        fs::write(folder.join(".gitignore"), "*").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("ckpt/link.pt")).unwrap();
        let names = |globs: &[&str]| {
            let globs: Vec<String> = globs.iter().map(|&glob| glob.to_owned()).collect();
            let hash = gather(&folder, &globs, &store).unwrap()?;
            let name = nero_model::ids::hex(&hash);
            let tree = Tree::decode(&*fs::read(store.join(&name[..2]).join(&name)).unwrap());
            let entries = tree.unwrap().entries;
            Some(entries.into_iter().map(|one| one.path).collect::<Vec<_>>())
        };
        let named = |paths: &[&str]| Some(paths.iter().map(|&path| path.to_owned()).collect());
        assert_eq!(names(&["ckpt/*.pt"]), named(&["ckpt/1.pt"]));
        assert_eq!(
            names(&["ckpt", "l*"]),
            named(&["ckpt/1.pt", "ckpt/deep/2.pt", "last"])
        );
        assert_eq!(names(&["*.log", "none"]), None);
    }
}
