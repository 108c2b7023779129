//! Runs of a group that leave a node after it accepted them: to the next one,
//! once.

use std::path::PathBuf;

use nero_tests::home::end;
use nero_tests::hosts::Plan;
use nero_tests::{Part, until};

use crate::ssh::{Lab, release};
use crate::ssh_groups::{on_host, until_waits_for};

/// Spoils a host on which something ran, so that it can build no run's folder.
pub fn spoil(lab: &Lab, host: &str) {
    let line = format!("cd ~/.neronet/*/mum/{host} && rm no-params.json && mkdir no-params.json");
    on_host(lab, host, &line);
}

/// Has h1 accept experiment 1, which waits there for the CPUs that the first of
/// these pipes holds; the others hold those of h2.
fn waits_on_h1(lab: &Lab) -> Vec<PathBuf> {
    let pipes = [("mine", "1.5"), ("b", "1"), ("c", "1")];
    let pipes = pipes.map(|(name, cpus)| add_filler(lab, name, cpus));
    lab.warm_up();
    lab.home.ok(&["start", "2", "--node", "h1"]);
    lab.home.ok(&["start", "3-4", "--node", "h2"]);
    for id in 2..=4 {
        lab.home.until_state(id, "running");
    }
    lab.home.ok(&["start", "1", "--node", "lab"]);
    let seen = lab.home.until_state(1, "pending");
    assert_eq!(seen["node"], "h1", "{seen:#}");
    pipes.into()
}

/// Waits until experiment 1 is placed on h2.
fn until_on_h2(lab: &Lab) {
    until("the run to be placed on h2", || {
        let seen = lab.home.experiment_json(1);
        if seen["node"] == "h2" {
            Ok(())
        } else {
            Err((seen, lab.home.logs()))
        }
    });
}

/// Adds an experiment that takes `cpus` CPUs until its pipe releases it.
fn add_filler(lab: &Lab, name: &str, cpus: &str) -> PathBuf {
    let pipe = lab.pipe(&format!("pipe-{name}"));
    let yaml = format!(
        "collection: {name}\n+{name}:\n  resources: {{cpus: {cpus}}}\n  command: {} hold {}\n",
        lab.hosts.program("nero-job").display(),
        pipe.display()
    );
    let folder = lab.home.experiment(name, &yaml).display().to_string();
    lab.home.ok(&["add", &folder]);
    pipe
}

#[test]
fn a_run_that_is_refused_after_it_was_taken_goes_to_the_next_node_whoever_dies() {
    let lab = Lab::new(2);
    let pipe = lab.add_held("a");
    let others = waits_on_h1(&lab);
    spoil(&lab, "h1");
    // Its disk cannot take the record that it never starts the run, either.
    let line = "cd ~/.neronet/*/runs/1/1 && mv control aside && touch control";
    on_host(&lab, "h1", line);
    release(&others[0]);
    until_waits_for(&lab, &["refused by h1: cannot make"]);
    lab.home.kill(Part::Daemon);
    end(&lab.parts("h1", Part::Mum));
    let line = "cd ~/.neronet/*/runs/1/1 && rm control && mv aside control";
    on_host(&lab, "h1", line);
    until_on_h2(&lab);
    lab.home.kill(Part::Daemon);
    for other in &others[1..] {
        release(other);
    }
    let seen = lab.home.until_state(1, "running");
    assert_eq!(seen["node"], "h2", "{seen:#}");
    let warnings = seen["warnings"].to_string();
    assert!(warnings.contains("refused by h1: cannot make"), "{seen:#}");
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
    let line = "cd ~/.neronet/*/runs/1/1 && test -e control/cancel.1 && test ! -e 1";
    on_host(&lab, "h1", line);
}

#[test]
fn a_run_that_every_node_took_and_refused_ends_with_what_each_said() {
    let lab = Lab::new(2);
    lab.add("a", "exit 0");
    lab.warm_up();
    for host in lab.hosts.names() {
        spoil(&lab, &host);
    }
    lab.home.ok(&["start", "1", "--node", "lab"]);
    let seen = lab.home.until_state(1, "crashed");
    let reason = seen["reason"].as_str().unwrap_or_default();
    for host in lab.hosts.names() {
        let said = format!("{host}: refused: cannot make");
        assert!(reason.contains(&said), "{seen:#}");
    }
}

/// Two hosts whose disks can be filled; `None` where only root can have them.
fn small() -> Option<Lab> {
    if nero_tests::hosts::isolates() {
        return Some(Lab::of(Plan::new(2).home_size("400M").up()));
    }
    eprintln!("skipped: a disk of a size of its own needs root");
    None
}

/// Less than a node keeps free.
const LITTLE: u64 = 32 << 20;

#[test]
fn a_run_whose_node_has_no_room_for_its_files_goes_to_one_that_has() {
    let Some(lab) = small() else { return };
    let pipe = lab.add_held("a");
    let other = add_filler(&lab, "b", "0.5");
    lab.warm_up();
    lab.home.ok(&["start", "2", "--node", "h2"]);
    lab.home.until_state(2, "running");
    lab.hosts.fill("h1", LITTLE);
    lab.home.ok(&["start", "1", "--node", "lab"]);
    until_waits_for(&lab, &["the node's disk is full"]);
    assert_eq!(lab.home.experiment_json(1)["node"], "h1");
    lab.home.kill(Part::Daemon);
    until_on_h2(&lab);
    lab.home.kill(Part::Daemon);
    lab.hosts.free("h1");
    release(&other);
    lab.home.until_state(1, "running");
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
    on_host(&lab, "h1", "test ! -e ~/.neronet/*/runs/1/1/1");
    let shown = lab.home.ok(&["show", "1"]);
    assert!(shown.contains("1.1: recalled from h1: "), "{shown}");
    assert!(shown.contains("1.1: placed on h2"), "{shown}");
}
