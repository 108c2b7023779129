//! Watchers: their start, their restarts, and their last work.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use nero_journal::v1::changed::What;

use crate::rig::{Rig, kill, lives, signal, until};
use crate::run::{Cancel, Run};

/// A watcher that notes each start, and then runs the given lines.
fn watcher(rig: &Rig, does: &str) -> Vec<String> {
    let path = rig.path("watcher");
    let note = rig.path("notes");
    let text = format!("#!/bin/sh\necho \"$$ $*\" >> {}\n{does}\n", note.display());
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    vec![path.to_str().unwrap().to_owned(), "--fixed".to_owned()]
}

fn notes(rig: &Rig) -> Vec<String> {
    let text = fs::read_to_string(rig.path("notes")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn sleeper(rig: &Rig, watcher: Vec<String>) -> Run {
    let mut run = rig.run(&["/bin/sleep", "1000"]);
    run.launch.watcher = watcher;
    run
}

fn pid(note: &str) -> i32 {
    note.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_short_job_has_none() {
    let mut rig = Rig::new();
    let mut run = rig.run(&["/bin/true"]);
    run.launch.watcher = watcher(&rig, "");
    assert_eq!(rig.complete(&run).last(), Some(&What::Ended));
    assert!(notes(&rig).is_empty());
}

#[test]
fn a_longer_one_has_one_that_may_finish() {
    let mut rig = Rig::new();
    let run = sleeper(
        &rig,
        watcher(
            &rig,
            "cat /proc/self/status > \"$3/work/status\"
             while [ ! -e \"$3/drained\" ]; do sleep 0.02; done; exit 3",
        ),
    );
    rig.launch(&run);
    let note = until("the watcher", || notes(&rig).pop());
    assert!(
        note.ends_with(&format!("--fixed watch {} 1", run.launch.run_dir)),
        "{note}"
    );
    let watcher = pid(&note);
    let stat = nero_model::process::Stat::read(watcher).unwrap();
    assert_eq!((stat.session, stat.ppid), (watcher, rig.launcher_pid()));
    let status = run.written("status");
    for mask in ["SigBlk", "SigIgn"] {
        assert!(
            status.contains(&format!("{mask}:\t0000000000000000")),
            "{status}"
        );
    }
    let fds = fs::read_dir(format!("/proc/{watcher}/fd"))
        .unwrap()
        .flatten();
    let targets: Vec<String> = fds
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .map(|path| path.display().to_string())
        .collect();
    assert!(
        !targets
            .iter()
            .any(|one| one.contains("socket") || one.contains("lock")),
        "{targets:?}"
    );
    rig.cancel(&run, 1, Cancel::within(5000));
    rig.hear_of(&run, What::Ended);
    assert!(lives(watcher));
    fs::write(run.dir.join("drained"), "").unwrap();
    rig.hear_of(&run, What::WatcherEnded);
    assert_eq!(notes(&rig).len(), 1);
}

#[test]
fn a_watcher_that_is_wanted_at_once_starts_before_a_short_job_ends() {
    let mut rig = Rig::new();
    let mut run = rig.script("while [ ! -e ../../notes ]; do sleep 0.01; done");
    run.launch.watcher = watcher(&rig, "");
    run.launch.watch_at_once = true;
    rig.launch(&run);
    rig.hear_of(&run, What::Ended);
    rig.hear_of(&run, What::WatcherEnded);
}

#[test]
fn a_watcher_that_is_killed_is_started_again() {
    let mut rig = Rig::new();
    let run = sleeper(&rig, watcher(&rig, "exec sleep 1000"));
    rig.launch(&run);
    for starts in 1..=3 {
        let last = until("a watcher", || {
            let notes = notes(&rig);
            (notes.len() == starts).then(|| pid(notes.last().unwrap()))
        });
        kill(last);
    }
    let last = pid(&until("the last one", || {
        let notes = notes(&rig);
        (notes.len() == 4).then(|| notes.last().cloned())?
    }));
    // News of its end follows that of the run.
    rig.cancel(&run, 1, Cancel::within(5000));
    rig.hear_of(&run, What::Ended);
    kill(last);
    rig.hear_of(&run, What::WatcherEnded);
    assert_eq!(notes(&rig).len(), 4);
}

#[test]
fn a_watcher_that_is_no_program_ends_nothing() {
    let mut rig = Rig::new();
    let run = sleeper(&rig, vec!["/no/such/watcher".to_owned()]);
    rig.launch(&run);
    rig.hear_of(&run, What::Started);
    rig.cancel(&run, 1, Cancel::within(5000));
    rig.hear_of(&run, What::Ended);
}

#[test]
fn a_run_taken_over_keeps_its_watcher() {
    let mut rig = Rig::new();
    let run = sleeper(&rig, watcher(&rig, "exec sleep 1000"));
    rig.launch(&run);
    let watcher = pid(&until("the watcher", || notes(&rig).pop()));
    kill(run.shim());
    rig.hear_of(&run, What::TakenOver);
    // Cancelling the run does not end its watcher.
    rig.cancel(&run, 1, Cancel::within(5000));
    rig.hear_of(&run, What::Ended);
    assert!(lives(watcher));
    kill(watcher);
    rig.hear_of(&run, What::WatcherEnded);
}

/// Whether there is a program that takes locks.
fn has_flock() -> bool {
    let mut flock = std::process::Command::new("flock");
    flock.arg("--version").output().is_ok()
}

#[test]
fn a_guarded_run_gets_one_unless_it_has_one() {
    if !has_flock() {
        return;
    }
    let mut rig = Rig::new();
    let run = sleeper(
        &rig,
        watcher(&rig, "exec flock -n \"$3/1/watch.lock\" sleep 1000"),
    );
    rig.launch(&run);
    let elder = pid(&until("the watcher", || notes(&rig).pop()));
    until("its lock", || {
        run.folder().join("watch.lock").exists().then_some(())
    });
    until("it to sleep", || {
        let children = fs::read_to_string(format!("/proc/{elder}/task/{elder}/children"));
        (!children.ok()?.is_empty()).then_some(())
    });
    rig.kill_launcher();
    rig.restart();
    rig.guard(&run);
    rig.ring(&run);
    // The launcher answers in order, so it has handled the guard request.
    rig.connect();
    assert_eq!(notes(&rig).len(), 1);
    // Both hold the lock, as programs do that inherit it.
    let children = fs::read_to_string(format!("/proc/{elder}/task/{elder}/children")).unwrap();
    signal(
        children.trim().parse().unwrap(),
        rustix::process::Signal::KILL,
    );
    until("the next watcher", || {
        (notes(&rig).len() == 2).then_some(())
    });
    rig.cancel(&run, 1, Cancel::within(5000));
    rig.hear_of(&run, What::Ended);
}

/// A watcher that leaves when another one is at work, as ours does, and else
/// holds the lock in one process that watches a file, so that the kernel takes
/// a while to clear it away.
const LOCKS: &str = "exec flock -nFE 0 \"$3/1/watch.lock\" tail -f \"$3/../notes\"";

/// The watcher that holds the lock, once it is not `elder`.
fn holder(rig: &Rig, run: &Run, elder: i32) -> i32 {
    until("the holder of the lock", || {
        let last = pid(notes(rig).last()?);
        let line = fs::read(format!("/proc/{last}/cmdline")).ok()?;
        let told = fs::read_to_string("/proc/locks").ok()?;
        use std::os::unix::fs::MetadataExt as _;
        let lock = fs::metadata(run.folder().join("watch.lock")).ok()?.ino();
        let ours =
            |line: &str| line.contains(&format!(" {last} ")) && line.contains(&format!(":{lock} "));
        (line.starts_with(b"tail") && told.lines().any(ours))
            .then_some(last)
            .filter(|last| *last != elder)
    })
}

#[test]
fn the_next_one_waits_for_the_lock_of_one_that_is_dying() {
    if !has_flock() {
        return;
    }
    let mut rig = Rig::new();
    let run = sleeper(&rig, watcher(&rig, LOCKS));
    rig.launch(&run);
    let mut elder = 0;
    for starts in 1..=4 {
        elder = holder(&rig, &run, elder);
        assert_eq!(notes(&rig).len(), starts, "none of them came in vain");
        rig.kill_launcher();
        rig.restart();
        // The kernel closes its files first and releases the lock later.
        kill(elder);
        rig.guard(&run);
    }
    holder(&rig, &run, elder);
    assert_eq!(notes(&rig).len(), 5);
}

#[test]
fn a_watcher_that_left_to_a_stranger_is_replaced_when_that_one_ends() {
    if !has_flock() {
        return;
    }
    let mut rig = Rig::new();
    let run = sleeper(&rig, watcher(&rig, LOCKS));
    fs::create_dir(run.folder()).unwrap();
    let mut stranger = std::process::Command::new("flock")
        .arg("-nF")
        .arg(run.folder().join("watch.lock"))
        .args(["sleep", "1000"])
        .spawn()
        .unwrap();
    until("the lock", || {
        let line = fs::read(format!("/proc/{}/cmdline", stranger.id())).ok()?;
        line.starts_with(b"sleep").then_some(())
    });
    rig.launch(&run);
    let vain = pid(&until("the watcher", || notes(&rig).pop()));
    until("it to leave", || (!lives(vain)).then_some(()));
    let ended = std::time::Instant::now();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    holder(&rig, &run, vain);
    // The pause after a watcher in vain would be ten seconds.
    assert!(ended.elapsed().as_secs() < 8);
    assert_eq!(notes(&rig).len(), 2);
}
