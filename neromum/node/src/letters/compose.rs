//! The letter about ends, as bytes.

use std::path::Path;
use std::time::Duration;

use nero_journal::v1::{JobExited, StopAsked, StopCause};
use nero_model::paths::run::CLAIM;
use nero_model::safe::Safe;
use nero_model::{RunId, RunToken, ids, units};
use nero_wire::v1::{RelayClaim, RelayOrder, RunSpec};

/// Rows of a letter.
const ROWS_MAX: usize = 100;
/// Of a name or an output line.
const TEXT_CHARS_MAX: usize = 120;

/// A run that ended, as a letter tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRun {
    /// Its token.
    pub token: RunToken,
    /// The word of an order's events.
    pub event: &'static str,
    /// `144.2 sgd (mnist)`.
    label: String,
    /// `finished`, `crashed: exit code 3`.
    how: String,
    /// The last line that a crashed one printed.
    line: String,
}

impl EndedRun {
    /// Reads how a run ended from the records of its last start.
    pub fn read(id: RunId, token: RunToken, spec: Option<&RunSpec>, start: &Path) -> Self {
        let text = |text: &str| {
            let text: String = text.chars().take(TEXT_CHARS_MAX).collect();
            Safe::line(&text).to_string()
        };
        let label = match spec {
            Some(spec) => format!("{id} {} ({})", text(&spec.name), text(&spec.collection)),
            None => id.to_string(),
        };
        let bytes = std::fs::read(start.join(CLAIM)).unwrap_or_default();
        let (mut stop, mut exit) = (None::<StopAsked>, None::<JobExited>);
        if let Ok((_, records)) = nero_journal::scan(&bytes) {
            for record in records {
                if exit.is_none() {
                    stop = stop.or_else(|| record.message());
                    exit = record.message();
                }
            }
        }
        let (event, how) = how(stop.as_ref(), exit.as_ref());
        let failed = exit.as_ref().filter(|_| event != "finished");
        let line = failed.map_or_else(String::new, |exit| {
            text(&String::from_utf8_lossy(&exit.stderr_line))
        });
        Self {
            token,
            event,
            label,
            how,
            line,
        }
    }
}

/// The word of the event, and the words for people.
fn how(stop: Option<&StopAsked>, exit: Option<&JobExited>) -> (&'static str, String) {
    match (stop.map(StopAsked::cause), exit) {
        (Some(StopCause::TimeLimit), _) => ("timeout", "ended at its time limit".to_owned()),
        (Some(StopCause::Rule), _) => ("aborted", "ended by a rule".to_owned()),
        (Some(_), _) => ("aborted", "aborted".to_owned()),
        (None, None) => ("lost", "its end is not known".to_owned()),
        (None, Some(exit)) if exit.code_unknown => {
            ("lost", "its exit code is not known".to_owned())
        }
        (None, Some(exit)) if exit.signal != 0 => {
            ("crashed", format!("crashed: signal {}", exit.signal))
        }
        (None, Some(exit)) if exit.code != 0 => {
            ("crashed", format!("crashed: exit code {}", exit.code))
        }
        (None, Some(_)) => ("finished", "finished".to_owned()),
    }
}

/// The claim of a letter about these runs.
pub(super) fn claim(
    order: &RelayOrder,
    to: &str,
    runs: &[&EndedRun],
    away: Duration,
    id: [u8; 16],
) -> RelayClaim {
    let at_ms = nero_journal::Clocks::now().wall_ns / 1_000_000;
    let node = Safe::line(&order.node).to_string();
    let count = match runs.len() {
        1 => "1 run".to_owned(),
        many => format!("{many} runs"),
    };
    let subject = format!("[Neronet] {count} ended on {node}");
    let message_id = format!("<{}@{}>", ids::hex(&id), domain(&order.from));
    let minutes = away.as_secs() / 60 * 60_000;
    let mut body = format!(
        "{node} sends this by itself: it has not heard of neroman on {} for {}.\n\n",
        Safe::line(&order.home),
        units::print_duration_ms(minutes.max(60_000)),
    );
    for run in runs.iter().take(ROWS_MAX) {
        body.push_str(&format!("{}: {}\n", run.label, run.how));
        if !run.line.is_empty() {
            body.push_str(&format!("    {}\n", run.line));
        }
    }
    if runs.len() > ROWS_MAX {
        body.push_str(&format!("and {} more\n", runs.len() - ROWS_MAX));
    }
    let message = format!(
        "From: Neronet <{}>\nTo: <{to}>\nSubject: {}\nDate: {}\nMessage-ID: {message_id}\n\
         Auto-SubmissionResult: auto-generated\nMIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{body}",
        order.from,
        encoded(&subject),
        date(at_ms),
    );
    RelayClaim {
        id: id.to_vec(),
        from: order.from.clone(),
        to: to.to_owned(),
        subject,
        message_id,
        at_ms,
        tokens: runs.iter().map(|run| run.token.to_vec()).collect(),
        message: message.into_bytes(),
        is_sent: false,
        words: String::new(),
    }
}

fn domain(address: &str) -> &str {
    let domain = address.rsplit_once('@').map(|(_, domain)| domain);
    domain
        .filter(|domain| domain.is_ascii())
        .unwrap_or("localhost")
}

/// A header's text: other letters than those of ASCII as an encoded word (RFC 2047).
fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"=?_".contains(byte);
    if text.is_ascii() {
        text.to_owned()
    } else {
        let coded: String = (text.bytes())
            .map(|byte| {
                if plain(&byte) {
                    char::from(byte).to_string()
                } else {
                    format!("={byte:02X}")
                }
            })
            .collect();
        format!("=?utf-8?Q?{coded}?=")
    }
}

/// A date of RFC 5322, in UTC. Years begin in March here, so that a leap day is the last day of its
/// year.
fn date(at_ms: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb",
    ];
    let seconds = at_ms.div_euclid(1000);
    let (since_1970, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let weekday = DAYS[since_1970.rem_euclid(7) as usize];
    let days = since_1970 + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year + i64::from(month >= 10);
    let month = MONTHS[month as usize];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates_of_mail() {
        for (at_s, want) in [
            (0, "Thu, 01 Jan 1970 00:00:00 +0000"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 +0000"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 +0000"),
            (1_795_557_600, "Tue, 24 Nov 2026 22:00:00 +0000"),
        ] {
            assert_eq!(date(at_s * 1000), want);
        }
    }

    #[test]
    fn subjects_of_any_script_are_ascii() {
        assert_eq!(encoded("1 run ended on gpu1"), "1 run ended on gpu1");
        assert_eq!(encoded("knöt 1"), "=?utf-8?Q?kn=C3=B6t=201?=");
    }
}
