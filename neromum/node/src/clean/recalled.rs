//! Folders of recalled runs: they go long after the last request about them
//! can come.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nero_journal::request::RequestKind;

use super::Janitor;
use super::measure::measure;
use super::sweep::FreedSpace;
use crate::config;
use crate::runs::{folders, spec};

impl Janitor {
    /// Removes the folders of runs that were recalled long ago.
    pub(super) fn clean_recalled(&self, unnamed_ms: u64, dry_run: bool, freed: &mut FreedSpace) {
        let kept = Duration::from_millis(unnamed_ms.max(config::UNNAMED_KEPT_MS));
        let all = match folders::all(&self.paths) {
            Ok(all) => all,
            Err(error) => return freed.note(format!("recalled runs are left: {error}")),
        };
        for (_, run_dir) in all {
            if !spec::is_recalled(&run_dir) || !is_older(&run_dir, kept) {
                continue;
            }
            let size = measure(&run_dir).unwrap_or_default();
            if !dry_run && let Err(error) = self.trash.take(&run_dir) {
                freed.note(format!("{} is left: {error}", run_dir.display()));
                continue;
            }
            freed.add(size);
        }
    }
}

/// Whether its cancel request is older than `kept`, or its folder, if it has none.
fn is_older(run_dir: &Path, kept: Duration) -> bool {
    fs::symlink_metadata(RequestKind::Cancel.path(run_dir, 1))
        .or_else(|_| fs::symlink_metadata(run_dir))
        .and_then(|found| found.modified())
        .is_ok_and(|at| {
            SystemTime::now()
                .duration_since(at)
                .is_ok_and(|age| age > kept)
        })
}
