//! Keeps one started run: gives the core what happened, carries out what it
//! asks for, writes the records.
//!
//! Owned by a shim, or by the launcher for a run that it took over. A keeper never
//! waits; its owner does.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use nero_journal::v1::{JobExited, JobNotStarted, SignalSent, TreeGone, job_not_started};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::CWD;

use crate::clock::MS;
use crate::control;
use crate::core::{Core, Effect, Effects, Input};
use crate::journal::{Journal, Record};
use crate::oom::OomEvents;
use crate::slot::{JobStage, Slot};
use crate::sys::Ended;
use crate::tree::{REFUSED_MAX, Swept};

/// How long to wait before a record is tried again that the disk refused.
const RETRY_NS: u64 = 1_000 * MS;

/// How the main process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// As its parent learns it.
    Seen(Ended),
    /// Nobody of ours was its parent.
    Unknown,
}

/// Everything about one run that its core must not hold.
#[derive(Debug)]
pub struct Keeper {
    /// What to do next.
    pub core: Core,
    /// Where it is written.
    pub journal: Journal,
    /// The incarnation's folder; none: the current one.
    pub folder: Option<OwnedFd>,
    /// Standard output and error.
    pub logs: [Option<OwnedFd>; 2],
    /// Where the job works.
    pub work_dir: CString,
    /// What shim and job shared; none for a run of another launcher.
    pub slot: Option<&'static Slot>,
    /// When user code could begin, on the clock of deadlines; 0: unknown.
    pub gate_ns: u64,
    /// Number of the next wish to look for.
    pub next_wish: u32,
    /// Strays that ended by a signal of ours.
    pub strays_killed: u32,
    /// Tells at the end whether memory ran out.
    pub oom: OomEvents,
    /// Made beforehand, so that writing it allocates nothing.
    pub gone: TreeGone,
}

/// Room for the numbers of processes out of reach.
pub fn prepared_gone() -> TreeGone {
    TreeGone {
        left_alive: Vec::with_capacity(REFUSED_MAX),
        ..TreeGone::default()
    }
}

impl Keeper {
    /// True when everything is written and there is nothing left to do.
    pub fn is_done(&self) -> bool {
        self.core.is_gone() && !self.journal.is_waiting()
    }

    /// When to call [`Keeper::tick`] if nothing happens before.
    pub fn wake_at_ns(&self, now_ns: u64) -> Option<u64> {
        let retry = self.journal.is_waiting().then_some(now_ns + RETRY_NS);
        match (self.core.wake_at_ns(), retry) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Time passed. `tree` sends a signal to the whole tree.
    pub fn tick(&mut self, now_ns: u64, tree: &mut dyn FnMut(i32) -> Swept) {
        self.journal.flush();
        self.handle(Input::Tick, now_ns, tree);
    }

    /// Looks for wishes that are new.
    pub fn look_for_wishes(&mut self, now_ns: u64, tree: &mut dyn FnMut(i32) -> Swept) {
        while let Some(wish) = control::wish(self.folder(), self.next_wish) {
            self.next_wish += 1;
            self.handle(Input::Wish(wish), now_ns, tree);
        }
    }

    /// The main process ended; it has not been reaped yet.
    pub fn leader_ended(&mut self, exit: Exit, now_ns: u64) {
        let effects = self.core.step(Input::LeaderEnded, now_ns);
        if effects.contains(&Some(Effect::JobExited)) {
            let record = self.exit_record(exit, now_ns);
            self.journal.append(record);
        }
    }

    /// Another process of the tree ended.
    pub fn other_ended(&mut self, signal: i32) {
        if self.core.kills_strays(signal == libc::SIGKILL) {
            self.strays_killed += 1;
        }
    }

    /// Nothing of the tree is alive.
    pub fn empty(&mut self, now_ns: u64) {
        self.handle(Input::Empty, now_ns, &mut |_| Swept::default());
    }

    fn handle(&mut self, input: Input, now_ns: u64, tree: &mut dyn FnMut(i32) -> Swept) {
        let effects = self.core.step(input, now_ns);
        self.carry_out(effects, now_ns, tree);
    }

    fn carry_out(&mut self, effects: Effects, now_ns: u64, tree: &mut dyn FnMut(i32) -> Swept) {
        for effect in effects.into_iter().flatten() {
            match effect {
                Effect::StopAsked(asked) => self.journal.append(Record::StopAsked(asked)),
                Effect::Signal(signal) => {
                    let swept = tree(signal);
                    self.sent(signal, swept);
                }
                Effect::Kill { first } => {
                    let swept = tree(libc::SIGKILL);
                    if first {
                        self.sent(libc::SIGKILL, swept);
                    }
                    self.handle(Input::Swept(swept), now_ns, tree);
                }
                // Only an ended leader leads here, see `leader_ended`.
                Effect::JobExited => {}
                Effect::TreeGone(left) => self.tree_gone(left),
            }
        }
    }

    fn sent(&mut self, signal: i32, swept: Swept) {
        self.journal.append(Record::SignalSent(SignalSent {
            signal,
            processes: swept.sent,
        }));
    }

    fn exit_record(&self, exit: Exit, now_ns: u64) -> Record {
        if let Some(failure) = self.slot.and_then(failure) {
            return Record::JobNotStarted(failure);
        }
        let ended = match exit {
            Exit::Seen(ended) => ended,
            Exit::Unknown => Ended::default(),
        };
        let free = rustix::fs::statvfs(self.work_dir.as_c_str());
        Record::JobExited(JobExited {
            code: ended.code,
            signal: ended.signal,
            core_dumped: ended.core_dumped,
            code_unknown: exit == Exit::Unknown,
            user_cpu_us: ended.user_us,
            system_cpu_us: ended.system_us,
            peak_rss_bytes: ended.peak_rss_bytes,
            disk_free_bytes: free.ok().map(|found| found.f_bavail * found.f_frsize),
            run_ms: match self.gate_ns {
                0 => 0,
                gate => now_ns.saturating_sub(gate) / MS,
            },
            oom_kills: self.oom_kills(&ended),
        })
    }

    /// By how much the count of our memory cgroup rose since the fork. Asked
    /// only where memory may be the reason: a kill, or a shell's word for one
    /// of its own children. The kernel counts before it kills.
    fn oom_kills(&self, ended: &Ended) -> Option<u64> {
        if ended.signal != libc::SIGKILL && ended.code != 128 + libc::SIGKILL {
            return None;
        }
        let before = self.slot?.oom_kills()?;
        Some(self.oom.count()?.saturating_sub(before))
    }

    fn tree_gone(&mut self, left: Swept) {
        let mut gone = std::mem::take(&mut self.gone);
        let size = |log: &Option<OwnedFd>| {
            let found = log.as_ref().and_then(|log| rustix::fs::fstat(log).ok());
            found.map_or(0, |found| found.st_size as u64)
        };
        gone.strays_killed = self.strays_killed;
        gone.stdout_bytes = size(&self.logs[0]);
        gone.stderr_bytes = size(&self.logs[1]);
        let named = left.out_of_reach.iter().filter(|pid| **pid != 0);
        gone.left_alive.extend(named);
        self.journal.append(Record::TreeGone(gone));
    }

    fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_ref().map_or(CWD, |folder| folder.as_fd())
    }
}

/// Why no user code ran, if the job could not be started.
pub fn failure(slot: &Slot) -> Option<JobNotStarted> {
    let stage = match slot.job() {
        JobStage::Waiting | JobStage::Executing => return None,
        JobStage::NoOutput => job_not_started::Stage::Output,
        JobStage::NoFolder => job_not_started::Stage::Folder,
        JobStage::NoExec => job_not_started::Stage::Exec,
    };
    Some(JobNotStarted {
        stage: stage as i32,
        errno: slot.errno(),
    })
}
