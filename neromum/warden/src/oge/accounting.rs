//! Ends from `qacct`, which reads one file of all jobs from its beginning.

use crate::job::{JobId, JobName, Record, SchedulerEnd, State, Tasks};
use crate::{Call, CallOutput, Unreadable};

/// Asks for the records of one submission.
pub fn call(name: &JobName) -> Call {
    let mut call = Call::new("qacct", ["-j"]);
    call.words.push(name.to_string().into());
    call
}

/// Reads the answer to [`call`]: blocks of lines `key value` below lines of `=`.
///
/// # Errors
/// When `qacct` did not answer. That there is no record is an answer.
pub fn read(said: &CallOutput, name: &JobName) -> Result<Vec<Record>, Unreadable> {
    let complaint = said.complaint();
    let has_none = complaint.contains("not found") && complaint.contains(name.as_str());
    // Before the first job of the cluster ends there is no file.
    let out = String::from_utf8_lossy(&said.out);
    if has_none || out.starts_with("no jobs running since startup") {
        return Ok(Vec::new());
    }
    let text = said.text(&call(name))?;
    let blocks = text.split("==============").map(record);
    Ok(blocks.flatten().filter(|row| row.name == *name).collect())
}

fn record(block: &str) -> Option<Record> {
    let field = |key: &str| field(block, key);
    let number = |key: &str| -> Option<u32> { field(key)?.split_whitespace().next()?.parse().ok() };
    let (failed, code) = (number("failed")?, number("exit_status")?);
    let task = match field("taskid")? {
        "undefined" => None,
        task => Some(Tasks::single(task.parse().ok()?)),
    };
    Some(Record {
        name: JobName::read(field("jobname")?)?,
        job: JobId::read(field("jobnumber")?)?,
        task,
        state: State::Ended(ended(failed, code)),
        exit: Some(exit(code)),
    })
}

/// The value of a line `key value`.
pub(super) fn field<'a>(block: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = block.lines().filter_map(|line| line.strip_prefix(key));
    let value = lines.find(|rest| rest.starts_with(char::is_whitespace));
    value.map(str::trim)
}

/// Exit code and signal: codes above 128 stand for signals.
pub(super) fn exit(code: u32) -> (u32, u32) {
    match code.checked_sub(128) {
        Some(signal @ 1..=64) => (0, signal),
        _ => (code, 0),
    }
}

/// The meaning of `failed`, a number of the shepherd.
pub(super) fn ended(failed: u32, code: u32) -> SchedulerEnd {
    match (failed, code) {
        (0, 0) => SchedulerEnd::Completed,
        // Migrated, rescheduled, or in error state after exit code 100: the job is
        // still in the queue.
        (24 | 25 | 30, _) => SchedulerEnd::Requeued,
        (37, _) => SchedulerEnd::TimeLimit,
        // Before the job began: prolog, spool folder, user unknown and so on.
        (1..=21, _) => SchedulerEnd::HostFailure,
        // 100, "assumedly after job": a signal, as of qdel.
        (_, _) => SchedulerEnd::Failed,
    }
}
