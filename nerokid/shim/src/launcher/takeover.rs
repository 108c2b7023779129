//! Runs whose shim is dead: what can still be done and said about them.
//!
//! The job of a shim that was our child is our child now, since we are the
//! next parent of orphans. We go on where the shim stopped, in a segment of our
//! own, with the same core and keeper.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nero_journal::SegmentId;
use nero_journal::v1::changed::What;
use nero_journal::v1::{JobNotStarted, Process, StopAsked, TakenOver, job_not_started};
use nero_model::ProcessId;
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{Child, Launcher};
use crate::clock::{self, MS};
use crate::core::{self, Core};
use crate::journal::{Journal, Record};
use crate::keeper::{self, Exit, Keeper};
use crate::launcher::evidence::Evidence;
use crate::launcher::run::{Care, Ours, Run, RunKey, SegmentToMake};
use crate::procfs;
use crate::slot::{ShimStage, Slot};
use crate::sys::{self, Ended, Look};
use crate::tree::{Member, Members, Roots, Swept};

/// What is known of a run that is to be taken over.
#[derive(Debug)]
pub(super) struct Legacy {
    /// What lies on disk.
    pub evidence: Evidence,
    /// The job's main process; number 0 when there is none.
    pub leader: Member,
    /// Whether it is our child.
    pub is_parent: bool,
    /// What its shim and it shared with us.
    pub slot: Option<&'static Slot>,
}

impl Launcher {
    /// The shim, our child, was killed.
    pub(super) fn take_over_from_shim(&mut self, key: RunKey) {
        let Some(run) = self.runs.get(&key) else {
            return;
        };
        let Care::Shim { slot, segment, .. } = run.care else {
            return;
        };
        // First of all: from here on the job does not begin if it has not yet.
        let never_ran = slot.revoke();
        let folder = run.folder();
        let evidence = match Evidence::read(Path::new(&folder)) {
            Ok(evidence) => evidence,
            Err(error) => {
                self.log(format_args!("cannot read {folder}: {error}"));
                // What the shim said of itself is the second best witness.
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
        if evidence.gone || never_ran {
            if self.has_left(pid, never_ran) {
                self.slots.give(slot);
            }
            return self.close_on_disk(key, evidence, never_ran);
        }
        // Not reaped by us, so the number is its own if it is still there.
        let start_ticks = match slot.start_ticks() {
            0 => procfs::stat(pid).map_or(0, |stat| stat.start_ticks),
            ticks => ticks,
        };
        let reaped = sys::look_for(pid) == Look::Childless;
        let written = evidence.exited || evidence.not_started;
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
            // The shim reaped it while the disk refused the record.
            self.with_keeper(key, |keeper, now_ns, _| {
                keeper.leader_ended(Exit::Unknown, now_ns);
            });
            self.check_empty(key);
            self.reschedule(key);
        }
    }

    fn never_claimed(&mut self, key: RunKey, segment: SegmentId, other: bool, slot: &'static Slot) {
        if let Some(run) = self.runs.get(&key) {
            let private = crate::plan::private_name(segment);
            let private = std::ffi::OsStr::from_bytes(private.to_bytes());
            // The shim died before it could; left behind, it harms nobody.
            let _ = std::fs::remove_file(Path::new(&run.folder()).join(private));
        }
        self.slots.give(slot);
        let what = match other {
            true => What::Superseded,
            false => What::NoClaim,
        };
        self.run_ended(key, what, 0);
    }

    /// Whether a job's process is out of the way, so that nobody writes to its
    /// slot. One that waits at a gate which is now closed for ever leaves by
    /// itself; the signal helps where it stands still.
    fn has_left(&mut self, pid: i32, never_ran: bool) -> bool {
        if !never_ran || pid == 0 {
            return true;
        }
        // Our child and not reaped, or this says that there is no such child.
        if sys::look_for(pid) == Look::Alive {
            let _ = sys::kill(pid, libc::SIGKILL);
        }
        match sys::look_for(pid) {
            Look::Ended(_) => {
                sys::reap(pid);
                true
            }
            Look::Childless => true,
            // Reaped when it goes; its slot is never used again.
            Look::Alive => false,
        }
    }

    /// Writes the last records of a run of which nothing lives.
    pub(super) fn close_on_disk(&mut self, key: RunKey, evidence: Evidence, never_ran: bool) {
        if evidence.gone {
            return self.run_ended(key, What::Ended, 0);
        }
        let written = evidence.not_started || evidence.exited;
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
                .append(Record::JobNotStarted(JobNotStarted {
                    stage: job_not_started::Stage::Gate as i32,
                    errno: 0,
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
        if let Some(run) = self.runs.get(&key) {
            // While the chains of parents still hold.
            ours.known = tree_of(run, &ours, &self.not_orphans());
        }
        self.settle(key, ours);
        self.look_for_wishes(key);
        self.tick(key);
        self.reschedule(key);
    }

    fn ours(&self, key: RunKey, legacy: Legacy) -> Option<Box<Ours>> {
        let run = self.runs.get(&key)?;
        let now_ns = clock::now_ns();
        let evidence = &legacy.evidence;
        let gate_ns = match legacy.slot.map_or(0, Slot::gate_ns) {
            0 if evidence.started_ns == 0 => 0,
            // From the clock of records to that of deadlines.
            0 => now_ns.saturating_sub(clock::boot_ns().saturating_sub(evidence.started_ns)),
            gate_ns => gate_ns,
        };
        let limit = [run.time_limit_ms, evidence.time_limit_ms];
        let limit = limit.into_iter().find(|limit| *limit > 0);
        let plan = core::Plan {
            grace_ms: run.grace_ms,
            wait_for_strays: run.wait_for_strays,
            limit_at_ns: limit.map(|limit| gate_ns.saturating_add(limit.saturating_mul(MS))),
        };
        let mut core = match evidence.exited || evidence.not_started {
            true => Core::after_exit(plan, now_ns),
            false => Core::new(plan),
        };
        if let Some((asked_ns, asked)) = evidence.stop {
            core.stop_under_way(now_ns + left_of_grace(asked_ns, asked));
        }
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
                flags | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .ok()
        };
        Some(Box::new(Ours {
            keeper: Keeper {
                core,
                journal: Journal::new(segment.make()),
                folder: open("", OFlags::RDONLY | OFlags::DIRECTORY),
                logs: ["stdout.log", "stderr.log"].map(|name| open(name, OFlags::RDONLY)),
                work_dir: run.work_dir.clone(),
                slot: legacy.slot,
                gate_ns,
                next_wish: evidence.wishes + 1,
                strays_killed: 0,
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

    /// Puts a run that we look after back into its place, or ends it.
    fn settle(&mut self, key: RunKey, ours: Box<Ours>) {
        let done = ours.keeper.is_done();
        let slot = ours.slot;
        if let Some(run) = self.runs.get_mut(&key) {
            run.care = Care::Ours(ours);
        }
        if done {
            if let Some(slot) = slot {
                self.slots.give(slot);
            }
            self.run_ended(key, What::Ended, 0);
        }
        self.reschedule(key);
    }

    /// Does something with the keeper of a run that we look after, and a way to
    /// signal its tree.
    fn with_keeper(
        &mut self,
        key: RunKey,
        act: impl FnOnce(&mut Keeper, u64, &mut dyn FnMut(i32) -> Swept),
    ) {
        let not_orphans = self.not_orphans();
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        let Care::Ours(mut ours) = std::mem::replace(&mut run.care, Care::Over) else {
            return;
        };
        if ours.keeper.journal.lacks_segment()
            && let Some(segment) = ours.segment.make()
        {
            ours.keeper.journal.give_segment(segment);
        }
        let run = &*run;
        let Ours {
            keeper,
            leader,
            is_parent,
            known,
            ..
        } = &mut *ours;
        let mut tree = |signal| -> Swept {
            let roots = roots(run, *leader, *is_parent, known, &not_orphans);
            let members = Members::list(Roots::These(&roots));
            *known = members.as_slice().to_vec();
            members.signal(signal)
        };
        act(keeper, clock::now_ns(), &mut tree);
        self.settle(key, ours);
    }

    /// Time passed, or something ended that we wait for.
    pub(super) fn tick(&mut self, key: RunKey) {
        self.look_at_leader(key);
        self.with_keeper(key, |keeper, now_ns, tree| keeper.tick(now_ns, tree));
        self.check_empty(key);
    }

    /// The doorbell rang, or may have rung for the dead shim.
    pub(super) fn look_for_wishes(&mut self, key: RunKey) {
        self.with_keeper(key, |keeper, now_ns, tree| {
            keeper.look_for_wishes(now_ns, tree);
        });
    }

    /// The main process, our child, ended; it is reaped once that is written.
    pub(super) fn leader_ended(&mut self, key: RunKey, ended: &Ended) {
        self.with_keeper(key, |keeper, now_ns, _| {
            keeper.leader_ended(Exit::Seen(*ended), now_ns);
        });
        self.reap(ended.pid);
        self.check_empty(key);
        self.reschedule(key);
    }

    /// A process ended that came to us when its parent died.
    pub(super) fn orphan_ended(&mut self, ended: &Ended) {
        let keys: Vec<RunKey> = self
            .runs
            .iter()
            .filter(|(_, run)| matches!(&run.care, Care::Ours(ours) if ours.is_parent))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            if let Some(Run {
                care: Care::Ours(ours),
                ..
            }) = self.runs.get_mut(&key)
                && ours.known.iter().any(|member| member.pid == ended.pid)
            {
                ours.keeper.other_ended(ended.signal);
            }
            self.check_empty(key);
            self.reschedule(key);
        }
    }

    /// A process ended whose handle we hold for a run.
    pub(super) fn on_handle(&mut self, key: RunKey) {
        match self.runs.get_mut(&key).map(|run| &mut run.care) {
            Some(Care::Elder { .. }) => self.elder_ended(key),
            Some(Care::Ours(ours)) => {
                ours.handle = None;
                self.tick(key);
            }
            Some(Care::Shim { .. } | Care::Over) | None => {}
        }
        self.reschedule(key);
    }

    /// Where the main process is not our child: has it ended?
    fn look_at_leader(&mut self, key: RunKey) {
        let Some(Care::Ours(ours)) = self.runs.get(&key).map(|run| &run.care) else {
            return;
        };
        let waits = !ours.is_parent && !ours.keeper.core.leader_ended();
        if waits && !super::care::is_alive(ours.leader) {
            self.with_keeper(key, |keeper, now_ns, _| {
                keeper.leader_ended(Exit::Unknown, now_ns);
            });
        }
    }

    /// Once the main process has ended: is anybody left? If so, and their end
    /// is no signal to us, waits for one of them by its handle.
    fn check_empty(&mut self, key: RunKey) {
        let not_orphans = self.not_orphans();
        let Some(run) = self.runs.get(&key) else {
            return;
        };
        let Care::Ours(ours) = &run.care else {
            return;
        };
        let waits_for = match ours.keeper.core.leader_ended() {
            false => ours.leader,
            true => {
                let known = tree_of(run, ours, &not_orphans);
                let first = known.first().copied();
                if let Some(Run {
                    care: Care::Ours(ours),
                    ..
                }) = self.runs.get_mut(&key)
                {
                    ours.known = known;
                }
                let Some(first) = first else {
                    return self.with_keeper(key, |keeper, now_ns, _| keeper.empty(now_ns));
                };
                first
            }
        };
        self.wait_for(key, waits_for);
    }

    fn wait_for(&mut self, key: RunKey, member: Member) {
        let Some(Care::Ours(ours)) = self.runs.get_mut(&key).map(|run| &mut run.care) else {
            return;
        };
        if ours.is_parent || ours.handle.is_some() {
            return;
        }
        let Ok(handle) = sys::pidfd_open(member.pid) else {
            return;
        };
        // A stranger's end would only wake us once for nothing.
        self.wait_for_handle(&handle, key, super::RUN);
        if let Some(Care::Ours(ours)) = self.runs.get_mut(&key).map(|run| &mut run.care) {
            ours.handle = Some(handle);
        }
    }

    /// Children of ours that are no orphans.
    fn not_orphans(&self) -> HashSet<i32> {
        self.children.keys().copied().collect()
    }
}

/// What is left of the pause between the polite signal and the final one.
fn left_of_grace(asked_ns: u64, asked: StopAsked) -> u64 {
    if asked.signal == libc::SIGKILL {
        return 0;
    }
    let passed_ns = clock::boot_ns().saturating_sub(asked_ns);
    (u64::from(asked.grace_ms) * MS).saturating_sub(passed_ns)
}

/// The processes of a run that we look after.
fn tree_of(run: &Run, ours: &Ours, not_orphans: &HashSet<i32>) -> Vec<Member> {
    let roots = roots(run, ours.leader, ours.is_parent, &ours.known, not_orphans);
    let members = Members::list(Roots::These(&roots));
    members.as_slice().to_vec()
}

/// Where the tree begins: the main process, those seen before, and orphans that
/// say by their session or environment that they belong to it. Others are left
/// alone, whosever they are.
fn roots(
    run: &Run,
    leader: Member,
    is_parent: bool,
    known: &[Member],
    not_orphans: &HashSet<i32>,
) -> Vec<Member> {
    let mut roots: Vec<Member> = [leader]
        .into_iter()
        .chain(known.iter().copied())
        .filter(|member| super::care::is_alive(*member))
        .collect();
    // The number of a session is taken as long as somebody is in it, but a new
    // one may bear it afterwards: then only those seen before count.
    let session = (is_parent || super::care::is_alive(leader)).then_some(leader.pid);
    let mut add = |pid: i32| {
        let Ok(stat) = procfs::stat(pid) else { return };
        let member = Member {
            pid,
            start_ticks: stat.start_ticks,
        };
        let belongs = stat.start_ticks >= leader.start_ticks
            && (session == Some(stat.session) || has_marks(run, pid));
        if belongs && procfs::runs(&stat) && !roots.contains(&member) {
            roots.push(member);
        }
    };
    if is_parent {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        procfs::children(own, |pid| {
            if !not_orphans.contains(&pid) {
                add(pid);
            }
        });
    } else {
        procfs::everybody(&mut add);
    }
    roots
}

/// Whether a process's environment says that it is of this run.
fn has_marks(run: &Run, pid: i32) -> bool {
    if run.marks.is_empty() {
        return false;
    }
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    let held = |mark: &Vec<u8>| environment.split(|byte| *byte == 0).any(|one| one == *mark);
    run.marks.len() == 2 && run.marks.iter().all(held)
}
