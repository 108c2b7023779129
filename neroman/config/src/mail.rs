//! `user` and `mail`: who the owner is, and how mail leaves this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nero_format::split_command;
use nero_model::safe::quoted;
use nero_model::units;
use nero_yaml::{Fields, Kind, Node, Zero};

use crate::config::{Config, Place};
use crate::notify::NotifyEvent;
use crate::origin::{From, Origin};
use crate::values::{entries, odd_word, text};

/// The owner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    /// The name beside the address in mail for them.
    pub name: Option<String>,
    /// The address that mail goes to unless `notify.to` names others.
    pub email: Option<String>,
    /// Where each word stands.
    pub fields: BTreeMap<&'static str, Place>,
}

/// How mail leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// The sender's address: `from`, else the owner's.
    pub from: String,
    /// What takes the messages.
    pub transport: MailTransport,
    /// The node that tells of ends while this machine is away.
    pub relay: Option<MailRelay>,
    /// Where each word stands.
    pub fields: BTreeMap<&'static str, Place>,
}

/// The node that tells of ends while this machine is away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailRelay {
    /// Its name.
    pub node: String,
    /// How long this machine has to be away, in milliseconds.
    pub after_ms: u64,
}

/// What takes messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailTransport {
    /// A mail server.
    Smtp(Smtp),
    /// A program like `sendmail`, by its absolute path.
    Sendmail(PathBuf),
}

/// A mail server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Smtp {
    /// Its name or address.
    pub host: String,
    /// The port: 587 with STARTTLS, 465 with TLS, 25 without encryption, unless it is given.
    pub port: u16,
    /// When the connection becomes encrypted.
    pub security: MailSecurity,
    /// A file of certificates (PEM) to trust beside those of the system; `~/` is the home.
    pub ca: Option<PathBuf>,
    /// The account, and how its password is had; none without a command for it.
    pub login: Option<MailLogin>,
}

impl Smtp {
    /// `HOST:PORT`.
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// An account at a mail server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailLogin {
    /// Its name: the sender's address unless given.
    pub name: String,
    /// The program, with its arguments, that prints the password.
    pub password_command: Vec<String>,
}

/// When a connection to a mail server becomes encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MailSecurity {
    /// After the greeting, by the command STARTTLS; never without.
    #[default]
    StartTls,
    /// At once.
    Tls,
    /// Never.
    None,
}

impl MailSecurity {
    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StartTls => "starttls",
            Self::Tls => "tls",
            Self::None => "none",
        }
    }

    /// The usual port.
    fn port(self) -> u16 {
        match self {
            Self::StartTls => 587,
            Self::Tls => 465,
            Self::None => 25,
        }
    }
}

const SECURITY: &[(&str, MailSecurity)] = &[
    ("starttls", MailSecurity::StartTls),
    ("tls", MailSecurity::Tls),
    ("none", MailSecurity::None),
];

/// Words of `user`.
pub(crate) const USER_WORDS: &[&str] = &["name", "email"];
/// Words of `mail`.
pub(crate) const MAIL_WORDS: &[&str] = &[
    "smtp",
    "security",
    "ca",
    "login",
    "password_command",
    "sendmail",
    "from",
    "relay",
    "relay_after",
];
/// A machine that is away for less has no letters sent for it.
const RELAY_AFTER_MS_MIN: u64 = 60_000;
const RELAY_AFTER_MS: u64 = 15 * 60_000;
/// Words of `mail` that only a server takes.
const SMTP_WORDS: &[&str] = &["security", "ca", "login", "password_command"];

/// Longer addresses are not delivered (RFC 5321).
const ADDRESS_BYTES_MAX: usize = 254;
/// The same of the part before the `@`.
const LOCAL_PART_BYTES_MAX: usize = 64;
/// Longer names do not fit in a line of a header.
const NAME_BYTES_MAX: usize = 200;

/// Reads the value of `user`.
pub(crate) fn read_user(fields: &mut Fields, given: &Node) -> User {
    let mut user = User::default();
    for entry in entries(fields, given, "user", "user: {email: ada@example.org}") {
        let full = format!("user.{}", entry.key);
        let Some(known) = USER_WORDS.iter().find(|word| **word == entry.key) else {
            odd_word(fields, entry, "user.", USER_WORDS, &[]);
            continue;
        };
        if entry.value.is_null() {
            continue;
        }
        user.fields.insert(known, entry.key_mark);
        match *known {
            "name" => user.name = one_line(fields, &full, &entry.value, "Ada Lovelace"),
            _ => user.email = address(fields, &full, &entry.value),
        }
    }
    user
}

/// The values of `mail` as they stand in the file.
#[derive(Default)]
struct MailValues {
    smtp: Option<(String, Option<u16>)>,
    security: Option<MailSecurity>,
    ca: Option<PathBuf>,
    login: Option<String>,
    password_command: Option<Vec<String>>,
    sendmail: Option<PathBuf>,
    from: Option<String>,
    relay: Option<String>,
    relay_after_ms: Option<u64>,
}

/// Reads the value of `mail`, that stands at `place`.
pub(crate) fn read_mail(
    fields: &mut Fields,
    given: &Node,
    place: Place,
    user: Option<&User>,
) -> Option<Mail> {
    let before = fields.count();
    let mut words = BTreeMap::new();
    let mut read = MailValues::default();
    for entry in entries(fields, given, "mail", "mail: {smtp: smtp.example.org}") {
        let full = format!("mail.{}", entry.key);
        if entry.key == "password" {
            let message = "`mail.password`: a password does not stand in a file";
            let hint = "give a command that prints it, for example \
                        `password_command: pass show mail`";
            fields.wrong(entry.key_mark, message, hint);
            continue;
        }
        let Some(known) = MAIL_WORDS.iter().find(|word| **word == entry.key) else {
            odd_word(fields, entry, "mail.", MAIL_WORDS, &[]);
            continue;
        };
        let value = &entry.value;
        if value.is_null() {
            continue;
        }
        words.insert(*known, entry.key_mark);
        match *known {
            "smtp" => read.smtp = server(fields, &full, value),
            "security" => read.security = fields.choice(&full, value, SECURITY),
            "ca" => read.ca = file(fields, &full, value, &["/", "~/"], "~/mail-ca.pem"),
            "login" => read.login = one_line(fields, &full, value, "ada"),
            "password_command" => {
                read.password_command = command(fields, &full, value, "pass show mail");
            }
            "sendmail" => {
                read.sendmail = file(fields, &full, value, &["/"], "/usr/sbin/sendmail");
            }
            "relay" => read.relay = one_line(fields, &full, value, "alpha"),
            "relay_after" => read.relay_after_ms = relay_after(fields, &full, value),
            _ => read.from = address(fields, &full, value),
        }
    }
    if fields.count() > before {
        return None;
    }
    check(fields, &read, &words, place);
    let owner = user.and_then(|user| user.email.clone());
    let from = read.from.clone().or(owner);
    if from.is_none() && fields.count() == before {
        let hint = "`neroman config set user.email ADDRESS`, or give `mail.from`";
        fields.wrong(place, "`mail` has no sender", hint);
    }
    let from = from?;
    let relay = read.relay.clone().map(|node| MailRelay {
        node,
        after_ms: read.relay_after_ms.unwrap_or(RELAY_AFTER_MS),
    });
    let transport = transport(read, &from);
    (fields.count() == before).then_some(())?;
    Some(Mail {
        from,
        transport: transport?,
        relay,
        fields: words,
    })
}

fn relay_after(fields: &mut Fields, full: &str, value: &Node) -> Option<u64> {
    let ms = fields.duration_ms(full, value, Zero::Refused)?;
    if ms < RELAY_AFTER_MS_MIN {
        let message = format!("`{full}` takes a minute or more");
        fields.wrong(value.mark, message, "for example 15m");
        return None;
    }
    Some(ms)
}

/// Reports words that do not go together.
fn check(
    fields: &mut Fields,
    read: &MailValues,
    words: &BTreeMap<&'static str, Place>,
    place: Place,
) {
    let at = |word: &str| words.get(word).copied().unwrap_or(place);
    if read.relay.is_none() && words.contains_key("relay_after") {
        let message = "`mail.relay_after` is for `mail.relay`, the node that sends letters";
        fields.wrong(at("relay_after"), message, "for example `relay: alpha`");
    }
    match (&read.smtp, &read.sendmail) {
        (None, None) => {
            let hint = "give `smtp: smtp.example.org`, or `sendmail: /usr/sbin/sendmail`";
            fields.wrong(place, "`mail` has neither `smtp` nor `sendmail`", hint);
        }
        (Some(_), Some(_)) => {
            let message = "`mail` has both `smtp` and `sendmail`";
            fields.wrong(at("sendmail"), message, "keep one of them");
        }
        (None, Some(_)) => {
            for word in SMTP_WORDS.iter().filter(|word| words.contains_key(*word)) {
                let message = format!("`mail.{word}` is for `mail.smtp`");
                fields.wrong(at(word), message, "`sendmail` needs none of it");
            }
        }
        (Some(server), None) => check_login(fields, read, server, at),
    }
}

/// Reports a login that is not whole, or that others could read on the way.
fn check_login(
    fields: &mut Fields,
    read: &MailValues,
    (host, _): &(String, Option<u16>),
    at: impl Fn(&str) -> Place,
) {
    if read.login.is_some() && read.password_command.is_none() {
        let hint = "first a command that prints it, for example `password_command: pass show mail`";
        fields.wrong(at("login"), "`mail.login` has no password", hint);
    }
    let is_open = read.security == Some(MailSecurity::None);
    if is_open && read.password_command.is_some() && !is_loopback(host) {
        let message = "`mail.security: none` would send the password in clear text";
        fields.wrong(at("security"), message, "take `starttls` or `tls`");
    }
}

fn transport(read: MailValues, from: &str) -> Option<MailTransport> {
    if let Some(program) = read.sendmail {
        return Some(MailTransport::Sendmail(program));
    }
    let (host, port) = read.smtp?;
    let security = read.security.unwrap_or_default();
    let name = read.login.unwrap_or_else(|| from.to_owned());
    let login = read.password_command.map(|password_command| MailLogin {
        name,
        password_command,
    });
    Some(MailTransport::Smtp(Smtp {
        host,
        port: port.unwrap_or(security.port()),
        security,
        ca: read.ca,
        login,
    }))
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// `HOST`, `HOST:PORT`, `[ADDRESS]:PORT`.
fn server(fields: &mut Fields, full: &str, value: &Node) -> Option<(String, Option<u16>)> {
    let given = text(fields, full, value, "smtp.example.org")?.text;
    let parsed = match given
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, "")) => Some((host, None)),
        Some((host, port)) => port.strip_prefix(':').map(|port| (host, Some(port))),
        None => match given.split_once(':') {
            Some((_, rest)) if rest.contains(':') => Some((given.as_str(), None)),
            Some((host, port)) => Some((host, Some(port))),
            None => Some((given.as_str(), None)),
        },
    };
    let is_ip = |host: &str| host.parse::<std::net::IpAddr>().is_ok();
    let fits = |(host, port): (&str, Option<&str>)| {
        let number = port.map(|port| port.parse::<u16>().ok().filter(|port| *port > 0));
        match number {
            Some(None) => None,
            Some(Some(port)) if is_ip(host) || is_domain(host) => {
                Some((host.to_owned(), Some(port)))
            }
            None if is_ip(host) || is_domain(host) => Some((host.to_owned(), None)),
            Some(Some(_)) | None => None,
        }
    };
    let server = parsed.and_then(fits);
    if server.is_none() {
        let message = format!("`{full}` takes a server, not {}", quoted(&given));
        let hint = "for example smtp.example.org or smtp.example.org:587";
        fields.wrong(value.mark, message, hint);
    }
    server
}

/// An absolute path, or one with another of the `starts`.
/// The path of a file.
pub(crate) fn file(
    fields: &mut Fields,
    full: &str,
    value: &Node,
    starts: &[&str],
    example: &str,
) -> Option<PathBuf> {
    let given = text(fields, full, value, example)?.text;
    let fits = starts.iter().any(|start| given.starts_with(start));
    if !fits || given.contains(char::is_control) {
        let message = format!("`{full}` takes a whole path, not {}", quoted(&given));
        fields.wrong(value.mark, message, format!("for example {example}"));
        return None;
    }
    Some(PathBuf::from(given))
}

/// Text without control characters, since it goes into a line of a protocol.
pub(crate) fn one_line(
    fields: &mut Fields,
    full: &str,
    value: &Node,
    example: &str,
) -> Option<String> {
    let given = text(fields, full, value, example)?.text;
    if given.contains(char::is_control) || given.len() > NAME_BYTES_MAX {
        let message = format!("`{full}` takes one short line, not {}", quoted(&given));
        fields.wrong(value.mark, message, format!("for example {example}"));
        return None;
    }
    Some(given)
}

/// One address of mail.
pub(crate) fn address(fields: &mut Fields, full: &str, value: &Node) -> Option<String> {
    let given = text(fields, full, value, "ada@example.org")?.text;
    if !is_address(&given) {
        let message = format!("`{full}` takes an address, not {}", quoted(&given));
        fields.wrong(value.mark, message, "for example ada@example.org");
        return None;
    }
    Some(given)
}

/// Whether this is an address that the mail of today delivers: no comments, no quotes.
fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let odd = |c: char| {
        !c.is_ascii_alphanumeric() && !"!#$%&'*+-/=?^_`{|}~.".contains(c) && !c.is_alphabetic()
    };
    let dots = local.starts_with('.') || local.ends_with('.') || local.contains("..");
    !local.is_empty()
        && local.len() <= LOCAL_PART_BYTES_MAX
        && text.len() <= ADDRESS_BYTES_MAX
        && !local.contains(odd)
        && !dots
        && is_domain(domain)
}

/// Whether this is a name of the domain name system.
fn is_domain(name: &str) -> bool {
    const LABEL_BYTES_MAX: usize = 63;
    let fits = |label: &str| {
        !label.is_empty()
            && label.len() <= LABEL_BYTES_MAX
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
    };
    name.split('.').all(fits)
}

/// A program with its arguments: a line, or a list.
pub(crate) fn command(
    fields: &mut Fields,
    full: &str,
    value: &Node,
    example: &str,
) -> Option<Vec<String>> {
    let words = match &value.kind {
        Kind::List(items) => items
            .iter()
            .map(|item| fields.single(full, item).map(str::to_owned))
            .collect::<Option<Vec<String>>>()?,
        Kind::Scalar { .. } => {
            let line = text(fields, full, value, example)?.text;
            let Some(words) = split_command(&line) else {
                let message = format!("`{full}` has a quote that is not closed");
                fields.wrong(value.mark, message, "close it, or write a list of words");
                return None;
            };
            words
        }
        Kind::Map(_) => {
            fields.single(full, value)?;
            return None;
        }
    };
    if words.first().is_none_or(String::is_empty) {
        let message = format!("`{full}` names no program");
        fields.wrong(value.mark, message, format!("for example {example}"));
        return None;
    }
    Some(words)
}

/// Every word of `user`, `mail` and `notify` that is set, and what holds without.
pub(crate) fn origins(config: &Config) -> Vec<Origin> {
    let sections = [
        ("user", of_user(config)),
        ("mail", of_mail(config)),
        ("notify", of_notify(config)),
    ];
    let mut origins = Vec::new();
    for (section, (places, words)) in sections {
        let set = words.into_iter();
        let set = set.filter_map(|(word, value)| Some((word, value?)));
        origins.extend(set.map(|(word, value)| Origin {
            key: format!("{section}.{word}"),
            value: Some(value),
            otherwise: "",
            from: match places.and_then(|places| places.get(word)) {
                Some(place) => From::File { line: place.line },
                None => From::Default,
            },
        }));
    }
    origins
}

/// Where the words of a section stand, and each word with its value.
type Section<'c> = (
    Option<&'c BTreeMap<&'static str, Place>>,
    Vec<(&'static str, Option<String>)>,
);

fn of_user(config: &Config) -> Section<'_> {
    let user = config.user.as_ref();
    let words = vec![
        ("name", user.and_then(|user| user.name.clone())),
        ("email", user.and_then(|user| user.email.clone())),
    ];
    (user.map(|user| &user.fields), words)
}

fn of_mail(config: &Config) -> Section<'_> {
    let Some(mail) = &config.mail else {
        return (None, Vec::new());
    };
    let (smtp, sendmail) = match &mail.transport {
        MailTransport::Smtp(smtp) => (Some(smtp), None),
        MailTransport::Sendmail(program) => (None, Some(program.display().to_string())),
    };
    let login = smtp.and_then(|smtp| smtp.login.as_ref());
    let ca = smtp.and_then(|smtp| smtp.ca.as_ref());
    let relay = mail.relay.as_ref();
    let words = vec![
        ("smtp", smtp.map(Smtp::address)),
        (
            "security",
            smtp.map(|smtp| smtp.security.as_str().to_owned()),
        ),
        ("ca", ca.map(|ca| ca.display().to_string())),
        ("login", login.map(|login| login.name.clone())),
        (
            "password_command",
            login.map(|login| login.password_command.join(" ")),
        ),
        ("sendmail", sendmail),
        ("from", Some(mail.from.clone())),
        ("relay", relay.map(|relay| relay.node.clone())),
        (
            "relay_after",
            relay.map(|relay| units::print_duration_ms(relay.after_ms)),
        ),
    ];
    (Some(&mail.fields), words)
}

fn of_notify(config: &Config) -> Section<'_> {
    let (notify, mail) = (&config.notify, config.mail.as_ref());
    let tells = mail.is_some() || notify.webhook.is_some() || notify.command.is_some();
    let events = NotifyEvent::ALL.iter();
    let events = events.filter(|event| notify.wants(**event));
    let events: Vec<&str> = events.map(|event| event.as_str()).collect();
    let is_told = tells || notify.events.is_some();
    let webhook = notify.webhook.as_ref();
    let command = notify.command.as_ref();
    let words = vec![
        ("events", is_told.then(|| events.join(", "))),
        ("to", mail.map(|_| notify.to.join(", "))),
        ("digest", notify.digest_ms.map(units::print_duration_ms)),
        ("quiet", notify.quiet.map(|quiet| quiet.to_string())),
        ("limit", mail.map(|_| notify.limit_per_hour().to_string())),
        ("webhook", webhook.map(|webhook| webhook.url.clone())),
        ("command", command.map(|words| words.join(" "))),
    ];
    (Some(&notify.fields), words)
}

#[cfg(test)]
mod tests {
    use super::is_address;

    #[test]
    fn addresses_are_checked() {
        for good in ["a@b", "ada.l+x@example.org", "jörg@müller.de", "o'k@a-b.c"] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "ada",
            "@b",
            "a@",
            "a b@c",
            "a@b c",
            "a\n@b",
            ".a@b",
            "a..b@c",
            "a.@b",
            "a@-b",
            "a@b..c",
            "<a@b>",
            "a,b@c",
            "\"a\"@b",
            "a@b>",
            "a@b:25",
            "a@[1.2.3.4]",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
        assert!(!is_address(&format!("{}@b", "x".repeat(65))));
    }
}
