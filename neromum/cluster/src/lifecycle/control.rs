//! Ending, holding and releasing the jobs of runs: for which rows of the last listing a command is
//! due, and when it is given again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nero_model::{RunId, RunToken};
use nero_node_core::{Core, PauseState};
use nero_warden::{QueueRow, State};

use super::{Presence, Submission, Task};
use crate::submission::TaskRun;

/// Pause before a task that is still listed is cancelled once more, and before a hold is
/// asked for once more.
const AGAIN: Duration = Duration::from_secs(15);
/// The longest pause of a hold that the scheduler refuses. Each pause is twice the last.
const AGAIN_MAX: Duration = Duration::from_secs(600);
/// Pause before the job of runs that did not end is cancelled once more.
const AGAIN_OVERDUE: Duration = Duration::from_secs(60);
/// Time that a run has beyond its grace, for its cancel request and its end to pass
/// over the disk.
const MARGIN: Duration = Duration::from_secs(45);

/// A row of a listing for a command, and the index of the task of it that the command is for;
/// `None`: the whole row.
pub type RowPart<'a> = (&'a QueueRow, Option<u32>);

/// What ends tasks: a command for these rows, and requests for their runs.
#[derive(Debug, Default)]
pub struct Cancellation<'a> {
    pub rows: Vec<RowPart<'a>>,
    /// Runs to ring, since the last listing shows that they began.
    pub rings: Vec<RunToken>,
    /// Runs that did not end in time. Their folders are to tell it before the command is given.
    pub escalated: Vec<(RunToken, RunId)>,
}

/// A request to hold or release the job of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub wanted: PauseState,
    /// Listings that were asked for before that time say nothing about it.
    pub since: Instant,
    /// When its command may be given, or given again.
    next: Instant,
    /// From then until the time after that.
    pause: Duration,
}

impl Hold {
    /// A request of now.
    pub fn new(wanted: PauseState, now: Instant) -> Self {
        Self {
            wanted,
            since: now,
            next: now,
            pause: AGAIN,
        }
    }

    /// Whether its command may be given.
    pub fn is_due(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// The same after its command was given, if that was due.
    pub fn after_command(self, now: Instant) -> Self {
        if self.is_due(now) {
            Self {
                since: now,
                next: now + self.pause,
                pause: (self.pause * 2).min(AGAIN_MAX),
                ..self
            }
        } else {
            Self {
                since: self.next,
                ..self
            }
        }
    }
}

impl Task {
    /// Whether it is to be cancelled: no run of it is to go on, at least one was aborted before it
    /// began or had its time to end by itself, and it was not cancelled lately.
    fn is_to_end(&self, now: Instant, runs: &Core) -> bool {
        let again = self.overdue_at.map_or(AGAIN, |_| AGAIN_OVERDUE);
        let is_due = self.cancelled.is_none_or(|at| now >= at + again);
        let is_overdue = self.is_overdue(now);
        let ends = |run: &TaskRun| {
            is_overdue && runs.runs_cancelled(&run.token) || runs.waits_cancelled(&run.token)
        };
        let is_over = |run: &TaskRun| runs.is_done(&run.token) || ends(run);
        is_due
            && !matches!(self.seen, Presence::Gone(_))
            && self.runs.iter().all(is_over)
            && self.runs.iter().any(ends)
    }

    /// Notes until when it has time, if every run of it is to end and one still runs.
    fn note_overdue(&mut self, now: Instant, runs: &Core, grace: impl Fn(&TaskRun) -> Duration) {
        let is_wanted = |run: &TaskRun| runs.run(&run.token).is_some_and(|run| run.cancelled);
        let open = || {
            let all = self.runs.iter();
            all.filter(|run| !runs.is_done(&run.token))
        };
        if self.overdue_at.is_none()
            && !matches!(self.seen, Presence::Gone(_))
            && open().any(|run| runs.runs_cancelled(&run.token))
            && open().all(is_wanted)
        {
            self.overdue_at = Some(now + open().map(grace).max().unwrap_or_default());
        }
    }

    /// Whether its runs had their time to end by themselves, and did not.
    fn is_overdue(&self, now: Instant) -> bool {
        self.overdue_at.is_some_and(|at| at <= now)
    }
}

impl Submission {
    /// Indexes of the tasks to cancel at the scheduler now.
    pub fn tasks_to_end(&self, now: Instant, runs: &Core) -> BTreeSet<u32> {
        let tasks = self.tasks.iter().filter(|_| self.job().is_some());
        tasks
            .filter(|task| task.is_to_end(now, runs))
            .map(|task| task.index)
            .collect()
    }

    /// Sets the deadline of each task whose runs are all to end while one of them still runs.
    /// `grace`: time of a run from the polite signal to the final one.
    pub fn note_overdue(
        &mut self,
        now: Instant,
        runs: &Core,
        grace: impl Fn(&TaskRun) -> Duration,
    ) {
        let is_adopted = self.adoption.is_some();
        for task in &mut self.tasks {
            task.note_overdue(now, runs, |run| {
                if is_adopted {
                    // Nothing but its scheduler can end it.
                    Duration::ZERO
                } else {
                    grace(run) + MARGIN
                }
            });
        }
    }

    /// Cancels the tasks that are to end, where the last listing does not show that they did. A
    /// task that began since is rung first: our own steps end it, if it answers.
    pub fn cancel(&mut self, now: Instant, runs: &Core) -> Cancellation<'_> {
        let mut wanted = self.tasks_to_end(now, runs);
        let mut found = Cancellation::default();
        let Some(job) = self.job() else {
            return found;
        };
        let is_adopted = self.adoption.is_some();
        let begins = |task: &Task| {
            let is_first = task.cancelled.is_none() && !task.is_overdue(now) && !is_adopted;
            let row = task.row(&self.rows, job);
            is_first && row.is_some_and(|row| row.state == State::Running)
        };
        for task in &mut self.tasks {
            if wanted.contains(&task.index) && begins(task) {
                task.cancelled = Some(now);
                found.rings.extend(task.runs.iter().map(|run| run.token));
                wanted.remove(&task.index);
            }
        }
        // The last of a row takes the whole row with it, in one command. Of an adopted job other
        // tasks of its array are not ours.
        let mut tasks = self.tasks.iter();
        let all = tasks.all(|task| wanted.contains(&task.index) || task.over) && !is_adopted;
        let mut named = BTreeSet::new();
        for task in &mut self.tasks {
            if !wanted.contains(&task.index) {
                continue;
            }
            let is_overdue = task.is_overdue(now);
            task.cancelled = Some(now);
            let row = task.row(&self.rows, job);
            let Some(row) = row.filter(|row| !matches!(row.state, State::Ended(_))) else {
                continue;
            };
            if is_overdue && !is_adopted && !std::mem::replace(&mut task.is_told, true) {
                let runs = task.runs.iter().map(|run| (run.token, run.id));
                found.escalated.extend(runs);
            }
            let part = row.tasks.as_ref().map(|_| task.index).filter(|_| !all);
            // All tasks of an array may be one row, and a job several rows.
            if named.insert((row.job, part)) {
                found.rows.push((row, part));
            }
        }
        found
    }

    /// The row that a command holds or releases for a run of this task; `None`: the last listing
    /// shows it so, or it began. A task is held when each of its runs is paused or over.
    pub fn row_to_hold(&self, task: &Task, wanted: PauseState, runs: &Core) -> Option<RowPart<'_>> {
        let row = self.row(task)?;
        let rests = |run: &TaskRun| {
            let is_paused = runs.run(&run.token).is_some_and(|run| run.paused);
            runs.is_done(&run.token) || is_paused
        };
        let is_other = match (&row.state, wanted) {
            (State::Waiting(_), PauseState::Paused) => task.runs.iter().all(rests),
            (State::Held(_), PauseState::Resumed) => true,
            _ => false,
        };
        let index = row.tasks.as_ref().map(|_| task.index);
        is_other.then_some((row, index))
    }

    /// Whether the scheduler has told where a task stands.
    pub fn shows(&self, task: &Task) -> bool {
        self.row(task).is_some() || matches!(task.seen, Presence::Gone(_))
    }
}
