//! The shim: supervises one run from its claim to its last record.
//!
//! Forked from the launcher without `execve`; owns the claim's segment and is
//! the parent of the job and of its orphans. Each step leaves a state that the
//! launcher, or the next start, understands. It has no descriptors but its
//! segment, the logs and the locks of its cards, waits for three signals and a time, allocates nothing,
//! and blocks every other signal.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nero_journal::v1::{JobNotStarted, job_not_started};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::clock::{self, MS};
use crate::control;
use crate::core::{self, Core};
use crate::crash::CrashAt;
use crate::job::{self, Outfit};
use crate::journal::{Journal, KeeperRecord, Segment};
use crate::keeper::{Exit, Keeper};
use crate::plan::{self, LauncherState, Plan};
use crate::slot::{JobStage, ShimStage, Slot};
use crate::sys::{self, ChildrenState, WakeCause};
use crate::tree::{self, Members, Names, Roots, SignalReport};

/// Supervises one run, in the process just forked, and leaves.
///
/// `forked_ns` is the time before the fork; `highest` the launcher's highest
/// descriptor, where the kernel cannot close a range.
pub fn run(
    mut plan: Plan,
    own: &LauncherState,
    slot: &'static Slot,
    forked_ns: u64,
    highest: Option<i32>,
    crash: &CrashAt,
) -> ! {
    // The launcher's lock, socket and connections must not outlive it in us.
    let first = sys::move_down(&plan.cards);
    match highest {
        None => {
            sys::close_from(first);
        }
        Some(highest) => (first..=highest).for_each(sys::close),
    }
    let ticks = clock::ticks_between(forked_ns, clock::boot_ns(), own.ticks_per_second);
    sys::become_subreaper();
    crash.here("forked");
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let ticks = ticks.unwrap_or_else(|| start_ticks(pid));
    plan::fill(&mut plan.claimed.shim, pid, ticks);
    let segment = match claim(&plan, crash) {
        Ok(segment) => segment,
        Err(ClaimFailure::Superseded) => {
            slot.set_shim(ShimStage::Superseded);
            sys::leave(0)
        }
        Err(ClaimFailure::Disk(errno)) => {
            slot.set_errno(errno.raw_os_error());
            slot.set_shim(ShimStage::NoClaim);
            sys::leave(0)
        }
    };
    slot.set_shim(ShimStage::Claimed);
    crash.here("claimed");
    supervise(plan, own, slot, segment, crash)
}

fn start_ticks(pid: i32) -> u64 {
    crate::procfs::stat(pid).map_or(0, |stat| stat.start_ticks)
}

/// Reason why we have no claim.
enum ClaimFailure {
    /// Another has it.
    Superseded,
    /// It could not be written.
    Disk(Errno),
}

/// Makes the incarnation's folder and the claim in it, all or nothing.
fn claim(plan: &Plan, crash: &CrashAt) -> Result<Segment, ClaimFailure> {
    match mkdirat(CWD, plan.folder.as_c_str(), Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(ClaimFailure::Disk(error)),
    }
    // From here on every path is short and relative.
    rustix::process::chdir(plan.folder.as_c_str()).map_err(ClaimFailure::Disk)?;
    crash.here("folder");
    let segment = Segment::create(
        &plan.private,
        Plan::WRITER,
        plan.segment,
        &plan.subject,
        &plan.claimed,
    );
    crash.here("private");
    let linked = segment.and_then(|segment| {
        match linkat(
            CWD,
            plan.private.as_c_str(),
            CWD,
            c"claim",
            AtFlags::empty(),
        ) {
            Ok(()) => Ok(segment),
            // The file server may have made the link and its answer been lost.
            Err(_) if segment.has_names(2) => Ok(segment),
            Err(error) => Err(error),
        }
    });
    crash.here("linked");
    linked.map_err(|error| {
        // When this fails, an unused file stays in the folder. After a successful
        // link the private name is not removed: it is the gate.
        let _ = unlinkat(CWD, plan.private.as_c_str(), AtFlags::empty());
        match error {
            Errno::EXIST => ClaimFailure::Superseded,
            other => ClaimFailure::Disk(other),
        }
    })
}

/// From the claim to the last record. Leaves without dropping anything: freeing
/// memory would copy pages of the launcher.
fn supervise(
    mut plan: Plan,
    own: &LauncherState,
    slot: &'static Slot,
    mut segment: Segment,
    crash: &CrashAt,
) -> ! {
    let started = if control::cancel(CWD, 1).is_some() {
        Err(not_started(job_not_started::Stage::Cancelled, 0))
    } else {
        start(&mut plan, own, slot, &mut segment, crash)
    };
    let now_ns = clock::now_ns();
    let limit_ns = Some(plan.time_limit_ms)
        .filter(|limit| *limit > 0)
        .map(|limit| now_ns.saturating_add(limit.saturating_mul(MS)));
    let (leader, logs, failure) = match started {
        Ok((leader, logs)) => (leader, logs.map(Some), None),
        Err(failure) => (0, [None, None], Some(failure)),
    };
    let mut keeper = Keeper {
        core: Core::new(core::LaunchSettings {
            grace_ms: plan.grace_ms,
            strays: plan.strays,
            limit_at_ns: limit_ns,
            is_step: plan.is_step,
        }),
        journal: Journal::new(Some(segment)),
        folder: None,
        logs,
        work_dir: plan.work_dir,
        slot: Some(slot),
        gate_ns: slot.gate_ns(),
        next_cancel: 1,
        next_pause: 1,
        ends_start: false,
        strays_killed: 0,
        strays: Names::default(),
        strays_left: 0,
        failed: plan.failed,
        closing: plan.closing,
        child_stack: own.child_stack,
        oom: own.oom,
        line: plan.line,
        gone: plan.gone,
    };
    if let Some(failure) = failure {
        keeper.closing = None;
        keeper.core = Core::after_exit(keeper.core.plan(), now_ns);
        keeper.journal.append(KeeperRecord::JobNotStarted(failure));
        crash.here("not_started");
        keeper.empty(now_ns);
    }
    keep(&mut keeper, leader, own.in_allocation, crash);
    slot.set_shim(ShimStage::Done);
    sys::leave(0)
}

/// Handles events until the last record is written.
fn keep(keeper: &mut Keeper, leader: i32, in_allocation: bool, crash: &CrashAt) {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let helpers = Cell::new([None; 2]);
    let mut tree = |signal| -> (SignalReport, Names) {
        let except = helpers.get();
        Members::list(Roots::ChildrenOf { own, except }).signal(signal)
    };
    // A run that was paused before this start stays so.
    keeper.look_for_pauses(clock::now_ns(), &mut tree);
    while !keeper.is_done() {
        let now_ns = clock::now_ns();
        let wake = keeper.wake_at_ns(now_ns);
        let timeout = wake.map(|at| Duration::from_nanos(at.saturating_sub(now_ns)));
        let woken = sys::wait_for_signal(timeout);
        // One signal may stand for several ended children, and hide others that
        // came at the same time.
        collect(keeper, leader, crash);
        let now_ns = clock::now_ns();
        helpers.set(keeper.helpers());
        match woken {
            WakeCause::Doorbell => keeper.look_for_requests(now_ns, &mut tree),
            WakeCause::EndStart if in_allocation => keeper.end_start(now_ns, &mut tree),
            WakeCause::EndStart | WakeCause::Child | WakeCause::Time => {}
        }
        helpers.set(keeper.helpers());
        keeper.tick(now_ns, &mut tree);
    }
    crash.here("gone_written");
}

/// Records and reaps every child that has ended.
fn collect(keeper: &mut Keeper, leader: i32, crash: &CrashAt) {
    loop {
        match sys::children_state() {
            ChildrenState::Ended(ended) if ended.pid == leader => {
                crash.here("leader_seen");
                // The record is written before the child is reaped: if we are
                // killed in between, the launcher gets the zombie, and with it
                // the code.
                keeper.leader_ended(Exit::Seen(ended), clock::now_ns());
                crash.here("exit_written");
                sys::reap(ended.pid);
                crash.here("reaped");
            }
            ChildrenState::Ended(ended) if keeper.helpers().contains(&Some(ended.pid)) => {
                sys::reap(ended.pid);
                keeper.helper_ended(&ended, clock::now_ns());
                crash.here("container_closed");
            }
            ChildrenState::Ended(ended) => {
                sys::reap(ended.pid);
                keeper.other_ended(ended.signal);
            }
            ChildrenState::Alive => {
                if keeper.core.leader_ended() && tree::has_only_pauses() {
                    keeper.empty(clock::now_ns());
                }
                return;
            }
            // A parent of orphans that has no children has no descendants.
            ChildrenState::Childless => return keeper.empty(clock::now_ns()),
        }
    }
}

fn not_started(stage: job_not_started::Stage, errno: i32) -> JobNotStarted {
    JobNotStarted {
        stage: stage as i32,
        errno,
        program: Vec::new(),
    }
}

/// Starts the job. When this returns, it runs user code or has left.
fn start(
    plan: &mut Plan,
    own: &LauncherState,
    slot: &'static Slot,
    segment: &mut Segment,
    crash: &CrashAt,
) -> Result<(i32, [OwnedFd; 2]), JobNotStarted> {
    let logs = [log(c"stdout.log"), log(c"stderr.log")];
    let [Ok(stdout), Ok(stderr)] = logs else {
        let first = logs.into_iter().find_map(Result::err).unwrap_or(Errno::IO);
        return Err(not_started(
            job_not_started::Stage::Output,
            first.raw_os_error(),
        ));
    };
    let logs = [stdout, stderr];
    crash.here("logs");
    let mut outfit = Outfit {
        plan,
        own,
        slot,
        segment,
        logs: &logs,
        forked_ns: clock::boot_ns(),
        crash,
    };
    let forked = sys::fork_borrowing(own.child_stack, slot.place_of_pid(), &mut || {
        job::become_job(&mut outfit);
    });
    let pid = forked.map_err(|error| {
        let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
        not_started(job_not_started::Stage::Fork, errno)
    })?;
    if slot.job() == JobStage::Waiting {
        // The job's process died before its gate, or found the disk failing. The
        // launcher finds that no user code ran, and records it.
        sys::leave(1);
    }
    crash.here("started");
    Ok((pid, logs))
}

fn log(name: &std::ffi::CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    openat(CWD, name, flags, Mode::RUSR | Mode::WUSR)
}
