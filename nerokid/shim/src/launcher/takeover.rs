//! Runs whose shim is dead: what we can still do for them and record.
//!
//! The job of a shim that was our child is our child now, since we are the
//! next parent of orphans. We go on where the shim stopped, in a segment of our
//! own, with the same core and keeper.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nero_journal::SegmentId;
use nero_journal::gate::{self, Gate};
use nero_journal::v1::changed::What;
use nero_journal::v1::{JobNotStarted, Process, StopAsked, TakenOver, job_not_started};
use nero_model::ProcessId;
use nero_model::paths::run as names;
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{Child, Launcher};
use crate::clock::{self, MS};
use crate::closing::ClosingCommands;
use crate::core::{self, Core};
use crate::journal::{Journal, KeeperRecord};
use crate::keeper::{self, Exit, Keeper};
use crate::launcher::evidence::Evidence;
use crate::launcher::ours::tree_of;
use crate::launcher::run::{LaunchedRun, RunKey, SegmentToMake, SupervisedRun, Supervision};
use crate::procfs;
use crate::slot::{JobStage, ShimStage, Slot};
use crate::sys::{self, ChildrenState};
use crate::tree::{Member, Names};

/// Everything known about a run at its takeover.
#[derive(Debug)]
pub(super) struct Legacy {
    /// Evidence on disk.
    pub evidence: Evidence,
    /// The job's main process; number 0 when there is none.
    pub leader: Member,
    /// Whether the main process is our child.
    pub is_parent: bool,
    /// Memory that shim and job shared with us.
    pub slot: Option<&'static Slot>,
}

impl Launcher {
    /// The shim, our child, was killed.
    pub(super) fn take_over_from_shim(&mut self, key: RunKey) {
        let Some(run) = self.runs.get(&key) else {
            return;
        };
        let Supervision::Shim { slot, segment, .. } = run.care else {
            return;
        };
        let folder = run.folder();
        let evidence = match Evidence::read(Path::new(&folder)) {
            Ok(evidence) => evidence,
            Err(error) => {
                self.log(format_args!("cannot read {folder}: {error}"));
                // The shim's state in shared memory is the second best witness.
                Evidence {
                    claim: (slot.shim() == ShimStage::Claimed).then_some(segment),
                    ..Evidence::default()
                }
            }
        };
        if evidence.claim != Some(segment) {
            return self.never_claimed(key, segment, evidence.claim.is_some(), slot);
        }
        self.log(format_args!("takes over {folder} from a dead shim"));
        let pid = slot.pid();
        let never_ran = slot.job() == JobStage::Waiting && self.close_gate(&folder, segment, pid);
        if evidence.life.gone || never_ran {
            if self.has_left(pid, never_ran) {
                self.slots.give(slot);
            }
            return self.close_on_disk(key, evidence, never_ran);
        }
        // We have not reaped it, so a process with this number is the job
        // itself.
        let start_ticks = match slot.start_ticks() {
            0 => procfs::stat(pid).map_or(0, |stat| stat.start_ticks),
            ticks => ticks,
        };
        let reaped = sys::look_for(pid) == ChildrenState::Childless;
        let written = evidence.life.exited || evidence.life.not_started;
        if reaped && !written && evidence.is_damaged {
            // The shim reaped the job, and may have recorded its exit.
            self.slots.give(slot);
            self.unseen(key, format_args!("a segment in {folder} is damaged"));
            return self.reschedule(key);
        }
        if !reaped && !written {
            self.children.insert(pid, Child::Leader(key));
        }
        self.keep(
            key,
            Legacy {
                evidence,
                leader: Member { pid, start_ticks },
                is_parent: true,
                slot: Some(slot),
            },
        );
        if reaped && !written {
            // The shim reaped the job while the disk refused the record.
            self.with_keeper(key, |keeper, now_ns, _| {
                keeper.leader_ended(Exit::Unknown, now_ns);
            });
            self.check_empty(key);
            self.reschedule(key);
        }
    }

    /// Closes the gate of a start whose shim is dead; false when the job passed.
    fn close_gate(&self, folder: &str, claim: SegmentId, pid: i32) -> bool {
        match gate::close(Path::new(folder), claim) {
            Ok(gate) => gate == Gate::Closed,
            Err(error) => {
                self.log(format_args!("cannot close the gate in {folder}: {error}"));
                // The kernel stores the number before the process runs.
                pid == 0
            }
        }
    }

    fn never_claimed(&mut self, key: RunKey, segment: SegmentId, other: bool, slot: &'static Slot) {
        if let Some(run) = self.runs.get(&key) {
            let private = crate::plan::private_name(segment);
            let private = std::ffi::OsStr::from_bytes(private.to_bytes());
            // The shim died before it removed its private name. When this fails,
            // an unused file stays in the folder.
            let _ = std::fs::remove_file(Path::new(&run.folder()).join(private));
        }
        self.slots.give(slot);
        let what = if other {
            What::Superseded
        } else {
            What::NoClaim
        };
        self.run_ended(key, what, 0);
    }

    /// Whether a job's process has ended, so that its slot can be reused. A
    /// process that waits at a closed gate ends by itself; the signal ends a
    /// stopped one.
    fn has_left(&mut self, pid: i32, never_ran: bool) -> bool {
        if !never_ran || pid == 0 {
            return true;
        }
        // Either it is our child, not reaped, or `look_for` finds no such child.
        if sys::look_for(pid) == ChildrenState::Alive {
            let _ = sys::kill(pid, libc::SIGKILL);
        }
        match sys::look_for(pid) {
            ChildrenState::Ended(_) => {
                sys::reap(pid);
                true
            }
            ChildrenState::Childless => true,
            // It is reaped when it ends; its slot is never used again.
            ChildrenState::Alive => false,
        }
    }

    /// Writes the last records of a run whose processes have all ended.
    pub(super) fn close_on_disk(&mut self, key: RunKey, evidence: Evidence, never_ran: bool) {
        if evidence.life.gone {
            return self.run_ended(key, What::Ended, 0);
        }
        let written = evidence.life.not_started || evidence.life.exited;
        let legacy = Legacy {
            evidence,
            leader: Member::default(),
            is_parent: false,
            slot: None,
        };
        let Some(mut ours) = self.ours(key, legacy) else {
            return;
        };
        let now_ns = clock::now_ns();
        if never_ran && !written {
            // No `TreeGone`: the run goes on with its next incarnation.
            ours.keeper
                .journal
                .append(KeeperRecord::JobNotStarted(JobNotStarted {
                    stage: job_not_started::Stage::Gate as i32,
                    errno: 0,
                    program: Vec::new(),
                }));
            ours.keeper.core = Core::over();
        } else {
            ours.keeper.leader_ended(Exit::Unknown, now_ns);
            ours.keeper.empty(now_ns);
        }
        self.settle(key, ours);
    }

    /// Looks after a run from here on.
    pub(super) fn keep(&mut self, key: RunKey, legacy: Legacy) {
        let Some(mut ours) = self.ours(key, legacy) else {
            return;
        };
        self.tell_of(key, What::TakenOver, 0);
        if let Some(run) = self.runs.get_mut(&key) {
            run.lock_again();
        }
        if let Some(run) = self.runs.get(&key) {
            // While the chains of parents are still complete.
            ours.known = tree_of(run, &ours, &self.not_orphans());
        }
        self.settle(key, ours);
        self.look_for_requests(key);
        self.tick(key);
        self.reschedule(key);
    }

    fn ours(&self, key: RunKey, legacy: Legacy) -> Option<Box<SupervisedRun>> {
        let run = self.runs.get(&key)?;
        let now_ns = clock::now_ns();
        let evidence = &legacy.evidence;
        let started_ns = evidence.life.started.map_or(0, |started| started.mono_ns);
        let gate_ns = match legacy.slot.map_or(0, Slot::gate_ns) {
            0 if started_ns == 0 => 0,
            // Converts from the clock of records to the clock of deadlines.
            0 => now_ns.saturating_sub(clock::boot_ns().saturating_sub(started_ns)),
            gate_ns => gate_ns,
        };
        let job = ProcessId {
            pid: legacy.leader.pid,
            start_ticks: legacy.leader.start_ticks,
            ..self.own.process
        };
        let id = SegmentId::random();
        let folder = run.folder();
        let segment = SegmentToMake {
            path: sys::path(format!("{folder}/launcher-{id}.seg"))?,
            id,
            subject: run.subject,
            taken: TakenOver {
                launcher: Some(Process::from(self.own.process)),
                job: (job.pid > 0).then(|| Process::from(job)),
                is_parent: legacy.is_parent,
            },
        };
        let open = |name: &str, flags: OFlags| {
            openat(
                CWD,
                format!("{folder}/{name}"),
                flags | OFlags::NONBLOCK | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .ok()
        };
        Some(Box::new(SupervisedRun {
            keeper: Keeper {
                core: core_at(run, evidence, gate_ns, now_ns),
                journal: Journal::new(segment.make()),
                folder: open("", OFlags::RDONLY | OFlags::DIRECTORY),
                logs: ["stdout.log", "stderr.log"].map(|name| open(name, OFlags::RDONLY)),
                work_dir: run.work_dir.clone(),
                slot: legacy.slot,
                gate_ns,
                next_cancel: evidence.cancels + 1,
                next_pause: 1,
                ends_start: false,
                strays_killed: 0,
                strays: Names::default(),
                strays_left: 0,
                failed: JobNotStarted::default(),
                closing: closing(run, evidence.life.exited || evidence.life.not_started),
                child_stack: self.own.child_stack,
                line: Vec::new(),
                oom: self.own.oom,
                gone: keeper::prepared_gone(),
            },
            leader: legacy.leader,
            is_parent: legacy.is_parent,
            known: Vec::new(),
            handle: None,
            segment,
            slot: legacy.slot,
        }))
    }
}

/// The shim's core as its records leave it, `gate_ns` being when the job was started.
fn core_at(run: &LaunchedRun, evidence: &Evidence, gate_ns: u64, now_ns: u64) -> Core {
    let limit = [run.time_limit_ms, evidence.life.time_limit_ms];
    let limit = limit.into_iter().find(|limit| *limit > 0);
    let plan = core::LaunchSettings {
        grace_ms: run.grace_ms,
        strays: run.strays,
        limit_at_ns: limit.map(|limit| gate_ns.saturating_add(limit.saturating_mul(MS))),
        is_step: run.is_step,
    };
    let mut core = if evidence.life.exited || evidence.life.not_started {
        Core::after_exit(plan, now_ns)
    } else {
        Core::new(plan)
    };
    if let Some((asked_ns, asked)) = evidence.stop {
        core.stop_under_way(now_ns + left_of_grace(asked_ns, asked));
    }
    let paused_ns = evidence.paused_ns(clock::boot_ns());
    let pause = evidence.pause().map(|pause| pause.request);
    core.paused_before(paused_ns, pause, now_ns);
    core
}

/// Removal of a run's container, where it has one.
fn closing(run: &LaunchedRun, has_ended: bool) -> Option<ClosingCommands> {
    let incarnation = run.subject.incarnation;
    if !names::container(Path::new(&run.run_dir), incarnation).exists() {
        return None;
    }
    let closing = ClosingCommands::new(&run.run_dir, incarnation)?;
    Some(if has_ended { closing.over() } else { closing })
}

/// The rest of the pause between the polite signal and the final one.
fn left_of_grace(asked_ns: u64, asked: StopAsked) -> u64 {
    if asked.signal == libc::SIGKILL {
        return 0;
    }
    let passed_ns = clock::boot_ns().saturating_sub(asked_ns);
    (u64::from(asked.grace_ms) * MS).saturating_sub(passed_ns)
}
