//! The helper of a host: what it measures, and what it ends.

use std::process::{Command, Stdio};

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::HostSample;
use nero_wire::v1::{Monitor, RunSpec};

use crate::rig::{Process, Rig, until};

/// A process with the marks of the run and this job of the scheduler, in no tree of the
/// run's shim.
fn elsewhere(rig: &Rig, job: &str) -> Process {
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let work = rig.folder.path().join("work");
    command.env("NERO_RUN", "144.2").env("NERO_DIR", work);
    Process(command.env("SLURM_JOB_ID", job).spawn().unwrap())
}

fn helper(rig: &Rig) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nerokid"));
    command.arg("host").arg(rig.folder.path()).args(["1", "n1"]);
    command.env_clear().env("SLURM_JOB_ID", "7");
    Process(command.stdin(Stdio::piped()).spawn().unwrap())
}

fn sample(rig: &Rig) -> Option<HostSample> {
    frame::read(FrameKind::HostSample, &rig.inc().join("host.n1")).ok()
}

#[track_caller]
fn until_counted(rig: &Rig, processes: u32) {
    until("a sample of them", || match sample(rig) {
        Some(found) if found.processes == processes => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

#[test]
fn a_helper_ends_what_is_left_of_a_run_that_is_over_and_nothing_before() {
    let monitor = Monitor {
        interval_ms: 100,
        ..Monitor::default()
    };
    let mut rig = Rig::new(RunSpec {
        monitor: Some(monitor),
        ..RunSpec::default()
    });
    let mut one = elsewhere(&rig, "7");
    let mut other = elsewhere(&rig, "7");
    // The run submitted it with its whole environment.
    let mut next_job = elsewhere(&rig, "8");
    let mut first = helper(&rig);
    until_counted(&rig, 2);
    other.kill();
    until_counted(&rig, 1);
    // `neromum job` is dead, and the run goes on.
    drop(first.0.stdin.take());
    assert!(first.ended().success());
    assert!(one.0.try_wait().unwrap().is_none(), "it lives");

    let mut second = helper(&rig);
    until_counted(&rig, 1);
    rig.end();
    assert!(second.ended().success());
    assert!(!one.ended().success());
    // The process that started this one waits for it only now: it was a zombie, which is none.
    until_counted(&rig, 0);
    assert!(next_job.0.try_wait().unwrap().is_none(), "it lives");
}
