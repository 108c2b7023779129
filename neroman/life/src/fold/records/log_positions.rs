//! Finds the points of a watcher that an earlier watcher has sent.
//!
//! A watcher continues where the segments of the earlier ones end on disk. If such a
//! segment is damaged, cut or gone by then, more of it was folded here than the
//! watcher could read, and the watcher sends the rest again from the logs.

use nero_journal::v1::{self, Stream};
use nero_model::paths::run::{METRIC_FILES_MAX, METRIC_READERS_MAX};

use crate::facts::journal::{Journal, LogRead, Segment};

/// Limit of the files of metrics of a run: those of its spec, what the job logs, and what
/// its readers print.
const FILES_MAX: usize = METRIC_FILES_MAX + 1 + METRIC_READERS_MAX;

/// How far the watchers before a watcher read the logs, in the parts of the logs
/// that a batch is from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogPositions([u64; 2 + FILES_MAX]);

impl LogPositions {
    /// The positions before a batch of this segment.
    pub(super) fn before(journal: &Journal, segment: &Segment, batch: &v1::Metrics) -> Self {
        let mut told = Self::default();
        if batch.line_ends.is_empty() {
            return told;
        }
        let earlier = journal
            .segments
            .values()
            .filter(|one| one.incarnation == segment.incarnation && one.is_before(segment));
        for one in earlier {
            for position in &batch.read_to {
                let Some(log) = log_of(position.stream) else {
                    continue;
                };
                let Some(read) = one.read_to.of(log) else {
                    continue;
                };
                // In another part of the log the same offset is another line.
                if read.part == position.part {
                    told.0[log] = told.0[log].max(read.offset);
                }
            }
        }
        told
    }

    /// Whether a point of the batch was sent before.
    pub(super) fn has(&self, batch: &v1::Metrics, index: usize) -> bool {
        let line = batch.line_ends.get(index);
        let line = line.zip(batch.line_streams.get(index));
        line.is_some_and(|(end, stream)| log_of(*stream).is_some_and(|log| *end <= self.0[log]))
    }
}

/// Notes how far a segment's watcher read.
pub(super) fn read_to(segment: &mut Segment, positions: &[v1::LogPosition]) {
    for position in positions {
        if let Some(log) = log_of(position.stream) {
            *segment.read_to.of_mut(log) = LogRead {
                part: position.part,
                offset: position.offset,
            };
        }
    }
}

/// Both logs come first, then the files of metrics.
fn log_of(stream: i32) -> Option<usize> {
    let log = usize::try_from(stream.checked_sub(Stream::Stdout as i32)?).ok()?;
    (log < 2 + FILES_MAX).then_some(log)
}
