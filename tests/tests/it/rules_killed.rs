//! A daemon that is killed at any step of the firing of a rule that it evaluates.

use std::fs;
use std::process::Child;

use nero_tests::tracer::kill_before;
use nero_tests::{Home, Part, until};
use serde_json::Value;

use crate::story::added;

/// Calls with which the daemon writes.
const CALLS: &str = "pwrite64,fsync,fdatasync";
/// About the calls from the tag that makes the rules hold to the end of the run: the
/// transaction with the firing has the first third of them.
const STEPS: u32 = 90;
/// Steps between two that are tried here.
const STRIDE: u32 = 13;

/// What stands in the records of the run after its rules fired.
fn fired_once(home: &Home, run: u32, step: u32) {
    let seen = home.until_settled(1);
    let at = format!("before step {step}: {seen:#}");
    assert_eq!(seen["run"], format!("1.{run}"), "{at}");
    assert_eq!(seen["state"], "aborted", "{at}");
    assert_eq!(seen["reason"], "rule `tag == 'bad'` (tag = bad)", "{at}");
    assert_eq!(seen["tags"], serde_json::json!(["bad"]), "{at}");
    assert_eq!(seen["warnings"].as_array().map(Vec::len), Some(1), "{at}");
    let rules = home.json(&["rule", "list", "1"]);
    let fired = |rule: &Value| rule["fired"].as_u64();
    let rules = rules["rules"].as_array().expect("rules").iter();
    assert_eq!(
        rules.filter_map(fired).collect::<Vec<_>>(),
        [1, 1, 1],
        "{at}"
    );
    until("the end of the rule's command", || {
        let rules = home.json(&["rule", "list", "1"]);
        let rules = rules["rules"].as_array().expect("rules");
        let ran = rules.iter().filter_map(|rule| rule["ran"].as_array());
        let ran: Vec<&Value> = ran.flatten().map(|ran| &ran["how"]).collect();
        (ran == ["exit code 0"]).then_some(()).ok_or(rules.clone())
    });
    let told = fs::read_to_string(home.path().join("told")).expect("a file");
    let own = told.lines().filter(|line| *line == format!("1.{run}"));
    assert_eq!(own.count(), 1, "{at}{told}");
    let shown = home.ok(&["show", "1"]);
    let asked = format!("1.{run}: abort asked by rule");
    assert_eq!(shown.matches(&asked).count(), 1, "{at}{shown}");
}

/// Returns whether the daemon died before all was done.
fn dies_before(home: &Home, run: u32, step: u32) -> bool {
    home.until_state(1, "running");
    let daemon = home.until_alive(Part::Daemon);
    let mut tracer: Child = kill_before(daemon.pid, CALLS, step);
    home.ok(&["tag", "1", "+bad"]);
    home.until_state(1, "aborted");
    let has_died = !home.alive(Part::Daemon).contains(&daemon);
    home.kill(Part::Daemon);
    tracer.wait().expect("it is our child");
    fired_once(home, run, step);
    has_died
}

#[test]
fn a_rule_of_a_daemon_that_is_killed_at_any_step_of_its_firing_acts_once() {
    let home = Home::new();
    let told = home.path().join("told");
    let yaml = format!(
        "collection: r\n+r:\n  command: sleep 600\n  rules:\n    - abort: tag == bad\n    - warn: tag == bad\n    - {{on: tag == bad, run_local: echo $NERO_RUN >> {}}}\n",
        told.display()
    );
    added(&home, "r", &yaml);
    let stride: u32 = std::env::var("NERO_STRIDE").map_or(STRIDE, |text| text.parse().unwrap());
    let steps: Vec<u32> = (1..=STEPS).step_by(stride as usize).collect();
    let mut died = Vec::new();
    for (&step, run) in steps.iter().zip(1..) {
        home.ok(&["restart", "1", "--yes"]);
        died.push(dies_before(&home, run, step));
        home.ok(&["tag", "1", "-bad"]);
    }
    println!("{died:?}");
    let within = died.iter().filter(|died| **died).count();
    assert!(within >= 3, "{died:?} of the steps {steps:?}");
}
