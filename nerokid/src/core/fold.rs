//! Limits the number of points that are kept exactly. Points are kept one by
//! one as long as a run prints no more than [`EXACT_PER_SECOND`]. Above that,
//! the points of [`WINDOW_MS`] become at most three for each series: the
//! lowest, the highest and the last, as they were printed.
//!
//! A credit grows with time and is spent by points; ten seconds of it can be
//! saved, and a run begins with these. A watcher that starts late also has the
//! credit that the run earned since its start, so that a log read late is kept
//! as exactly as one read at once.

use std::collections::BTreeMap;

use super::series::{Point, SeriesId};

/// Points per second that are kept one by one.
pub const EXACT_PER_SECOND: f64 = 100_000.0;
/// Time over which points are folded.
pub const WINDOW_MS: u64 = 100;
/// Credit that can be saved, for output in bursts.
const CREDIT_MAX: f64 = 10.0 * EXACT_PER_SECOND;

/// The points of a window of one series.
#[derive(Clone, Copy, Debug)]
struct Extremes {
    /// With the arrival numbers, since the points are written in that order.
    lowest: (u64, Point),
    highest: (u64, Point),
    last: (u64, Point),
}

/// Decides which points are folded, and folds them.
#[derive(Debug)]
pub struct Fold {
    credit: f64,
    refilled_ms: u64,
    window_ends_ms: u64,
    folded: BTreeMap<SeriesId, Extremes>,
    points: u64,
}

impl Fold {
    /// For a run that began `age_ms` ago and has `kept` points on disk.
    pub fn new(age_ms: u64, kept: u64, now_ms: u64) -> Self {
        let earned = age_ms as f64 / 1000.0 * EXACT_PER_SECOND;
        Self {
            credit: (CREDIT_MAX + earned - kept as f64).max(0.0),
            refilled_ms: now_ms,
            window_ends_ms: 0,
            folded: BTreeMap::new(),
            points: 0,
        }
    }

    /// Whether the points of the next line are folded. Once a window has folded
    /// a point, it folds all further ones.
    pub fn folds(&mut self, now_ms: u64) -> bool {
        if !self.folded.is_empty() {
            return true;
        }
        let earned = now_ms.saturating_sub(self.refilled_ms) as f64 / 1000.0 * EXACT_PER_SECOND;
        self.refilled_ms = now_ms;
        if self.credit < CREDIT_MAX {
            self.credit = (self.credit + earned).min(CREDIT_MAX);
        }
        self.credit < 1.0
    }

    /// Spends credit for points that are kept.
    pub fn spend(&mut self, points: usize) {
        self.credit -= points as f64;
    }

    /// Folds a point.
    pub fn add(&mut self, point: Point, now_ms: u64) {
        if self.folded.is_empty() {
            self.window_ends_ms = now_ms + WINDOW_MS;
        }
        self.points += 1;
        let this = (self.points, point);
        let extremes = self.folded.entry(point.series).or_insert(Extremes {
            lowest: this,
            highest: this,
            last: this,
        });
        extremes.last = this;
        // A series of NaN and numbers has its extremes among the numbers.
        if point.value < extremes.lowest.1.value || extremes.lowest.1.value.is_nan() {
            extremes.lowest = this;
        }
        if point.value > extremes.highest.1.value || extremes.highest.1.value.is_nan() {
            extremes.highest = this;
        }
    }

    /// End of the window, if one is folding.
    pub fn due_ms(&self) -> Option<u64> {
        (!self.folded.is_empty()).then_some(self.window_ends_ms)
    }

    /// Ends the window: returns the remaining points, in the order of their
    /// arrival, and the number of points that it got.
    pub fn take(&mut self) -> (Vec<Point>, u64) {
        let mut kept: Vec<(u64, Point)> = std::mem::take(&mut self.folded)
            .into_values()
            .flat_map(|one| [one.lowest, one.highest, one.last])
            .collect();
        kept.sort_unstable_by_key(|(number, _)| *number);
        kept.dedup_by_key(|(number, _)| *number);
        let points = std::mem::take(&mut self.points);
        self.spend(kept.len());
        (kept.into_iter().map(|(_, point)| point).collect(), points)
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::Log;
    use super::super::series::LineEnd;
    use super::*;

    fn point(series: SeriesId, value: f64) -> Point {
        Point {
            series,
            step: value,
            value,
            generation: 0,
            mono_ms: 0,
            line: LineEnd {
                log: Log::Stdout,
                offset: 9,
                is_old: false,
            },
        }
    }

    #[test]
    fn a_window_keeps_lowest_highest_and_last_in_order() {
        let mut fold = Fold::new(0, 0, 0);
        for value in [5.0, f64::NAN, 9.0, 1.0, 4.0] {
            fold.add(point(0, value), 0);
        }
        fold.add(point(1, f64::NAN), 0);
        assert_eq!(fold.due_ms(), Some(WINDOW_MS));
        let (kept, points) = fold.take();
        let values: Vec<String> = kept.iter().map(|point| point.value.to_string()).collect();
        assert_eq!(values, ["9", "1", "4", "NaN"]);
        assert_eq!((points, fold.due_ms()), (6, None));
    }

    #[test]
    fn credit_is_spent_and_earned() {
        let mut fold = Fold::new(0, 900_000, 0);
        assert!(!fold.folds(0));
        fold.spend(100_000);
        assert!(fold.folds(0));
        assert!(!fold.folds(1));
        fold.spend(100);
        assert!(fold.folds(1));
        fold.add(point(0, 1.0), 1);
        assert!(fold.folds(50), "the window goes on folding");
        fold.take();
        assert!(!fold.folds(50));
    }

    #[test]
    fn a_log_read_late_has_the_credit_of_its_time() {
        let mut fold = Fold::new(60_000, 0, 0);
        fold.spend(6_999_999);
        assert!(!fold.folds(0));
        fold.spend(1);
        assert!(fold.folds(0));
        let mut again = Fold::new(60_000, 6_999_000, 0);
        again.spend(1_000);
        assert!(again.folds(0));
    }
}
