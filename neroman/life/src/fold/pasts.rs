//! The past of metrics for expressions: aggregates over windows, and the value at a step.
//!
//! Smallest, largest and newest value and the number of points are among a run's facts.
//! Anything else needs the stored points: [`wanted`] returns whose, neroman reads them,
//! and an expression finds the outcome in [`crate::facts::now::PresentTime`].

use nero_expr::{Fold, NameForm, NameRef, Past, PastPoint};
use nero_model::names::same_loosely;
use nero_model::sets::is_of_set;

use super::records::GENERATION_BITS;
use super::run::Run;
use crate::facts::now::PresentTime;
pub use crate::facts::series::Pasts;

/// Whether the answer is not among a run's facts.
pub fn needs_points(past: Past) -> bool {
    match past {
        Past::Over {
            fold: Fold::Min | Fold::Max | Fold::Last | Fold::Count | Fold::Age,
            window_ms: None,
        } => false,
        Past::Over { .. } | Past::At(_) => true,
    }
}

/// The series of these runs whose points are needed.
pub fn wanted<'a>(
    asked: impl Iterator<Item = (&'a NameRef, Past)>,
    runs: impl Iterator<Item = &'a Run>,
) -> Pasts {
    let mut wanted = Pasts::default();
    wanted.want_all(asked, runs);
    wanted
}

pub(crate) fn means(written: &NameRef, metric: &str) -> bool {
    let is_it = same_loosely(&written.text, metric) || is_of_set(&written.text, metric);
    written.asked != NameForm::Param && is_it
}

impl Pasts {
    /// Adds the series of these runs whose points are needed.
    pub fn want_all<'a>(
        &mut self,
        asked: impl Iterator<Item = (&'a NameRef, Past)>,
        runs: impl Iterator<Item = &'a Run>,
    ) {
        let asked: Vec<(&NameRef, Past)> = asked.filter(|(_, past)| needs_points(*past)).collect();
        if asked.is_empty() {
            return;
        }
        for run in runs {
            for (name, _) in run.metrics() {
                for (_, past) in asked.iter().filter(|(written, _)| means(written, name)) {
                    self.want(run.made.id, name, *past);
                }
            }
        }
    }

    /// Adds the next point of a series, which came at `time_ms` of its node's clock.
    pub fn add(&mut self, run: &Run, metric: &str, mut point: PastPoint, time_ms: i64) {
        let series = self.0.get_mut(&run.made.id);
        if let Some(past) = series.and_then(|series| series.get_mut(metric)) {
            if is_of_earlier_start(run, &point) {
                past.add_of_earlier_start(&point);
                return;
            }
            point.at_ms = since_start_ms(run, time_ms);
            past.add(&point);
        }
    }
}

/// Whether another start came after the one of the point. The clock of windows is that of
/// the newest start.
pub(crate) fn is_of_earlier_start(run: &Run, point: &PastPoint) -> bool {
    let newest = run.journal.newest().map_or(0, |(number, _)| number);
    point.generation >> GENERATION_BITS < newest.saturating_sub(1).min(u32::MAX >> GENERATION_BITS)
}

/// Time from a run's newest start to a moment of its node's clock: the clock of windows.
pub(crate) fn since_start_ms(run: &Run, time_ms: i64) -> u64 {
    let newest = run.journal.newest();
    let started_ms = newest.and_then(|(_, one)| one.started_ms);
    let started_ms = started_ms.unwrap_or(time_ms);
    u64::try_from(time_ms.saturating_sub(started_ms)).unwrap_or(0)
}

/// The present moment on the clock of windows. The clock stands still after the run's end
/// and during a pause. It takes in the time of a pause when the pause ends, as the times of
/// points are those of the node's clock.
fn now_ms(run: &Run, now: &PresentTime) -> u64 {
    let ran_s = run.runtime_s(now).unwrap_or(0.0);
    let paused_ms = run.journal.newest().map_or(0, |(_, one)| {
        one.resumed.map_or(0, |(_, paused_ms)| paused_ms)
    });
    ((ran_s * 1000.0) as u64).saturating_add(paused_ms)
}

/// The answer to what an expression asks of the past of a run's metric.
pub fn answer(run: &Run, metric: &str, past: Past, now: &PresentTime) -> Option<f64> {
    let Some(known) = run.metric(metric) else {
        return past.is_count().then_some(0.0);
    };
    match past {
        Past::Over {
            fold,
            window_ms: None,
        } if !needs_points(past) => Some(match fold {
            Fold::Min => known.min,
            Fold::Max => known.max,
            Fold::Count => known.count as f64,
            Fold::Age => {
                let last_ms = since_start_ms(run, known.at_ms);
                now_ms(run, now).saturating_sub(last_ms) as f64 / 1000.0
            }
            Fold::Last | Fold::First | Fold::Mean | Fold::Rate => known.last,
        }),
        Past::Over { .. } | Past::At(_) => {
            let series = now.pasts.0.get(&run.made.id)?;
            series.get(metric)?.value(past, now_ms(run, now))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use nero_expr::SeriesPast;

    use super::*;
    use crate::fold::change::Change;
    use crate::place::start::StartOptions;
    use crate::tests::{Lab, definition, ended, run, running};

    #[test]
    fn points_of_an_earlier_start_count_in_no_window() {
        let mut lab = Lab::default();
        lab.add("/lab", vec![definition("a", "1")]);
        lab.start(&[1], StartOptions::default());
        lab.reports_after(run(1, 1), 1_003_000);
        let mut journal = (*lab.state.run(run(1, 1)).unwrap().journal).clone();
        journal.incarnations.insert(1, ended(1).into());
        let mut second = running();
        second.started_ms = Some(1_000_000);
        journal.incarnations.insert(2, second.into());
        lab.take(vec![Change::Journal {
            run: run(1, 1),
            journal: Arc::new(journal),
        }]);
        let one = lab.state.run(run(1, 1)).unwrap();
        let asked = |fold, window_ms| Past::Over { fold, window_ms };
        let mut series = SeriesPast::default();
        series.want(asked(Fold::Count, Some(60_000)));
        let series = HashMap::from([("loss".to_owned(), series)]);
        let mut pasts = Pasts(HashMap::from([(run(1, 1), series)]));
        for (start, time_ms) in [(0, 999_000), (1, 1_001_000), (1, 1_003_005)] {
            let point = PastPoint {
                value: 0.5,
                step: 1.0,
                generation: start << GENERATION_BITS,
                at_ms: 0,
            };
            pasts.add(one, "loss", point, time_ms);
        }
        let mut now = PresentTime::wall(1_005_005);
        now.pasts = Arc::new(pasts);
        let value = |fold, window_ms| answer(one, "loss", asked(fold, window_ms), &now);
        assert_eq!(value(Fold::Count, Some(60_000)), Some(2.0));
        assert_eq!(value(Fold::Mean, None), Some(0.5));
        assert_eq!(value(Fold::Age, None), Some(2.0));
        let series = &now.pasts.0[&run(1, 1)]["loss"];
        assert_eq!(series.count(), 3, "whole series have all of them");
    }
}
