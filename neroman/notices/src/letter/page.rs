//! What a mail tells, apart from how it looks.

use jiff::tz::TimeZone;
use nero_model::safe::Safe;

use super::sentence::{EventGroup, about, line, predicate, short, subject_of, time};
use super::{Account, BatchProgress, EventKind, HeldRuns, LetterCurves, LetterEvent, LetterTable};
use nero_views::text::ids;

/// Events of a kind that are told one by one.
const EVENTS_MAX: usize = 10;
/// Crashes of which the last lines are shown.
const STDERR_MAX: usize = 3;
/// Last lines of a crash.
const STDERR_LINES: usize = 12;
/// Longer lines of an output are cut.
const STDERR_CHARS: usize = 200;
/// Rows of a table.
const ROWS_MAX: usize = 10;
/// Reasons for which runs are held that are told.
const HELD_MAX: usize = 3;
/// Kinds that a subject names.
const KINDS_MAX: usize = 3;

/// A mail.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) subject: String,
    /// Sentences before everything else.
    pub(super) paragraphs: Vec<String>,
    pub(super) progress: Option<ProgressLine>,
    pub(super) sections: Vec<PageSection>,
    pub(super) table: Option<LetterTable>,
    /// Rows of the table that are not shown.
    pub(super) more_rows: usize,
    pub(super) curves: LetterCurves,
    /// What to type next.
    pub(super) commands: Vec<String>,
}

/// How far a batch came.
#[derive(Debug)]
pub(super) struct ProgressLine {
    pub(super) text: String,
    pub(super) percent: u64,
}

/// Events of one kind.
#[derive(Debug)]
pub(super) struct PageSection {
    /// `3 crashed`; none where the mail tells one event alone.
    pub(super) heading: Option<String>,
    pub(super) told: Vec<ToldLine>,
    /// Events that are only counted.
    pub(super) more: usize,
    /// Whether it is about something that went wrong.
    pub(super) is_bad: bool,
}

/// One event.
#[derive(Debug)]
pub(super) struct ToldLine {
    pub(super) subject: String,
    pub(super) predicate: String,
    /// Last lines of an output.
    pub(super) output: Vec<String>,
}

pub(super) fn page(account: &Account, zone: &TimeZone) -> Page {
    let table = account
        .table
        .as_ref()
        .filter(|table| !table.rows.is_empty());
    Page {
        subject: subject(account),
        paragraphs: held(&account.held),
        progress: account.progress.as_ref().map(|progress| ProgressLine {
            text: progress_text(progress, zone),
            percent: percent(progress),
        }),
        sections: sections(account, zone),
        more_rows: table.map_or(0, |table| table.rows.len().saturating_sub(ROWS_MAX)),
        table: table.map(shown_table),
        curves: curves(&account.curves),
        commands: commands(account),
    }
}

pub(super) fn test_page(told_of: &[&str]) -> Page {
    let of = match told_of {
        [] => "It will tell of nothing: `notify.events` is empty.".to_owned(),
        events => format!("It will tell of: {}.", events.join(", ")),
    };
    Page {
        subject: "neronet: mail arrives".to_owned(),
        paragraphs: vec![
            "This is a test. Mail from Neronet arrives here.".to_owned(),
            of,
        ],
        ..Page::default()
    }
}

/// What waits for the reader, and what to type: before everything else, as nothing goes on before.
fn held(held: &[HeldRuns]) -> Vec<String> {
    let told = held.iter().take(HELD_MAX).map(|runs| {
        let ids = ids(&runs.experiments);
        let (count, wait) = match runs.experiments.len() {
            1 => ("1 run".to_owned(), "waits"),
            count => (format!("{count} runs"), "wait"),
        };
        let why = line(&runs.why);
        if runs.can_resume { format!(
                "{count} {wait} for you: {why}. `neroman resume {ids}` goes on; `start` in its place makes new runs, `abort` takes them away."
            ) } else { format!(
                "{count} {wait} for you: {why}. `neroman start {ids}` makes new runs; `abort` in its place takes them away."
            ) }
    });
    let rest: usize = held
        .iter()
        .skip(HELD_MAX)
        .map(|runs| runs.experiments.len())
        .sum();
    let more = (rest > 0).then(|| format!("{rest} more wait for you: `neroman status`."));
    told.chain(more).collect()
}

fn curves(curves: &LetterCurves) -> LetterCurves {
    match curves {
        LetterCurves::None => LetterCurves::None,
        LetterCurves::Drawn { of } => LetterCurves::Drawn { of: line(of) },
        LetterCurves::Failed { why } => LetterCurves::Failed {
            why: format!("The curves could not be drawn: {}.", line(why)),
        },
    }
}

fn subject(account: &Account) -> String {
    let what = match account.events.as_slice() {
        _ if account.is_digest => digest_subject(account),
        [] => "nothing new".to_owned(),
        [event] => one_subject(event),
        events => several_subject(events),
    };
    let held: usize = account.held.iter().map(|runs| runs.experiments.len()).sum();
    let held = match held {
        0 => String::new(),
        held => format!(", {held} held"),
    };
    match &account.collection {
        Some(collection) if !collection.is_empty() => format!("{}: {what}{held}", line(collection)),
        Some(_) | None => format!("neronet: {what}{held}"),
    }
}

fn digest_subject(account: &Account) -> String {
    match &account.progress {
        Some(progress) => progress_short(progress),
        None => match counts(&account.events).as_slice() {
            [] => "nothing new".to_owned(),
            _ => several_subject(&account.events),
        },
    }
}

fn one_subject(event: &LetterEvent) -> String {
    match &event.kind {
        EventKind::AllDone { .. } => short(event),
        _ => format!("{} {}", subject_of(event), short(event)),
    }
}

fn several_subject(events: &[LetterEvent]) -> String {
    // The end of a start is the news, however many runs it had.
    let mut done = events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::AllDone { .. }));
    if let (Some(event), None) = (done.next(), done.next()) {
        return short(event);
    }
    let counts = counts(events);
    let named: Vec<String> = counts
        .iter()
        .take(KINDS_MAX)
        .map(|(group, count)| group.counted(*count))
        .collect();
    let rest: usize = counts.iter().skip(KINDS_MAX).map(|(_, count)| count).sum();
    match rest {
        0 => named.join(", "),
        rest => format!("{}, {rest} more", named.join(", ")),
    }
}

/// How many events of each kind there are, the worst first.
fn counts(events: &[LetterEvent]) -> Vec<(EventGroup, usize)> {
    let mut groups: Vec<EventGroup> = events
        .iter()
        .map(|event| EventGroup::of(&event.kind))
        .collect();
    groups.sort_unstable();
    let mut counts: Vec<(EventGroup, usize)> = Vec::new();
    for group in groups {
        match counts.last_mut() {
            Some((last, count)) if *last == group => *count += 1,
            _ => counts.push((group, 1)),
        }
    }
    counts
}

fn percent(progress: &BatchProgress) -> u64 {
    match progress.of {
        0 => 100,
        of => (progress.done.min(of) * 100) / of,
    }
}

/// `61 of 200 done, 3 failed, about 9 h left`.
fn progress_short(progress: &BatchProgress) -> String {
    let mut text = format!("{} of {} done", progress.done, progress.of);
    if progress.failed > 0 {
        text.push_str(&format!(", {} failed", progress.failed));
    }
    if let Some(left) = progress.left_ms {
        text.push_str(&format!(", about {} left", about(left)));
    }
    text
}

fn progress_text(progress: &BatchProgress, zone: &TimeZone) -> String {
    let end = progress.ends_at_ms.map(|end| time(end, zone));
    let end = end.map_or_else(String::new, |end| format!(", until {end}"));
    format!("{} %: {}{end}", percent(progress), progress_short(progress))
}

fn sections(account: &Account, zone: &TimeZone) -> Vec<PageSection> {
    let is_single = account.events.len() == 1;
    counts(&account.events)
        .into_iter()
        .map(|(group, count)| {
            let of_group = account
                .events
                .iter()
                .filter(|event| EventGroup::of(&event.kind) == group);
            let told = of_group.take(EVENTS_MAX).enumerate();
            PageSection {
                heading: (!is_single).then(|| group.counted(count)),
                told: told
                    .map(|(index, event)| told_line(event, index, zone))
                    .collect(),
                more: count.saturating_sub(EVENTS_MAX),
                is_bad: group > EventGroup::AllDone && group < EventGroup::Node,
            }
        })
        .collect()
}

fn told_line(event: &LetterEvent, index: usize, zone: &TimeZone) -> ToldLine {
    let stderr: &[u8] = match &event.kind {
        EventKind::Crashed { stderr, .. } if index < STDERR_MAX => stderr,
        _ => b"",
    };
    ToldLine {
        subject: match event.kind {
            EventKind::AllDone { .. } => String::new(),
            _ => subject_of(event),
        },
        predicate: predicate(event, zone),
        output: last_lines(stderr),
    }
}

/// The last lines of an output, each safe and short. A line that overwrites itself shows what a
/// terminal showed last.
fn last_lines(bytes: &[u8]) -> Vec<String> {
    let shown = |line: &[u8]| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.rsplit(|byte| *byte == b'\r').next().unwrap_or(line);
        let line: String = Safe::lines(&without_colours(line))
            .to_string()
            .replace('\t', "    ");
        match line.char_indices().nth(STDERR_CHARS) {
            Some((cut, _)) => format!("{}…", &line[..cut]),
            None => line.trim_end().to_owned(),
        }
    };
    let mut lines: Vec<String> = bytes.split(|byte| *byte == b'\n').map(shown).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.split_off(lines.len().saturating_sub(STDERR_LINES))
}

/// A line without its colours (`ESC [ 31 m`): a mail has none.
fn without_colours(line: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.windows(2).position(|two| two == b"\x1b[") {
        let (before, sequence) = rest.split_at(at);
        plain.extend_from_slice(before);
        let end = sequence[2..]
            .iter()
            .position(|byte| (0x40..=0x7e).contains(byte));
        rest = end.map_or(&[], |end| &sequence[end + 3..]);
    }
    plain.extend_from_slice(rest);
    plain
}

fn shown_table(table: &LetterTable) -> LetterTable {
    let safe = |cell: &String| line(cell);
    LetterTable {
        header: table.header.iter().map(safe).collect(),
        rows: table
            .rows
            .iter()
            .take(ROWS_MAX)
            .map(|row| row.iter().map(safe).collect())
            .collect(),
    }
}

/// What a person types after such a mail.
fn commands(account: &Account) -> Vec<String> {
    let failed = account.events.iter().find(|event| {
        let group = EventGroup::of(&event.kind);
        group > EventGroup::AllDone && group < EventGroup::Node && !event.run.is_empty()
    });
    let mut commands = Vec::new();
    if let Some(event) = failed {
        commands.push(format!("neroman show {}", line(&event.run)));
        commands.push(format!("neroman logs {} --stderr", line(&event.run)));
    } else if account
        .events
        .iter()
        .any(|event| event.run.is_empty() && !event.node.is_empty())
    {
        commands.push("neroman status nodes".to_owned());
    }
    commands
}
