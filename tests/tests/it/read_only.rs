//! A home on a file system that became read-only.

use std::ffi::OsStr;
use std::process::{Command, Output};

use nero_tests::Home;

use crate::story::{added, job};

/// Runs `neroman` where the home cannot be written; other processes still can. None
/// when this user may not mount.
fn read_only(home: &Home, args: &[&str]) -> Option<Output> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting needs root");
        return None;
    }
    let typed = home.command(args);
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg(
            "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" && shift && exec \"$@\"",
        )
        .args([OsStr::new("sh"), home.base().as_os_str()])
        .arg(typed.get_program())
        .args(typed.get_args())
        .env_clear()
        .current_dir(home.path());
    for (name, value) in typed.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    Some(command.output().expect("unshare is installed"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_home_on_a_read_only_file_system_is_told_of_and_works_once_it_is_writable() {
    let home = Home::new();
    added(
        &home,
        "r",
        &format!("collection: r\n+a: {{command: {} print loss 1}}\n", job()),
    );
    home.ok(&["start", "1", "--wait"]);
    home.ok(&["daemon", "stop"]);
    for verb in [
        &["status"][..],
        &["show", "1"],
        &["logs", "1"],
        &["start", "1"],
    ] {
        let Some(ran) = read_only(&home, verb) else {
            return;
        };
        let told = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(3), "{told}");
        assert!(told.contains("read-only file system"), "{told}");
        assert!(told.contains(&home.base().display().to_string()), "{told}");
        assert!(told.contains("runs on nodes go on"), "{told}");
        assert!(told.contains("NERONET_HOME=DIR"), "{told}");
    }
    assert_eq!(home.experiment_json(1)["state"], "finished");
}

#[test]
fn a_daemon_that_runs_answers_who_cannot_write_the_home() {
    let home = Home::new();
    added(
        &home,
        "r",
        &format!("collection: r\n+a: {{command: {} print loss 1}}\n", job()),
    );
    home.ok(&["start", "1", "--wait"]);
    home.until_settled(1);
    let verbs: [(&[&str], &str); 6] = [
        (&["status"], "finished"),
        (&["show", "1"], "finished"),
        (&["logs", "1"], "loss"),
        (&["results", "1"], "loss"),
        (&["metrics", "1", "loss"], "1"),
        (&["config", "show"], "min_free"),
    ];
    for (verb, expected) in verbs {
        let Some(ran) = read_only(&home, verb) else {
            return;
        };
        let seen = text(&ran.stdout);
        assert_eq!(
            ran.status.code(),
            Some(0),
            "{verb:?}: {}",
            text(&ran.stderr)
        );
        assert!(seen.contains(expected), "{verb:?}: {seen}");
    }
}
