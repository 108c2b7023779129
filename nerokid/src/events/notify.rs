//! Notifications of the kernel about changed files: a speed-up, never relied on.
//!
//! On network file systems the kernel reports no writes of other machines, and a
//! user may have run out of instances; then the watcher looks from time to time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};
use tokio::io::unix::AsyncFd;

use crate::events::readable::register;

/// Room for events; more come with the next read.
const BUFFER_BYTES: usize = 4096;

/// The changed files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// A log grew, or was cut.
    pub logs: bool,
    /// The claim or a launcher's segment was written.
    pub life: bool,
    /// Names appeared in the incarnation's folder or left it.
    pub folder: bool,
    /// Names appeared in `control/`.
    pub control: bool,
    /// Names appeared in a folder of files of metrics.
    pub files: bool,
}

/// Kind of a watched path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchKind {
    /// One of the logs, or a file of metrics.
    Log,
    /// The claim, or a launcher's segment.
    Life,
    /// The incarnation's folder.
    Folder,
    /// `control/`.
    Control,
    /// A folder of files of metrics.
    Files,
}

/// The descriptor, and the watched paths.
#[derive(Debug)]
pub struct Notify {
    inotify: Inotify,
    /// The same descriptor once more, to wait for.
    readable: AsyncFd<OwnedFd>,
    watched: Vec<(WatchDescriptor, WatchKind)>,
}

impl Notify {
    /// A new descriptor that watches nothing yet.
    ///
    /// # Errors
    /// When the kernel has no instance left for this user.
    pub fn new() -> io::Result<Self> {
        let inotify = Inotify::init()?;
        Ok(Self {
            readable: register(inotify.as_fd().try_clone_to_owned()?)?,
            inotify,
            watched: Vec::new(),
        })
    }

    /// Watches a path; watching it twice is watching it once.
    ///
    /// # Errors
    /// When the path does not exist, or this user watches too many.
    pub fn watch(&mut self, path: &Path, what: WatchKind) -> io::Result<()> {
        let mask = match what {
            WatchKind::Log | WatchKind::Life => WatchMask::MODIFY,
            WatchKind::Folder => {
                WatchMask::CREATE | WatchMask::MOVED_TO | WatchMask::DELETE | WatchMask::MOVED_FROM
            }
            WatchKind::Control | WatchKind::Files => WatchMask::CREATE | WatchMask::MOVED_TO,
        };
        let descriptor = self.inotify.watches().add(path, mask)?;
        if !self.watched.iter().any(|(known, _)| *known == descriptor) {
            self.watched.push((descriptor, what));
        }
        Ok(())
    }

    /// Waits for changes and returns them.
    ///
    /// # Errors
    /// When the descriptor cannot be read.
    pub async fn changed(&mut self) -> io::Result<Changes> {
        loop {
            let mut ready = self.readable.readable().await?;
            let mut buffer = [0; BUFFER_BYTES];
            match self.inotify.read_events(&mut buffer) {
                Ok(events) => {
                    let mut changes = Changes::default();
                    for event in events {
                        // Too many events for the kernel's queue: look everywhere.
                        if event.mask.contains(EventMask::Q_OVERFLOW) {
                            return Ok(Changes {
                                logs: true,
                                life: true,
                                folder: true,
                                control: true,
                                files: true,
                            });
                        }
                        if event.mask.contains(EventMask::IGNORED) {
                            self.watched.retain(|(known, _)| *known != event.wd);
                            continue;
                        }
                        let what = self.watched.iter().find(|(known, _)| *known == event.wd);
                        match what {
                            Some((_, WatchKind::Log)) => changes.logs = true,
                            Some((_, WatchKind::Life)) => changes.life = true,
                            Some((_, WatchKind::Folder)) => changes.folder = true,
                            Some((_, WatchKind::Control)) => changes.control = true,
                            Some((_, WatchKind::Files)) => changes.files = true,
                            None => {}
                        }
                    }
                    return Ok(changes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
