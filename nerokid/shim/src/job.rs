//! Between the fork and the first instruction of user code.
//!
//! Runs in the job's process, which borrows the shim's memory while the shim
//! stands still. Allocates nothing, drops nothing, never returns. It writes the
//! record that the job exists, and executes user code only if it passes the
//! gate, see [`nero_journal::gate`].

use std::os::fd::OwnedFd;

use nero_journal::{Clocks, gate};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::thread::{Timespec, nanosleep};

use crate::clock;
use crate::crash::CrashAt;
use crate::journal::Segment;
use crate::plan::{self, LauncherState, Plan};
use crate::procfs;
use crate::slot::{JobStage, Slot};
use crate::sys;

/// The parts of the shim that the job's process uses.
#[derive(Debug)]
pub struct Outfit<'a> {
    /// The prepared launch.
    pub plan: &'a mut Plan,
    /// State that the launcher inherited.
    pub own: &'a LauncherState,
    /// Shared with the launcher.
    pub slot: &'static Slot,
    /// The claim.
    pub segment: &'a mut Segment,
    /// Standard output and error.
    pub logs: &'a [OwnedFd; 2],
    /// The time before the fork.
    pub forked_ns: u64,
    /// The point at which a test wants a death.
    pub crash: &'a CrashAt,
}

/// Becomes the job, or leaves.
pub fn become_job(outfit: &mut Outfit<'_>) {
    let Outfit {
        plan, own, slot, ..
    } = outfit;
    let ticks = clock::ticks_between(outfit.forked_ns, clock::boot_ns(), own.ticks_per_second);
    outfit.crash.here("job.forked");
    if let Err((stage, errno)) = dress(plan, own, outfit.logs) {
        slot.job_failed(stage, errno);
        sys::leave(127);
    }
    outfit.crash.here("job.dressed");
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let ticks = ticks.unwrap_or_else(|| procfs::stat(pid).map_or(0, |stat| stat.start_ticks));
    slot.set_start_ticks(ticks);
    plan::fill(&mut plan.started.job, pid, ticks);
    let written = outfit.segment.append(Clocks::now(), &plan.started);
    if written.is_err() {
        // Space was reserved for the record, so the disk itself is failing. The
        // gate stays closed, and the launcher records that no user code ran.
        sys::leave(127);
    }
    outfit.crash.here("job.written");
    slot.set_gate_ns(clock::now_ns());
    if gate::pass(&plan.gate, || outfit.segment.has_names(1)) {
        slot.set_executing();
        outfit.crash.here("job.leaves_gate");
        sys::unblock_signals();
        slot.job_failed(JobStage::NoExec, execute(plan));
    }
    sys::leave(127)
}

/// How long a program may be open for writing elsewhere before that counts as a failure.
const BUSY_MAX_NS: u64 = 2_000_000_000;
/// Pause before such a program is tried again.
const BUSY_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};

/// Becomes the program. Returns the error number if that fails. A program that was just written
/// is busy for a moment: a child that its writer made meanwhile has the descriptor for writing,
/// too, until its own `execve`.
fn execute(plan: &Plan) -> i32 {
    let until_ns = clock::now_ns() + BUSY_MAX_NS;
    loop {
        let errno = sys::exec(&plan.program, &plan.argv, &plan.env);
        if errno != libc::ETXTBSY || clock::now_ns() >= until_ns {
            return errno;
        }
        let _ = nanosleep(&BUSY_PAUSE);
    }
}

/// Own session, streams, limits, folder. Standard input is the launcher's,
/// which is `/dev/null`; every other descriptor closes itself at `execve`.
fn dress(plan: &Plan, own: &LauncherState, logs: &[OwnedFd; 2]) -> Result<(), (JobStage, i32)> {
    // A process just forked leads no group, so this cannot fail.
    let _ = rustix::process::setsid();
    let streams =
        rustix::stdio::dup2_stdout(&logs[0]).and_then(|()| rustix::stdio::dup2_stderr(&logs[1]));
    streams.map_err(|error| (JobStage::NoOutput, error.raw_os_error()))?;
    raise_oom_score(own);
    for (resource, limit) in &own.limits {
        // The hard limits were never changed, so every former value is allowed.
        let _ = rustix::process::setrlimit(*resource, *limit);
    }
    rustix::process::chdir(plan.work_dir.as_c_str())
        .map_err(|error| (JobStage::NoFolder, error.raw_os_error()))?;
    let _ = rustix::process::umask(own.umask);
    Ok(())
}

/// So that the kernel, short of memory, picks the job before us. Best effort.
fn raise_oom_score(own: &LauncherState) {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = openat(CWD, c"/proc/self/oom_score_adj", flags, Mode::empty()) {
        let _ = rustix::io::write(&file, own.oom_score_adj.as_bytes());
    }
}
