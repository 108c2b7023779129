//! Lists the files of a folder that do not travel, and the ignore file or field
//! that excludes each. Looks at names only, and into no folder that is excluded
//! as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ignore::WalkBuilder;
use ignore::gitignore::GitignoreBuilder;

use super::FileSelection;
use super::walk::{NEVER, TravellingFiles, left_out};

/// Most entries that are listed.
const FOUND_MAX: usize = 200;
/// Most names in one line.
const SHOWN_MAX: usize = 8;
/// Files that programs make beside themselves, which no job misses.
const NOT_MISSED: [&str; 3] = ["__pycache__", ".pytest_cache", ".DS_Store"];

/// A file or folder that stays behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Relative to the folder; a folder ends with `/` and stands for all below.
    pub path: String,
    /// `.gitignore`, `.neroignore` or `files`.
    pub by: String,
}

/// Lists the entries; unreadable ones are passed over, since the freeze reports
/// them.
pub(super) fn find(folder: &Path, wanted: &FileSelection, found: &TravellingFiles) -> Vec<LeftOut> {
    let mut parents: BTreeSet<&str> = BTreeSet::new();
    for path in found.files.keys() {
        let mut above = path.as_str();
        while let Some((parent, _)) = above.rsplit_once('/') {
            if !parents.insert(parent) {
                break;
            }
            above = parent;
        }
    }
    let never = left_out(folder, wanted);
    let inside: BTreeSet<String> = parents.iter().map(|path| (*path).to_owned()).collect();
    let base = folder.to_path_buf();
    let entries = WalkBuilder::new(folder)
        .standard_filters(false)
        .follow_links(false)
        .sort_by_file_path(Path::cmp)
        .filter_entry(move |entry| {
            let name = entry.file_name();
            let skipped = (NEVER.iter().chain(&NOT_MISSED)).any(|one| name == *one)
                || never.iter().any(|path| entry.path() == path);
            // The walk enters the parent of an excluded folder, but not the
            // folder.
            let above = entry.path().parent();
            let above = above.and_then(|above| above.strip_prefix(&base).ok());
            let in_left_out = above.is_some_and(|above| {
                let above = above.to_str().unwrap_or_default();
                !above.is_empty() && !inside.contains(above)
            });
            !skipped && !in_left_out
        })
        .build();
    let mut left = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.depth() > 0) {
        let Some(path) = entry
            .path()
            .strip_prefix(folder)
            .ok()
            .and_then(Path::to_str)
        else {
            continue;
        };
        let kind = entry.file_type();
        let is_folder = kind.is_some_and(|kind| kind.is_dir());
        let travels = if is_folder {
            parents.contains(path) || is_empty(entry.path())
        } else {
            found.files.contains_key(path)
        };
        let is_special =
            kind.is_none_or(|kind| !kind.is_dir() && !kind.is_file() && !kind.is_symlink());
        if travels || is_special {
            continue;
        }
        left.push(LeftOut {
            path: format!("{path}{}", if is_folder { "/" } else { "" }),
            by: by(folder, wanted, entry.path(), is_folder),
        });
        if left.len() == FOUND_MAX {
            break;
        }
    }
    left
}

fn is_empty(folder: &Path) -> bool {
    folder
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_none())
}

/// The file or field that excludes a path: the nearest ignore file that names
/// it.
fn by(folder: &Path, wanted: &FileSelection, path: &Path, is_folder: bool) -> String {
    for above in path
        .ancestors()
        .skip(1)
        .take_while(|above| above.starts_with(folder))
    {
        for name in [".neroignore", ".gitignore"] {
            let mut ignore = GitignoreBuilder::new(above);
            if ignore.add(above.join(name)).is_none()
                && let Ok(ignore) = ignore.build()
                && ignore
                    .matched_path_or_any_parents(path, is_folder)
                    .is_ignore()
            {
                return name.to_owned();
            }
        }
    }
    match wanted.files {
        Some(_) => "files".to_owned(),
        // An ignore file above the folder, in its repository.
        None => ".gitignore".to_owned(),
    }
}

/// Short texts: `data/ (.gitignore)`, `3 × *.pt (.gitignore)`.
pub fn in_words(left: &[LeftOut]) -> Vec<String> {
    let mut kinds: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for one in left {
        let name = one.path.rsplit('/').next().unwrap_or_default();
        // A folder ends with a slash and is named by itself.
        let kind = match name.rsplit_once('.') {
            Some((before, ending)) if !before.is_empty() => ending,
            _ => one.path.as_str(),
        };
        kinds.entry((kind, &one.by)).or_default().push(&one.path);
    }
    let mut words: Vec<(bool, String)> = kinds
        .into_iter()
        .map(|((kind, by), paths)| match paths.as_slice() {
            [one] => (!one.ends_with('/'), format!("{one} ({by})")),
            several => (true, format!("{} × *.{kind} ({by})", several.len())),
        })
        .collect();
    // Folders first: they hold most.
    words.sort();
    let more = words.len().saturating_sub(SHOWN_MAX);
    words.truncate(SHOWN_MAX);
    let mut words: Vec<String> = words.into_iter().map(|(_, word)| word).collect();
    if more > 0 {
        words.push(format!("{more} more"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_left_out_are_named_with_the_pattern_that_left_them_out() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path();
        for path in [
            "main.py",
            "data2/y.csv",
            "data2/deep/z.csv",
            "a.pt",
            "b.pt",
            "sub/c.pt",
            "sub/kept.py",
            "secret.txt",
            "__pycache__/main.pyc",
            "results/old/log",
        ] {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        fs::create_dir(folder.join("empty")).unwrap();
        fs::write(folder.join(".gitignore"), "data2/\n*.pt\n__pycache__\n").unwrap();
        fs::write(folder.join(".neroignore"), "secret.txt\n").unwrap();
        let survey = super::super::survey(folder, &FileSelection::default()).unwrap();
        assert_eq!((survey.files, survey.bytes), (4, 2 + 24 + 11));
        assert_eq!(
            in_words(&survey.left_out),
            [
                "data2/ (.gitignore)",
                "3 × *.pt (.gitignore)",
                "secret.txt (.neroignore)"
            ]
        );
        let wanted = FileSelection {
            files: Some(vec!["*.py".to_owned()]),
            ..FileSelection::default()
        };
        let survey = super::super::survey(folder, &wanted).unwrap();
        assert_eq!(survey.files, 2);
        let by: Vec<_> = survey
            .left_out
            .iter()
            .filter(|one| one.path.starts_with('.') || one.path == "a.pt")
            .map(|one| (one.path.as_str(), one.by.as_str()))
            .collect();
        assert_eq!(
            by,
            [
                (".gitignore", "files"),
                (".neroignore", "files"),
                ("a.pt", ".gitignore")
            ]
        );
    }
}
