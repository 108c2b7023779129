//! Finds the points of a watcher that an earlier watcher has sent.
//!
//! A watcher continues where the segments of the earlier ones end on disk. If such a
//! segment is damaged, cut or gone by then, more of it was folded here than the
//! watcher could read, and the watcher sends the rest again from the logs.

use nero_journal::v1::{self, Stream};

use super::super::journal::{Journal, LogRead, LogsRead, Segment};

/// How far the watchers before a watcher read the logs, in the parts of the logs
/// that a batch is from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told([u64; 2]);

impl Told {
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
                let read = one.read_to.0[log];
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
        let line = batch
            .line_ends
            .get(index)
            .zip(batch.line_streams.get(index));
        line.is_some_and(|(end, stream)| log_of(*stream).is_some_and(|log| *end <= self.0[log]))
    }
}

/// Notes how far a segment's watcher read.
pub(super) fn read_to(segment: &mut Segment, positions: &[v1::LogPosition]) {
    let LogsRead(logs) = &mut segment.read_to;
    for position in positions {
        if let Some(log) = log_of(position.stream) {
            logs[log] = LogRead {
                part: position.part,
                offset: position.offset,
            };
        }
    }
}

fn log_of(stream: i32) -> Option<usize> {
    match Stream::try_from(stream) {
        Ok(Stream::Stdout) => Some(0),
        Ok(Stream::Stderr) => Some(1),
        Ok(Stream::Unspecified) | Err(_) => None,
    }
}
