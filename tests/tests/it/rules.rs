//! Rules act while the run lives, whatever is above them.

use std::fs;

use nero_tests::{Home, Part, until};
use serde_json::json;

use crate::story::{added, job, make_pipe};

#[test]
fn a_rule_ends_the_run_and_says_why() {
    let home = Home::new();
    let yaml = "collection: r\n+r:\n  command: sh -c 'echo loss 3; sleep 600'\n  rules:\n    - abort: loss > 2\n";
    added(&home, "r", yaml);
    home.ok(&["start", "1"]);
    assert_eq!(home.run(&["wait", "1"]).code, Some(1));
    let seen = home.experiment_json(1);
    assert_eq!(seen["state"], "aborted", "{seen:#}");
    let reason = seen["reason"].as_str().unwrap();
    assert!(
        reason.contains("loss > 2") && reason.contains('3'),
        "{reason}"
    );
    assert!(home.ok(&["rule", "list", "1"]).contains("loss > 2"));
}

#[test]
fn a_rule_works_while_everything_above_is_gone() {
    rule_fires_after_killing(&[Part::Daemon, Part::Mum]);
}

#[test]
fn a_rule_works_while_the_launcher_stands_in_for_the_shim() {
    rule_fires_after_killing(&[Part::Daemon, Part::Mum, Part::Shim]);
}

/// The job prints a value that its rule forbids after these parts have died.
fn rule_fires_after_killing(which: &[Part]) {
    let home = Home::new();
    let pipe = home.path().join("pipe");
    make_pipe(&pipe);
    let yaml = format!(
        "collection: r\n+r:\n  command: {} print loss 1 -- hold {1} -- print loss 5 -- hold {1}\n  rules:\n    - abort: loss > 2\n",
        job(),
        pipe.display()
    );
    added(&home, "r", &yaml);
    home.ok(&["start", "1"]);
    until("the watcher to have read", || {
        let seen = home.experiment_json(1);
        if seen["metrics"]["loss"]["last"].as_f64() == Some(1.0) {
            Ok(())
        } else {
            Err(seen)
        }
    });
    home.kill_all(which);
    fs::write(&pipe, "").unwrap();
    until("the job to be ended by its rule", || {
        let jobs = home.alive(Part::Job);
        if jobs.is_empty() {
            Ok(())
        } else {
            Err((jobs, home.logs()))
        }
    });
    let seen = home.until_state(1, "aborted");
    assert!(
        seen["reason"].as_str().unwrap().contains("loss > 2"),
        "{seen:#}"
    );
}

#[test]
fn a_rule_added_later_acts_on_live_runs() {
    let home = Home::new();
    added(
        &home,
        "r",
        "collection: r\n+r:\n  command: sh -c 'echo loss 3; sleep 600'\n",
    );
    home.ok(&["start", "1"]);
    home.until_state(1, "running");
    home.ok(&["rule", "add", "1", "abort: loss > 2"]);
    home.until_state(1, "aborted");
}

#[test]
fn a_warning_is_shown_and_ends_nothing() {
    let home = Home::new();
    let pipe = home.path().join("pipe");
    make_pipe(&pipe);
    let yaml = format!(
        "collection: r\n+r:\n  command: {} print test error = 0.9 -- hold {}\n  rules:\n    - warn: test_error > 0.5\n",
        job(),
        pipe.display()
    );
    added(&home, "r", &yaml);
    home.ok(&["start", "1"]);
    until("the warning", || {
        let seen = home.experiment_json(1);
        let warned = seen["warnings"]
            .as_array()
            .is_some_and(|all| !all.is_empty());
        if warned {
            Ok(())
        } else {
            Err((seen, home.logs()))
        }
    });
    assert_eq!(home.experiment_json(1)["state"], "running");
    fs::write(&pipe, "").unwrap();
    home.ok(&["wait", "1"]);
}

#[test]
fn a_rule_that_cannot_apply_to_one_run_is_off_there_alone_and_said() {
    let home = Home::new();
    let yaml = "collection: r
rules: [{abort: loss > 2}, {warn: param.lr > 1}]
command: sh -c 'echo loss 3; sleep 600'
+without: {}
+with:
  parameters: {lr: 5}
  command: sh -c 'echo lr 5 loss 3; sleep 600' {lr}
";
    added(&home, "r", yaml);
    let told = home.run(&["start", "1,2"]);
    assert_eq!(told.code, Some(0), "{told:#?}");
    let off = "rule `param.lr > 1` is off in 1: no parameter is called `lr`";
    assert!(told.err.contains(off), "{told:#?}");
    assert!(
        told.err.contains(":2:29)"),
        "its place in the file: {told:#?}"
    );
    for id in [1, 2] {
        let seen = home.until_state(id, "aborted");
        let reason = seen["reason"].as_str().unwrap();
        assert!(reason.contains("loss > 2"), "{reason}");
    }
    home.until_settled(1);
    let off = "rule `param.lr > 1` is off: no parameter is called `lr`";
    let warned = home.experiment_json(1)["warnings"].to_string();
    assert!(warned.contains(off), "{warned}");
    assert!(home.ok(&["status"]).contains(&format!("warning 1: {off}")));
    let shown = home.ok(&["show", "1"]);
    let head: Vec<&str> = shown.lines().take(5).collect();
    assert!(head.iter().any(|line| line.contains(off)), "{shown}");
    let listed = home.ok(&["rule", "list", "all"]);
    let stands = |line: &&str| line.contains("loss > 2") && line.contains("off:");
    assert!(!listed.lines().any(|line| stands(&line)), "{listed}");
    let told = home.run(&["rule", "add", "all", "warn: param.lr > 2"]);
    assert!(told.err.contains("is off in 1: no parameter"), "{told:#?}");
}

#[test]
fn each_part_of_a_rule_is_told_with_its_value_and_age() {
    let home = Home::new();
    let yaml = "collection: r
rules:
  - abort: (loss > 2 || errorrate > 0.9 for 10m) && val > 1
  - notify: waittime > 12h
command: sh -c 'echo loss=0.5 error_rate=0.95; sleep 600'
+r: {}
";
    added(&home, "r", yaml);
    home.ok(&["start", "1"]);
    let why = until("the condition of the `for` to hold", || {
        let why = home.json(&["rule", "why", "1"]);
        if why["rules"][0]["parts"][3]["text"]
            .to_string()
            .contains("(holds for")
        {
            Ok(why)
        } else {
            Err((why, home.logs()))
        }
    });
    let rule = &why["rules"][0];
    assert_eq!(
        (&rule["where"], &rule["run"]),
        (&json!("job"), &json!("1.1"))
    );
    assert_eq!(rule["holds"], "no", "{rule:#}");
    let told: Vec<(u64, &str, &str)> = rule["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| {
            let text = part["text"].as_str().unwrap();
            let text = text.split(" (holds").next().unwrap();
            (
                part["depth"].as_u64().unwrap(),
                part["holds"].as_str().unwrap(),
                text,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (0, "no", "all of"),
            (1, "no", "any of"),
            (2, "no", "loss = 0.5 > 2"),
            (2, "no", "for 10m"),
            (3, "yes", "errorrate = 0.95 > 0.9"),
            (1, "unknown", "val = unknown > 1"),
        ]
    );
    let rate = &rule["parts"][4]["values"][0];
    assert_eq!(rate["means"], "metric error_rate", "{rate:#}");
    assert!(rate["at"].is_string(), "{rate:#}");
    let shown = home.ok(&["rule", "why"]);
    assert!(
        shown.contains("evaluated by neroman: notify waittime > 12h"),
        "{shown}"
    );
    assert!(shown.contains("val: nothing of that name yet"), "{shown}");
}

#[test]
fn a_rule_that_could_never_fire_is_refused_when_it_is_added() {
    let home = Home::new();
    added(&home, "r", "collection: r\n+r: {command: 'true'}\n");
    for (rule, hint) in [
        ("abort:loss=>0.4", "write `>=`"),
        ("warn: state = cra* && runtime > 1", "a rule for each"),
        ("warn: state = crash* && loss > 1", "a rule for each"),
        ("abort: loss =<0.4", "write `<=`"),
        ("abort: diverged", "`diverged > …`"),
        (
            "abort: optimizer == \"adam\"",
            "no parameter is called `optimizer`",
        ),
        ("abort: loss > \"5\"", "without quotes: `5`"),
        ("abort: loss > 0,25", "`0.25`"),
        ("warn: waittime >= 0 && cpu > 1", "a rule for each"),
        ("warn: tmod < 10h && silent > 1m", "a rule for each"),
        ("notify: crashed && runtime > 1h", "a rule for each"),
        ("abort: state == crashed", "`notify` or `warn`"),
    ] {
        let ran = home.run(&["rule", "add", "1", rule]);
        assert_eq!(ran.code, Some(2), "{rule}: {ran:#?}");
        assert!(ran.err.contains(hint), "{rule}: {}", ran.err);
        let (action, text) = rule.split_once(':').unwrap();
        let yaml =
            format!("collection: x\n+x: {{command: 'true', rules: [{{{action}: '{text}'}}]}}\n");
        let folder = home.experiment("x", &yaml).display().to_string();
        let ran = home.run(&["add", &folder]);
        assert_eq!(ran.code, Some(2), "{rule}: {ran:#?}");
        let said = ran.err.contains("neronet.yaml:2:") && ran.err.contains(hint);
        assert!(said, "{rule}: {}", ran.err);
    }
    assert!(home.ok(&["rule", "list", "1"]).contains("no rules"));
    let ran = home.run(&["status", "lr=<0.05"]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
}

#[test]
fn the_conditions_of_the_original_are_rules() {
    let home = Home::new();
    let folder = home.path().join("old");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("main.sh"),
        "echo loss23; echo loss 23; sleep 600\n",
    )
    .unwrap();
    let config = "+old:\n  run_command_prefix: sh\n  main_code_file: main.sh\n  conditions:\n    big:\n      variablename: loss\n      killvalue: 5\n      comparator: gt\n      when: immediately\n      action: kill\n";
    fs::write(folder.join("config.yaml"), config).unwrap();
    home.ok(&["--addexp", &folder.display().to_string()]);
    home.ok(&["--start", "1"]);
    home.until_state(1, "aborted");
}

#[test]
fn a_signal_of_a_rule_comes_once_also_when_its_watcher_dies() {
    let home = Home::new();
    let command = r#"sh -c 'trap "echo first 1" USR1; trap "echo second 1" USR2; echo loss 3; while :; do sleep 0.1; done'"#;
    let yaml = format!(
        "collection: r\n+r:\n  command: {command}\n  rules:\n    - {{on: loss > 2, signal: USR1}}\n"
    );
    added(&home, "r", &yaml);
    home.ok(&["start", "1"]);
    let metric = |name: &str| {
        until("a signal", || {
            let seen = home.experiment_json(1);
            let value = seen["metrics"][name]["last"].as_f64();
            value.ok_or((seen, home.logs()))
        })
    };
    assert_eq!(metric("first"), 1.0);
    home.kill(Part::Watcher);
    home.ok(&["rule", "add", "1", "signal SIGUSR2: loss > 2"]);
    metric("second");
    let seen = home.experiment_json(1);
    assert_eq!(seen["metrics"]["first"]["count"], 1, "{seen:#}");
    assert_eq!(seen["state"], "running", "{seen:#}");
    let why = home.ok(&["rule", "why", "1"]);
    assert!(why.contains(": signal USR1 loss > 2"), "{why}");
    let listed = home.ok(&["rule", "list", "1"]);
    assert!(
        listed.contains("signal USR1") && listed.contains("signal SIGUSR2"),
        "{listed}"
    );
    for (rule, hint) in [
        ("signal: loss > 2", "signal USR1: loss > 5"),
        ("signal NOPE: loss > 2", "signal: USR1"),
        ("signal KILL: loss > 2", "`abort`"),
        ("signal 19: loss > 2", "`pause`"),
        ("signal USR1: crashed", "`notify`"),
        ("abort now: loss > 2", "as in `abort: loss > 5`"),
    ] {
        let ran = home.run(&["rule", "add", "1", rule]);
        assert_eq!(ran.code, Some(2), "{rule}: {ran:#?}");
        assert!(ran.err.contains(hint), "{rule}: {}", ran.err);
    }
    home.ok(&["abort", "1"]);
    home.until_state(1, "aborted");
}

#[test]
fn commands_of_rules_run_once_beside_the_job_and_here_whatever_dies() {
    let home = Home::new();
    let out = home.path().join("out");
    fs::create_dir(&out).unwrap();
    let pipe = home.path().join("pipe");
    make_pipe(&pipe);
    let yaml = format!(
        r#"collection: r
+r:
  command: sh -c 'echo loss 3; until [ -e {out}/go ]; do sleep 0.1; done; exit 3'
  env: {{COLOUR: red}}
  monitor: {{interval: 200ms}}
  rules:
    - {{on: loss > 2, run: 'echo "$NERO_RUN $COLOUR $NERO_VALUE" >> {out}/ran; until [ -e {out}/go ]; do sleep 0.1; done; pwd'}}
    - {{on: crashed, run_local: 'echo "$NERO_RUN $NERO_STATE $(pwd)" >> {out}/told; cat {pipe}'}}
    - {{on: crashed, run_local: ./missing.sh}}
"#,
        out = out.display(),
        pipe = pipe.display()
    );
    let folder = added(&home, "r", &yaml);
    home.ok(&["start", "1"]);
    home.ok(&[
        "rule",
        "add",
        "1",
        &format!("run_local echo late >> {}/late: loss > 1", out.display()),
    ]);
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap_or_default();
    let has = |name: &str| {
        until("a command", || match read(name) {
            text if text.ends_with('\n') => Ok(()),
            text => Err((text, home.logs())),
        });
    };
    has("ran");
    has("late");
    // The supervisor of a command is a nerokid, too.
    until("the end of the late command", || {
        let rules = home.json(&["rule", "list", "1"])["rules"].clone();
        let ended = rules[3]["ran"].as_array().is_some_and(|ran| ran.len() == 1);
        ended.then_some(()).ok_or((rules, home.logs()))
    });
    home.kill_all(&[Part::Daemon, Part::Mum, Part::Watcher]);
    // The end of a command is known where a watcher saw that of the run.
    home.until_alive(Part::Watcher);
    fs::write(out.join("go"), "").unwrap();
    home.until_state(1, "crashed");
    has("told");
    home.kill_all(&[Part::Daemon, Part::Mum]);
    home.ok(&["status"]);
    fs::write(&pipe, "from the pipe\n").unwrap();
    let rules = until("the ends of all commands", || {
        let rules = home.json(&["rule", "list", "1"])["rules"].clone();
        let all = rules.as_array().unwrap();
        let ended = |rule: &serde_json::Value| rule["ran"].as_array().unwrap().len() == 1;
        if all.iter().all(ended) {
            Ok(all.clone())
        } else {
            Err((rules, home.logs()))
        }
    });
    let told = |of: &str| -> Vec<&str> {
        rules
            .iter()
            .map(|rule| rule["ran"][0][of].as_str().unwrap_or_default())
            .collect()
    };
    let how = ["exit code 0", "exit code 0", "exit code 127", "exit code 0"];
    assert_eq!(told("how"), how, "{rules:#?}");
    assert!(told("output")[0].ends_with("/work\n"), "{rules:#?}");
    assert_eq!(told("output")[1], "from the pipe\n");
    assert_eq!(read("ran"), "1.1 red loss = 3\n");
    assert_eq!(read("told"), format!("1.1 crashed {folder}\n"));
    assert_eq!(read("late"), "late\n");
    let shown = home.ok(&["show", "1"]);
    assert!(
        shown.contains("command of rule `crashed`: exit code 127: "),
        "{shown}"
    );
}
