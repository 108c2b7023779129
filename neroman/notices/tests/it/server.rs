//! A real mail server: each way to it, and each of its refusals.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use nero_config::{Mail, MailLogin, MailSecurity, MailTransport, Smtp};
use nero_notices::{Envelope, Letter, MailThread, SendResult};
use nero_tests::MailServer;
use tempfile::TempDir;

use crate::{run, words};

struct Rig {
    server: MailServer,
    folder: TempDir,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = MailServer::start(&folder.path().join("server"));
        Self { server, folder }
    }

    /// A configuration for this server that trusts its authority.
    fn smtp(&self, security: MailSecurity) -> Smtp {
        let address = match security {
            MailSecurity::Tls => self.server.tls_address(),
            MailSecurity::StartTls | MailSecurity::None => self.server.address(),
        };
        let (host, port) = address.split_once(':').unwrap();
        Smtp {
            host: host.to_owned(),
            port: port.parse().unwrap(),
            security,
            ca: (security != MailSecurity::None).then(|| self.server.ca()),
            login: None,
        }
    }

    /// Sends the letter to this recipient.
    fn send(&self, smtp: &Smtp, to: &str) -> SendResult {
        self.send_from(smtp, "neronet@example.org", to)
    }

    fn send_from(&self, smtp: &Smtp, from: &str, to: &str) -> SendResult {
        let mail = Mail {
            relay: None,
            from: from.to_owned(),
            transport: MailTransport::Smtp(smtp.clone()),
            fields: BTreeMap::new(),
        };
        let envelope = Envelope {
            from: from.to_owned(),
            to: to.to_owned(),
        };
        let message = letter(to).compose().unwrap().bytes;
        run(nero_notices::send(&mail, &envelope, &message))
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

/// Lines that a server must not take for the end, and letters beyond ASCII.
fn letter(to: &str) -> Letter {
    Letter {
        key: "crashed/7f3a/1".to_owned(),
        from: "neronet@example.org".to_owned(),
        to: to.to_owned(),
        to_name: Some("Ada Lovelace".to_owned()),
        subject: "digits: 144 stürzte ab".to_owned(),
        date_ms: 1_790_000_000_000,
        thread: Some(MailThread {
            id: "deployment/digits".to_owned(),
            name: "digits".to_owned(),
        }),
        text: ".\n..\n.hidden\nheight 5 µm\n".to_owned(),
        html: "<p>height 5 µm</p>\n".to_owned(),
        picture: Some((0..=255).collect()),
    }
}

fn login(password: &str) -> Option<MailLogin> {
    Some(MailLogin {
        name: "tester".to_owned(),
        password_command: words(&["printf", password]),
    })
}

#[track_caller]
fn accepted(outcome: &SendResult) {
    match outcome {
        SendResult::Accepted(words) => assert!(words.starts_with("250 OK caught as"), "{words}"),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn later(outcome: &SendResult, hint: &str) {
    match outcome {
        SendResult::Later(words) => assert!(words.contains(hint), "{words}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_arrives_as_composed_by_each_way_to_a_server() {
    let rig = Rig::new();
    let ways = [
        (MailSecurity::None, None),
        (MailSecurity::StartTls, None),
        (MailSecurity::StartTls, login("secret")),
        (MailSecurity::Tls, None),
        (MailSecurity::Tls, login("secret\\nsecond line")),
    ];
    for (security, login) in ways.clone() {
        let smtp = Smtp {
            login,
            ..rig.smtp(security)
        };
        accepted(&rig.send(&smtp, "ada@example.org"));
    }
    let composed = letter("ada@example.org").compose().unwrap();
    let caught = rig.server.caught();
    assert_eq!(caught.len(), ways.len());
    for (mail, (security, login)) in caught.iter().zip(ways) {
        assert_eq!(mail.is_encrypted, security != MailSecurity::None);
        assert_eq!(mail.login.is_some(), login.is_some());
        assert_eq!(mail.to, ["ada@example.org"]);
        assert_eq!(mail.from, "neronet@example.org");
        let (sent, got) = (&composed.bytes, &mail.bytes);
        let (sent, got) = (String::from_utf8_lossy(sent), String::from_utf8_lossy(got));
        assert_eq!(sent.trim_end(), got.trim_end(), "the same bytes");
        assert_eq!(
            mail.header("To").as_deref(),
            Some("\"Ada Lovelace\" <ada@example.org>")
        );
        assert_eq!(mail.header("Message-ID"), Some(composed.message_id.clone()));
    }
}

#[test]
fn refusals_of_a_recipient_are_told_apart() {
    let rig = Rig::new();
    let smtp = rig.smtp(MailSecurity::StartTls);
    let refused = SendResult::Refused("550 5.1.1 no such user".to_owned());
    assert_eq!(rig.send(&smtp, "reject@example.org"), refused);
    later(
        &rig.send(&smtp, "later@example.org"),
        "451 4.3.0 try again later",
    );
    later(
        &rig.send(&smtp, "drop@example.org"),
        "broke off at the recipient",
    );
    accepted(&rig.send(&smtp, "slow@example.org"));
    let outcome = rig.send_from(&smtp, "refused@example.org", "ada@example.org");
    let SendResult::LoginRefused(words) = outcome else {
        panic!("a sender that is refused is refused for every mail: {outcome:?}");
    };
    assert!(
        words.contains("553") && words.contains("`mail.from`"),
        "{words}"
    );
    assert_eq!(rig.server.caught().len(), 1);
}

#[test]
fn a_refused_login_needs_a_person_and_a_broken_command_for_the_password_does_not() {
    let rig = Rig::new();
    let smtp = rig.smtp(MailSecurity::StartTls);
    let with = |login: Option<MailLogin>| {
        rig.send(
            &Smtp {
                login,
                ..smtp.clone()
            },
            "ada@example.org",
        )
    };
    let outcome = with(login("wrong"));
    let SendResult::LoginRefused(words) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(words.starts_with("535"), "{words}");
    assert!(!words.contains("wrong"), "{words}");
    let command = |command: &[&str]| {
        with(Some(MailLogin {
            name: "tester".to_owned(),
            password_command: crate::words(command),
        }))
    };
    later(
        &command(&["/nonexistent/pass"]),
        "cannot start `/nonexistent/pass`",
    );
    later(
        &command(&["sh", "-c", "echo secret; echo locked >&2; exit 1"]),
        "no password for tester: `sh` failed: locked",
    );
    later(&command(&["true"]), "`true` printed nothing");
    assert_eq!(rig.server.caught(), []);
}

#[test]
fn a_wrong_way_of_encryption_is_told_with_the_right_one() {
    let rig = Rig::new();
    let at = |security: MailSecurity, address: String| {
        let (_, port) = address.split_once(':').unwrap();
        Smtp {
            port: port.parse().unwrap(),
            ..rig.smtp(security)
        }
    };
    let open = at(MailSecurity::Tls, rig.server.address());
    later(
        &rig.send(&open, "ada@example.org"),
        "take `mail.security: starttls`",
    );
    let trusting = rig.smtp(MailSecurity::StartTls);
    for security in [MailSecurity::StartTls, MailSecurity::Tls] {
        let stranger = Smtp {
            ca: None,
            ..rig.smtp(security)
        };
        later(&rig.send(&stranger, "ada@example.org"), "set `mail.ca`");
    }
    let missing = Smtp {
        ca: Some("/nonexistent/ca.pem".into()),
        ..trusting.clone()
    };
    later(
        &rig.send(&missing, "ada@example.org"),
        "cannot read `mail.ca` /nonexistent/ca.pem",
    );
    let empty = Smtp {
        ca: Some(rig.file("empty.pem", "no certificate\n")),
        ..trusting.clone()
    };
    later(
        &rig.send(&empty, "ada@example.org"),
        "there is no certificate (PEM) in it",
    );
    accepted(&rig.send(&trusting, "ada@example.org"));
}

#[test]
fn a_server_that_is_away_gets_the_same_message_when_it_is_back() {
    let mut rig = Rig::new();
    let smtp = rig.smtp(MailSecurity::StartTls);
    rig.server.kill();
    later(&rig.send(&smtp, "ada@example.org"), "cannot reach");
    rig.server.restart();
    accepted(&rig.send(&smtp, "ada@example.org"));
    accepted(&rig.send(&smtp, "ada@example.org"));
    let caught = rig.server.caught();
    assert_eq!(
        caught[0].bytes, caught[1].bytes,
        "a repeat is known by its bytes"
    );
}
