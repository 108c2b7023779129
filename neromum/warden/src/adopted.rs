//! Jobs that their owner submitted by hand, and that are watched all the same. Ids are
//! used again, so a row is such a job's only if its time of submission is the same.

use crate::job::{JobId, JobName, QueueRow, State, Tasks};
use crate::{CallOutput, Unreadable};

/// A job, or a task of an array, as a person writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobRef {
    /// The job; of an array, the number of all its tasks.
    pub job: JobId,
    /// A task of an array.
    pub task: Option<u32>,
}

impl JobRef {
    /// Reads `12`, `12_3` or `12.3`, the forms of all schedulers.
    pub fn read(text: &str) -> Option<Self> {
        let (job, task) = match text.split_once(['_', '.']) {
            Some((job, task)) => (job, Some(u32::try_from(JobId::read(task)?.0).ok()?)),
            None => (text, None),
        };
        let job = JobId::read(job).filter(|job| job.0 > 0)?;
        Some(Self { job, task })
    }
}

/// An adopted job that the scheduler is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdoptedJobRef<'a> {
    /// Name of its submission here; the job has another one.
    pub name: &'a JobName,
    /// The job.
    pub job: JobRef,
    /// When it was submitted, in seconds since 1970.
    pub submitted_s: i64,
}

/// What a listing or the accounting tells of an adopted job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptedJobState {
    /// Where it stands, under the name of its submission here.
    pub row: QueueRow,
    /// Exit code and signal, once it ended.
    pub exit: Option<(u32, u32)>,
    /// When it ended, in seconds since 1970.
    pub ended_s: Option<i64>,
}

/// A job that a person asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundJob {
    /// The job, with the number that all its tasks have.
    pub job: JobRef,
    /// User id of its owner, where the scheduler tells it.
    pub uid: Option<u32>,
    /// Name of its owner.
    pub owner: String,
    /// Its name.
    pub name: String,
    /// When it was submitted, in seconds since 1970.
    pub submitted_s: i64,
    /// Whether it ended.
    pub has_ended: bool,
    /// Folder that it was submitted from.
    pub folder: String,
    /// Its log, absolute; else why that is not known.
    pub stdout: Result<String, String>,
    /// The log of its standard error, where that is another file that is known.
    pub stderr: Option<String>,
    /// Names of the two in a folder, where a path may name a folder.
    pub names_in_folder: Option<[String; 2]>,
}

/// Reason why a job is not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// The scheduler has no such job, or none any more.
    #[error("there is no such job")]
    Absent,
    /// It is an array, and no task of it was named.
    #[error("it is an array: name one of its tasks, {0}")]
    Array(String),
    /// The array has no such task.
    #[error("the job array has no such task; its tasks are {0}")]
    Task(String),
    /// This scheduler cannot be asked.
    #[error("its jobs cannot be told apart once their numbers are used again")]
    Unsupported,
    /// The scheduler did not answer.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// A path that may be relative to a folder.
pub(crate) fn absolute(folder: &str, path: &str) -> String {
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{}/{path}", folder.trim_end_matches('/'))
    }
}

/// The submissions of the adopted jobs in a row.
pub(crate) fn names_of<'a>(
    adopted: &'a [AdoptedJobRef<'_>],
    job: JobId,
    submitted_s: i64,
    tasks: Option<&'a Tasks>,
) -> impl Iterator<Item = &'a JobName> {
    let is_it = move |one: &&AdoptedJobRef<'_>| {
        let has_task = match (one.job.task, tasks) {
            (None, None) => true,
            (Some(task), Some(tasks)) => tasks.contains(task),
            (None, Some(_)) | (Some(_), None) => false,
        };
        has_task && one.job.job == job && one.submitted_s == submitted_s
    };
    adopted.iter().filter(is_it).map(|one| one.name)
}

impl AdoptedJobState {
    /// Whether it ran, or runs: a host had it.
    pub fn began(&self) -> bool {
        match &self.row.state {
            State::Waiting(_) | State::Held(_) | State::Starting | State::Unknown(_) => false,
            State::Running | State::Suspended => true,
            State::Ending | State::Ended(_) => self.row.host.is_some(),
        }
    }
}

/// The answer at this place.
pub(crate) fn answer<'a>(
    said: &'a [CallOutput],
    at: usize,
    program: &'static str,
) -> Result<&'a CallOutput, Unreadable> {
    said.get(at)
        .ok_or_else(|| Unreadable::odd(program, "an answer is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_written_as_its_scheduler_does() {
        let read = |text| JobRef::read(text).map(|one| (one.job.0, one.task));
        assert_eq!(read("12"), Some((12, None)));
        assert_eq!(read("12_3"), Some((12, Some(3))));
        assert_eq!(read("12.0"), Some((12, Some(0))));
        for odd in ["", "0", "x", "12_", "_3", "12_3_4", "12_[1-3]", "-1", "12;"] {
            assert_eq!(read(odd), None, "{odd}");
        }
    }
}
