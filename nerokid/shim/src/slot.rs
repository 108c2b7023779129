//! Slots: a few numbers per run in memory that launcher, shim and job share,
//! so that the launcher knows how far a shim killed at any instant had come.
//!
//! The launcher owns the pages and gives slots out. The job's `execve` drops
//! the memory: no user code can write here.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};

/// Slots in one page.
pub const PER_PAGE: usize = 64;

/// The shared numbers of one run.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Slot {
    shim: AtomicU32,
    job: AtomicU32,
    errno: AtomicI32,
    pid: AtomicI32,
    start_ticks: AtomicU64,
    gate_ns: AtomicU64,
    oom_kills: AtomicU64,
}

/// Progress of a shim. Written by the shim alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ShimStage {
    /// Forked; nothing is on disk that counts.
    Forked = 0,
    /// The claim is made.
    Claimed = 1,
    /// The last record is written.
    Done = 2,
    /// Another holds the claim.
    Superseded = 3,
    /// The claim could not be made; `errno` has the reason.
    NoClaim = 4,
}

/// Progress of a job's start. Written by the job's process alone; the gate on
/// disk decides whether user code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum JobStage {
    /// Not forked, or waiting at its gate.
    Waiting = 0,
    /// About to run user code, or running it.
    Executing = 1,
    /// The job's output files could not be put in place.
    NoOutput = 2,
    /// The job's folder could not be entered.
    NoFolder = 3,
    /// `execve` failed.
    NoExec = 4,
}

impl Slot {
    /// Progress of the shim.
    pub fn shim(&self) -> ShimStage {
        match self.shim.load(SeqCst) {
            1 => ShimStage::Claimed,
            2 => ShimStage::Done,
            3 => ShimStage::Superseded,
            4 => ShimStage::NoClaim,
            _ => ShimStage::Forked,
        }
    }

    /// Stores the shim's progress.
    pub fn set_shim(&self, stage: ShimStage) {
        self.shim.store(stage as u32, SeqCst);
    }

    /// Progress of the job's start.
    pub fn job(&self) -> JobStage {
        match self.job.load(SeqCst) {
            1 => JobStage::Executing,
            2 => JobStage::NoOutput,
            3 => JobStage::NoFolder,
            4 => JobStage::NoExec,
            _ => JobStage::Waiting,
        }
    }

    /// The job passed its gate.
    pub fn set_executing(&self) {
        self.job.store(JobStage::Executing as u32, SeqCst);
    }

    /// The job could not be started.
    pub fn job_failed(&self, stage: JobStage, errno: i32) {
        self.errno.store(errno, SeqCst);
        self.job.store(stage as u32, SeqCst);
    }

    /// Error number of the claim or of the job's start.
    pub fn errno(&self) -> i32 {
        self.errno.load(SeqCst)
    }

    /// See [`Slot::errno`].
    pub fn set_errno(&self, errno: i32) {
        self.errno.store(errno, SeqCst);
    }

    /// The job's number, 0 before it is known.
    pub fn pid(&self) -> i32 {
        self.pid.load(SeqCst)
    }

    /// The number into which the kernel writes the job's pid when it makes the
    /// process.
    pub fn place_of_pid(&self) -> &AtomicI32 {
        &self.pid
    }

    /// The job's start time, 0 before it is known.
    pub fn start_ticks(&self) -> u64 {
        self.start_ticks.load(SeqCst)
    }

    /// See [`Slot::start_ticks`].
    pub fn set_start_ticks(&self, ticks: u64) {
        self.start_ticks.store(ticks, SeqCst);
    }

    /// Time at which the job reached its gate, 0 before.
    pub fn gate_ns(&self) -> u64 {
        self.gate_ns.load(SeqCst)
    }

    /// See [`Slot::gate_ns`].
    pub fn set_gate_ns(&self, now_ns: u64) {
        self.gate_ns.store(now_ns, SeqCst);
    }

    /// Count of the memory cgroup before the fork; `None`: unknown.
    pub fn oom_kills(&self) -> Option<u64> {
        self.oom_kills.load(SeqCst).checked_sub(1)
    }

    /// See [`Slot::oom_kills`].
    pub fn set_oom_kills(&self, count: Option<u64>) {
        self.oom_kills
            .store(count.map_or(0, |count| count + 1), SeqCst);
    }

    /// Makes it as it was when its page was new.
    pub(crate) fn clear(&self) {
        self.shim.store(0, SeqCst);
        self.job.store(0, SeqCst);
        self.errno.store(0, SeqCst);
        self.pid.store(0, SeqCst);
        self.start_ticks.store(0, SeqCst);
        self.gate_ns.store(0, SeqCst);
        self.oom_kills.store(0, SeqCst);
    }
}
