//! The life of a submission, from its intent to the end of its last task: what is known of it, and
//! what follows from a scheduler's answers and the news in its folder. Pure: no clock, file or
//! command. The driver in the program asks, reads, and carries out what is decided here.

mod control;
mod listing;
mod over;
mod standing;
mod task;
#[cfg(test)]
mod tests;
mod vanished;

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use nero_model::{RunId, RunToken, SubmissionId};
use nero_node_core::Core;
use nero_warden::{AdoptedJobRef, AdoptedJobState, JobId, JobKey, JobName, Order, QueueRow};

use crate::submission::{AdoptedJob, Files, News, Plan, TaskRun, began};

pub use control::{Cancellation, Hold, RowPart};
pub use listing::ListingChange;
pub use over::Accounts;
pub use standing::{APART_MS, Doubt, Ms, SubmissionState};
pub use task::{Presence, Task};
pub use vanished::{UnbegunFate, UnbegunRun};

/// One submission.
#[derive(Debug)]
pub struct Submission {
    pub id: SubmissionId,
    pub name: JobName,
    /// Its folder, for the driver: nothing is decided by what lies there now.
    pub files: Files,
    /// Its tasks, by their indexes.
    pub tasks: Vec<Task>,
    pub tokens: HashMap<RunId, RunToken>,
    pub standing: SubmissionState,
    /// Whether the intent is synced.
    pub is_synced: bool,
    /// When it was made, in ms since 1970.
    pub made_ms: i64,
    /// Tasks of it that may run at once.
    pub at_once: u32,
    /// Whether no job of this user was in the queue as it was made.
    pub is_alone: bool,
    /// Its place among all submissions of this neromum: later ones are higher.
    pub number: u64,
    /// What is submitted, until the scheduler has it.
    pub order: Option<Box<(Order, String)>>,
    /// The names that were read in its folder.
    pub news: BTreeSet<News>,
    /// Copies of it, which the scheduler has too.
    pub twins: Vec<JobId>,
    /// Whether a task of it vanished, and the start of the controller tells what is to
    /// be done.
    pub has_vanished: bool,
    /// When the accounting was asked for it last.
    pub accounted: Option<Instant>,
    /// Its rows in the last listing.
    pub rows: Vec<QueueRow>,
    /// Its job, if a person submitted it.
    pub adoption: Option<Adoption>,
}

/// What is known of a job that a person submitted.
#[derive(Debug)]
pub struct Adoption {
    pub job: AdoptedJob,
    /// The scheduler's last word about it.
    pub sighting: Option<AdoptedJobState>,
    /// When the last whole look at its logs began.
    pub copied: Option<Instant>,
    /// Whether its folder tells why a log is not followed.
    pub is_noted: bool,
}

impl Adoption {
    /// Whether the scheduler told that the job began.
    pub fn began(&self) -> bool {
        self.sighting.as_ref().is_some_and(AdoptedJobState::began)
    }
}

impl Submission {
    /// A submission made from this plan, before its first call to the scheduler.
    pub fn of(plan: &Plan, files: Files, name: JobName) -> Self {
        let tasks = plan.tasks.iter();
        let runs = tasks.clone().flat_map(|task| &task.runs);
        let tokens = runs.map(|run| (run.id, run.token)).collect();
        let mut tasks: Vec<Task> = tasks
            .map(|task| Task::new(task.index, task.runs.clone()))
            .collect();
        tasks.sort_by_key(|task| task.index);
        Self {
            id: plan.submission,
            name,
            files,
            tasks,
            tokens,
            standing: match &plan.adopted {
                Some(adopted) => SubmissionState::Accepted(adopted.job.job),
                None => SubmissionState::NEW,
            },
            is_synced: false,
            made_ms: 0,
            is_alone: false,
            at_once: plan.at_once.unwrap_or(u32::MAX),
            number: 0,
            order: None,
            news: BTreeSet::new(),
            twins: Vec::new(),
            has_vanished: false,
            accounted: None,
            rows: Vec::new(),
            adoption: plan.adopted.clone().map(|job| Adoption {
                job,
                sighting: None,
                copied: None,
                is_noted: false,
            }),
        }
    }

    pub fn runs(&self) -> impl Iterator<Item = &TaskRun> {
        self.tasks.iter().flat_map(|task| &task.runs)
    }

    /// Its name, with the number of its job once that is known.
    pub fn known(&self) -> JobKey<'_> {
        JobKey {
            name: &self.name,
            job: self.job(),
        }
    }

    /// Its job, once the scheduler has it.
    pub fn job(&self) -> Option<JobId> {
        let SubmissionState::Accepted(job) = self.standing else {
            return None;
        };
        Some(job)
    }

    /// Its job's number; empty: not known.
    pub fn job_text(&self) -> String {
        self.job().map(|job| job.to_string()).unwrap_or_default()
    }

    /// The question about its job, if that was adopted.
    pub fn adopted(&self) -> Option<AdoptedJobRef<'_>> {
        let job = &self.adoption.as_ref()?.job;
        Some(AdoptedJobRef {
            name: &self.name,
            job: job.job,
            submitted_s: job.submitted_s,
        })
    }

    pub fn task(&self, index: u32) -> Option<&Task> {
        let at = self.tasks.binary_search_by_key(&index, |task| task.index);
        self.tasks.get(at.ok()?)
    }

    pub fn task_mut(&mut self, index: u32) -> Option<&mut Task> {
        let at = self.tasks.binary_search_by_key(&index, |task| task.index);
        self.tasks.get_mut(at.ok()?)
    }

    /// The row of a task in the last listing.
    pub fn row(&self, task: &Task) -> Option<&QueueRow> {
        task.row(&self.rows, self.job()?)
    }

    /// Whether the scheduler does not have it, and it is not submitted again.
    pub fn is_refused(&self) -> bool {
        matches!(
            self.standing,
            SubmissionState::Refused(_) | SubmissionState::NotNow(_)
        )
    }

    /// Whether it is not known that the scheduler has it.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self.standing, SubmissionState::InDoubt(_))
    }

    /// Whether it is to be submitted: the intent is synced, and no listing shows it.
    pub fn is_due(&self) -> bool {
        self.is_synced && self.order.is_some() && self.standing.is_intended()
    }

    /// Gives it up if every run of it is to end and the scheduler does not have it; whether that is
    /// so.
    pub fn give_up(&mut self, runs: &Core) -> bool {
        let ends = |run: &TaskRun| runs.is_done(&run.token) || runs.waits_cancelled(&run.token);
        self.runs().all(ends) && self.standing.give_up("aborted before it was submitted")
    }

    /// Whether the queue tells anything about it: it may come, begin or end at the scheduler.
    pub fn is_awaited(&self, runs: &Core) -> bool {
        match self.standing {
            SubmissionState::Intended { .. } | SubmissionState::InDoubt(_) => true,
            SubmissionState::Refused(_) | SubmissionState::NotNow(_) => false,
            SubmissionState::Accepted(_) => {
                self.tasks.iter().any(|task| !self.is_finished(task))
                    || self.runs().any(|run| !runs.is_done(&run.token))
            }
        }
    }

    /// Whether nothing of a task can come any more.
    pub fn is_finished(&self, task: &Task) -> bool {
        let mut began = began(&self.news, task.index);
        let has_left = |start| self.news.contains(&News::Left(start));
        task.over || self.is_refused() || began.clone().next().is_some() && began.all(has_left)
    }
}
