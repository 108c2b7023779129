//! How far the job has come, and when it may be done.
//!
//! The source that counts most tells the progress: the spec's expression, else a metric
//! called `progress`, else steps with a total, else a bar. Progress that falls back begins a
//! new climb: another bar, and perhaps one of many. Its pace tells the time left only when
//! it has lasted longer than all before it.

use nero_expr::{Bindings, Expr, ParseContext, Scope as _, Value};
use nero_journal::v1;
use nero_metrics::progress as found;

use super::facts::Sight;

/// The least change that is recorded at once.
const STEP: f64 = 0.001;
/// Between two records, while the job prints all the time.
const PAUSE_MS: u64 = 1_000;
/// Longer times are no estimates any more: a hundred years.
const LEFT_MS_MAX: f64 = 3.2e12;

/// What tells the progress; a later one counts more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgressSource {
    /// What the job prints.
    Printed(found::ProgressKind),
    /// The expression of the spec.
    Spec,
}

impl ProgressSource {
    const SPEC: u32 = 4;

    fn number(self) -> u32 {
        match self {
            Self::Printed(source) => source as u32,
            Self::Spec => Self::SPEC,
        }
    }

    /// The source of this number in a record.
    pub fn from_number(number: u32) -> Option<Self> {
        let printed = || found::ProgressKind::ALL.into_iter().map(Self::Printed);
        printed()
            .chain([Self::Spec])
            .find(|source| source.number() == number)
    }
}

/// Progress that grows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    source: ProgressSource,
    /// Share and run time of its first value.
    from: (f64, u64),
    /// The same of its newest value.
    to: (f64, u64),
    /// Whether it follows progress that fell back.
    fell: bool,
}

/// The progress of one start and its pace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Climb {
    now: Option<Stretch>,
    /// Whether the job began with the work of an earlier one.
    pub resumed: bool,
}

impl Climb {
    /// Takes a value that was told after this run time.
    pub fn take(&mut self, source: ProgressSource, share: f64, ran_ms: u64) {
        if share.is_nan() {
            return;
        }
        let this = (share.clamp(0.0, 1.0), ran_ms);
        let begin = |fell| Stretch {
            source,
            from: this,
            to: this,
            fell,
        };
        match &mut self.now {
            Some(now) if now.source > source => {}
            Some(now) if now.source == source && this.0 == now.to.0 => {}
            Some(now) if now.source == source && this.0 > now.to.0 => now.to = this,
            Some(now) => *now = begin(now.source == source),
            None => self.now = Some(begin(false)),
        }
    }

    /// The progress, as it is recorded.
    pub fn record(&self) -> Option<v1::Progress> {
        let now = self.now?;
        Some(v1::Progress {
            done: now.to.0,
            ran_ms: now.to.1,
            left_ms: self.left_ms(&now),
            source: now.source.number(),
        })
    }

    fn left_ms(&self, now: &Stretch) -> Option<u64> {
        let (share, ran_ms) = now.to;
        let (from_share, from_ms) = match now.from == now.to {
            // Its first value: the job began with nothing done.
            true if !now.fell && !self.resumed => (0.0, 0),
            true | false => now.from,
        };
        if share >= 1.0 {
            return Some(0);
        }
        let lasted_ms = ran_ms.saturating_sub(from_ms);
        if lasted_ms == 0 || share <= from_share || now.fell && lasted_ms <= from_ms {
            return None;
        }
        let left_ms = (1.0 - share) * lasted_ms as f64 / (share - from_share);
        (left_ms < LEFT_MS_MAX).then_some(left_ms as u64)
    }
}

/// The progress of a run, and what of it is recorded.
#[derive(Debug)]
pub struct Tracker {
    climb: Climb,
    spec: Option<SpecProgress>,
    told: Option<(v1::Progress, u64)>,
}

/// The spec's expression.
#[derive(Debug)]
struct SpecProgress {
    expr: Expr,
    bindings: Bindings,
    /// Number of series whose names the bindings have seen.
    seen: usize,
}

impl Tracker {
    /// Continues from the records of earlier watchers. Returns the error of an
    /// expression that cannot be used.
    pub fn new(climb: Climb, text: &str, sight: &Sight<'_>) -> (Self, Option<String>) {
        let told = climb.record().map(|record| (record, 0));
        let context = ParseContext::utc(sight.now_ms()).standing();
        let parsed = (!text.is_empty()).then(|| Expr::parse_progress(text, &context));
        let bound = parsed.map(|parsed| {
            let expr = parsed?;
            let bindings = expr.bind(sight)?;
            Ok::<_, nero_expr::ExprError>(SpecProgress {
                expr,
                bindings,
                seen: sight.series.len(),
            })
        });
        let (spec, problem) = match bound {
            None => (None, None),
            Some(Ok(spec)) => (Some(spec), None),
            Some(Err(error)) => (None, Some(format!("progress `{text}`: {error}"))),
        };
        (Self { climb, spec, told }, problem)
    }

    /// The progress now.
    pub fn now(&self) -> Option<v1::Progress> {
        self.climb.record()
    }

    /// Takes what was printed since the last call, and the value of the expression.
    pub fn take(&mut self, printed: impl Iterator<Item = found::LineProgress>, sight: &Sight<'_>) {
        let ran_ms = sight.runtime_ms().unwrap_or(0);
        match &mut self.spec {
            Some(spec) => {
                if let Some(share) = spec.share(sight) {
                    self.climb.take(ProgressSource::Spec, share, ran_ms);
                }
            }
            None => {
                for done in printed {
                    let source = ProgressSource::Printed(done.source);
                    self.climb.take(source, done.share, ran_ms);
                }
            }
        }
    }

    /// The record to write now, if the progress changed; `all` also of small changes.
    pub fn news(&mut self, now_ms: u64, all: bool) -> Option<v1::Progress> {
        let record = self.climb.record()?;
        let is_news = self.told.is_none_or(|(told, at_ms)| {
            let change = (record.done - told.done).abs();
            let is_large = change >= STEP || record.done >= 1.0;
            record != told && (all || is_large && now_ms >= at_ms + PAUSE_MS)
        });
        if !is_news {
            return None;
        }
        self.told = Some((record, now_ms));
        Some(record)
    }
}

impl SpecProgress {
    fn share(&mut self, sight: &Sight<'_>) -> Option<f64> {
        if self.seen != sight.series.len() {
            self.seen = sight.series.len();
            self.bindings = self.expr.bind(sight).ok()?;
        }
        match self.expr.value(&self.bindings, sight) {
            Value::Number(share, _) => Some(share),
            Value::Unknown | Value::Bool(..) | Value::Text(_) | Value::Time(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BAR: ProgressSource = ProgressSource::Printed(found::ProgressKind::Bar);
    const STEPS: ProgressSource = ProgressSource::Printed(found::ProgressKind::Steps);

    /// Share and time left after these values.
    fn after(values: &[(ProgressSource, f64, u64)]) -> (f64, Option<u64>) {
        let mut climb = Climb::default();
        for (source, share, ran_ms) in values {
            climb.take(*source, *share, *ran_ms);
        }
        let record = climb.record().unwrap();
        (record.done, record.left_ms)
    }

    #[test]
    fn the_time_left_follows_from_the_pace() {
        // The first epoch of 50 took a minute.
        assert_eq!(after(&[(BAR, 0.02, 60_000)]), (0.02, Some(2_940_000)));
        // Ten minutes of loading data say nothing of the pace of epochs.
        let slow = [(BAR, 0.25, 600_000), (BAR, 0.5, 610_000)];
        assert_eq!(after(&slow), (0.5, Some(20_000)));
        assert_eq!(after(&[(BAR, 0.0, 500)]), (0.0, None));
        assert_eq!(after(&[(BAR, 1.0, 500)]), (1.0, Some(0)));
    }

    #[test]
    fn a_resumed_job_has_a_pace_from_its_second_value_on() {
        let mut climb = Climb {
            resumed: true,
            ..Climb::default()
        };
        climb.take(BAR, 0.5, 1_000);
        assert_eq!(climb.record().unwrap().left_ms, None);
        climb.take(BAR, 0.6, 2_000);
        assert_eq!(climb.record().unwrap().left_ms, Some(4_000));
    }

    #[test]
    fn bars_that_come_again_and_again_tell_no_time() {
        let epochs = [(BAR, 0.5, 50), (BAR, 1.0, 100), (BAR, 0.0, 101)];
        let more = [(BAR, 0.9, 190)];
        assert_eq!(after(&[&epochs[..], &more].concat()), (0.9, None));
        // One bar for the download, and a long one for the work.
        let long = [(BAR, 0.1, 1_101)];
        assert_eq!(after(&[&epochs[..], &long].concat()), (0.1, Some(9_000)));
    }

    #[test]
    fn progress_by_steps_replaces_progress_by_a_bar() {
        let values = [(BAR, 0.9, 10), (STEPS, 0.1, 20), (BAR, 1.0, 30)];
        assert_eq!(after(&values), (0.1, Some(180)));
    }

    #[test]
    fn records_are_few_and_the_last_one_is_written_in_the_end() {
        let mut tracker = Tracker {
            climb: Climb::default(),
            spec: None,
            told: None,
        };
        let mut told = Vec::new();
        for ms in 0..5_000_u64 {
            tracker.climb.take(BAR, ms as f64 / 10_000.0, ms);
            told.extend(tracker.news(ms, false).map(|record| record.ran_ms));
        }
        assert_eq!(told, [0, 1_000, 2_000, 3_000, 4_000]);
        assert_eq!(tracker.news(5_000, true).unwrap().ran_ms, 4_999);
        assert_eq!(tracker.news(9_000, true), None);
    }

    proptest! {
        #[test]
        fn shares_stay_within_0_and_1_and_a_watcher_that_goes_on_knows_as_much(
            values in proptest::collection::vec((0u32..4, -0.5f64..1.5, 0u64..10_000), 1..20),
        ) {
            let mut climb = Climb::default();
            let mut again = Climb::default();
            let mut ran_ms = 0;
            for (source, share, passed_ms) in values {
                ran_ms += passed_ms;
                let source = ProgressSource::from_number(source + 1).unwrap();
                climb.take(source, share, ran_ms);
                let record = climb.record().unwrap();
                prop_assert!((0.0..=1.0).contains(&record.done));
                prop_assert!(record.ran_ms <= ran_ms);
                let source = ProgressSource::from_number(record.source).unwrap();
                again.take(source, record.done, record.ran_ms);
                prop_assert_eq!(&again, &climb);
            }
        }
    }
}
