//! The real daemon: started by the first command, stopped by a verb.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::fake::Ran;

/// A home whose daemon is stopped with the test.
pub struct TempHome(tempfile::TempDir);

impl TempHome {
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("nc").tempdir();
        Self(folder.expect("a folder"))
    }

    pub fn base(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_neroman"));
        command
            .args(words)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.base())
            .env("NERONET_HOME", self.base().join("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        Ran::of(self.command(words).output().expect("the program is built"))
    }
}

impl Drop for TempHome {
    fn drop(&mut self) {
        // The test may have stopped it, or failed before it was started.
        let _ = self.command(&["daemon", "stop"]).output();
    }
}

#[test]
fn twenty_clients_at_once_make_one_daemon() {
    let place = TempHome::new();
    let clients: Vec<_> = (0..20)
        .map(|_| {
            place
                .command(&["daemon", "start", "--json"])
                .spawn()
                .expect("the program is built")
        })
        .collect();
    let pids: BTreeSet<i64> = clients
        .into_iter()
        .map(|client| {
            let ran = Ran::of(client.wait_with_output().expect("it ends"));
            assert_eq!(ran.code, Some(0), "{ran:#?}");
            let value: Value = serde_json::from_str(&ran.out).expect("JSON");
            value["pid"].as_i64().expect("a process")
        })
        .collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
}

#[test]
fn a_daemon_is_started_looked_at_and_stopped() {
    let place = TempHome::new();
    let none = place.run(&["daemon", "status"]);
    assert_eq!((none.code, none.out.as_str()), (Some(3), "not running\n"));
    let first = place.run(&["status"]);
    assert_eq!(first.code, Some(0), "{first:#?}");
    assert!(first.out.contains("neroman add"), "{first:#?}");
    let there = place.run(&["daemon", "status", "--json"]);
    let value: Value = serde_json::from_str(&there.out).expect("JSON");
    let process = value["pid"].as_i64().expect("a process");
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it lives");
    let fields: Vec<&str> = stat.split(' ').collect();
    assert_eq!(fields[5], process.to_string(), "a session of its own");
    let stopped = place.run(&["daemon", "stop"]);
    assert_eq!(stopped.out, "stopped; jobs go on\n", "{stopped:#?}");
    let state = std::fs::read_to_string(format!("/proc/{process}/stat"));
    assert!(
        state.is_err() || state.is_ok_and(|stat| stat.contains(") Z ")),
        "it is gone when `stop` returns"
    );
    let logs = place.run(&["daemon", "logs"]);
    assert!(logs.out.contains("daemon ready"), "{logs:#?}");
    let again = place.run(&["daemon", "stop"]);
    assert_eq!(again.out, "was not running\n");
}

#[test]
fn completing_a_word_starts_no_daemon() {
    let place = TempHome::new();
    let complete = |words: &[&str]| {
        let asking = place.command(&[&["--"], words].concat());
        crate::completing::completed(asking, words)
    };
    assert_eq!(
        complete(&["neroman", "restart", "crashed,ti"]),
        "crashed,timeout"
    );
    assert_eq!(complete(&["neroman", "show", "1"]), "");
    let none = place.run(&["daemon", "status"]);
    assert_eq!((none.code, none.out.as_str()), (Some(3), "not running\n"));
}

#[test]
fn a_database_that_cannot_be_read_is_said() {
    let place = TempHome::new();
    let data = place.base().join("home/data");
    std::fs::create_dir_all(&data).expect("a folder");
    std::fs::write(data.join("state.db"), "no database".repeat(1000)).expect("a file");
    let ran = place.run(&["status"]);
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert!(ran.err.contains("state.db"), "{}", ran.err);
}
