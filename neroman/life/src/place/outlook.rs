//! How far a batch has come, and when it may be done: `61 of 200 done, about 9 h left`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nero_model::{Phase, RunId};

use crate::facts::hold::HoldCause;
use crate::facts::now::PresentTime;
use crate::fold::run::Run;
use crate::fold::state::State;

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
    pub fn of(state: &State, batch: RunId, now: &PresentTime) -> Self {
        let tallies = tallies(state, now, Some(batch));
        let tally = tallies.get(&batch);
        tally.map_or_else(Self::default, |tally| {
            tally.outlook(ends(&tallies).remove(&batch).flatten())
        })
    }

    /// The batches of several runs that have not all ended, in the order of their first
    /// runs.
    pub fn unfinished(state: &State, now: &PresentTime) -> Vec<(RunId, Self)> {
        let tallies = tallies(state, now, None);
        let ends = ends(&tallies);
        let several = tallies
            .iter()
            .filter(|(batch, _)| state.batch(**batch).runs > 1);
        several
            .map(|(batch, tally)| (*batch, tally.outlook(ends.get(batch).copied().flatten())))
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
struct BatchRun {
    ran_ms: u64,
    /// By its progress.
    left_ms: Option<u64>,
}

/// The facts of a batch that its outlook follows from.
#[derive(Clone, Debug, Default)]
struct Tally<'a> {
    /// When it was started.
    created_ms: i64,
    runs: u32,
    ended: u32,
    /// Durations of runs that ran to their end.
    took_ms: Vec<u64>,
    /// Its runs that have not ended, by the node or group that was asked for.
    lanes: BTreeMap<&'a str, Lane>,
    /// A run waits until a person, or the end of its pilot, lets it go on.
    stands_still: bool,
}

/// The runs of a batch that wait for one node or group, or run there.
#[derive(Clone, Debug, Default)]
struct Lane {
    running: Vec<BatchRun>,
    /// Runs that wait for a place alone.
    waiting: u32,
}

/// The batches with live runs, and `wanted`.
fn tallies<'a>(
    state: &'a State,
    now: &PresentTime,
    wanted: Option<RunId>,
) -> BTreeMap<RunId, Tally<'a>> {
    let counts = |batch: RunId| {
        let count = state.batch(batch);
        count.runs > 1 || count.ended < count.runs || Some(batch) == wanted
    };
    let live = state.active().flat_map(|one| newest_runs(&one.runs));
    let live = live.map(|(batch, _)| batch).chain(wanted);
    let batches: BTreeSet<RunId> = live.filter(|batch| counts(*batch)).collect();
    let tally = |batch: RunId| {
        let created_ms = state.run(batch).map_or(0, |run| run.made.created_ms);
        let mut tally = Tally {
            created_ms,
            ..Tally::default()
        };
        for experiment in state.batch_experiments(batch) {
            let mut newest = newest_runs(&experiment.runs).into_iter();
            if let Some((_, run)) = newest.find(|(of, _)| *of == batch) {
                tally.add(run, now);
            }
        }
        (batch, tally)
    };
    batches.into_iter().map(tally).collect()
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

impl<'a> Tally<'a> {
    fn add(&mut self, run: &'a Run, now: &PresentTime) {
        self.runs += 1;
        let lane = run.made.node.as_str();
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
                self.lane(lane).running.push(BatchRun {
                    ran_ms: ran_ms.unwrap_or(0),
                    left_ms: run.eta_s(run.runtime_s(now)).map(ms),
                });
            }
            Phase::Ending => self.lane(lane).running.push(BatchRun {
                ran_ms: ran_ms.unwrap_or(0),
                left_ms: Some(0),
            }),
            Phase::Queued | Phase::Staging | Phase::Submitted | Phase::Pending => {
                let is_held = run.is_paused() || is_held(run);
                let stands_still = is_held || run.needs_person().is_some();
                self.stands_still |= stands_still;
                self.lane(lane).waiting += u32::from(!stands_still);
            }
        }
    }

    fn lane(&mut self, word: &'a str) -> &mut Lane {
        self.lanes.entry(word).or_default()
    }

    /// The time that its runs take on average.
    fn usual_ms(&self) -> Option<u64> {
        let running = self.lanes.values().flat_map(|lane| &lane.running);
        let expected = running.filter_map(|one| Some(one.ran_ms.saturating_add(one.left_ms?)));
        let known: Vec<u64> = self.took_ms.iter().copied().chain(expected).collect();
        let sum_ms = known.iter().map(|ms| u128::from(*ms)).sum::<u128>();
        let usual_ms = sum_ms.checked_div(known.len() as u128)?;
        u64::try_from(usual_ms).ok()
    }

    /// `end_ms`: time until its last run ends, if that is known.
    fn outlook(&self, end_ms: Option<u64>) -> Outlook {
        let left_ms = if self.ended == self.runs {
            Some(0)
        } else if self.stands_still {
            None
        } else {
            end_ms.filter(|left_ms| *left_ms > 0)
        };
        Outlook {
            runs: self.runs,
            ended: self.ended,
            left_ms,
        }
    }
}

impl BatchRun {
    /// Time until it ends: by its progress, else as the others of its batch.
    fn left_ms(&self, usual_ms: Option<u64>) -> Option<u64> {
        self.left_ms
            .or_else(|| Some(usual_ms?.saturating_sub(self.ran_ms)))
    }
}

/// Whether nobody knows how long it stands still. What waits until fewer runs of its start
/// go on takes the place of one that ends.
fn is_held(run: &Run) -> bool {
    match run.hold_cause() {
        Some(HoldCause::Pilot | HoldCause::Crashes(_) | HoldCause::Others) => true,
        Some(HoldCause::AtMost) | None => false,
    }
}

/// What runs on a node or group, and what waits for it in front of the next batch.
#[derive(Debug, Default)]
struct BatchQueue {
    /// When the places get free.
    places_ms: Vec<u64>,
    /// Runs wait of which nobody knows how long they will take.
    is_unknown: bool,
}

/// Time until the last run of each batch ends, where it is known, when each run that waits takes
/// the first place that gets free, those of earlier batches first, and as long as the others of
/// its batch on average. As many run at once as do now, for each word that was asked for.
fn ends(tallies: &BTreeMap<RunId, Tally<'_>>) -> BTreeMap<RunId, Option<u64>> {
    let mut queues: BTreeMap<&str, BatchQueue> = BTreeMap::new();
    let mut ends: BTreeMap<RunId, Option<u64>> = BTreeMap::new();
    for (batch, tally) in tallies {
        let usual_ms = tally.usual_ms();
        let mut end_ms = Some(0);
        for (word, lane) in &tally.lanes {
            let queue = queues.entry(word).or_default();
            for running in &lane.running {
                let left_ms = running.left_ms(usual_ms);
                // A place without a known end gets free for nobody.
                queue.places_ms.extend(left_ms);
                end_ms = end_ms.zip(left_ms).map(|(end, left)| end.max(left));
            }
        }
        ends.insert(*batch, end_ms);
    }
    let mut order: Vec<(&RunId, &Tally<'_>)> = tallies.iter().collect();
    order.sort_by_key(|(batch, tally)| (tally.created_ms, **batch));
    for (batch, tally) in order {
        let usual_ms = tally.usual_ms();
        for (word, lane) in tally.lanes.iter().filter(|(_, lane)| lane.waiting > 0) {
            let queue = queues.entry(word).or_default();
            queue.is_unknown |= usual_ms.is_none() || queue.places_ms.is_empty();
            let last_ms = match usual_ms {
                Some(usual_ms) if !queue.is_unknown => {
                    Some(take(&mut queue.places_ms, lane.waiting, usual_ms.max(1)))
                }
                Some(_) | None => None,
            };
            let end_ms = ends.entry(*batch).or_default();
            *end_ms = end_ms.zip(last_ms).map(|(end, last)| end.max(last));
        }
    }
    ends
}

/// Has so many runs, one or more, take the places one after the other, each the first that gets
/// free. Returns when the last of them ends.
fn take(places_ms: &mut [u64], waiting: u32, usual_ms: u64) -> u64 {
    // Runs that have begun by then.
    let begun = |free_ms: u64, by_ms: u64| match by_ms.checked_sub(free_ms) {
        Some(ms) => ms / usual_ms + 1,
        None => 0,
    };
    let all_begun = |by_ms: u64| {
        let begun = places_ms.iter().map(|free_ms| begun(*free_ms, by_ms));
        begun.map(u128::from).sum::<u128>()
    };
    let waiting = u128::from(waiting);
    // The moment at which the last one begins.
    let mut low_ms = 0;
    let mut last_ms = usual_ms.saturating_mul(u64::try_from(waiting).unwrap_or(u64::MAX));
    last_ms = last_ms.saturating_add(places_ms.iter().copied().max().unwrap_or(0));
    while low_ms < last_ms {
        let middle_ms = low_ms + (last_ms - low_ms) / 2;
        if all_begun(middle_ms) >= waiting {
            last_ms = middle_ms
        } else {
            low_ms = middle_ms + 1
        }
    }
    let begun_before = match last_ms.checked_sub(1) {
        Some(before_ms) => all_begun(before_ms),
        None => 0,
    };
    let mut at_last = waiting.saturating_sub(begun_before);
    for free_ms in places_ms {
        let before = last_ms.checked_sub(1).map_or(0, |ms| begun(*free_ms, ms));
        let begins_at_last = at_last > 0 && begun(*free_ms, last_ms) > before;
        at_last -= u128::from(begins_at_last);
        let runs = before + u64::from(begins_at_last);
        *free_ms = free_ms.saturating_add(runs.saturating_mul(usual_ms));
    }
    last_ms.saturating_add(usual_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn running(ran_ms: u64, left_ms: Option<u64>) -> BatchRun {
        BatchRun { ran_ms, left_ms }
    }

    /// A batch on one node.
    fn batch<'a>(
        created_ms: i64,
        took_ms: &[u64],
        running: &[BatchRun],
        waiting: u32,
    ) -> Tally<'a> {
        let lane = Lane {
            running: running.to_vec(),
            waiting,
        };
        Tally {
            created_ms,
            took_ms: took_ms.to_vec(),
            lanes: BTreeMap::from([("local", lane)]),
            ..Tally::default()
        }
    }

    /// The ends of batches, by their order here.
    fn ends_of<const N: usize>(batches: [Tally<'_>; N]) -> [Option<u64>; N] {
        let id = |index: usize| RunId {
            experiment: nero_model::ExperimentId(index as u64 + 1),
            number: 1,
        };
        let tallies = batches.into_iter().enumerate();
        let tallies = tallies.map(|(index, tally)| (id(index), tally)).collect();
        let ends = ends(&tallies);
        std::array::from_fn(|index| ends[&id(index)])
    }

    fn left_ms(took_ms: &[u64], running: &[BatchRun], waiting: u32) -> Option<u64> {
        let [end_ms] = ends_of([batch(0, took_ms, running, waiting)]);
        end_ms
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
    fn the_time_left_is_unknown_without_durations_or_running_runs() {
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

    #[test]
    fn a_batch_waits_for_the_earlier_ones_in_its_queue() {
        let one = [running(0, Some(100))];
        // The second batch has no place of its own: it follows the two runs of the first.
        let first = || batch(1, &[], &one, 2);
        assert_eq!(
            ends_of([first(), batch(2, &[10], &[], 3)]),
            [Some(300), Some(330)]
        );
        // The earlier one goes first, whatever its number is.
        assert_eq!(
            ends_of([batch(2, &[10], &[], 3), first()]),
            [Some(330), Some(300)]
        );
        assert_eq!(
            ends_of([first(), batch(0, &[10], &[], 3)]),
            [Some(330), Some(130)]
        );
        // Who waits for another node is in nobody's way.
        let mut elsewhere = batch(0, &[10], &[], 3);
        elsewhere.lanes = BTreeMap::from([("alpha", elsewhere.lanes["local"].clone())]);
        assert_eq!(ends_of([first(), elsewhere]), [Some(300), None]);
        // Nobody knows how long those in front will take.
        let unknown = batch(0, &[], &[running(5, None)], 1);
        assert_eq!(ends_of([first(), unknown]), [None, None]);
        // They have a place, and none of them waits.
        let unknown = batch(0, &[], &[running(5, None)], 0);
        assert_eq!(ends_of([first(), unknown]), [Some(300), None]);
    }

    fn some_running() -> impl Strategy<Value = Vec<BatchRun>> {
        let one = (0u64..1_000_000, proptest::option::of(0u64..1_000_000));
        proptest::collection::vec(one.prop_map(|(ran, left)| running(ran, left)), 0..6)
    }

    proptest! {
        #[test]
        fn more_waiting_or_slower_runs_never_shorten_the_estimate(
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
            usual in 1u64..1_000,
            free in proptest::collection::vec(0u64..3_000, 1..6),
            waiting in 1u32..40,
        ) {
            let (mut places, mut one_by_one) = (free.clone(), free);
            let mut last = 0;
            for _ in 0..waiting {
                let first = one_by_one.iter_mut().min().unwrap();
                *first += usual;
                last = last.max(*first);
            }
            prop_assert_eq!(take(&mut places, waiting, usual), last);
            places.sort_unstable();
            one_by_one.sort_unstable();
            prop_assert_eq!(places, one_by_one);
        }
    }
}
