//! Jobs that their owner submitted: `squeue` shows their time of submission, and where
//! their logs are; `sacct` tells how they ended.

use serde::Deserialize;

use super::queue::{ArrayPart, JobList, Number, Words, text_or_none};
use super::state::state;
use super::time::moment;
use crate::adopted::{
    AdoptedJobRef, AdoptedJobState, FoundJob, JobRef, NotFound, absolute, answer, names_of,
};
use crate::job::{JobId, JobName, QueueRow, State, Tasks};
use crate::{Call, CallOutput, Unreadable, Word};

/// Fields of a row where SLURM has no JSON. What people choose stands last.
const FIELDS: &str = "--format=%A|%F|%K|%T|%r|%B|%V|%S|%e|%U|%u|%j";
/// Fields of a row of the accounting.
const ENDS: &str = "--format=JobID,State,ExitCode,Submit,Start,End,NodeList";
/// The number that stands for no task.
const NO_TASK: &str = "4294967294";

#[derive(Deserialize)]
#[serde(untagged)]
enum JsonRow {
    Job(Box<JsonJob>),
    Odd(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct JsonJob {
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
    submit_time: Number,
    #[serde(default)]
    start_time: Number,
    #[serde(default)]
    end_time: Number,
    #[serde(default)]
    exit_code: serde_json::Value,
    user_id: Number,
    #[serde(default, deserialize_with = "text_or_none")]
    user_name: String,
    #[serde(default, deserialize_with = "text_or_none")]
    name: String,
    #[serde(default, deserialize_with = "text_or_none")]
    current_working_directory: String,
    #[serde(default, deserialize_with = "text_or_none")]
    standard_output: String,
    #[serde(default, deserialize_with = "text_or_none")]
    standard_error: String,
}

/// A row of either form.
struct Plain {
    /// The number of this task alone.
    own: JobId,
    /// The number of the array; of no array, the job's.
    job: JobId,
    tasks: Option<Tasks>,
    state: State,
    host: Option<Word>,
    submitted_s: i64,
    started_s: Option<i64>,
    ended_s: Option<i64>,
    exit: Option<(u32, u32)>,
    uid: Option<u32>,
    owner: String,
    name: String,
}

impl JsonJob {
    /// Its facts; `None` when they are no row that can be read.
    fn plain(&self) -> Option<Plain> {
        let positive = |number: Number| number.0.filter(|number| *number > 0);
        let (job, index) = (self.array_job_id, self.array_task_id);
        let part = ArrayPart::new(job, index, &self.array_task_string);
        let own = self.job_id.id().filter(|_| part.is_readable())?;
        let state = self.job_state.state(&self.state_reason);
        let ended = matches!(state, State::Ended(_));
        Some(Plain {
            own,
            job: part.array.unwrap_or(own),
            tasks: part.tasks,
            host: Word::new(&self.batch_host).ok(),
            submitted_s: positive(self.submit_time)?,
            started_s: positive(self.start_time),
            ended_s: positive(self.end_time).filter(|_| ended),
            exit: exit(&self.exit_code).filter(|_| ended),
            uid: self.user_id.0.and_then(|uid| uid.try_into().ok()),
            owner: self.user_name.clone(),
            name: self.name.clone(),
            state,
        })
    }
}

/// Exit code and signal: a wait status, or, from 23.02 on, an object.
fn exit(value: &serde_json::Value) -> Option<(u32, u32)> {
    let number = |value: &serde_json::Value| {
        let number = Number::deserialize(value).ok()?;
        u32::try_from(number.0?).ok()
    };
    if let Some(status) = value.as_u64() {
        let status = u32::try_from(status).ok()?;
        return Some(((status >> 8) & 0xff, status & 0x7f));
    }
    let signal = value.get("signal").and_then(|signal| {
        let id = signal.get("id").or_else(|| signal.get("signal_id"))?;
        number(id)
    });
    Some((number(value.get("return_code")?)?, signal.unwrap_or(0)))
}

fn json(said: &CallOutput) -> Result<JobList<JsonRow>, Unreadable> {
    let text = said.text(&Call::new("squeue", []))?;
    super::queue::json(&text)
}

fn sighting(row: &Plain, name: &JobName) -> AdoptedJobState {
    AdoptedJobState {
        row: QueueRow {
            name: name.clone(),
            job: row.job,
            tasks: row.tasks.clone(),
            state: row.state.clone(),
            host: row.host.clone(),
            start_s: row.started_s,
        },
        exit: row.exit,
        ended_s: row.ended_s,
    }
}

fn all(rows: &[Plain], adopted: &[AdoptedJobRef<'_>]) -> Vec<AdoptedJobState> {
    let of = |row: &Plain| {
        let names = names_of(adopted, row.job, row.submitted_s, row.tasks.as_ref());
        names.map(|name| sighting(row, name)).collect::<Vec<_>>()
    };
    rows.iter().flat_map(of).collect()
}

/// Reads adopted jobs from the listing of all jobs of the user.
pub fn read(
    said: &[CallOutput],
    adopted: &[AdoptedJobRef<'_>],
) -> Result<Vec<AdoptedJobState>, Unreadable> {
    let list = json(answer(said, 0, "squeue")?)?;
    let job = |row: &JsonRow| match row {
        JsonRow::Job(job) => job.plain(),
        JsonRow::Odd(_) => None,
    };
    let rows: Vec<Plain> = list.jobs.iter().filter_map(job).collect();
    Ok(all(&rows, adopted))
}

/// The word that names these jobs.
fn jobs(adopted: &[AdoptedJobRef<'_>]) -> String {
    let mut ids: Vec<u64> = adopted.iter().map(|one| one.job.job.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
    format!("--jobs={}", ids.join(","))
}

/// Asks for adopted jobs where SLURM has no JSON.
pub fn plain_call(adopted: &[AdoptedJobRef<'_>]) -> Call {
    let mut call = Call::new("squeue", ["--me", "--states=all", "--noheader", FIELDS]);
    call.words.push(jobs(adopted).into());
    call
}

/// Reads the answer to [`plain_call`].
pub fn read_plain(
    said: &[CallOutput],
    adopted: &[AdoptedJobRef<'_>],
) -> Result<Vec<AdoptedJobState>, Unreadable> {
    Ok(all(&plain_rows(answer(said, 0, "squeue")?)?, adopted))
}

fn plain_rows(said: &CallOutput) -> Result<Vec<Plain>, Unreadable> {
    if is_unknown(said) {
        return Ok(Vec::new());
    }
    let text = said.text(&Call::new("squeue", []))?;
    Ok(text.lines().filter_map(plain_row).collect())
}

/// SLURM refuses a question about a single job that it does not know.
fn is_unknown(said: &CallOutput) -> bool {
    said.complaint().contains("Invalid job id")
}

fn plain_row(line: &str) -> Option<Plain> {
    let fields: Vec<&str> = line.splitn(12, '|').collect();
    let [
        own,
        job,
        task,
        word,
        reason,
        host,
        submitted,
        started,
        ended,
        uid,
        owner,
        name,
    ] = fields[..]
    else {
        return None;
    };
    let tasks = match task {
        "N/A" => None,
        list => Some(Tasks::read(list)?),
    };
    let state = state(word, reason);
    let has_ended = matches!(state, State::Ended(_));
    Some(Plain {
        own: JobId::read(own)?,
        job: JobId::read(job)?,
        tasks,
        state,
        host: Word::new(host).ok().filter(|host| host.as_str() != "n/a"),
        submitted_s: moment(submitted)?,
        started_s: moment(started),
        ended_s: moment(ended).filter(|_| has_ended),
        exit: None,
        uid: uid.parse().ok(),
        owner: owner.to_owned(),
        name: name.to_owned(),
    })
}

/// Asks for one job of any user.
pub fn find_calls(job: JobRef, is_plain: bool) -> Vec<Call> {
    let call = |format: &'static str| {
        let mut call = Call::new("squeue", ["--states=all", format]);
        call.words.push(format!("--jobs={}", job.job).into());
        if is_plain {
            call.words.push("--noheader".into());
        }
        call
    };
    if is_plain {
        [
            FIELDS,
            "--Format=STDOUT:4096",
            "--Format=STDERR:4096",
            "--format=%Z",
        ]
        .map(call)
        .into()
    } else {
        vec![call("--json")]
    }
}

/// Reads the answer to [`find_calls`].
pub fn read_found(said: &[CallOutput], job: JobRef) -> Result<FoundJob, NotFound> {
    let said = answer(said, 0, "squeue")?;
    if is_unknown(said) {
        return Err(NotFound::Absent);
    }
    let list = json(said)?;
    let of = |row: &JsonRow| match row {
        JsonRow::Job(job) => Some((job.plain()?, job.clone_paths())),
        JsonRow::Odd(_) => None,
    };
    let rows: Vec<(Plain, Paths)> = list.jobs.iter().filter_map(of).collect();
    let (row, paths) = pick(&rows, job, |(row, _)| row)?;
    Ok(found(row, paths, job))
}

/// Reads the answers where SLURM has no JSON.
pub fn read_found_plain(said: &[CallOutput], job: JobRef) -> Result<FoundJob, NotFound> {
    let rows = plain_rows(answer(said, 0, "squeue")?)?;
    let row = pick(&rows, job, |row| row)?;
    let first = |at: usize| -> Result<String, Unreadable> {
        let text = answer(said, at, "squeue")?.text(&Call::new("squeue", []))?;
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    };
    let paths = Paths {
        stdout: first(1)?,
        stderr: first(2)?,
        folder: first(3)?,
    };
    Ok(found(row, &paths, job))
}

struct Paths {
    stdout: String,
    stderr: String,
    folder: String,
}

impl JsonJob {
    fn clone_paths(&self) -> Paths {
        Paths {
            stdout: self.standard_output.clone(),
            stderr: self.standard_error.clone(),
            folder: self.current_working_directory.clone(),
        }
    }
}

/// The row that a person means.
fn pick<T>(all: &[T], job: JobRef, row: impl Fn(&T) -> &Plain) -> Result<&T, NotFound> {
    let of_array = |one: &&T| row(one).tasks.is_some() && row(one).job == job.job;
    let has: Vec<String> = all
        .iter()
        .filter(of_array)
        .filter_map(|one| row(one).tasks.as_ref().map(ToString::to_string))
        .filter(|text| !text.is_empty())
        .collect();
    let has = has.join(",");
    let found = match job.task {
        None if !has.is_empty() => return Err(NotFound::Array(has)),
        // The number of one task alone is one name of it.
        None => all.iter().find(|one| row(one).own == job.job),
        Some(task) => {
            let is_it = |one: &&T| {
                let tasks = row(one).tasks.as_ref();
                tasks.is_some_and(|tasks| tasks.contains(task))
            };
            let found = all.iter().filter(of_array).find(is_it);
            if found.is_none() && !has.is_empty() {
                return Err(NotFound::Task(has));
            }
            found
        }
    };
    found.ok_or(NotFound::Absent)
}

fn found(row: &Plain, paths: &Paths, asked: JobRef) -> FoundJob {
    // A waiting task stands in a row of several.
    let only = row.tasks.as_ref().and_then(Tasks::only);
    let task = asked.task.or(only).filter(|_| row.tasks.is_some());
    let default = match task {
        None => "slurm-%A.out",
        Some(_) => "slurm-%A_%a.out",
    };
    let stdout = match &*paths.stdout {
        "" => default,
        given => given,
    };
    let fill = |path: &str| filled(path, row, task).map(|path| absolute(&paths.folder, &path));
    let stderr = Some(&*paths.stderr).filter(|path| !path.is_empty() && *path != stdout);
    FoundJob {
        job: JobRef { job: row.job, task },
        uid: row.uid,
        owner: row.owner.clone(),
        name: row.name.clone(),
        submitted_s: row.submitted_s,
        has_ended: matches!(row.state, State::Ended(_)),
        folder: paths.folder.clone(),
        stdout: fill(stdout),
        stderr: stderr.and_then(|path| fill(path).ok()),
        names_in_folder: None,
    }
}

/// A path of a log with the names that SLURM fills.
fn filled(path: &str, row: &Plain, task: Option<u32>) -> Result<String, String> {
    if path.contains('\\') {
        return Err(format!("its log is {path}, which has a backslash"));
    }
    let mut filled = String::new();
    let mut rest = path.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            filled.push(c);
            continue;
        }
        let mut width = String::new();
        while let Some(digit) = rest.next_if(char::is_ascii_digit) {
            width.push(digit);
        }
        let width: usize = width.parse().unwrap_or(0).min(10);
        let name = rest.next().unwrap_or('%');
        let is_waiting_task = task.is_some() && row.tasks.as_ref().and_then(Tasks::only).is_none();
        let value = match name {
            '%' => Some("%".to_owned()),
            'A' => Some(row.job.to_string()),
            'a' => Some(task.map_or_else(|| NO_TASK.to_owned(), |task| task.to_string())),
            'j' if !is_waiting_task => Some(row.own.to_string()),
            'x' => Some(row.name.clone()),
            'u' => Some(row.owner.clone()),
            'N' => row.host.as_ref().map(ToString::to_string),
            'n' | 't' => Some("0".to_owned()),
            's' => Some("batch".to_owned()),
            _ => None,
        };
        let value = value.ok_or_else(|| {
            format!("its log is {path}, and the value of %{name} is not known yet")
        })?;
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
        if is_number {
            filled.push_str(&format!("{value:0>width$}"))
        } else {
            filled.push_str(&value)
        }
    }
    Ok(filled)
}

/// Asks the accounting for adopted jobs, earlier ones of their numbers included.
pub fn ends_call(adopted: &[AdoptedJobRef<'_>], since_s: u64) -> Call {
    super::accounting::call_for(ENDS, since_s, jobs(adopted))
}

/// Reads the answer to [`ends_call`].
pub fn read_ends(
    said: &[CallOutput],
    adopted: &[AdoptedJobRef<'_>],
) -> Result<Vec<AdoptedJobState>, Unreadable> {
    let text = answer(said, 0, "sacct")?.text(&Call::new("sacct", []))?;
    let row = |line: &str| -> Option<Plain> {
        let fields: Vec<&str> = line.split('|').collect();
        let [id, word, exit, submitted, started, ended, hosts] = fields[..] else {
            return None;
        };
        let (job, tasks) = super::accounting::id_of(id)?;
        Some(Plain {
            own: job,
            job,
            tasks,
            state: state(word, ""),
            // `None assigned`, or the first of a list.
            host: hosts
                .split(['[', ','])
                .next()
                .and_then(|host| Word::new(host).ok()),
            submitted_s: moment(submitted)?,
            started_s: moment(started),
            ended_s: moment(ended),
            exit: super::accounting::exit_of(exit),
            uid: None,
            owner: String::new(),
            name: String::new(),
        })
    };
    let rows: Vec<Plain> = text.lines().filter_map(row).collect();
    Ok(all(&rows, adopted))
}
