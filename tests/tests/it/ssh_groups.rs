//! The choice of nodes: groups, `any`, and runs that no node has accepted yet.

use nero_tests::{Part, until};
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
fn a_run_for_any_node_starts_on_one_that_is_free() {
    let lab = Lab::new(1);
    let pipe = lab.add_held("a");
    lab.start_held("any");
    let node = lab.home.experiment_json(1)["node"].clone();
    assert!(node == "local" || node == "h1", "{node}");
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
}

#[test]
fn a_node_whose_login_hangs_keeps_no_run_from_another_one() {
    let lab = Lab::new(2);
    lab.home.ok(&["exec", "h1", "--", "true"]);
    // sshd runs it before every command there.
    on_host(&lab, "h2", "mkdir -p .ssh && echo sleep 600 > .ssh/rc");
    let pipe = lab.add_held("a");
    lab.start_held("lab");
    let nodes = lab.home.json(&["status", "nodes"])["nodes"].clone();
    let slow = nodes.as_array().unwrap();
    let slow = slow.iter().find(|node| node["name"] == "h2").unwrap();
    assert_eq!(lab.home.experiment_json(1)["node"], "h1");
    // The start did not wait until this connection failed.
    assert!(slow["why_not"].is_null(), "{slow:#}");
    assert_eq!(slow["connected"], false, "{slow:#}");
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
    // The held run keeps h2 busier, so the next run goes to h1.
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

/// Waits until the reason why experiment 1 waits contains these parts.
pub fn until_waits_for(lab: &Lab, parts: &[&str]) {
    until(&format!("{parts:?} to be said"), || {
        let seen = lab.home.experiment_json(1);
        let why = seen["waiting_for"].as_str().unwrap_or_default();
        if parts.iter().all(|part| why.contains(part)) {
            Ok(())
        } else {
            Err((seen, lab.home.logs()))
        }
    });
}

/// Runs a command line on a host, which must succeed.
pub fn on_host(lab: &Lab, host: &str, line: &str) {
    let ran = lab.hosts.ssh(host, line);
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
fn a_run_that_one_node_refuses_goes_to_the_next_whoever_dies_in_between() {
    let lab = Lab::new(2);
    on_host(&lab, "h2", "mkdir corpus");
    let pipe = lab.pipe("pipe-a");
    let yaml = format!(
        "collection: a\noutputs: [stdout]\ndata: {{corpus: ~/corpus}}\n\
         +a:\n  command: {job} note {notes} start-a -- print loss 1 -- hold {pipe} \
         -- print loss 2 -- note {notes} end-a -- exit 7\n",
        job = lab.hosts.program("nero-job").display(),
        notes = lab.notes.display(),
        pipe = pipe.display()
    );
    let folder = lab.home.experiment("a", &yaml).display().to_string();
    lab.home.ok(&["add", &folder]);
    lab.hosts.kill("h2");
    lab.home.ok(&["start", "1", "--node", "lab"]);
    let said = ["h1: refused: the data `corpus` is not at ", "h2: "];
    until_waits_for(&lab, &said);
    lab.home.kill(Part::Daemon);
    // The folder that h1 lacked exists by now, but h1 is not asked again.
    on_host(&lab, "h1", "mkdir corpus");
    until_waits_for(&lab, &said);
    lab.hosts.start("h2");
    lab.home.ok(&["node", "connect", "h2"]);
    let seen = lab.home.until_state(1, "running");
    assert_eq!(seen["node"], "h2", "{seen:#}");
    let warnings = seen["warnings"].to_string();
    assert!(warnings.contains("refused by h1: the data"), "{seen:#}");
    lab.home.kill(Part::Daemon);
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
    let shown = lab.home.ok(&["show", "1"]);
    assert!(shown.contains("1.1: refused by h1: the data"), "{shown}");
    assert!(shown.contains("1.1: placed on h2"), "{shown}");
}

#[test]
fn a_program_that_no_node_has_ends_a_run_with_every_reason_and_a_restart_asks_all() {
    let lab = Lab::new(2);
    for host in lab.hosts.names() {
        on_host(&lab, &host, "mkdir bin");
    }
    let yaml = "collection: p\n+p: {command: '{data.bin}/tool', data: {bin: ~/bin}}\n";
    let folder = lab.home.experiment("p", yaml).display().to_string();
    lab.home.ok(&["add", &folder]);
    lab.home.ok(&["start", "1", "--node", "lab"]);
    let seen = lab.home.until_state(1, "crashed");
    let reason = seen["reason"].as_str().unwrap_or_default();
    assert!(
        reason.starts_with("h1, h2: refused: the program "),
        "{seen:#}"
    );
    let script = "printf '#!/bin/sh\\nexit 0\\n' > bin/tool && chmod +x bin/tool";
    on_host(&lab, "h1", script);
    lab.home.ok(&["restart", "1", "--node", "lab"]);
    let seen = lab.home.until_state(1, "finished");
    assert_eq!(seen["node"], "h1", "{seen:#}");
}

#[test]
fn the_resources_of_a_node_change_while_its_runs_go_on() {
    let lab = Lab::new(1);
    let pipe = lab.add_held("a");
    lab.start_held("h1");
    let has = lab.node("h1")["cpus"].as_f64().unwrap();
    lab.home.ok(&["config", "set", "nodes.h1.cpus", "1"]);
    lab.until_node("h1", "to give one CPU", |node| {
        node["cpus"] == 1.0 && node["cpus_free"] == 0.0
    });
    lab.add("b", "exit 0");
    lab.home.ok(&["start", "2", "--node", "h1"]);
    lab.home.until_state(2, "pending");
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
    lab.home.ok(&["wait", "2"]);
    lab.home.ok(&["config", "set", "nodes.h1.cpus", ""]);
    lab.until_node("h1", "to give what it has", |node| node["cpus"] == has);
}
