//! How far a batch has come, and when it may be done: `61 of 200 done, about 9 h left`.

use std::collections::BTreeMap;
use std::fmt;

use nero_model::{Phase, RunId};

use super::now::Now;
use super::run::Run;
use super::state::State;

/// The outlook of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Its experiments.
    pub runs: u32,
    /// Those whose newest run in the batch has ended.
    pub ended: u32,
    /// Time until all have ended; `None`: too little is known for an estimate.
    pub left_ms: Option<u64>,
}

impl Outlook {
    /// The outlook of one batch.
    pub fn of(state: &State, batch: RunId, now: &Now) -> Self {
        let mut tallies = tallies(state, now, |other| other == batch);
        tallies.remove(&batch).unwrap_or_default().outlook()
    }

    /// The batches of several runs that have not all ended, in the order of their first
    /// runs.
    pub fn unfinished(state: &State, now: &Now) -> Vec<(RunId, Self)> {
        let several = |batch: RunId| {
            let count = state.batch(batch);
            count.runs > 1
        };
        let outlooks = tallies(state, now, several).into_iter();
        outlooks
            .map(|(batch, tally)| (batch, tally.outlook()))
            .filter(|(_, outlook)| outlook.ended < outlook.runs)
            .collect()
    }
}

impl fmt::Display for Outlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} done", self.ended, self.runs)?;
        match self.left_ms {
            Some(left_ms) if self.ended < self.runs => write!(f, ", about {} left", About(left_ms)),
            Some(_) | None => Ok(()),
        }
    }
}

/// A time span in one unit: `40 s`, `25 min`, `9 h`, `3 d`.
struct About(u64);

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64, u64); 4] = [
            ("s", 1_000, 90),
            ("min", 60_000, 90),
            ("h", 3_600_000, 48),
            ("d", 86_400_000, u64::MAX),
        ];
        let rounded = UNITS.map(|(unit, ms, most)| (unit, (self.0 + ms / 2) / ms, most));
        let [.., days] = rounded;
        let shown = rounded.iter().find(|(_, count, most)| count < most);
        let (unit, count, _) = shown.unwrap_or(&days);
        write!(f, "{} {unit}", count.max(&1))
    }
}

/// A run of a batch that occupies a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Running {
    ran_ms: u64,
    /// By its progress.
    left_ms: Option<u64>,
}

/// The facts of a batch that its outlook follows from.
#[derive(Clone, Debug, Default)]
struct Tally {
    runs: u32,
    ended: u32,
    /// Durations of runs that ran to their end.
    took_ms: Vec<u64>,
    running: Vec<Running>,
    waiting: u32,
    /// A run waits until a person, or the end of its pilot, lets it go on.
    stands_still: bool,
}

fn tallies(state: &State, now: &Now, counts: impl Fn(RunId) -> bool) -> BTreeMap<RunId, Tally> {
    let mut tallies: BTreeMap<RunId, Tally> = BTreeMap::new();
    for experiment in state.experiments.iter() {
        for (batch, run) in newest_runs(&experiment.runs) {
            if counts(batch) {
                tallies.entry(batch).or_default().add(run, now);
            }
        }
    }
    tallies
}

/// The newest run of each batch. A run that neroman made by itself takes the place of the
/// run that it follows.
fn newest_runs(runs: &[Run]) -> Vec<(RunId, &Run)> {
    let mut newest: Vec<(RunId, &Run)> = Vec::new();
    for run in runs {
        let followed = || {
            let number = run.made.follows.as_ref()?.run;
            let mut known = newest.iter();
            known.find_map(|(batch, one)| (one.made.id.number == number).then_some(*batch))
        };
        let Some(batch) = run.made.batch.or_else(followed) else {
            continue;
        };
        match newest.iter_mut().find(|(known, _)| *known == batch) {
            Some((_, known)) => *known = run,
            None => newest.push((batch, run)),
        }
    }
    newest
}

impl Tally {
    fn add(&mut self, run: &Run, now: &Now) {
        self.runs += 1;
        let ms = |seconds: f64| (seconds * 1000.0) as u64;
        let ran_ms = run.runtime_s(now).map(ms);
        match run.phase() {
            Phase::Finished | Phase::Timeout => {
                self.ended += 1;
                self.took_ms.extend(ran_ms);
            }
            Phase::Crashed | Phase::Aborted | Phase::Lost => self.ended += 1,
            Phase::Running => {
                self.stands_still |= run.is_paused();
                self.running.push(Running {
                    ran_ms: ran_ms.unwrap_or(0),
                    left_ms: run.eta_s(run.runtime_s(now)).map(ms),
                });
            }
            Phase::Ending => self.running.push(Running {
                ran_ms: ran_ms.unwrap_or(0),
                left_ms: Some(0),
            }),
            Phase::Queued | Phase::Staging | Phase::Submitted | Phase::Pending => {
                let is_held = run.is_paused() || run.hold_cause().is_some();
                self.stands_still |= is_held || run.needs_person().is_some();
                self.waiting += 1;
            }
        }
    }

    fn outlook(&self) -> Outlook {
        let left_ms = match self.ended == self.runs {
            true => Some(0),
            false if self.stands_still => None,
            false => left_ms(&self.took_ms, &self.running, self.waiting),
        };
        Outlook {
            runs: self.runs,
            ended: self.ended,
            left_ms: left_ms.filter(|left_ms| *left_ms > 0 || self.ended == self.runs),
        }
    }
}

/// Time until all have ended when each run that waits takes the first place that gets
/// free, and as long as the others on average. As many run at once as do now.
fn left_ms(took_ms: &[u64], running: &[Running], waiting: u32) -> Option<u64> {
    let expected = running
        .iter()
        .filter_map(|one| Some(one.ran_ms.saturating_add(one.left_ms?)));
    let known: Vec<u64> = took_ms.iter().copied().chain(expected).collect();
    let sum_ms = known.iter().map(|ms| u128::from(*ms)).sum::<u128>();
    let usual_ms = sum_ms
        .checked_div(known.len() as u128)
        .and_then(|ms| u64::try_from(ms).ok());
    let places: Option<Vec<u64>> = running
        .iter()
        .map(|one| one.left_ms.or(Some(usual_ms?.saturating_sub(one.ran_ms))))
        .collect();
    let places = places?;
    let last_ms = places.iter().copied().max()?;
    if waiting == 0 {
        return Some(last_ms);
    }
    let usual_ms = usual_ms?.max(1);
    let begun_by = |at_ms: u64| {
        let free = places
            .iter()
            .filter_map(|free_ms| at_ms.checked_sub(*free_ms));
        free.map(|ms| u128::from(ms / usual_ms)).sum::<u128>()
    };
    // The earliest moment at which so many runs can have ended after those that run now.
    let (mut too_early, mut enough) = (0, usual_ms.saturating_mul(waiting.into()));
    enough = enough.saturating_add(last_ms);
    while enough - too_early > 1 {
        let middle = too_early + (enough - too_early) / 2;
        match begun_by(middle) >= waiting.into() {
            true => enough = middle,
            false => too_early = middle,
        }
    }
    Some(enough.max(last_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn running(ran_ms: u64, left_ms: Option<u64>) -> Running {
        Running { ran_ms, left_ms }
    }

    #[test]
    fn waiting_runs_take_the_places_that_get_free() {
        let two = [running(50, None), running(0, None)];
        // Of 100 ms each: the places get free after 50 and 100.
        assert_eq!(left_ms(&[100], &two, 0), Some(100));
        assert_eq!(left_ms(&[100], &two, 1), Some(150));
        assert_eq!(left_ms(&[100], &two, 3), Some(250));
        // Progress counts more than the time that others took.
        assert_eq!(left_ms(&[100], &[running(50, Some(1000))], 0), Some(1000));
        assert_eq!(left_ms(&[], &[running(50, Some(50))], 2), Some(250));
    }

    #[test]
    fn nothing_known_gives_no_estimate() {
        assert_eq!(left_ms(&[], &[running(50, None)], 3), None);
        assert_eq!(
            left_ms(&[100], &[], 3),
            None,
            "none runs: nobody knows how many will"
        );
        assert_eq!(
            left_ms(&[], &[running(5, None), running(5, Some(9))], 0),
            Some(9)
        );
    }

    #[test]
    fn an_outlook_is_one_short_sentence() {
        let text = |runs, ended, left_ms| {
            let outlook = Outlook {
                runs,
                ended,
                left_ms,
            };
            outlook.to_string()
        };
        let hours = |hours: u64| Some(hours * 3_600_000);
        assert_eq!(text(200, 61, hours(9)), "61 of 200 done, about 9 h left");
        assert_eq!(text(200, 61, None), "61 of 200 done");
        assert_eq!(text(200, 200, Some(0)), "200 of 200 done");
        assert_eq!(text(2, 1, Some(40)), "1 of 2 done, about 1 s left");
        for (ms, want) in [
            (89_400, "89 s"),
            (89_500, "1 min"),
            (5_369_000, "89 min"),
            (5_400_000, "2 h"),
            (47 * 3_600_000, "47 h"),
            (48 * 3_600_000, "2 d"),
            (u64::MAX / 2, "106751991167 d"),
        ] {
            assert_eq!(About(ms).to_string(), want);
        }
    }

    fn some_running() -> impl Strategy<Value = Vec<Running>> {
        let one = (0u64..1_000_000, proptest::option::of(0u64..1_000_000));
        proptest::collection::vec(one.prop_map(|(ran, left)| running(ran, left)), 0..6)
    }

    proptest! {
        #[test]
        fn more_that_is_left_never_takes_less_time(
            took in proptest::collection::vec(0u64..1_000_000, 0..6),
            running in some_running(),
            waiting in 0u32..50,
            more in 0u64..100_000,
        ) {
            let before = left_ms(&took, &running, waiting);
            if let (Some(before), Some(after)) = (before, left_ms(&took, &running, waiting + 1)) {
                prop_assert!(after >= before);
            }
            for slower in 0..running.len() {
                let mut slow = running.clone();
                slow[slower].left_ms = slow[slower].left_ms.map(|left| left + more);
                let after = left_ms(&took, &slow, waiting);
                prop_assert_eq!(after.is_some(), before.is_some());
                prop_assert!(after >= before);
            }
        }

        #[test]
        fn the_estimate_is_that_of_runs_that_take_places_one_by_one(
            took in 1u64..1_000,
            running in proptest::collection::vec(0u64..3_000, 1..6),
            waiting in 0u32..40,
        ) {
            let places: Vec<Running> = running.iter().map(|left| Running {
                // The average stays the same.
                ran_ms: 0,
                left_ms: Some(*left),
            }).collect();
            let many = vec![took; 100_000];
            let usual = (running.iter().sum::<u64>() + took * 100_000) / (100_000 + running.len() as u64);
            let mut free = running.clone();
            for _ in 0..waiting {
                let first = free.iter_mut().min().unwrap();
                *first += usual.max(1);
            }
            prop_assert_eq!(left_ms(&many, &places, waiting), free.into_iter().max());
        }
    }
}
