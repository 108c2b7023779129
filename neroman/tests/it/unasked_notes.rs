//! Notes that are printed without being asked for: on standard error, and once.

use nero_wire::v1::*;

use crate::fake::{Answers, Fake};
use crate::samples;

const FULL: &str = "no space left for the databases since 14:02: free some; the runs go on";

fn ended() -> WaitEvent {
    WaitEvent {
        ended: vec![samples::experiment(1, "a", "finished")],
        done: true,
        ..WaitEvent::default()
    }
}

#[test]
fn wait_says_once_that_no_node_takes_a_run_and_not_what_the_start_said() {
    let noted = |text: &str| WaitEvent {
        notes: vec![text.into()],
        still_live: 1,
        ..WaitEvent::default()
    };
    let never = "1.1: `both` can never take it (a: cpus 2 < 3)";
    let fake = Fake::new(Answers {
        start: StartReply {
            notes: vec![never.into()],
            folders: Vec::new(),
            ..samples::started()
        },
        // As a restarted daemon sends it again.
        wait: vec![noted(never), noted(never), ended()],
        ..Answers::default()
    });
    let said = format!("note: {never}\n");
    let ran = fake.run(&["wait", "1"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), said.as_str()));
    let ran = fake.run(&["start", "1", "--wait"]);
    assert_eq!(ran.err, said);
    let document: serde_json::Value =
        serde_json::from_str(&fake.ok(&["wait", "1", "--json"])).expect("JSON");
    assert_eq!(document["notes"], serde_json::json!([never]));
    assert_eq!(document["timed_out"], false);
}

#[test]
fn wait_ends_with_1_when_its_time_is_over_and_shows_what_goes_on() {
    let fake = Fake::new(Answers {
        list: ListReply {
            experiments: vec![
                samples::experiment(1, "a", "finished"),
                samples::experiment(2, "b", "running"),
            ],
            ..ListReply::default()
        },
        wait: vec![WaitEvent {
            done: false,
            still_live: 1,
            ..ended()
        }],
        hangs: true,
        ..Answers::default()
    });
    let ran = fake.run(&["wait", "1-2", "--timeout", "300ms"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.err, "note: not all have ended within 300ms\n");
    assert_eq!(ran.out, "2  sweep/b  running\nfinished 1 · running 1\n");
    let ran = fake.run(&["wait", "1-2", "--timeout", "300ms", "--json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let document: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(document["timed_out"], true);
    assert_eq!(document["finished"], false);
    assert_eq!(document["experiments"][1]["state"], "running");
    assert_eq!(fake.run(&["wait", "1", "--timeout", "soon"]).code, Some(2));
}

#[test]
fn wait_shows_what_it_picked_although_some_of_it_is_gone() {
    let views = [1, 2, 3, 5].map(|id| {
        let state = if id == 1 { "finished" } else { "running" };
        samples::experiment(id, "a", state)
    });
    let fake = Fake::new(Answers {
        list: ListReply {
            experiments: views.to_vec(),
            ..ListReply::default()
        },
        wait: vec![WaitEvent {
            done: false,
            still_live: 3,
            ..ended()
        }],
        hangs: true,
        // The answer of a daemon that does not have these ids.
        no_such: vec!["2,3,5".into(), "1-3,5".into()],
        ..Answers::default()
    });
    let ran = fake.run(&["wait", "all", "--timeout", "300ms"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.out, "2,3,5  running\nfinished 1 · running 3\n");
    let asked = fake.requests();
    let last = asked.last().expect("it asked");
    assert!(
        last.starts_with("list `id>=2 && id<=3,id>=5 && id<=5` "),
        "{last}"
    );
}

#[test]
fn wait_with_time_to_spare_ends_as_without() {
    let fake = Fake::new(Answers {
        wait: vec![ended()],
        ..Answers::default()
    });
    let ran = fake.run(&["wait", "1", "--timeout", "1h"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "finished 1\n"));
    assert_eq!(ran.err, "");
}

#[test]
fn a_log_that_is_followed_names_its_node_once_per_outage() {
    let notice = |back| LogChunk {
        node: Some(NodeNotice {
            node: "h1".into(),
            back,
            since_ms: 1_700_000_000_000,
            runs: 1,
            ..NodeNotice::default()
        }),
        ..LogChunk::default()
    };
    let printed = LogChunk {
        data: b"more\n".to_vec(),
        end: true,
        ..LogChunk::default()
    };
    let fake = Fake::new(Answers {
        logs: vec![notice(false), notice(false), notice(true), printed],
        ..Answers::default()
    });
    let ran = fake.run(&["logs", "3", "--follow"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "more\n"));
    assert_eq!(
        ran.err,
        "note: node h1 is out of reach since 2023-11-15 11:58:20; 1 run there is not seen\n\
         note: node h1 is back, nothing was heard since 2023-11-15 11:58:20\n"
    );
}

#[test]
fn a_full_disk_is_reported_by_watch_and_by_the_daemon() {
    let event = |state: &str, live, notes: &[&str]| WatchEvent {
        experiments: vec![samples::experiment(1, "a", state)],
        first: live == 1,
        live,
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        batches: Vec::new(),
        ..WatchEvent::default()
    };
    let fake = Fake::new(Answers {
        watch: vec![
            event("queued", 1, &[]),
            event("running", 1, &[FULL]),
            event("ending", 1, &[FULL]),
            event("finished", 0, &[]),
        ],
        status: DaemonStatusReply {
            notes: vec![FULL.into()],
            ..DaemonStatusReply::default()
        },
        ..Answers::default()
    });
    let said = format!("note: {FULL}\n");
    assert_eq!(fake.run(&["status", "--watch"]).err, said);
    let watched = fake.run(&["status", "--watch", "--json"]);
    assert_eq!(watched.err, "");
    let told: Vec<serde_json::Value> = watched
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["notes"].clone())
        .collect();
    let (none, full) = (serde_json::json!([]), serde_json::json!([FULL]));
    assert_eq!(told, [none.clone(), full.clone(), full, none]);
    assert_eq!(fake.run(&["daemon", "status"]).err, said);
    let document: serde_json::Value =
        serde_json::from_str(&fake.ok(&["daemon", "status", "--json"])).expect("JSON");
    assert_eq!(document["notes"], serde_json::json!([FULL]));
}

#[test]
fn old_figures_stand_in_brackets() {
    let mut away = samples::experiment(1, "a", "running");
    away.runtime_s = Some(61.0);
    away.as_of_ms = 1_700_000_000_000;
    away.contact = "no contact since 14:02".into();
    let mut here = samples::experiment(2, "b", "running");
    here.runtime_s = Some(62.0);
    let fake = Fake::new(Answers {
        list: ListReply {
            experiments: vec![away, here],
            ..ListReply::default()
        },
        ..Answers::default()
    });
    let table = fake.ok(&["status", "--columns", "id,runtime"]);
    assert!(table.contains("(1m01s)"), "{table}");
    assert!(table.contains(" 1m02s\n"), "{table}");
    let document: serde_json::Value =
        serde_json::from_str(&fake.ok(&["status", "--json"])).expect("JSON");
    let [away, here] = [&document["experiments"][0], &document["experiments"][1]];
    assert_eq!(away["as_of"], "2023-11-14T22:13:20Z");
    assert_eq!(away["runtime_s"], 61.0);
    assert_eq!(here["as_of"], serde_json::Value::Null);
}

#[test]
fn the_reasons_that_keep_runs_from_a_node_stand_below_the_nodes() {
    let mut nodes = samples::nodes();
    nodes.nodes[0].hold = "disk full: 1 MB are free, 67 MB are kept back".into();
    nodes.nodes[0].troubles = vec!["2 runs wait: cannot make store".into()];
    let fake = Fake::new(Answers {
        nodes,
        ..Answers::default()
    });
    let said = fake.ok(&["status", "nodes"]);
    assert!(said.contains("disk full: 1 MB are free"), "{said}");
    assert!(
        said.contains("\nlocal: 2 runs wait: cannot make store\n"),
        "{said}"
    );
}

#[test]
fn a_take_over_ends_when_its_runs_were_heard_of_or_says_of_how_many_not() {
    let answers = |unread| Answers {
        node_events: vec![NodeEvent {
            event: Some(node_event::Event::Line("taken over: 1 run".into())),
        }],
        list: ListReply {
            experiments: vec![ExperimentView {
                unread,
                ..samples::experiment(1, "a", "submitted")
            }],
            ..ListReply::default()
        },
        ..Answers::default()
    };
    let take_over = ["node", "take-over", "h1"];
    let fake = Fake::new(answers(false));
    let ran = fake.run(&take_over);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let asked = fake.requests();
    let [_, listed] = &*asked else {
        panic!("{asked:?}")
    };
    assert!(
        listed.contains("node==\"h1\"") && listed.ends_with("settle true"),
        "{listed}"
    );
    let ran = Fake::new(answers(true)).run(&take_over);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (Some(0), "note: h1 has not told yet how far 1 run got\n")
    );
    // No run was taken over, and the command waits for none.
    let fake = Fake::new(answers(true));
    let ran = fake.run(&["node", "take-over", "h1", "--dry-run"]);
    assert_eq!((ran.err.as_str(), fake.requests().len()), ("", 1));
}

#[test]
fn status_shows_the_run_that_was_named_and_what_is_to_be_said_in_every_form() {
    let fake = Fake::new(Answers {
        list: ListReply {
            experiments: vec![samples::experiment(7, "a", "crashed")],
            notes: vec!["no room".into()],
            ..ListReply::default()
        },
        ..Answers::default()
    });
    let row = |words: &[&str]| {
        let table = fake.ok(words);
        let row = table.lines().nth(1).expect("a row").to_owned();
        row.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(row(&["status", "7.1"])[..3], ["7", "7.1", "a"]);
    assert_eq!(row(&["status", "7"])[..2], ["7", "a"]);
    let ran = fake.run(&["status", "--csv"]);
    assert_eq!(ran.err, "note: no room\n");
    let said: serde_json::Value =
        serde_json::from_str(&fake.ok(&["status", "--json"])).expect("JSON");
    assert_eq!(said["notes"], serde_json::json!(["no room"]));
}
