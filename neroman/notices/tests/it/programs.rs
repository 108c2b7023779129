//! `sendmail` and programs for events.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nero_config::{Mail, MailTransport};
use nero_model::process::Stat;
use nero_notices::{Envelope, SendResult};
use nero_tests::until;

use crate::{run, words};

fn script(folder: &Path, name: &str, lines: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn sendmail(program: &Path) -> SendResult {
    let mail = Mail {
        relay: None,
        from: "neronet@example.org".to_owned(),
        transport: MailTransport::Sendmail(program.to_path_buf()),
        fields: BTreeMap::new(),
    };
    let envelope = Envelope {
        from: "neronet@example.org".to_owned(),
        to: "-oQ/tmp@example.org".to_owned(),
    };
    run(nero_notices::send(
        &mail,
        &envelope,
        b"Subject: x\r\n\r\n.\r\nlone \r stays\r\n",
    ))
}

#[test]
fn sendmail_gets_the_message_as_files_here_are_and_no_address_is_an_option() {
    let folder = tempfile::tempdir().unwrap();
    let got = folder.path().join("got");
    let lines = format!(
        "{{ printf '[%s]' \"$@\"; echo; cat; }} >'{}'",
        got.display()
    );
    let program = script(folder.path(), "sendmail", &lines);
    let outcome = sendmail(&program);
    let SendResult::Accepted(words) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(words.contains("taken by"), "{words}");
    let expected = "[-i][-f][neronet@example.org][--][-oQ/tmp@example.org]\n\
                    Subject: x\n\n.\nlone \r stays\n";
    assert_eq!(fs::read_to_string(got).unwrap(), expected);
}

#[test]
fn codes_of_sendmail_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let with = |code: i32| {
        let lines = format!("echo 'queue is full' >&2; exit {code}");
        sendmail(&script(folder.path(), &format!("code{code}"), &lines))
    };
    assert!(matches!(with(67), SendResult::Refused(_)));
    assert!(matches!(with(78), SendResult::LoginRefused(_)));
    for code in [1, 75] {
        let outcome = with(code);
        let SendResult::Later(words) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(words.contains("queue is full"), "{words}");
    }
    assert!(matches!(
        sendmail(Path::new("/nonexistent/sendmail")),
        SendResult::Later(_)
    ));
}

#[test]
fn a_program_gets_the_event_and_its_code_counts() {
    let folder = tempfile::tempdir().unwrap();
    let got = folder.path().join("got").display().to_string();
    let hand = |lines: &str| {
        run(nero_notices::hand_to(
            &words(&["sh", "-c", lines, &got]),
            b"{\"event\":\"crashed\"}",
        ))
    };
    assert_eq!(
        hand("cat >\"$0\""),
        SendResult::Accepted("exit code 0".to_owned())
    );
    assert_eq!(fs::read(&got).unwrap(), b"{\"event\":\"crashed\"}");
    assert_eq!(
        hand("exit 0"),
        SendResult::Accepted("exit code 0".to_owned()),
        "it need not read"
    );
    assert_eq!(
        hand("echo busy; exit 75"),
        SendResult::Later("exit code 75: busy".to_owned())
    );
    let refused = SendResult::Refused("exit status: 3: no \\u{1b}[31mway".to_owned());
    assert_eq!(hand("printf 'no \\033[31mway\\n' >&2; exit 3"), refused);
}

#[test]
fn what_a_program_leaves_running_holds_up_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pid");
    let lines = "sleep 600 & echo $! >\"$0\"";
    let command = words(&["sh", "-c", lines, path.to_str().unwrap()]);
    assert!(matches!(
        run(nero_notices::hand_to(&command, b"{}")),
        SendResult::Accepted(_)
    ));
    let pid: i32 = fs::read_to_string(path).unwrap().trim().parse().unwrap();
    assert!(Stat::read(pid).is_ok(), "it is not touched");
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_program_ends_with_everything_it_started_when_the_sending_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pid");
    let lines = "sleep 600 & echo $! >\"$0.part\"; mv \"$0.part\" \"$0\"; wait";
    let command = words(&["sh", "-c", lines, path.to_str().unwrap()]);
    let pid: i32 = run(async {
        let hand = nero_notices::hand_to(&command, b"{}");
        let started = async {
            loop {
                if let Ok(text) = fs::read_to_string(&path) {
                    break text.trim().parse().unwrap();
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            outcome = hand => panic!("{outcome:?}"),
            pid = started => pid,
        }
    });
    until("the end of its child", || match Stat::read(pid) {
        Ok(stat) if stat.state != b'Z' => Err(format!("{stat:?}")),
        Ok(_) | Err(_) => Ok(()),
    });
}
