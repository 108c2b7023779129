//! The events that end a watcher's sleep: files that change, processes that
//! end.

use std::os::fd::OwnedFd;
use std::time::Duration;

use nero_model::ProcessId;
use nero_model::paths::run;
use nero_model::process::ProcessHandle;
use rustix::fs::fstatfs;
use tokio::io::unix::AsyncFd;

use crate::events::link::LinkEvent;
use crate::events::notify::{Changes, Notify, WatchKind};
use crate::events::readable::register;
use crate::folder::life::{self, Life};
use crate::folder::place::WatchedStart;
use crate::folder::segments;
use crate::output::readers;

/// Interval of looks at files when the kernel may not report changes.
const LOOK_MS: u64 = 1_000;

/// Reason why the watcher woke.
#[derive(Debug)]
pub enum Wake {
    /// Files changed.
    Changed(Changes),
    /// The shim ended, or, when no shim lives, the job.
    Ended,
    /// The next due time has come.
    Time,
    /// The connection to neromum has an event.
    Link(Option<LinkEvent>),
}

/// Watches files and processes.
#[derive(Debug)]
pub struct Waker {
    notify: Option<Notify>,
    /// Whether the kernel sees every write to these files.
    local: bool,
    control: bool,
    process: Option<(ProcessId, AsyncFd<OwnedFd>)>,
    /// The end of no process can be waited for: look from time to time.
    blind: bool,
}

impl Waker {
    /// A waker that watches nothing, for runs that are over.
    pub fn blind() -> Self {
        Self {
            notify: None,
            local: false,
            control: false,
            process: None,
            blind: true,
        }
    }

    /// For a live run.
    pub fn new(place: &WatchedStart, life: &Life) -> Self {
        let mut waker = Self {
            notify: Notify::new().ok(),
            local: is_local(place),
            control: false,
            process: None,
            blind: false,
        };
        if let Some(notify) = &mut waker.notify {
            let claim = place.folder.join(run::CLAIM);
            let complete = notify.watch(&place.folder, WatchKind::Folder).is_ok()
                && notify.watch(&claim, WatchKind::Life).is_ok();
            // Without these watches some changes are not reported.
            waker.local &= complete;
            // The folder may come later, with the first cancel request.
            waker.control = notify.watch(&place.control(), WatchKind::Control).is_ok();
        }
        waker.follow(place, life);
        waker
    }

    /// Watches files of metrics, and the nearest folders that exist above them, where
    /// they appear or are replaced.
    pub fn follow_files(&mut self, place: &WatchedStart) {
        let Some(notify) = &mut self.notify else {
            return;
        };
        for (_, path) in place.metric_files() {
            let mut folders = path.ancestors().skip(1).take_while(|one| *one != place.run);
            let _ = folders.find(|folder| notify.watch(folder, WatchKind::Files).is_ok());
            // A file that does not exist yet is a change of its folder, which is watched by
            // now: no file can come in between.
            let _ = notify.watch(&path, WatchKind::Log);
        }
    }

    /// Watches the files and processes that exist by now: logs, a launcher's
    /// segment, and the shim or, when it is dead, the job.
    pub fn follow(&mut self, place: &WatchedStart, life: &Life) {
        self.follow_files(place);
        if let Some(notify) = &mut self.notify {
            for log in [run::STDOUT, run::STDERR, run::LOGGED] {
                // A log that does not exist yet is a change of the folder.
                let _ = notify.watch(&place.folder.join(log), WatchKind::Log);
            }
            for (number, _) in place.readers().enumerate() {
                let _ = notify.watch(&readers::output(place, number), WatchKind::Log);
            }
            for prefix in ["launcher-", "mum-"] {
                for path in segments::list(&place.folder, prefix).unwrap_or_default() {
                    let _ = notify.watch(&path, WatchKind::Life);
                }
            }
        }
        let known = self.process.as_ref().map(|(process, _)| *process);
        // A process that has ended would wake us again and again.
        let alive = [life.known.shim, life.known.job].into_iter().flatten();
        for process in alive.filter(life::is_alive) {
            if known == Some(process) {
                self.blind = false;
                return;
            }
            let handle = ProcessHandle::open(&process);
            let fd = handle.and_then(|handle| register(handle.descriptor()?).ok());
            if let Some(fd) = fd {
                self.process = Some((process, fd));
                self.blind = false;
                return;
            }
        }
        self.process = None;
        self.blind = true;
    }

    /// Whether the kernel reports every change of the run's files.
    pub fn hears_files(&self) -> bool {
        self.local && self.notify.is_some()
    }

    /// Whether the kernel reports a new name in `control/`.
    pub fn hears_control(&self) -> bool {
        self.hears_files() && self.control
    }

    /// Whether the end of no process can be waited for.
    pub fn is_blind(&self) -> bool {
        self.blind
    }

    /// Time of the next look at files without a report.
    pub fn look_due_ms(&self, now_ms: u64) -> Option<u64> {
        let trusted = self.hears_files() && !self.blind;
        (!trusted).then_some(now_ms + LOOK_MS)
    }

    /// Sleeps until a file changes or the process ends. For the first
    /// `pause_ms`, and while `deaf`, only the process's end counts.
    pub async fn wake(&mut self, pause_ms: u64, deaf: bool) -> Wake {
        let ended = async {
            match &self.process {
                Some((_, fd)) => match fd.readable().await {
                    Ok(_) | Err(_) => Wake::Ended,
                },
                None => std::future::pending().await,
            }
        };
        let changed = async {
            if pause_ms > 0 {
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            }
            match &mut self.notify {
                Some(notify) if !deaf => notify.changed().await,
                _ => std::future::pending().await,
            }
        };
        let changed = tokio::select! {
            wake = ended => return wake,
            changed = changed => changed,
        };
        match changed {
            Ok(changes) => Wake::Changed(changes),
            Err(_) => {
                self.notify = None;
                Wake::Time
            }
        }
    }
}

/// File systems that no other machine writes to.
fn is_local(place: &WatchedStart) -> bool {
    const LOCAL: [u32; 9] = [
        0xef53,      // ext2, ext3, ext4
        0x5846_5342, // xfs
        0x9123_683e, // btrfs
        0x0102_1994, // tmpfs
        0x8584_58f6, // ramfs
        0x794c_7630, // overlayfs
        0xf2f5_2010, // f2fs
        0x2fc1_2fc1, // zfs
        0xca45_1a4e, // bcachefs
    ];
    std::fs::File::open(&place.folder)
        .ok()
        .and_then(|folder| fstatfs(folder).ok())
        .is_some_and(|found| LOCAL.contains(&(found.f_type as u32)))
}
