//! One sentence for each event, and one word for many of its kind.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nero_model::safe::Safe;

use super::{EventKind, LetterEvent};
use nero_views::text::duration;

/// Longer values and reasons are cut.
const CHARS_MAX: usize = 300;

/// Kinds in the order in which a mail tells them: what needs a person comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventGroup {
    AllDone,
    Crashed,
    Lost,
    TimedOut,
    Aborted,
    Warned,
    Stalled,
    Node,
    Finished,
    Started,
}

impl EventGroup {
    pub(super) fn of(kind: &EventKind) -> Self {
        match kind {
            EventKind::Started => Self::Started,
            EventKind::Finished { .. } => Self::Finished,
            EventKind::Crashed { .. } => Self::Crashed,
            EventKind::Aborted { .. } | EventKind::Cancelled { .. } => Self::Aborted,
            EventKind::TimedOut { .. } => Self::TimedOut,
            EventKind::Lost { .. } => Self::Lost,
            EventKind::Warned { .. } | EventKind::Remarked { .. } => Self::Warned,
            EventKind::Stalled { .. } => Self::Stalled,
            EventKind::NodeAway { .. } | EventKind::NodeBack { .. } => Self::Node,
            EventKind::AllDone { .. } => Self::AllDone,
        }
    }

    /// `3 crashed`, for subjects and headings.
    pub(super) fn counted(self, count: usize) -> String {
        let plural = if count == 1 { "" } else { "s" };
        match self {
            Self::AllDone => format!("{count} start{plural} done"),
            Self::Crashed => format!("{count} crashed"),
            Self::Lost => format!("{count} lost"),
            Self::TimedOut => format!("{count} timed out"),
            Self::Aborted => format!("{count} aborted"),
            Self::Warned => format!("{count} warning{plural}"),
            Self::Stalled => format!("{count} stalled"),
            Self::Node => format!("{count} message{plural} about nodes"),
            Self::Finished => format!("{count} finished"),
            Self::Started => format!("{count} started"),
        }
    }
}

/// Text from elsewhere in one safe line.
pub(super) fn line(text: &str) -> String {
    let safe = Safe::line(text).to_string();
    match safe.char_indices().nth(CHARS_MAX) {
        Some((cut, _)) => format!("{}…", &safe[..cut]),
        None => safe,
    }
}

/// `144.2 lr_0.1`, or the node.
pub(super) fn subject_of(event: &LetterEvent) -> String {
    match (event.run.as_str(), event.name.as_str()) {
        ("", "") => line(&event.node),
        ("", name) => line(name),
        (run, "") => line(run),
        (run, name) => format!("{} {}", line(run), line(name)),
    }
}

/// What happened, behind [`subject_of`]: `crashed after 3m20s on alpha: exit code 1`.
pub(super) fn predicate(event: &LetterEvent, zone: &TimeZone) -> String {
    let on = match event.node.as_str() {
        "" => String::new(),
        node => format!(" on {}", line(node)),
    };
    let after = |ms: &Option<u64>| match ms {
        Some(ms) => format!(" after {}", lasting(*ms)),
        None => String::new(),
    };
    match &event.kind {
        EventKind::Started => format!("started{on}, {}", time(event.at_ms, zone)),
        EventKind::Finished { runtime_ms, values } => {
            format!("finished{}{on}{}", after(runtime_ms), values_text(values))
        }
        EventKind::Crashed {
            how, runtime_ms, ..
        } => {
            format!("crashed{}{on}: {}", after(runtime_ms), line(how))
        }
        EventKind::Aborted { rule, values } => {
            format!(
                "aborted{on} by the rule `{}`{}",
                line(rule),
                values_text(values)
            )
        }
        EventKind::Cancelled { by } => format!("aborted{on} by {}", line(by)),
        EventKind::TimedOut { limit_ms } => match limit_ms {
            Some(limit) => format!("reached its time limit of {}{on}", lasting(*limit)),
            None => format!("reached its time limit{on}"),
        },
        EventKind::Lost { why } => format!("lost{on}: {}", line(why)),
        EventKind::Warned { rule, values } => {
            format!(
                "warning{on} by the rule `{}`{}",
                line(rule),
                values_text(values)
            )
        }
        EventKind::Remarked { text } => format!("warning{on}: {}", line(text)),
        EventKind::Stalled { silent_ms } => {
            format!("stalled{on}: nothing printed for {}", lasting(*silent_ms))
        }
        EventKind::NodeAway { since_ms, why } => {
            let because = match why.as_str() {
                "" => String::new(),
                why => format!(": {}", line(why)),
            };
            format!("out of reach since {}{because}", time(*since_ms, zone))
        }
        EventKind::NodeBack { away_ms } => format!("in reach again after {}", lasting(*away_ms)),
        EventKind::AllDone {
            finished,
            failed,
            took_ms,
        } => {
            let took = took_ms.map_or_else(String::new, |ms| format!(" in {}", lasting(ms)));
            format!("{}{took}", all_done(*finished, *failed))
        }
    }
}

/// `all 200 ended, 12 failed`.
pub(super) fn all_done(finished: u64, failed: u64) -> String {
    match (finished, failed) {
        (finished, 0) => format!("all {finished} finished"),
        (0, failed) => format!("all {failed} failed"),
        (finished, failed) => format!("all {} ended, {failed} failed", finished + failed),
    }
}

/// What happened in one or two words, for a subject.
pub(super) fn short(event: &LetterEvent) -> String {
    match &event.kind {
        EventKind::Started => "started".to_owned(),
        EventKind::Finished { .. } => "finished".to_owned(),
        EventKind::Crashed { how, .. } => format!("crashed ({})", line(how)),
        EventKind::Aborted { rule, .. } => format!("aborted by `{}`", line(rule)),
        EventKind::Cancelled { .. } => "aborted".to_owned(),
        EventKind::TimedOut { .. } => "timed out".to_owned(),
        EventKind::Lost { .. } => "lost".to_owned(),
        EventKind::Warned { rule, .. } => format!("warning by `{}`", line(rule)),
        EventKind::Remarked { text } => format!("warning: {}", line(text)),
        EventKind::Stalled { silent_ms } => format!("stalled for {}", lasting(*silent_ms)),
        EventKind::NodeAway { .. } => "is out of reach".to_owned(),
        EventKind::NodeBack { .. } => "is in reach again".to_owned(),
        EventKind::AllDone {
            finished, failed, ..
        } => all_done(*finished, *failed),
    }
}

/// `: loss 23.1, step 400`, or nothing.
fn values_text(values: &[(String, String)]) -> String {
    const VALUES_MAX: usize = 6;
    let shown = values.iter().take(VALUES_MAX);
    let shown: Vec<String> = shown
        .map(|(name, value)| format!("{} {}", line(name), line(value)).trim().to_owned())
        .collect();
    if shown.is_empty() {
        String::new()
    } else {
        format!(": {}", shown.join(", "))
    }
}

pub(super) fn lasting(ms: u64) -> String {
    duration(ms as f64 / 1000.0)
}

/// An estimate: `40 min`, `9 h`, `3 d`.
pub(super) fn about(ms: u64) -> String {
    const MINUTE: u64 = 60_000;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let rounded = |unit: u64| (ms + unit / 2) / unit;
    match ms {
        ms if ms < 2 * HOUR => format!("{} min", rounded(MINUTE).max(1)),
        ms if ms < 2 * DAY => format!("{} h", rounded(HOUR)),
        _ => format!("{} d", rounded(DAY)),
    }
}

/// `Tue 14:02`.
pub(super) fn time(ms: i64, zone: &TimeZone) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(at) => at.to_zoned(zone.clone()).strftime("%a %H:%M").to_string(),
        Err(_) => "-".to_owned(),
    }
}
