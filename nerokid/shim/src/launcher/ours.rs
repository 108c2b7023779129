//! Runs that the launcher looks after itself, from the takeover to their last
//! record.
//!
//! The same core and keeper as in a shim, but nothing here may wait, and the
//! tree has to be found among our adopted orphans, or among all processes.

use std::collections::HashSet;

use nero_journal::v1::changed::What;

use super::{Child, Launcher};
use crate::clock;
use crate::keeper::{Exit, Keeper};
use crate::launcher::run::{LaunchedRun, RunKey, SupervisedRun, Supervision};
use crate::procfs;
use crate::sys::{self, ChildEnd};
use crate::tree::{Member, Members, Names, Roots, SignalReport, SignalTree};

impl Launcher {
    /// Puts a run that we look after back into its place, or ends it.
    pub(super) fn settle(&mut self, key: RunKey, ours: Box<SupervisedRun>) {
        let done = ours.keeper.is_done();
        for pid in ours.keeper.helpers().into_iter().flatten() {
            self.children.insert(pid, Child::Helper(key));
        }
        let slot = ours.slot;
        if let Some(run) = self.runs.get_mut(&key) {
            run.care = Supervision::Ours(ours);
        }
        if done {
            if let Some(slot) = slot {
                self.slots.give(slot);
            }
            self.run_ended(key, What::Ended, 0);
        }
        self.reschedule(key);
    }

    /// Calls `act` with the keeper of a run that we look after, and a function
    /// that signals its tree.
    pub(super) fn with_keeper(
        &mut self,
        key: RunKey,
        act: impl FnOnce(&mut Keeper, u64, &mut SignalTree<'_>),
    ) {
        let not_orphans = self.not_orphans();
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        let Supervision::Ours(mut ours) = std::mem::replace(&mut run.care, Supervision::Over)
        else {
            return;
        };
        if ours.keeper.journal.lacks_segment()
            && let Some(segment) = ours.segment.make()
        {
            ours.keeper.journal.give_segment(segment);
        }
        let run = &*run;
        let SupervisedRun {
            keeper,
            leader,
            is_parent,
            known,
            ..
        } = &mut *ours;
        let mut tree = |signal| -> (SignalReport, Names) {
            let roots = roots(run, *leader, *is_parent, known, &not_orphans);
            let members = Members::list(Roots::These(&roots));
            *known = members.as_slice().to_vec();
            members.signal(signal)
        };
        act(keeper, clock::now_ns(), &mut tree);
        self.settle(key, ours);
    }

    /// Time passed, or a process ended whose handle we hold.
    pub(super) fn tick(&mut self, key: RunKey) {
        self.look_at_leader(key);
        self.with_keeper(key, |keeper, now_ns, tree| keeper.tick(now_ns, tree));
        self.check_empty(key);
    }

    /// The doorbell rang, or may have rung for the dead shim.
    pub(super) fn look_for_requests(&mut self, key: RunKey) {
        self.with_keeper(key, |keeper, now_ns, tree| {
            keeper.look_for_requests(now_ns, tree);
        });
    }

    /// The main process, our child, ended; it is reaped once its record is written.
    pub(super) fn leader_ended(&mut self, key: RunKey, ended: &ChildEnd) {
        self.with_keeper(key, |keeper, now_ns, _| {
            keeper.leader_ended(Exit::Seen(*ended), now_ns);
        });
        self.reap(ended.pid);
        self.check_empty(key);
        self.reschedule(key);
    }

    /// A child ended that speaks to the runtime of a run's container.
    pub(super) fn helper_ended(&mut self, key: RunKey, ended: &ChildEnd) {
        self.with_keeper(key, |keeper, now_ns, _| keeper.helper_ended(ended, now_ns));
        self.check_empty(key);
        self.reschedule(key);
    }

    /// A process ended that we had adopted when its parent died.
    pub(super) fn orphan_ended(&mut self, ended: &ChildEnd) {
        let keys: Vec<RunKey> = self
            .runs
            .iter()
            .filter(|(_, run)| matches!(&run.care, Supervision::Ours(ours) if ours.is_parent))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            if let Some(LaunchedRun {
                care: Supervision::Ours(ours),
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

    /// A process of a run ended; we held its handle.
    pub(super) fn on_handle(&mut self, key: RunKey) {
        match self.runs.get_mut(&key).map(|run| &mut run.care) {
            Some(Supervision::Elder { .. }) => self.elder_ended(key),
            Some(Supervision::Ours(ours)) => {
                ours.handle = None;
                self.tick(key);
            }
            Some(Supervision::Shim { .. } | Supervision::Unseen | Supervision::Over) | None => {}
        }
        self.reschedule(key);
    }

    /// Looks whether a main process that is not our child has ended.
    fn look_at_leader(&mut self, key: RunKey) {
        let Some(Supervision::Ours(ours)) = self.runs.get(&key).map(|run| &run.care) else {
            return;
        };
        let waits = !ours.is_parent && !ours.keeper.core.leader_ended();
        if waits && !super::care::is_alive(ours.leader) {
            self.with_keeper(key, |keeper, now_ns, _| {
                keeper.leader_ended(Exit::Unknown, now_ns);
            });
        }
    }

    /// Looks, once the main process has ended, whether a process is left. If we
    /// get no signal for their end, waits for one of them by its handle.
    pub(super) fn check_empty(&mut self, key: RunKey) {
        let not_orphans = self.not_orphans();
        let Some(run) = self.runs.get(&key) else {
            return;
        };
        let Supervision::Ours(ours) = &run.care else {
            return;
        };
        let waits_for = if ours.keeper.core.leader_ended() {
            let known = tree_of(run, ours, &not_orphans);
            let first = known.first().copied();
            if let Some(LaunchedRun {
                care: Supervision::Ours(ours),
                ..
            }) = self.runs.get_mut(&key)
            {
                ours.known = known;
            }
            let Some(first) = first else {
                return self.with_keeper(key, |keeper, now_ns, _| keeper.empty(now_ns));
            };
            first
        } else {
            ours.leader
        };
        self.wait_for(key, waits_for);
    }

    fn wait_for(&mut self, key: RunKey, member: Member) {
        let Some(Supervision::Ours(ours)) = self.runs.get_mut(&key).map(|run| &mut run.care) else {
            return;
        };
        if ours.is_parent || ours.handle.is_some() {
            return;
        }
        let Ok(handle) = sys::pidfd_open(member.pid) else {
            return;
        };
        // The end of a stranger would wake us once for nothing.
        self.wait_for_handle(&handle, key, super::RUN);
        if let Some(Supervision::Ours(ours)) = self.runs.get_mut(&key).map(|run| &mut run.care) {
            ours.handle = Some(handle);
        }
    }

    /// Children of ours that are no orphans.
    pub(super) fn not_orphans(&self) -> HashSet<i32> {
        self.children.keys().copied().collect()
    }
}

/// The processes of a run that we look after.
pub(super) fn tree_of(
    run: &LaunchedRun,
    ours: &SupervisedRun,
    not_orphans: &HashSet<i32>,
) -> Vec<Member> {
    let roots = roots(run, ours.leader, ours.is_parent, &ours.known, not_orphans);
    let members = Members::list(Roots::These(&roots));
    members.as_slice().to_vec()
}

/// The roots of the tree: the main process, known members, and orphans whose
/// session or environment shows that they belong to it. Other processes are
/// left alone.
fn roots(
    run: &LaunchedRun,
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
    // A session's number is taken as long as a process is in it, but a new
    // session may get it afterwards. Then only known members count.
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

/// Whether a process's environment names this run.
fn has_marks(run: &LaunchedRun, pid: i32) -> bool {
    if run.marks.is_empty() {
        return false;
    }
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    let held = |mark: &Vec<u8>| environment.split(|byte| *byte == 0).any(|one| one == *mark);
    run.marks.len() == 2 && run.marks.iter().all(held)
}
