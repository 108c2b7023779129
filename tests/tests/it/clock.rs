//! A wall clock that is set while runs live, under the real daemon.

use std::fs;

use nero_tests::chaos::clock::WallClock;
use nero_tests::cluster::Scheduler;
use nero_tests::login::Login;
use nero_tests::{Home, Part, until};
use serde_json::Value;

use crate::story::{added, job};

const DAY_S: i64 = 24 * 3600;

#[test]
fn no_step_of_the_clock_makes_a_live_run_older_or_younger() {
    let Some(clock) = WallClock::make().unwrap() else {
        eprintln!("skipped: a clock of our own needs root");
        return;
    };
    let home = Home::new();
    let go = home.path().join("go");
    let yaml = format!(
        "collection: f\n+f: {{command: '{} print loss 1 -- await {}'}}\n",
        job(),
        go.display()
    );
    added(&home, "f", &yaml);
    home.ok(&["start", "1"]);
    home.until_state(1, "running");
    until("a second of it", || {
        let seen = home.experiment_json(1);
        match seen["runtime_s"].as_f64() {
            Some(runtime_s) if runtime_s > 1.0 => Ok(()),
            Some(_) | None => Err(seen),
        }
    });
    for days in [1, -1, 365] {
        clock.set(days * DAY_S).unwrap();
        for restarted in [false, true] {
            if restarted {
                home.kill(Part::Daemon);
            }
            home.until_state(1, "running");
            let seen = home.experiment_json(1);
            let runtime_s = seen["runtime_s"].as_f64().unwrap();
            assert!((1.0..3600.0).contains(&runtime_s), "{days} days: {seen:#}");
            let old = home.json(&["status", "runtime > 2h"]);
            assert_eq!(old["experiments"], serde_json::json!([]), "{days} days");
            let young = home.json(&["status", "runtime > 1s && tstart < 1h"]);
            assert_eq!(young["experiments"][0]["id"], 1, "{days} days: {young:#}");
        }
    }
    fs::write(&go, "").unwrap();
    let seen = home.until_settled(1);
    assert_eq!(seen["state"], "finished", "{seen:#}");
    let runtime_s = seen["runtime_s"].as_f64().unwrap();
    assert!((1.0..3600.0).contains(&runtime_s), "{seen:#}");
}

/// A login node and the jobs of its cluster, with a clock for each of the two that differs
/// from that of the scheduler and the disk.
struct Clocks {
    login: Login,
    of_login_node: WallClock,
    of_jobs: WallClock,
}

impl Clocks {
    fn new() -> Self {
        // The cluster is up before the clock of the login node is made, and does not have it.
        let login = Login::new(Scheduler::Slurm);
        let of_login_node = WallClock::make()
            .unwrap()
            .expect("a cluster needs root, too");
        let (of_jobs, library) = WallClock::preloaded(&login.home.path().join("clock")).unwrap();
        login.home.configure(&format!(
            "nodes: {{local: {{warden: slurm, setup: ['export LD_PRELOAD={library}']}}}}\n"
        ));
        Self {
            login,
            of_login_node,
            of_jobs,
        }
    }

    fn set(&self, days_of_login_node: i64, days_of_jobs: i64) {
        self.of_login_node.set(days_of_login_node * DAY_S).unwrap();
        self.of_jobs.set(days_of_jobs * DAY_S).unwrap();
    }
}

#[track_caller]
fn is_minutes_old(seen: &Value) {
    let runtime_s = seen["runtime_s"].as_f64().unwrap_or(-1.0);
    assert!((0.0..3600.0).contains(&runtime_s), "{seen:#}");
}

#[test]
fn runs_of_slurm_end_once_whatever_the_clocks_of_their_hosts_are_set_to() {
    let clocks = Clocks::new();
    let (login, home) = (&clocks.login, &clocks.login.home);
    let (began, go) = (login.path("began"), login.path("go"));
    let polite = "trap \"echo loss=0.1; exit 5\" TERM; echo loss=0.5; while :; do sleep 0.1; done";
    let held = format!(
        "echo x >> {began}; while ! [ -e {go} ]; do sleep 0.1; done; echo loss=0.5; exit 3"
    );
    let limit = "resources: {time: 1h}";
    login.submit("held", &held, limit);
    login.submit("aborted", polite, limit);
    let waiting = login.submit("waiting", "echo never", "partition: shut");
    for id in 1..=2 {
        home.until_state(id, "running");
    }
    for leader in login.leaders() {
        let maps = fs::read_to_string(format!("/proc/{}/maps", leader.pid)).unwrap();
        assert!(maps.contains("clock.so"), "it has the clock of the test");
    }
    clocks.set(-1, 2);
    home.ok(&["abort", "2"]);
    let seen = home.until_settled(2);
    assert_eq!(seen["state"], "aborted", "{seen:#}");
    assert_eq!(seen["exit_code"], 5, "{seen:#}");
    is_minutes_old(&seen);
    is_minutes_old(&home.until_state(1, "running"));

    clocks.set(400, -3);
    login.tell("scancel", &[&waiting]);
    let seen = home.until_state(3, "aborted");
    assert_eq!(seen["started_at"], Value::Null, "{seen:#}");
    login.kill_leader();
    clocks.set(-400, 4);
    login.start("later", "exit 4");
    let seen = home.until_settled(4);
    assert_eq!(seen["exit_code"], 4, "{seen:#}");
    is_minutes_old(&seen);
    fs::write(&go, "").unwrap();
    let seen = home.until_settled(1);
    assert_eq!(seen["exit_code"], 3, "{seen:#}");
    assert_eq!(seen["metrics"]["loss"]["last"], 0.5, "{seen:#}");
    is_minutes_old(&seen);
    assert_eq!(fs::read_to_string(&began).unwrap(), "x\n");
}
