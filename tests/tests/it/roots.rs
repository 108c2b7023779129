//! A node's root is changed while runs of it wait there.

use nero_tests::until;

use crate::ssh::{Lab, release};

/// The configuration of the one host, with one processor and this root.
fn configure(lab: &Lab, root: &str) {
    let host = &lab.hosts.names()[0];
    let node = format!("nodes:\n  {host}: {{address: {host}, cpus: 1, root: {root}}}\n");
    lab.home.configure(&node);
}

#[test]
fn a_run_that_waits_below_another_root_is_held_and_starts_once() {
    let lab = Lab::new(1);
    let host = lab.hosts.names()[0].clone();
    configure(&lab, "~/first");
    let pipe = lab.add_held("a");
    let note = format!("note {} start-b", lab.notes.display());
    lab.add("b", &note);
    lab.start_held(&host);
    lab.home.ok(&["start", "2", "--node", &host]);
    lab.home.until_state(2, "pending");

    let refused = lab
        .home
        .run(&["config", "set", &format!("nodes.{host}.root"), "~/second"]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(
        refused.err.contains("2 runs have not ended on node"),
        "{}",
        refused.err
    );

    configure(&lab, "~/second");
    until("the waiting run to be held", || {
        let seen = lab.home.experiment_json(2);
        match seen["held"].as_str() {
            Some(why) if why.contains("and this run waits in") => Ok(()),
            _ => Err((seen, lab.home.logs())),
        }
    });
    // The neromum of the first root goes on by itself.
    release(&pipe);
    until("the second run", || match lab.noted().len() {
        3 => Ok(()),
        _ => Err((lab.noted(), lab.home.logs())),
    });
    assert_eq!(lab.home.experiment_json(2)["state"], "pending");

    configure(&lab, "~/first");
    lab.home.until_state(2, "finished");
    lab.home.until_state(1, "crashed");
    assert_eq!(lab.noted(), ["start-a", "end-a", "start-b"]);
}
