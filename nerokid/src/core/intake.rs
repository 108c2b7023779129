//! From bytes of the two logs to records, with no point lost or reported twice.
//!
//! A `Metrics` record contains the byte of each log up to which it was read.
//! All points up to there are in it or before it: while points are being
//! folded, the position stays before the first of them. So a new watcher that
//! continues at the last record's positions reads exactly the points that are
//! not written yet.

use nero_journal::v1::{LogPosition, LogTruncated, MetricsFolded, StepCount};

use super::batch::Batch;
use super::fold::{Fold, WINDOW_MS};
use super::log::Log;
use super::record::Record;
use super::series::{AllSeries, LineEnd, SeriesId};
use nero_metrics::finder::{Context, Finder};
use nero_metrics::lines::Lines;
use nero_metrics::progress::{Done, Outer, ProgressKind};
use nero_metrics::table::TableStage;

/// Points of names above the limit between two notices about them.
const REFUSED_NOTICE_STEP: u64 = 1_000_000;

/// Position up to which a log has been evaluated: always the end of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// Number of times that the job truncated the file.
    pub part: u32,
    /// Bytes in the present part.
    pub offset: u64,
    /// Lines in all parts.
    pub lines: u64,
    /// Step of an earlier line, for lines without one.
    pub step: Option<f64>,
    /// The table whose rows may follow.
    pub table: Option<TableAt>,
    /// Steps of an earlier line, which progress bars after it are within.
    pub outer: Option<Outer>,
}

/// Where a table's line of names begins, in bytes of the present part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableAt {
    /// Byte of the line of names.
    pub header: u64,
    /// Columns of its rows; `None` before the first row.
    pub columns: Option<u32>,
}

impl Position {
    /// What the lines before mean for the next one. `header` is the table's line of
    /// names, read anew; without it there is no table.
    pub fn context(&self, header: Option<&[u8]>) -> Context {
        let stage = |table: TableAt| table.columns.map_or(TableStage::Named, TableStage::Rows);
        let table = header.zip(self.table.map(stage));
        Context::resumed(self.step, table, self.outer)
    }

    /// Notes what a line that began at `start` left for the next one.
    fn note(&mut self, context: &Context, start: u64) {
        self.step = context.step();
        self.outer = context.outer();
        let columns = match context.stage() {
            TableStage::None => {
                self.table = None;
                return;
            }
            TableStage::Named => None,
            TableStage::Rows(columns) => Some(columns),
        };
        let header = match self.table {
            Some(table) if !context.is_header() => table.header,
            Some(_) | None => start,
        };
        self.table = Some(TableAt { header, columns });
    }
}

/// State from which a watcher begins.
#[derive(Debug)]
pub struct Begin {
    /// Positions of both logs.
    pub positions: [Position; 2],
    /// The series with their steps and latest values.
    pub series: AllSeries,
    /// Number of points written already.
    pub kept: u64,
    /// Bytes in both logs that a former watcher read.
    pub sizes: [u64; 2],
    /// What the lines before the positions mean for the next ones.
    pub contexts: [Context; 2],
}

/// The two logs on their way to records.
#[derive(Debug)]
pub struct Intake {
    finder: Finder,
    contexts: [Context; 2],
    series: AllSeries,
    lines: [Lines; 2],
    /// Ends of the last whole lines that were evaluated.
    positions: [Position; 2],
    /// Positions in the last record.
    said: [Position; 2],
    /// Position at which this watcher began, and the log's size at that time.
    began: [(u32, u64); 2],
    batch: Batch,
    fold: Fold,
    next_index: u32,
    /// Series that got points from the line being read.
    touched: Vec<SeriesId>,
    /// The newest progress by each source, until it is taken.
    done: [Option<Done>; ProgressKind::ALL.len()],
    refused_told: u64,
    segment_ms: u64,
}

impl Intake {
    /// Continues from `begin`, for a segment that was begun at `now_ms`.
    pub fn new(begin: Begin, finder: Finder, age_ms: u64, now_ms: u64) -> Self {
        Self {
            finder,
            contexts: begin.contexts,
            series: begin.series,
            lines: Default::default(),
            positions: begin.positions,
            said: begin.positions,
            began: [0, 1].map(|log| (begin.positions[log].part, begin.sizes[log])),
            batch: Batch::default(),
            fold: Fold::new(age_ms, begin.kept, now_ms),
            next_index: 0,
            touched: Vec::new(),
            done: Default::default(),
            refused_told: 0,
            segment_ms: now_ms,
        }
    }

    /// All series.
    pub fn series(&self) -> &AllSeries {
        &self.series
    }

    /// All series, to be changed.
    pub fn series_mut(&mut self) -> &mut AllSeries {
        &mut self.series
    }

    /// Position up to which a log has been evaluated.
    pub fn position(&self, log: Log) -> Position {
        self.positions[log.index()]
    }

    /// Takes the next bytes of a log. Calls `each_line` after every line that
    /// gave points, with the series that got them.
    pub fn feed(
        &mut self,
        log: Log,
        bytes: &[u8],
        now_ms: u64,
        out: &mut Vec<Record>,
        mut each_line: impl FnMut(&mut Self, &mut Vec<Record>),
    ) {
        let base = self.positions[log.index()];
        // Bytes of an unfinished line lie before these.
        let mut lines = std::mem::take(&mut self.lines[log.index()]);
        let start = base.offset + lines.unfinished_bytes();
        lines.feed(bytes, |line, end| {
            let offset = start + end as u64;
            self.line(log, line, offset, now_ms, out);
            let position = &mut self.positions[log.index()];
            position.note(&self.contexts[log.index()], position.offset);
            position.offset = offset;
            position.lines += 1;
            if !self.touched.is_empty() {
                each_line(self, out);
                self.touched.clear();
            }
            if self.batch.is_full() && self.fold.due_ms().is_none() {
                self.flush(out);
            }
        });
        self.lines[log.index()] = lines;
    }

    /// Evaluates the unfinished line of a log that will not grow any more.
    pub fn finish(
        &mut self,
        log: Log,
        now_ms: u64,
        out: &mut Vec<Record>,
        mut each_line: impl FnMut(&mut Self, &mut Vec<Record>),
    ) {
        let mut lines = std::mem::take(&mut self.lines[log.index()]);
        let bytes = lines.unfinished_bytes();
        let offset = self.position(log).offset + bytes;
        lines.finish(|line| self.line(log, line, offset, now_ms, out));
        let position = &mut self.positions[log.index()];
        position.note(&self.contexts[log.index()], position.offset);
        position.offset = offset;
        position.lines += u64::from(bytes > 0);
        if !self.touched.is_empty() {
            each_line(self, out);
            self.touched.clear();
        }
    }

    /// The series that got points from the line just read.
    pub fn touched(&self) -> &[SeriesId] {
        &self.touched
    }

    /// Takes the progress that was printed since the last call, in the order in which
    /// sources count.
    pub fn take_done(&mut self) -> impl Iterator<Item = Done> + use<> {
        std::mem::take(&mut self.done).into_iter().flatten()
    }

    /// The job truncated this log: the following bytes are a new part, from 0.
    pub fn truncated(&mut self, log: Log, out: &mut Vec<Record>) {
        self.close_window(out);
        self.flush(out);
        let position = &mut self.positions[log.index()];
        let lost_from = position.offset;
        position.part += 1;
        position.offset = 0;
        position.step = None;
        position.table = None;
        position.outer = None;
        self.contexts[log.index()] = Context::default();
        self.said[log.index()] = *position;
        out.push(Record::Truncated(LogTruncated {
            stream: log.stream().into(),
            part: position.part,
            lost_from,
        }));
        self.lines[log.index()].forget();
    }

    /// Writes the waiting points, unless a window is folding.
    pub fn flush(&mut self, out: &mut Vec<Record>) {
        if self.fold.due_ms().is_none() && !self.batch.is_empty() {
            self.write_batch(out);
        }
    }

    /// Records the positions of the logs, unless the last record has them.
    pub fn mark(&mut self, out: &mut Vec<Record>) {
        if self.fold.due_ms().is_none() && self.said != self.positions {
            self.write_batch(out);
        }
    }

    /// Whether points wait to be written.
    pub fn waits(&self) -> bool {
        !self.batch.is_empty()
    }

    /// End of the folding window.
    pub fn window_due_ms(&self) -> Option<u64> {
        self.fold.due_ms()
    }

    /// Ends a folding window when its time is over.
    pub fn tick(&mut self, now_ms: u64, out: &mut Vec<Record>) {
        if self.fold.due_ms().is_some_and(|due| due <= now_ms) {
            self.close_window(out);
        }
    }

    /// Ends a folding window.
    pub fn close_window(&mut self, out: &mut Vec<Record>) {
        if self.fold.due_ms().is_none() {
            return;
        }
        let (kept, points) = self.fold.take();
        for point in kept {
            self.batch
                .add(point, &mut self.series, &mut self.next_index);
        }
        self.write_batch(out);
        out.push(Record::Folded(MetricsFolded {
            points,
            window_ms: WINDOW_MS,
        }));
    }

    /// The positions, as records contain them.
    pub fn read_to(&self) -> Vec<LogPosition> {
        Log::BOTH
            .into_iter()
            .map(|log| {
                let position = self.position(log);
                LogPosition {
                    stream: log.stream().into(),
                    part: position.part,
                    offset: position.offset,
                    lines: position.lines,
                    step: position.step,
                    header: position.table.map(|table| table.header),
                    columns: position.table.and_then(|table| table.columns).unwrap_or(0),
                    count: position.outer.map(|outer| StepCount {
                        rank: outer.rank.into(),
                        done: outer.done,
                        total: outer.total,
                        within: outer.within,
                    }),
                }
            })
            .collect()
    }

    /// Takes a line that ends at this offset of its log.
    fn line(&mut self, log: Log, line: &[u8], offset: u64, now_ms: u64, out: &mut Vec<Record>) {
        let found = self.finder.find(line, &mut self.contexts[log.index()]);
        if let Some(done) = found.progress {
            self.done[done.source as usize - 1] = Some(done);
        }
        if found.is_empty() {
            return;
        }
        let folds = self.fold.folds(now_ms);
        if folds && self.fold.due_ms().is_none() && !self.batch.is_empty() {
            // The last chance to record the end of the points before the
            // window.
            let read_to = self.read_to();
            self.said = self.positions;
            out.extend(self.batch.take(read_to).map(Record::Metrics));
        }
        let mono_ms = now_ms.saturating_sub(self.segment_ms);
        let (part, size) = self.began[log.index()];
        let line = LineEnd {
            log,
            offset,
            is_old: part == self.position(log).part && offset <= size,
        };
        let found = self.finder.found();
        for (name, value) in found.pairs() {
            let Some(series) = self.series.of(name) else {
                continue;
            };
            let point = self.series.add(series, found, value, mono_ms, line);
            self.touched.push(series);
            if folds {
                self.fold.add(point, now_ms);
            } else {
                self.batch
                    .add(point, &mut self.series, &mut self.next_index);
            }
        }
        if !folds {
            self.fold.spend(found.len());
        }
        self.tell_refused(out);
    }

    fn write_batch(&mut self, out: &mut Vec<Record>) {
        let read_to = self.read_to();
        self.said = self.positions;
        out.extend(self.batch.take(read_to).map(Record::Metrics));
    }

    fn tell_refused(&mut self, out: &mut Vec<Record>) {
        let refused = self.series.refused();
        if refused > 0
            && (self.refused_told == 0 || refused >= self.refused_told + REFUSED_NOTICE_STEP)
        {
            self.refused_told = refused;
            out.push(refused_notice(refused));
        }
    }

    /// Records, at the end, the number of points that were refused for too many
    /// names.
    pub fn tell_refused_at_the_end(&mut self, out: &mut Vec<Record>) {
        let refused = self.series.refused();
        if refused > self.refused_told {
            self.refused_told = refused;
            out.push(refused_notice(refused));
        }
    }
}

fn refused_notice(refused: u64) -> Record {
    Record::notice(format!(
        "more than {} names of metrics: {refused} points of further names were not kept",
        super::series::NAMES_MAX
    ))
}
