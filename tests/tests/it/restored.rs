//! `backup` and `backup --restore`: nothing is started twice, and nothing is lost.

use std::fs;
use std::path::Path;

use nero_tests::{Home, Part, until};

use crate::story::{added, make_pipe};

/// Experiments that write into one file; the first one waits for a pipe.
fn prepared(home: &Home) -> std::path::PathBuf {
    home.configure("nodes: {local: {cpus: 1}}\n");
    let pipe = home.path().join("pipe");
    make_pipe(&pipe);
    let log = home.path().join("log");
    let (pipe, log) = (pipe.display(), log.display());
    let yaml = format!(
        "collection: r
+a: {{command: [sh, -c, 'echo a >> {log}; read line < {pipe}; echo loss 1']}}
+b: {{command: [sh, -c, 'echo b >> {log}']}}
+c: {{command: [sh, -c, 'echo c >> {log}'], lock: env}}
+d: {{command: [sh, -c, 'echo d >> {log}'], lock: env}}
"
    );
    added(home, "r", &yaml);
    home.ok(&["start", "1"]);
    home.until_state(1, "running");
    home.ok(&["start", "2"]);
    until("the second run to wait at its node", || {
        let view = home.experiment_json(2);
        if view["state"] == "pending" {
            Ok(())
        } else {
            Err(view)
        }
    });
    home.path().join("home.backup")
}

fn begun(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

#[test]
fn a_restored_home_starts_nothing_twice_and_learns_what_came_after_the_backup() {
    let home = Home::new();
    let file = prepared(&home);
    let name = file.display().to_string();
    let made = home.json(&["backup", &name]);
    assert!(made["files"].as_u64() > Some(3), "{made:#}");
    let refused = home.run(&["backup", "--restore", &name]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.err.contains("empty home"), "{refused:#?}");
    // The backup knows nothing of this run.
    home.ok(&["start", "3"]);
    until("the third run to wait at its node", || {
        let view = home.experiment_json(3);
        if view["state"] == "pending" {
            Ok(())
        } else {
            Err(view)
        }
    });
    home.kill(Part::Daemon);
    for part in ["data", "state", "config.yaml"] {
        let path = home.base().join(part);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
    }
    home.ok(&["backup", "--restore", &name]);
    until("the node to have told what it knows", || {
        let status = home.run(&["status"]);
        let third = home.experiment_json(3);
        if third["state"] == "pending" && !status.err.contains("restored from a backup") {
            Ok(())
        } else {
            Err(Box::new((status, third, home.logs())))
        }
    });
    assert_eq!(begun(home.path()), "a\n");
    // A lock is not given away a second time, either.
    home.ok(&["start", "4"]);
    until("the fourth run to wait for the third", || {
        let view = home.experiment_json(4);
        if view["waiting_for"] == "local: 3.1 holds the lock env" {
            Ok(())
        } else {
            Err((view, home.logs()))
        }
    });
    home.kill(Part::Daemon);
    fs::write(home.path().join("pipe"), "\n").unwrap();
    home.ok(&["wait", "1-4"]);
    assert_eq!(begun(home.path()), "a\nb\nc\nd\n");
    let first = home.until_settled(1);
    assert_eq!(first["metrics"]["loss"]["count"], 1, "{first:#}");
}

#[test]
fn on_another_machine_what_waited_starts_at_a_persons_word_alone() {
    let home = Home::new();
    let file = prepared(&home);
    let name = file.display().to_string();
    home.ok(&["backup", &name]);
    let other = Home::new();
    let restored = other.ok(&["backup", "--restore", &name]);
    assert!(restored.contains("restored what"), "{restored}");
    let waits = until("the second run to wait for a person", || {
        let view = other.experiment_json(2);
        let waits = view["waiting_for"].as_str().unwrap_or_default().to_owned();
        if waits.contains("neroman resume 2") {
            Ok(waits)
        } else {
            Err((view, other.logs()))
        }
    });
    assert!(waits.contains("may have been started"), "{waits}");
    // `local` of this home has another root: its word is no word about what waited.
    home.ok(&["abort", "2", "--yes"]);
    other.ok(&["resume", "2"]);
    other.until_state(2, "finished");
    assert_eq!(begun(home.path()), "a\nb\n");
    fs::write(home.path().join("pipe"), "\n").unwrap();
    home.ok(&["wait", "1"]);
}

#[test]
fn a_restore_that_broke_off_is_begun_again_and_no_daemon_takes_what_it_left() {
    let home = Home::new();
    added(&home, "r", "+a: {command: 'true'}\n");
    let (whole, cut) = (home.path().join("whole"), home.path().join("cut"));
    home.ok(&["backup", &whole.display().to_string()]);
    // The last file's bytes do not fit its checksum.
    let mut bytes = fs::read(&whole).unwrap();
    let header = b"PK\x03\x04";
    let last = bytes.windows(4).rposition(|four| four == header).unwrap();
    bytes[last + 200] ^= 1;
    fs::write(&cut, bytes).unwrap();
    let other = Home::new();
    let refused = other.run(&["backup", "--restore", &cut.display().to_string()]);
    assert!(
        refused.err.contains("type the command again"),
        "{refused:#?}"
    );
    let refused = other.run(&["status"]);
    assert!(
        refused.err.contains("not restored to its end"),
        "{refused:#?}"
    );
    assert!(
        refused.err.contains("backup --restore FILE"),
        "{refused:#?}"
    );
    other.ok(&["backup", "--restore", &whole.display().to_string()]);
    assert_eq!(other.experiment_json(1)["name"], "a");
}
