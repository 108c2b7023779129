//! `notify`: what is told to whom, and when.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use nero_model::safe::quoted;
use nero_yaml::{Fields, Kind, Node, Zero};

use crate::config::{Place, Word};
use crate::mail::{address, command, file};
use crate::values::{entries, odd_word, text};

/// What is told to whom, and when.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notify {
    /// What is told where the file names it; see [`Notify::wants`].
    pub events: Option<Vec<NotifyEvent>>,
    /// Who gets mail: `to`, else the owner; empty without either.
    pub to: Vec<String>,
    /// How often a digest goes out while something runs.
    pub digest_ms: Option<u64>,
    /// Hours of the day in which no mail goes out.
    pub quiet: Option<QuietHours>,
    /// Most mails in an hour where the file sets it; see [`Notify::limit_per_hour`].
    pub limit: Option<u32>,
    /// What else is told of each event.
    pub webhook: Option<Webhook>,
    /// The program, with its arguments, that gets each event.
    pub command: Option<Vec<String>>,
    /// Where each word stands.
    pub fields: BTreeMap<&'static str, Place>,
}

/// More mails in an hour are one mail.
const LIMIT_PER_HOUR: u32 = 20;

impl Notify {
    /// Whether an event of this kind is told.
    pub fn wants(&self, event: NotifyEvent) -> bool {
        match &self.events {
            Some(events) => events.contains(&event),
            None => event.is_usual(),
        }
    }

    /// Most mails in an hour: 20 unless given.
    pub fn limit_per_hour(&self) -> u32 {
        self.limit.unwrap_or(LIMIT_PER_HOUR)
    }
}

/// What can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotifyEvent {
    /// A run started.
    Started,
    /// A run ended with success.
    Finished,
    /// A run ended with an error.
    Crashed,
    /// A rule or a person ended a run.
    Aborted,
    /// A run reached its time limit.
    Timeout,
    /// It is not known what became of a run.
    Lost,
    /// A rule warned of a run.
    Warning,
    /// A run is silent for long.
    Stalled,
    /// A node went out of reach or came back.
    Node,
    /// All runs of a start have ended.
    Done,
}

impl NotifyEvent {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Started,
        Self::Finished,
        Self::Crashed,
        Self::Aborted,
        Self::Timeout,
        Self::Lost,
        Self::Warning,
        Self::Stalled,
        Self::Node,
        Self::Done,
    ];

    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Finished => "finished",
            Self::Crashed => "crashed",
            Self::Aborted => "aborted",
            Self::Timeout => "timeout",
            Self::Lost => "lost",
            Self::Warning => "warning",
            Self::Stalled => "stalled",
            Self::Node => "node",
            Self::Done => "done",
        }
    }

    /// Whether it is told where the file names no events: all but what goes well one by one.
    fn is_usual(self) -> bool {
        !matches!(self, Self::Started | Self::Finished)
    }
}

/// Hours of the local day, in minutes since midnight; the end is not in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietHours {
    /// Their first minute.
    pub from_minute: u16,
    /// The minute behind their last; below `from_minute` across midnight.
    pub to_minute: u16,
}

impl QuietHours {
    /// Whether a minute of the day is in them.
    pub fn holds(self, minute: u16) -> bool {
        if self.from_minute <= self.to_minute {
            (self.from_minute..self.to_minute).contains(&minute)
        } else {
            minute >= self.from_minute || minute < self.to_minute
        }
    }
}

impl std::fmt::Display for QuietHours {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (from, to) = (self.from_minute, self.to_minute);
        let (a, b, c, d) = (from / 60, from % 60, to / 60, to % 60);
        write!(f, "{a:02}:{b:02}-{c:02}:{d:02}")
    }
}

/// A server that is told of each event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Where events are sent.
    pub url: String,
    /// A file of certificates (PEM) that are trusted beside those of the system.
    pub ca: Option<PathBuf>,
    /// The program, with its arguments, that prints the key of signatures; none are made
    /// without.
    pub secret_command: Option<Vec<String>>,
}

/// Words of `notify`.
pub(crate) const NOTIFY_WORDS: &[&str] = &[
    "events", "to", "digest", "quiet", "limit", "webhook", "command",
];
/// Words that concern mail alone.
const OF_MAIL: &[&str] = &["to", "digest", "quiet", "limit"];
const WEBHOOK_WORDS: &[&str] = &["url", "ca", "secret_command"];

/// Digests more often than this are no digests.
const DIGEST_MS_MIN: u64 = 60_000;
/// More mails in an hour are no limit.
const LIMIT_MAX: u32 = 3600;
/// More recipients than one owner writes to.
const RECIPIENTS_MAX: usize = 20;

/// Reads the value of `notify`.
pub(crate) fn read(fields: &mut Fields, given: &Node) -> Notify {
    let mut notify = Notify::default();
    for entry in entries(fields, given, "notify", "notify: {events: [crashed, done]}") {
        let full = format!("notify.{}", entry.key);
        let Some(known) = NOTIFY_WORDS.iter().find(|word| **word == entry.key) else {
            odd_word(fields, entry, "notify.", NOTIFY_WORDS, &[]);
            continue;
        };
        let value = &entry.value;
        if value.is_null() {
            continue;
        }
        notify.fields.insert(known, entry.key_mark);
        match *known {
            "events" => notify.events = Some(events(fields, &full, value)),
            "to" => notify.to = recipients(fields, &full, value),
            "digest" => notify.digest_ms = digest(fields, &full, value),
            "quiet" => notify.quiet = quiet(fields, &full, value),
            "limit" => notify.limit = limit(fields, &full, value),
            "webhook" => notify.webhook = webhook(fields, &full, value),
            _ => notify.command = command(fields, &full, value, "./tell.sh"),
        }
    }
    notify
}

/// Reports words of `notify` that concern mail in a file without `mail`, and a `mail` without
/// any recipient.
pub(crate) fn check(fields: &mut Fields, notify: &Notify, mail: Option<Place>, is_read: bool) {
    match mail {
        None => {
            for word in OF_MAIL {
                if let Some(place) = notify.fields.get(word) {
                    let message = format!("`notify.{word}` is about mail, and there is no `mail`");
                    let hint = "`neroman config set mail.smtp smtp.example.org`";
                    fields.wrong(*place, message, hint);
                }
            }
        }
        Some(place) if is_read && notify.to.is_empty() => {
            let hint = "`neroman config set user.email ADDRESS`, or give `notify.to`";
            fields.wrong(place, "`mail` has nobody to write to", hint);
        }
        Some(_) => {}
    }
}

/// The items of a list, or a single one.
fn items(fields: &mut Fields, full: &str, value: &Rc<Node>, example: &str) -> Vec<Rc<Node>> {
    match &value.kind {
        Kind::List(items) => items.clone(),
        Kind::Scalar { .. } => vec![Rc::clone(value)],
        Kind::Map(_) => {
            let message = format!("`{full}` takes a list");
            fields.wrong(value.mark, message, format!("for example {example}"));
            Vec::new()
        }
    }
}

fn events(fields: &mut Fields, full: &str, value: &Rc<Node>) -> Vec<NotifyEvent> {
    let words = NotifyEvent::ALL.map(|event| (event.as_str(), event));
    let mut events = Vec::new();
    for item in items(fields, full, value, "[crashed, aborted, done]") {
        let event = fields.choice(full, &item, &words);
        if let Some(event) = event.filter(|event| !events.contains(event)) {
            events.push(event);
        }
    }
    events
}

fn recipients(fields: &mut Fields, full: &str, value: &Rc<Node>) -> Vec<String> {
    let mut to: Vec<String> = Vec::new();
    let items = items(fields, full, value, "[ada@example.org]");
    if items.len() > RECIPIENTS_MAX {
        let message = format!("`{full}` has more than {RECIPIENTS_MAX} addresses");
        fields.wrong(value.mark, message, "a mailing list takes one address");
        return to;
    }
    for item in items {
        let one = address(fields, full, &item);
        if let Some(one) = one.filter(|one| !to.contains(one)) {
            to.push(one);
        }
    }
    to
}

fn digest(fields: &mut Fields, full: &str, value: &Node) -> Option<u64> {
    let ms = fields.duration_ms(full, value, Zero::Refused)?;
    if ms < DIGEST_MS_MIN {
        let message = format!("`{full}` takes a minute or more");
        fields.wrong(value.mark, message, "for example 8h");
        return None;
    }
    Some(ms)
}

fn quiet(fields: &mut Fields, full: &str, value: &Node) -> Option<QuietHours> {
    let given: Word = text(fields, full, value, "22:00-07:00")?;
    let minute = |text: &str| {
        let (hour, minute) = text.trim().split_once(':')?;
        let (hour, minute) = (hour.parse::<u16>().ok()?, minute.parse::<u16>().ok()?);
        (hour < 24 && minute < 60).then_some(hour * 60 + minute)
    };
    let hours = given.text.split_once('-').and_then(|(from, to)| {
        Some(QuietHours {
            from_minute: minute(from)?,
            to_minute: minute(to)?,
        })
    });
    let hours = hours.filter(|hours| hours.from_minute != hours.to_minute);
    if hours.is_none() {
        let message = format!(
            "`{full}` takes two times of day, not {}",
            quoted(&given.text)
        );
        fields.wrong(value.mark, message, "for example 22:00-07:00");
    }
    hours
}

fn limit(fields: &mut Fields, full: &str, value: &Node) -> Option<u32> {
    let given = fields.single(full, value)?;
    let number = given.parse::<u32>().ok();
    let number = number.filter(|number| (1..=LIMIT_MAX).contains(number));
    if number.is_none() {
        let message = format!(
            "`{full}` takes a number of mails in an hour, not {}",
            quoted(given)
        );
        fields.wrong(value.mark, message, "for example 20");
    }
    number
}

/// An address of the web, or a map with it and its key.
fn webhook(fields: &mut Fields, full: &str, value: &Node) -> Option<Webhook> {
    const EXAMPLE: &str = "https://chat.example.org/hook";
    let Kind::Map(_) = &value.kind else {
        let url = url(fields, full, value)?;
        return Some(Webhook {
            url,
            ca: None,
            secret_command: None,
        });
    };
    let before = fields.count();
    let mut given = None;
    let mut ca = None;
    let mut secret_command = None;
    for entry in fields.map(full, value, EXAMPLE) {
        let inner = format!("{full}.{}", entry.key);
        match entry.key.as_str() {
            "url" => given = url(fields, &inner, &entry.value),
            "ca" => ca = file(fields, &inner, &entry.value, &["/", "~/"], "~/web-ca.pem"),
            "secret_command" => {
                secret_command = command(fields, &inner, &entry.value, "pass show hook");
            }
            _ => odd_word(fields, entry, "notify.webhook.", WEBHOOK_WORDS, &[]),
        }
    }
    if given.is_none() && fields.count() == before {
        let message = format!("`{full}` has no `url`");
        fields.wrong(value.mark, message, format!("for example {EXAMPLE}"));
    }
    given.map(|url| Webhook {
        url,
        ca,
        secret_command,
    })
}

fn url(fields: &mut Fields, full: &str, value: &Node) -> Option<String> {
    let given = text(fields, full, value, "https://chat.example.org/hook")?.text;
    let rest = ["https://", "http://"]
        .iter()
        .find_map(|scheme| given.strip_prefix(scheme));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    let fits = host.is_some_and(|host| !host.is_empty() && !host.contains('@'));
    if !fits || !given.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format!(
            "`{full}` takes an address of the web, not {}",
            quoted(&given)
        );
        fields.wrong(
            value.mark,
            message,
            "for example https://chat.example.org/hook",
        );
        return None;
    }
    Some(given)
}
