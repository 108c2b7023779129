//! A full disk ends nothing and loses no record; a folder that refuses is
//! reported with the reason. A small file system of our own needs root.

use std::fs;
use std::path::Path;
use std::process::Command;

use nero_journal::v1::changed::What;
use nero_journal::v1::job_not_started::Stage;

use crate::rig::{Rig, Start, kill, until};
use crate::run::{Cancel, Run};

/// A file system of a few hundred blocks, gone with the value.
struct Small(std::path::PathBuf);

impl Small {
    fn mount(folder: &Path) -> Option<Self> {
        let path = folder.join("small");
        fs::create_dir(&path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "none"])
            .arg(&path)
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Self(path))
    }

    /// Takes every free block; space reserved before stays reserved.
    fn fill(&self) {
        let full = fs::write(self.0.join("ballast"), vec![1; 1024 * 1024]);
        assert!(full.is_err());
    }

    fn free(&self) {
        fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

fn run_on(place: &Path, script: &str) -> Run {
    Run::new(place, &["/bin/sh", "-c", script])
}

#[test]
fn on_a_full_disk_a_run_still_ends_with_its_record() {
    let mut rig = Rig::new();
    let Some(small) = Small::mount(rig.folder.path()) else {
        return;
    };
    let run = run_on(
        &small.0,
        "trap 'echo lost; exit 5' TERM; echo ready > ready; while :; do sleep 0.02; done",
    );
    rig.launch(&run);
    run.written("ready");
    run.cancel(1, Cancel::within(10_000));
    small.fill();
    rig.ring(&run);
    rig.hear_of(&run, What::Ended);
    let claim = run.claim();
    let exited = claim.exited.unwrap();
    assert_eq!((exited.code, exited.disk_free_bytes), (5, Some(0)));
    assert!(claim.gone.is_some() && claim.stops.len() == 1);
}

#[test]
fn without_space_for_the_claim_there_is_no_run() {
    let mut rig = Rig::new();
    let Some(small) = Small::mount(rig.folder.path()) else {
        return;
    };
    let run = run_on(&small.0, "exit 0");
    small.fill();
    rig.launch(&run);
    assert_eq!(rig.hear_of(&run, What::NoClaim).errno, libc::ENOSPC);
    small.free();
    rig.launch(&run);
    rig.hear_of(&run, What::Ended);
    assert_eq!(run.claim().exited.unwrap().code, 0);
}

#[test]
fn a_takeover_on_a_full_disk_waits_for_space() {
    let mut rig = Rig::new();
    let Some(small) = Small::mount(rig.folder.path()) else {
        return;
    };
    let run = run_on(
        &small.0,
        "echo ready > ready; while [ ! -e ../../../go ]; do sleep 0.02; done; exit 9",
    );
    rig.launch(&run);
    run.written("ready");
    small.fill();
    kill(run.shim());
    rig.hear_of(&run, What::TakenOver);
    let job = run.job();
    fs::write(rig.path("go"), "").unwrap();
    until("the job's end", || (!crate::rig::lives(job)).then_some(()));
    assert!(
        run.launchers_segments()
            .iter()
            .all(|story| story.exited.is_none())
    );
    small.free();
    rig.hear_of(&run, What::Ended);
    let taken = run.launchers();
    assert_eq!(taken.exited.unwrap().code, 9);
    assert!(taken.taken.is_some() && taken.gone.is_some());
}

#[test]
fn a_launcher_whose_own_log_takes_nothing_goes_on() {
    let folder = tempfile::TempDir::new().unwrap();
    let Some(small) = Small::mount(folder.path()) else {
        return;
    };
    let log = folder.path().join("launcher.log");
    std::os::unix::fs::symlink(small.0.join("log"), log).unwrap();
    let mut rig = Rig::start(Start {
        folder: Some(folder),
        ..Start::default()
    });
    let run = rig.script("echo ready > ready; while [ ! -e go ]; do sleep 0.02; done; exit 9");
    rig.launch(&run);
    run.written("ready");
    // The last block of the launcher's log may still have room for a line.
    let own_log = fs::OpenOptions::new()
        .append(true)
        .open(small.0.join("log"));
    own_log.unwrap().set_len(64 * 1024).unwrap();
    small.fill();
    // The launcher would log the shim's death.
    kill(run.shim());
    rig.hear_of(&run, What::TakenOver);
    fs::write(run.work("go"), "").unwrap();
    rig.hear_of(&run, What::Ended);
    assert_eq!(run.launchers().exited.unwrap().code, 9);
    // And another one starts.
    rig.kill_launcher();
    rig.restart();
}

#[test]
fn a_log_that_cannot_be_made_is_an_output_failure() {
    let mut rig = Rig::new();
    let run = rig.run(&["/bin/true"]);
    fs::create_dir_all(run.folder().join("stderr.log")).unwrap();
    rig.launch(&run);
    rig.hear_of(&run, What::Ended);
    let failure = run.claim().not_started.unwrap();
    assert_eq!(
        (failure.stage(), failure.errno),
        (Stage::Output, libc::EISDIR)
    );
}

#[test]
fn a_claim_of_another_is_never_touched() {
    let mut rig = Rig::new();
    let run = rig.script("echo ran > ran");
    fs::create_dir(run.folder()).unwrap();
    fs::write(run.folder().join("claim"), "somebody's").unwrap();
    rig.launch(&run);
    assert_eq!(rig.news_of(&run), [What::Superseded]);
    assert_eq!(fs::read(run.folder().join("claim")).unwrap(), b"somebody's");
    assert_eq!(fs::read_dir(run.folder()).unwrap().count(), 1);
    assert!(!run.work("ran").exists());
}

#[test]
fn processes_out_of_reach_are_named() {
    // Needs root to make a program that takes itself out of another's reach.
    let setpriv = Path::new("/usr/bin/setpriv");
    if !rustix::process::geteuid().is_root() || !setpriv.exists() {
        return;
    }
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::Builder::new()
        .prefix("reach")
        .tempdir_in("/var/tmp")
        .unwrap();
    let program = folder.path().join("setpriv");
    crate::rig::copy(setpriv, &program);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut rig = Rig::as_user(65534, folder);
    let script = format!(
        "{} --reuid 0 --regid 0 --clear-groups sleep 1000 & echo $! > far; sleep 1000",
        program.display()
    );
    let run = rig.script(&script);
    let everybody = fs::Permissions::from_mode(0o777);
    for part in [".", "work", "control"] {
        fs::set_permissions(run.dir.join(part), everybody.clone()).unwrap();
    }
    rig.launch(&run);
    let far = run.number("far");
    until("it to be out of reach", || {
        let status = fs::read_to_string(format!("/proc/{far}/status")).ok()?;
        status.contains("Uid:\t0\t0\t0\t0").then_some(())
    });
    run.cancel(1, Cancel::within(50));
    fs::set_permissions(run.dir.join("control/cancel.1"), everybody).unwrap();
    rig.ring(&run);
    rig.hear_of(&run, What::Ended);
    kill(far);
    let claim = run.claim();
    assert_eq!(claim.exited.unwrap().signal, libc::SIGTERM);
    assert_eq!(claim.gone.unwrap().left_alive, [far]);
}
