//! The JSON forms and CSV, which are promises.

use nero_wire::v1::*;
use serde_json::Value;

use crate::fake::{Answers, Fake};
use crate::samples;

/// Runs the words and reads what they print.
#[track_caller]
fn json(answers: Answers, words: &[&str]) -> Value {
    let ran = Fake::new(answers).run(words);
    let value: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:#?}"));
    assert_eq!(value["schema"], 1, "{ran:#?}");
    assert_eq!(ran.out.lines().count(), 1, "one document is one line");
    value
}

#[test]
fn status() {
    let list = ListReply {
        experiments: samples::four(),
        workbooks: vec![samples::workbook("a word")],
        ..ListReply::default()
    };
    let answers = Answers {
        list,
        ..Answers::default()
    };
    insta::assert_json_snapshot!(json(answers, &["status", "--json"]));
}

#[test]
fn status_of_nothing_has_the_same_form() {
    let list = ListReply {
        nothing_set_up: true,
        ..ListReply::default()
    };
    let answers = Answers {
        list,
        ..Answers::default()
    };
    insta::assert_json_snapshot!(json(answers, &["status", "--json"]));
}

#[test]
fn status_nodes() {
    let answers = Answers {
        nodes: samples::nodes(),
        ..Answers::default()
    };
    insta::assert_json_snapshot!(json(answers, &["status", "nodes", "--json"]));
}

#[test]
fn show() {
    let answers = Answers {
        show: samples::show(),
        ..Answers::default()
    };
    insta::assert_json_snapshot!(json(answers, &["show", "146.2", "--json"]));
}

#[test]
fn add() {
    let one = |id: u64, what: add_reply::one::What, changes: &[&str]| add_reply::One {
        experiment: id,
        name: format!("e{id}"),
        collection: "sweep".into(),
        what: what.into(),
        changes: changes.iter().map(|text| (*text).to_owned()).collect(),
        notes: Vec::new(),
    };
    let add = AddReply {
        experiments: vec![
            one(1, add_reply::one::What::Added, &[]),
            one(2, add_reply::one::What::Changed, &["lr 0.01 → 0.003"]),
            one(3, add_reply::one::What::Same, &[]),
            one(4, add_reply::one::What::Gone, &[]),
        ],
        notes: Vec::new(),
        range: "1-4".into(),
        folders: vec![samples::taken()],
        rows: Vec::new(),
    };
    let answers = Answers {
        add,
        ..Answers::default()
    };
    insta::assert_json_snapshot!(json(answers, &["add", ".", "--json"]));
}

#[test]
fn start() {
    let answers = Answers {
        start: samples::started(),
        ..Answers::default()
    };
    insta::assert_json_snapshot!(json(answers, &["start", "1-6", "--json"]));
}

#[test]
fn rm() {
    let answers = Answers {
        hides: samples::removed(),
        ..Answers::default()
    };
    insta::assert_json_snapshot!(json(answers, &["rm", "1-3", "--json"]));
}

#[test]
fn abort() {
    let answers = Answers {
        abort: samples::aborted(true),
        ..Answers::default()
    };
    insta::assert_json_snapshot!(json(answers, &["abort", "1-4", "--json"]));
}

#[test]
fn wait() {
    let mut views = samples::four();
    views.truncate(3);
    let wait = vec![WaitEvent {
        ended: vec![views.remove(1)],
        still_live: 0,
        done: true,
        ..WaitEvent::default()
    }];
    let answers = Answers {
        wait,
        ..Answers::default()
    };
    insta::assert_json_snapshot!(json(answers, &["wait", "145", "--json"]));
}

#[test]
fn metrics() {
    let answers = Answers {
        metrics: samples::series(),
        ..Answers::default()
    };
    insta::assert_json_snapshot!(json(answers, &["metrics", "144", "loss", "--json"]));
}

fn results(words: &[&str]) -> Value {
    let list = ListReply {
        experiments: samples::four(),
        ..ListReply::default()
    };
    let answers = Answers {
        list,
        ..Answers::default()
    };
    json(answers, words)
}

#[test]
fn results_of_groups() {
    let words = ["results", "all", "--by", "opt", "--best", "loss", "--json"];
    insta::assert_json_snapshot!(results(&words));
}

#[test]
fn results_of_runs_are_experiments_with_their_best() {
    let found = results(&["results", "all", "--best", "Loss", "--json"]);
    assert_eq!(found["best"]["metric"], "loss");
    let best: Vec<&Value> = found["runs"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| &row["best"])
        .collect();
    assert_eq!(
        best,
        [0.125, 0.25]
            .map(Value::from)
            .iter()
            .chain([&Value::Null])
            .collect::<Vec<_>>()
    );
}

#[test]
fn path() {
    let paths = PathsReply {
        paths: vec![
            paths_reply::One {
                experiment: 144,
                run: 2,
                path: "/r/latest".into(),
                note: String::new(),
                node: String::new(),
            },
            paths_reply::One {
                experiment: 147,
                run: 0,
                path: String::new(),
                note: "never ran".into(),
                node: String::new(),
            },
        ],
    };
    let answers = Answers {
        paths,
        ..Answers::default()
    };
    insta::assert_json_snapshot!(json(answers, &["path", "all", "--json"]));
}

#[test]
fn rules() {
    let answers = Answers {
        rules: RuleListReply {
            rules: vec![samples::rule(144)],
            notes: Vec::new(),
        },
        ..Answers::default()
    };
    insta::assert_json_snapshot!(json(answers, &["rule", "list", "--json"]));
}

#[test]
fn mail() {
    let answers = Answers {
        mail: samples::mail(),
        ..Answers::default()
    };
    let list = json(answers.clone(), &["mail", "list", "--json"]);
    let wanted = serde_json::json!({
        "schema": 1,
        "deliveries": [{
            "way": "mail", "to": "ada@example.org", "subject": "digits: 144.1 crashed",
            "made": "2026-09-21T14:13:20Z", "state": "waiting", "words": "451 try again later",
            "at": "2026-09-21T14:15:20Z", "tries": 2, "message_id": "<a@example.org>",
        }],
        "notices": 1, "waits": "quiet hours", "off": false,
    });
    assert_eq!(list, wanted);
    let retried = json(answers, &["mail", "retry", "--json"]);
    assert_eq!(retried["tried"], 1);
}

#[test]
fn rule_changes() {
    let answers = Answers {
        changed: RuleChangeReply {
            changed: vec![rule_change_reply::One {
                experiment: 144,
                rule: 3,
                note: String::new(),
            }],
            notes: Vec::new(),
        },
        ..Answers::default()
    };
    let words = ["rule", "add", "144", "abort: loss > 5", "--json"];
    insta::assert_json_snapshot!(json(answers, &words));
}

#[test]
fn daemon_status() {
    let status = DaemonStatusReply {
        hello: Some(Hello {
            build: "0.1.0+3f9c".into(),
            protocol_lowest: 1,
            protocol_highest: 1,
            deployment: vec![0; 16],
            role: Role::Neroman.into(),
            capabilities: Vec::new(),
            pid: 4711,
            ..Hello::default()
        }),
        started_ms: 1_700_000_000_000,
        home: "/home/ada".into(),
        socket: "/run/s".into(),
        database: "/home/ada/state.db".into(),
        experiments: 4,
        runs: 5,
        live: 1,
        log: "/home/ada/daemon.log".into(),
        nodes: samples::nodes().nodes,
        notes: Vec::new(),
        gone: 1,
        removed: 2,
    };
    let answers = Answers {
        status,
        ..Answers::default()
    };
    insta::assert_json_snapshot!(json(answers, &["daemon", "status", "--json"]));
}

#[test]
fn an_error_is_one_object() {
    let ran = Fake::new(Answers::default()).run(&["add", ".", "--big", "--json"]);
    assert_eq!(ran.code, Some(2));
    let value: Value = serde_json::from_str(&ran.out).expect("JSON");
    insta::assert_json_snapshot!(value);
}

#[test]
fn csv_has_every_column() {
    let list = ListReply {
        experiments: samples::four(),
        ..ListReply::default()
    };
    let fake = Fake::new(Answers {
        list,
        metrics: samples::series(),
        ..Answers::default()
    });
    insta::assert_snapshot!("status_csv", fake.ok(&["status", "--csv"]));
    insta::assert_snapshot!("metrics_csv", fake.ok(&["metrics", "144", "--csv"]));
    fake.ok(&["results", "all", "-o", "out.csv"]);
    insta::assert_snapshot!("results_csv", fake.file("out.csv"));
    fake.ok(&["results", "all", "--by", "opt", "-o", "out.md"]);
    insta::assert_snapshot!("results_md", fake.file("out.md"));
}
