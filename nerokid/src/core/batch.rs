//! Points that wait to be written, as one `Metrics` record.

use nero_journal::v1::{LogPosition, Metrics};

use super::log::Log;
use super::series::{AllSeries, Point};

/// Size in (estimated) bytes at which a batch is written at once. With the
/// pairs of one more line it still fits into a record.
pub const BATCH_BYTES: usize = 64 * 1024;
/// Size from which names are written in a record of their own.
const NAMES_BYTES: usize = 256 * 1024;
/// Approximate limit of a point's bytes in a record.
const POINT_BYTES: usize = 30;

/// The batch.
#[derive(Debug, Default)]
pub struct Batch {
    metrics: Metrics,
    names_bytes: usize,
    generations: bool,
    old_lines: bool,
    of_files: bool,
}

impl Batch {
    /// Adds a point. If its series has no name in the segment yet, the batch
    /// gets the name, too.
    pub fn add(&mut self, point: Point, all: &mut AllSeries, next_index: &mut u32) {
        let Some(series) = all.get_mut(point.series) else {
            return;
        };
        let index = *series.index.get_or_insert_with(|| {
            self.names_bytes += series.name.len() + 3;
            self.metrics.names.push(series.name.to_string());
            let index = *next_index;
            *next_index += 1;
            index
        });
        self.metrics.series.push(index);
        self.metrics.steps.push(point.step);
        self.metrics.values.push(point.value);
        self.metrics.mono_ms.push(point.mono_ms);
        self.metrics.generation.push(point.generation);
        self.generations |= point.generation != 0;
        // neroman must not take a new point for one of an earlier watcher, whatever its
        // offset.
        let end = if point.line.is_old {
            point.line.offset
        } else {
            u64::MAX
        };
        self.metrics.line_ends.push(end);
        self.metrics.line_streams.push(point.line.log.stream());
        self.old_lines |= point.line.is_old;
        self.of_files |= matches!(point.line.log, Log::File(_));
    }

    /// Number of waiting points.
    pub fn len(&self) -> usize {
        self.metrics.series.len()
    }

    /// Whether no point waits.
    pub fn is_empty(&self) -> bool {
        self.metrics.series.is_empty()
    }

    /// Whether the batch should be written now.
    pub fn is_full(&self) -> bool {
        self.len() * POINT_BYTES + self.names_bytes >= BATCH_BYTES
    }

    /// Takes the waiting points and names as records: the points with
    /// `read_to`, and before them the names when there are very many. A record
    /// of names claims no position, so a watcher that dies in between has lost
    /// nothing.
    pub fn take(&mut self, read_to: Vec<LogPosition>) -> impl Iterator<Item = Metrics> {
        let names = (self.names_bytes > NAMES_BYTES).then(|| Metrics {
            names: std::mem::take(&mut self.metrics.names),
            ..Metrics::default()
        });
        let mut metrics = std::mem::take(&mut self.metrics);
        if !self.generations {
            metrics.generation = Vec::new();
        }
        if !self.old_lines {
            metrics.line_ends = Vec::new();
        }
        // The next watcher must know the points of files: their steps are their own.
        if !self.old_lines && !self.of_files {
            metrics.line_streams = Vec::new();
        }
        metrics.read_to = read_to;
        self.generations = false;
        self.old_lines = false;
        self.of_files = false;
        self.names_bytes = 0;
        names.into_iter().chain(std::iter::once(metrics))
    }
}

#[cfg(test)]
mod tests {
    use super::super::series::LineEnd;
    use super::*;

    #[test]
    fn only_points_that_were_there_before_the_watcher_have_the_ends_of_their_lines() {
        let mut all = AllSeries::default();
        let loss = all.of("loss").unwrap();
        let mut batch = Batch::default();
        for (is_old, offset) in [(true, 100), (false, 10)] {
            let line = LineEnd {
                log: Log::File(0),
                offset,
                is_old,
            };
            let point = all.add(loss, &Default::default(), 0.5, 0, line);
            batch.add(point, &mut all, &mut 0);
        }
        let metrics = batch.take(Vec::new()).last().unwrap();
        assert_eq!(metrics.line_ends, [100, u64::MAX]);
        assert_eq!(metrics.line_streams.len(), 2);
    }
}
