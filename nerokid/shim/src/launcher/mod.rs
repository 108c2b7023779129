//! The launcher: forks shims, learns of their ends, looks after runs whose shim
//! died, starts watchers, and reports changes to neromum.
//!
//! One loop over one epoll: connections, signals, handles of processes that are
//! not our children, and the next time anything is due. With nothing to do it
//! sleeps. It never waits for a peer, a disk that is full, or a process.

mod cards;
mod care;
mod evidence;
mod guard;
mod link;
mod ours;
mod run;
mod service;
mod start;
mod takeover;
mod watch;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nero_journal::v1::changed::What;
use nero_journal::v1::{Changed, Launch, Notice};
use nero_journal::{SegmentId, Writer};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::clock::{self, MS};
use crate::crash::CrashAt;
use crate::journal::Segment;
use crate::launcher::link::Connection;
use crate::launcher::run::{LaunchedRun, RunKey, Supervision};
use crate::launcher::watch::Watch;
use crate::plan::{LauncherState, Plan};
use crate::slots::Slots;
use crate::sys::{self, ChildrenState, ForkSide};

/// Time that a shim lives before neromum gets the news that it runs.
const ANNOUNCE_NS: u64 = 10 * MS;
/// Time for which a launcher without runs and connections stays.
const IDLE_NS: u64 = 60_000 * MS;
/// Events taken at once.
const EVENTS: usize = 64;

/// Number of the lowest bits of an event's key, which contain its kind.
const ABOUT_BITS: u64 = 2;
const LISTENER: u64 = 0;
const SIGNALS: u64 = 1 << ABOUT_BITS;
const LINK: u64 = 1;
const RUN: u64 = 2;
const WATCHER: u64 = 3;

/// A child of ours.
#[derive(Clone, Copy, Debug)]
enum Child {
    Shim(RunKey),
    Watcher(RunKey),
    Leader(RunKey),
    /// Speaks to the runtime of a run's container.
    Helper(RunKey),
}

/// The launcher's state.
struct Launcher {
    own: LauncherState,
    socket: PathBuf,
    listener: OwnedFd,
    epoll: OwnedFd,
    signals: OwnedFd,
    links: BTreeMap<u64, Connection>,
    runs: BTreeMap<RunKey, LaunchedRun>,
    children: HashMap<i32, Child>,
    due: BTreeSet<(u64, RunKey)>,
    slots: Slots,
    next_key: u64,
    idle_since_ns: u64,
    retiring: bool,
    /// Whether every start is to end.
    ending: bool,
    can_close_range: bool,
    crash: CrashAt,
    // Dropped last: from then on another launcher may start.
    _lock: File,
}

/// Serves until there is nothing left to do.
///
/// # Errors
/// When the place cannot be taken; later only when the kernel cannot report events.
pub fn run(socket: &Path, log: &Path, in_allocation: bool) -> io::Result<()> {
    let Some(place) = start::take_place(socket, log, in_allocation)? else {
        return Ok(());
    };
    warm_up();
    let mut launcher = Launcher::new(place)?;
    launcher.log(format_args!("started"));
    let outcome = launcher.serve();
    launcher.log(format_args!("leaves"));
    // Remove the socket before the lock is released, so that no peer connects in
    // vain.
    let _ = std::fs::remove_file(&launcher.socket);
    outcome
}

impl Launcher {
    fn new(place: start::ListeningLauncher) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let signals = sys::signal_fd()?;
        epoll::add(
            &epoll,
            &place.listener,
            EventData::new_u64(LISTENER),
            EventFlags::IN,
        )?;
        epoll::add(
            &epoll,
            &signals,
            EventData::new_u64(SIGNALS),
            EventFlags::IN,
        )?;
        Ok(Self {
            own: place.own,
            socket: place.socket,
            listener: place.listener,
            epoll,
            signals,
            links: BTreeMap::new(),
            runs: BTreeMap::new(),
            children: HashMap::new(),
            due: BTreeSet::new(),
            slots: Slots::default(),
            next_key: 2,
            idle_since_ns: clock::now_ns(),
            retiring: false,
            ending: false,
            // Where the call exists, it refuses an impossible range.
            can_close_range: sys::close_from(i32::MAX),
            crash: CrashAt::from_environment(),
            _lock: place.lock,
        })
    }

    fn log(&self, what: std::fmt::Arguments<'_>) {
        let wall = nero_journal::Clocks::now().wall_ns / 1_000_000;
        let line = format!("{wall} launcher {}: {what}\n", self.own.process.pid);
        // A full disk costs this line and nothing else. `eprintln` would panic.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    fn key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        while !self.may_leave() {
            let timeout = self.timeout();
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let (flags, data) = (event.flags, event.data.u64());
                self.on_event(flags, data);
            }
            self.on_time();
            self.flush();
        }
        Ok(())
    }

    /// No run needs the launcher, and it was asked to retire or has been alone for
    /// long.
    fn may_leave(&self) -> bool {
        let alone = self.links.is_empty() && self.idle_since_ns + IDLE_NS <= clock::now_ns();
        self.runs.is_empty() && (self.retiring || alone)
    }

    fn timeout(&mut self) -> Option<rustix::event::Timespec> {
        let now_ns = clock::now_ns();
        let company = !self.runs.is_empty() || !self.links.is_empty();
        if company {
            self.idle_since_ns = now_ns;
        }
        let idle = (!company).then_some(self.idle_since_ns + IDLE_NS);
        let next = self.due.first().map(|(at, _)| *at).or(idle)?;
        let wait = Duration::from_nanos(next.saturating_sub(now_ns));
        rustix::event::Timespec::try_from(wait).ok()
    }

    fn on_event(&mut self, flags: EventFlags, data: u64) {
        let key = data >> ABOUT_BITS;
        match data {
            LISTENER => self.accept(),
            SIGNALS => self.on_signals(),
            _ => match data & ((1 << ABOUT_BITS) - 1) {
                LINK => self.on_link(key, flags),
                RUN => self.on_handle(key),
                WATCHER => self.on_elder_watcher(key),
                _ => {}
            },
        }
    }

    /// Waits for a process that is not our child.
    fn wait_for_handle(&self, handle: &OwnedFd, key: RunKey, about: u64) {
        let data = EventData::new_u64(key << ABOUT_BITS | about);
        if let Err(error) = epoll::add(&self.epoll, handle, data, EventFlags::IN) {
            self.log(format_args!("cannot wait for a process: {error}"));
        }
    }

    fn on_signals(&mut self) {
        let (mut asked_to_leave, mut rung, mut ends) = (false, false, false);
        sys::drain_signals(&self.signals, |signal| match signal {
            libc::SIGCHLD => {}
            libc::SIGUSR1 => rung = true,
            libc::SIGUSR2 => ends = true,
            _ => asked_to_leave = true,
        });
        if rung {
            self.ring_all();
        }
        // When asked politely, leave as soon as no run needs us, and not before.
        self.retiring |= asked_to_leave;
        // A scheduler may signal every process of an allocation that is to end.
        if self.own.in_allocation && (asked_to_leave || ends) {
            self.end_all();
        }
        self.collect();
    }

    fn launch(&mut self, launch: &Launch) {
        let refuse = |errno| Changed {
            token: launch.token.clone(),
            what: What::NoClaim as i32,
            incarnation: launch.incarnation,
            errno,
        };
        let Some(mut plan) = Plan::new(launch, &self.own) else {
            return self.tell(refuse(libc::EINVAL));
        };
        let started = cards::lock_all(&launch.cards).and_then(|locks| {
            plan.cards = locks.iter().map(AsRawFd::as_raw_fd).collect();
            plan.cards.sort_unstable();
            self.fork_shim(launch, plan, locks)
        });
        if let Err(error) = started {
            self.tell(refuse(error.raw_os_error().unwrap_or(libc::EAGAIN)));
        }
    }

    fn fork_shim(&mut self, launch: &Launch, plan: Plan, locks: Vec<OwnedFd>) -> io::Result<()> {
        let slot = self.slots.take()?;
        slot.set_oom_kills(self.own.oom.count());
        let crash = self.crash.take();
        let highest = (!self.can_close_range).then(start::highest_descriptor);
        let (subject, segment, work_dir) = (plan.subject, plan.segment, plan.work_dir.clone());
        let strays = plan.strays;
        let forked_ns = clock::boot_ns();
        let pid = match sys::fork() {
            Ok(ForkSide::Child) => {
                crate::shim::run(plan, &self.own, slot, forked_ns, highest, &crash)
            }
            Ok(ForkSide::Parent(pid)) => pid,
            Err(error) => {
                self.slots.give(slot);
                return Err(error);
            }
        };
        let now_ns = clock::now_ns();
        let watch_after_ns = if launch.watch_at_once {
            0
        } else {
            watch::AFTER_NS
        };
        let key = self.key();
        self.children.insert(pid, Child::Shim(key));
        self.runs.insert(
            key,
            LaunchedRun {
                subject,
                run_dir: launch.run_dir.clone(),
                grace_ms: launch.grace_ms,
                strays,
                is_step: launch.is_step,
                notes_stop: true,
                time_limit_ms: launch.time_limit_ms,
                work_dir,
                marks: run::marks_of(launch),
                cards: launch.cards.clone(),
                locks,
                care: Supervision::Shim { pid, slot, segment },
                announce_at_ns: Some(now_ns + ANNOUNCE_NS),
                watch: Watch::new(&launch.watcher, now_ns + watch_after_ns),
                wake_at_ns: None,
            },
        );
        self.end_start_if_ending(key);
        self.reschedule(key);
        Ok(())
    }

    /// Handles every child that ended. Its records are written before it is reaped.
    fn collect(&mut self) {
        while let ChildrenState::Ended(ended) = sys::children_state() {
            match self.children.get(&ended.pid).copied() {
                Some(Child::Leader(key)) => self.leader_ended(key, &ended),
                Some(Child::Shim(key)) => {
                    self.reap(ended.pid);
                    self.shim_ended(key, &ended);
                }
                Some(Child::Watcher(key)) => {
                    self.reap(ended.pid);
                    self.watcher_ended(key, &ended);
                }
                Some(Child::Helper(key)) => {
                    self.reap(ended.pid);
                    self.helper_ended(key, &ended);
                }
                None => {
                    self.reap(ended.pid);
                    self.orphan_ended(&ended);
                }
            }
        }
        while let Some(pid) = sys::next_stopped() {
            self.child_stopped(pid);
        }
    }

    /// Continues a shim or watcher that its job stopped by a signal, which the same
    /// user may send: a stopped shim cannot record the job's end. Processes of the
    /// job itself may stay stopped.
    fn child_stopped(&mut self, pid: i32) {
        let (key, what) = match self.children.get(&pid).copied() {
            Some(Child::Shim(key)) => (key, "shim"),
            Some(Child::Watcher(key)) => (key, "watcher"),
            Some(Child::Leader(_) | Child::Helper(_)) | None => return,
        };
        let folder = self.runs.get(&key).map(LaunchedRun::folder);
        let folder = folder.unwrap_or_default();
        self.log(format_args!(
            "the {what} {pid} of {folder} was stopped by a signal and is continued"
        ));
        let _ = sys::kill(pid, libc::SIGCONT);
        self.note_stop(key, what);
    }

    /// Writes a note of it, for people, into a segment beside the run's others.
    fn note_stop(&mut self, key: RunKey, what: &str) {
        let Some(run) = self.runs.get_mut(&key).filter(|run| run.notes_stop) else {
            return;
        };
        run.notes_stop = false;
        let id = SegmentId::random();
        let path = format!("{}/launcher-{id}.seg", run.folder());
        let text = format!("its {what} was stopped by a signal (SIGSTOP) and was continued");
        let made = sys::path(path).map(|path| {
            let notice = Notice::of(text);
            Segment::create(&path, Writer::Launcher, id, &run.subject, &notice)
        });
        match made {
            Some(Ok(_)) => self.tell_of(key, What::Started, 0),
            Some(Err(error)) => self.log(format_args!("cannot note that: {error}")),
            None => {}
        }
    }

    fn reap(&mut self, pid: i32) {
        sys::reap(pid);
        self.children.remove(&pid);
    }
}

/// Detects the processor's features once for all shims: each shim would detect them
/// anew, and on a virtual machine that takes a tenth of a millisecond.
fn warm_up() {
    let mut head = [0; nero_journal::HEADER_BYTES];
    let (writer, id) = (Plan::WRITER, nero_journal::SegmentId([0; 8]));
    nero_journal::encode_header(&mut head, writer, id, &[0; 16], 0, &[0; 16], 0, 0);
}
