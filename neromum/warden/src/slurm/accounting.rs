//! Ends from `sacct`, which a site may not have.

use super::state::state;
use crate::job::{JobId, JobName, Record, SchedulerEnd, State, Tasks};
use crate::{Call, CallOutput, Unreadable};

/// Fields of a row; the name stands last.
const FIELDS: &str = "--format=JobIDRaw,JobID,State,ExitCode,JobName";

/// Asks for the records of these submissions, those of earlier starts included,
/// from `since_s` seconds ago on.
pub fn call(names: &[&JobName], since_s: u64) -> Call {
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    call_for(FIELDS, since_s, format!("--name={}", names.join(",")))
}

/// Asks for the fields that one option names, of the jobs that another option names, from `since_s`
/// seconds ago on.
pub(super) fn call_for(fields: &'static str, since_s: u64, jobs: String) -> Call {
    let how = ["--noheader", "--parsable2", "--allocations", "--duplicates"];
    let mut call = Call::new("sacct", how);
    let since = format!("--starttime=now-{since_s}seconds");
    let words = [fields.into(), since.into(), jobs.into()];
    call.words.extend(words);
    call
}

/// Reads the answer to [`call`]; rows of other submissions are left out.
///
/// # Errors
/// When `sacct` did not answer: it may be absent, or its database may be away.
pub fn read(said: &CallOutput, names: &[&JobName]) -> Result<Vec<Record>, Unreadable> {
    let text = said.text(&Call::new("sacct", []))?;
    let row = |line: &str| -> Option<Record> {
        let fields: Vec<&str> = line.split('|').collect();
        let [_, id, word, exit, name] = fields[..] else {
            return None;
        };
        let name = JobName::read(name).filter(|name| names.contains(&name))?;
        let (job, task) = id_of(id)?;
        Some(Record {
            name,
            job,
            task,
            state: state(word, ""),
            exit: exit_of(exit),
        })
    };
    Ok(text.lines().filter_map(row).collect())
}

/// Users who cancelled jobs, by all rows of an answer to [`call`].
pub fn cancellers(said: &CallOutput) -> Vec<u32> {
    let text = String::from_utf8_lossy(&said.out);
    let fields = text.lines().flat_map(|line| line.split('|'));
    let by = fields.filter_map(|field| match state(field, "") {
        State::Ended(SchedulerEnd::Cancelled { by }) => by,
        _ => None,
    });
    by.collect()
}

/// `6`, `1_0` or `1_[2-3,5%2]`.
pub(super) fn id_of(text: &str) -> Option<(JobId, Option<Tasks>)> {
    match text.split_once('_') {
        None => Some((JobId::read(text)?, None)),
        Some((job, task)) => {
            let list = task.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
            Some((JobId::read(job)?, Some(Tasks::read(list.unwrap_or(task))?)))
        }
    }
}

/// `0:125`: exit code and signal.
pub(super) fn exit_of(text: &str) -> Option<(u32, u32)> {
    let (code, signal) = text.split_once(':')?;
    Some((code.parse().ok()?, signal.parse().ok()?))
}
