//! The queue: lines of which a pattern of the configuration finds the parts.

use regex::bytes::Captures;

use super::{Generic, Recipe, call};
use crate::job::{JobId, JobKey, JobName, Queue, QueueRow, Reason, SchedulerEnd, State, Tasks};
use crate::{Call, CallOutput, End, Unreadable, Word};

/// Shortest beginning of a name that is taken for it where a scheduler cuts names:
/// seven random characters.
const CUT_CHARS: usize = 12;
/// How all names of ours begin.
const PREFIX: &str = "nero-";
/// What a person can do where an answer without a row is an empty list, for example in
/// another language.
const NAMED_EMPTY: &str =
    " (if that tells that you have no jobs, write it into `empty:` of the node's `scheduler:`)";
/// Longest word of an unknown state that is shown.
const STATE_CHARS: usize = 80;

/// The scheduler's words for states, with what they mean.
pub(super) fn states(recipe: &Recipe) -> Vec<(String, State)> {
    let none = Reason::default;
    let meanings = [
        ("states.waiting", State::Waiting(none())),
        ("states.held", State::Held(none())),
        ("states.starting", State::Starting),
        ("states.running", State::Running),
        ("states.suspended", State::Suspended),
        ("states.ending", State::Ending),
        ("states.ended", State::Ended(SchedulerEnd::Completed)),
        ("states.failed", State::Ended(SchedulerEnd::Failed)),
        (
            "states.cancelled",
            State::Ended(SchedulerEnd::Cancelled { by: None }),
        ),
    ];
    let each = meanings.into_iter().flat_map(|(group, state)| {
        let words = recipe.list_of(group).into_iter();
        words.map(move |word| (word.to_owned(), state.clone()))
    });
    each.collect()
}

/// Reads the answer to `list`.
///
/// # Errors
/// When the scheduler did not answer.
pub(super) fn read(
    warden: &Generic,
    said: &CallOutput,
    known: &[JobKey<'_>],
) -> Result<Queue, Unreadable> {
    let mut queue = Queue {
        is_nameless: !warden.row.has_name,
        ..Queue::default()
    };
    let Some(text) = text(warden, said)? else {
        return Ok(queue);
    };
    let mut rows = 0;
    for line in text.lines() {
        let Some(row) = warden.row.pattern.captures(line.as_bytes()) else {
            hide(line, known, &mut queue);
            continue;
        };
        rows += 1;
        take(warden, &row, known, &mut queue);
    }
    if rows == 0 && said.complains() {
        let what = said.complaint() + NAMED_EMPTY;
        return Err(Unreadable::odd(program(warden), what));
    }
    Ok(queue)
}

/// The whole answer; `None`: the scheduler told that there is no job.
fn text(warden: &Generic, said: &CallOutput) -> Result<Option<String>, Unreadable> {
    let empty = warden.empty.as_ref();
    let tells = |bytes: &[u8]| empty.is_some_and(|empty| empty.is_match(bytes));
    // The words may stand in a row, or in half of an answer.
    let is_row = |line: &[u8]| warden.row.pattern.is_match(line);
    let is_whole = matches!(said.end, End::Code(_));
    if is_whole
        && (tells(&said.err) || tells(&said.out))
        && !said.out.split(|byte| *byte == b'\n').any(is_row)
    {
        return Ok(None);
    }
    let call = Call {
        program: program(warden).into(),
        words: Vec::new(),
        input: Vec::new(),
    };
    match said.text(&call) {
        Ok(text) => Ok(Some(text.into_owned())),
        Err(Unreadable::Failed {
            program,
            how,
            complaint,
        }) if is_whole && !complaint.is_empty() => Err(Unreadable::Failed {
            program,
            how,
            complaint: complaint + NAMED_EMPTY,
        }),
        Err(error) => Err(error),
    }
}

fn program(warden: &Generic) -> String {
    call(&warden.list, |_| None).program.into_owned()
}

/// Lines that no pattern reads, for people.
pub(super) fn unread(warden: &Generic, said: &CallOutput) -> Vec<String> {
    let text = String::from_utf8_lossy(&said.out);
    let is_odd =
        |line: &&str| !line.trim().is_empty() && !warden.row.pattern.is_match(line.as_bytes());
    text.lines().filter(is_odd).map(str::to_owned).collect()
}

/// Notes a line that no pattern reads, when it may be a row of ours.
fn hide(line: &str, known: &[JobKey<'_>], queue: &mut Queue) {
    let words = || line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let is_about = |one: &&JobKey<'_>| {
        let is_name = |word: &str| word.len() > PREFIX.len() && one.name.as_str().starts_with(word);
        let is_job = |word: &str| one.job.is_some() && JobId::read(word) == one.job;
        words().any(|word| is_name(word) || is_job(word))
    };
    let meant = known.iter().filter(is_about).map(|one| one.name.clone());
    let before = queue.hidden.len();
    queue.hidden.extend(meant);
    let is_other = queue.hidden.len() == before && line.contains(PREFIX);
    queue.unreadable += usize::from(is_other);
}

fn take(warden: &Generic, row: &Captures<'_>, known: &[JobKey<'_>], queue: &mut Queue) {
    let part = |group: &str| text_of(row.name(group)?.as_bytes());
    let state = state(warden, part("state").unwrap_or_default());
    let job = part("id").and_then(JobId::read);
    let name = match whose(part("name"), job, known) {
        RowOwner::Ours(name) => name,
        RowOwner::Foreign => {
            queue.foreign += u64::from(!matches!(state, State::Ended(_)));
            return;
        }
        RowOwner::OneOf(names) => {
            queue.hidden.extend(names);
            return;
        }
    };
    let tasks = match part("task") {
        // The array itself; its tasks have rows of their own.
        Some("") => return,
        Some(text) => Tasks::read(text).map(Some),
        None => Some(None),
    };
    let (Some(job), Some(tasks)) = (job, tasks) else {
        queue.hidden.push(name);
        return;
    };
    let first = warden.array.as_ref().map_or(0, |array| array.first);
    queue.ours.push(QueueRow {
        name,
        job,
        // Some print index 0 for a job without an array.
        tasks: tasks.filter(|tasks| first == 0 || !tasks.contains(0)),
        state,
        host: part("host").and_then(|host| Word::new(host).ok()),
        start_s: None,
    });
}

fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Whose a row is.
enum RowOwner {
    Ours(JobName),
    Foreign,
    /// Its name is cut so short that it may be any of these.
    OneOf(Vec<JobName>),
}

/// A name may be cut; where none is shown, the id tells.
fn whose(name: Option<&str>, job: Option<JobId>, known: &[JobKey<'_>]) -> RowOwner {
    let by_id = known.iter().find(|one| job.is_some() && one.job == job);
    let Some(shown) = name else {
        return by_id.map_or(RowOwner::Foreign, |one| RowOwner::Ours(one.name.clone()));
    };
    if let Some(name) = JobName::read(shown) {
        return RowOwner::Ours(name);
    }
    let shown = shown.trim_end_matches(['*', '+']);
    if !shown.starts_with(PREFIX) {
        return RowOwner::Foreign;
    }
    let alike = known.iter().map(|one| one.name);
    let alike: Vec<&JobName> = alike
        .filter(|name| name.as_str().starts_with(shown))
        .collect();
    match (by_id, &alike[..]) {
        (_, []) => RowOwner::Foreign,
        (Some(one), [..]) if alike.contains(&one.name) => RowOwner::Ours(one.name.clone()),
        (_, [name]) if shown.len() >= CUT_CHARS => RowOwner::Ours((*name).clone()),
        (_, [..]) => RowOwner::OneOf(alike.into_iter().cloned().collect()),
    }
}

/// What a word means. One that the configuration does not name is shown and never
/// means an end.
fn state(warden: &Generic, word: &str) -> State {
    let known = warden.row.states.iter().find(|(known, _)| known == word);
    known.map_or_else(
        || {
            let plain = |c: &char| c.is_ascii_graphic();
            State::Unknown(word.chars().filter(plain).take(STATE_CHARS).collect())
        },
        |(_, state)| state.clone(),
    )
}
