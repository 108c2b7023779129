//! Each part between a user and her job on another machine dies: the job goes
//! on, and its output and end are known afterwards.

use std::fs;
use std::path::PathBuf;

use nero_tests::home::end;
use nero_tests::hosts::Plan;
use nero_tests::{Part, until};
use serde_json::Value;

use crate::ssh::{Lab, release};

/// Calls `strike` while the job of `lab` runs, and once more after a job has
/// ended; returns once everything was checked.
fn survives(what: &str, strike: impl Fn(&Lab)) {
    let lab = Lab::new(1);
    let pipe = lab.add_held("a");
    lab.start_held("h1");
    strike(&lab);
    release(&pipe);
    strike(&lab);
    println!("{what}: struck twice");
    lab.ran_once_and_crashed_with_7("a");
}

/// Kills all processes of a part on the host.
fn kill(lab: &Lab, part: Part) {
    end(&lab.parts("h1", part));
}

#[test]
fn the_daemon_dies() {
    survives("daemon", |lab| lab.home.kill(Part::Daemon));
}

#[test]
fn the_connection_dies() {
    survives("masters", |lab| lab.home.kill(Part::Ssh));
}

#[test]
fn a_node_that_is_removed_while_no_daemon_lives_keeps_no_connection() {
    let lab = Lab::new(2);
    lab.warm_up();
    let masters = lab.home.alive(Part::Ssh).len();
    assert!(masters >= 2, "{masters}");
    lab.home.kill(Part::Daemon);
    // The user edits the configuration by hand.
    lab.home.configure("nodes:\n  h1: {address: h1, cpus: 2}\n");
    lab.home.ok(&["status"]);
    until("one connection to be left", || {
        let left = lab.home.alive(Part::Ssh);
        if left.len() == 1 { Ok(()) } else { Err(left) }
    });
    lab.home.ok(&["exec", "h1", "--", "true"]);
}

#[test]
fn the_servers_of_the_connection_die() {
    survives("sshd", |lab| lab.hosts.hang_up("h1"));
}

#[test]
fn the_agent_and_its_end_of_the_connection_die() {
    survives("neromum", |lab| kill(lab, Part::Mum));
    survives("dial", |lab| kill(lab, Part::Dial));
}

#[test]
fn the_watcher_dies() {
    survives("watcher", |lab| kill(lab, Part::Watcher));
}

#[test]
fn launcher_or_shim_dies() {
    for part in [Part::Launcher, Part::Shim] {
        let lab = Lab::new(1);
        let pipe = lab.add_held("a");
        lab.start_held("h1");
        kill(&lab, part);
        release(&pipe);
        lab.ran_once_and_crashed_with_7("a");
    }
}

#[test]
fn everything_but_the_shim_dies_at_once() {
    survives("all", |lab| {
        lab.home.kill_all(&[Part::Daemon, Part::Ssh]);
        let parts = [Part::Dial, Part::Mum, Part::Watcher];
        let all: Vec<_> = parts
            .into_iter()
            .flat_map(|part| lab.parts("h1", part))
            .collect();
        end(&all);
    });
}

#[test]
fn a_host_out_of_reach_is_said_with_its_time_and_comes_back_by_itself() {
    let lab = Lab::new(1);
    let pipe = lab.add_held("a");
    lab.start_held("h1");
    lab.hosts.cut("h1");
    // Both ends give up after the keep-alives; before that, neroman concludes
    // nothing.
    let node = lab.until_node("h1", "to be out of reach", |node| {
        node["connected"] == false && !node["unreachable_since"].is_null()
    });
    assert!(
        node["why_not"].as_str().is_some_and(|why| !why.is_empty()),
        "{node:#}"
    );
    assert_eq!(node["needs_person"], false, "{node:#}");
    let seen = lab.home.experiment_json(1);
    let ended = ["finished", "crashed", "aborted", "timeout"];
    assert!(
        !ended.contains(&seen["state"].as_str().unwrap()),
        "{seen:#}"
    );
    assert_eq!(seen["phase"], "running", "silence is no result: {seen:#}");
    let shown = lab.home.ok(&["status"]);
    assert!(shown.contains("no contact since"), "{shown}");
    // The job ends while the connection is cut.
    release(&pipe);
    until("the job to end", || {
        let noted = lab.noted();
        if noted.len() == 2 { Ok(()) } else { Err(noted) }
    });
    lab.hosts.mend("h1");
    lab.ran_once_and_crashed_with_7("a");
    let node = lab.node("h1");
    assert_eq!(
        (&node["connected"], &node["unreachable_since"]),
        (&true.into(), &Value::Null)
    );
}

#[test]
fn a_frozen_host_goes_on_where_it_was() {
    let lab = Lab::new(1);
    let pipe = lab.add_held("a");
    lab.start_held("h1");
    lab.hosts.freeze("h1");
    lab.home.kill(Part::Daemon);
    lab.home.ok(&["status", "1"]);
    lab.hosts.thaw("h1");
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
}

#[test]
fn a_changed_host_key_waits_for_the_user() {
    // sshd logs a connection when it comes, not when it is over.
    let plan = Plan::new(1).sshd_options("LogLevel VERBOSE");
    let lab = Lab::of(plan.up());
    let pipe = lab.add_held("a");
    lab.start_held("h1");
    lab.hosts.new_host_key("h1");
    lab.hosts.hang_up("h1");
    let node = lab.until_node("h1", "to need a person", |node| {
        node["needs_person"] == true
    });
    let why = format!("{} {}", node["why_not"], node["hint"]);
    assert!(why.contains("key"), "{node:#}");
    assert_eq!(
        node["next_try_at"],
        Value::Null,
        "it is not tried again: {node:#}"
    );
    // The connections so far are counted; looking adds none.
    let tries = attempts(&lab);
    assert!(tries > 0, "connections are counted");
    lab.home.ok(&["status", "all"]);
    lab.home.ok(&["node", "list"]);
    assert_eq!(attempts(&lab), tries);

    // The user adds the new key and reconnects.
    let keys = lab.hosts.path().join("known_hosts");
    let public = fs::read_to_string(lab.hosts.path().join("hosts/h1/ssh/key.pub")).unwrap();
    fs::write(keys, format!("h1 {public}")).unwrap();
    lab.home.ok(&["node", "connect", "h1"]);
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
}

/// How many connections the server of the host has seen.
fn attempts(lab: &Lab) -> usize {
    let log = fs::read_to_string(lab.hosts.path().join("log/h1")).unwrap();
    log.lines()
        .filter(|line| line.starts_with("Connection from "))
        .count()
}

#[test]
fn a_run_on_a_host_that_restarted_is_lost_with_the_reason() {
    let Some(lab) = Lab::isolated(1) else { return };
    lab.add_held("a");
    lab.start_held("h1");
    lab.hosts.restart("h1");
    let seen = lab.home.until_state(1, "lost");
    let reason = seen["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("restarted") || reason.contains("reboot"),
        "{seen:#}"
    );
    assert_eq!(seen["exit_code"], Value::Null, "{seen:#}");
    assert_eq!(lab.noted(), ["start-a"], "it is not started again");
    // Output printed before is not lost with it.
    assert_eq!(lab.home.ok(&["logs", "1"]), "loss 1\n");
    assert_eq!(lab.home.run(&["wait", "1"]).code, Some(1));
    let again = lab.home.ok(&["restart", "1", "--yes"]);
    assert!(again.contains("1.2"), "{again}");
    lab.home.until_state(1, "running");
}

#[test]
fn a_laptop_that_changes_its_address_goes_on() {
    let Some(lab) = Lab::isolated(1) else { return };
    let pipe = lab.add_held("a");
    lab.start_held("h1");
    lab.hosts.change_own_address();
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
}

#[test]
fn a_full_disk_there_ends_nothing_and_loses_nothing() {
    if !nero_tests::hosts::isolates() {
        eprintln!("skipped: a disk of a size of its own needs root");
        return;
    }
    let lab = Lab::of(Plan::new(1).home_size("400M").up());
    let pipe: PathBuf = lab.add_held("a");
    lab.start_held("h1");
    lab.hosts.fill("h1", 0);
    kill(&lab, Part::Mum);
    lab.hosts.free("h1");
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
}

#[test]
fn a_run_waits_for_space_on_its_node() {
    if !nero_tests::hosts::isolates() {
        eprintln!("skipped: a disk of a size of its own needs root");
        return;
    }
    let lab = Lab::of(Plan::new(1).home_size("400M").up());
    let pipe = lab.add_held("a");
    lab.warm_up();
    lab.hosts.fill("h1", 0);
    lab.home.ok(&["start", "1", "--node", "h1"]);
    let seen = until("it to say what it waits for", || {
        let seen = lab.home.experiment_json(1);
        let why = seen["waiting_for"].as_str().unwrap_or_default();
        if why.contains("No space left")
            || why.contains("disk is full")
            || why.contains("disk full")
        {
            Ok(seen)
        } else {
            Err((seen, lab.home.logs()))
        }
    });
    assert_eq!(seen["reason"], Value::Null, "{seen:#}");
    lab.hosts.free("h1");
    lab.home.until_state(1, "running");
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
}
