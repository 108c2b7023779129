//! The order in which runs' files are fetched over one connection. Decides
//! only: no clock, no I/O.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use nero_model::RunId;
use tokio::time::Instant;

/// The kind of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchKind {
    /// The files of a live run so far.
    Live,
    /// All files of an ended run.
    End,
}

/// How often the files of a live run are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The wait after its start, or after the connection was made.
    pub first: Duration,
    /// Between two looks: this many times the duration of the last …
    pub times: u32,
    /// … and no longer than this.
    pub longest: Duration,
    /// The wait before a node that did not answer, or a disk that was full, is
    /// tried again.
    pub again: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(30),
            times: 20,
            longest: Duration::from_secs(300),
            again: Duration::from_secs(30),
        }
    }
}

impl Pace {
    /// The wait until the next look, after one of this duration.
    pub(super) fn after(&self, took: Duration) -> Duration {
        (took * self.times).clamp(self.first, self.longest.max(self.first))
    }
}

/// A run's place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueState {
    Due(Instant, FetchKind),
    Ready,
    Working,
}

/// How many ended runs are fetched concurrently.
const ENDED_AT_ONCE: usize = 3;

/// The order in which runs get their turn.
#[derive(Debug, Default)]
pub(super) struct Queue {
    runs: HashMap<RunId, QueueState>,
    due: BTreeSet<(Instant, RunId)>,
    ended: VecDeque<RunId>,
    live: VecDeque<RunId>,
    working: HashMap<RunId, FetchKind>,
}

impl Queue {
    /// Adds a run that has files to fetch; a live one has its turn no earlier
    /// than `at`.
    pub(super) fn add(&mut self, run: RunId, kind: FetchKind, at: Instant) {
        match (self.runs.get(&run).copied(), kind) {
            (None, FetchKind::End) => self.ready(run, FetchKind::End),
            // The run ended: its turn need not wait.
            (Some(QueueState::Due(due, FetchKind::Live)), FetchKind::End) => {
                self.due.remove(&(due, run));
                self.ready(run, FetchKind::End);
            }
            (None, FetchKind::Live) => self.later(run, FetchKind::Live, at),
            (Some(QueueState::Due(..) | QueueState::Ready | QueueState::Working), _) => {}
        }
    }

    /// Gives the run another turn at this time.
    pub(super) fn later(&mut self, run: RunId, kind: FetchKind, at: Instant) {
        self.runs.insert(run, QueueState::Due(at, kind));
        self.due.insert((at, run));
    }

    fn ready(&mut self, run: RunId, kind: FetchKind) {
        self.runs.insert(run, QueueState::Ready);
        match kind {
            FetchKind::Live => self.live.push_back(run),
            FetchKind::End => self.ended.push_back(run),
        }
    }

    /// The time when the next run is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Makes the runs ready that are due now.
    pub(super) fn wake(&mut self, now: Instant) {
        while let Some((at, run)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, run));
            if let Some(QueueState::Due(_, kind)) = self.runs.get(&run).copied() {
                self.ready(run, kind);
            }
        }
    }

    /// The next run, if one may begin now. Ended runs come first; beside them
    /// one live run at a time has its turn.
    pub(super) fn begin(&mut self) -> Option<(RunId, FetchKind)> {
        let count = |kind| self.working.values().filter(|one| **one == kind).count();
        let (ended, live) = (count(FetchKind::End), count(FetchKind::Live));
        let turn = if ended < ENDED_AT_ONCE && !self.ended.is_empty() {
            self.ended.pop_front().map(|run| (run, FetchKind::End))
        } else if live == 0 {
            self.live.pop_front().map(|run| (run, FetchKind::Live))
        } else {
            None
        };
        if let Some((run, kind)) = turn {
            self.runs.insert(run, QueueState::Working);
            self.working.insert(run, kind);
        }
        turn
    }

    /// The run's files came: another run may have its turn. It is not forgotten yet.
    pub(super) fn came(&mut self, run: RunId) {
        self.working.remove(&run);
    }

    /// Ends a turn; the run is forgotten until it is added again.
    pub(super) fn done(&mut self, run: RunId) {
        self.working.remove(&run);
        self.runs.remove(&run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u32) -> RunId {
        format!("1.{number}").parse().unwrap()
    }

    #[test]
    fn ended_runs_come_first_and_live_ones_one_at_a_time() {
        let now = Instant::now();
        let later = now + Duration::from_secs(30);
        let mut queue = Queue::default();
        for number in 1..=2 {
            queue.add(run(number), FetchKind::Live, later);
        }
        assert_eq!((queue.begin(), queue.next_due()), (None, Some(later)));
        for number in 3..=6 {
            queue.add(run(number), FetchKind::End, later);
        }
        // Added again while it waits or works: it has one turn.
        queue.add(run(3), FetchKind::End, later);
        queue.wake(later);
        let mut turns = Vec::new();
        while let Some(turn) = queue.begin() {
            turns.push(turn);
        }
        assert_eq!(
            turns,
            [
                (run(3), FetchKind::End),
                (run(4), FetchKind::End),
                (run(5), FetchKind::End),
                (run(1), FetchKind::Live)
            ]
        );
        queue.done(run(1));
        queue.done(run(4));
        assert_eq!(queue.begin(), Some((run(6), FetchKind::End)));
        assert_eq!(queue.begin(), Some((run(2), FetchKind::Live)));
        assert_eq!((queue.begin(), queue.next_due()), (None, None));
    }

    #[test]
    fn a_live_run_that_ends_waits_no_longer() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add(run(1), FetchKind::Live, now + Duration::from_secs(30));
        queue.add(run(1), FetchKind::End, now);
        assert_eq!(queue.begin(), Some((run(1), FetchKind::End)));
        assert_eq!(queue.next_due(), None);
        queue.done(run(1));
        queue.later(run(1), FetchKind::End, now);
        queue.add(run(1), FetchKind::End, now);
        assert_eq!(queue.begin(), None, "its pause is kept");
        queue.wake(now);
        assert_eq!(queue.begin(), Some((run(1), FetchKind::End)));
    }

    #[test]
    fn the_pace_follows_what_a_look_takes() {
        let pace = Pace::default();
        let seconds = |seconds| pace.after(Duration::from_millis(seconds)).as_secs();
        assert_eq!((seconds(10), seconds(3000), seconds(60_000)), (30, 60, 300));
    }
}
