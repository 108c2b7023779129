//! Between the fork and the first instruction of user code.
//!
//! Runs in the job's process, forked from the shim. Allocates nothing, never
//! returns, and executes user code only after the gate was opened and the
//! launcher has not taken that leave back.

use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::crash::CrashAt;
use crate::plan::{Own, Plan};
use crate::slot::{JobStage, Slot};
use crate::sys;

/// What the job's process gets from the shim.
#[derive(Debug)]
pub struct Outfit {
    /// It waits here for one byte.
    pub gate: OwnedFd,
    /// Closed first, or it would hold its own gate open.
    pub opener: OwnedFd,
    /// Its standard output and error.
    pub logs: [OwnedFd; 2],
}

/// Becomes the job, or leaves.
pub fn become_job(plan: &Plan, own: &Own, slot: &Slot, outfit: Outfit, crash: &CrashAt) -> ! {
    drop(outfit.opener);
    slot.set_pid(rustix::process::getpid().as_raw_nonzero().get());
    if let Err((stage, errno)) = dress(plan, own, &outfit.logs) {
        slot.job_failed(stage, errno);
        sys::leave(127);
    }
    crash.here("job.dressed");
    let mut byte = [0];
    // Closed without a byte: the shim is dead, and nobody wrote down that we are.
    if !matches!(
        rustix::io::retry_on_intr(|| rustix::io::read(&outfit.gate, &mut byte)),
        Ok(1)
    ) {
        sys::leave(127);
    }
    crash.here("job.gate");
    if slot.may_execute() {
        sys::unblock_signals();
        let errno = sys::exec(&plan.program, &plan.argv, &plan.env);
        slot.job_failed(JobStage::NoExec, errno);
    }
    sys::leave(127)
}

/// Own session, streams, limits, folder. Standard input is the launcher's,
/// which is `/dev/null`; every other descriptor closes itself at `execve`.
fn dress(plan: &Plan, own: &Own, logs: &[OwnedFd; 2]) -> Result<(), (JobStage, i32)> {
    // A process just forked leads no group, so this cannot fail.
    let _ = rustix::process::setsid();
    let streams =
        rustix::stdio::dup2_stdout(&logs[0]).and_then(|()| rustix::stdio::dup2_stderr(&logs[1]));
    streams.map_err(|error| (JobStage::NoOutput, error.raw_os_error()))?;
    raise_oom_score(own);
    for (resource, limit) in &own.limits {
        // The hard limits were never changed: what was allowed before still is.
        let _ = rustix::process::setrlimit(*resource, limit.clone());
    }
    rustix::process::chdir(plan.work_dir.as_c_str())
        .map_err(|error| (JobStage::NoFolder, error.raw_os_error()))?;
    let _ = rustix::process::umask(own.umask);
    Ok(())
}

/// So that the kernel, short of memory, picks the job before us. Best effort.
fn raise_oom_score(own: &Own) {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = openat(CWD, c"/proc/self/oom_score_adj", flags, Mode::empty()) {
        let _ = rustix::io::write(&file, own.oom_score_adj.as_bytes());
    }
}
