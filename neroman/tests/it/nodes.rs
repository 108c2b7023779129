//! The verbs about nodes.

use nero_wire::v1::*;

use crate::fake::{Answers, Fake};
use crate::samples;

fn event(event: node_event::Event) -> NodeEvent {
    NodeEvent { event: Some(event) }
}

fn finding(level: finding::Level, what: &str, text: &str, hint: &str) -> NodeEvent {
    event(node_event::Event::Finding(Finding {
        level: level.into(),
        what: what.into(),
        text: text.into(),
        hint: hint.into(),
        ..Finding::default()
    }))
}

fn alpha() -> NodeView {
    NodeView {
        name: "alpha".into(),
        address: "ada@alpha".into(),
        connected: true,
        cpus: 16.0,
        memory_bytes: 64 << 30,
        disk_free_bytes: 3 << 40,
        ..NodeView::default()
    }
}

fn added() -> Vec<NodeEvent> {
    vec![
        event(node_event::Event::Line("connected: Linux x86_64".into())),
        event(node_event::Event::Progress(Progress {
            what: "sending the agents".into(),
            ..Progress::default()
        })),
        finding(finding::Level::Good, "clock", "3 ms behind ours", ""),
        finding(
            finding::Level::Warning,
            "survives logout",
            "not without a login",
            "loginctl enable-linger",
        ),
        event(node_event::Event::Node(alpha())),
    ]
}

#[test]
fn a_node_is_added_with_what_was_found() {
    let fake = Fake::new(Answers {
        node_events: added(),
        ..Answers::default()
    });
    let words = ["node", "add", "alpha", "ada@alpha", "--root", "$W/nero"];
    let said = fake.ok(&[&words[..], &["--cpus", "8", "--memory", "4G"]].concat());
    insta::assert_snapshot!("node_add", said);
    fake.ok(&["--addnode", "alpha", "ada@alpha", "--dry-run"]);
    insta::assert_snapshot!(
        "node_add_json",
        fake.ok(&["node", "add", "a", "b", "--json"])
    );
    let asked = fake.requests();
    assert_eq!(
        asked[..2],
        [
            "node_add alpha ada@alpha root `$W/nero` cpus 8 memory 4294967296 shared `` dry false untested false",
            "node_add alpha ada@alpha root `` cpus 0 memory 0 shared `` dry true untested false",
        ]
    );
}

#[test]
fn a_node_that_does_not_answer_is_said_with_what_to_do() {
    let failed = Failure {
        what: "node alpha is not added".into(),
        causes: vec!["the key was refused".into()],
        hint: "neroman node connect alpha".into(),
        exit_code: 4,
        ..Failure::default()
    };
    let fake = Fake::new(Answers {
        node_events: vec![
            event(node_event::Event::Line("asking ssh".into())),
            event(node_event::Event::Failed(failed)),
        ],
        ..Answers::default()
    });
    let ran = fake.run(&["node", "add", "alpha", "ada@alpha"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    for part in [
        "not added",
        "caused by: the key",
        "hint: neroman node connect",
    ] {
        assert!(ran.err.contains(part), "{}", ran.err);
    }
}

#[test]
fn a_bad_finding_is_a_failure() {
    let fake = Fake::new(Answers {
        node_events: vec![finding(
            finding::Level::Bad,
            "space",
            "3 MB free",
            "make room",
        )],
        ..Answers::default()
    });
    let ran = fake.run(&["node", "doctor", "alpha"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("bad      space: 3 MB free"), "{}", ran.out);
    assert!(ran.out.contains("hint: make room"), "{}", ran.out);
}

#[test]
fn a_scheduler_of_other_commands_is_described_in_the_configuration() {
    let fake = Fake::new(Answers::default());
    let ran = fake.run(&["node", "add", "a", "b", "--warden", "generic"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("`warden: generic`"), "{}", ran.err);
    assert!(fake.requests().is_empty());
}

#[test]
fn connect_runs_what_the_daemon_says_in_this_terminal() {
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let fake = Fake::new(Answers {
        login: NodeLoginReply {
            argv: words(&["/bin/sh", "-c", "echo code please"]),
            open: false,
        },
        node_events: vec![event(node_event::Event::Node(alpha()))],
        ..Answers::default()
    });
    let said = fake.ok(&["node", "connect", "alpha"]);
    assert_eq!(
        said,
        "code please\nalpha is ready: 16 CPUs, 64G memory, 3.0T disk free\n"
    );
    assert_eq!(fake.requests(), ["node_login alpha", "node_connect alpha"]);
    // The output of ssh for a way that is open already is not shown.
    let fake = Fake::new(Answers {
        login: NodeLoginReply {
            argv: words(&["/bin/sh", "-c", "echo running; echo it >&2", "-O", "check"]),
            open: false,
        },
        node_events: vec![event(node_event::Event::Node(alpha()))],
        ..Answers::default()
    });
    let ran = fake.run(&["node", "connect", "alpha"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.err, "");
    assert!(!ran.out.contains("running"), "{}", ran.out);
}

#[test]
fn without_a_terminal_the_daemon_says_why_the_way_does_not_open() {
    let closed = |hint: &str, remedy: Remedy| Answers {
        login: NodeLoginReply {
            argv: ["/bin/sh", "-c", "echo denied >&2; exit 255"]
                .map(|word| word.as_bytes().to_vec())
                .to_vec(),
            open: false,
        },
        node_events: vec![event(node_event::Event::Failed(Failure {
            what: "node alpha does not answer".into(),
            causes: vec!["the host key has changed".into()],
            hint: hint.into(),
            remedy: remedy.into(),
            exit_code: 4,
            ..Failure::default()
        }))],
        ..Answers::default()
    };
    let fake = Fake::new(closed("forget the old key", Remedy::Unspecified));
    let ran = fake.run(&["node", "connect", "alpha"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert_eq!(
        ran.err,
        "error: node alpha does not answer\ncaused by: the host key has changed\n\
         hint: forget the old key\n"
    );
    assert_eq!(fake.requests(), ["node_login alpha", "node_connect alpha"]);
    let fake = Fake::new(closed(
        "`neroman node connect alpha` asks in the terminal",
        Remedy::Terminal,
    ));
    let ran = fake.run(&["node", "connect", "alpha"]);
    assert!(
        ran.err
            .ends_with("alpha` asks in the terminal; this is none\n"),
        "{}",
        ran.err
    );
}

#[test]
fn a_bad_value_of_a_verbs_verb_leads_to_its_help() {
    let fake = Fake::new(Answers::default());
    let ran = fake.run(&["node", "add", "a", "b", "--memory", "lots"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.err.ends_with("hint: neroman node add --help\n"),
        "{}",
        ran.err
    );
    assert!(fake.ok(&["node", "add", "--help"]).contains("--memory"));
}

#[test]
fn giving_a_node_up_needs_a_yes() {
    use node_gone_reply::Outcome;
    let one = |experiment, became: Outcome, outcome: &str| node_gone_reply::One {
        experiment,
        run: 1,
        outcome: outcome.into(),
        became: became.into(),
    };
    let fake = Fake::new(Answers {
        gone: NodeGoneReply {
            runs: vec![
                one(3, Outcome::Lost, "lost"),
                one(4, Outcome::Moved, "moved"),
                one(5, Outcome::Lost, "lost"),
            ],
            ..NodeGoneReply::default()
        },
        ..Answers::default()
    });
    let ran = fake.run(&["node", "gone", "alpha"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("--yes"), "{}", ran.err);
    let said = fake.ok(&["node", "gone", "alpha", "--yes"]);
    assert_eq!(said, "alpha gone · 2 lost · 1 moved\n");
    assert_eq!(
        fake.requests(),
        [
            "node_gone alpha dry true by ada",
            "node_gone alpha dry true by ada",
            "node_gone alpha dry false by ada",
        ]
    );
}

#[test]
fn nodes_out_of_reach_are_shown_with_since_when() {
    let mut away = alpha();
    away.connected = false;
    away.known_old = true;
    away.unreachable_since_ms = 1_700_000_000_000;
    away.contact_ms = 1_700_000_000_000;
    away.why_not = "the host key of alpha changed".into();
    away.needs_person = true;
    away.hint = "ssh-keygen -R alpha".into();
    let groups = [(
        "boxes".to_owned(),
        NodeNames {
            names: vec!["alpha".into(), "beta".into()],
            unbalanced: true,
        },
    )];
    let fake = Fake::new(Answers {
        nodes: NodesReply {
            nodes: vec![away],
            groups: groups.into(),
            default_node: "boxes".into(),
        },
        ..Answers::default()
    });
    insta::assert_snapshot!("nodes_away", fake.ok(&["node", "list"]));
    assert_eq!(fake.ok(&["status", "nodes"]), fake.ok(&["node", "list"]));
    insta::assert_snapshot!("nodes_away_json", fake.ok(&["node", "list", "--json"]));
}

#[test]
fn status_of_a_node_is_the_node_and_what_is_there() {
    let mut away = alpha();
    away.connected = false;
    away.unreachable_since_ms = 1_700_000_000_000;
    let beta = NodeView {
        name: "beta".into(),
        connected: true,
        ..NodeView::default()
    };
    let group = NodeNames {
        names: ["alpha", "beta"].map(str::to_owned).to_vec(),
        unbalanced: false,
    };
    let answers = Answers {
        nodes: NodesReply {
            nodes: vec![away, beta],
            groups: [("boxes".to_owned(), group)].into(),
            default_node: "local".into(),
        },
        list: ListReply {
            experiments: vec![samples::experiment(7, "a", "running")],
            ..ListReply::default()
        },
        no_such: ["alpha", "alpa", "boxes", "gamma"]
            .map(str::to_owned)
            .to_vec(),
        ..Answers::default()
    };
    let fake = Fake::new(answers.clone());
    insta::assert_snapshot!("status_node", fake.ok(&["status", "alpha"]));
    assert_eq!(
        fake.requests().last().map(String::as_str),
        Some("list `node==\"alpha\"` Pacific/Chatham settle false")
    );
    let said: serde_json::Value =
        serde_json::from_str(&fake.ok(&["status", "boxes", "--json"])).expect("JSON");
    assert_eq!(said["nodes"][1]["name"], "beta");
    assert_eq!(said["experiments"][0]["id"], 7);
    assert_eq!(
        fake.requests().last().map(String::as_str),
        Some("list `node==\"alpha\",node==\"beta\",node==\"boxes\"` Pacific/Chatham settle false")
    );
    assert!(fake.ok(&["status", "alpha", "--csv"]).starts_with("id,"));
    let ran = fake.run(&["status", "gamma"]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(
        ran.err,
        "error: no experiment is called gamma, and no node or group\n"
    );
    let ran = fake.run(&["status", "alpa"]);
    assert_eq!(
        ran.err,
        "error: no experiment is called alpa, and no node or group\n\
         hint: did you mean `neroman status alpha`?\n"
    );
    for verb in ["show", "logs", "abort", "wait"] {
        let ran = fake.run(&[verb, "gamma"]);
        assert_eq!(ran.err, "error: no experiment is called gamma\n");
        let ran = fake.run(&[verb, "alpha"]);
        assert_eq!(ran.code, Some(2), "{verb}");
        assert_eq!(
            ran.err,
            "error: no experiment is called alpha\n\
             hint: `alpha` is a node: neroman status alpha, or neroman node doctor alpha\n",
            "{verb}"
        );
        let ran = fake.run(&[verb, "boxes"]);
        assert_eq!(
            ran.err,
            "error: no experiment is called boxes\n\
             hint: `boxes` is a group of nodes: neroman status boxes\n",
            "{verb}"
        );
    }
    // A word that names both means the experiment.
    let fake = Fake::new(Answers {
        no_such: vec![],
        ..answers
    });
    std::fs::write(
        fake.path().join("home/config.yaml"),
        "nodes: {alpha: {address: a}}\n",
    )
    .expect("written");
    let ran = fake.run(&["status", "alpha"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.out.starts_with("id  "), "{}", ran.out);
    assert_eq!(
        ran.err,
        "note: a node or group is called `alpha` too; `neroman status nodes` shows it\n"
    );
}
