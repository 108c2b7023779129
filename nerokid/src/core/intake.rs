//! From bytes of the two logs to records, with no point lost or told twice.
//!
//! A `Metrics` record says up to which byte of each log it was read. It never
//! says more than what lies in it and before it: while points are being folded
//! the position stays before the first of them. So a new watcher that goes on
//! at the last record's positions finds exactly the points not written yet.

use nero_journal::v1::{LogPosition, LogTruncated, MetricsFolded, Stream};

use super::batch::Batch;
use super::finder::Finder;
use super::fold::{Fold, WINDOW_MS};
use super::lines::Lines;
use super::record::Record;
use super::series::{AllSeries, LineEnd, SeriesId};

/// Points of names above the limit between two notices about them.
const REFUSED_NOTICE_STEP: u64 = 1_000_000;

/// Which log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Log {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// Its number in arrays.
    pub const fn index(self) -> usize {
        match self {
            Self::Stdout => 0,
            Self::Stderr => 1,
        }
    }

    /// Its name in records.
    pub const fn stream(self) -> Stream {
        match self {
            Self::Stdout => Stream::Stdout,
            Self::Stderr => Stream::Stderr,
        }
    }
}

/// How far a log has been evaluated: always the end of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// How often the job cut the file.
    pub part: u32,
    /// Bytes of this part.
    pub offset: u64,
    /// Lines of all parts.
    pub lines: u64,
}

/// Where a watcher begins.
#[derive(Debug)]
pub struct Begin {
    /// Of both logs.
    pub positions: [Position; 2],
    /// The series with their steps and latest values.
    pub series: AllSeries,
    /// Points that are written already.
    pub kept: u64,
    /// Bytes that lie in both logs: what a watcher before this one read.
    pub sizes: [u64; 2],
}

/// The two logs on their way to records.
#[derive(Debug)]
pub struct Intake {
    finder: Finder,
    series: AllSeries,
    lines: [Lines; 2],
    /// Ends of the last whole lines that were evaluated.
    positions: [Position; 2],
    /// What the last record said.
    said: [Position; 2],
    /// Where this watcher began, and how much lay there then.
    began: [(u32, u64); 2],
    batch: Batch,
    fold: Fold,
    next_index: u32,
    /// Series that got a point since they were last asked for.
    touched: Vec<SeriesId>,
    refused_told: u64,
    segment_ms: u64,
}

impl Intake {
    /// Goes on from `begin`, for a segment that was begun at `now_ms`.
    pub fn new(begin: Begin, finder: Finder, age_ms: u64, now_ms: u64) -> Self {
        Self {
            finder,
            series: begin.series,
            lines: Default::default(),
            positions: begin.positions,
            said: begin.positions,
            began: [0, 1].map(|log| (begin.positions[log].part, begin.sizes[log])),
            batch: Batch::default(),
            fold: Fold::new(age_ms, begin.kept, now_ms),
            next_index: 0,
            touched: Vec::new(),
            refused_told: 0,
            segment_ms: now_ms,
        }
    }

    /// All series.
    pub fn series(&self) -> &AllSeries {
        &self.series
    }

    /// How far a log has been evaluated.
    pub fn position(&self, log: Log) -> Position {
        self.positions[log.index()]
    }

    /// Takes the next bytes of a log. `each_line` is called behind every line
    /// that gave points, with the series that got them.
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

    /// Evaluates the unfinished line of a log to which nothing will come.
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

    /// The job cut this log: what follows is a new part, from 0.
    pub fn truncated(&mut self, log: Log, out: &mut Vec<Record>) {
        self.close_window(out);
        self.flush(out);
        let position = &mut self.positions[log.index()];
        let lost_from = position.offset;
        position.part += 1;
        position.offset = 0;
        self.said[log.index()] = *position;
        out.push(Record::Truncated(LogTruncated {
            stream: log.stream().into(),
            part: position.part,
            lost_from,
        }));
        self.lines[log.index()].forget();
    }

    /// Writes what waits, unless a window is folding.
    pub fn flush(&mut self, out: &mut Vec<Record>) {
        if self.fold.due_ms().is_none() && !self.batch.is_empty() {
            self.write_batch(out);
        }
    }

    /// Says how far the logs were read, when no record says it yet.
    pub fn mark(&mut self, out: &mut Vec<Record>) {
        if self.fold.due_ms().is_none() && self.said != self.positions {
            self.write_batch(out);
        }
    }

    /// Whether points wait to be written.
    pub fn waits(&self) -> bool {
        !self.batch.is_empty()
    }

    /// When a folding window ends.
    pub fn window_due_ms(&self) -> Option<u64> {
        self.fold.due_ms()
    }

    /// Ends a folding window whose time has come.
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

    /// The positions, for records.
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
                }
            })
            .collect()
    }

    /// Takes a line that ends at this offset of its log.
    fn line(&mut self, log: Log, line: &[u8], offset: u64, now_ms: u64, out: &mut Vec<Record>) {
        let found = self.finder.find(line);
        if found.is_empty() {
            return;
        }
        let folds = self.fold.folds(now_ms);
        if folds && self.fold.due_ms().is_none() && !self.batch.is_empty() {
            // The last chance to say where the points before the window end.
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
            let point = self.series.add(series, found.step, value, mono_ms, line);
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

    /// Says at the end how many points of too many names there were.
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
