//! Progress of files on their way, for views of a node and for commands that
//! wait. The sender or receiver counts bytes; progress is published a few times
//! a second, and only for transfers that take longer than a moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nero_wire::v1;

/// A transfer shorter than this is not shown.
const QUIET: Duration = Duration::from_secs(1);
/// Between two reports.
const BETWEEN: Duration = Duration::from_millis(250);

/// Receives the progress of a transfer; `None` once it is over.
pub type ProgressCallback = Arc<dyn Fn(Option<v1::Progress>) + Send + Sync>;

/// One transfer; it is over when this is dropped.
pub(crate) struct RunningTransfer {
    on_progress: ProgressCallback,
    progress: v1::Progress,
    began: Instant,
    told: Option<Instant>,
}

impl RunningTransfer {
    /// Begins to count; totals of 0 are unknown.
    pub(crate) fn new(
        on_progress: ProgressCallback,
        node: &str,
        what: &str,
        total_bytes: u64,
        total_files: u64,
    ) -> Self {
        Self {
            on_progress,
            progress: v1::Progress {
                what: what.to_owned(),
                node: node.to_owned(),
                total_bytes,
                total_files,
                ..v1::Progress::default()
            },
            began: Instant::now(),
            told: None,
        }
    }

    /// Counts what was transferred.
    pub(crate) fn add(&mut self, bytes: u64, files: u64) {
        self.progress.done_bytes += bytes;
        self.progress.done_files += files;
        let due = match self.told {
            None => self.began.elapsed() >= QUIET,
            Some(told) => told.elapsed() >= BETWEEN,
        };
        if due {
            self.told = Some(Instant::now());
            (self.on_progress)(Some(self.progress.clone()));
        }
    }
}

impl Drop for RunningTransfer {
    fn drop(&mut self) {
        if self.told.is_some() {
            (self.on_progress)(None);
        }
    }
}
