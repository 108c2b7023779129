//! The output for people, and the requests to the daemon for it.

use nero_wire::v1::*;

use crate::fake::{Answers, Fake, Ran};
use crate::samples::{self, HOSTILE};

fn with_list(experiments: Vec<ExperimentView>) -> Fake {
    Fake::new(Answers {
        list: ListReply {
            experiments,
            ..ListReply::default()
        },
        ..Answers::default()
    })
}

#[test]
fn status_shows_columns_where_values_differ() {
    let fake = with_list(samples::four());
    insta::assert_snapshot!("status", fake.ok(&["status"]));
    insta::assert_snapshot!(
        "status_sorted",
        fake.ok(&["status", "--sort", "-lr", "--columns", "id,lr,loss,started"])
    );
    assert_eq!(
        fake.requests(),
        [
            "list `` Pacific/Chatham settle false",
            "list `` Pacific/Chatham settle false"
        ]
    );
}

#[test]
fn a_job_that_prints_thousands_of_names_leaves_tables_readable() {
    let mut views = samples::four();
    views[0].metrics = (0..4096)
        .map(|at| samples::metric(&format!("m{at}"), 1.0, 0.5, 2.0))
        .collect();
    let fake = with_list(views);
    for words in [&["status"][..], &["results", "all"]] {
        let shown = fake.ok(words);
        let longest = shown.lines().map(|line| line.chars().count()).max();
        assert!(longest < Some(700), "{longest:?}: {shown}");
        let said = shown
            .lines()
            .find(|line| line.starts_with("(no room for m"));
        assert!(said.is_some_and(|line| line.contains(" more)")), "{shown}");
    }
    assert!(
        fake.ok(&["status", "--columns", "id,m4095"])
            .contains("m4095")
    );
    for form in ["--csv", "--json"] {
        assert!(fake.ok(&["status", form]).contains("m4095"), "{form}");
    }
}

#[test]
fn a_metric_that_only_repeats_its_parameter_is_no_column() {
    let mut views = samples::four();
    let echo = |view: &mut ExperimentView, name: &str, value| {
        let printed = samples::metric(name, value, value, value);
        view.metrics.push(printed);
    };
    echo(&mut views[0], "lr", 0.1);
    echo(&mut views[1], "lr", 0.001);
    let header = |views: Vec<ExperimentView>| {
        let shown = with_list(views).ok(&["status"]);
        shown.lines().next().unwrap_or_default().to_owned()
    };
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let plain = words(&header(views.clone()));
    assert_eq!(plain.iter().filter(|word| word.ends_with("lr")).count(), 1);
    // A schedule adds to the parameter, and the two are distinguished.
    views[0].metrics.last_mut().expect("pushed").min = 0.01;
    let scheduled = words(&header(views));
    assert!(scheduled.contains(&"param.lr".to_owned()), "{scheduled:?}");
    assert!(scheduled.contains(&"metric.lr".to_owned()), "{scheduled:?}");
}

#[test]
fn metrics_come_before_their_steps_and_before_what_the_names_say() {
    let view = |id: u64, rate: &str, opt: &str| ExperimentView {
        params: vec![
            samples::param("rate", rate, rate),
            samples::param("opt", opt, &format!("\"{opt}\"")),
        ],
        metrics: vec![
            samples::metric("epoch", 3.0, 1.0, 3.0),
            samples::metric("error_rate", 0.5, 0.5, 1.0),
        ],
        ..samples::experiment(id, &format!("train_rate-{rate}"), "running")
    };
    let fake = with_list(vec![view(1, "0.1", "sgd"), view(2, "0.01", "adam")]);
    let shown = fake.ok(&["status"]);
    let header: Vec<&str> = shown
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    assert_eq!(
        header,
        ["id", "name", "state", "opt", "error_rate", "epoch", "rate"]
    );
}

#[test]
fn a_metric_of_unknown_direction_is_asked_for() {
    let mut views = samples::four();
    views[0]
        .metrics
        .push(samples::metric("alpha", 1.0, 0.0, 2.0));
    let fake = with_list(views);
    let ran = fake.run(&["results", "all", "--best", "alpha"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("--best max:alpha"), "{}", ran.err);
    assert!(
        fake.ok(&["results", "all", "--best", "max:alpha"])
            .contains("max(alpha)")
    );
}

#[test]
fn columns_are_named_as_in_expressions_too() {
    let fake = with_list(samples::four());
    let header = |names| {
        let shown = fake.ok(&["status", "--columns", names]);
        let first = shown.lines().next().unwrap_or_default();
        first
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let as_in_expressions = header("id,attempt,tmod,tsub,tstart,tend");
    let ours = header("id,run,modified,submitted,started,ended");
    assert_eq!(as_in_expressions, ours);
}

#[test]
fn every_fact_of_expressions_is_a_column() {
    let mut views = samples::four();
    let number = |name: &str, number| FactValue {
        name: name.into(),
        value: Some(fact_value::Value::Number(number)),
    };
    views[0].facts = vec![
        FactValue {
            name: "command".into(),
            value: Some(fact_value::Value::Text("python3 main.py".into())),
        },
        number("waittime", 90.0),
        number("disk", 2_097_152.0),
    ];
    let fake = with_list(views);
    for fact in nero_expr::Fact::ALL {
        let shown = fake.ok(&["status", "--columns", fact.word()]);
        assert!(shown.lines().count() > 4, "{}: {shown}", fact.word());
    }
    let words = ["status", "--sort", "silent", "--columns"];
    let shown = fake.ok(&[&words[..], &["id,command,waittime,disk"]].concat());
    let row = shown.lines().find(|line| line.contains("python3"));
    assert!(
        row.is_some_and(|row| row.contains("1m30s") && row.contains("2.0M")),
        "{shown}"
    );
    assert_eq!(
        fake.requests().last().map(String::as_str),
        Some("list `` Pacific/Chatham settle false facts command waittime disk silent")
    );
    let csv = fake.ok(&["status", "--csv", "--columns", "id,command,waittime,disk"]);
    assert!(
        csv.starts_with("id,command,waittime_s,disk_bytes\n"),
        "{csv}"
    );
    assert!(csv.contains(",python3 main.py,90,2097152"), "{csv}");
    let planned = fake.run(&["status", "--columns", "eta"]);
    assert_eq!(planned.code, Some(2), "{planned:?}");
    assert!(planned.err.contains("not built yet"), "{}", planned.err);
}

#[test]
fn names_of_files_that_a_shell_made_of_a_pattern_are_told_apart() {
    let fake = Fake::new(Answers {
        no_such: vec!["two/a.sh,two/b.py".into(), "two/a.sh".into()],
        ..Answers::default()
    });
    std::fs::create_dir(fake.path().join("two")).expect("a folder");
    for name in ["two/a.sh", "two/b.py"] {
        std::fs::write(fake.path().join(name), "").expect("a file");
    }
    for words in [
        &["status", "two/a.sh", "two/b.py"][..],
        &["abort", "two/a.sh"],
    ] {
        let ran = fake.run(words);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains("'two/*'"), "{}", ran.err);
    }
}

#[test]
fn an_interrupted_change_says_that_the_daemon_goes_on() {
    let fake = Fake::new(Answers {
        silent: true,
        ..Answers::default()
    });
    for (words, said) in [
        (&["start", "all"][..], "neroman abort last"),
        (&["abort", "all", "--yes"], "neroman status"),
    ] {
        let asked = fake.requests().len();
        let child = fake
            .command(words)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("the program is built");
        let patience = std::time::Instant::now();
        while fake.requests().len() == asked {
            assert!(patience.elapsed().as_secs() < 60, "{words:?} asked nothing");
            std::thread::yield_now();
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        let ran = Ran::of(child.wait_with_output().expect("it ends"));
        assert_eq!(ran.code, Some(130), "{ran:?}");
        assert!(ran.err.contains("the daemon goes on"), "{ran:?}");
        assert!(ran.err.contains(said), "{ran:?}");
    }
}

#[test]
fn a_column_that_is_not_there_is_said() {
    let fake = with_list(samples::four());
    let ran = fake.run(&["status", "--columns", "los"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("did you mean `loss`?"), "{}", ran.err);
}

#[test]
fn an_empty_home_prints_three_commands() {
    let fake = Fake::new(Answers {
        list: ListReply {
            nothing_set_up: true,
            ..ListReply::default()
        },
        ..Answers::default()
    });
    insta::assert_snapshot!("nothing", fake.ok(&["status"]));
}

#[test]
fn show_says_everything() {
    let fake = Fake::new(Answers {
        show: samples::show(),
        ..Answers::default()
    });
    let shown = fake.ok(&["show", "146"]);
    assert!(!shown.contains("should have been masked"), "{shown}");
    insta::assert_snapshot!("show", shown);
}

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
         note: takes 14 files, 2.1M; leaves out data/ (.gitignore), 3 × *.pt (.gitignore)\n"
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

#[test]
fn tables_of_rules_nodes_results_and_the_daemon() {
    let fake = Fake::new(Answers {
        list: ListReply {
            experiments: samples::four(),
            ..ListReply::default()
        },
        rules: RuleListReply {
            rules: vec![samples::rule(144), samples::rule(145)],
            notes: Vec::new(),
        },
        nodes: samples::nodes(),
        metrics: samples::series(),
        ..Answers::default()
    });
    insta::assert_snapshot!("rules", fake.ok(&["rule", "list"]));
    insta::assert_snapshot!("nodes", fake.ok(&["status", "nodes"]));
    insta::assert_snapshot!("metrics", fake.ok(&["metrics", "144"]));
    insta::assert_snapshot!("results", fake.ok(&["results", "all", "--best", "acc"]));
    insta::assert_snapshot!("groups", fake.ok(&["results", "all", "--by", "opt"]));
}

#[test]
fn a_line_without_a_verb_shows_the_verbs() {
    let fake = with_list(samples::four());
    let ran = fake.run(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.err.contains("usage: neroman VERB"), "{}", ran.err);
    assert!(ran.err.contains("error: a verb is missing"), "{}", ran.err);
}

#[test]
fn an_option_that_is_not_there_is_no_value() {
    let fake = with_list(samples::four());
    let ran = fake.run(&["status", "--bogus"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("usage: neroman status"), "{}", ran.err);
    assert!(!ran.err.contains("as a value"), "{}", ran.err);
}

#[test]
fn help_lists_what_is_there() {
    let fake = Fake::new(Answers::default());
    insta::assert_snapshot!("help", fake.ok(&["help"]));
    for columns in ["40", "60", "80"] {
        let mut asked = fake.command(&["help"]);
        let ran = Ran::of(asked.env("COLUMNS", columns).output().expect("it runs"));
        let width = columns.parse().expect("a number");
        let too_wide = |line: &&str| line.chars().count() > width;
        assert_eq!(ran.out.lines().find(too_wide), None, "{columns}");
    }
    assert!(!fake.ok(&["start", "--help"]).contains("--at-most"));
    assert!(fake.ok(&["--version"]).starts_with("neroman 0."));
    assert!(fake.ok(&["completions", "bash"]).contains("_neroman"));
    assert_eq!(fake.run(&[]).code, Some(2));
    assert!(fake.requests().is_empty());
}

#[test]
fn foreign_text_never_reaches_the_screen_raw() {
    let fake = Fake::new(Answers {
        list: ListReply {
            experiments: vec![samples::hostile(), samples::four().remove(1)],
            notes: vec![HOSTILE.into()],
            nothing_set_up: false,
        },
        show: ShowReply {
            experiment: Some(samples::hostile()),
            argv: vec![HOSTILE.into()],
            facts: vec![HOSTILE.into()],
            history: vec![HOSTILE.into()],
            git: HOSTILE.into(),
            stdout_tail: HOSTILE.as_bytes().to_vec(),
            env: vec![EnvVar {
                name: HOSTILE.into(),
                value: HOSTILE.into(),
                unset: false,
                expand: false,
            }],
            notes: vec![HOSTILE.into()],
            ..samples::show()
        },
        start: StartReply {
            experiments: vec![
                start_reply::One {
                    experiment: 1,
                    name: HOSTILE.into(),
                    run: 1,
                    skipped: String::new(),
                    skipped_as: String::new(),
                },
                start_reply::One {
                    experiment: 2,
                    name: HOSTILE.into(),
                    run: 0,
                    skipped: HOSTILE.into(),
                    skipped_as: HOSTILE.into(),
                },
            ],
            notes: vec![HOSTILE.into()],
            folders: vec![FolderTaken {
                folder: HOSTILE.into(),
                left_out: vec![HOSTILE.into()],
                ..FolderTaken::default()
            }],
        },
        wait: vec![WaitEvent {
            ended: vec![samples::hostile()],
            still_live: 0,
            done: true,
            ..WaitEvent::default()
        }],
        watch: vec![WatchEvent {
            experiments: vec![samples::hostile()],
            first: true,
            live: 0,
            ..WatchEvent::default()
        }],
        metrics: MetricsReply {
            series: vec![metrics_reply::Series {
                name: HOSTILE.into(),
                ..samples::series().series.remove(0)
            }],
            notes: vec![HOSTILE.into()],
        },
        ..Answers::default()
    });
    let lines: &[&[&str]] = &[
        &["status"],
        &["status", "--json"],
        &["status", "--watch"],
        &["status", "--watch", "--json"],
        &["show", "1"],
        &["show", "1", "--json"],
        &["start", "1"],
        &["start", "1", "--json"],
        &["wait", "1"],
        &["metrics", "1"],
        &["metrics", "1", "--json"],
        &["results", "all"],
        &["results", "all", "--by", "opt"],
        &["results", "all", "--json"],
    ];
    for words in lines {
        let ran = fake.run(words);
        for text in [&ran.out, &ran.err] {
            let acts = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!text.chars().any(acts), "{words:?}: {text:?}");
        }
    }
}
