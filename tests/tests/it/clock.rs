//! A wall clock that is set while runs live, under the real daemon.

use std::fs;

use nero_tests::chaos::clock::WallClock;
use nero_tests::{Home, Part, until};

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
