//! `neroman infra`: a set of hosts made ready, used, and put away, whatever dies meanwhile.

use std::fs;

use nero_tests::processes::Part;
use nero_tests::{Ran, until};

use crate::ssh::{Lab, release};

const UP: [&str; 5] = ["infra", "up", "lab", "--warden", "none"];

fn lab(count: usize) -> Lab {
    let lab = Lab::new(count);
    lab.home.configure("# mine\nnodes: {}\n");
    lab
}

fn up(lab: &Lab, more: &[&str]) -> Ran {
    lab.home.run(&[&UP[..], more].concat())
}

fn config(lab: &Lab) -> String {
    let path = lab.home.json(&["config", "show"])["file"].clone();
    fs::read_to_string(path.as_str().unwrap()).unwrap()
}

/// Waits until nothing of ours runs on a host.
fn until_quiet(lab: &Lab, host: &str) {
    let parts = [
        Part::Mum,
        Part::Launcher,
        Part::Shim,
        Part::Watcher,
        Part::Dial,
    ];
    until(&format!("{host} to have no process of ours"), || {
        let each = parts.iter().flat_map(|part| lab.parts(host, *part));
        match each.count() {
            0 => Ok(()),
            count => Err((count, lab.home.logs())),
        }
    });
}

#[test]
fn hosts_are_made_ready_with_one_line_used_and_put_away() {
    let lab = lab(3);
    let said = up(&lab, &["-a", "h1,h2,h3", "--cpus", "2"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.ends_with("lab: 3 of 3 hosts ready\n"), "{said:?}");
    let sent = lab.home.count_logged("agents sent");
    let again = lab.home.json(&[&UP[..], &["-a", "h1,h2,h3"]].concat());
    assert_eq!(again["hosts"].as_array().unwrap().len(), 3);
    assert!(
        again["hosts"]
            .as_array()
            .unwrap()
            .iter()
            .all(|host| host["done"] == true)
    );
    assert_eq!(
        lab.home.count_logged("agents sent"),
        sent,
        "nothing is sent again"
    );
    assert!(config(&lab).starts_with("# mine\n"), "{}", config(&lab));
    let yaml = "command: echo {x}\nparameters: {x: [1, 2, 3, 4, 5, 6]}\n";
    let folder = lab.home.experiment("matrix", yaml).display().to_string();
    lab.home.ok(&["start", &folder, "--node", "lab", "--wait"]);
    let pipe = lab.add_held("a");
    lab.home.ok(&["start", "a", "--node", "lab"]);
    lab.home.until_state(7, "running");
    let refused = lab.home.run(&["infra", "down", "lab"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.err.contains("this would end 1 live run"),
        "{refused:?}"
    );
    release(&pipe);
    let down = lab.home.run(&["infra", "down", "lab", "--purge", "--yes"]);
    assert_eq!(down.code, Some(0), "{down:?} {}", lab.home.logs());
    assert!(
        down.out.ends_with("lab: 3 of 3 hosts put away\n"),
        "{down:?}"
    );
    assert!(!config(&lab).contains("lab"), "{}", config(&lab));
    for host in lab.hosts.names() {
        until_quiet(&lab, &host);
        let left = lab.hosts.home(&host).join(".neronet");
        until("the files to be gone", || {
            if left.exists() {
                Err(left.clone())
            } else {
                Ok(())
            }
        });
    }
}

#[test]
fn of_hosts_that_fail_each_is_told_and_the_same_line_goes_on() {
    let lab = lab(2);
    let said = up(&lab, &["-a", "h1,no-such-host"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(said.out.contains("lab: 1 of 2 hosts ready"), "{said:?}");
    assert!(said.out.contains("lab-2:\n"), "{said:?}");
    lab.hosts.alias("no-such-host", "h2");
    let said = up(&lab, &["-a", "h1,no-such-host"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for (words, told) in [
        (vec!["-a", "h1,h1"], "is given twice"),
        (vec!["-a", "h1,,h2"], "a host is empty"),
        (vec!["-a", "h1", "-w", "2"], "is no number of a host"),
        (vec!["-a", "h1", "-i", "/no/key"], "cannot read the key"),
        (vec!["-f", "/no/config.sh"], "the hosts cannot be read"),
        (vec!["-a", "h1", "--image", "./env.tar"], "is a file here"),
        (vec!["-a", "h1", "--image", "env.sif"], "is a file here"),
    ] {
        let refused = up(&lab, &words);
        assert_eq!(refused.code, Some(2), "{words:?}");
        assert!(refused.err.contains(told), "{refused:?}");
    }
    let down = lab.home.run(&["infra", "down", "lab"]);
    assert_eq!(down.code, Some(0), "{down:?}");
    until_quiet(&lab, "h1");
    until_quiet(&lab, "h2");
}

#[test]
fn what_a_kill_or_a_cut_left_undone_the_same_line_does() {
    let lab = lab(2);
    for round in 0..2 {
        let mut begun = lab.home.spawn(&[&UP[..], &["-a", "h1,h2"]].concat());
        lab.home.until_alive(Part::Daemon);
        if round == 0 {
            begun.kill().unwrap();
        } else {
            lab.home.kill(Part::Daemon);
            lab.hosts.hang_up("h1");
        }
        let _ = begun.wait();
        let said = up(&lab, &["-a", "h1,h2"]);
        assert_eq!(said.code, Some(0), "{said:?} {}", lab.home.logs());
        let mut ending = lab.home.spawn(&["infra", "down", "lab"]);
        if round == 0 {
            ending.kill().unwrap();
        } else {
            lab.home.kill(Part::Daemon);
        }
        let _ = ending.wait();
        let down = lab.home.run(&["infra", "down", "lab"]);
        let is_gone = down.err.contains("there is no set of hosts");
        assert!(
            down.code == Some(0) || is_gone,
            "{down:?} {}",
            lab.home.logs()
        );
        assert!(!config(&lab).contains("lab"), "{}", config(&lab));
    }
    until_quiet(&lab, "h1");
    until_quiet(&lab, "h2");
}

#[test]
fn a_purge_that_was_cut_off_anywhere_is_ended_by_the_same_line() {
    let lab = lab(1);
    let down = ["infra", "down", "lab", "--purge", "--yes"];
    let left = lab.hosts.home("h1").join(".neronet");
    let strikes: [(&str, &dyn Fn()); 4] = [
        ("told to stop", &|| {
            lab.home.kill(Part::Daemon);
        }),
        ("told to stop", &|| {
            let mums = lab.parts("h1", Part::Mum);
            nero_tests::end(&mums);
        }),
        ("told to stop", &|| lab.hosts.hang_up("h1")),
        ("ended in order", &|| {
            lab.home.kill(Part::Daemon);
        }),
    ];
    for (step, strike) in strikes {
        assert_eq!(up(&lab, &["-a", "h1"]).code, Some(0));
        lab.home.ok(&["exec", "lab-1", "--", "true"]);
        let mut begun = lab.home.spawn(&down);
        until(&format!("{step} on the host"), || {
            let has_ended = begun.try_wait().unwrap().is_some();
            let log = said_there(&left);
            if has_ended || log.contains(step) {
                Ok(())
            } else {
                Err(log)
            }
        });
        strike();
        let _ = begun.wait();
        let again = lab.home.run(&down);
        let is_gone = again.err.contains("there is no set of hosts");
        assert!(
            again.code == Some(0) || is_gone,
            "{again:?} {}",
            lab.home.logs()
        );
        assert!(!config(&lab).contains("lab"), "{}", config(&lab));
        assert!(!left.exists(), "after {step}: {}", lab.home.logs());
    }
}

/// What agents logged below a root.
fn said_there(root: &std::path::Path) -> String {
    let found = std::process::Command::new("find")
        .arg(root)
        .args(["-name", "log", "-exec", "cat", "{}", "+"])
        .output();
    String::from_utf8_lossy(&found.unwrap().stdout).into_owned()
}

#[test]
fn a_host_out_of_reach_is_named_and_its_run_ends_when_it_is_back() {
    let lab = lab(2);
    assert_eq!(up(&lab, &["-a", "h1,h2"]).code, Some(0));
    let _pipe = lab.add_held("a");
    lab.start_held("lab-2");
    lab.hosts.cut("h2");
    let host = lab.until_node("lab-2", "to be out of reach", |node| {
        !node["unreachable_since"].is_null()
    });
    assert_eq!(host["live"], 1);
    let down = lab.home.run(&["infra", "down", "lab", "--yes"]);
    assert_eq!(down.code, Some(4), "{down:?}");
    assert!(
        down.out.contains("its runs go on until it is reached"),
        "{down:?}"
    );
    assert!(config(&lab).contains("lab-2") && !config(&lab).contains("lab-1"));
    lab.hosts.mend("h2");
    // The first try may still go over the connection that was cut.
    lab.home.run(&["node", "connect", "lab-2"]);
    lab.until_node("lab-2", "to be back", |node| node["connected"] == true);
    lab.home.until_state(1, "aborted");
    assert_eq!(lab.home.run(&["infra", "down", "lab"]).code, Some(0));
    until_quiet(&lab, "h2");
}
