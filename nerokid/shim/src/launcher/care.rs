//! Reactions to time and to the ends of a run's processes.

use nero_journal::v1::changed::What;

use super::{Child, Launcher};
use crate::clock::{self, MS};
use crate::launcher::run::{RunKey, Supervision};
use crate::launcher::watch::{self, WatcherState};
use crate::slot::{JobStage, ShimStage};
use crate::sys::{self, ChildEnd};
use crate::tree::{Member, signal_one};

/// Interval of looks at processes for which the kernel has no handle.
const LOOK_NS: u64 = 1_000 * MS;

impl Launcher {
    /// Sets the time of the next look at a run.
    pub(super) fn reschedule(&mut self, key: RunKey) {
        let now_ns = clock::now_ns();
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        let care = match &run.care {
            Supervision::Shim { .. } | Supervision::Over => None,
            Supervision::Elder { handle, .. } => handle.is_none().then_some(now_ns + LOOK_NS),
            Supervision::Unseen => Some(now_ns + LOOK_NS),
            Supervision::Ours(ours) => {
                let blind = !ours.is_parent && ours.handle.is_none();
                let retry = ours.keeper.journal.lacks_segment();
                let look = (blind || retry).then_some(now_ns + LOOK_NS);
                earliest(ours.keeper.wake_at_ns(now_ns), look)
            }
        };
        let next = earliest(earliest(care, run.announce_at_ns), run.watch.due_ns());
        if run.wake_at_ns != next {
            if let Some(at) = run.wake_at_ns {
                self.due.remove(&(at, key));
            }
            if let Some(at) = next {
                self.due.insert((at, key));
            }
            run.wake_at_ns = next;
        }
    }

    /// Handles every run that is due.
    pub(super) fn on_time(&mut self) {
        let Some((first, _)) = self.due.first() else {
            return;
        };
        let now_ns = clock::now_ns();
        if *first > now_ns {
            return;
        }
        let due: Vec<RunKey> = self
            .due
            .range(..=(now_ns, RunKey::MAX))
            .map(|(_, key)| *key)
            .collect();
        for key in due {
            self.on_due(key, now_ns);
            self.reschedule(key);
        }
    }

    fn on_due(&mut self, key: RunKey, now_ns: u64) {
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        if run.announce_at_ns.is_some_and(|at| at <= now_ns) {
            let claimed = match &run.care {
                Supervision::Shim { slot, .. } => slot.shim() == ShimStage::Claimed,
                Supervision::Elder { .. }
                | Supervision::Ours(_)
                | Supervision::Unseen
                | Supervision::Over => true,
            };
            if claimed {
                run.announce_at_ns = None;
                self.tell_of(key, What::Started, 0);
            } else {
                // On a busy machine the shim may take longer to get that far.
                run.announce_at_ns = Some(now_ns + super::ANNOUNCE_NS);
            }
        }
        self.start_watcher_if_due(key, now_ns);
        let Some(run) = self.runs.get(&key) else {
            return;
        };
        match &run.care {
            Supervision::Shim { .. } | Supervision::Over => {}
            Supervision::Elder { shim, handle } => {
                if handle.is_none() && !is_alive(*shim) {
                    self.elder_ended(key);
                }
            }
            Supervision::Ours(_) => self.tick(key),
            Supervision::Unseen => {
                self.judge(key, None, None);
                self.end_start_if_ending(key);
            }
        }
    }

    /// A watcher reports a new file in the control folder of a run that we took
    /// over. It does not name the run, so look at all of them.
    pub(super) fn ring_all(&mut self) {
        let ours = self
            .runs
            .iter()
            .filter(|(_, run)| matches!(run.care, Supervision::Ours(_)));
        let keys: Vec<RunKey> = ours.map(|(key, _)| *key).collect();
        for key in keys {
            self.look_for_requests(key);
            self.reschedule(key);
        }
    }

    /// Looks for new cancel requests in the control folders of these runs.
    pub(super) fn ring(&mut self, token: &[u8]) {
        let keys: Vec<RunKey> = self
            .runs
            .iter()
            .filter(|(_, run)| run.subject.token == token)
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            match &self.runs[&key].care {
                // Our child, not yet reaped, still has its number.
                Supervision::Shim { pid, .. } => {
                    let _ = sys::kill(*pid, libc::SIGUSR1);
                }
                Supervision::Elder { shim, .. } => {
                    let _ = signal_one(*shim, libc::SIGUSR1);
                }
                Supervision::Ours(_) => self.look_for_requests(key),
                // Cancel requests are looked for once the run's supervisor is
                // known.
                Supervision::Unseen | Supervision::Over => {}
            }
            self.reschedule(key);
        }
    }

    /// Ends every start; a start that this launcher takes on afterwards ends at once.
    pub(super) fn end_all(&mut self) {
        self.ending = true;
        let keys: Vec<RunKey> = self.runs.keys().copied().collect();
        for key in keys {
            self.end_start_if_ending(key);
        }
    }

    /// Ends one start if all are to end.
    pub(super) fn end_start_if_ending(&mut self, key: RunKey) {
        let Some(run) = self.runs.get(&key).filter(|_| self.ending) else {
            return;
        };
        match &run.care {
            Supervision::Shim { pid, .. } => {
                let _ = sys::kill(*pid, libc::SIGUSR2);
            }
            Supervision::Elder { shim, .. } => {
                let _ = signal_one(*shim, libc::SIGUSR2);
            }
            Supervision::Ours(_) => self.with_keeper(key, |keeper, now_ns, tree| {
                keeper.end_start(now_ns, tree);
            }),
            // Ended once the run's supervisor is known.
            Supervision::Unseen | Supervision::Over => {}
        }
        self.reschedule(key);
    }

    /// A shim ended and was reaped: after its last record, or before.
    pub(super) fn shim_ended(&mut self, key: RunKey, _ended: &ChildEnd) {
        let Some(Supervision::Shim { slot, .. }) = self.runs.get(&key).map(|run| &run.care) else {
            return;
        };
        let slot = *slot;
        match slot.shim() {
            ShimStage::Done => {
                self.slots.give(slot);
                self.run_ended(key, What::Ended, 0);
            }
            ShimStage::Superseded => {
                self.slots.give(slot);
                self.run_ended(key, What::Superseded, 0);
            }
            ShimStage::NoClaim => {
                let errno = slot.errno();
                self.slots.give(slot);
                self.run_ended(key, What::NoClaim, errno);
            }
            ShimStage::Forked | ShimStage::Claimed => {
                self.take_over_from_shim(key);
                self.end_start_if_ending(key);
            }
        }
    }

    /// The run has its last record; its watcher may still read.
    pub(super) fn run_ended(&mut self, key: RunKey, what: What, errno: i32) {
        if let Some(run) = self.runs.get_mut(&key) {
            // Free before neromum can give them to another run.
            run.locks.clear();
        }
        self.tell_of(key, what, errno);
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        run.care = Supervision::Over;
        run.announce_at_ns = None;
        if run.watch.is_running() {
            return self.reschedule(key);
        }
        if run.watch.started {
            self.tell_of(key, What::WatcherEnded, 0);
        }
        self.forget(key);
    }

    fn forget(&mut self, key: RunKey) {
        if let Some(run) = self.runs.remove(&key)
            && let Some(at) = run.wake_at_ns
        {
            self.due.remove(&(at, key));
        }
    }

    fn start_watcher_if_due(&mut self, key: RunKey, now_ns: u64) {
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        if run.watch.due_ns().is_none_or(|at| at > now_ns) {
            return;
        }
        if !run.is_live() {
            run.watch.state = WatcherState::Done;
            return;
        }
        if let Supervision::Shim { slot, .. } = &run.care
            && slot.job() == JobStage::Waiting
        {
            // There may be no folder yet, and nothing to watch.
            return run.watch.too_early(now_ns);
        }
        let program = &run.watch.program;
        match watch::spawn(program, &run.run_dir, run.subject.incarnation) {
            Some(pid) => {
                run.watch.running(now_ns);
                self.children.insert(pid, Child::Watcher(key));
            }
            None => run.watch.failed(now_ns),
        }
    }

    /// A watcher of ours ended and was reaped.
    pub(super) fn watcher_ended(&mut self, key: RunKey, ended: &ChildEnd) {
        let now_ns = clock::now_ns();
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        if run.is_live() {
            run.watch.failed(now_ns);
            if ended.code == 0 && ended.signal == 0 {
                self.left_to_another(key, now_ns);
            }
            return self.reschedule(key);
        }
        self.tell_of(key, What::WatcherEnded, 0);
        self.forget(key);
    }

    /// A watcher ended that an earlier launcher had started.
    pub(super) fn on_elder_watcher(&mut self, key: RunKey) {
        let now_ns = clock::now_ns();
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        if run.is_live() {
            run.watch.state = WatcherState::Due(now_ns);
            return self.reschedule(key);
        }
        self.tell_of(key, What::WatcherEnded, 0);
        self.forget(key);
    }
}

/// Whether exactly this process runs.
pub(super) fn is_alive(member: Member) -> bool {
    crate::procfs::stat(member.pid)
        .is_ok_and(|stat| stat.start_ticks == member.start_ticks && crate::procfs::runs(&stat))
}

fn earliest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
