//! The verbs about files on nodes: `fetch`, `clean`, `du`, `exec`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use nero_wire::v1::*;

use crate::fake::{Answers, Fake, clean_reply};
use crate::samples;

#[test]
fn fetch_says_what_came() {
    let one = |experiment, files, failed: &str| FetchEvent {
        event: Some(fetch_event::Event::Done(fetch_event::One {
            experiment,
            run: 2,
            folder: "/r/latest".into(),
            files,
            bytes: files << 20,
            unchanged: 4,
            notes: vec![],
            failed: failed.into(),
            away: failed.starts_with("no contact"),
        })),
    };
    let with = |failed: &[&str]| {
        let failed = (5..).zip(failed).map(|(id, failed)| one(id, 0, failed));
        Fake::new(Answers {
            fetch: std::iter::once(one(3, 7, "")).chain(failed).collect(),
            ..Answers::default()
        })
    };
    for (failed, code) in [
        (&[][..], 0),
        (&["no contact"], 4),
        (&["no contact", "it has not been started"], 1),
    ] {
        assert_eq!(with(failed).run(&["fetch", "3-6"]).code, Some(code));
    }
    let fake = Fake::new(Answers {
        fetch: vec![one(3, 7, ""), one(4, 0, "no contact since 14:02")],
        ..Answers::default()
    });
    let ran = fake.run(&["fetch", "3,4", "--include", "*.pt"]);
    assert_eq!(ran.code, Some(4));
    assert_eq!(
        ran.out,
        "3.2  fetched 7 files, 7.0M · 4 unchanged  /r/latest\n\
         4.2  failed: no contact since 14:02\n\
         fetched 7 files, 7.0M of 1 run · failed 1\n"
    );
    assert_eq!(
        fake.requests(),
        ["fetch `3,4` Pacific/Chatham [\"*.pt\"] dry false"]
    );
}

#[test]
fn a_fetch_that_was_cut_says_each_run_once() {
    let one = |experiment| FetchEvent {
        event: Some(fetch_event::Event::Done(fetch_event::One {
            experiment,
            run: 1,
            files: 2,
            bytes: 10,
            ..fetch_event::One::default()
        })),
    };
    let fake = Fake::new(Answers {
        fetch: vec![one(3), one(4)],
        cuts: true,
        ..Answers::default()
    });
    assert_eq!(
        fake.ok(&["fetch", "3,4"]),
        "3.1  fetched 2 files, 10B\n4.1  fetched 2 files, 10B\nfetched 4 files, 20B of 2 runs\n"
    );
    assert_eq!(fake.requests().len(), 2, "it was asked for once more");
}

#[test]
fn a_pattern_that_fits_nothing_is_said_and_fails_when_nothing_else_does() {
    let one = |experiment, unchanged, note: &str| FetchEvent {
        event: Some(fetch_event::Event::Done(fetch_event::One {
            experiment,
            run: 1,
            unchanged,
            notes: vec![note.into()],
            ..fetch_event::One::default()
        })),
    };
    let with = |events: Vec<FetchEvent>| {
        Fake::new(Answers {
            fetch: events,
            ..Answers::default()
        })
    };
    let nothing = "nothing fits `*.pt`";
    let fake = with(vec![one(3, 0, nothing)]);
    let ran = fake.run(&["fetch", "3", "--include", "*.pt"]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(
        ran.out,
        "3.1  fetched 0 files, 0B\n  note: nothing fits `*.pt`\nfetched 0 files, 0B of 1 run\n"
    );
    fake.ok(&["fetch", "3"]);
    let fake = with(vec![one(3, 0, nothing), one(4, 1, nothing)]);
    fake.ok(&["fetch", "3,4", "--include", "*.pt"]);
}

#[test]
fn a_node_that_does_not_answer_is_named_after_a_moment() {
    let node = |name: &str, contact_ms| NodeView {
        name: name.into(),
        connected: true,
        contact_ms,
        ..NodeView::default()
    };
    let fake = Fake::new(Answers {
        hangs: true,
        list: ListReply {
            experiments: vec![ExperimentView {
                node: "beta".into(),
                ..samples::experiment(7, "a", "running")
            }],
            ..ListReply::default()
        },
        nodes: NodesReply {
            nodes: vec![
                node("answers", i64::MAX),
                node("alpha", 1_700_000_000_000),
                node("beta", 1_700_000_000_000),
            ],
            ..NodesReply::default()
        },
        ..Answers::default()
    });
    let first_word = |words: &[&str]| {
        let mut child = fake
            .command(words)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("text");
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
        line
    };
    let silent = |name: &str| format!("node {name} does not answer yet (last answer 11:58:20)…\n");
    assert_eq!(first_word(&["du"]), silent("alpha"));
    assert_eq!(first_word(&["du", "beta"]), silent("beta"));
    assert_eq!(first_word(&["fetch", "7"]), silent("beta"));
    assert_eq!(first_word(&["logs", "7"]), silent("beta"));
}

#[test]
fn clean_of_everything_needs_a_yes() {
    let fake = Fake::new(Answers {
        clean: clean_reply(1 << 20, ["", "", "running"]),
        ..Answers::default()
    });
    let ran = fake.run(&["clean"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(fake.requests().len(), 1, "it only looked");
    let said = fake.ok(&["clean", "--yes"]);
    assert_eq!(
        said,
        "alpha: freed 2.0M, 1.0M of it unused code, programs and images\n\
         cleaned 2 runs · 2.0M · skipped 1 running\n"
    );
    fake.ok(&["clean", "crashed", "--node", "alpha", "--unfetched"]);
    assert_eq!(
        fake.requests().last().map(String::as_str),
        Some("clean `crashed` Pacific/Chatham on `alpha` unfetched true dry false")
    );
}

#[test]
fn du_shows_nodes_and_home() {
    let fake = Fake::new(Answers {
        du: DuReply {
            nodes: vec![
                du_reply::OnNode {
                    node: "alpha".into(),
                    usage: Some(DiskUsageReply {
                        runs_bytes: 3 << 30,
                        store_bytes: 5 << 20,
                        free_bytes: 1 << 40,
                        ..DiskUsageReply::default()
                    }),
                    ..du_reply::OnNode::default()
                },
                du_reply::OnNode {
                    node: "beta".into(),
                    failed: "no contact since 14:02".into(),
                    away: true,
                    ..du_reply::OnNode::default()
                },
            ],
            home_store_bytes: 1 << 20,
            home_results_bytes: 2 << 20,
            home_database_bytes: 3 << 20,
        },
        ..Answers::default()
    });
    let ran = fake.run(&["du"]);
    assert_eq!(ran.code, Some(4));
    insta::assert_snapshot!("du", ran.out);
}

#[test]
fn exec_runs_in_the_folder_and_exits_as_the_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path().canonicalize().expect("a path");
    let var = EnvVar {
        name: "NERO_RUN".into(),
        value: "7.1".into(),
        ..EnvVar::default()
    };
    let place = LocateReply {
        node: "local".into(),
        folder: here.display().to_string(),
        env: vec![var],
        ..LocateReply::default()
    };
    let fake = Fake::new(Answers {
        place: place.clone(),
        ..Answers::default()
    });
    let script = "pwd; echo $NERO_RUN \"$1\"; exit 7";
    let ran = fake.run(&["exec", "7", "--", "/bin/sh", "-c", script, "sh", "a  b"]);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    assert_eq!(ran.out, format!("{}\n7.1 a  b\n", here.display()));
    // On another machine the words pass through a login shell there.
    let fake = Fake::new(Answers {
        place: LocateReply {
            argv: ["/bin/sh", "-c"]
                .map(|word| word.as_bytes().to_vec())
                .to_vec(),
            ..place
        },
        ..Answers::default()
    });
    let ran = fake.run(&["exec", "7", "--", "/bin/sh", "-c", script, "sh", "a  b"]);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    assert_eq!(ran.out, format!("{}\n7.1 a  b\n", here.display()));
    let ran = fake.run(&["exec", "7"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let ran = fake.run(&["shell", "7"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("needs a terminal"), "{}", ran.err);
}
