//! Rules over the peers of a run: the examples of the manual, and what dies meanwhile.

use std::fs;
use std::path::PathBuf;

use nero_tests::{Home, Part, until};

use crate::story::{added, job, make_pipe};

/// Folders of requests and rules of a run.
fn control(home: &Home, id: u64) -> PathBuf {
    let nodes = fs::read_dir(home.base().join("node")).unwrap();
    let mut found = nodes.map(|entry| entry.unwrap().path().join(format!("runs/{id}/1/control")));
    found
        .find(|path| path.is_dir())
        .expect("the run has a folder")
}

#[test]
fn median_stopping_ends_what_is_worse_than_half_of_its_peers() {
    let home = Home::new();
    let yaml = "collection: sweep
+lr:
  command: [sh, -c, 'echo epoch 10: loss = $0; test $0 != 0.9 || sleep 600', '{loss}']
  parameters: {loss: [0.1, 0.2, 0.3, 0.9]}
  rules:
    - abort: loss@10 > median(peers.loss@10)
+other:
  command: 'echo epoch 10: loss = 100'
";
    added(&home, "sweep", yaml);
    home.ok(&["start", "1-3,5"]);
    for id in [1, 2, 3, 5] {
        home.until_settled(id);
    }
    assert_eq!(home.experiment_json(1)["state"], "finished");
    home.ok(&["rule", "add", "5", "abort: loss > max(peers.loss)"]);
    home.ok(&["restart", "5"]);
    home.until_settled(5);
    let alone = home.ok(&["rule", "list", "5"]);
    assert!(
        alone.contains("no peer has a value of `max(peers.loss)`"),
        "{alone}"
    );
    home.ok(&["start", "4"]);
    let seen = home.until_state(4, "aborted");
    let reason = seen["reason"].as_str().unwrap();
    assert!(reason.contains("median(peers.loss@10)"), "{reason}");
    home.until_settled(4);
    let rules = home.json(&["rule", "list", "4"]).to_string();
    // Number, count and time of what it was decided by.
    let values = "loss@10 = 0.9, median(peers.loss@10) = 0.2 (of 3 peers at 20";
    assert!(rules.contains(values), "{rules}");

    let rule = "abort: loss@10 > median(peers.loss@10)";
    let replayed = home.json(&["rule", "backtest", "lr", rule]);
    let of = |run: &str| {
        let runs = replayed["runs"].as_array().unwrap();
        let found = runs.iter().find(|one| one["run"] == run);
        found
            .unwrap_or_else(|| panic!("no {run}: {replayed:#}"))
            .clone()
    };
    assert_eq!(replayed["direction"], "min");
    assert!(of("4.1")["fired_s"].is_number(), "{replayed:#}");
    assert_eq!(
        (&of("4.1")["good"], &of("1.1")["good"]),
        (&false.into(), &true.into())
    );
    assert!(of("1.1")["fired_s"].is_null(), "{replayed:#}");
    let told = home.ok(&[
        "rule",
        "backtest",
        "1-4",
        "abort: loss > 0.85 && runtime < 1h",
    ]);
    assert!(told.contains("1 of 4 runs would have ended"), "{told}");
    assert!(told.contains("0 of 2 good runs lost"), "{told}");
    let told = home.run(&["rule", "backtest", "1-4", "abort: mem > 2G"]);
    assert!(
        told.err.contains("`mem` of past runs is not known"),
        "{told:#?}"
    );
}

#[test]
fn successive_halving_goes_on_by_the_last_numbers_after_kills() {
    let home = Home::new();
    let [first, second] = ["first", "second"].map(|name| home.path().join(name));
    make_pipe(&first);
    make_pipe(&second);
    let yaml = format!(
        "collection: sweep
rules:
  - abort: loss@9 > quantile(peers.loss@9, 1/3)
  - abort: loss@27 > quantile(peers.loss@27, 1/3)
  - abort: loss@81 > quantile(peers.loss@81, 1/3)
cohort: halving
+a: {{command: \"sh -c 'echo epoch 9: loss = 0.5; echo epoch 27: loss = 0.4'\"}}
+b: {{command: \"sh -c 'echo epoch 9: loss = 0.7; echo epoch 27: loss = 0.6'\"}}
+c:
  command: '{} print epoch 9: loss = 0.1 -- hold {} -- print epoch 27: loss = 0.09 -- print epoch 28: loss = 0.09 -- hold {}'
",
        job(),
        first.display(),
        second.display()
    );
    added(&home, "sweep", &yaml);
    home.ok(&["start", "a,b"]);
    for id in [1, 2] {
        home.until_settled(id);
    }
    home.ok(&["start", "c"]);
    home.until_state(3, "running");
    until("the numbers of its peers", || {
        let folder = control(&home, 3);
        if folder.join("rules.2").is_file() {
            Ok(())
        } else {
            Err(home.logs())
        }
    });
    home.kill_all(&[Part::Daemon, Part::Mum, Part::Watcher]);
    // It is among the best third at both steps, with whom it was compared.
    fs::write(&first, "").unwrap();
    until("its second rung", || {
        let seen = home.experiment_json(3);
        match seen["metrics"]["loss"]["step"].as_f64() {
            Some(28.0) => Ok(()),
            _ => Err((seen, home.logs())),
        }
    });
    assert_eq!(home.experiment_json(3)["state"], "running");
    home.kill_all(&[Part::Daemon, Part::Mum]);
    fs::write(&second, "").unwrap();
    assert_eq!(home.until_settled(3)["state"], "finished");
}

#[test]
fn a_rule_over_peers_ends_a_run_while_nothing_else_of_ours_is_alive() {
    let home = Home::new();
    let pipe = home.path().join("pipe");
    make_pipe(&pipe);
    let yaml = format!(
        "collection: sweep
+a: {{command: 'echo epoch 9: loss = 0.5', cohort: x}}
+b:
  command: '{} hold {} -- print epoch 9: loss = 0.6 -- hold {1}'
  cohort: x
  rules: [abort: loss@9 > min(peers.loss@9)]
",
        job(),
        pipe.display()
    );
    added(&home, "sweep", &yaml);
    home.ok(&["start", "1"]);
    home.until_settled(1);
    home.ok(&["start", "2"]);
    home.until_state(2, "running");
    until("the numbers of its peers", || {
        let folder = control(&home, 2);
        if folder.join("rules.2").is_file() {
            Ok(())
        } else {
            Err(home.logs())
        }
    });
    home.kill_all(&[Part::Daemon, Part::Mum]);
    fs::write(&pipe, "").unwrap();
    until("the job to be ended by its rule", || {
        match home.alive(Part::Job) {
            jobs if jobs.is_empty() => Ok(()),
            jobs => Err((jobs, home.logs())),
        }
    });
    let seen = home.until_state(2, "aborted");
    let reason = seen["reason"].as_str().unwrap();
    assert!(reason.contains("min(peers.loss@9)"), "{reason}");
}
