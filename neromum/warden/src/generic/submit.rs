//! Submitting and cancelling.

use super::template::Template;
use super::{Generic, call as command, with_user};
use crate::order::{Order, OrderError};
use crate::submit::SubmissionResult;
use crate::{Call, CallOutput, End, JobId, JobName, QueueRow};

/// Characters of a name where a scheduler takes no longer ones.
const SHORT_CHARS: usize = 15;

pub(super) fn script(warden: &Generic, order: &Order) -> Result<String, OrderError> {
    order.fields.check_constraint()?;
    honours(warden, order)?;
    if order.resources.hosts() > 1 {
        return Err(OrderError::OneHost(warden.name.clone()));
    }
    // `module` is a function of login shells.
    let mut script = if order.setup.is_empty() {
        "#!/bin/sh\n".to_owned()
    } else {
        "#!/bin/bash -l\n".to_owned()
    };
    for line in &warden.header {
        // A line about something that the run does not ask for is left out.
        if let Some(line) = line.fill(|name| value(warden, order, name)) {
            script.push_str(line.trim_end());
            script.push('\n');
        }
    }
    let task = match (&warden.array, order.tasks) {
        (Some(array), Some(_)) => format!("${}", array.index),
        (Some(_) | None, _) => "0".to_owned(),
    };
    // Some print `7.server` or `7[3].server` there.
    let job = warden.job.as_ref();
    let job = job.map_or(String::new(), |name| format!("${{{name}%%[!0-9]*}}"));
    script.push_str(&order.lines(&task, &job)?);
    Ok(script)
}

/// Refuses what the run asks for and no line of the configuration passes on: the run
/// would be another one.
fn honours(warden: &Generic, order: &Order) -> Result<(), OrderError> {
    let (resources, fields) = (&order.resources, &order.fields);
    let asked = [
        ("cpus", resources.cpus_in_all() > 1),
        ("memory", resources.memory_bytes.is_some()),
        ("time", resources.time_s.is_some()),
        ("gpus", resources.gpus > 0),
        ("gpu_type", resources.gpu_type.is_some()),
        ("exclusive", resources.exclusive),
        ("partition", fields.partition.is_some()),
        ("queue", fields.queue.is_some()),
        ("account", fields.account.is_some()),
        ("qos", fields.qos.is_some()),
        ("parallel_env", fields.parallel_env.is_some()),
        ("constraint", fields.constraint.is_some()),
    ];
    // A line is left out whole where one of its names stands for nothing.
    let is_written = |line: &&Template| line.fill(|name| value(warden, order, name)).is_some();
    let written: Vec<&Template> = warden.header.iter().filter(is_written).collect();
    let lost = asked.into_iter().filter(|(_, asked)| *asked);
    let lost = lost.map(|(field, _)| (field, names(field)));
    let is_passed = |names: &[&str]| {
        written
            .iter()
            .any(|line| names.iter().any(|name| line.has(name)))
    };
    match lost.into_iter().find(|(_, names)| !is_passed(names)) {
        Some((field, names)) => Err(OrderError::NotPassed {
            field,
            name: names[0],
            here: warden.name.clone(),
        }),
        None => Ok(()),
    }
}

/// The names that stand for a field in a line, the most usual first.
fn names(field: &'static str) -> [&'static str; 3] {
    match field {
        "memory" => ["memory_mb", "memory_kb", "memory_bytes"],
        "time" => ["time_minutes", "time_hms", "time_s"],
        field => [field; 3],
    }
}

/// What a name in `header` stands for; `None`: the run asks for no such thing.
fn value(warden: &Generic, order: &Order, name: &str) -> Option<String> {
    let (resources, fields) = (&order.resources, &order.fields);
    let memory = |unit: u64| {
        let bytes = resources.memory_bytes?;
        Some(bytes.div_ceil(unit).max(1).to_string())
    };
    let text = |word: &Option<crate::Word>| word.as_ref().map(ToString::to_string);
    match name {
        "name" => Some(order.name.to_string()),
        "short_name" => Some(short(&order.name)),
        "cpus" => Some(resources.cpus_in_all().to_string()),
        "memory_bytes" => memory(1),
        "memory_kb" => memory(1 << 10),
        "memory_mb" => memory(1 << 20),
        "time_s" => resources.time_s.map(|seconds| seconds.to_string()),
        "time_minutes" => resources
            .time_s
            .map(|seconds| seconds.div_ceil(60).to_string()),
        "time_hms" => resources.time_s.map(hours_minutes_seconds),
        "gpus" => Some(resources.gpus)
            .filter(|gpus| *gpus > 0)
            .map(|gpus| gpus.to_string()),
        "gpu_type" => text(&resources.gpu_type),
        "exclusive" => resources.exclusive.then(String::new),
        "partition" => text(&fields.partition),
        "queue" => text(&fields.queue),
        "account" => text(&fields.account),
        "qos" => text(&fields.qos),
        "parallel_env" => text(&fields.parallel_env),
        "constraint" => fields.constraint.clone(),
        "output" => Some(output(warden, order)),
        "array" => array(warden, order),
        _ => None,
    }
}

fn short(name: &JobName) -> String {
    name.as_str()[..SHORT_CHARS].to_owned()
}

fn hours_minutes_seconds(seconds: u64) -> String {
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    format!("{:02}:{:02}:{seconds:02}", minutes / 60, minutes % 60)
}

/// Where the scheduler's remarks about a task go.
fn output(warden: &Generic, order: &Order) -> String {
    let array = warden.array.as_ref().filter(|_| order.tasks.is_some());
    match array.map(|array| &array.output) {
        None => order.remarks("0"),
        Some(Some(index)) => order.remarks(index),
        // All tasks of an array would write to one file.
        Some(None) => "/dev/null".to_owned(),
    }
}

/// The indexes of an array; `None`: it is a plain job.
fn array(warden: &Generic, order: &Order) -> Option<String> {
    let (array, tasks) = (warden.array.as_ref()?, order.tasks?);
    let range = array.range.fill(|name| match name {
        "first" => Some(array.first.to_string()),
        _ => Some((array.first + tasks.max(1) - 1).to_string()),
    })?;
    let limit = array
        .at_once
        .as_ref()
        .and_then(|limit| limit.fill(|_| Some(order.at_once?.max(1).to_string())));
    Some(range + &limit.unwrap_or_default())
}

pub(super) fn call(warden: &Generic, order: &Order, script: &str) -> Call {
    let value = |name: &str| match name {
        "script" => Some(order.job.folder.join("script").display().to_string()),
        name => value(warden, order, name),
    };
    let mut call = command(&warden.submit, |name| with_user(name, value));
    if !warden.submit.iter().any(|word| word.has("script")) {
        call.input = script.as_bytes().to_vec();
    }
    call
}

pub(super) fn read(warden: &Generic, said: &CallOutput) -> SubmissionResult {
    let found = warden.id.captures(&said.out);
    let found = found.and_then(|found| found.get(1));
    let id = found.and_then(|id| JobId::read(&String::from_utf8_lossy(id.as_bytes())));
    let refused = warden.refused.as_ref();
    let refused =
        refused.is_some_and(|words| words.is_match(&said.out) || words.is_match(&said.err));
    match (&said.end, id) {
        (End::Code(0), Some(id)) => SubmissionResult::Accepted(id),
        (End::NotExecuted(why), _) => SubmissionResult::NotSent(why.clone()),
        (End::Code(_), None) if refused => SubmissionResult::Refused(said.complaint()),
        (End::Code(_) | End::Signal(_) | End::TimedOut | End::TooMuch, _) => {
            SubmissionResult::Ambiguous(said.complaint())
        }
    }
}

/// The same command about each of them; none where it has no words.
pub(super) fn about_each(
    warden: &Generic,
    words: &[Template],
    seen: &[(&QueueRow, Option<u32>)],
) -> Vec<Call> {
    if words.is_empty() {
        return Vec::new();
    }
    let call = |(row, task): &(&QueueRow, Option<u32>)| about(warden, words, row, *task);
    seen.iter().map(call).collect()
}

/// A command about a job, or one task of it.
pub(super) fn about(
    warden: &Generic,
    words: &[Template],
    seen: &QueueRow,
    task: Option<u32>,
) -> Call {
    let job = seen.job.to_string();
    let array = warden.array.as_ref().filter(|_| seen.tasks.is_some());
    let id = match (array, task) {
        (Some(array), Some(task)) => array.id.fill(|name| match name {
            "id" => Some(job.clone()),
            _ => Some(task.to_string()),
        }),
        (Some(array), None) => array.whole.fill(|_| Some(job.clone())),
        (None, _) => Some(job.clone()),
    };
    command(words, |name| with_user(name, |_| id.clone()))
}
