//! What is known of one task of a submission.

use std::time::Instant;

use nero_node_core::decide::TaskWord;
use nero_warden::{JobId, QueueRow, SchedulerEnd, State};

use crate::submission::TaskRun;

/// Time between two listings, of which both have to miss a task, in milliseconds.
const MISSED_MS: u64 = super::APART_MS;

/// The scheduler's word about a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It was listed so last, or no listing was asked for yet.
    Listed(State),
    /// Whole listings have not shown it.
    Missing {
        /// When the first of these was asked for.
        since_ms: u64,
    },
    /// It is over; the way, where the scheduler told it.
    Gone(Option<SchedulerEnd>),
}

/// One task of a submission.
#[derive(Clone, Debug)]
pub struct Task {
    /// The scheduler's index; 0 for a job without an array.
    pub index: u32,
    /// Its runs.
    pub runs: Vec<TaskRun>,
    /// The scheduler's word about it.
    pub seen: Presence,
    /// Whether it is over, and no start of it is alive.
    pub over: bool,
    /// Since when the scheduler calls it gone.
    pub gone: Option<Instant>,
    /// When it was cancelled last.
    pub cancelled: Option<Instant>,
    /// When its job is cancelled at the scheduler, although a run of it runs: every
    /// run of it is to end, and has had its grace by then.
    pub overdue_at: Option<Instant>,
    /// Whether the runs' folders tell that its job is cancelled for that.
    pub is_told: bool,
    /// Number of times that the accounting was asked for it.
    pub asked: u8,
    /// Whether the accounting was asked after it was gone, and answered or failed.
    pub is_accounted: bool,
}

impl Task {
    /// A task that was submitted, or is about to be.
    pub fn new(index: u32, runs: Vec<TaskRun>) -> Self {
        Self {
            index,
            runs,
            seen: Presence::Listed(State::Waiting(nero_warden::Reason::default())),
            over: false,
            gone: None,
            cancelled: None,
            overdue_at: None,
            is_told: false,
            asked: 0,
            is_accounted: false,
        }
    }

    /// Whether it is over, for a decision about its runs.
    pub fn status(&self) -> TaskWord {
        if self.over {
            TaskWord::Over
        } else {
            TaskWord::Open
        }
    }

    /// Its row in a listing: of several, that of what has not ended, whichever job it
    /// is, and then that of the known job. The end of a copy tells nothing about it: the
    /// copy was cancelled while it waited, or left the task to another.
    pub fn row<'a>(
        &self,
        rows: impl IntoIterator<Item = &'a QueueRow>,
        job: JobId,
    ) -> Option<&'a QueueRow> {
        let is_it = |row: &&QueueRow| match &row.tasks {
            None => self.index == 0,
            Some(tasks) => tasks.contains(self.index),
        };
        let counts = |row: &&QueueRow| row.job == job || !matches!(row.state, State::Ended(_));
        let rows = rows.into_iter().filter(is_it).filter(counts);
        rows.max_by_key(|row| (!matches!(row.state, State::Ended(_)), row.job == job))
    }

    /// Takes in a whole listing that was asked for at `asked_ms`.
    pub fn listed(&mut self, row: Option<&QueueRow>, asked_ms: u64) {
        self.seen = match (row.map(|row| &row.state), &self.seen) {
            (Some(State::Ended(SchedulerEnd::Requeued)), _) => Presence::Listed(State::Ending),
            (Some(State::Ended(how)), _) => Presence::Gone(Some(*how)),
            (Some(state), _) => Presence::Listed(state.clone()),
            (None, Presence::Listed(_)) => Presence::Missing { since_ms: asked_ms },
            (None, Presence::Missing { since_ms }) if asked_ms >= since_ms + MISSED_MS => {
                Presence::Gone(None)
            }
            (None, seen) => seen.clone(),
        };
        self.over &= matches!(self.seen, Presence::Gone(_));
    }

    /// Whether the queue does not show it, and nothing tells how it ended.
    pub fn left_the_queue(&self) -> bool {
        matches!(self.seen, Presence::Missing { .. } | Presence::Gone(None))
    }

    /// Whether the accounting may still tell who else cancelled it. Listings do not.
    pub fn lacks_its_canceller(&self) -> bool {
        let is_unnamed = self.seen == Presence::Gone(Some(SchedulerEnd::Cancelled { by: None }));
        is_unnamed && self.cancelled.is_none() && !self.is_accounted
    }

    /// Notes since when it is gone.
    pub fn note_gone(&mut self, now: Instant) {
        match self.seen {
            Presence::Gone(_) => {
                self.gone.get_or_insert(now);
            }
            Presence::Listed(_) | Presence::Missing { .. } => self.gone = None,
        }
    }

    /// Takes in the accounting's newest record of it.
    pub fn accounted(&mut self, state: &State) {
        if matches!(self.seen, Presence::Listed(_)) {
            // The queue is newer than the accounting.
            return;
        }
        if let State::Ended(how) = state
            && *how != SchedulerEnd::Requeued
        {
            self.seen = Presence::Gone(Some(*how));
        }
    }
}

#[cfg(test)]
mod tests {
    use nero_warden::{JobName, Reason, Tasks};

    use super::*;

    fn row(job: u64, tasks: Option<&str>, state: State) -> QueueRow {
        QueueRow {
            name: JobName::of("abcdefghijklmnopqrstuvwxyz").unwrap(),
            job: JobId(job),
            tasks: tasks.map(|tasks| Tasks::read(tasks).unwrap()),
            state,
            host: None,
            start_s: None,
        }
    }

    #[test]
    fn a_task_is_gone_when_the_scheduler_says_so_or_two_listings_far_apart_miss_it() {
        let mut task = Task::new(0, Vec::new());
        task.listed(None, 1000);
        task.listed(None, 1000 + MISSED_MS - 1);
        assert_eq!(task.seen, Presence::Missing { since_ms: 1000 });
        task.listed(Some(&row(7, None, State::Running)), 1000 + MISSED_MS);
        assert_eq!(task.seen, Presence::Listed(State::Running));
        task.listed(None, 99_000);
        task.listed(None, 99_000 + MISSED_MS);
        assert_eq!(task.seen, Presence::Gone(None));
        task.accounted(&State::Ended(SchedulerEnd::TimeLimit));
        assert_eq!(task.seen, Presence::Gone(Some(SchedulerEnd::TimeLimit)));
        // A record of an earlier start, of a job that is in the queue again.
        task.listed(
            Some(&row(7, None, State::Waiting(Reason::default()))),
            200_000,
        );
        task.accounted(&State::Ended(SchedulerEnd::HostFailure));
        assert!(
            matches!(task.seen, Presence::Listed(State::Waiting(_))),
            "{task:?}"
        );
    }

    #[test]
    fn a_requeued_start_is_no_end_of_its_task() {
        let mut task = Task::new(3, Vec::new());
        task.listed(
            Some(&row(7, Some("3"), State::Ended(SchedulerEnd::Requeued))),
            0,
        );
        assert!(matches!(task.seen, Presence::Listed(_)));
        task.listed(None, 1);
        task.accounted(&State::Ended(SchedulerEnd::Requeued));
        assert!(matches!(task.seen, Presence::Missing { .. }));
    }

    #[test]
    fn of_several_rows_that_of_the_known_job_counts() {
        let task = Task::new(3, Vec::new());
        let rows = [
            row(9, Some("0-2,4-5"), State::Running),
            row(9, Some("3"), State::Ended(SchedulerEnd::Failed)),
            row(
                7,
                Some("3"),
                State::Ended(SchedulerEnd::Cancelled { by: None }),
            ),
            row(7, Some("1-2"), State::Suspended),
        ];
        let found = task.row(&rows, JobId(7)).unwrap();
        assert_eq!(
            found.state,
            State::Ended(SchedulerEnd::Cancelled { by: None })
        );
        let both = [
            row(9, Some("0-5"), State::Running),
            row(7, Some("3"), State::Running),
        ];
        assert_eq!(task.row(&both, JobId(7)).unwrap().job, JobId(7));
        assert_eq!(Task::new(6, Vec::new()).row(&rows, JobId(7)), None);
    }

    #[test]
    fn a_job_that_was_cancelled_ends_no_task_of_which_a_twin_waits() {
        let mut task = Task::new(0, Vec::new());
        let rows = [
            row(7, None, State::Ended(SchedulerEnd::Cancelled { by: None })),
            row(9, None, State::Waiting(Reason::default())),
        ];
        task.listed(task.row(&rows, JobId(7)), 0);
        assert!(matches!(task.seen, Presence::Listed(_)), "{task:?}");
    }

    #[test]
    fn a_copy_that_was_cancelled_ends_no_task_whose_job_is_not_listed() {
        let mut task = Task::new(0, Vec::new());
        let copy = row(9, None, State::Ended(SchedulerEnd::Cancelled { by: None }));
        task.listed(task.row([&copy], JobId(7)), 0);
        assert_eq!(task.seen, Presence::Missing { since_ms: 0 });
    }
}
