//! Where runs go: groups, `any`, and what happens before a node has accepted.

use nero_tests::until;
use serde_json::Value;

use crate::ssh::{Lab, release};

fn nodes_of(lab: &Lab, count: usize) -> Vec<String> {
    let picked = format!("1-{count}");
    let all = lab.home.json(&["status", &picked]);
    let mut nodes: Vec<String> = all["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["node"].as_str().unwrap_or_default().to_owned())
        .collect();
    nodes.sort();
    nodes
}

/// Waits until every experiment runs.
fn all_run(lab: &Lab, count: usize) {
    until("all to run", || {
        let all = lab.home.json(&["status", "all"]);
        let states: Vec<Value> = all["experiments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["state"].clone())
            .collect();
        let running = states.iter().filter(|state| **state == "running").count();
        if running == count {
            Ok(())
        } else {
            Err((all, lab.home.logs()))
        }
    });
}

#[test]
fn a_group_spreads_over_its_nodes() {
    let lab = Lab::new(2);
    // Each host has two CPUs for runs: four runs need both.
    let pipes: Vec<_> = ["a", "b", "c", "d"]
        .iter()
        .map(|name| lab.add_held(name))
        .collect();
    lab.warm_up();
    lab.home.ok(&["start", "1-4", "--node", "lab"]);
    all_run(&lab, 4);
    assert_eq!(nodes_of(&lab, 4), ["h1", "h1", "h2", "h2"]);
    for pipe in &pipes {
        release(pipe);
    }
    for id in 1..=4 {
        let seen = lab.home.until_state(id, "crashed");
        assert_eq!(seen["exit_code"], 7, "{seen:#}");
    }
    assert_eq!(lab.noted().len(), 8, "each ran once: {:?}", lab.noted());
}

#[test]
fn any_takes_what_is_free() {
    let lab = Lab::new(1);
    let pipe = lab.add_held("a");
    lab.start_held("any");
    let node = lab.home.experiment_json(1)["node"].clone();
    assert!(node == "local" || node == "h1", "{node}");
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
}

#[test]
fn a_run_that_no_node_has_accepted_goes_to_one_that_can_be_reached() {
    let lab = Lab::new(2);
    lab.hosts.kill("h1");
    let pipe = lab.add_held("a");
    lab.start_held("lab");
    assert_eq!(lab.home.experiment_json(1)["node"], "h2");
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
}

#[test]
fn a_run_that_was_accepted_stays_where_it_is() {
    let lab = Lab::new(2);
    let pipe = lab.add_held("a");
    lab.start_held("lab");
    let first = lab.home.experiment_json(1)["node"]
        .as_str()
        .unwrap()
        .to_owned();
    lab.hosts.cut(&first);
    lab.until_node(&first, "to be out of reach", |node| {
        node["connected"] == false
    });
    assert_eq!(lab.home.experiment_json(1)["node"], *first);
    release(&pipe);
    lab.hosts.mend(&first);
    lab.ran_once_and_crashed_with_7("a");
    assert_eq!(lab.home.experiment_json(1)["node"], *first);
}

#[test]
fn a_run_on_its_way_to_a_node_that_went_away_moves_to_another() {
    let lab = Lab::new(2);
    // The one that is held keeps h2 busier, so the next goes to h1.
    let held = lab.add_held("held");
    let pipe = lab.add_held("moved");
    lab.warm_up();
    lab.home.ok(&["start", "1", "--node", "h2"]);
    lab.home.until_state(1, "running");
    lab.hosts.cut("h1");
    lab.home.ok(&["start", "2", "--node", "lab"]);
    lab.until_node("h1", "to be out of reach", |node| {
        !node["unreachable_since"].is_null()
    });
    let seen = lab.home.until_state(2, "running");
    assert_eq!(seen["node"], "h2", "{seen:#}");
    lab.hosts.mend("h1");
    release(&pipe);
    release(&held);
    for id in [1, 2] {
        let seen = lab.home.until_state(id, "crashed");
        assert_eq!(seen["exit_code"], 7, "{seen:#}");
    }
    let noted = lab.noted();
    assert_eq!(noted.len(), 4, "each ran once: {noted:?}");
}
