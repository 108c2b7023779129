//! Runs of a group that wait on one node while another one has room.

use std::path::PathBuf;

use nero_tests::{Part, until};
use serde_json::Value;

use crate::ssh::{Lab, release};
use crate::ssh_recalled::spoil;

const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// Held experiments: h1 has two CPUs, and all of them lie there, since the groups were
/// h1 alone when they were started. The last one is of the group `both`, the others of
/// the word. No node ever meets what one more requires. Then the group `lab` is as
/// given, and `both` is balanced.
fn all_on_h1(lab: &Lab, group: &str, word: &str) -> Vec<PathBuf> {
    let pipes = NAMES.map(|name| lab.add_held(name)).into();
    lab.warm_up();
    configure(lab, "[h1]", "[h1]");
    lab.home.ok(&["start", "1-6", "--node", word]);
    lab.home.ok(&["start", "7", "--node", "both"]);
    for id in 1..=2 {
        lab.home.until_state(id, "running");
    }
    for id in 3..=7 {
        lab.home.until_state(id, "pending");
    }
    let yaml = "collection: never\n+never: {command: 'true', requires: cpus > 100000}\n";
    let never = lab.home.experiment("never", yaml).display().to_string();
    lab.home.ok(&["add", &never]);
    lab.home.ok(&["start", "never", "--node", "lab"]);
    configure(lab, group, "[h1, h2]");
    pipes
}

fn configure(lab: &Lab, group: &str, both: &str) {
    let text = "nodes:\n  h1: {address: h1, cpus: 2}\n  h2: {address: h2, cpus: 2}\n";
    let groups = format!("groups: {{lab: {group}, both: {both}}}\n");
    lab.home.configure(&format!("{text}{groups}"));
}

/// Each of the experiments: its node, and its state.
fn stand(lab: &Lab) -> Vec<(String, String)> {
    let all = lab.home.json(&["status", "1-7"]);
    let word = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let all = all["experiments"].as_array().unwrap();
    all.iter()
        .map(|one| (word(one, "node"), word(one, "state")))
        .collect()
}

/// Waits until so many of them run on each host.
fn until_running(lab: &Lab, h1: usize, h2: usize) {
    until("runs on both hosts", || {
        let seen = stand(lab);
        let on = |host: &str| {
            let running = (host.to_owned(), "running".to_owned());
            seen.iter().filter(|one| **one == running).count()
        };
        if (on("h1"), on("h2")) == (h1, h2) {
            Ok(())
        } else {
            Err((seen, lab.home.logs()))
        }
    });
}

/// Lets all jobs end, and looks whether each of them ran once.
fn each_runs_once(lab: &Lab, pipes: &[PathBuf]) {
    // A pipe takes nothing before its job has started, in an order that nodes decide.
    std::thread::scope(|scope| {
        for pipe in pipes {
            scope.spawn(|| release(pipe));
        }
    });
    for id in 1..=7 {
        let seen = lab.home.until_state(id, "crashed");
        assert_eq!(seen["exit_code"], 7, "{seen:#}");
        assert_eq!(seen["run"], format!("{id}.1"), "{seen:#}");
    }
    let mut noted = lab.noted();
    noted.sort();
    let each = |what: &str| NAMES.map(|name| format!("{what}-{name}"));
    assert_eq!(noted, [each("end"), each("start")].concat());
}

#[test]
fn runs_that_wait_on_one_node_go_to_another_with_room_and_each_runs_once() {
    let lab = Lab::new(2);
    let pipes = all_on_h1(&lab, "[h1, h2]", "lab");
    // h2 appears in the groups.
    until_running(&lab, 2, 2);
    let said = lab.home.ok(&["status", "nodes"]);
    assert!(
        said.contains("h2: 2 runs came here from h1: h2 has room"),
        "{said}"
    );
    let seen = stand(&lab);
    let on_h2 = |(node, _): &(String, String)| node == "h2";
    let moved: Vec<usize> = (0..NAMES.len()).filter(|one| on_h2(&seen[*one])).collect();
    let id = moved[0] + 1;
    let shown = lab.home.ok(&["show", &id.to_string()]);
    for line in ["recalled from h1: h2 has room", "placed on h2"] {
        assert!(shown.contains(&format!("{id}.1: {line}")), "{shown}");
    }
    // h2 becomes free, while the daemon dies.
    for one in &moved {
        release(&pipes[*one]);
    }
    lab.home.kill(Part::Daemon);
    for one in &moved {
        lab.home.until_state(*one as u64 + 1, "crashed");
    }
    until_running(&lab, 2, 2);
    let rest: Vec<PathBuf> = (0..NAMES.len())
        .filter(|one| !moved.contains(one))
        .map(|one| pipes[one].clone())
        .collect();
    each_runs_once(&lab, &rest);
}

#[test]
fn runs_of_a_group_that_is_not_balanced_and_of_one_node_stay() {
    for (group, word) in [
        ("{nodes: [h1, h2], balance: off}", "lab"),
        ("[h1, h2]", "h1"),
    ] {
        let lab = Lab::new(2);
        let pipes = all_on_h1(&lab, group, word);
        // The last one is of another group: it goes, and they stay.
        until_running(&lab, 2, 1);
        assert_eq!(lab.home.experiment_json(7)["node"], "h2");
        each_runs_once(&lab, &pipes);
        let mut nodes: Vec<String> = stand(&lab).into_iter().map(|(node, _)| node).collect();
        assert_eq!(nodes.pop().as_deref(), Some("h2"));
        assert!(nodes.iter().all(|node| node == "h1"), "{nodes:?}");
    }
}

#[test]
fn runs_that_the_next_node_refuses_come_back_to_the_first_and_each_runs_once() {
    let lab = Lab::new(2);
    let pipes = all_on_h1(&lab, "[h1]", "lab");
    spoil(&lab, "h2");
    configure(&lab, "[h1, h2]", "[h1, h2]");
    until("each of the runs that wait to be refused by h2", || {
        let refused = |id: &u64| {
            let shown = lab.home.ok(&["show", &id.to_string()]);
            shown.contains(&format!("{id}.1: refused by h2: cannot make"))
        };
        // The last one is of another group, and may have gone there before.
        let waits: Vec<u64> = (3..=6).filter(|id| !refused(id)).collect();
        if waits.is_empty() {
            Ok(())
        } else {
            Err((waits, lab.home.logs()))
        }
    });
    lab.home.kill(Part::Daemon);
    each_runs_once(&lab, &pipes);
    assert!(stand(&lab)[..6].iter().all(|(node, _)| node == "h1"));
}
