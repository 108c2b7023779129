//! The past of a metric: aggregates over windows, and the value at a step.
//!
//! A series is fed point by point ([`SeriesPast::add`]), by the watcher as the job
//! prints and by neroman from stored points, so that both know the same. The memory
//! does not grow with the number of points: a window is [`BUCKETS`] buckets.

use std::collections::VecDeque;

/// The buckets of a window. Its far edge is exact to one of them.
pub const BUCKETS: u64 = 64;

/// An aggregate of a metric's points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fold {
    /// The smallest value. NaN counts only where there is nothing else.
    Min,
    /// The largest value, likewise.
    Max,
    /// The mean value.
    Mean,
    /// The oldest value.
    First,
    /// The newest value.
    Last,
    /// The number of points.
    Count,
    /// Seconds since the newest point.
    Age,
    /// Change per second from the oldest to the newest point.
    Rate,
}

impl Fold {
    /// All of them.
    pub const ALL: [Fold; 8] = [
        Fold::Min,
        Fold::Max,
        Fold::Mean,
        Fold::First,
        Fold::Last,
        Fold::Count,
        Fold::Age,
        Fold::Rate,
    ];

    /// The word that users type.
    pub fn as_str(self) -> &'static str {
        match self {
            Fold::Min => "min",
            Fold::Max => "max",
            Fold::Mean => "mean",
            Fold::First => "first",
            Fold::Last => "last",
            Fold::Count => "count",
            Fold::Age => "age",
            Fold::Rate => "rate",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Fold> {
        Fold::ALL.into_iter().find(|fold| fold.as_str() == word)
    }
}

/// What an expression asks of a metric's past.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Past {
    /// `mean(loss, 10m)`; without a window over all points.
    Over {
        /// The aggregate.
        fold: Fold,
        /// The window's length in milliseconds.
        window_ms: Option<u64>,
    },
    /// `loss@10`: the value in force at this step.
    At(f64),
}

impl Past {
    /// Whether it is the number of points, which is known of a metric without any.
    pub fn is_count(self) -> bool {
        matches!(
            self,
            Past::Over {
                fold: Fold::Count,
                ..
            }
        )
    }

    /// Whether time alone can change it.
    pub(crate) fn uses_clock(self) -> bool {
        match self {
            Past::Over { fold, window_ms } => window_ms.is_some() || fold == Fold::Age,
            Past::At(_) => false,
        }
    }
}

/// A point of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PastPoint {
    /// Its value, any `f64`.
    pub value: f64,
    /// Its step.
    pub step: f64,
    /// Number of times that the step had fallen back.
    pub generation: u32,
    /// When it came, on the clock of the windows.
    pub at_ms: u64,
}

/// Aggregates of some points.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Totals {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    first: (f64, u64),
    last: (f64, u64),
}

impl Totals {
    fn of(point: &PastPoint) -> Totals {
        let here = (point.value, point.at_ms);
        Totals {
            count: 1,
            sum: point.value,
            min: point.value,
            max: point.value,
            first: here,
            last: here,
        }
    }

    /// Takes later points. `f64::min` ignores NaN on either side.
    fn join(&mut self, later: &Totals) {
        self.count += later.count;
        self.sum += later.sum;
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
        self.last = later.last;
    }

    fn value(&self, fold: Fold, now_ms: u64) -> Option<f64> {
        let seconds = |ms: u64| ms as f64 / 1000.0;
        match fold {
            Fold::Min => Some(self.min),
            Fold::Max => Some(self.max),
            Fold::Mean => Some(self.sum / self.count as f64),
            Fold::First => Some(self.first.0),
            Fold::Last => Some(self.last.0),
            Fold::Count => Some(self.count as f64),
            Fold::Age => Some(seconds(now_ms.saturating_sub(self.last.1))),
            Fold::Rate => {
                let passed = self.last.1.saturating_sub(self.first.1);
                (passed > 0).then(|| (self.last.0 - self.first.0) / seconds(passed))
            }
        }
    }
}

/// One window: the newest buckets, without the empty ones.
#[derive(Clone, Debug, PartialEq)]
struct Window {
    window_ms: u64,
    buckets: VecDeque<(u64, Totals)>,
    /// All buckets but the newest, joined when that one began: rules look at each point.
    sealed: Option<Totals>,
}

impl Window {
    fn bucket(&self, at_ms: u64) -> u64 {
        at_ms / self.window_ms.div_ceil(BUCKETS).max(1)
    }

    fn add(&mut self, point: &PastPoint) {
        let bucket = self.bucket(point.at_ms);
        let totals = Totals::of(point);
        match self.buckets.back_mut() {
            Some((newest, known)) if *newest >= bucket => {
                known.join(&totals);
                return;
            }
            Some(_) | None => {}
        }
        while (self.buckets.front()).is_some_and(|(oldest, _)| oldest + BUCKETS <= bucket) {
            self.buckets.pop_front();
        }
        let older = self.buckets.iter().map(|(_, totals)| *totals);
        self.sealed = older.reduce(|mut all, totals| {
            all.join(&totals);
            all
        });
        self.buckets.push_back((bucket, totals));
    }

    fn totals(&self, now_ms: u64) -> Option<Totals> {
        let now = self.bucket(now_ms);
        let (oldest, _) = self.buckets.front()?;
        if oldest + BUCKETS > now {
            let (_, newest) = self.buckets.back()?;
            return Some(match self.sealed {
                Some(mut all) => {
                    all.join(newest);
                    all
                }
                None => *newest,
            });
        }
        let mut inside = (self.buckets.iter())
            .skip_while(|(bucket, _)| bucket + BUCKETS <= now)
            .map(|(_, totals)| totals);
        let mut all = *inside.next()?;
        inside.for_each(|totals| all.join(totals));
        Some(all)
    }
}

/// The value in force at a step: decided by the first point at or above it, for good.
#[derive(Clone, Debug, PartialEq)]
struct StepValue {
    step: f64,
    /// The newest value below the step, with its generation.
    below: Option<(u32, f64)>,
    decided: Option<Option<f64>>,
}

impl StepValue {
    fn add(&mut self, point: &PastPoint) {
        if self.decided.is_some() {
            return;
        }
        if point.step >= self.step {
            let below = (self.below).filter(|(generation, _)| *generation == point.generation);
            self.decided = Some(if point.step == self.step {
                Some(point.value)
            } else {
                below.map(|(_, value)| value)
            });
        } else if point.step < self.step {
            self.below = Some((point.generation, point.value));
        }
    }
}

/// The past of one series, as far as it is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesPast {
    whole: Option<Totals>,
    windows: Vec<Window>,
    steps: Vec<StepValue>,
}

impl SeriesPast {
    /// From now on keeps what `past` needs; returns whether it was not kept before. Then
    /// the points so far are missing in it, and it is unknown until
    /// they are added to a new one ([`SeriesPast::emptied`]).
    pub fn want(&mut self, past: Past) -> bool {
        match past {
            Past::Over { window_ms, .. } => {
                let Some(window_ms) = window_ms else {
                    return false;
                };
                let known = (self.windows.iter()).any(|window| window.window_ms == window_ms);
                if !known {
                    self.windows.push(Window {
                        window_ms,
                        buckets: VecDeque::new(),
                        sealed: None,
                    });
                }
                !known
            }
            Past::At(step) => {
                let known = self.steps.iter().any(|one| one.step == step);
                if !known {
                    self.steps.push(StepValue {
                        step,
                        below: None,
                        decided: None,
                    });
                }
                !known
            }
        }
    }

    /// One without points that keeps the same.
    #[must_use]
    pub fn emptied(&self) -> SeriesPast {
        let mut empty = SeriesPast::default();
        for window in &self.windows {
            empty.want(Past::Over {
                fold: Fold::Last,
                window_ms: Some(window.window_ms),
            });
        }
        for step in &self.steps {
            empty.want(Past::At(step.step));
        }
        empty
    }

    /// Takes the next point.
    pub fn add(&mut self, point: &PastPoint) {
        self.add_of_earlier_start(point);
        for window in &mut self.windows {
            window.add(point);
        }
    }

    /// Takes the next point of an earlier start of the job, whose clock of the windows was
    /// another one.
    pub fn add_of_earlier_start(&mut self, point: &PastPoint) {
        let totals = Totals::of(point);
        match &mut self.whole {
            Some(whole) => whole.join(&totals),
            None => self.whole = Some(totals),
        }
        for step in &mut self.steps {
            step.add(point);
        }
    }

    /// The number of points.
    pub fn count(&self) -> u64 {
        self.whole.map_or(0, |whole| whole.count)
    }

    /// The answer at this time of the clock of the windows. `None` while it is unknown;
    /// the number of points is always known.
    pub fn value(&self, past: Past, now_ms: u64) -> Option<f64> {
        match past {
            Past::Over { fold, window_ms } => {
                let totals = match window_ms {
                    None => self.whole,
                    Some(wanted) => {
                        let mut windows = self.windows.iter();
                        let window = windows.find(|window| window.window_ms == wanted)?;
                        window.totals(now_ms)
                    }
                };
                match (totals, fold) {
                    (Some(totals), fold) => totals.value(fold, now_ms),
                    (None, Fold::Count) => Some(0.0),
                    (None, _) => None,
                }
            }
            Past::At(wanted) => {
                let mut steps = self.steps.iter();
                steps.find(|one| one.step == wanted)?.decided?
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn over(fold: Fold, window_ms: Option<u64>) -> Past {
        Past::Over { fold, window_ms }
    }

    fn point(at_ms: u64, step: f64, value: f64) -> PastPoint {
        PastPoint {
            value,
            step,
            generation: 0,
            at_ms,
        }
    }

    #[test]
    fn the_value_at_a_step_is_the_one_in_force_and_never_changes() {
        let at = |points: &[(f64, u32, f64)]| {
            let mut past = SeriesPast::default();
            past.want(Past::At(10.0));
            for &(step, generation, value) in points {
                past.add(&PastPoint {
                    generation,
                    ..point(0, step, value)
                });
            }
            past.value(Past::At(10.0), 0)
        };
        assert_eq!(at(&[]), None);
        assert_eq!(at(&[(7.0, 0, 0.7)]), None, "not seen yet");
        assert_eq!(at(&[(7.0, 0, 0.7), (14.0, 0, 0.4)]), Some(0.7));
        assert_eq!(at(&[(7.0, 0, 0.7), (10.0, 0, 0.5)]), Some(0.5));
        let late = [
            (9.0, 0, 0.9),
            (10.0, 0, 0.5),
            (10.0, 0, 0.1),
            (11.0, 0, 9.0),
        ];
        assert_eq!(at(&late), Some(0.5), "a later point changes nothing");
        let again = [(9.0, 0, 0.9), (12.0, 0, 0.5), (3.0, 1, 7.0), (10.0, 1, 8.0)];
        assert_eq!(at(&again), Some(0.9), "the first that got there counts");
        assert_eq!(
            at(&[(9.0, 0, 0.9), (30.0, 1, 0.5)]),
            None,
            "none was in force"
        );
        assert_eq!(at(&[(f64::NAN, 0, 0.9), (10.0, 0, 0.5)]), Some(0.5));
    }

    #[test]
    fn a_window_without_points_is_unknown_and_counts_none() {
        let mut past = SeriesPast::default();
        let minute = Some(60_000);
        past.want(over(Fold::Mean, minute));
        past.add(&point(1_000, 1.0, 5.0));
        assert_eq!(past.value(over(Fold::Mean, minute), 2_000), Some(5.0));
        assert_eq!(past.value(over(Fold::Mean, minute), 200_000), None);
        assert_eq!(past.value(over(Fold::Count, minute), 200_000), Some(0.0));
        assert_eq!(past.value(over(Fold::Mean, None), 200_000), Some(5.0));
        assert_eq!(past.value(over(Fold::Age, None), 200_000), Some(199.0));
        assert_eq!(past.value(over(Fold::Rate, None), 200_000), None);
        assert_eq!(
            past.value(over(Fold::Mean, Some(1)), 2_000),
            None,
            "not kept"
        );
    }

    /// The same by looking at all points.
    fn naive(points: &[PastPoint], fold: Fold, window_ms: Option<u64>, now_ms: u64) -> Option<f64> {
        let inside = |point: &&PastPoint| {
            window_ms.is_none_or(|window_ms| {
                let width = window_ms.div_ceil(BUCKETS).max(1);
                point.at_ms / width + BUCKETS > now_ms / width
            })
        };
        let inside: Vec<&PastPoint> = points.iter().filter(inside).collect();
        let values = || inside.iter().map(|point| point.value);
        if fold == Fold::Count {
            return Some(inside.len() as f64);
        }
        let (first, last) = (inside.first()?, inside.last()?);
        let seconds = |ms: u64| ms as f64 / 1000.0;
        match fold {
            Fold::Min => values().reduce(f64::min),
            Fold::Max => values().reduce(f64::max),
            Fold::Mean => Some(values().sum::<f64>() / inside.len() as f64),
            Fold::First => Some(first.value),
            Fold::Last => Some(last.value),
            Fold::Age => Some(seconds(now_ms - last.at_ms)),
            Fold::Rate if first.at_ms == last.at_ms => None,
            Fold::Rate => Some((last.value - first.value) / seconds(last.at_ms - first.at_ms)),
            Fold::Count => unreachable!("returned above"),
        }
    }

    fn is_same(one: Option<f64>, other: Option<f64>) -> bool {
        match (one, other) {
            // Sums of buckets are added in another order.
            (Some(one), Some(other)) => {
                one == other
                    || one.is_nan() && other.is_nan()
                    || (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1.0)
            }
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn windows_are_equal_to_a_look_at_all_points(
            gaps in proptest::collection::vec(
                (0u64..400, prop_oneof![9 => -5.0..5.0, 1 => Just(f64::NAN)]), 0..200),
            windows in proptest::collection::vec(1u64..20_000, 1..4),
            late in 0u64..3_000,
        ) {
            let mut past = SeriesPast::default();
            for window_ms in &windows {
                past.want(over(Fold::Last, Some(*window_ms)));
            }
            let mut points = Vec::new();
            let mut at_ms = 0;
            for (gap, value) in gaps {
                at_ms += gap;
                points.push(point(at_ms, points.len() as f64, value));
                past.add(&points[points.len() - 1]);
                for window_ms in windows.iter().map(|ms| Some(*ms)).chain([None]) {
                    for fold in Fold::ALL {
                        for now_ms in [at_ms, at_ms + late] {
                            let kept = past.value(over(fold, window_ms), now_ms);
                            let all = naive(&points, fold, window_ms, now_ms);
                            prop_assert!(is_same(kept, all), "{fold:?} {window_ms:?}: {kept:?} is not {all:?}");
                        }
                    }
                }
            }
        }
    }
}
