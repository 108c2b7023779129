//! Mail about real runs through a real server: each event once, whatever dies.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nero_tests::chaos::clock::WallClock;
use nero_tests::{CaughtMail, Home, MailServer, Part, WebhookServer, until};
use serde_json::Value;

/// Rounds of kills: few, unless a person asks for more.
fn rounds() -> u64 {
    let asked = std::env::var("NERONET_MAIL_ROUNDS").ok();
    asked.map_or(4, |asked| asked.parse().expect("a number of rounds"))
}

fn config(server: &MailServer, password: &str, notify: &str) -> String {
    format!(
        "user: {{email: ada@example.org}}\nmail:\n  smtp: {}\n  ca: {}\n  login: tester\n  password_command: echo {password}\nnotify: {notify}\n",
        server.address(),
        server.ca().display()
    )
}

/// A home that sends mail about these events through a server.
fn told(server: &MailServer, password: &str, notify: &str) -> Home {
    let home = Home::new();
    home.configure(&config(server, password, notify));
    home
}

/// Adds an experiment that is the only one of its collection, and starts it.
fn start(home: &Home, collection: &str, fields: &str) {
    let yaml = format!("collection: {collection}\n+{collection}:\n{fields}");
    let folder = home.experiment(collection, &yaml);
    home.ok(&["start", &folder.display().to_string()]);
}

fn text(mail: &CaughtMail) -> String {
    String::from_utf8_lossy(&mail.bytes).into_owned()
}

/// Waits until no delivery waits; returns all of them.
fn until_told(home: &Home, count: usize) -> Vec<Value> {
    until("everything to be told", || {
        let list = home.json(&["mail", "list"]);
        let deliveries = list["deliveries"].as_array().unwrap().clone();
        let over = deliveries
            .iter()
            .filter(|one| one["state"] != "waiting" && one["state"] != "blocked")
            .count();
        if list["notices"] == 0 && over == deliveries.len() && over >= count {
            Ok(deliveries)
        } else {
            Err((list, home.logs()))
        }
    })
}

#[test]
fn each_end_is_told_with_its_reason_and_once_also_to_the_next_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let server = MailServer::start(folder.path());
    let home = told(
        &server,
        "secret",
        "{events: [finished, crashed, aborted, warning]}",
    );
    start(&home, "fine", "  command: sh -c 'echo loss = 0.25'\n");
    start(
        &home,
        "bad",
        "  command: sh -c 'echo first; echo no such file >&2; exit 3'\n",
    );
    start(
        &home,
        "high",
        "  command: sh -c 'echo loss = 9; sleep 600'\n  rules: [{abort: loss > 5}]\n",
    );
    let mails = server.wait_for(3);
    let about = |collection: &str| {
        let prefix = format!("{collection}: ");
        let of = |mail: &&CaughtMail| mail.header("Subject").unwrap().starts_with(&prefix);
        let found: Vec<&CaughtMail> = mails.iter().filter(of).collect();
        assert_eq!(found.len(), 1, "about {collection}: {mails:?}");
        text(found[0])
    };
    assert!(about("fine").contains("finished"));
    let bad = about("bad");
    assert!(
        bad.contains("exit code 3") && bad.contains("no such file"),
        "{bad}"
    );
    let high = about("high");
    assert!(
        high.contains("loss > 5") && high.contains("loss 9"),
        "{high}"
    );
    for mail in &mails {
        assert!(mail.is_encrypted);
        assert_eq!(mail.login.as_deref(), Some("tester"));
        assert_eq!(mail.to, ["ada@example.org"]);
    }
    until_told(&home, 3);
    home.kill(Part::Daemon);
    home.ok(&["status"]);
    let list = until_told(&home, 3);
    assert!(list.iter().all(|one| one["state"] == "sent"), "{list:?}");
    assert_eq!(server.caught().len(), 3);
}

#[test]
fn a_refused_login_holds_all_mail_back_until_a_person_mends_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = MailServer::start(folder.path());
    let notify = "{events: [crashed]}";
    let home = told(&server, "wrong", notify);
    for name in ["one", "two"] {
        start(&home, name, "  command: sh -c 'exit 3'\n");
    }
    let note = until("status to tell", || {
        let shown = home.json(&["status"]);
        let notes = shown["notes"].as_array().unwrap().clone();
        let note = notes.iter().find_map(|note| {
            let note = note.as_str()?;
            note.starts_with("mail: 2 wait since ")
                .then(|| note.to_owned())
        });
        note.ok_or(shown)
    });
    assert!(
        note.contains("535") && note.contains("neroman mail retry"),
        "{note}"
    );
    assert_eq!(server.caught(), []);
    home.configure(&config(&server, "secret", notify));
    home.ok(&["mail", "retry"]);
    server.wait_for(2);
    let list = until_told(&home, 2);
    assert!(list.iter().all(|one| one["state"] == "sent"), "{list:?}");
}

#[test]
fn a_refused_recipient_keeps_no_other_from_its_mail() {
    let folder = tempfile::tempdir().unwrap();
    let server = MailServer::start(folder.path());
    let to = "{events: [crashed], to: [reject@example.org, ada@example.org]}";
    let home = told(&server, "secret", to);
    start(&home, "one", "  command: sh -c 'exit 3'\n");
    let mails = server.wait_for(1);
    assert_eq!(mails[0].to, ["ada@example.org"]);
    let list = until_told(&home, 2);
    let of = |to: &str| {
        let one = list.iter().find(|one| one["to"] == to).unwrap();
        one["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (of("reject@example.org"), of("ada@example.org")),
        ("refused".to_owned(), "sent".to_owned())
    );
}

/// While something runs a digest tells how far it came, with a row and a curve of each run.
#[test]
fn a_digest_has_the_runs_and_their_curves() {
    let Some(clock) = WallClock::make().unwrap() else {
        eprintln!("skipped: a clock of our own needs root");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let server = MailServer::start(folder.path());
    let home = told(&server, "secret", "{events: [crashed], digest: 1h}");
    let go = home.path().join("go");
    let go = go.display();
    let held = format!(
        "sh -c 'for s in 1 2 3; do echo step $s loss {{lr}}.$s; done; until [ -e {go} ]; do sleep 0.05; done'"
    );
    let fields = format!("  command: {held}\n  parameters: {{lr: [1, 2]}}\n");
    start(&home, "digits", &fields);
    for experiment in [1, 2] {
        until("the points of a run", || {
            let seen = home.experiment_json(experiment);
            if seen["metrics"]["loss"]["count"] == 3 {
                Ok(())
            } else {
                Err(seen)
            }
        });
    }
    assert_eq!(server.caught(), [], "a digest is due after an hour");
    clock.set(3600 + 60).unwrap();
    // The daemon looks at its clock at the next change.
    start(&home, "short", "  command: 'true'\n");
    let mails = server.wait_for(1);
    std::fs::write(home.path().join("go"), "").unwrap();
    let subject = mails[0].header("Subject").unwrap();
    assert_eq!(subject, "neronet: 0 of 2 done");
    let mail = text(&mails[0]);
    for value in ["1.3", "2.3"] {
        let row = |line: &str| line.contains("running") && line.trim_end().ends_with(value);
        assert!(mail.lines().any(row), "{value} in {mail}");
    }
    assert!(mail.contains("Content-ID: <plot>"), "{mail}");
    // The first bytes of every PNG, in base64.
    let png = mail
        .split("Content-Type: image/png")
        .nth(1)
        .expect("a picture");
    assert!(png.contains("\r\n\r\niVBORw0KGgo"), "{mail}");
    until_told(&home, 1);
    assert_eq!(server.caught().len(), 1);
}

/// Runs that are held are in the first line of each mail, and a digest that would tell the same
/// as the one before is left out.
#[test]
fn held_runs_are_told_first_and_by_one_digest() {
    let Some(clock) = WallClock::make().unwrap() else {
        eprintln!("skipped: a clock of our own needs root");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let server = MailServer::start(folder.path());
    let home = Home::new();
    let notify = "{events: [crashed], digest: 1h}\nnodes: {local: {cpus: 1}}";
    home.configure(&config(&server, "secret", notify));
    // The sixth waits for its end, so that the others surely wait for its CPU.
    let go = home.path().join("go").display().to_string();
    let script = "if [ {i} = 5 ]; then while ! [ -e GO ]; do sleep 0.02; done; exit 0; fi; echo no such file {i} >&2; exit 3";
    let fields = format!(
        "  command: sh -c '{}'\n  parameters: {{i: !!python/tuple [0, 20]}}\n  resources: {{cpus: 1}}\n",
        script.replace("GO", &go)
    );
    start(&home, "many", &fields);
    let first_line = |mail: &CaughtMail| {
        let text = text(mail).replace("=\r\n", "").replace("\r\n", " ");
        text.contains("wait for you: the first 5 of its start crashed as ")
            && text.contains("`neroman resume ")
    };
    until("a mail about the runs that are held", || {
        let caught = server.caught();
        if caught.iter().any(first_line) {
            Ok(())
        } else {
            Err((caught.iter().map(text).collect::<Vec<_>>(), home.logs()))
        }
    });
    until_told(&home, 1);
    std::fs::write(&go, "").unwrap();
    until("the sixth to end", || {
        let list = home.json(&["status"]);
        let all = list["experiments"].as_array().unwrap();
        if all.iter().any(|one| one["state"] == "running") {
            Err(list)
        } else {
            Ok(())
        }
    });
    let next_hour = |hour: i64| {
        clock.set(hour * 3700).unwrap();
        // The daemon looks at its clock at the next change.
        let name = format!("hour{hour}");
        let yaml = format!("+{name}:\n  command: 'true'\n");
        home.ok(&["add", &home.experiment(&name, &yaml).display().to_string()]);
    };
    let digests = || {
        let is_digest = |mail: &CaughtMail| {
            let subject = mail.header("Subject").unwrap();
            subject.starts_with("neronet: ") && subject.contains(" of 20 done")
        };
        let digests = server.caught().into_iter().filter(is_digest);
        digests.collect::<Vec<CaughtMail>>()
    };
    next_hour(1);
    until("the first digest", || match digests().len() {
        1 => Ok(()),
        _ => Err(home.logs()),
    });
    until_told(&home, 2);
    next_hour(2);
    until("the next digest to be left out", || {
        let logs = home.logs();
        if logs.contains("a digest is left out") {
            Ok(())
        } else {
            Err(logs)
        }
    });
    until_told(&home, 2);
    let digests = digests();
    assert_eq!(digests.len(), 1);
    assert!(first_line(&digests[0]), "{}", text(&digests[0]));
    assert!(digests[0].header("References").is_some());
}

/// A webhook whose certificate is not trusted gets nothing; once its authority is, each event.
#[test]
fn a_webhook_gets_its_events_over_tls_once_its_authority_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let server = WebhookServer::start(folder.path());
    let home = Home::new();
    let config = |ca: &str| {
        let url = server.url();
        format!("notify: {{events: [crashed], webhook: {{url: '{url}'{ca}}}}}\n")
    };
    home.configure(&config(""));
    start(&home, "one", "  command: sh -c 'exit 3'\n");
    let why = until("the refusal of the certificate", || {
        let list = home.json(&["mail", "list"]);
        let why = list["deliveries"][0]["words"].as_str().unwrap_or_default();
        if why.is_empty() {
            Err(list)
        } else {
            Ok(why.to_owned())
        }
    });
    assert!(
        why.contains("an authority that is not trusted here") && why.contains("notify.webhook.ca"),
        "{why}"
    );
    assert_eq!(server.events(), [] as [Value; 0]);
    home.configure(&config(&format!(", ca: {}", server.ca().display())));
    // Nobody asks for a retry: the changed configuration is enough.
    until("the event", || {
        if server.events().is_empty() {
            Err(home.json(&["mail", "list"]))
        } else {
            Ok(())
        }
    });
    until_told(&home, 1);
    let events = server.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["event"], "crashed", "{events:?}");
    assert_eq!(events[0]["how"], "exit code 3", "{events:?}");
}

/// Whatever is killed whenever: each crash is in exactly one letter, no letter is missing, and a
/// repeat has the same id and the same bytes.
#[test]
fn kills_of_daemon_and_server_lose_no_mail_and_repeat_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = MailServer::start(folder.path());
    let home = told(&server, "secret", "{events: [crashed], limit: 3600}");
    let mut moment: u64 = 7;
    for round in 0..rounds() {
        start(&home, &format!("c{round}"), "  command: sh -c 'exit 3'\n");
        moment = moment
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let after = Duration::from_millis((moment >> 33) % 1200);
        let began = Instant::now();
        until("a moment", || {
            if began.elapsed() > after {
                Ok(())
            } else {
                Err(())
            }
        });
        if round % 3 != 2 {
            home.kill(Part::Daemon);
        }
        if round % 3 != 0 {
            server.kill();
            server.restart();
        }
        home.ok(&["status"]);
        home.ok(&["mail", "retry"]);
    }
    let wanted = usize::try_from(rounds()).unwrap();
    until("every crash to be told", || {
        // What met the dead server waits for a minute otherwise.
        home.ok(&["mail", "retry"]);
        let list = home.json(&["mail", "list"]);
        let subjects = subjects(&server.caught());
        if subjects.len() >= wanted && list["notices"] == 0 {
            Ok(())
        } else {
            Err((subjects, list, home.logs()))
        }
    });
    until_told(&home, wanted.min(200));
    let mut letters: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for mail in server.caught() {
        let id = mail.header("Message-ID").unwrap();
        let first = letters.entry(id).or_insert_with(|| mail.bytes.clone());
        assert!(
            *first == mail.bytes,
            "a repeat with other bytes: {}",
            text(&mail)
        );
    }
    assert_eq!(letters.len(), wanted, "{letters:?}");
    assert_eq!(subjects(&server.caught()).len(), wanted);
}

/// The letters by their collections, each with its count of ids.
fn subjects(mails: &[CaughtMail]) -> BTreeMap<String, usize> {
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for mail in mails {
        let subject = mail.header("Subject").unwrap();
        let collection = subject.split(':').next().unwrap().to_owned();
        let ids = seen.entry(collection).or_default();
        let id = mail.header("Message-ID").unwrap();
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    for (collection, ids) in &seen {
        assert_eq!(ids.len(), 1, "{collection} was told in several letters");
    }
    seen.into_iter()
        .map(|(name, ids)| (name, ids.len()))
        .collect()
}
