//! A machine is gone: another one takes its runs over, node by node, and the
//! first one can take them back.

use nero_tests::{Home, until};

use crate::ssh::{Lab, release};

/// The experiments that a home knows, with their states.
fn seen(home: &Home) -> Vec<(u64, String)> {
    let all = home.json(&["status", "all"]);
    all["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let state = one["state"].as_str().unwrap_or_default().to_owned();
            (one["id"].as_u64().unwrap_or(0), state)
        })
        .collect()
}

/// Waits until exactly these experiments are known and run.
fn until_running(home: &Home, ids: &[u64]) {
    let wanted: Vec<_> = ids.iter().map(|id| (*id, "running".to_owned())).collect();
    until("the runs that were taken over", || {
        let now = seen(home);
        (now == wanted).then_some(()).ok_or((now, home.logs()))
    });
}

#[test]
fn a_deployment_on_two_nodes_is_taken_over_one_by_one_and_back() {
    let lab = Lab::new(2);
    let pipes = [lab.add_held("a"), lab.add_held("b")];
    lab.home.ok(&["start", "1", "--node", "h1"]);
    lab.home.ok(&["start", "2", "--node", "h2"]);
    until_running(&lab.home, &[1, 2]);
    // An experiment whose first run is on another node than its second.
    lab.add("c", "exit 7");
    lab.home.ok(&["start", "3", "--node", "h2"]);
    lab.home.until_state(3, "crashed");
    lab.home.ok(&["restart", "3", "--node", "h1"]);
    lab.home.until_state(3, "crashed");
    lab.home.ok(&["daemon", "stop"]);

    let other = Home::with_hosts(&lab.hosts);
    other.configure("nodes: {h1: {address: h1}, h2: {address: h2}}\n");
    let said = other.ok(&["node", "take-over", "h1"]);
    assert!(
        said.contains("taken over: 2 runs of 2 experiments"),
        "{said}"
    );
    assert!(said.contains("3.1: it is not on h1"), "{said}");
    // The node reported how far they are; there are no warnings about unknown
    // facts.
    for (id, state) in [(1, "running"), (3, "crashed")] {
        let one = other.experiment_json(id);
        assert!(one["state"] == state, "{one:#}");
        assert_eq!(one["warnings"], serde_json::json!([]), "{one:#}");
    }
    // It becomes the owner there, and reads nothing of it.
    other.ok(&["exec", "h2", "--", "true"]);
    let said = other.ok(&["node", "take-over", "h2"]);
    assert!(
        said.contains("taken over: 2 runs of 1 experiment"),
        "{said}"
    );
    other.until_state(2, "running");
    // The same after the daemon was started anew, with the first run of 3.
    let again = other.run(&["node", "take-over", "h2"]);
    assert!(again.err.contains("h2 is yours already"), "{again:?}");

    // The frozen files of the experiment were not taken over.
    for more in [&["--node", "h1"], &["--as-added"] as &[&str]] {
        let refused = other.run(&[&["restart", "3"], more].concat());
        let said = format!("{}{}", refused.out, refused.err);
        assert!(said.contains("neroman add FOLDER"), "{refused:?}");
    }

    // The first machine is back: the error contains the command to type, which
    // works.
    let refused = lab.home.run(&["node", "connect", "h1"]);
    assert!(
        refused.err.contains("neroman node take-over h1"),
        "{refused:?}"
    );
    let said = lab.home.ok(&["node", "take-over", "h1"]);
    assert!(said.contains("taken over: 0 runs"), "{said}");
    lab.home.until_state(1, "running");
    for pipe in &pipes {
        release(pipe);
    }
    for id in [1, 2] {
        let end = lab.home.until_state(id, "crashed");
        assert_eq!(end["exit_code"], 7, "{end:#}");
    }
}
