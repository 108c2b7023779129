//! Jobs that their owner submitted. The listing shows the time of submission only of
//! jobs that wait; `qstat -j` shows that of all. `qacct` tells how they ended.

use std::collections::HashMap;

use super::accounting::ended;
use super::state::state;
use super::xml;
use crate::adopted::{
    AdoptedJobRef, AdoptedJobState, FoundJob, JobRef, NotFound, absolute, answer, names_of,
};
use crate::job::{JobId, JobName, QueueRow, State, Tasks};
use crate::slurm::time::moment;
use crate::{Call, CallOutput, Unreadable, Word};

/// The bit of a job's type that makes it an array.
const ARRAY: u64 = 128;

/// Asks for the details of these jobs. One that is gone is left out of the answer.
pub fn details_call(jobs: impl IntoIterator<Item = JobId>) -> Call {
    let mut ids: Vec<u64> = jobs.into_iter().map(|job| job.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
    let mut call = Call::new("qstat", ["-xml", "-j"]);
    call.words.push(ids.join(",").into());
    call
}

/// The parts of an answer about jobs, each with the job's number. Texts of people are
/// escaped, and so contain no tag.
fn parts(text: &str) -> impl Iterator<Item = (JobId, &str)> {
    let parts = text.split("<JB_job_number>").skip(1);
    parts.filter_map(|part| {
        let (id, rest) = part.split_once("</JB_job_number>")?;
        Some((JobId::read(id.trim())?, rest))
    })
}

fn leaf<'a>(part: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = part.split_once(&format!("<{tag}>"))?;
    Some(rest.split_once(&format!("</{tag}>"))?.0.trim())
}

/// Seconds since 1970; later versions count milliseconds.
fn seconds(text: &str) -> Option<i64> {
    let number = i64::try_from(JobId::read(text)?.0).ok()?;
    Some(if number > 100_000_000_000 {
        number / 1000
    } else {
        number
    })
}

/// Reads adopted jobs from the listing and from the details of each.
pub fn read(
    said: &[CallOutput],
    more: &[CallOutput],
    adopted: &[AdoptedJobRef<'_>],
) -> Result<Vec<AdoptedJobState>, Unreadable> {
    let details = answer(more, 0, "qstat")?.text(&details_call([]))?;
    let submitted: HashMap<JobId, i64> = parts(&details)
        .filter_map(|(job, part)| Some((job, seconds(leaf(part, "JB_submission_time")?)?)))
        .collect();
    let listing = answer(said, 0, "qstat")?.text(&details_call([]))?;
    let mut found = Vec::new();
    for row in xml::records(&listing, "job_list") {
        let job = row.leaf("JB_job_number").and_then(JobId::read);
        let tasks = match row.leaf("tasks") {
            None => Some(None),
            Some(list) => Tasks::read(list).map(Some),
        };
        let (Some(job), Some(tasks)) = (job, tasks) else {
            continue;
        };
        let Some(submitted_s) = submitted.get(&job) else {
            continue;
        };
        let host = row.leaf("queue_name").and_then(|text| text.split_once('@'));
        let sighting = |name: &JobName| AdoptedJobState {
            row: QueueRow {
                name: name.clone(),
                job,
                tasks: tasks.clone(),
                state: state(row.leaf("state").unwrap_or_default()),
                host: host.and_then(|(_, host)| Word::new(host).ok()),
                start_s: row.leaf("JAT_start_time").and_then(moment),
            },
            exit: None,
            ended_s: None,
        };
        let names = names_of(adopted, job, *submitted_s, tasks.as_ref());
        found.extend(names.map(sighting));
    }
    Ok(found)
}

/// Reads the answer to [`details_call`] about one job.
pub fn read_found(said: &[CallOutput], asked: JobRef) -> Result<FoundJob, NotFound> {
    let text = answer(said, 0, "qstat")?.text(&details_call([]))?;
    if !text.trim_end().ends_with("</detailed_job_info>") {
        return if text.contains("<unknown_jobs") {
            Err(NotFound::Absent)
        } else {
            Err(Unreadable::odd("qstat", "its answer is cut").into())
        };
    }
    let mut parts = parts(&text).filter(|(job, _)| *job == asked.job);
    let (_, part) = parts.next().ok_or(NotFound::Absent)?;
    let odd = |what: &str| Unreadable::odd("qstat", format!("it shows no {what}"));
    let plain = |tag: &str| leaf(part, tag).map(|text| xml::plain(text).into_owned());
    let number = |tag: &str| Some(JobId::read(leaf(part, tag)?)?.0);
    let range = ["RN_min", "RN_max", "RN_step"].map(|tag| number(tag).unwrap_or(1));
    let is_array = range[..2] != [1, 1] || number("JB_type").unwrap_or(0) & ARRAY != 0;
    let indexes = format!("{}-{}:{}", range[0], range[1], range[2].max(1));
    let tasks = Tasks::read(&indexes).ok_or_else(|| odd("indexes"))?;
    match (is_array, asked.task) {
        (true, None) => return Err(NotFound::Array(tasks.to_string())),
        (true, Some(task)) if !tasks.contains(task) => {
            return Err(NotFound::Task(tasks.to_string()));
        }
        (false, Some(_)) => return Err(NotFound::Absent),
        (true, Some(_)) | (false, None) => {}
    }
    let name = plain("JB_job_name").ok_or_else(|| odd("name"))?;
    let owner = plain("JB_owner").ok_or_else(|| odd("owner"))?;
    let submitted_s = leaf(part, "JB_submission_time").and_then(seconds);
    let variable = |wanted: &str| {
        let all = xml::records(part, "job_sublist");
        let is_it = |one: &&xml::Element<'_>| {
            let name = one.leaf("VA_variable").unwrap_or_default();
            name.strip_prefix("__SGE_PREFIX__O_").unwrap_or(name) == wanted
        };
        let found = all.iter().find(is_it)?;
        found.leaf("VA_value").map(str::to_owned)
    };
    let home = variable("HOME").unwrap_or_default();
    let folder = plain("JB_cwd").unwrap_or_else(|| home.clone());
    let task = asked.task.map_or(String::new(), |task| format!(".{task}"));
    let default = |letter: char| format!("{name}.{letter}{}{task}", asked.job);
    let fill = |list: &str, letter: char| {
        let path = xml::records(part, list).first().and_then(|list| {
            let path = list.leaf("PN_path").filter(|path| !path.is_empty())?;
            Some(path.to_owned())
        });
        let Some(path) = path else {
            return Ok(absolute(&folder, &default(letter)));
        };
        let task = asked
            .task
            .map_or("undefined".to_owned(), |task| task.to_string());
        let path = path
            .replace("$TASK_ID", &task)
            .replace("$JOB_ID", &asked.job.to_string())
            .replace("$JOB_NAME", &name)
            .replace("$USER", &owner)
            .replace("$HOME", &home);
        if path.contains('$') {
            Err(format!("its log is {path}, and its host is not known yet"))
        } else {
            match path.strip_prefix("~/") {
                Some(rest) => Ok(absolute(&home, rest)),
                None => Ok(absolute(&folder, &path)),
            }
        }
    };
    let is_merged = leaf(part, "JB_merge_stderr") == Some("true");
    Ok(FoundJob {
        job: asked,
        uid: leaf(part, "JB_uid").and_then(|uid| uid.parse().ok()),
        submitted_s: submitted_s.ok_or_else(|| odd("time of submission"))?,
        // What ended is not listed at all.
        has_ended: false,
        stdout: fill("JB_stdout_path_list", 'o'),
        stderr: if is_merged {
            None
        } else {
            fill("JB_stderr_path_list", 'e').ok()
        },
        names_in_folder: Some([default('o'), default('e')]),
        owner,
        name,
        folder,
    })
}

/// Asks the accounting for one adopted job, and those that had its number before.
pub fn ends_call(adopted: &AdoptedJobRef<'_>) -> Call {
    let mut call = Call::new("qacct", ["-j"]);
    call.words.push(adopted.job.job.to_string().into());
    call
}

/// Reads the answers to [`ends_call`], one for each job.
pub fn read_ends(
    said: &[CallOutput],
    adopted: &[AdoptedJobRef<'_>],
) -> Result<Vec<AdoptedJobState>, Unreadable> {
    let mut found = Vec::new();
    for (said, one) in said.iter().zip(adopted) {
        let out = String::from_utf8_lossy(&said.out);
        let has_none = said.complaint().contains("not found");
        if has_none || out.starts_with("no jobs running since startup") {
            continue;
        }
        let text = said.text(&Call::new("qacct", []))?;
        let blocks = text.split("==============");
        found.extend(blocks.filter_map(|block| record(block, one)));
    }
    Ok(found)
}

fn record(block: &str, one: &AdoptedJobRef<'_>) -> Option<AdoptedJobState> {
    let field = |key: &str| super::accounting::field(block, key);
    let number = |key: &str| -> Option<u32> { field(key)?.split_whitespace().next()?.parse().ok() };
    let (failed, code) = (number("failed")?, number("exit_status")?);
    let tasks = match field("taskid")? {
        "undefined" => None,
        task => Some(Tasks::single(task.parse().ok()?)),
    };
    let job = JobId::read(field("jobnumber")?)?;
    let submitted_s = date(field("qsub_time")?)?;
    let name = names_of(std::slice::from_ref(one), job, submitted_s, tasks.as_ref()).next()?;
    Some(AdoptedJobState {
        row: QueueRow {
            name: name.clone(),
            job,
            tasks,
            state: State::Ended(ended(failed, code)),
            host: field("hostname").and_then(|host| Word::new(host).ok()),
            start_s: field("start_time").and_then(date),
        },
        exit: Some(super::accounting::exit(code)),
        ended_s: field("end_time").and_then(date),
    })
}

/// Seconds since 1970 of `Tue Nov 24 06:09:06 2026`, in UTC.
fn date(text: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let parts: Vec<&str> = text.split_whitespace().collect();
    let [_, month, day, time, year] = parts[..] else {
        return None;
    };
    let month = MONTHS.find(month).filter(|_| month.len() == 3)? / 3 + 1;
    moment(&format!("{year}-{month:02}-{day:0>2}T{time}"))
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_read_as_seconds_since_1970() {
        assert_eq!(date("Tue Nov 24 06:09:06 2026"), Some(1_795_500_546));
        assert_eq!(date("Thu Jan  1 00:00:00 1970"), Some(0));
        assert_eq!(date("-/-"), None);
    }
}
