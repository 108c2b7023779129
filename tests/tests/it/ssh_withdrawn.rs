//! Runs of a group that leave a node which took them: to the next one, once.

use nero_tests::home::end;
use nero_tests::{Part, until};

use crate::ssh::{Lab, release};
use crate::ssh_groups::{on_host, until_waits_for};

/// Makes that no run's folder can be built on a host that ran something.
fn spoil(lab: &Lab, host: &str) {
    let line = format!("cd ~/.neronet/*/mum/{host} && rm no-params.json && mkdir no-params.json");
    on_host(lab, host, &line);
}

/// Adds an experiment that takes so many CPUs until its pipe lets it go.
fn add_filler(lab: &Lab, name: &str, cpus: &str) -> std::path::PathBuf {
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
    let mine = add_filler(&lab, "mine", "1.5");
    let others = ["b", "c"].map(|name| add_filler(&lab, name, "1"));
    lab.warm_up();
    lab.home.ok(&["start", "2", "--node", "h1"]);
    lab.home.ok(&["start", "3-4", "--node", "h2"]);
    for id in 2..=4 {
        lab.home.until_state(id, "running");
    }
    lab.home.ok(&["start", "1", "--node", "lab"]);
    let seen = lab.home.until_state(1, "pending");
    assert_eq!(seen["node"], "h1", "{seen:#}");
    spoil(&lab, "h1");
    // Nor does its disk take the word that it never starts it.
    let line = "cd ~/.neronet/*/runs/1/1 && mv control aside && touch control";
    on_host(&lab, "h1", line);
    release(&mine);
    until_waits_for(&lab, &["refused by h1: cannot make"]);
    lab.home.kill(Part::Daemon);
    end(&lab.parts("h1", Part::Mum));
    let line = "cd ~/.neronet/*/runs/1/1 && rm control && mv aside control";
    on_host(&lab, "h1", line);
    until("the run to be placed on h2", || {
        let seen = lab.home.experiment_json(1);
        if seen["node"] == "h2" {
            Ok(())
        } else {
            Err((seen, lab.home.logs()))
        }
    });
    lab.home.kill(Part::Daemon);
    for pipe in &others {
        release(pipe);
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
