//! The queue: `squeue --json`, and for SLURM that is built without it, a format.

use std::collections::HashSet;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

use super::state::state;
use crate::job::{JobId, JobName, Queue, QueueRow, SchedulerEnd, State, Tasks};
use crate::{Call, CallOutput, Unreadable, Word};

/// Fields of a row of [`plain_calls`]. No field but the name contains what people
/// choose.
const FIELDS: &str = "--format=%F|%K|%T|%r|%B|%j";

/// Names of one command: Linux takes words of 128 KiB.
const NAMES_MAX: usize = 1000;

/// Asks for every job of this user, ended ones included as long as SLURM lists them.
pub fn call() -> Call {
    Call::new("squeue", ["--me", "--states=all", "--json"])
}

/// The same for SLURM whose `squeue` has no `--json`: the rows of these submissions,
/// and the states of all jobs. Other jobs' names are not printed, since they may
/// contain whole rows.
pub fn plain_calls(names: &[&JobName]) -> Vec<Call> {
    let of = |names: &[&JobName]| {
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        let mut ours = Call::new("squeue", ["--me", "--states=all", "--noheader", FIELDS]);
        ours.words
            .push(format!("--name={}", names.join(",")).into());
        ours
    };
    let mut calls: Vec<Call> = names.chunks(NAMES_MAX).map(of).collect();
    let all = ["--me", "--array", "--noheader", "--format=%T|%A"];
    calls.push(Call::new("squeue", all));
    calls
}

/// Asks for the tasks of each job of all users, and nothing else of them: one short
/// line for each row, also of jobs that ended and are still kept.
pub fn count_call() -> Call {
    Call::new(
        "squeue",
        ["--all", "--states=all", "--noheader", "--format=%K"],
    )
}

/// Reads the answer to [`count_call`]. A list of tasks that cannot be read counts as
/// one.
///
/// # Errors
/// When SLURM did not answer.
pub fn read_count(said: &CallOutput) -> Result<u64, Unreadable> {
    let text = said.text(&count_call())?;
    let count = |line: &str| Tasks::read(line.trim()).map_or(1, |tasks| tasks.count());
    Ok(text.lines().map(count).sum())
}

/// The answer, with rows of this form.
#[derive(Deserialize)]
pub(super) struct JobList<R> {
    pub(super) jobs: Vec<R>,
}

/// A job as versions 0.0.37 to 0.0.42 of the JSON describe it. Fields of another
/// type make the row unreadable, not the answer.
#[derive(Deserialize)]
#[serde(untagged)]
enum Row {
    Job(Box<Job>),
    Named { name: String },
    Odd(IgnoredAny),
}

#[derive(Deserialize)]
struct Job {
    name: String,
    job_id: Number,
    #[serde(default)]
    array_job_id: Number,
    #[serde(default)]
    array_task_id: Number,
    #[serde(default, deserialize_with = "text_or_none")]
    array_task_string: String,
    job_state: Words,
    #[serde(default, deserialize_with = "text_or_none")]
    state_reason: String,
    #[serde(default, deserialize_with = "text_or_none")]
    batch_host: String,
    #[serde(default)]
    start_time: Number,
}

pub(super) fn text_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(from)?.unwrap_or_default())
}

/// A number, plain or as `{set, infinite, number}`; `None`: not set.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(from = "AnyNumber")]
pub(super) struct Number(pub(super) Option<i64>);

impl Number {
    /// The number of a job.
    pub(super) fn id(self) -> Option<JobId> {
        let number = u64::try_from(self.0?).ok()?;
        (number > 0).then_some(JobId(number))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum AnyNumber {
    Plain(i64),
    Full {
        set: bool,
        #[serde(default)]
        infinite: bool,
        number: i64,
    },
    Null(()),
}

impl From<AnyNumber> for Number {
    fn from(any: AnyNumber) -> Self {
        Self(match any {
            AnyNumber::Plain(number) => Some(number),
            AnyNumber::Full {
                set,
                infinite,
                number,
            } => (set && !infinite).then_some(number),
            AnyNumber::Null(()) => None,
        })
    }
}

/// One word, or a list of them: the base state first, then flags such as
/// `COMPLETING`.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Words {
    One(String),
    Several(Vec<String>),
}

impl Words {
    pub(super) fn state(&self, reason: &str) -> State {
        match self {
            Self::One(word) => state(word, reason),
            Self::Several(words) => {
                let states = || words.iter().map(|word| state(word, reason));
                // A job that is requeued or completing has not ended, whatever the
                // base state says.
                let ending = states().find(|state| *state == State::Ending);
                let again = states().find(|state| *state == State::Ended(SchedulerEnd::Requeued));
                let first = states().next();
                // A flag tells more about a job that runs or waits than its base state.
                let live = matches!(first, Some(State::Running | State::Waiting(_)));
                let flagged = states().skip(1).filter(|_| live).find(|state| {
                    matches!(state, State::Suspended | State::Starting | State::Held(_))
                });
                ending
                    .or(again)
                    .or(flagged)
                    .or(first)
                    .unwrap_or_else(|| State::Unknown(String::new()))
            }
        }
    }
}

/// Reads the object in an answer of `squeue`. Lines around it are those of a wrapper.
///
/// # Errors
/// When there is none, with the beginning of the answer.
pub(super) fn json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Unreadable> {
    let mut failed = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        // Objects within it are indented, or on its line.
        if line.starts_with('{') {
            let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter();
            match values.next() {
                Some(Ok(read)) => return Ok(read),
                Some(Err(error)) => failed = failed.or(Some(error.to_string())),
                None => {}
            }
        }
        at += line.len();
    }
    let why = failed.unwrap_or_else(|| "it has no JSON".to_owned());
    Err(Unreadable::odd_beginning("squeue", &why, text))
}

/// Reads the answer to [`call`].
///
/// # Errors
/// When SLURM did not answer, or not in JSON.
pub fn read(said: &CallOutput) -> Result<Queue, Unreadable> {
    let text = said.text(&call())?;
    let answer: JobList<Row> = json(&text)?;
    let mut queue = Queue::default();
    for row in answer.jobs {
        match row {
            Row::Job(job) => add(&mut queue, &job),
            Row::Named { name } if JobName::read(&name).is_none() => queue.foreign += 1,
            Row::Named { name } => queue.cannot_read(JobName::read(&name)),
            Row::Odd(_) => queue.cannot_read(None),
        }
    }
    Ok(queue)
}

fn add(queue: &mut Queue, job: &Job) {
    let state = job.job_state.state(&job.state_reason);
    let part = ArrayPart::new(job.array_job_id, job.array_task_id, &job.array_task_string);
    let count = part.tasks.as_ref().map_or(1, Tasks::count);
    let Some(name) = JobName::read(&job.name) else {
        match state {
            State::Ended(_) => queue.kept += count,
            _ => queue.foreign += count,
        }
        return;
    };
    let id = part.array.or(job.job_id.id());
    let Some(id) = id.filter(|_| part.is_readable()) else {
        queue.cannot_read(Some(name));
        return;
    };
    if matches!(state, State::Ended(_)) {
        queue.kept += count;
    }
    queue.ours.push(QueueRow {
        name,
        job: id,
        tasks: part.tasks,
        state,
        host: Word::new(&job.batch_host).ok(),
        start_s: job.start_time.0.filter(|start| *start > 0),
    });
}

/// The part of an array that a row tells of.
pub(super) struct ArrayPart {
    /// `None`: the row is of no array.
    pub(super) array: Option<JobId>,
    /// `None`: the row is of no array, or its tasks cannot be read.
    pub(super) tasks: Option<Tasks>,
}

impl ArrayPart {
    pub(super) fn new(array: Number, index: Number, list: &str) -> Self {
        let array = array.id();
        let tasks = array.and_then(|_| match index.0 {
            Some(index) => index.try_into().ok().map(Tasks::single),
            // SLURM gives an empty list for an array whose last waiting tasks were cancelled.
            None if list.is_empty() => Some(Tasks::default()),
            None => Tasks::read(list),
        });
        Self { array, tasks }
    }

    /// Whether the tasks in an array are known; a job of its own has none.
    pub(super) fn is_readable(&self) -> bool {
        self.array.is_none() || self.tasks.is_some()
    }
}

/// Reads the answers to [`plain_calls`].
///
/// # Errors
/// When SLURM did not answer.
pub fn read_plain(said: &[CallOutput], names: &[&JobName]) -> Result<Queue, Unreadable> {
    let calls = plain_calls(names);
    let Some((all, ours)) = said
        .split_last()
        .filter(|(_, ours)| ours.len() + 1 == calls.len())
    else {
        return Err(Unreadable::odd("squeue", "an answer is missing"));
    };
    let names: HashSet<&JobName> = names.iter().copied().collect();
    let mut queue = Queue::default();
    for said in ours {
        // A line without a field is a wrapper's.
        let text = said.text(&calls[0])?;
        for line in text.lines().filter(|line| line.contains('|')) {
            match row(line).filter(|row| names.contains(&row.name)) {
                Some(row) => queue.ours.push(row),
                None => queue.cannot_read(line.rsplit('|').next().and_then(JobName::read)),
            }
        }
    }
    let in_arrays = queue.ours.iter().filter(|row| row.tasks.is_some());
    let arrays: HashSet<JobId> = in_arrays.map(|row| row.job).collect();
    let rows = queue.ours.iter_mut();
    for row in rows.filter(|row| arrays.contains(&row.job)) {
        // "N/A", as in the row of a job without an array: none of its tasks waits.
        row.tasks.get_or_insert_default();
    }
    let all = all.text(&call())?;
    let all = all.lines().filter_map(|line| line.split_once('|'));
    let live = all.filter(|(word, _)| !matches!(state(word, ""), State::Ended(_)));
    let live = live.count() as u64;
    queue.foreign = live.saturating_sub(queue.not_ended());
    Ok(queue)
}

fn row(line: &str) -> Option<QueueRow> {
    let fields: Vec<&str> = line.split('|').collect();
    let [job, task, word, reason, host, name] = fields[..] else {
        return None;
    };
    let tasks = match task {
        "N/A" => None,
        list => Some(Tasks::read(list)?),
    };
    Some(QueueRow {
        name: JobName::read(name)?,
        job: JobId::read(job)?,
        tasks,
        state: state(word, reason),
        host: Word::new(host).ok(),
        start_s: None,
    })
}
