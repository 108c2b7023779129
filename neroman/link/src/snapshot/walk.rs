//! Chooses the files of a folder that travel.
//!
//! By default the whole folder except what `.gitignore` and `.neroignore` exclude; with
//! `files`, the part that its globs match. Paths that are named without glob characters (in
//! `files`, `required_files`, the main file) always travel. `.git`, `.neronet` and folders
//! of results never do.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, WalkBuilder};

use super::error::{SnapshotError, size};
use super::{BYTES_MAX, FILES_MAX, FileSelection};

/// Names that never travel, at any depth.
pub(super) const NEVER: [&str; 2] = [".git", ".neronet"];
/// Most remarks of one kind.
const NOTES_MAX: usize = 10;
/// How many of the biggest entries are named.
const BIGGEST: usize = 5;

/// A file or link that travels.
#[derive(Debug)]
pub(super) enum TravellingFile {
    File {
        size: u64,
    },
    /// A link with this target.
    Link(String),
}

/// Everything that travels, by path relative to the folder.
#[derive(Debug, Default)]
pub(super) struct TravellingFiles {
    pub(super) files: BTreeMap<String, TravellingFile>,
    pub(super) notes: Vec<String>,
    special: Vec<String>,
    outward: Vec<String>,
}

/// Finds the files that travel; looks at names and sizes only.
pub(super) fn walk(
    folder: &Path,
    wanted: &FileSelection,
) -> Result<TravellingFiles, SnapshotError> {
    let walk = Walk {
        folder,
        left_out: left_out(folder, wanted),
    };
    let mut everything = TravellingFiles::default();
    let (plain, globs) = match &wanted.files {
        None => {
            walk.add(&mut everything, folder, true, None)?;
            (Vec::new(), None)
        }
        Some(files) => split(folder, files)?,
    };
    if let Some(globs) = &globs {
        walk.add(&mut everything, folder, true, Some(globs))?;
    }
    let named = wanted.required.iter().chain(&wanted.main);
    for (path, must) in plain
        .iter()
        .map(|p| (p, false))
        .chain(named.map(|p| (p, true)))
    {
        walk.add_named(&mut everything, path, must)?;
    }
    everything.say();
    Ok(everything)
}

/// Fails if the folder is larger than what is taken without `big`.
pub(super) fn check_size(folder: &Path, found: &TravellingFiles) -> Result<(), SnapshotError> {
    let (mut bytes, mut files) = (0, 0);
    let mut parts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (path, file) in &found.files {
        let TravellingFile::File { size } = file else {
            continue;
        };
        bytes += size;
        files += 1;
        let name = match path.split_once('/') {
            Some((first, _)) => format!("{first}/"),
            None => path.clone(),
        };
        let part = parts.entry(name).or_default();
        part.0 += size;
        part.1 += 1;
    }
    if bytes <= BYTES_MAX && files <= FILES_MAX {
        return Ok(());
    }
    let mut parts: Vec<_> = parts.into_iter().collect();
    parts.sort_by_key(|(_, (size, count))| {
        std::cmp::Reverse(if bytes > BYTES_MAX { *size } else { *count })
    });
    let line = parts
        .first()
        .map_or_else(String::new, |(name, _)| format!("/{name}"));
    let biggest = parts
        .iter()
        .take(BIGGEST)
        .map(|(name, (bytes, count))| {
            if name.ends_with('/') {
                format!("{name} ({} in {count} files)", size(*bytes))
            } else {
                format!("{name} ({})", size(*bytes))
            }
        })
        .collect();
    Err(SnapshotError::TooMuch {
        folder: folder.to_path_buf(),
        bytes,
        files,
        biggest,
        line,
    })
}

/// Absolute paths that are never entered.
pub(super) fn left_out(folder: &Path, wanted: &FileSelection) -> Vec<PathBuf> {
    let named = wanted.left_out.iter().map(|path| folder.join(path));
    // A results folder that is the folder itself, or around it, would leave out everything.
    named
        .chain([folder.join("results")])
        .map(|path| plainly(&path))
        .filter(|path| !folder.starts_with(path))
        .collect()
}

/// A path without `.` and `..`, which need not exist.
fn plainly(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// The plain paths, and all others as one set of globs.
fn split(
    folder: &Path,
    files: &[String],
) -> Result<(Vec<String>, Option<Gitignore>), SnapshotError> {
    let is_plain = |glob: &&String| {
        !glob.contains(['*', '?', '[', '\\', '{'])
            && folder
                .join(glob.trim_end_matches('/'))
                .symlink_metadata()
                .is_ok()
    };
    let plain = files.iter().filter(is_plain);
    let plain = plain.map(|glob| glob.trim_end_matches('/').to_owned());
    let any = (!files.is_empty()).then(|| globs(folder, files));
    Ok((plain.collect(), any.transpose()?))
}

/// Globs as in `.gitignore`, as one set.
pub(super) fn globs(folder: &Path, globs: &[String]) -> Result<Gitignore, SnapshotError> {
    let mut set = GitignoreBuilder::new(folder);
    for glob in globs {
        set.add_line(None, glob)
            .map_err(|source| SnapshotError::Glob {
                glob: glob.clone(),
                source,
            })?;
    }
    set.build().map_err(|source| SnapshotError::Glob {
        glob: globs.join(", "),
        source,
    })
}

/// Whether a set of globs matches a file, or a folder above it.
pub(super) fn is_picked(globs: &Gitignore, path: &Path) -> bool {
    globs.matched_path_or_any_parents(path, false).is_ignore()
}

struct Walk<'a> {
    folder: &'a Path,
    left_out: Vec<PathBuf>,
}

impl Walk<'_> {
    /// Adds the files below `start`. With `git`, files that git ignores stay behind.
    fn add(
        &self,
        everything: &mut TravellingFiles,
        start: &Path,
        git: bool,
        globs: Option<&Gitignore>,
    ) -> Result<(), SnapshotError> {
        // Outside of a work tree `.gitignore` files count from the folder down; inside,
        // those above it too, as for git, but none above the work tree.
        let in_work_tree = self
            .folder
            .ancestors()
            .any(|above| above.join(".git").symlink_metadata().is_ok());
        let left_out = self.left_out.clone();
        let entries = WalkBuilder::new(start)
            .standard_filters(false)
            .git_ignore(git)
            .require_git(in_work_tree)
            .parents(in_work_tree)
            .add_custom_ignore_filename(".neroignore")
            .follow_links(false)
            .filter_entry(move |entry| travels(entry, &left_out))
            .build();
        for entry in entries {
            let entry = entry.map_err(|source| SnapshotError::Folder {
                path: start.to_path_buf(),
                source,
            })?;
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            if is_folder || entry.depth() == 0 {
                continue;
            }
            let picked = globs.is_none_or(|globs| is_picked(globs, entry.path()));
            if picked {
                self.add_one(everything, entry.path())?;
            }
        }
        Ok(())
    }

    /// Adds a path that was named, with everything below it.
    fn add_named(
        &self,
        everything: &mut TravellingFiles,
        path: &str,
        must: bool,
    ) -> Result<(), SnapshotError> {
        let place = self.folder.join(path);
        let Ok(found) = place.symlink_metadata() else {
            return Err(SnapshotError::Missing { path: place });
        };
        if found.is_dir() {
            return self.add(everything, &place, false, None);
        }
        if must && !found.is_file() && !found.is_symlink() {
            return Err(SnapshotError::Special { path: place });
        }
        self.add_one(everything, &place)
    }

    fn add_one(&self, everything: &mut TravellingFiles, place: &Path) -> Result<(), SnapshotError> {
        let relative = place.strip_prefix(self.folder).unwrap_or(place);
        let name = || SnapshotError::Name {
            path: place.to_path_buf(),
        };
        let path = plainly(relative).to_str().ok_or_else(name)?.to_owned();
        let read = |source| SnapshotError::Read {
            path: place.to_path_buf(),
            source,
        };
        let found = match place.symlink_metadata() {
            // The file was removed since the folder was listed, as temporary files are.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            found => found.map_err(read)?,
        };
        if found.is_symlink() {
            let target = fs::read_link(place).map_err(read)?;
            let target = target.to_str().ok_or_else(name)?;
            let (target, leads_out) = self.inward(place, Path::new(target));
            if leads_out {
                everything.outward.push(format!("{path} → {target}"));
            }
            everything.files.insert(path, TravellingFile::Link(target));
        } else if found.is_file() {
            everything
                .files
                .insert(path, TravellingFile::File { size: found.size() });
        } else {
            everything.special.push(path);
        }
        Ok(())
    }

    /// A link's target, relative if it lies in the folder; and whether it leads out.
    fn inward(&self, link: &Path, target: &Path) -> (String, bool) {
        let beside = link.parent().unwrap_or(self.folder);
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let goal = plainly(&beside.join(target));
        let Ok(inside) = goal.strip_prefix(self.folder) else {
            return (text(target), true);
        };
        if target.is_relative() {
            return (text(target), false);
        }
        // An absolute path would lead from the frozen copy to the living folder.
        let depth = beside
            .strip_prefix(self.folder)
            .map_or(0, |above| above.components().count());
        let mut relative: PathBuf = std::iter::repeat_n("..", depth).collect();
        relative.push(inside);
        if relative.as_os_str().is_empty() {
            relative.push(".");
        }
        (text(&relative), false)
    }
}

impl TravellingFiles {
    /// Adds remarks about the paths that were passed over.
    fn say(&mut self) {
        self.special.sort();
        self.special.dedup();
        self.outward.sort();
        self.outward.dedup();
        for (what, paths) in [
            ("stays behind, being no file", &self.special),
            ("leads out of the folder and stays a link", &self.outward),
        ] {
            for path in paths.iter().take(NOTES_MAX) {
                self.notes.push(format!("{path} {what}"));
            }
            if let Some(more) = paths.len().checked_sub(NOTES_MAX).filter(|more| *more > 0) {
                self.notes.push(format!("{more} more of which each {what}"));
            }
        }
    }
}

fn travels(entry: &DirEntry, left_out: &[PathBuf]) -> bool {
    let never = NEVER.iter().any(|name| entry.file_name() == *name);
    !never && !left_out.iter().any(|path| entry.path() == path)
}
