//! Folds are committed without a sync. Before a command shows them they are
//! synced, once for all commands that ask at a time.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nero_model::Home;
use tokio::sync::Mutex;

use crate::failure::Failure;

/// Counts the commits, and those that are on the disk.
#[derive(Debug)]
pub(super) struct CommitCounts {
    /// The write-ahead logs of both databases. A checkpoint syncs what it moves.
    logs: [PathBuf; 2],
    /// Commits so far.
    committed: AtomicU64,
    /// The commits that the last sync covered.
    synced: Mutex<u64>,
}

impl CommitCounts {
    pub(super) fn new(home: &Home) -> Arc<Self> {
        let log = |database: PathBuf| {
            let mut path = database.into_os_string();
            path.push("-wal");
            PathBuf::from(path)
        };
        Arc::new(Self {
            logs: [home.series_db(), home.state_db()].map(log),
            // The last commits of an earlier process were perhaps never synced.
            committed: AtomicU64::new(1),
            synced: Mutex::new(0),
        })
    }

    /// Counts a commit; called before its state is published.
    pub(super) fn committed(&self) {
        self.committed.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns when everything that was committed by now is on the disk.
    pub(super) async fn sync(&self) -> Result<(), Failure> {
        let wanted = self.committed.load(Ordering::Acquire);
        let mut synced = self.synced.lock().await;
        if *synced >= wanted {
            return Ok(());
        }
        let all = self.committed.load(Ordering::Acquire);
        let syncing = self
            .logs
            .clone()
            .map(|log| tokio::task::spawn_blocking(move || sync_log(&log)));
        for one in syncing {
            let done = one.await.map_err(io::Error::other).flatten();
            done.map_err(|error| {
                Failure::failed("the present state cannot be made durable")
                    .caused_by(&error)
                    .hint("look at the disk of the data folder")
            })?;
        }
        *synced = all;
        Ok(())
    }
}

fn sync_log(path: &Path) -> io::Result<()> {
    match File::open(path).and_then(|file| file.sync_data()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => synced,
    }
}
