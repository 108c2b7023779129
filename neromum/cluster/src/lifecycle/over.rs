//! When a task is over: by the words of queue and accounting, and what is asked of these.

use std::time::Instant;

use nero_model::RunToken;
use nero_node_core::{Core, Stage};
use nero_warden::{AdoptedJobState, Record, SchedulerEnd};

use super::{Adoption, Presence, Submission, Task};

/// Number of times that the accounting is asked for a task that left the queue.
const ACCOUNTED_MAX: u8 = 4;

/// What the accounting of a scheduler can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accounts {
    /// Whether it is not known to be absent.
    pub may_exist: bool,
    /// Whether it tells who cancelled a job.
    pub names_cancellers: bool,
}

impl Submission {
    /// Tasks that are over unless a start of them is alive: the scheduler calls them gone, what
    /// lies in their folder was read after its word, and the accounting has nothing to add.
    /// `looked`: when the last reading of the news began.
    pub fn tasks_gone(&self, looked: Option<Instant>, accounts: Accounts, runs: &Core) -> Vec<u32> {
        let is_read = |gone| looked.is_some_and(|at| at >= gone) && self.is_copied_since(gone);
        let waits = |task: &Task| {
            accounts.may_exist && is_open(task, runs) && self.lacks_a_word(task, accounts)
        };
        let tasks = self.tasks.iter().filter(|task| !task.over);
        tasks
            .filter(|task| task.gone.is_some_and(is_read) && !waits(task))
            .map(|task| task.index)
            .collect()
    }

    /// Whether the accounting is to be asked about its tasks: once for each listing, since
    /// records come late, and for runs that did not end yet. `listed`: when the last whole
    /// listing was asked for.
    pub fn wants_ends(&self, listed: Instant, accounts: Accounts, runs: &Core) -> bool {
        let mut tasks = self.tasks.iter().filter(|task| is_open(task, runs));
        self.accounted.is_none_or(|at| at < listed)
            && tasks.any(|task| {
                (task.left_the_queue() || self.lacks_a_word(task, accounts))
                    && task.asked < ACCOUNTED_MAX
            })
    }

    /// Notes that the accounting is asked now.
    pub fn asks_for_ends(&mut self, now: Instant) {
        self.accounted = Some(now);
        let is_adopted = self.adoption.is_some();
        for task in &mut self.tasks {
            task.asked += u8::from(task.left_the_queue() || is_adopted);
        }
    }

    /// The accounting was asked, and answered or failed.
    pub fn ends_were_asked(&mut self) {
        for task in &mut self.tasks {
            task.is_accounted |= matches!(task.seen, Presence::Gone(_));
        }
    }

    /// Takes in the accounting's records of its job.
    pub fn accounted(&mut self, records: &[Record]) {
        let Some(job) = self.job() else {
            return;
        };
        for task in &mut self.tasks {
            let is_of_it = |record: &&Record| {
                let tasks = record.task.as_ref();
                record.name == self.name
                    && record.job == job
                    && tasks.map_or(task.index == 0, |tasks| tasks.contains(task.index))
            };
            // Earlier starts come first.
            if let Some(record) = records.iter().rfind(is_of_it) {
                task.accounted(&record.state);
            }
        }
    }

    /// Whether the accounting may still tell with which code its job failed, or who cancelled it.
    fn lacks_a_word(&self, task: &Task, accounts: Accounts) -> bool {
        let lacks_code = |adoption: &Adoption| {
            let exit = adoption.sighting.as_ref().and_then(|one| one.exit);
            let failed = matches!(task.seen, Presence::Gone(Some(SchedulerEnd::Failed)));
            failed && exit.is_none() && task.asked < ACCOUNTED_MAX
        };
        self.adoption.as_ref().is_some_and(lacks_code)
            || accounts.names_cancellers && task.lacks_its_canceller()
    }

    /// Whether the logs of its job were copied since then.
    fn is_copied_since(&self, gone: Instant) -> bool {
        let adoption = self.adoption.as_ref();
        adoption.is_none_or(|one| one.copied.is_some_and(|at| at >= gone))
    }

    /// Takes in what a listing or the accounting tells of its job, if that was adopted. Returns its
    /// run, and whether its job began, when the claim is to be written: the job began, or is gone.
    pub fn sighted(
        &mut self,
        sightings: &[AdoptedJobState],
        runs: &Core,
    ) -> Option<(RunToken, bool)> {
        let adoption = self.adoption.as_mut()?;
        // Of several records the last start's is the last.
        if let Some(told) = sightings.iter().rfind(|one| one.row.name == self.name) {
            let mut told = told.clone();
            if let Some(before) = adoption.sighting.take() {
                told.row.host = told.row.host.or(before.row.host);
                told.exit = told.exit.or(before.exit);
                told.ended_s = told.ended_s.or(before.ended_s);
            }
            adoption.sighting = Some(told);
        }
        let began = adoption.began();
        let task = self.tasks.first()?;
        let has_a_claim = match task.seen {
            // It never began, and its run is taken away.
            Presence::Gone(Some(SchedulerEnd::Cancelled { .. })) => began,
            Presence::Gone(_) => true,
            Presence::Listed(_) | Presence::Missing { .. } => began,
        };
        let token = task.runs.first()?.token;
        let run = runs.run(&token)?;
        // What was aborted before it was seen to begin is taken away.
        let waits = matches!(run.stage, Stage::Submitted { .. }) && (began || !run.cancelled);
        (has_a_claim && waits).then_some((token, began))
    }
}

/// Whether a run of a task did not end yet.
fn is_open(task: &Task, runs: &Core) -> bool {
    task.runs.iter().any(|run| !runs.is_done(&run.token))
}
