//! The series of one run: their names, steps and latest values. At most
//! [`NAMES_MAX`] of them.

use std::collections::HashMap;
use std::rc::Rc;

use nero_expr::{Past, PastPoint, SeriesPast};
use nero_metrics::found::LinePairs;

use super::log::Log;

/// Limit of metric names in one run; points of further names are dropped.
pub const NAMES_MAX: usize = 4096;

/// Number of a series within this watcher, from 0.
pub type SeriesId = u32;

/// One series.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name of the metric.
    pub name: Rc<str>,
    /// The latest value; `None` before the first point.
    pub latest: Option<f64>,
    /// Step of the latest point, 0 before.
    pub step: f64,
    /// Number of times that the step fell back.
    pub generation: u32,
    /// Number of points in this start of the job.
    pub points: u64,
    /// What rules ask of its past, as far as this watcher saw it.
    past: SeriesPast,
    /// Earlier watchers or starts of the job may have points of it.
    has_older: bool,
    /// A rule asks for points that this watcher did not see.
    lacks: bool,
    /// Index of the series in the segment being written, once it has one.
    pub index: Option<u32>,
    /// Where the latest point comes from; `None` before the first point.
    pub log: Option<Log>,
    /// A file of metrics gave a point: what is printed under its name is no further point.
    is_reported: bool,
}

/// A point with its place in the series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Series of the point.
    pub series: SeriesId,
    /// The step that the line gave, or the counted one.
    pub step: f64,
    /// The value, any `f64`.
    pub value: f64,
    /// Number of times that the step had fallen back.
    pub generation: u32,
    /// Time at which it was read, in ms since the segment's start.
    pub mono_ms: u64,
    /// The line that it comes from.
    pub line: LineEnd,
}

/// End of a point's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineEnd {
    /// The log.
    pub log: Log,
    /// Bytes of the log's part up to there.
    pub offset: u64,
    /// Whether the line was there when the watcher began.
    pub is_old: bool,
}

/// All series of a run.
#[derive(Debug, Default)]
pub struct AllSeries {
    by_name: HashMap<Rc<str>, SeriesId>,
    all: Vec<Series>,
    refused: u64,
    /// The run time, which is the clock of windows.
    ran_ms: u64,
    /// Earlier starts of the job may have points, too.
    has_earlier: bool,
}

impl AllSeries {
    /// The series of this name, made when it is new; `None` above the limit.
    pub fn of(&mut self, name: &str) -> Option<SeriesId> {
        if let Some(id) = self.by_name.get(name) {
            return Some(*id);
        }
        if self.all.len() >= NAMES_MAX {
            self.refused += 1;
            return None;
        }
        let id = self.all.len() as SeriesId;
        let name: Rc<str> = Rc::from(name);
        self.by_name.insert(Rc::clone(&name), id);
        self.all.push(Series {
            name,
            latest: None,
            step: 0.0,
            generation: 0,
            points: 0,
            past: SeriesPast::default(),
            has_older: self.has_earlier,
            lacks: false,
            index: None,
            log: None,
            is_reported: false,
        });
        Some(id)
    }

    /// The series of exactly this name, if it was seen.
    pub fn named(&self, name: &str) -> Option<&Series> {
        self.by_name.get(name).and_then(|id| self.get(*id))
    }

    /// The number of the series of exactly this name, if it was seen.
    pub fn id_of(&self, name: &str) -> Option<SeriesId> {
        self.by_name.get(name).copied()
    }

    /// One series.
    pub fn get(&self, id: SeriesId) -> Option<&Series> {
        self.all.get(id as usize)
    }

    /// One series, to be changed.
    pub fn get_mut(&mut self, id: SeriesId) -> Option<&mut Series> {
        self.all.get_mut(id as usize)
    }

    /// All of them, in the order of their first points.
    pub fn iter(&self) -> impl Iterator<Item = &Series> {
        self.all.iter()
    }

    /// Number of series.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are no series.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Number of points dropped because of too many names.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Sets the run time at which the next points arrive.
    pub fn set_ran_ms(&mut self, ran_ms: u64) {
        self.ran_ms = ran_ms;
    }

    /// Points of earlier starts of the job count in the past of a series.
    pub fn with_earlier(mut self) -> Self {
        self.has_earlier = true;
        for one in &mut self.all {
            one.has_older = true;
        }
        self
    }

    /// Takes a point of this log that an earlier watcher recorded.
    pub fn add_recorded(&mut self, id: SeriesId, log: Log, step: f64, value: f64, generation: u32) {
        if let Some(one) = self.get_mut(id) {
            one.log = Some(log);
            one.is_reported |= log.is_file();
            one.step = step;
            one.latest = Some(value);
            one.generation = generation;
            one.points += 1;
            one.has_older = true;
        }
    }

    /// From now on keeps what a rule asks of the past of a series. Its points so far may
    /// have to be read again, see [`AllSeries::lacking`].
    pub fn want(&mut self, id: SeriesId, past: Past) {
        let Some(one) = self.all.get_mut(id as usize) else {
            return;
        };
        let is_new = one.past.want(past);
        if one.has_older {
            one.lacks = true;
            return;
        }
        match (is_new, one.points, one.latest) {
            (false, ..) | (true, 0, _) => {}
            // A rule gets to know the name with its first point.
            (true, 1, Some(value)) => {
                one.past = one.past.emptied();
                one.past.add(&PastPoint {
                    value,
                    step: one.step,
                    generation: one.generation,
                    at_ms: self.ran_ms,
                });
            }
            (true, ..) => one.lacks = true,
        }
    }

    /// The series whose points have to be read again, each without points; empty if none.
    pub fn lacking(&self) -> HashMap<Rc<str>, SeriesPast> {
        let lacking = self.all.iter().filter(|one| one.lacks);
        lacking
            .map(|one| (Rc::clone(&one.name), one.past.emptied()))
            .collect()
    }

    /// Takes the past of series with all points so far.
    pub fn remember(&mut self, pasts: HashMap<Rc<str>, SeriesPast>) {
        for (name, past) in pasts {
            let one = self.by_name.get(&name).copied();
            if let Some(one) = one.and_then(|id| self.get_mut(id)) {
                one.past = past;
                one.lacks = false;
                one.has_older = false;
            }
        }
    }

    /// The answer to what a rule asks of the past of the series of exactly this name.
    pub fn past(&self, name: &str, past: Past, ran_ms: u64) -> Option<f64> {
        let Some(one) = self.named(name) else {
            return past.is_count().then_some(0.0);
        };
        if one.lacks {
            return None;
        }
        one.past.value(past, ran_ms)
    }

    /// Whether points of this log count for the series: once a file gave a point, printed ones
    /// do not.
    pub fn takes(&self, id: SeriesId, log: Log) -> bool {
        log.is_file() || !self.all[id as usize].is_reported
    }

    /// Adds a point of a line. A step of the line below the last one of the same output
    /// begins a new generation.
    pub fn add(
        &mut self,
        series: SeriesId,
        found: &LinePairs,
        value: f64,
        mono_ms: u64,
        line: LineEnd,
    ) -> Point {
        let one = &mut self.all[series as usize];
        let (step, is_back) = found.step_after(one.latest.map(|_| one.step));
        let is_same = one.log.is_none_or(|last| last.shares_steps_with(line.log));
        one.generation += u32::from(is_back && is_same);
        one.log = Some(line.log);
        one.is_reported |= line.log.is_file();
        one.step = step;
        one.latest = Some(value);
        one.points += 1;
        one.past.add(&PastPoint {
            value,
            step,
            generation: one.generation,
            at_ms: self.ran_ms,
        });
        Point {
            series,
            step,
            value,
            generation: one.generation,
            mono_ms,
            line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: LineEnd = LineEnd {
        log: Log::Stdout,
        offset: 9,
        is_old: false,
    };

    #[test]
    fn steps_count_and_fall_back() {
        let mut all = AllSeries::default();
        let loss = all.of("loss").unwrap();
        let mut add = |step| {
            let mut found = LinePairs::default();
            found.step = step;
            let point = all.add(loss, &found, 0.5, 0, LINE);
            (point.step, point.generation)
        };
        assert_eq!(add(None), (1.0, 0));
        assert_eq!(add(None), (2.0, 0));
        assert_eq!(add(Some(10.0)), (10.0, 0));
        assert_eq!(add(Some(10.0)), (10.0, 0));
        assert_eq!(add(None), (11.0, 0));
        assert_eq!(add(Some(3.0)), (3.0, 1));
        assert_eq!(add(Some(4.0)), (4.0, 1));
        assert_eq!(add(Some(-1.0)), (-1.0, 2));
    }

    #[test]
    fn a_first_step_below_zero_is_no_fall() {
        let mut all = AllSeries::default();
        let loss = all.of("loss").unwrap();
        let mut found = LinePairs::default();
        found.give_step(-5.0, false);
        assert_eq!(all.add(loss, &found, 1.0, 0, LINE).generation, 0);
    }

    #[test]
    fn names_are_capped_with_a_count() {
        let mut all = AllSeries::default();
        for number in 0..NAMES_MAX + 10 {
            all.of(&format!("m{number}"));
        }
        assert_eq!((all.len(), all.refused()), (NAMES_MAX, 10));
        assert!(all.of("m5").is_some());
        assert_eq!(all.refused(), 10);
    }
}
