//! Jobs of a scheduler, and where they stand.

use std::fmt;

use crate::Word;

/// Name of a submission's job: `nero-` and 26 characters of `a-z2-7`. It is the only
/// identity of a submission: ids of schedulers are reused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobName(String);

const PREFIX: &str = "nero-";
const ID_CHARS: usize = 26;

impl JobName {
    /// The name for a submission whose id prints as `id`.
    pub fn of(id: &str) -> Option<Self> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte);
        let is_id = id.len() == ID_CHARS && id.bytes().all(fits);
        is_id.then(|| Self(format!("{PREFIX}{id}")))
    }

    /// Reads what a scheduler printed; `None` for a job of anything else.
    pub fn read(text: &str) -> Option<Self> {
        Self::of(text.strip_prefix(PREFIX)?)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The submission's id.
    pub fn id(&self) -> &str {
        &self.0[PREFIX.len()..]
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A scheduler's number of a job; of an array, the one number of all its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub u64);

impl JobId {
    /// Reads plain digits.
    pub fn read(text: &str) -> Option<Self> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok().map(Self)).flatten()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Indexes of an array's tasks, as ranges with a step.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Tasks {
    ranges: Vec<(u32, u32, u32)>,
}

/// Most ranges of one row: a scheduler prints one for each gap.
const RANGES_MAX: usize = 100_000;

impl Tasks {
    /// One task.
    pub fn single(index: u32) -> Self {
        Self {
            ranges: vec![(index, index, 1)],
        }
    }

    /// Reads `3`, `2-3,5`, `1-9:2`, `0-5%2` (at most two at once). `None` for
    /// anything else, such as a list that was cut with `...`.
    pub fn read(text: &str) -> Option<Self> {
        let list = match text.split_once('%') {
            Some((list, at_once)) => {
                at_once.parse::<u32>().ok()?;
                list
            }
            None => text,
        };
        if list.split(',').count() > RANGES_MAX {
            return None;
        }
        let range = |text: &str| -> Option<(u32, u32, u32)> {
            let number = |text: &str| u32::try_from(JobId::read(text)?.0).ok();
            let (range, step) = match text.split_once(':') {
                Some((range, step)) => (range, number(step).filter(|step| *step > 0)?),
                None => (text, 1),
            };
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(range)?, number(range)?),
            };
            (first <= last).then_some((first, last, step))
        };
        let ranges = list.split(',').map(range).collect::<Option<_>>()?;
        Some(Self { ranges })
    }

    /// Their only task; `None`: there are several, or none.
    pub fn only(&self) -> Option<u32> {
        match self.ranges[..] {
            [(first, last, _)] if first == last => Some(first),
            _ => None,
        }
    }

    /// Whether a task is among them.
    pub fn contains(&self, index: u32) -> bool {
        let within = |(first, last, step): &(u32, u32, u32)| {
            (*first..=*last).contains(&index) && (index - first).is_multiple_of(*step)
        };
        self.ranges.iter().any(within)
    }

    /// Their number.
    pub fn count(&self) -> u64 {
        let of = |(first, last, step): &(u32, u32, u32)| u64::from((last - first) / step) + 1;
        self.ranges.iter().map(of).sum()
    }
}

impl fmt::Display for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |(first, last, step): &(u32, u32, u32)| match (first == last, step) {
            (true, _) => first.to_string(),
            (false, 1) => format!("{first}-{last}"),
            (false, step) => format!("{first}-{last}:{step}"),
        };
        let ranges: Vec<String> = self.ranges.iter().map(range).collect();
        f.write_str(&ranges.join(","))
    }
}

/// Where a job or task stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for room or for its time.
    Waiting(Reason),
    /// It waits until a person or an administrator releases it.
    Held(Reason),
    /// It has its hosts, or its processes are being started.
    Starting,
    /// It runs.
    Running,
    /// The scheduler, or a person through it, stopped its processes for a while.
    Suspended,
    /// It ended or is being requeued; the scheduler cleans up.
    Ending,
    /// It ended, by the scheduler's word.
    Ended(SchedulerEnd),
    /// A word that this version does not know. It is shown and never means an end.
    Unknown(String),
}

/// The scheduler's word for an end. It proves no death of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerEnd {
    /// The batch task exited with 0.
    Completed,
    /// It exited with another code, or died of a signal.
    Failed,
    /// A person or a program cancelled it; the user's number, where it is told.
    Cancelled { by: Option<u32> },
    /// Its time limit, or its deadline, was reached.
    TimeLimit,
    /// It used more memory than it was given.
    OutOfMemory,
    /// A host failed or could not be started.
    HostFailure,
    /// Other jobs took its place.
    Preempted,
    /// This start is over, and the job waits again.
    Requeued,
}

/// Why a job waits.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Reason {
    /// The scheduler's word; empty: it gave none.
    pub word: String,
    /// It does not pass by waiting: the request or the site has to change.
    pub never_passes: bool,
}

/// A row of a queue that is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRow {
    /// The submission.
    pub name: JobName,
    /// The scheduler's number.
    pub job: JobId,
    /// Its tasks in this row; `None`: no array.
    pub tasks: Option<Tasks>,
    /// Where they stand.
    pub state: State,
    /// First host, once it has one.
    pub host: Option<Word>,
    /// Expected or actual start, in seconds since 1970.
    pub start_s: Option<i64>,
}

/// A submission that a listing is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobKey<'a> {
    /// Its name.
    pub name: &'a JobName,
    /// The scheduler's number, once it told one.
    pub job: Option<JobId>,
}

/// A scheduler's answer about the jobs of this user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Rows of submissions.
    pub ours: Vec<QueueRow>,
    /// Whether the scheduler shows no names: a submission of which it told no number is
    /// then not missing.
    pub is_nameless: bool,
    /// Other jobs of the user that did not end, tasks of arrays counted singly.
    pub foreign: u64,
    /// Jobs of the user that ended, and that the scheduler still keeps and counts;
    /// tasks of arrays counted singly.
    pub kept: u64,
    /// Submissions with a row that could not be read: the scheduler has them.
    pub hidden: Vec<JobName>,
    /// Rows that could not be read, and of which no name shows whose they are.
    pub unreadable: usize,
}

impl Queue {
    /// Number of jobs and tasks of the user that did not end; sites limit it.
    pub fn not_ended(&self) -> u64 {
        let ours = self.ours.iter().filter(|row| match &row.state {
            State::Ended(_) => false,
            State::Waiting(_)
            | State::Held(_)
            | State::Starting
            | State::Running
            | State::Suspended
            | State::Ending
            | State::Unknown(_) => true,
        });
        let tasks = ours.map(|row| row.tasks.as_ref().map_or(1, Tasks::count));
        self.foreign + tasks.sum::<u64>()
    }

    /// Notes a row that cannot be read, with the name in it.
    pub(crate) fn cannot_read(&mut self, name: Option<JobName>) {
        match name {
            Some(name) => self.hidden.push(name),
            None => self.unreadable += 1,
        }
    }

    /// Whether a row of this submission could not be read, so that it is not missing.
    pub fn hides(&self, name: &JobName) -> bool {
        self.hidden.contains(name)
    }

    /// Rows of one submission.
    pub fn of<'a>(&'a self, name: &'a JobName) -> impl Iterator<Item = &'a QueueRow> {
        self.ours.iter().filter(move |row| row.name == *name)
    }
}

/// A start of a job or task, by the accounting's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The submission.
    pub name: JobName,
    /// The scheduler's number.
    pub job: JobId,
    /// Its task; `None`: no array.
    pub task: Option<Tasks>,
    /// Where it stands or how it ended.
    pub state: State,
    /// Exit code and signal of the batch task.
    pub exit: Option<(u32, u32)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_ours_only_with_a_whole_id() {
        let id = "abcdefghijklmnopqrstuvwxyz";
        let name = JobName::of(id).unwrap();
        assert_eq!(JobName::read(name.as_str()), Some(name.clone()));
        assert_eq!(name.id(), id);
        for other in [
            "nero-",
            "nero-abcdefghijklmnopqrstuvwxy",
            "nero-abcdefghijklmnopqrstuvwxyz2",
            "nero-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            "nero-abcdefghijklmnopqrstuvwxy1",
            "nero-abcdefghijklmnopqrstuvwxy\n",
            "abcdefghijklmnopqrstuvwxyz",
        ] {
            assert_eq!(JobName::read(other), None, "{other}");
        }
    }

    #[test]
    fn lists_of_tasks_are_read_as_both_schedulers_print_them() {
        for (text, count, inside, outside) in [
            ("3", 1, 3, 2),
            ("2-3,5%2", 3, 5, 4),
            ("1-1000:1", 1000, 1000, 0),
            ("1-9:2", 5, 9, 8),
            ("3,4,6", 3, 6, 5),
        ] {
            let tasks = Tasks::read(text).unwrap();
            assert_eq!(tasks.count(), count, "{text}");
            assert!(tasks.contains(inside) && !tasks.contains(outside), "{text}");
        }
        for odd in [
            "",
            "1-",
            "-1",
            "1,...",
            "1-2:0",
            "5-2",
            "1%",
            "a",
            "99999999999",
        ] {
            assert_eq!(Tasks::read(odd), None, "{odd}");
        }
    }
}
