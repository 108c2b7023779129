//! What goes wrong between the program and the daemon.

use nero_wire::v1::*;
use prost::Message as _;
use tonic::{Code, Status};

use crate::fake::{Answers, Fake};
use crate::samples;

#[test]
fn a_failure_of_the_daemon_is_shown_with_its_exit_code() {
    for exit_code in [1, 2, 3, 4, 70] {
        let failure = Failure {
            what: "cannot read the selector".into(),
            causes: vec!["`crashde` is no state".into()],
            hint: "did you mean `crashed`?".into(),
            hint_names: true,
            exit_code,
            report: "  crashde\n  ^^^^^^^\n".into(),
            ..Failure::default()
        };
        let details = failure.encode_to_vec().into();
        let fake = Fake::new(Answers {
            fails: Some(Status::with_details(Code::Unavailable, "x", details)),
            ..Answers::default()
        });
        let ran = fake.run(&["status", "crashde"]);
        assert_eq!(ran.code, i32::try_from(exit_code).ok(), "{ran:?}");
        assert_eq!(
            ran.err,
            "error: cannot read the selector\ncaused by: `crashde` is no state\n  \
             crashde\n  ^^^^^^^\nhint: did you mean `crashed`?\n"
        );
        assert_eq!(ran.out, "");
        let lists = fake.requests();
        let lists = lists.iter().filter(|request| request.starts_with("list"));
        assert_eq!(lists.count(), 1, "an answer is not asked for again");
        let ran = fake.run(&["status", "crashde", "--json"]);
        let value: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_eq!(value["error"]["exit_code"], exit_code);
        assert_eq!(ran.err, "");
    }
}

#[test]
fn a_lost_connection_repeats_the_same_request_once() {
    let fake = Fake::new(Answers {
        loses: 1,
        start: samples::started(),
        ..Answers::default()
    });
    let ran = fake.run(&["start", "1-6"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ids = fake.request_ids();
    assert_eq!(ids.len(), 2, "asked twice");
    assert_eq!(ids[0], ids[1], "with one id");
    assert_eq!(ids[0].len(), 16);
}

#[test]
fn a_connection_that_is_lost_again_is_an_error() {
    let fake = Fake::new(Answers {
        loses: 9,
        ..Answers::default()
    });
    let ran = fake.run(&["start", "1-6"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.err.contains("again and again"), "{}", ran.err);
    assert_eq!(fake.requests().len(), 2);
}

#[test]
fn a_lost_wait_is_asked_anew() {
    let fake = Fake::new(Answers {
        loses: 1,
        wait: vec![WaitEvent {
            ended: vec![samples::experiment(1, "a", "finished")],
            still_live: 0,
            done: true,
            ..WaitEvent::default()
        }],
        ..Answers::default()
    });
    let ran = fake.run(&["wait", "1"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "finished 1\n"));
}

#[test]
fn a_log_goes_on_where_it_was_cut() {
    let chunk = |offset: u64, text: &str| LogChunk {
        offset,
        data: text.into(),
        ..LogChunk::default()
    };
    let fake = Fake::new(Answers {
        cuts: true,
        logs: vec![
            chunk(0, "one\n"),
            chunk(4, "two\n"),
            LogChunk {
                offset: 8,
                end: true,
                ..LogChunk::default()
            },
        ],
        ..Answers::default()
    });
    let ran = fake.run(&["logs", "1", "-f"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "one\ntwo\n"),
        "{ran:?}"
    );
    assert_eq!(fake.requests().len(), 2);
}

#[test]
fn another_version_is_said_and_another_protocol_refused() {
    let own = nero_wire::hello::own(Role::Neroman, "9.9.9+abc", None);
    let fake = Fake::new(Answers {
        hello: Some(own.clone()),
        ..Answers::default()
    });
    let ran = fake.run(&["status"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("version 9.9.9"), "{}", ran.err);
    let fake = Fake::new(Answers {
        hello: Some(Hello {
            protocol_lowest: 98,
            protocol_highest: 99,
            ..own
        }),
        ..Answers::default()
    });
    let ran = fake.run(&["status"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.err.contains("speaks protocols 98 to 99"), "{}", ran.err);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let many: Vec<ExperimentView> = (1..5000)
        .map(|id| samples::experiment(id, "a", "running"))
        .collect();
    let fake = Fake::new(Answers {
        list: ListReply {
            experiments: many,
            ..ListReply::default()
        },
        ..Answers::default()
    });
    let mut child = fake
        .command(&["status", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn an_interrupt_is_130() {
    use std::io::Read as _;
    // The stream ends without `done` only after the first message was seen.
    let fake = Fake::new(Answers {
        watch: vec![WatchEvent {
            experiments: vec![samples::experiment(1, "a", "running")],
            first: true,
            live: 1,
            ..WatchEvent::default()
        }],
        hangs: true,
        ..Answers::default()
    });
    let mut child = fake
        .command(&["status", "--watch"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut first = [0; 5];
    child
        .stdout
        .as_mut()
        .expect("a pipe")
        .read_exact(&mut first)
        .expect("a line");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("own child");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}
