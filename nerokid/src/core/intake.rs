//! From bytes of the two logs, and of files of metrics, to records, with no point lost or reported twice.
//!
//! A `Metrics` record contains the byte of each log up to which it was read.
//! All points up to there are in it or before it: while points are being
//! folded, the position stays before the first of them. So a new watcher that
//! continues at the last record's positions reads exactly the points that are
//! not written yet.

use nero_journal::v1::{FileRows, LogPosition, LogTable, LogTruncated, MetricsFolded, StepCount};

use super::batch::Batch;
use super::fold::{Fold, WINDOW_MS};
use super::log::Log;
use super::record::Record;
use super::rows::{KnownRows, RowCounts, RowKind};
use super::scope;
use super::series::{AllSeries, LineEnd, SeriesId};
use nero_metrics::file::FileForm;
use nero_metrics::finder::{Context, Finder};
use nero_metrics::labels::scope::Scope;
use nero_metrics::lines::Lines;
use nero_metrics::progress::{LineProgress, OuterSteps, ProgressKind};
use nero_metrics::tables::table::TableStage;

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
    /// The table before it, whose rows may go on.
    pub former: Option<TableAt>,
    /// Steps of an earlier line, which progress bars after it are within.
    pub outer: Option<OuterSteps>,
    /// Rows of a file that its program may write anew.
    pub rows: RowCounts,
    /// What earlier lines tell of sets.
    pub scope: Scope,
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
    /// What the lines before mean for the next one. `texts` are the lines from the line of names
    /// of the former table and of the present one on, read anew; without them there is no table.
    pub fn context(&self, finder: &mut Finder, texts: [Option<&[u8]>; 2]) -> Context {
        let stage = |table: TableAt| table.columns.map_or(TableStage::Named, TableStage::Rows);
        let [former, table] = texts;
        let former = former.zip(self.former.map(stage));
        let table = table.zip(self.table.map(stage));
        finder.resumed(self.step, self.outer, self.scope, [former, table])
    }

    /// The start of the same part of a file.
    pub fn anew(&self) -> Self {
        Self {
            part: self.part,
            lines: self.lines,
            rows: RowCounts { at: 0, ..self.rows },
            ..Self::default()
        }
    }

    /// Notes what a line that began at `start` left for the next one.
    fn note(&mut self, context: &mut Context, start: u64) {
        self.step = context.step();
        self.outer = context.outer();
        self.scope = context.scope();
        if context.take_restored_table() {
            self.table = self.former;
        }
        let columns = match context.stage() {
            TableStage::None => {
                self.table = None;
                self.former = None;
                return;
            }
            TableStage::Named => None,
            TableStage::Rows(columns) => Some(columns),
        };
        if !context.has_former_table() {
            self.former = None;
        } else if context.is_header() && self.table.is_some_and(|table| table.columns.is_some()) {
            self.former = self.table;
        }
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
    /// All logs: the two, and the files.
    pub logs: Vec<BegunLog>,
    /// The series with their steps and latest values.
    pub series: AllSeries,
    /// Number of points written already.
    pub kept: u64,
}

/// State from which a watcher reads a log.
#[derive(Debug, Default)]
pub struct BegunLog {
    pub position: Position,
    /// Bytes in the log, which a former watcher may have read.
    pub size: u64,
    /// What the lines before the position mean for the next one.
    pub context: Context,
    pub form: LogForm,
    /// The rows of a file that its program may write anew.
    pub rows: Option<KnownRows>,
}

/// How the lines of a log are read.
#[derive(Clone, Copy, Debug)]
pub struct LogForm {
    pub form: FileForm,
    /// Whether a comma between digits is the decimal point.
    pub decimal_comma: bool,
}

impl LogForm {
    /// What the first line is read by.
    pub fn context(self) -> Context {
        Context::of_file(self.form, self.decimal_comma)
    }
}

impl Default for LogForm {
    fn default() -> Self {
        Self {
            form: FileForm::Printed,
            decimal_comma: false,
        }
    }
}

/// One log on its way to records.
#[derive(Debug)]
struct LogReader {
    form: LogForm,
    context: Context,
    lines: Lines,
    /// End of the last whole line that was evaluated.
    position: Position,
    /// Position in the last record.
    said: Position,
    /// Position at which this watcher began, and the log's size at that time.
    began: (u32, u64),
    rows: Option<KnownRows>,
    /// Whether a line of it gave points.
    gave: bool,
}

impl LogReader {
    fn new(begun: BegunLog) -> Self {
        Self {
            form: begun.form,
            context: begun.context,
            lines: Lines::of_file(begun.form.form),
            began: (begun.position.part, begun.size),
            gave: begun.position.offset > 0 || begun.position.rows.known > 0,
            position: begun.position,
            said: begun.position,
            rows: begun.rows,
        }
    }

    /// Notes the end of a line in the position.
    fn ends_line(&mut self, offset: u64) {
        self.position.note(&mut self.context, self.position.offset);
        self.position.offset = offset;
        if let Some(rows) = &self.rows {
            self.position.rows = rows.counts();
        }
    }
}

/// The logs on their way to records.
#[derive(Debug)]
pub struct Intake {
    finder: Finder,
    logs: Vec<LogReader>,
    series: AllSeries,
    batch: Batch,
    fold: Fold,
    next_index: u32,
    /// Series that got points from the line being read.
    touched: Vec<SeriesId>,
    /// The newest progress by each source, until it is taken.
    done: [Option<LineProgress>; ProgressKind::ALL.len()],
    refused_told: u64,
    segment_ms: u64,
}

impl Intake {
    /// Continues from `begin`, for a segment that was begun at `now_ms`.
    pub fn new(begin: Begin, finder: Finder, age_ms: u64, now_ms: u64) -> Self {
        Self {
            finder,
            logs: begin.logs.into_iter().map(LogReader::new).collect(),
            series: begin.series,
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
        self.logs[log.index()].position
    }

    /// Whether a line of a log gave points, to this watcher or perhaps a former one.
    pub fn gave(&self, log: Log) -> bool {
        self.logs[log.index()].gave
    }

    /// All logs.
    pub fn logs(&self) -> impl Iterator<Item = Log> + use<> {
        Log::all(self.logs.len().saturating_sub(2))
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
        let reader = &mut self.logs[log.index()];
        // Bytes of an unfinished line lie before these.
        let mut lines = std::mem::take(&mut reader.lines);
        let start = reader.position.offset + lines.unfinished_bytes();
        lines.feed(bytes, |line, end| {
            let offset = start + end as u64;
            self.line(log, line, offset, now_ms, out);
            let reader = &mut self.logs[log.index()];
            reader.ends_line(offset);
            reader.position.lines += 1;
            if !self.touched.is_empty() {
                each_line(self, out);
                self.touched.clear();
            }
            if self.batch.is_full() && self.fold.due_ms().is_none() {
                self.flush(out);
            }
        });
        self.logs[log.index()].lines = lines;
    }

    /// Evaluates the unfinished line of a log that will not grow any more.
    pub fn finish(
        &mut self,
        log: Log,
        now_ms: u64,
        out: &mut Vec<Record>,
        mut each_line: impl FnMut(&mut Self, &mut Vec<Record>),
    ) {
        let mut lines = std::mem::take(&mut self.logs[log.index()].lines);
        let bytes = lines.unfinished_bytes();
        let offset = self.position(log).offset + bytes;
        lines.finish(|line| self.line(log, line, offset, now_ms, out));
        let reader = &mut self.logs[log.index()];
        reader.ends_line(offset);
        reader.position.lines += u64::from(bytes > 0);
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
    pub fn take_done(&mut self) -> impl Iterator<Item = LineProgress> + use<> {
        std::mem::take(&mut self.done).into_iter().flatten()
    }

    /// The job truncated this log, or wrote it anew: the following bytes are a new part,
    /// from 0.
    pub fn truncated(&mut self, log: Log, out: &mut Vec<Record>) {
        self.close_window(out);
        self.flush(out);
        let reader = &mut self.logs[log.index()];
        if let Some(rows) = &mut reader.rows {
            rows.begin();
        }
        let lost_from = reader.position.offset;
        reader.position = Position {
            part: reader.position.part + 1,
            lines: reader.position.lines,
            rows: reader
                .rows
                .as_ref()
                .map(KnownRows::counts)
                .unwrap_or_default(),
            ..Position::default()
        };
        reader.context = reader.form.context();
        reader.said = reader.position;
        out.push(Record::Truncated(LogTruncated {
            stream: log.stream(),
            part: reader.position.part,
            lost_from,
        }));
        reader.lines.forget();
    }

    /// Writes the waiting points, unless a window is folding.
    pub fn flush(&mut self, out: &mut Vec<Record>) {
        if self.fold.due_ms().is_none() && !self.batch.is_empty() {
            self.write_batch(out);
        }
    }

    /// Records the positions of the logs, unless the last record has them.
    pub fn mark(&mut self, out: &mut Vec<Record>) {
        let is_said = self.logs.iter().all(|log| log.said == log.position);
        if self.fold.due_ms().is_none() && !is_said {
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
        let logs = self.logs().zip(&self.logs);
        let position = logs.map(|(log, reader)| {
            let position = reader.position;
            LogPosition {
                stream: log.stream(),
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
                scope: scope::record(&position.scope),
                former: position.former.map(|table| LogTable {
                    header: table.header,
                    columns: table.columns.unwrap_or(0),
                }),
                rows: reader.rows.as_ref().map(|_| FileRows {
                    known: position.rows.known,
                    at: position.rows.at,
                    first: position.rows.first,
                }),
            }
        });
        position.collect()
    }

    /// Takes a line that ends at this offset of its log.
    fn line(&mut self, log: Log, line: &[u8], offset: u64, now_ms: u64, out: &mut Vec<Record>) {
        let reader = &mut self.logs[log.index()];
        let found = self.finder.find(line, &mut reader.context);
        let taken = match &mut reader.rows {
            Some(rows) if !found.is_empty() => rows.take(found),
            Some(_) | None => RowKind::New,
        };
        reader.gave |= !found.is_empty();
        match taken {
            RowKind::Known => return,
            // No earlier watcher has read these rows.
            RowKind::FirstOfAnotherFile => reader.began.0 = u32::MAX,
            RowKind::New => {}
        }
        if let Some(done) = found.progress {
            self.done[done.source as usize - 1] = Some(done);
        }
        if found.is_empty() {
            return;
        }
        let (part, size) = reader.began;
        let line = LineEnd {
            log,
            offset,
            is_old: part == reader.position.part && offset <= size,
        };
        let folds = self.fold.folds(now_ms);
        if folds && self.fold.due_ms().is_none() && !self.batch.is_empty() {
            // The last chance to record the end of the points before the
            // window.
            self.write_batch(out);
        }
        let mono_ms = now_ms.saturating_sub(self.segment_ms);
        let found = self.finder.found();
        for (name, value) in found.pairs() {
            let Some(series) = self.series.of(name) else {
                continue;
            };
            if !self.series.takes(series, log) {
                continue;
            }
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
        for log in &mut self.logs {
            log.said = log.position;
        }
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
