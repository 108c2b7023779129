//! Ending what the scheduler has: a cancel request lies on the disk before, so that
//! whatever starts meanwhile ends by itself. A job is cancelled by its id after a
//! listing showed the id with our name.

use std::time::Duration;

use nero_model::{RunToken, SubmissionId};
use nero_warden::{Call, Listed, State};
use tokio::time::Instant;

use super::{Agent, Cluster, Seen};
use crate::core::Stage;

/// Pause before a task that is still listed is cancelled once more.
const AGAIN: Duration = Duration::from_secs(15);
/// Most commands at a time.
const CALLS_MAX: usize = 50;

impl Agent {
    /// Waiting tasks of which every run is to end, and whose cancel is due.
    pub(super) fn tasks_to_cancel(&self, now: Instant) -> Vec<(SubmissionId, u32)> {
        let Some(cluster) = &self.cluster else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for submission in cluster.submissions.values() {
            if submission.job().is_none() {
                continue;
            }
            for task in &submission.tasks {
                let is_due = task.cancelled.is_none_or(|at| now >= at + AGAIN);
                if !is_due || matches!(task.seen, Seen::Gone(_)) {
                    continue;
                }
                let runs = || task.runs.iter().map(|run| &run.token);
                let ends = |token: &RunToken| self.is_done(token) || self.waits_for_its_end(token);
                if runs().all(ends) && runs().any(|token| self.waits_for_its_end(token)) {
                    found.push((submission.id, task.index));
                }
            }
        }
        found
    }

    /// Runs that are to end, and of which the scheduler has nothing any more.
    pub(super) fn cancelled_and_over(&self) -> Vec<RunToken> {
        let submissions = self.cluster.iter().flat_map(|one| one.submissions.values());
        let tasks = submissions.flat_map(|one| &one.tasks);
        let runs = tasks.filter(|task| task.over).flat_map(|task| &task.runs);
        runs.map(|run| run.token)
            .filter(|token| self.waits_for_its_end(token))
            .collect()
    }

    /// Whether a run waits at its scheduler and is to end.
    fn waits_for_its_end(&self, token: &RunToken) -> bool {
        let run = self.core.run(token);
        run.is_some_and(|run| run.cancelled && matches!(run.stage, Stage::Submitted { .. }))
    }
}

impl Cluster {
    /// A live run is to look for its cancel request.
    pub fn ring_at_scheduler(&mut self, token: RunToken) {
        self.rings.insert(token);
    }

    /// The command that rings, when there is one; `None`: a listing has to show the
    /// jobs first.
    pub(super) fn ring(&mut self, now: Instant) -> Option<Option<Call>> {
        let listed = self.answered?;
        if now.duration_since(listed) > super::LIST_APART * 3 {
            return None;
        }
        let rings = std::mem::take(&mut self.rings);
        let mut seen: Vec<(&Listed, Option<u32>)> = Vec::new();
        for token in &rings {
            let Some((submission, task)) = self.task(token) else {
                continue;
            };
            let row = submission.row(task);
            if let Some(row) = row.filter(|row| row.state == State::Running) {
                let one = (row, row.tasks.as_ref().map(|_| task.index));
                if !seen.contains(&one) {
                    seen.push(one);
                }
            }
        }
        Some(self.warden.ring_call(&seen))
    }

    /// The commands that cancel copies of submissions, which the last listing showed
    /// as waiting.
    pub(super) fn cancel_twins(&mut self) -> Vec<Call> {
        let warden = self.warden.clone();
        let mut calls = Vec::new();
        for submission in self.submissions.values_mut() {
            for twin in std::mem::take(&mut submission.twins) {
                let row = submission.rows.iter().find(|row| row.job == twin);
                calls.extend(row.map(|row| warden.cancel_call(row, None)));
            }
        }
        calls
    }

    /// The commands that cancel these tasks; `None`: a listing has to show them
    /// first.
    pub(super) fn cancel(
        &mut self,
        tasks: &[(SubmissionId, u32)],
        now: Instant,
    ) -> Option<Vec<Call>> {
        let listed = self.answered?;
        if now.duration_since(listed) > super::LIST_APART * 3 {
            return None;
        }
        let mut calls = Vec::new();
        for (id, submission) in &mut self.submissions {
            let wanted = |index: u32| tasks.contains(&(*id, index));
            let Some(job) = submission.job() else {
                continue;
            };
            let rows: Vec<&Listed> = submission.rows.iter().collect();
            // The last of a row takes the whole row with it, in one command.
            let all = submission
                .tasks
                .iter()
                .all(|task| wanted(task.index) || task.over);
            for task in submission
                .tasks
                .iter_mut()
                .filter(|task| wanted(task.index))
            {
                let is_first = task.cancelled.replace(now).is_none();
                let row = task.row(&rows, job);
                let Some(row) = row.filter(|row| !matches!(row.state, State::Ended(_))) else {
                    continue;
                };
                if is_first && row.state == State::Running {
                    // It began since; our own steps end it, if it answers.
                    self.rings.extend(task.runs.iter().map(|run| run.token));
                    continue;
                }
                let one = row.tasks.as_ref().map(|_| task.index).filter(|_| !all);
                let call = self.warden.cancel_call(row, one);
                if !calls.contains(&call) && calls.len() < CALLS_MAX {
                    calls.push(call);
                }
            }
        }
        (!calls.is_empty()).then_some(calls)
    }
}
