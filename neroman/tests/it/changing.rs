//! The output of verbs that change runs, wait for them or follow them, and the requests to
//! the daemon for it.

use nero_wire::v1::*;

use crate::fake::{Answers, Fake};
use crate::samples;

#[test]
fn start_ends_with_counts() {
    let fake = Fake::new(Answers {
        start: samples::started(),
        ..Answers::default()
    });
    let ran = fake.run(&["--start", "1-6", "--node", "local"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        ran.err,
        "note: 2: lr 0.01 → 0.003\n\
         note: each run takes 14 files along, 2.1M; leaves out data/ (.gitignore), 3 × *.pt (.gitignore)\n"
    );
    insta::assert_snapshot!("start", ran.out);
    assert_eq!(
        fake.requests(),
        [
            "start `1-6` Pacific/Chatham [] node \"local\" restart false dry false as added false \
             abandon false at most 0"
        ]
    );
}

#[test]
fn start_takes_paths_and_selectors() {
    let fake = Fake::new(Answers {
        start: samples::started(),
        ..Answers::default()
    });
    let folder = fake.path().join("exp");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("neronet.yaml"), "").expect("a file");
    let ran = fake.run(&["start", "exp", "crashed", "exp/*"]);
    assert!(
        ran.err.contains("`exp` is read as the file or folder"),
        "{ran:?}"
    );
    let asked = fake.requests().remove(0);
    assert!(
        asked.starts_with("start `crashed,exp/*`") && asked.contains("/exp\"] node"),
        "{asked}"
    );
}

#[test]
fn add_sends_the_listed_variables_alone() {
    let fake = Fake::new(Answers::default());
    fake.ok(&["add", "x", "--dry-run"]);
    assert_eq!(
        fake.requests(),
        [format!(
            "add [\"{}/x\"] [\"CONDA_PREFIX=/conda\", \"PATH=/usr/bin:/bin\"] dry true",
            fake.path().display()
        )]
    );
}

#[test]
fn abort_of_everything_needs_a_yes() {
    let fake = Fake::new(Answers {
        abort: samples::aborted(false),
        ..Answers::default()
    });
    let ran = fake.run(&["abort", "all"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("--yes"), "{}", ran.err);
    let ran = fake.run(&[
        "--yes", "--abort", "all", "--grace", "1m", "--signal", "int",
    ]);
    assert_eq!(ran.out, "aborted 2 · taken away 1 · skipped 1 finished\n");
    assert_eq!(
        fake.requests(),
        [
            "abort `all` Pacific/Chatham grace 0 signal 0 dry true by ada",
            "abort `all` Pacific/Chatham grace 60000 signal 2 dry false by ada"
        ]
    );
}

#[test]
fn abort_of_what_is_named_needs_none() {
    let fake = Fake::new(Answers {
        abort: samples::aborted(true),
        ..Answers::default()
    });
    let ran = fake.run(&["--abort", "runtime>7200&&errorrate>0.40"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(fake.requests().len(), 2);
}

#[test]
fn restart_asks_what_it_would_stop() {
    let fake = Fake::new(Answers {
        abort: samples::aborted(false),
        start: samples::started(),
        ..Answers::default()
    });
    assert_eq!(fake.run(&["restart", "all"]).code, Some(2));
    let ran = fake.run(&["restart", "all", "-y", "--abandon", "--at-most", "2"]);
    assert!(
        ran.out
            .ends_with("restarted 2 · skipped 2 running, 1 finished, 1 not built yet\n")
    );
    let asked = fake.requests();
    assert!(
        asked[1].contains("restart true") && asked[1].contains("abandon true at most 2"),
        "{asked:?}"
    );
}

#[test]
fn wait_fails_for_nothing_that_was_never_started() {
    let never = ExperimentView {
        run: 0,
        ..samples::experiment(2, "b", "defined")
    };
    let ended = |ended| Answers {
        wait: vec![WaitEvent {
            ended,
            done: true,
            ..WaitEvent::default()
        }],
        ..Answers::default()
    };
    let finished = samples::experiment(1, "a", "finished");
    let both = Fake::new(ended(vec![finished, never.clone()]));
    assert_eq!(both.run(&["wait", "all"]).code, Some(0));
    let alone = Fake::new(ended(vec![never]));
    assert_eq!(alone.run(&["wait", "2"]).code, Some(1));
}

#[test]
fn a_wait_of_no_time_is_a_look() {
    let look = |state: &str| {
        let fake = Fake::new(Answers {
            list: ListReply {
                experiments: vec![samples::experiment(1, "a", state)],
                ..ListReply::default()
            },
            ..Answers::default()
        });
        let ran = fake.run(&["wait", "1", "--timeout", "0"]);
        (ran.code, ran.out)
    };
    assert_eq!(look("finished"), (Some(0), "finished 1\n".to_owned()));
    assert_eq!(look("running").0, Some(1));
}

#[test]
fn an_empty_selector_is_no_selector() {
    let fake = Fake::new(Answers::default());
    for verb in ["clean", "fetch"] {
        let ran = fake.run(&[verb, ""]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains("the selector is empty"), "{ran:?}");
    }
    assert!(fake.requests().is_empty());
}

#[test]
fn wait_counts_and_groups() {
    let crashed = |id| ExperimentView {
        id,
        reason: "exit code 3".into(),
        ..samples::experiment(id, "e", "crashed")
    };
    let fake = Fake::new(Answers {
        wait: vec![
            WaitEvent {
                ended: vec![samples::experiment(1, "a", "finished"), crashed(2)],
                still_live: 1,
                done: false,
                ..WaitEvent::default()
            },
            WaitEvent {
                ended: vec![crashed(3), crashed(4)],
                still_live: 0,
                done: true,
                ..WaitEvent::default()
            },
        ],
        ..Answers::default()
    });
    let ran = fake.run(&["wait", "1-4"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(
        ran.out,
        "2-4  crashed: exit code 3\nfinished 1 · crashed 3\n"
    );
    assert_eq!(ran.err, "");
}

#[test]
fn wait_says_once_that_a_node_is_out_of_reach_and_back() {
    let notice = |back| WaitEvent {
        still_live: 2,
        notice: Some(NodeNotice {
            node: "h1".into(),
            back,
            since_ms: 1_700_000_000_000,
            why: if back { "" } else { "no route\x1b[2J" }.into(),
            runs: 2,
        }),
        ..WaitEvent::default()
    };
    let fake = Fake::new(Answers {
        wait: vec![
            notice(false),
            // As a restarted daemon sends it again.
            notice(false),
            notice(true),
            WaitEvent {
                ended: vec![samples::experiment(1, "a", "finished")],
                done: true,
                ..WaitEvent::default()
            },
        ],
        ..Answers::default()
    });
    let ran = fake.run(&["wait", "1"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "finished 1\n"));
    assert_eq!(
        ran.err,
        "note: node h1 is out of reach since 2023-11-15 11:58:20 (no route\\u{1b}[2J); \
         2 runs there are not seen\n\
         note: node h1 is back, nothing was heard since 2023-11-15 11:58:20\n"
    );
    let said: serde_json::Value =
        serde_json::from_str(&fake.ok(&["wait", "1", "--json"])).expect("JSON");
    assert_eq!(said["notices"][0]["back"], false);
    assert_eq!(said["notices"][0]["since"], "2023-11-14T22:13:20Z");
    assert_eq!(said["notices"][1]["back"], true);
    assert_eq!(said["notices"][2], serde_json::Value::Null);
}

#[test]
fn watch_into_a_pipe_is_a_line_per_change() {
    let event = |state: &str, live| WatchEvent {
        experiments: vec![samples::experiment(1, "a", state)],
        first: live == 1,
        live,
        ..WatchEvent::default()
    };
    let fake = Fake::new(Answers {
        watch: vec![
            event("queued", 1),
            event("running", 1),
            event("running", 1),
            event("finished", 0),
        ],
        ..Answers::default()
    });
    assert_eq!(
        fake.ok(&["status", "--watch"]),
        "1  sweep/a  queued\n1  sweep/a  running\n1  sweep/a  finished\n1 finished\n"
    );
}

#[test]
fn a_line_of_steps_runs_in_its_order_and_stops_at_a_failure() {
    let fake = Fake::new(Answers {
        add: AddReply {
            range: "1-6".into(),
            ..AddReply::default()
        },
        start: samples::started(),
        wait: vec![WaitEvent {
            ended: vec![samples::experiment(1, "a", "crashed")],
            still_live: 0,
            done: true,
            ..WaitEvent::default()
        }],
        ..Answers::default()
    });
    let words = ["--add", ".", "--start", "all", "--wait", "all", "--status"];
    let ran = fake.run(&words);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let calls: Vec<String> = fake
        .requests()
        .iter()
        .map(|call| call.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(calls, ["add", "start", "wait"]);
    assert!(
        ran.err.contains("not done: 1 step after this one"),
        "{}",
        ran.err
    );
}

#[test]
fn logs_into_a_pipe_are_the_bytes() {
    let chunk = |offset: u64, data: &[u8], end| LogChunk {
        offset,
        data: data.to_vec(),
        end,
        ..LogChunk::default()
    };
    let fake = Fake::new(Answers {
        logs: vec![
            chunk(0, b"a\x1b[31m\r\xff", false),
            chunk(8, b"b\n", false),
            chunk(10, b"", true),
        ],
        ..Answers::default()
    });
    let output = fake.command(&["logs", "3"]).output().expect("it runs");
    assert_eq!(output.stdout, b"a\x1b[31m\r\xffb\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn an_error_among_several_logs_begins_a_line_of_its_own() {
    let fake = Fake::new(Answers {
        list: ListReply {
            experiments: samples::four(),
            ..ListReply::default()
        },
        logs: vec![LogChunk {
            data: b"whole\nhalf".to_vec(),
            ..LogChunk::default()
        }],
        log_fails: Some(tonic::Status::internal("the disk broke")),
        ..Answers::default()
    });
    let ran = fake.run(&["logs", "all"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("the disk broke"), "{ran:?}");
    assert!(ran.out.ends_with("whole\nhalf\n"), "{ran:?}");
    assert!(ran.out.contains("half\n\n==> "), "{ran:?}");
}
