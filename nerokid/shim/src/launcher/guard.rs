//! Runs of an earlier launcher: their shims live without being our children,
//! or their jobs without any shim.
//!
//! The disk shows what is to be done; the request contains only the folder. A living
//! shim is waited for by its handle; the launcher looks after a job without a shim, but
//! cannot learn its exit code.

use std::fs::Metadata;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nero_journal::frame::{self, FrameKind};
use nero_journal::gate::{self, Gate};
use nero_journal::v1::Guard;
use nero_journal::v1::changed::What;
use nero_model::ProcessId;
use nero_model::paths::run::{SPEC, WATCH_LOCK};
use nero_model::process::Life;
use rustix::fs::{FlockOperation, flock};

use super::Launcher;
use crate::clock;
use crate::core::Strays;
use crate::journal::Subject;
use crate::launcher::evidence::Evidence;
use crate::launcher::run::{self, LaunchedRun, RunKey, Supervision};
use crate::launcher::takeover::Legacy;
use crate::launcher::watch::{Watch, WatcherState};
use crate::sys;
use crate::tree::Member;

/// The fields of a `nero.v1.RunSpec` that a guard needs.
#[derive(Clone, PartialEq, prost::Message)]
struct Spec {
    #[prost(message, optional, tag = "13")]
    monitor: Option<Monitor>,
}

/// The fields of a `nero.v1.Monitor` that a guard needs.
#[derive(Clone, PartialEq, prost::Message)]
struct Monitor {
    #[prost(bool, tag = "3")]
    wait_for_strays: bool,
    #[prost(bool, tag = "4")]
    leave_strays: bool,
}

impl Launcher {
    /// Looks after a run that another launcher began.
    pub(super) fn guard(&mut self, guard: &Guard) {
        let Ok(token) = <[u8; 16]>::try_from(guard.token.as_slice()) else {
            return;
        };
        let known = self.runs.values().any(|run| {
            run.subject.token == token
                && run.subject.incarnation == guard.incarnation
                && run.is_live()
        });
        let Some(run_dir) = sys::path(guard.run_dir.clone()) else {
            return;
        };
        if known || !guard.run_dir.starts_with('/') || guard.incarnation == 0 {
            return;
        }
        let key = self.key();
        self.runs.insert(
            key,
            LaunchedRun {
                subject: Subject {
                    token,
                    incarnation: guard.incarnation,
                    boot_id: self.own.process.boot_id,
                },
                run_dir: guard.run_dir.clone(),
                grace_ms: guard.grace_ms,
                strays: strays(Path::new(&guard.run_dir)),
                is_step: guard.is_step,
                notes_stop: true,
                time_limit_ms: guard.time_limit_ms,
                work_dir: run_dir,
                marks: run::marks(guard.marks.iter().map(Vec::as_slice)),
                cards: guard.cards.clone(),
                locks: Vec::new(),
                care: Supervision::Over,
                announce_at_ns: None,
                watch: Watch::new(&guard.watcher, clock::now_ns()),
                wake_at_ns: None,
            },
        );
        let identity = |process: &Option<nero_journal::v1::Process>| process.as_ref()?.identity();
        self.judge(key, identity(&guard.shim), identity(&guard.job));
        self.end_start_if_ending(key);
        self.reschedule(key);
    }

    /// The shim of an earlier launcher ended.
    pub(super) fn elder_ended(&mut self, key: RunKey) {
        self.judge(key, None, None);
        self.end_start_if_ending(key);
    }

    /// Decides by the evidence on disk who looks after the run.
    pub(super) fn judge(&mut self, key: RunKey, shim: Option<ProcessId>, job: Option<ProcessId>) {
        let Some(run) = self.runs.get(&key) else {
            return;
        };
        let folder = run.folder();
        let mut evidence = match Evidence::read(Path::new(&folder)) {
            Ok(evidence) => evidence,
            Err(error) => {
                // Without evidence the run does not count as ended.
                return self.unseen(key, format_args!("cannot read {folder}: {error}"));
            }
        };
        if evidence.claim.is_none() {
            return self.run_ended(key, What::NoClaim, 0);
        }
        if evidence.token != run.subject.token {
            return self.run_ended(key, What::Superseded, 0);
        }
        // After a restart of the machine no process of the run lives, and neromum
        // records its end.
        if evidence.life.gone || evidence.boot_id != self.own.process.boot_id {
            return self.run_ended(key, What::Ended, 0);
        }
        let life = &mut evidence.life;
        life.shim = life.shim.or(shim);
        life.job = life.job.or(job);
        if let Some(job) = evidence.job().map(member) {
            let environment = std::fs::read(format!("/proc/{}/environ", job.pid));
            if let (Ok(bytes), Some(run)) = (environment, self.runs.get_mut(&key))
                && super::care::is_alive(job)
                && run.marks.is_empty()
            {
                run.marks = run::marks(bytes.split(|byte| *byte == 0));
            }
        }
        match evidence
            .life
            .shim
            .map_or(Ok(Life::Dead), |shim| shim.life())
        {
            Ok(Life::Alive) => {
                let shim = evidence.life.shim.map(member).unwrap_or_default();
                self.wait_for_elder(key, shim);
            }
            // The segment may hold the start of a job, a stop or an end that cannot be
            // read.
            Ok(Life::Dead | Life::Zombie | Life::Rebooted) if evidence.is_damaged => {
                self.unseen(key, format_args!("a segment in {folder} is damaged"));
            }
            Ok(Life::Dead | Life::Zombie | Life::Rebooted) => self.without_shim(key, evidence),
            Ok(Life::Elsewhere) | Err(_) => {
                self.unseen(key, format_args!("cannot see the processes of {folder}"));
            }
        }
    }

    /// Keeps guarding a run whose folder or processes cannot be read now, and reads them
    /// again later: neromum believes that this launcher guards it.
    pub(super) fn unseen(&mut self, key: RunKey, why: std::fmt::Arguments<'_>) {
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        let first = !matches!(run.care, Supervision::Unseen);
        run.care = Supervision::Unseen;
        if first {
            self.log(why);
        }
    }

    fn wait_for_elder(&mut self, key: RunKey, shim: Member) {
        let handle = sys::pidfd_open(shim.pid).ok();
        // Check again now that the handle is open: it belongs to the same process.
        if handle.is_some() && !super::care::is_alive(shim) {
            return self.judge(key, None, None);
        }
        if let Some(handle) = &handle {
            self.wait_for_handle(handle, key, super::RUN);
        }
        if let Some(run) = self.runs.get_mut(&key) {
            run.care = Supervision::Elder { shim, handle };
        }
        self.find_elder_watcher(key);
    }

    fn without_shim(&mut self, key: RunKey, mut evidence: Evidence) {
        let Some(run) = self.runs.get(&key) else {
            return;
        };
        let folder = run.folder();
        if let (None, Some(claim)) = (evidence.job(), evidence.claim) {
            // The job's process may outlive shim and launcher, and be about to execute.
            match gate::close(Path::new(&folder), claim) {
                Ok(Gate::Closed) => return self.close_on_disk(key, evidence, true),
                // The job writes its record before it passes the gate, so read again.
                Ok(Gate::Passed) => match Evidence::read(Path::new(&folder)) {
                    Ok(again) => evidence = again,
                    Err(error) => {
                        return self.unseen(key, format_args!("cannot read {folder}: {error}"));
                    }
                },
                Err(error) => {
                    return self.unseen(
                        key,
                        format_args!("cannot close the gate in {folder}: {error}"),
                    );
                }
            }
        }
        // A shim of an older build may have made a job without a record. Processes that
        // show the run's marks are ended as strays.
        let leader = evidence.job().map(member).unwrap_or_default();
        self.keep(
            key,
            Legacy {
                evidence,
                leader,
                is_parent: false,
                slot: None,
            },
        );
        self.find_elder_watcher(key);
    }

    /// Waits for the watcher of an earlier launcher; ours is due when it ends.
    fn find_elder_watcher(&mut self, key: RunKey) {
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        if !run.is_live() || run.watch.due_ns().is_none() {
            return;
        }
        match holder_of(&run.folder()) {
            Holder::Nobody => {}
            // The kernel may release the lock a moment after its holder is gone.
            Holder::Unknown => run.watch.soon(clock::now_ns()),
            Holder::Process(handle) => self.wait_for_watcher(key, handle),
        }
    }

    /// Our watcher left because another one was at work. Ours is due when the other
    /// ends, or soon when it is gone already.
    pub(super) fn left_to_another(&mut self, key: RunKey, now_ns: u64) {
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        match holder_of(&run.folder()) {
            Holder::Nobody => {}
            Holder::Unknown => run.watch.later(now_ns),
            Holder::Process(handle) => self.wait_for_watcher(key, handle),
        }
    }

    fn wait_for_watcher(&mut self, key: RunKey, handle: OwnedFd) {
        self.wait_for_handle(&handle, key, super::WATCHER);
        if let Some(run) = self.runs.get_mut(&key) {
            run.watch.state = WatcherState::Elder { _handle: handle };
            run.watch.started = true;
        }
    }
}

fn member(process: ProcessId) -> Member {
    Member {
        pid: process.pid,
        start_ticks: process.start_ticks,
    }
}

/// The treatment of strays from the spec; the default when the spec cannot be read.
fn strays(run_dir: &Path) -> Strays {
    let spec = frame::read::<Spec>(FrameKind::Spec, &run_dir.join(SPEC));
    let monitor = spec.ok().and_then(|spec| spec.monitor).unwrap_or_default();
    Strays::new(monitor.wait_for_strays, monitor.leave_strays)
}

/// Holder of a run's watch lock.
enum Holder {
    /// It is free.
    Nobody,
    /// The process behind this handle.
    Process(OwnedFd),
    /// A process that cannot be found from here, as on another host.
    Unknown,
}

/// Finds the holder in the kernel's list of locks, and checks that it has the file open.
/// A killed process loses its table of files first, and keeps the lock until its last
/// file is closed: milliseconds later, where the kernel waits before it releases an
/// inotify instance.
fn holder_of(folder: &str) -> Holder {
    let Ok(lock) = nero_journal::open(&Path::new(folder).join(WATCH_LOCK)) else {
        return Holder::Nobody;
    };
    let free = || flock(&lock, FlockOperation::NonBlockingLockShared).is_ok();
    if free() {
        return Holder::Nobody;
    }
    let (Ok(locked), Ok(listed)) = (lock.metadata(), std::fs::read_to_string("/proc/locks")) else {
        return Holder::Unknown;
    };
    let inode = format!(":{}", locked.ino());
    let holders = listed.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(4);
        let pid: i32 = fields.next()?.parse().ok()?;
        fields.next()?.ends_with(&inode).then_some(pid)
    });
    let mut found = holders.filter(|pid| *pid > 0).filter_map(|pid| {
        let handle = sys::pidfd_open(pid).ok()?;
        has_or_is_losing(pid, &locked).then_some(handle)
    });
    match found.next() {
        Some(handle) => Holder::Process(handle),
        // The holder may have ended before the list was made.
        None if free() => Holder::Nobody,
        None => Holder::Unknown,
    }
}

/// Whether a process has this file open, or is on its way out.
fn has_or_is_losing(pid: i32, file: &Metadata) -> bool {
    let mut open = match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(open) => open.flatten().peekable(),
        // The process has ended since, and the lock with it.
        Err(error) => return error.kind() == std::io::ErrorKind::NotFound,
    };
    let same = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some(found.ino() == file.ino() && found.dev() == file.dev())
    };
    open.peek().is_none() || open.any(|entry| same(&entry.path()) == Some(true))
}
