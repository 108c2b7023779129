//! A machine that no `ssh` reaches joins the neroman of another one.

use std::fs;
use std::path::Path;
use std::process::Child;

use nero_tests::{Home, Hosts, until};
use serde_json::Value;

/// A host with a neroman of its own, and this machine, which has no server of `ssh` there.
struct Joined {
    // Dropped first, so that connections end before the host does.
    home: Home,
    hosts: Hosts,
    program: String,
}

impl Joined {
    fn new() -> Self {
        let hosts = Hosts::up(1);
        let program = hosts.program("neroman").display().to_string();
        for name in ["neromum", "nerokid", "nerokid-shim"] {
            hosts.program(name);
        }
        let home = Home::with_hosts(&hosts);
        Self {
            home,
            hosts,
            program,
        }
    }

    /// What neroman prints at the head.
    fn head(&self, words: &str) -> Result<String, String> {
        let ran = self.hosts.ssh("h1", &format!("{} {words}", self.program));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if ran.status.success() {
            Ok(text(&ran.stdout))
        } else {
            Err(text(&ran.stderr))
        }
    }

    fn head_json(&self, words: &str) -> Value {
        let said = self.head(&format!("{words} --json")).expect("it works");
        serde_json::from_str(&said).expect("a document")
    }

    fn join(&self, log: &str) -> Child {
        let log = fs::File::create(self.home.path().join(log)).expect("a file");
        let root = self.home.base().join("joined");
        let mut join = self
            .home
            .in_environment(&self.home.neroman().display().to_string());
        join.args([
            "node",
            "join",
            "h1",
            "--name",
            "desk",
            "--program",
            &self.program,
        ]);
        join.arg("--root").arg(root).stderr(log);
        join.spawn().expect("neroman starts")
    }

    fn until_connected(&self, log: &str) {
        until("the node to be connected", || {
            if !said(&self.home, log).contains("this machine is the node desk of h1") {
                return Err(said(&self.home, log));
            }
            let nodes = self.head_json("node list");
            let mut nodes = nodes["nodes"].as_array().into_iter().flatten();
            let is_desk = |node: &&Value| node["name"] == "desk" && node["connected"] == true;
            nodes
                .find(is_desk)
                .map(|_| ())
                .ok_or_else(|| said(&self.home, log))
        });
    }
}

fn said(home: &Home, log: &str) -> String {
    fs::read_to_string(home.path().join(log)).unwrap_or_default()
}

/// Waits until a file is there.
fn until_there(path: &Path) {
    until("a file", || path.exists().then_some(()).ok_or(path));
}

#[test]
fn a_machine_that_no_ssh_reaches_joins_and_its_runs_go_on_without_the_connection() {
    let lab = Joined::new();
    let mut first = lab.join("first");
    lab.until_connected("first");
    let here = lab.home.path().join("here");
    let go = lab.home.path().join("go");
    lab.head(&format!(
        "run --detach --node desk -- sh -c 'echo loss=0.5; echo x >> {}; \
         while ! test -e {}; do sleep 0.1; done; exit 3'",
        here.display(),
        go.display(),
    ))
    .expect("it is started");
    until_there(&here);

    // As a power cut of the way: nothing is ended in order.
    first.kill().expect("it lives");
    first.wait().expect("it ended");
    fs::write(&go, "").unwrap();
    let mut second = lab.join("second");
    lab.until_connected("second");
    let seen = until("the end of the run", || {
        let seen = lab.head_json("status 1")["experiments"][0].clone();
        (seen["settled"] == true).then(|| seen.clone()).ok_or(seen)
    });
    assert_eq!(
        (&seen["state"], &seen["exit_code"]),
        (&"crashed".into(), &3.into()),
        "{seen:#}"
    );
    assert_eq!(seen["metrics"]["loss"]["last"], 0.5, "{seen:#}");
    assert_eq!(fs::read_to_string(&here).unwrap(), "x\n");

    lab.head("node rm desk --yes").expect("it is removed");
    let ended = second.wait().expect("it ended");
    let said = said(&lab.home, "second");
    assert_eq!(ended.code(), Some(2), "{said}");
    assert!(said.contains("the node `desk` was removed"), "{said}");
}
