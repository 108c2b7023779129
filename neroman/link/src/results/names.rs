//! Where the files and links of a node's list lead, there and here.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use nero_model::paths::run::{STDERR, STDOUT};
use nero_wire::v1;

use super::choice::FILES_MAX;
use super::folder::{Folder, distinct, link_target, safe_path};

/// Where the links that outputs name lead.
pub(super) struct LinkTargets {
    /// Targets below the work folder, by the paths of links.
    targets: HashMap<PathBuf, PathBuf>,
    /// What the links lead to that a glob fits: other links, and their ends.
    named: HashSet<PathBuf>,
}

impl LinkTargets {
    /// Links that lead to one another are followed so often.
    const FOLLOWED_MAX: usize = 8;

    pub(super) fn of(list: &v1::ListFilesReply) -> Self {
        let below_work = |link: &v1::LinkEntry| {
            let path = PathBuf::from(&link.path);
            let target = link_target(&path, &link.target, &list.work)?;
            let mut at = path.parent()?.to_path_buf();
            for part in target.components() {
                match part {
                    std::path::Component::ParentDir => {
                        at.pop();
                    }
                    part => at.push(part),
                }
            }
            Some((path, at))
        };
        let targets = list.links.iter().filter_map(below_work).collect();
        let mut leads = Self {
            targets,
            named: HashSet::new(),
        };
        let fitting = list.links.iter().filter(|link| link.fits);
        let named = fitting.flat_map(|link| leads.follow(link).cloned());
        leads.named = named.collect();
        leads
    }

    /// What a link leads to: other links, then its end.
    pub(super) fn follow(&self, link: &v1::LinkEntry) -> impl Iterator<Item = &PathBuf> {
        let first = self.targets.get(Path::new(&link.path));
        let all = std::iter::successors(first, |at| self.targets.get(*at));
        all.take(Self::FOLLOWED_MAX)
    }

    /// Whether a named link leads to this file or link, or to a folder above it.
    pub(super) fn include(&self, path: &Path) -> bool {
        !self.named.is_empty() && path.ancestors().any(|one| self.named.contains(one))
    }

    /// Whether a link leads into the work folder, and to nothing of the list.
    pub(super) fn to_nothing(&self, link: &v1::LinkEntry, list: &v1::ListFilesReply) -> bool {
        self.follow(link).last().is_some_and(|end| {
            let mut files = list.files.iter();
            !files.any(|entry| Path::new(&entry.path).starts_with(end))
        })
    }
}

/// The paths of files here. Files whose names would collide here, or with the
/// logs, get distinct ones.
pub(super) struct Names {
    /// How many files have a name, as the file system compares names; empty if
    /// every two names differ.
    alike: HashMap<String, usize>,
}

impl Names {
    pub(super) fn of(list: &v1::ListFilesReply, folder: &Folder) -> Self {
        let mut alike: HashMap<String, usize> = HashMap::new();
        let mut any = false;
        for entry in list.files.iter().take(FILES_MAX) {
            let count = alike.entry(entry.path.to_lowercase()).or_default();
            *count += 1;
            any |= *count > 1;
        }
        if !any || !folder.ignores_case() {
            alike.clear();
        }
        Self { alike }
    }

    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        let path = safe_path(name)?;
        let is_log = [STDOUT, STDERR].iter().any(|log| path == Path::new(log));
        let is_alike = self.alike.get(&name.to_lowercase()) > Some(&1);
        if is_log || is_alike {
            Some(path.with_file_name(distinct(path.file_name()?.to_str()?)))
        } else {
            Some(path)
        }
    }
}
