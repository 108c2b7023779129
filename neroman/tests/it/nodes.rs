//! The verbs about nodes and about files on them.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

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
fn wardens_of_later_are_refused() {
    let fake = Fake::new(Answers::default());
    let ran = fake.run(&["node", "add", "a", "b", "--warden", "slurm"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("not built yet"), "{}", ran.err);
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
    let one = |experiment, skipped: &str| clean_ask_reply::One {
        experiment,
        run: 1,
        node: "alpha".into(),
        bytes: 1 << 20,
        skipped: skipped.into(),
        ..clean_ask_reply::One::default()
    };
    let fake = Fake::new(Answers {
        clean: CleanAskReply {
            runs: vec![one(1, ""), one(2, ""), one(3, "running")],
            nodes: vec![clean_ask_reply::OnNode {
                node: "alpha".into(),
                freed_bytes: 2 << 20,
                store_bytes: 1 << 20,
                ..clean_ask_reply::OnNode::default()
            }],
        },
        ..Answers::default()
    });
    let ran = fake.run(&["clean"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(fake.requests().len(), 1, "it only looked");
    let said = fake.ok(&["clean", "--yes"]);
    assert_eq!(
        said,
        "alpha: freed 2.0M, 1.0M of it unused code and programs\n\
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

#[test]
fn node_names_are_completed() {
    let fake = Fake::new(Answers::default());
    let home = fake.path().join("home");
    std::fs::write(
        home.join("config.yaml"),
        "nodes: {alpha: {address: a}, beta: {address: b}}\ngroups: {boxes: [alpha, beta]}\n",
    )
    .expect("written");
    let complete = |words: &[&str]| completed(fake.command(&[&["--"], words].concat()), words);
    assert_eq!(complete(&["neroman", "node", "doctor", "al"]), "alpha");
    let targets = complete(&["neroman", "start", "1", "--node", ""]);
    assert_eq!(targets, "local\nalpha\nbeta\nboxes\nany");
    let shown = complete(&["neroman", "status", ""]);
    assert!(
        shown.starts_with("nodes\nlocal\nalpha\nbeta\nboxes"),
        "{shown}"
    );
    let keys = complete(&["neroman", "config", "set", "nodes.al"]);
    assert!(
        keys.starts_with("nodes.alpha.address\nnodes.alpha.root"),
        "{keys}"
    );
    let keys = complete(&["neroman", "config", "set", ""]);
    assert!(
        keys.starts_with(
            "default_node\nresults_max\nresults_min_free\ngroups.boxes\nnodes.local.root"
        ),
        "{keys}"
    );
    let set = |key: &str| {
        let words = complete(&["neroman", "config", "set", key, ""]);
        let values = words.lines().filter(|word| !word.starts_with('-'));
        values.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(set("default_node"), "local\nalpha\nbeta\nboxes\nany");
    assert_eq!(set("groups.boxes"), "local\nalpha\nbeta");
    assert_eq!(set("nodes.alpha.shared"), "true\nfalse");
    assert_eq!(set("nodes.alpha.root"), "");
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            fake.ok(&["completions", shell])
                .contains("NERONET_COMPLETE")
        );
    }
    let asked = fake.requests();
    let lists = asked.iter().filter(|call| call.starts_with("list "));
    assert_eq!(lists.count(), asked.len(), "{asked:?}");
}

#[test]
fn selectors_are_completed() {
    let mut one = samples::experiment(14, "fit_a", "crashed");
    one.collection = "lab".to_owned();
    let fake = Fake::new(Answers {
        list: ListReply {
            experiments: vec![one, samples::experiment(15, "fit_b", "running")],
            ..ListReply::default()
        },
        hides: RemoveReply {
            experiments: vec![remove_reply::One {
                experiment: 3,
                name: "gone".into(),
                ..remove_reply::One::default()
            }],
            ..RemoveReply::default()
        },
        ..Answers::default()
    });
    let complete = |words: &[&str]| completed(fake.command(&[&["--"], words].concat()), words);
    assert_eq!(complete(&["neroman", "restart", "cr"]), "crashed");
    assert_eq!(complete(&["neroman", "show", "1"]), "14\n15");
    assert_eq!(
        complete(&["neroman", "abort", "live,fit_"]),
        "live,fit_a\nlive,fit_b"
    );
    assert_eq!(complete(&["neroman", "logs", "lab/"]), "lab/\nlab/fit_a");
    assert_eq!(complete(&["neroman", "status", "--json", "fit_b"]), "fit_b");
    assert_eq!(complete(&["neroman", "rule", "rm", "fit_a"]), "fit_a");
    assert_eq!(complete(&["neroman", "exec", "1"]), "14\n15");
    assert_eq!(complete(&["neroman", "logs", "14."]), "14.1");
    assert_eq!(complete(&["neroman", "rm", "--undo", "3"]), "3");
    assert_eq!(complete(&["neroman", "rm", "--undo", "go"]), "gone");
    let asked = fake.requests();
    let mut removals = asked.iter().filter(|call| call.starts_with("rm "));
    assert!(
        removals.all(|call| call.ends_with("undo true dry true")),
        "{asked:?}"
    );
    assert_eq!(complete(&["neroman", "help", "sel"]), "selectors");
    assert_eq!(complete(&["neroman", "help", "sho"]), "show");
}

/// The output for a shell that asks to complete the last of these words.
pub fn completed(mut asking: std::process::Command, words: &[&str]) -> String {
    asking
        .env("NERONET_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string())
        .env("_CLAP_IFS", "\n");
    String::from_utf8(asking.output().expect("it runs").stdout).expect("text")
}
