//! Runs of an earlier launcher: their shims live without being our children,
//! or their jobs without any shim.
//!
//! What is to be done is read from the disk; the request only says where. A
//! shim that lives is waited for by its handle; a job without one is looked
//! after, but its exit code cannot be known.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::Guard;
use nero_journal::v1::changed::What;
use nero_model::ProcessId;
use nero_model::paths::run::{SPEC, WATCH_LOCK};
use nero_model::process::Life;
use rustix::fs::{FlockOperation, flock};

use super::Launcher;
use crate::clock;
use crate::journal::Subject;
use crate::launcher::evidence::Evidence;
use crate::launcher::run::{self, Care, Run, RunKey};
use crate::launcher::takeover::Legacy;
use crate::launcher::watch::{State, Watch};
use crate::sys;
use crate::tree::Member;

/// What a guard needs of a `nero.v1.RunSpec`.
#[derive(Clone, PartialEq, prost::Message)]
struct Spec {
    #[prost(message, optional, tag = "13")]
    monitor: Option<Monitor>,
}

/// What a guard needs of a `nero.v1.Monitor`.
#[derive(Clone, PartialEq, prost::Message)]
struct Monitor {
    #[prost(bool, tag = "3")]
    wait_for_strays: bool,
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
            Run {
                subject: Subject {
                    token,
                    incarnation: guard.incarnation,
                    boot_id: self.own.process.boot_id,
                },
                run_dir: guard.run_dir.clone(),
                grace_ms: guard.grace_ms,
                wait_for_strays: waits_for_strays(Path::new(&guard.run_dir)),
                time_limit_ms: guard.time_limit_ms,
                work_dir: run_dir,
                marks: Vec::new(),
                care: Care::Over,
                announce_at_ns: None,
                watch: Watch::new(&guard.watcher, clock::now_ns()),
                wake_at_ns: None,
            },
        );
        let identity = |process: &Option<nero_journal::v1::Process>| process.as_ref()?.identity();
        self.judge(key, identity(&guard.shim), identity(&guard.job));
        self.reschedule(key);
    }

    /// The shim of an earlier launcher ended.
    pub(super) fn elder_ended(&mut self, key: RunKey) {
        self.judge(key, None, None);
    }

    /// Decides by what lies on disk who looks after the run.
    fn judge(&mut self, key: RunKey, shim: Option<ProcessId>, job: Option<ProcessId>) {
        let Some(run) = self.runs.get(&key) else {
            return;
        };
        let folder = run.folder();
        let mut evidence = match Evidence::read(Path::new(&folder)) {
            Ok(evidence) => evidence,
            Err(error) => {
                // Not ended, as far as anybody knows: asked again, we look again.
                self.log(format_args!("cannot read {folder}: {error}"));
                self.runs.remove(&key);
                return;
            }
        };
        if evidence.claim.is_none() {
            return self.run_ended(key, What::NoClaim, 0);
        }
        if evidence.token != run.subject.token {
            return self.run_ended(key, What::Superseded, 0);
        }
        // After a restart of the machine nothing lives, and it is neromum who
        // says so.
        if evidence.gone || evidence.boot_id != self.own.process.boot_id {
            return self.run_ended(key, What::Ended, 0);
        }
        evidence.shim = evidence.shim.or(shim);
        evidence.job = evidence.job.or(job);
        if let Some(job) = evidence.job.map(member) {
            let environment = std::fs::read(format!("/proc/{}/environ", job.pid));
            if let (Ok(bytes), Some(run)) = (environment, self.runs.get_mut(&key))
                && super::care::is_alive(job)
                && run.marks.is_empty()
            {
                run.marks = run::marks(bytes.split(|byte| *byte == 0));
            }
        }
        match evidence.shim.map_or(Ok(Life::Dead), |shim| shim.life()) {
            Ok(Life::Alive) => {
                let shim = evidence.shim.map(member).unwrap_or_default();
                self.wait_for_elder(key, shim);
            }
            Ok(Life::Dead | Life::Zombie | Life::Rebooted) => self.without_shim(key, evidence),
            Ok(Life::Elsewhere) | Err(_) => {
                self.log(format_args!("cannot see the processes of {folder}"));
                self.runs.remove(&key);
            }
        }
    }

    fn wait_for_elder(&mut self, key: RunKey, shim: Member) {
        let handle = sys::pidfd_open(shim.pid).ok();
        // Looked at again now that the handle is there: it is the same one.
        if handle.is_some() && !super::care::is_alive(shim) {
            return self.judge(key, None, None);
        }
        if let Some(handle) = &handle {
            self.wait_for_handle(handle, key, super::RUN);
        }
        if let Some(run) = self.runs.get_mut(&key) {
            run.care = Care::Elder { shim, handle };
        }
        self.find_elder_watcher(key);
    }

    fn without_shim(&mut self, key: RunKey, evidence: Evidence) {
        let Some(job) = evidence.job else {
            // Nobody opened its gate: what is not written down never ran.
            return self.close_on_disk(key, evidence, true);
        };
        self.keep(
            key,
            Legacy {
                evidence,
                leader: member(job),
                is_parent: false,
                slot: None,
            },
        );
        self.find_elder_watcher(key);
    }

    /// A watcher of an earlier launcher goes on; ours is due when it ends.
    fn find_elder_watcher(&mut self, key: RunKey) {
        let Some(run) = self.runs.get(&key) else {
            return;
        };
        if !run.is_live() || run.watch.due_ns().is_none() {
            return;
        }
        let Some(handle) = watcher_of(&run.folder()) else {
            return;
        };
        self.wait_for_handle(&handle, key, super::WATCHER);
        if let Some(run) = self.runs.get_mut(&key) {
            run.watch.state = State::Elder { _handle: handle };
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

/// What the spec says; a spec that cannot be read says what most do.
fn waits_for_strays(run_dir: &Path) -> bool {
    let spec = frame::read::<Spec>(FrameKind::Spec, &run_dir.join(SPEC));
    spec.ok()
        .and_then(|spec| spec.monitor)
        .is_some_and(|monitor| monitor.wait_for_strays)
}

/// A handle on the process that holds a run's watch lock, if any does. The
/// kernel lists locks with their holders; the holder has the file open.
fn watcher_of(folder: &str) -> Option<OwnedFd> {
    let lock = File::open(Path::new(folder).join(WATCH_LOCK)).ok()?;
    if flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
        return None;
    }
    let locked = lock.metadata().ok()?;
    let listed = std::fs::read_to_string("/proc/locks").ok()?;
    let inode = format!(":{}", locked.ino());
    let holders = listed.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(4);
        let pid: i32 = fields.next()?.parse().ok()?;
        fields.next()?.ends_with(&inode).then_some(pid)
    });
    holders.filter(|pid| *pid > 0).find_map(|pid| {
        let handle = sys::pidfd_open(pid).ok()?;
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let same = |path: &Path| {
            let found = std::fs::metadata(path).ok()?;
            Some(found.ino() == locked.ino() && found.dev() == locked.dev())
        };
        open.flatten()
            .any(|entry| same(&entry.path()) == Some(true))
            .then_some(handle)
    })
}
