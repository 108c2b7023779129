//! `user`, `mail` and `notify`.

use std::path::Path;

use nero_config::{Config, Edit, From, MailSecurity, MailTransport, NotifyEvent, QuietHours, Smtp};
use nero_model::Home;

fn read(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("config.yaml"), text).map_err(|error| error.to_string())
}

fn smtp(text: &str) -> Smtp {
    let config = read(text).unwrap_or_else(|error| panic!("{error}"));
    match config.mail.unwrap().transport {
        MailTransport::Smtp(smtp) => smtp,
        MailTransport::Sendmail(program) => panic!("{program:?} in {text}"),
    }
}

const WHOLE: &str = "\
user: {name: Ada Lovelace, email: ada@example.org}
mail:
  smtp: smtp.example.org
  security: tls
  ca: ~/mail-ca.pem
  login: ada
  password_command: pass show 'mail of work'
  from: runs@example.org
notify:
  events: [crashed, done]
  to: [ada@example.org, bob@example.org]
  digest: 8h
  quiet: 22:00-07:30
  limit: 5
  webhook: {url: 'https://chat.example.org/hook?x=1', ca: ~/web.pem, secret_command: [pass, hook]}
  command: ./tell.sh --loud
";

#[test]
fn everything_is_read() {
    let config = read(WHOLE).unwrap();
    let user = config.user.as_ref().unwrap();
    assert_eq!(user.name.as_deref(), Some("Ada Lovelace"));
    assert_eq!(config.name_of("ada@example.org"), Some("Ada Lovelace"));
    assert_eq!(config.name_of("bob@example.org"), None);
    let mail = config.mail.as_ref().unwrap();
    assert_eq!(mail.from, "runs@example.org");
    let server = smtp(WHOLE);
    assert_eq!(
        (server.host.as_str(), server.port),
        ("smtp.example.org", 465)
    );
    assert_eq!(server.security, MailSecurity::Tls);
    assert_eq!(server.ca.as_deref(), Some(Path::new("~/mail-ca.pem")));
    let login = server.login.unwrap();
    assert_eq!(login.name, "ada");
    assert_eq!(login.password_command, ["pass", "show", "mail of work"]);
    let notify = &config.notify;
    assert_eq!(notify.to, ["ada@example.org", "bob@example.org"]);
    assert!(notify.wants(NotifyEvent::Crashed) && !notify.wants(NotifyEvent::Aborted));
    assert_eq!(notify.digest_ms, Some(8 * 3_600_000));
    let quiet = QuietHours {
        from_minute: 22 * 60,
        to_minute: 7 * 60 + 30,
    };
    assert_eq!(notify.quiet, Some(quiet));
    assert_eq!(notify.limit_per_hour(), 5);
    let webhook = notify.webhook.as_ref().unwrap();
    assert_eq!(webhook.url, "https://chat.example.org/hook?x=1");
    assert_eq!(webhook.ca.as_deref(), Some("~/web.pem".as_ref()));
    assert_eq!(
        webhook.secret_command.as_deref(),
        Some(&["pass".to_owned(), "hook".to_owned()][..])
    );
    assert_eq!(
        notify.command.as_deref(),
        Some(&["./tell.sh".to_owned(), "--loud".to_owned()][..])
    );
}

#[test]
fn a_password_alone_is_of_the_sender() {
    let server = smtp("user: {email: a@b}\nmail: {smtp: s, password_command: pass}\n");
    assert_eq!(server.login.unwrap().name, "a@b");
}

#[test]
fn mail_needs_only_an_address_and_a_server() {
    let text = "user: {email: ada@example.org}\nmail: {smtp: smtp.example.org}\n";
    let config = read(text).unwrap();
    assert_eq!(config.mail.as_ref().unwrap().from, "ada@example.org");
    assert_eq!(config.notify.to, ["ada@example.org"]);
    assert_eq!(config.notify.limit_per_hour(), 20);
    assert!(config.notify.wants(NotifyEvent::Crashed));
    assert!(!config.notify.wants(NotifyEvent::Started));
    let server = smtp(text);
    assert_eq!(
        (server.port, server.security),
        (587, MailSecurity::StartTls)
    );
    let config = read("mail: {sendmail: /usr/sbin/sendmail}\nuser: {email: a@b}\n").unwrap();
    let program = MailTransport::Sendmail("/usr/sbin/sendmail".into());
    assert_eq!(config.mail.unwrap().transport, program);
    for text in [
        "",
        "user:\nmail:\nnotify:\n",
        "notify: {webhook: 'http://localhost:1/x'}\n",
    ] {
        assert_eq!(read(text).unwrap().mail, None, "{text}");
    }
}

#[test]
fn servers_have_ports() {
    let of = |server: &str| {
        let server = smtp(&format!(
            "user: {{email: a@b}}\nmail: {{smtp: '{server}', security: none}}\n"
        ));
        (server.host.clone(), server.port, server.address())
    };
    assert_eq!(
        of("localhost"),
        ("localhost".into(), 25, "localhost:25".into())
    );
    assert_eq!(
        of("127.0.0.1:2525"),
        ("127.0.0.1".into(), 2525, "127.0.0.1:2525".into())
    );
    assert_eq!(of("[::1]:2525"), ("::1".into(), 2525, "[::1]:2525".into()));
    assert_eq!(of("::1"), ("::1".into(), 25, "[::1]:25".into()));
}

#[test]
fn quiet_hours_go_across_midnight() {
    let night = QuietHours {
        from_minute: 22 * 60,
        to_minute: 7 * 60,
    };
    let day = QuietHours {
        from_minute: 7 * 60,
        to_minute: 22 * 60,
    };
    for minute in 0..24 * 60 {
        let is_night = !(7 * 60..22 * 60).contains(&minute);
        assert_eq!(
            (night.holds(minute), day.holds(minute)),
            (is_night, !is_night),
            "{minute}"
        );
    }
}

#[test]
fn mistakes_say_what_to_write() {
    let with_user = |rest: &str| format!("user: {{email: ada@example.org}}\n{rest}\n");
    let table = [
        (
            "mail: {smtp: smtp.example.org}\n".to_owned(),
            "`mail` has no sender",
        ),
        (
            "mail: {smtp: s, from: a@b}\n".to_owned(),
            "`mail` has nobody to write to",
        ),
        (with_user("mail: {}"), "neither `smtp` nor `sendmail`"),
        (
            with_user("mail: {smtp: s, sendmail: /x}"),
            "both `smtp` and `sendmail`",
        ),
        (
            with_user("mail: {sendmail: /x, login: a}"),
            "`mail.login` is for `mail.smtp`",
        ),
        (
            with_user("mail: {sendmail: sendmail}"),
            "`mail.sendmail` takes a whole path",
        ),
        (
            with_user("mail: {smtp: s, login: a}"),
            "`mail.login` has no password",
        ),
        (
            with_user("mail: {smtp: s, password: secret}"),
            "a password does not stand in a file",
        ),
        (
            with_user("mail: {smtp: s, security: none, password_command: b}"),
            "would send the password in clear text",
        ),
        (
            with_user("mail: {smtp: s, security: ssl}"),
            "takes starttls, tls or none",
        ),
        (
            with_user("mail: {smtp: 'a b'}"),
            "`mail.smtp` takes a server",
        ),
        (
            with_user("mail: {smtp: 's:99999'}"),
            "`mail.smtp` takes a server",
        ),
        (
            with_user("mail: {smtp: s, relay: alpha}"),
            "`mail.relay` is the unknown node `alpha`",
        ),
        (
            with_user("mail: {smtp: s, relay_after: 20m}"),
            "`mail.relay_after` is for `mail.relay`",
        ),
        (
            with_user("nodes: {a: {address: a}}\nmail: {smtp: s, relay: a, relay_after: 20s}"),
            "`mail.relay_after` takes a minute or more",
        ),
        (
            with_user("mail: {smtp: s, smpt: t}"),
            "is no word of the configuration",
        ),
        (
            with_user("mail: {smtp: s, login: \"a\\nb\", password_command: c}"),
            "one short line",
        ),
        (
            "user: {email: ada}\n".to_owned(),
            "`user.email` takes an address, not `ada`",
        ),
        (
            "user: {email: \"a@b\\nBcc: c@d\"}\n".to_owned(),
            "`user.email` takes an address",
        ),
        (
            "notify: {to: a@b}\n".to_owned(),
            "is about mail, and there is no `mail`",
        ),
        (
            "notify: {events: [crash]}\n".to_owned(),
            "`notify.events` takes started",
        ),
        (
            "notify: {command: \"tell 'x\"}\n".to_owned(),
            "a quote that is not closed",
        ),
        ("notify: {command: []}\n".to_owned(), "names no program"),
        (
            "notify: {webhook: ftp://x}\n".to_owned(),
            "takes an address of the web",
        ),
        (
            "notify: {webhook: {secret_command: a}}\n".to_owned(),
            "has no `url`",
        ),
        (
            "notify: {webhook: {url: 'https://x', ca: web.pem}}\n".to_owned(),
            "`notify.webhook.ca` takes a whole path",
        ),
        (
            with_user("mail: {smtp: s}\nnotify: {quiet: 22-7}"),
            "takes two times of day",
        ),
        (
            with_user("mail: {smtp: s}\nnotify: {quiet: '07:00-07:00'}"),
            "takes two times of day",
        ),
        (
            with_user("mail: {smtp: s}\nnotify: {limit: 0}"),
            "a number of mails in an hour",
        ),
        (
            with_user("mail: {smtp: s}\nnotify: {digest: 5s}"),
            "takes a minute or more",
        ),
    ];
    for (text, message) in table {
        let error = read(&text).expect_err(&text);
        assert!(error.contains(message), "{text}\n{error}");
        assert!(
            !error.contains("has 2 mistakes"),
            "one fault, one mistake: {text}\n{error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn values_are_set_and_the_rest_of_the_file_stays() {
    let set = |text: &str, key: &str, value: &str| {
        let edit = Edit::Set {
            key: key.to_owned(),
            value: value.to_owned(),
        };
        edit.on(Path::new("config.yaml"), text)
    };
    let before = "# mine\nuser: {email: a@b} # me\n";
    let after = set(before, "mail.smtp", "smtp.example.org:587").unwrap();
    assert_eq!(
        after,
        format!("{before}mail:\n  smtp: smtp.example.org:587\n")
    );
    let after = set(&after, "notify.to", "a@b, c@d").unwrap();
    assert!(after.ends_with("notify:\n  to: [a@b, c@d]\n"), "{after}");
    let after = set(&after, "notify.events", "crashed done").unwrap();
    let config = read(&after).unwrap();
    assert_eq!(
        config.notify.events,
        Some(vec![NotifyEvent::Crashed, NotifyEvent::Done])
    );
    let after = set(&after, "notify.to", "").unwrap();
    assert_eq!(read(&after).unwrap().notify.to, ["a@b"]);
    assert!(after.starts_with(before), "{after}");
    for (key, value) in [
        ("mail.security", "ssl"),
        ("user.email", "ada"),
        ("mail.x", "y"),
        ("user.email", ""),
    ] {
        assert!(set(&after, key, value).is_err(), "{key}");
    }
}

#[test]
fn origins_name_the_lines_and_never_a_password() {
    let home = Home::below(Path::new("/h"));
    let origins = read(WHOLE).unwrap().origins(&home, |_| None);
    let of = |key: &str| {
        let found = origins.iter().find(|origin| origin.key == key);
        let origin = found.unwrap_or_else(|| panic!("no {key} in {origins:#?}"));
        (origin.value.as_deref(), origin.from)
    };
    assert_eq!(
        of("mail.smtp"),
        (Some("smtp.example.org:465"), From::File { line: 3 })
    );
    assert_eq!(
        of("notify.events"),
        (Some("crashed, done"), From::File { line: 10 })
    );
    assert_eq!(
        of("notify.quiet"),
        (Some("22:00-07:30"), From::File { line: 13 })
    );
    let text = "user: {email: a@b}\nmail: {smtp: s}\n";
    let origins = read(text).unwrap().origins(&home, |_| None);
    let from = origins
        .iter()
        .find(|origin| origin.key == "mail.from")
        .unwrap();
    assert_eq!(
        (from.value.as_deref(), from.from),
        (Some("a@b"), From::Default)
    );
    let none = read("").unwrap().origins(&home, |_| None);
    let is_mail = |key: &str| {
        ["mail.", "notify.", "user."]
            .iter()
            .any(|word| key.starts_with(word))
    };
    assert!(!none.iter().any(|origin| is_mail(&origin.key)), "{none:#?}");
}
