//! A launch, prepared before the fork: every string, pointer array and message
//! that shim and job will need, so that they allocate nothing.
//!
//! Built by the launcher from a `Launch`; used up by one shim.

use std::ffi::CString;
use std::os::fd::RawFd;

use nero_journal::v1::{Claimed, JobNotStarted, JobStarted, Launch, Process, TreeGone};
use nero_journal::{SegmentId, Writer};
use nero_model::ProcessId;
use rustix::fs::Mode;
use rustix::process::Rlimit;

use crate::closing::ClosingCommands;
use crate::core::Strays;
use crate::journal::Subject;
use crate::keeper;
use crate::oom::OomEvents;
use crate::sys::{self, ChildStack, Strings};

/// Limit in bytes of a program's name in records.
const PROGRAM_BYTES_MAX: usize = 200;

/// State of the launcher itself, partly inherited.
#[derive(Clone, Debug)]
pub struct LauncherState {
    /// Identity of the launcher.
    pub process: ProcessId,
    /// Inherited umask, for jobs.
    pub umask: Mode,
    /// Former limits that the launcher changed for itself: core files, open
    /// files.
    pub limits: [(rustix::process::Resource, Rlimit); 2],
    /// Value of `oom_score_adj` for jobs.
    pub oom_score_adj: String,
    /// Stack of the job's process before it executes its program.
    pub child_stack: ChildStack,
    /// Count of processes that the kernel ended for memory in its cgroup.
    pub oom: OomEvents,
    /// Whether it serves an allocation of a scheduler: only there a signal ends
    /// starts.
    pub in_allocation: bool,
    /// `sysconf(_SC_CLK_TCK)`.
    pub ticks_per_second: i64,
}

/// One launch.
#[derive(Debug)]
pub struct Plan {
    /// Subject of the segment.
    pub subject: Subject,
    /// The id that the claim will have.
    pub segment: SegmentId,
    /// The incarnation's folder.
    pub folder: CString,
    /// Private name of the claim, in that folder.
    pub private: CString,
    /// Absolute path of the same: the gate.
    pub gate: CString,
    /// The job's program.
    pub program: CString,
    /// Arguments of the program.
    pub argv: Strings,
    /// Environment of the program.
    pub env: Strings,
    /// Working folder of the program.
    pub work_dir: CString,
    /// 0: none.
    pub time_limit_ms: u64,
    /// Time from the polite signal to the final one.
    pub grace_ms: u32,
    /// Treatment of processes that outlive the main process.
    pub strays: Strays,
    /// See [`crate::core::LaunchSettings`].
    pub is_step: bool,
    /// Descriptors with the locks of its cards, in ascending order.
    pub cards: Vec<RawFd>,
    /// First record, without the shim's number and start time.
    pub claimed: Claimed,
    /// Second record, without the job's number and start time.
    pub started: JobStarted,
    /// The second record when the start fails; the program's name is filled in.
    pub failed: JobNotStarted,
    /// Removal of its container; `None`: it has none.
    pub closing: Option<ClosingCommands>,
    /// Room for a line of the job's standard error.
    pub line: Vec<u8>,
    /// Last record.
    pub gone: TreeGone,
}

impl Plan {
    /// Prepares a launch; `None` when its paths or strings cannot be used.
    pub fn new(launch: &Launch, own: &LauncherState) -> Option<Self> {
        let token = launch.token.as_slice().try_into().ok()?;
        let program = launch.argv.first()?;
        let absolute = launch.run_dir.starts_with('/') && launch.work_dir.starts_with('/');
        if !absolute || program.is_empty() || launch.incarnation == 0 {
            return None;
        }
        let argv0 = if launch.argv0.is_empty() {
            program
        } else {
            &launch.argv0
        };
        let rest = &launch.argv[1..];
        let segment = SegmentId::random();
        let launcher = Process::from(own.process);
        Some(Self {
            subject: Subject {
                token,
                incarnation: launch.incarnation,
                boot_id: own.process.boot_id,
            },
            segment,
            gate: gate(&launch.run_dir, launch.incarnation, segment)?,
            folder: folder(&launch.run_dir, launch.incarnation)?,
            private: private_name(segment),
            program: sys::path(program.clone())?,
            argv: Strings::new([argv0].into_iter().chain(rest).map(Vec::as_slice))?,
            env: Strings::new(launch.env.iter().map(Vec::as_slice))?,
            work_dir: sys::path(launch.work_dir.clone())?,
            time_limit_ms: launch.time_limit_ms,
            grace_ms: launch.grace_ms,
            strays: Strays::new(launch.wait_for_strays, launch.leave_strays),
            is_step: launch.is_step,
            cards: Vec::new(),
            closing: if launch.is_contained {
                Some(ClosingCommands::new(&launch.run_dir, launch.incarnation)?)
            } else {
                None
            },
            claimed: Claimed {
                shim: Some(launcher.clone()),
                launcher: Some(launcher.clone()),
                time_limit_ms: launch.time_limit_ms,
            },
            started: JobStarted {
                job: Some(launcher),
            },
            failed: JobNotStarted {
                program: argv0[..argv0.len().min(PROGRAM_BYTES_MAX)].to_vec(),
                ..JobNotStarted::default()
            },
            line: Vec::with_capacity(keeper::LINE_BYTES_MAX),
            gone: keeper::prepared_gone(),
        })
    }

    /// Role of the process that writes this segment.
    pub const WRITER: Writer = Writer::Shim;
}

/// The folder of one incarnation.
pub fn folder(run_dir: &str, incarnation: u32) -> Option<CString> {
    sys::path(format!("{}/{incarnation}", run_dir.trim_end_matches('/')))
}

/// The name under which a claim is prepared.
pub fn private_name(segment: SegmentId) -> CString {
    sys::path(nero_journal::gate::name(segment)).expect("digits hold no zero byte")
}

fn gate(run_dir: &str, incarnation: u32, segment: SegmentId) -> Option<CString> {
    let name = nero_journal::gate::name(segment);
    let run_dir = run_dir.trim_end_matches('/');
    sys::path(format!("{run_dir}/{incarnation}/{name}"))
}

/// Puts another process into a prepared message.
pub fn fill(process: &mut Option<Process>, pid: i32, start_ticks: u64) {
    if let Some(process) = process {
        process.pid = pid;
        process.start_ticks = start_ticks;
    }
}
