//! `kill -9` of every part, every pair and all together, at every step of a
//! run's life: nothing runs twice, nothing recorded is lost, the job goes on,
//! exit codes are right.

use std::fs;
use std::path::PathBuf;

use nero_tests::{Home, Part, until};
use serde_json::Value;

use crate::story::{added, job, make_pipe};

/// A home whose experiment 1 notes its start, prints, waits for the pipe, prints again,
/// notes its end and exits 7.
struct Held {
    home: Home,
    pipe: PathBuf,
    notes: PathBuf,
}

impl Held {
    fn new() -> Self {
        let home = Home::new();
        let pipe = home.path().join("pipe");
        make_pipe(&pipe);
        let notes = home.path().join("notes");
        let yaml = format!(
            "collection: k\n+k:\n  command: {} note {1} start -- print loss 1 -- hold {2} -- print loss 2 -- note {1} end -- exit 7\n",
            job(),
            notes.display(),
            pipe.display()
        );
        added(&home, "k", &yaml);
        Self { home, pipe, notes }
    }

    /// Starts it and waits until the job runs and its watcher has read a line.
    fn running() -> Self {
        let held = Self::new();
        held.home.ok(&["start", "1"]);
        until("the first metric", || {
            let seen = held.home.experiment_json(1);
            let there =
                seen["state"] == "running" && seen["metrics"]["loss"]["last"].as_f64() == Some(1.0);
            if there {
                Ok(())
            } else {
                Err((seen, held.home.logs()))
            }
        });
        held
    }

    fn release(&self) {
        fs::write(&self.pipe, "").unwrap();
    }

    /// Lets the job end and returns the experiment once it is in `state`.
    fn ended(&self, state: &str) -> Value {
        self.release();
        self.home.until_state(1, state)
    }

    fn notes(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.notes).unwrap_or_default();
        text.lines()
            .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
            .collect()
    }

    /// It ran once, and everything about it is known.
    fn ran_once_and_crashed_with_7(&self) {
        let seen = self.ended("crashed");
        assert_eq!(seen["exit_code"], 7, "{seen:#}");
        assert_eq!(self.notes(), ["start", "end"]);
        self.last_metric_is(2.0);
        let out = self.home.ok(&["logs", "1"]);
        assert_eq!(out, "loss 1\nloss 2\n");
        let series = self.home.json(&["metrics", "1", "loss"])["series"][0].clone();
        assert_eq!(series["values"], serde_json::json!([1.0, 2.0]), "{series}");
    }

    /// It ran once, and its exit code cannot be known.
    fn ran_once_and_is_lost(&self) {
        let seen = self.ended("lost");
        let reason = seen["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("exit code unknown"), "{seen:#}");
        assert_eq!(seen["exit_code"], Value::Null);
        assert_eq!(self.notes(), ["start", "end"]);
    }

    fn last_metric_is(&self, value: f64) {
        until("the last metric", || {
            let seen = self.home.experiment_json(1);
            let loss = &seen["metrics"]["loss"];
            if loss["last"].as_f64() == Some(value) && loss["count"].as_u64() == Some(2) {
                Ok(())
            } else {
                Err((seen, self.home.logs()))
            }
        });
    }
}

#[test]
fn the_watcher() {
    let held = Held::running();
    held.home.kill(Part::Watcher);
    held.ran_once_and_crashed_with_7();
}

#[test]
fn the_shim_while_the_launcher_lives() {
    let held = Held::running();
    held.home.kill(Part::Shim);
    held.ran_once_and_crashed_with_7();
}

#[test]
fn the_launcher_while_the_shim_lives() {
    let held = Held::running();
    held.home.kill(Part::Launcher);
    held.ran_once_and_crashed_with_7();
}

#[test]
fn the_agent() {
    let held = Held::running();
    held.home.kill(Part::Mum);
    held.ran_once_and_crashed_with_7();
}

#[test]
fn the_daemon() {
    let held = Held::running();
    held.home.kill(Part::Daemon);
    held.ran_once_and_crashed_with_7();
}

#[test]
fn every_pair_but_shim_and_launcher() {
    let all = [
        Part::Daemon,
        Part::Mum,
        Part::Launcher,
        Part::Shim,
        Part::Watcher,
    ];
    for (index, first) in all.into_iter().enumerate() {
        for second in all.into_iter().skip(index + 1) {
            if (first, second) == (Part::Launcher, Part::Shim) {
                continue;
            }
            let held = Held::running();
            held.home.kill_all(&[first, second]);
            held.ran_once_and_crashed_with_7();
        }
    }
}

#[test]
fn shim_and_launcher_leave_the_job_alone_and_its_code_unknown() {
    let held = Held::running();
    held.home.kill_all(&[Part::Shim, Part::Launcher]);
    assert_eq!(held.home.alive(Part::Job).len(), 1, "the job goes on");
    assert_eq!(held.home.experiment_json(1)["state"], "running");
    held.ran_once_and_is_lost();
    assert_eq!(
        held.home.run(&["wait", "1"]).code,
        Some(1),
        "lost counts as ended"
    );
}

#[test]
fn killing_all_our_processes_at_once_loses_only_the_exit_code() {
    let held = Held::running();
    held.home.kill_all(&[
        Part::Daemon,
        Part::Mum,
        Part::Launcher,
        Part::Shim,
        Part::Watcher,
    ]);
    assert_eq!(held.home.experiment_json(1)["state"], "running");
    held.ran_once_and_is_lost();
    held.last_metric_is(2.0);
}

#[test]
fn everything_but_the_shim_while_the_job_ends() {
    let held = Held::running();
    held.home
        .kill_all(&[Part::Daemon, Part::Mum, Part::Launcher, Part::Watcher]);
    held.release();
    until("the shim to end", || {
        let shims = held.home.alive(Part::Shim);
        if shims.is_empty() { Ok(()) } else { Err(shims) }
    });
    let seen = held.home.until_state(1, "crashed");
    assert_eq!(seen["exit_code"], 7, "{seen:#}");
    held.last_metric_is(2.0);
}

#[test]
fn an_unsupervised_job_can_be_aborted() {
    let held = Held::running();
    held.home.kill_all(&[Part::Shim, Part::Launcher]);
    held.home.ok(&["abort", "1"]);
    until("the job to be ended", || {
        let jobs = held.home.alive(Part::Job);
        if jobs.is_empty() {
            Ok(())
        } else {
            Err((jobs, held.home.logs()))
        }
    });
    until("the run to have ended", || {
        let seen = held.home.experiment_json(1);
        let state = seen["state"].as_str().unwrap_or_default().to_owned();
        if ["aborted", "lost"].contains(&state.as_str()) {
            Ok(())
        } else {
            Err(seen)
        }
    });
}

#[test]
fn accepted_runs_survive_the_death_of_the_daemon_at_any_moment() {
    // A part is killed after each of many starts: every run runs exactly once.
    let victims = [
        Part::Daemon,
        Part::Mum,
        Part::Launcher,
        Part::Watcher,
        Part::Daemon,
        Part::Mum,
    ];
    let each = 7;
    let count = each * victims.len();
    let home = Home::new();
    let notes = home.path().join("notes");
    let yaml = format!(
        "collection: m\n+m:\n  command: {} note {} x -- exit 3\n  parameters: {{i: {{range: [0, {count}, 1]}}}}\n",
        job(),
        notes.display()
    );
    added(&home, "m", &yaml);
    for (round, victim) in victims.into_iter().enumerate() {
        let first = round * each + 1;
        let picked = format!("{first}-{}", first + each - 1);
        home.ok(&["start", picked.as_str()]);
        home.kill(victim);
    }
    let seen = until("all runs to have ended", || {
        let ran = home.run(&["status", "all", "--json"]);
        let value: Value = serde_json::from_str(&ran.out).unwrap_or(Value::Null);
        let all = value["experiments"].as_array().cloned().unwrap_or_default();
        let ended = all
            .iter()
            .filter(|one| ["crashed", "lost"].contains(&one["state"].as_str().unwrap_or_default()))
            .count();
        if ended == count {
            Ok(all)
        } else {
            Err((ended, ran.err, home.logs()))
        }
    });
    let mut runs: Vec<String> = fs::read_to_string(&notes)
        .unwrap()
        .lines()
        .map(|line| line.split(' ').nth(1).unwrap_or_default().to_owned())
        .collect();
    runs.sort();
    let before = runs.len();
    runs.dedup();
    assert_eq!(runs.len(), before, "nothing ran twice");
    assert_eq!(runs.len(), count, "nothing was lost");
    for one in seen {
        assert_eq!(one["exit_code"], 3, "{one:#}");
    }
}

#[test]
fn the_daemon_dies_while_a_start_is_answered() {
    // Runs in a reply exist, and a retry starts nothing twice.
    for _ in 0..5 {
        let held = Held::new();
        let client = held.home.spawn(&["start", "1"]);
        held.home.kill(Part::Daemon);
        let said = client.wait_with_output().unwrap();
        if said.status.success() {
            // The daemon may have died with the run not handed over; looking starts it.
            held.home.until_state(1, "running");
            held.ran_once_and_crashed_with_7();
        } else {
            let seen = held.home.experiment_json(1);
            assert!(seen["run"].is_null() || seen["run"] == "1.1", "{seen}");
        }
    }
}
