//! Tasks that their scheduler has no more, and what becomes of runs of them that began no user code.

use nero_model::{RunId, RunToken, SubmissionId};
use nero_warden::SchedulerEnd;

use super::{Presence, Submission, Task};
use crate::submission::{News, TaskRun, launched_by};

/// Jobs of a run that fail before it begins, without a word, until it is refused.
const SILENT_MAX: u8 = 3;

/// A run whose task is over, and which began no user code.
#[derive(Clone, Debug)]
pub struct UnbegunRun {
    pub token: RunToken,
    pub submission: SubmissionId,
    pub task: u32,
    /// The way, where the scheduler told it.
    pub how: Option<SchedulerEnd>,
    /// Whether its task was given up before.
    pub was_closed: bool,
    /// Whether its task has no other run.
    pub is_alone: bool,
    /// Whether a run of its task began.
    pub has_begun: bool,
    /// Whether a start of it belongs to a copy of its job.
    pub has_copy: bool,
    /// Whether a start of it left since the run is paused, or the disk had no room for it.
    pub left_early: bool,
    /// Whether its job failed without a word. A line of `setup` that fails says why.
    pub is_silent: bool,
}

/// What becomes of a run that began no user code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnbegunFate {
    /// It goes into another submission.
    Resubmission,
    /// It is taken away, since its job was cancelled so.
    Cancellation(SchedulerEnd),
    /// It is refused, since its job ended so.
    Rejection(SchedulerEnd),
}

impl UnbegunRun {
    /// Whether the start of the controller has to tell what became of its task.
    pub fn lacks_a_trace(&self) -> bool {
        self.how.is_none() && !self.was_closed && !self.left_early
    }

    /// What becomes of it, once its task is closed. `failed`: number of its jobs that failed before
    /// it began, which is counted on.
    pub fn fate(&self, failed: &mut u8) -> UnbegunFate {
        match self.how {
            // Another run of a pack has it closed, which says nothing about this one.
            _ if self.was_closed && self.is_alone => UnbegunFate::Resubmission,
            Some(how @ SchedulerEnd::Cancelled { .. }) => UnbegunFate::Cancellation(how),
            // Its job ended since nothing else of the task was left to do.
            _ if self.left_early => UnbegunFate::Resubmission,
            // Its job failed since it left the task to the copy, which is over, too.
            Some(_) if self.has_copy => UnbegunFate::Resubmission,
            // Its host could not open the file of its output, or the disk had no room for its start.
            Some(SchedulerEnd::Failed) if self.is_tried_again(failed) => UnbegunFate::Resubmission,
            // Each submission brings at least one run of a pack to its end.
            Some(_) if self.has_begun => UnbegunFate::Resubmission,
            Some(how) => UnbegunFate::Rejection(how),
            None => UnbegunFate::Resubmission,
        }
    }

    fn is_tried_again(&self, failed: &mut u8) -> bool {
        *failed += 1;
        self.is_silent && *failed < SILENT_MAX
    }
}

impl Submission {
    /// Its tasks that vanished without a trace, now that the start of the controller is known: those
    /// that are submitted again, and those that wait for a person. A controller that `is_lost` may
    /// have lost them; another one has had them cancelled, and only a person knows why, or has
    /// said before that it does not matter (`reruns_lost`).
    pub fn vanished_tasks(
        &mut self,
        is_lost: bool,
        reruns_lost: impl Fn(&TaskRun) -> bool,
    ) -> (Vec<Task>, Vec<Task>) {
        self.has_vanished = false;
        let gone = |task: &&Task| task.over && task.seen == Presence::Gone(None);
        let gone = self.tasks.iter().filter(gone).cloned();
        gone.partition(|task| is_lost || task.runs.iter().all(&reruns_lost))
    }

    /// Whether a start may still make the claim of this incarnation: it made its launch known, and
    /// did not leave. It may be frozen.
    pub fn may_be_claimed(&self, run: RunId, incarnation: u32) -> bool {
        let mut by = launched_by(&self.news, run, incarnation);
        by.any(|start| !self.news.contains(&News::Left(start)))
    }
}
