//! Builds below `bin/`, which deployments share. A build goes when it is old,
//! not the newest, and no process runs from it. Where several hosts share the
//! root, the processes of other hosts cannot be seen, so builds stay.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::SystemTime;

use super::measure::{Size, measure};
use super::{Janitor, sweep::FreedSpace};
use crate::config;

/// A build, or the leftover of a broken installation.
#[derive(Debug)]
struct Build {
    folder: PathBuf,
    modified: SystemTime,
    whole: bool,
}

/// All builds together, and those that can go.
#[derive(Debug, Default)]
pub struct Builds {
    /// Space of all builds.
    pub all: Size,
    /// Space of builds that nothing needs.
    pub unused: Size,
    go: Vec<(PathBuf, Size)>,
}

impl Janitor {
    /// Looks at all builds.
    ///
    /// # Errors
    /// When the builds or the processes cannot be listed.
    pub fn builds(&self) -> io::Result<Builds> {
        let builds = list(&self.paths.bin())?;
        let mut found = Builds::default();
        let shared = nero_model::paths::may_be_shared(self.paths.root())?;
        let used = running()?;
        let newest = builds
            .iter()
            .filter(|build| build.whole)
            .max_by_key(|build| build.modified)
            .map(|build| build.folder.clone());
        let now = SystemTime::now();
        for build in &builds {
            let size = measure(&build.folder)?;
            found.all += size;
            let old = now
                .duration_since(build.modified)
                .is_ok_and(|age| age >= config::BUILD_KEPT);
            let runs = same_folder(&build.folder).is_none_or(|place| used.contains(&place));
            if old && !runs && !shared && newest.as_ref() != Some(&build.folder) {
                found.unused += size;
                found.go.push((build.folder.clone(), size));
            }
        }
        Ok(found)
    }

    /// Removes the builds that nothing needs.
    pub fn clean_builds(&self, dry_run: bool, freed: &mut FreedSpace) {
        let builds = match self.builds() {
            Ok(builds) => builds,
            Err(error) => return freed.note(format!("builds are left: {error}")),
        };
        for (folder, size) in builds.go {
            if !dry_run && let Err(error) = self.trash.take(&folder) {
                freed.note(format!("{} is left: {error}", folder.display()));
                continue;
            }
            freed.add(size);
        }
    }
}

fn list(bin: &std::path::Path) -> io::Result<Vec<Build>> {
    let entries = match fs::read_dir(bin) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let (Ok(kind), Ok(about)) = (entry.file_type(), entry.metadata()) else {
            continue;
        };
        if kind.is_dir() {
            found.push(Build {
                folder: entry.path(),
                modified: about.modified()?,
                whole: !entry.file_name().as_encoded_bytes().starts_with(b"."),
            });
        }
    }
    Ok(found)
}

type Inode = (u64, u64);

fn same_folder(folder: &std::path::Path) -> Option<Inode> {
    let found = fs::symlink_metadata(folder).ok()?;
    Some((found.dev(), found.ino()))
}

/// Folders from which programs of this user run, by inode and not by name: a
/// root may have several names.
fn running() -> io::Result<HashSet<Inode>> {
    let mut found = HashSet::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let is_process = name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
        if !is_process {
            continue;
        }
        // Other users' processes cannot be read, and do not run from our
        // folders.
        if let Ok(program) = fs::read_link(entry.path().join("exe"))
            && let Some(folder) = program.parent()
        {
            found.extend(same_folder(folder));
        }
    }
    Ok(found)
}
