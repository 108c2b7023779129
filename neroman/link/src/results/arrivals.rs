//! Records that results are home, after they are on the disk: a power cut takes files that were
//! not synced, and what is recorded as home is never fetched again. Runs whose files come during
//! a sync share the next one.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use nero_model::RunId;
use rustix::fs::syncfs;

use super::trouble::Trouble;
use super::way;
use nero_home::ledger::{LatePolicy, Ledger};
use nero_life::input::Input;

/// The complete results of a run.
#[derive(Debug)]
pub(super) struct CompleteResults {
    pub(super) run: RunId,
    pub(super) folder: PathBuf,
    /// What is to be recorded.
    pub(super) home: Input,
}

/// Syncs the files, and records that they are home.
pub(super) async fn record(ledger: &Ledger, arrived: Vec<CompleteResults>) -> Result<(), Trouble> {
    let folders = arrived.iter().map(|one| one.folder.clone()).collect();
    way::blocking(move || sync(folders)).await??;
    let inputs = arrived.into_iter().map(|one| (one.run, one.home));
    let inputs = inputs.collect();
    ledger.happened(false, inputs, LatePolicy::Never).await?;
    Ok(())
}

/// Syncs folders of results, so that they survive a power cut: each disk once. Blocks.
pub fn sync(folders: Vec<PathBuf>) -> Result<(), Trouble> {
    let mut synced = BTreeSet::new();
    for folder in folders.iter().filter(|path| !path.as_os_str().is_empty()) {
        let failed = |error: io::Error| Trouble::unwritten(folder, &error);
        let open = match std::fs::File::open(folder) {
            // A person removed the folder, and knows it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            open => open.map_err(failed)?,
        };
        if synced.insert(open.metadata().map_err(failed)?.dev()) {
            syncfs(&open).map_err(|error| failed(error.into()))?;
        }
    }
    Ok(())
}
