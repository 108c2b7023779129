//! The output for people, and the requests to the daemon for it.

use nero_wire::v1::*;
use prost::Message as _;
use tonic::{Code, Status};

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
fn progress_is_a_column_where_something_tells_it_and_batches_have_a_line() {
    let table = |experiments: Vec<ExperimentView>, batches: Vec<BatchView>, words: &[&str]| {
        let list = ListReply {
            experiments,
            batches,
            ..ListReply::default()
        };
        let fake = Fake::new(Answers {
            list,
            ..Answers::default()
        });
        fake.ok(words)
    };
    let batch = |batch: &str| samples::batch(batch, "61 of 200 done, about 9 h left");
    let four = ["1.1", "7.1", "9.1", "11.1"].map(batch).to_vec();
    let shown = table(samples::four(), four.clone(), &["status"]);
    assert!(
        shown.contains("progress") && shown.contains(" 40%"),
        "{shown}"
    );
    assert!(shown.contains("eta") && shown.contains("18.8s"), "{shown}");
    let lines: Vec<&str> = shown.lines().rev().take(5).collect();
    let line = |batch: &str| format!("batch {batch}: 61 of 200 done, about 9 h left");
    let counts = "1 running · 1 finished · 1 crashed · 1 defined";
    let want = [
        counts,
        "and 1 more batch",
        &line("11.1"),
        &line("9.1"),
        &line("7.1"),
    ];
    assert_eq!(lines, want);
    let json = table(samples::four(), four, &["status", "--json", "--sort", "id"]);
    assert!(
        json.contains(r#""batch":"7.1","runs":200,"ended":61,"left_s":32400.0"#),
        "{json}"
    );
    assert!(json.contains(r#""progress":0.4,"eta_s":18.75"#), "{json}");

    // A metric of that name is the same number, and no column beside it.
    let mut views = samples::four();
    views[0]
        .metrics
        .push(samples::metric("progress", 0.4, 0.1, 0.4));
    let shown = table(views, Vec::new(), &["status"]);
    assert_eq!(
        shown.lines().next().unwrap().matches("progress").count(),
        1,
        "{shown}"
    );
    let mut views = samples::four();
    views[0].progress = None;
    views[0].eta_s = None;
    let shown = table(views, Vec::new(), &["status"]);
    assert!(
        !shown.contains("progress") && !shown.contains("eta"),
        "{shown}"
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
        ["id", "name", "state", "error_rate", "opt", "epoch", "rate"]
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
        let shown = fake.ok(&["status", "--columns", fact.as_str()]);
        assert!(shown.lines().count() > 4, "{}: {shown}", fact.as_str());
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
    let planned = fake.run(&["status", "--columns", "user"]);
    assert_eq!(planned.code, Some(2), "{planned:?}");
    assert!(planned.err.contains("not built yet"), "{}", planned.err);
}

#[test]
fn names_of_files_that_a_shell_made_of_a_pattern_are_told_apart() {
    let failure = Failure {
        what: "no experiment is called `two`".into(),
        exit_code: 2,
        report: "  two/a.sh\n  ^^^\n".into(),
        ..Failure::default()
    };
    let details = failure.encode_to_vec().into();
    let fake = Fake::new(Answers {
        fails: Some(Status::with_details(Code::InvalidArgument, "x", details)),
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
fn the_parts_of_a_rule_are_shown_with_what_is_known_of_their_names() {
    use rule_why_reply::{Part, Value, Why};
    let value = |written: &str, means: &str, shown: &str, at_ms| Value {
        written: written.to_owned(),
        means: means.to_owned(),
        shown: shown.to_owned(),
        at_ms,
    };
    let part = |depth, text: &str, holds: &str, values| Part {
        depth,
        text: text.to_owned(),
        holds: holds.to_owned(),
        values,
    };
    let reply = RuleWhyReply {
        rules: vec![Why {
            rule: Some(RuleState {
                rule: Some(Rule {
                    id: 3,
                    action: "abort".to_owned(),
                    text: "(loss > 5) || (lr > 1 && acc < 2)".to_owned(),
                    ..Rule::default()
                }),
                experiment: 144,
                place: "job".to_owned(),
                ..RuleState::default()
            }),
            name: "fit".to_owned(),
            run: 2,
            state: "running".to_owned(),
            holds: "no".to_owned(),
            parts: vec![
                part(0, "any of", "no", Vec::new()),
                part(
                    1,
                    "loss = 0.3 > 5",
                    "no",
                    vec![value("loss", "metric val_loss", "0.3", 1_700_000_000_000)],
                ),
                part(1, "all of", "no", Vec::new()),
                part(
                    2,
                    "lr = 0.1 > 1",
                    "no",
                    vec![value("lr", "parameter lr", "0.1", 0)],
                ),
                part(
                    2,
                    "acc = unknown < 2",
                    "unknown",
                    vec![value("acc", "", "unknown", 0)],
                ),
            ],
        }],
        notes: Vec::new(),
        now_ms: 1_700_000_012_000,
    };
    let fake = Fake::new(Answers {
        why: reply,
        ..Answers::default()
    });
    insta::assert_snapshot!("why", fake.ok(&["rule", "why", "144"]));
    insta::assert_snapshot!("why_json", fake.ok(&["rule", "why", "144", "--json"]));
}

#[test]
fn a_backtest_shows_what_would_have_ended_and_what_that_saves_and_costs() {
    let run = |experiment: u64, fired_ms: Option<u64>, best: f64| rule_backtest_reply::Run {
        experiment,
        number: 1,
        name: format!("lr-{experiment}"),
        state: "finished".to_owned(),
        ran_ms: 7_200_000,
        fired_ms,
        step: fired_ms.map(|_| 10.0),
        values: "loss@10 = 0.9, median(peers.loss@10) = 0.2 (of 3 peers at 2026-11-20T12:00:00Z)"
            .to_owned(),
        best: Some(best),
        good: best < 0.2,
        lost: best < 0.2 && fired_ms.is_some(),
        problem: if experiment == 4 {
            "no parameter is called `x`".to_owned()
        } else {
            String::new()
        },
    };
    let mut reply = RuleBacktestReply {
        runs: vec![
            run(1, Some(600_000), 0.9),
            run(2, Some(1_200_000), 0.1),
            run(3, None, 0.15),
            run(4, None, 0.3),
        ],
        text: "loss@10 > median(peers.loss@10)".to_owned(),
        ends: true,
        best: "loss".to_owned(),
        more_is_better: false,
        notes: vec!["1 of its runs has not ended and is left out".to_owned()],
    };
    let told = |reply: &RuleBacktestReply, words: &[&str]| {
        let fake = Fake::new(Answers {
            backtest: reply.clone(),
            ..Answers::default()
        });
        let rule = "abort: loss@10 > median(peers.loss@10)";
        fake.ok(&[&["rule", "backtest", "all", rule], words].concat())
    };
    insta::assert_snapshot!("backtest", told(&reply, &[]));
    insta::assert_snapshot!(
        "backtest_json",
        told(&reply, &["--best", "min:loss", "--json"])
    );
    reply.ends = false;
    reply.best.clear();
    let warned = told(&reply, &[]);
    assert!(
        warned
            .ends_with("2 of 4 runs: it would have fired\n4.1: off: no parameter is called `x`\n"),
        "{warned}"
    );
}

#[test]
fn mail_is_listed_with_the_words_of_the_server_and_what_waits() {
    let fake = Fake::new(Answers {
        mail: samples::mail(),
        ..Answers::default()
    });
    let shown = fake.ok(&["mail", "list"]);
    for part in [
        "ada@example.org",
        "waiting",
        "451 try again later",
        "1 event to be told: quiet hours",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let tried = fake.ok(&["mail", "retry"]);
    assert!(
        tried.starts_with("1 delivery is tried again now"),
        "{tried}"
    );
    let off = MailListReply {
        off: true,
        ..MailListReply::default()
    };
    let fake = Fake::new(Answers {
        mail: off,
        ..Answers::default()
    });
    let shown = fake.ok(&["mail", "list"]);
    assert!(shown.starts_with("nobody is told of anything"), "{shown}");
    assert_eq!(fake.ok(&["mail", "retry"]), "nothing waits\n");
}

#[test]
fn a_line_without_a_verb_is_status() {
    let fake = with_list(samples::four());
    assert_eq!(fake.ok(&[]), fake.ok(&["status"]));
    assert_eq!(fake.ok(&["--json"]), fake.ok(&["status", "--json"]));
    let refused = fake.run(&["--yes"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
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
    assert!(fake.ok(&["--version"]).starts_with("neroman 0."));
    assert!(fake.ok(&["completions", "bash"]).contains("_neroman"));
    assert!(fake.requests().is_empty());
}

#[test]
fn the_version_with_verbose_has_what_a_report_of_a_bug_needs() {
    let fake = Fake::new(Answers::default());
    let own = fake.ok(&["--version"]);
    assert_eq!(own.lines().count(), 1, "{own}");
    let verbose = fake.ok(&["--version", "--verbose"]);
    assert!(verbose.starts_with(&own), "{verbose}");
    let document = fake.ok(&["--version", "--verbose", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
    let facts = document["facts"].as_array().expect("facts");
    let names = [
        "revision",
        "target",
        "C library",
        "protocol",
        "stored formats",
        "agents",
    ];
    for name in names {
        assert!(
            facts.iter().any(|fact| fact[0] == name),
            "{name}: {document}"
        );
        let stands = |line: &str| line.starts_with(&format!("{name} "));
        assert!(verbose.lines().any(stands), "{name}: {verbose}");
    }
    assert!(fake.requests().is_empty());
}

#[test]
fn foreign_text_never_reaches_the_screen_raw() {
    let fake = Fake::new(Answers {
        list: ListReply {
            experiments: vec![samples::hostile(), samples::four().remove(1)],
            notes: vec![HOSTILE.into()],
            nothing_set_up: false,
            workbooks: vec![samples::workbook(HOSTILE)],
            batches: vec![samples::batch(HOSTILE, HOSTILE)],
            totals: None,
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
            batch: HOSTILE.into(),
            costs: String::new(),
            notes: vec![HOSTILE.into()],
            scripts: vec![BatchScript {
                node: HOSTILE.into(),
                experiments: vec![1],
                command: HOSTILE.into(),
                // Its tabs are shown: the script is printed to be read and copied.
                script: HOSTILE.replace('\t', " "),
                problem: String::new(),
                refused: false,
            }],
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
        &["plot", "1"],
        &["plot", "1", "--by", "opt"],
    ];
    for words in lines {
        let ran = fake.run(words);
        for text in [&ran.out, &ran.err] {
            let acts = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!text.chars().any(acts), "{words:?}: {text:?}");
        }
    }
}
