//! The queue: `qstat -xml`, which lists the jobs of this user that did not end.

use super::state::state;
use super::xml;
use crate::job::{JobId, JobName, Queue, QueueRow, Tasks};
use crate::{Call, CallOutput, Unreadable, Word};

pub fn call() -> Call {
    Call::new("qstat", ["-xml"])
}

/// Reads the answer to [`call`].
///
/// # Errors
/// When Grid Engine did not answer, or its answer was cut.
pub fn read(said: &CallOutput) -> Result<Queue, Unreadable> {
    let text = said.text(&call())?;
    // Lines around it are those of a wrapper. Such an element lies within another one.
    let (begun, ended) = (text.matches("<job_info"), text.matches("</job_info>"));
    let (begun, ended) = (begun.count(), ended.count());
    if ended == 0 || begun != ended {
        let why = "it does not end with </job_info>";
        return Err(Unreadable::odd_beginning("qstat", why, &text));
    }
    let mut queue = Queue::default();
    for row in xml::records(&text, "job_list") {
        let job = row.leaf("JB_job_number").and_then(JobId::read);
        let tasks = match row.leaf("tasks") {
            None => Some(None),
            Some(list) => Tasks::read(list).map(Some),
        };
        let (Some(job), Some(tasks)) = (job, tasks) else {
            queue.cannot_read(row.leaf("JB_name").and_then(JobName::read));
            continue;
        };
        let Some(name) = row.leaf("JB_name").and_then(JobName::read) else {
            queue.foreign += tasks.as_ref().map_or(1, Tasks::count);
            continue;
        };
        let host = row.leaf("queue_name").and_then(|text| text.split_once('@'));
        queue.ours.push(QueueRow {
            name,
            job,
            tasks,
            state: state(row.leaf("state").unwrap_or_default()),
            host: host.and_then(|(_, host)| Word::new(host).ok()),
            start_s: None,
        });
    }
    Ok(queue)
}
