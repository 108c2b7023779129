//! Daemons that do not come up.

use std::path::Path;

use super::*;
use crate::fault::code;

/// A line of shell that is run as the daemon.
fn shell(line: &str) -> Program {
    Program {
        path: "/bin/sh".into(),
        args: vec!["-c".into(), line.into()],
    }
}

fn home(folder: &Path) -> Home {
    Home::below(folder)
}

#[tokio::test]
async fn a_daemon_that_refuses_is_quoted() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = home(folder.path());
    let program = shell("echo 'state.db is \u{1b}[31mdamaged' >&2; exit 9");
    for _ in 0..2 {
        let fault = Client::connect(&home, &program)
            .await
            .expect_err("it refuses");
        assert_eq!(fault.exit_code, code::NO_DAEMON);
        // From this start alone, not from the one before.
        assert_eq!(fault.report, "state.db is \\u{1b}[31mdamaged\n");
        assert!(fault.text().contains("exit status: 9"), "{}", fault.text());
    }
}

#[tokio::test]
async fn a_daemon_that_finds_another_ending_is_started_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let flag = folder.path().join("was-here");
    let line = format!("test -e '{0}' && exit 9; : > '{0}'", flag.display());
    let fault = Client::connect(&home(folder.path()), &shell(&line))
        .await
        .expect_err("the second refuses");
    assert!(fault.text().contains("exit status: 9"), "{}", fault.text());
}

#[tokio::test]
async fn a_daemon_gets_only_what_it_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = home(folder.path());
    let fault = Client::connect(&home, &shell("pwd; env | cut -d= -f1; exit 1"))
        .await
        .expect_err("it leaves");
    let mut lines = fault.report.lines();
    assert_eq!(lines.next(), Some("/"));
    for name in lines.filter(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name)) {
        assert!(
            !name.starts_with("CARGO") && !name.starts_with("NEXTEST"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = Program {
        path: "/nowhere/neroman".into(),
        args: Vec::new(),
    };
    let fault = Client::connect(&home(folder.path()), &program)
        .await
        .expect_err("nothing");
    assert_eq!(fault.exit_code, code::NO_DAEMON);
    assert!(
        fault.text().contains("/nowhere/neroman"),
        "{}",
        fault.text()
    );
}

#[tokio::test]
async fn looking_starts_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = home(&folder.path().join("home"));
    let found = Client::connect_only(&home, &shell("exit 0")).await;
    assert!(matches!(found, Ok(None)));
    assert!(!home.data.exists());
}

/// Writes the lock of this home as a daemon would.
fn held(home: &Home, host: &str, process: nero_model::ProcessId) {
    std::fs::create_dir_all(&home.data).expect("a folder");
    let lock = std::fs::File::create(home.daemon_lock()).expect("a file");
    let holder = nero_model::Holder {
        process,
        host: host.to_owned(),
        socket: home.socket(),
    };
    holder.write(&lock).expect("a file");
}

#[tokio::test]
async fn a_daemon_on_another_host_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = home(folder.path());
    let elsewhere = nero_model::ProcessId {
        boot_id: [7; 16],
        pid_namespace: 1,
        pid: 4321,
        start_ticks: 5,
    };
    held(&home, "login2", elsewhere);
    // Like a client that finds the lock taken.
    let fault = Client::connect(&home, &shell("exit 0"))
        .await
        .expect_err("it is out of reach");
    let text = fault.text();
    assert_eq!(fault.exit_code, code::NO_DAEMON);
    for part in ["login2", "4321", "daemon.lock", "neroman daemon stop"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn the_lock_text_of_a_dead_daemon_keeps_no_client_from_starting_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = home(folder.path());
    let mut dead = nero_model::ProcessId::own().expect("a process");
    dead.start_ticks += 1;
    held(&home, "", dead);
    let fault = Client::connect(&home, &shell("exit 9"))
        .await
        .expect_err("the program refuses");
    assert!(fault.text().contains("exit status: 9"), "{}", fault.text());
}
