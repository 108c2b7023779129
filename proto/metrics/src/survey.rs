//! What a whole log would give: for people who want to know it before a run.

use std::collections::HashMap;

use crate::file::FileForm;
use crate::finder::{Context, Finder};
use crate::lines::Lines;
use crate::progress::{LineProgress, ProgressKind};

/// Limit of the names in a survey, as of the series of a run.
const NAMES_MAX: usize = 4096;
/// Lines without a find that are kept to be shown.
const MISSED_MAX: usize = 5;
/// Lines that were read in part that are kept to be shown.
const PARTLY_READ_MAX: usize = 20;
/// Bytes of a line that is kept to be shown.
const SHOWN_BYTES: usize = 160;

/// One metric of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct SurveyedMetric {
    /// Its name.
    pub name: String,
    /// How many points it has.
    pub points: u64,
    /// Steps of the first and the last point.
    pub steps: (f64, f64),
    /// Values of the first and the last point.
    pub values: (f64, f64),
    /// Number of the line with the first point, from 1.
    pub line: u64,
    /// The beginning of that line.
    pub text: String,
}

/// What a log tells of the progress of its job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SurveyedProgress {
    /// Lines that tell it.
    pub lines: u64,
    /// By the first of them and by the last, from 0 to 1.
    pub shares: (f64, f64),
    /// What tells it.
    pub source: ProgressKind,
}

/// A line that holds a digit and gave nothing, or of which a number was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedLine {
    /// Its number, from 1.
    pub line: u64,
    /// Its beginning.
    pub text: String,
}

/// The metrics of one log.
#[derive(Debug)]
pub struct Survey {
    finder: Finder,
    context: Context,
    lines: Lines,
    line: u64,
    found: Finds,
}

/// What has been found so far.
#[derive(Debug, Default)]
struct Finds {
    by_name: HashMap<String, usize>,
    seen: Vec<SurveyedMetric>,
    missed: Vec<MissedLine>,
    missed_lines: u64,
    partly_read: Vec<MissedLine>,
    partly_read_lines: u64,
    progress: Option<SurveyedProgress>,
}

impl Survey {
    /// Reads printed lines with this finder.
    pub fn new(finder: Finder) -> Self {
        Self::of_file(finder, FileForm::Printed)
    }

    /// Reads a file of this form.
    pub fn of_file(finder: Finder, form: FileForm) -> Self {
        Self {
            finder,
            context: Context::of_file(form, false),
            lines: Lines::of_file(form),
            line: 0,
            found: Finds::default(),
        }
    }

    /// Takes the next bytes of the log.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, |line, _| self.line(line));
        self.lines = lines;
    }

    /// Takes the end of the log: its last line may have no end.
    pub fn finish(&mut self) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.finish(|line| self.line(line));
    }

    /// The metrics, in the order of their first points.
    pub fn seen(&self) -> &[SurveyedMetric] {
        &self.found.seen
    }

    /// The first lines that hold a digit and gave nothing.
    pub fn missed(&self) -> &[MissedLine] {
        &self.found.missed
    }

    /// How many such lines there are.
    pub fn missed_lines(&self) -> u64 {
        self.found.missed_lines
    }

    /// The first lines that gave metrics, and more numbers that could not be read.
    pub fn partly_read(&self) -> &[MissedLine] {
        &self.found.partly_read
    }

    /// How many such lines there are.
    pub fn partly_read_lines(&self) -> u64 {
        self.found.partly_read_lines
    }

    /// The progress that the log tells.
    pub fn progress(&self) -> Option<SurveyedProgress> {
        self.found.progress
    }

    fn line(&mut self, line: &[u8]) {
        self.line += 1;
        let found = self.finder.find(line, &mut self.context);
        if let Some(done) = found.progress {
            self.found.done(done);
        }
        if found.is_empty() && found.step.is_none() && found.progress.is_none() {
            let is_missed = !self.context.is_header() && line.iter().any(u8::is_ascii_digit);
            if is_missed {
                self.found.miss(self.line, line);
            }
            return;
        }
        if found.left_out > 0 && !found.is_empty() {
            self.found.leave_out(self.line, line);
        }
        for (name, value) in found.pairs() {
            let last = self.found.last_step(name);
            let (step, _) = found.step_after(last);
            self.found.add(name, step, value, self.line, line);
        }
    }
}

impl Finds {
    fn last_step(&self, name: &str) -> Option<f64> {
        self.by_name.get(name).map(|at| self.seen[*at].steps.1)
    }

    fn add(&mut self, name: &str, step: f64, value: f64, line: u64, text: &[u8]) {
        if let Some(at) = self.by_name.get(name) {
            let seen = &mut self.seen[*at];
            seen.points += 1;
            seen.steps.1 = step;
            seen.values.1 = value;
        } else if self.seen.len() < NAMES_MAX {
            self.by_name.insert(name.to_owned(), self.seen.len());
            self.seen.push(SurveyedMetric {
                name: name.to_owned(),
                points: 1,
                steps: (step, step),
                values: (value, value),
                line,
                text: display_line(text),
            });
        }
    }

    fn done(&mut self, done: LineProgress) {
        let new = SurveyedProgress {
            lines: 1,
            shares: (done.share, done.share),
            source: done.source,
        };
        self.progress = match self.progress {
            Some(known) if known.source > done.source => Some(known),
            Some(known) if known.source == done.source => Some(SurveyedProgress {
                lines: known.lines + 1,
                shares: (known.shares.0, done.share),
                ..known
            }),
            Some(_) | None => Some(new),
        };
    }

    fn leave_out(&mut self, line: u64, text: &[u8]) {
        self.partly_read_lines += 1;
        if self.partly_read.len() < PARTLY_READ_MAX {
            let text = display_line(text);
            self.partly_read.push(MissedLine { line, text });
        }
    }

    fn miss(&mut self, line: u64, text: &[u8]) {
        self.missed_lines += 1;
        if self.missed.len() < MISSED_MAX {
            let text = display_line(text);
            self.missed.push(MissedLine { line, text });
        }
    }
}

fn display_line(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]);
    text.trim().to_owned()
}
