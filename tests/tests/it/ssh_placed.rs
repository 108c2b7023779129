//! Runs that go where another one is, or only where it is not.

use nero_tests::{Part, until};

use crate::ssh::{Lab, release};

fn until_waits(lab: &Lab, id: u64, word: &str, why: &str) {
    until("the reason of a wait", || {
        let seen = lab.home.experiment_json(id);
        if seen[word] == why {
            Ok(())
        } else {
            Err((seen, lab.home.logs()))
        }
    });
}

#[test]
fn a_run_goes_where_another_one_is_and_one_that_is_kept_apart_waits_there() {
    let lab = Lab::new(2);
    let pipe = lab.pipe("init");
    let yaml = format!(
        "outputs: [stdout]\n+init: {{command: '{} hold {}'}}\n\
         +train: {{command: 'true', node: lab, place: {{same_as: init}}}}\n\
         +other: {{command: 'true', node: h2, place: {{apart_from: [init]}}}}\n",
        lab.hosts.program("nero-job").display(),
        pipe.display(),
    );
    let folder = lab.home.experiment("placed", &yaml).display().to_string();
    lab.home.ok(&["add", &folder]);
    lab.home.ok(&["start", "train"]);
    until_waits(&lab, 2, "held", "needs init, which was not started");
    lab.home.kill(Part::Daemon);
    // By its load and name `h1` would be chosen for `train`.
    lab.home.ok(&["start", "init", "--node", "h2"]);
    let trained = lab.home.until_state(2, "finished");
    assert_eq!(trained["node"], "h2", "{trained:#}");
    lab.home.until_state(1, "running");
    lab.home.ok(&["start", "other"]);
    let apart = "h2: 1.1 is there, from which it is kept apart";
    until_waits(&lab, 3, "waiting_for", apart);
    lab.home.kill(Part::Daemon);
    until_waits(&lab, 3, "waiting_for", apart);
    release(&pipe);
    let ended = lab.home.until_state(3, "finished");
    assert_eq!(ended["node"], "h2", "{ended:#}");
}
