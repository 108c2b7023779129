//! Waits until the kernel reports a change of one file.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

pub use rustix::fs::inotify::WatchFlags;
use rustix::fs::inotify::{self, CreateFlags};
use tokio::io::unix::AsyncFd;

/// Changes of one file.
#[derive(Debug)]
pub struct Watch(AsyncFd<OwnedFd>);

impl Watch {
    /// Watches a file for these changes.
    ///
    /// # Errors
    /// When the file does not exist, or the kernel has no watch left.
    pub fn of(path: &Path, changes: WatchFlags) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        inotify::add_watch(&fd, path, changes)?;
        readable(fd).map(Self)
    }

    /// Waits for the next change, or for the first since the last call.
    ///
    /// # Errors
    /// When the kernel reports no more changes.
    pub async fn changed(&self) -> io::Result<()> {
        let mut ready = self.0.readable().await?;
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = inotify::Reader::new(self.0.get_ref(), &mut buffer);
        while events.next().is_ok() {}
        ready.clear_ready();
        Ok(())
    }
}

/// Returns when an open file has no name left; never returns where the kernel
/// has no watch left.
pub async fn removed(file: &File, path: &Path) {
    let Ok(watch) = Watch::of(path, WatchFlags::ATTRIB) else {
        return std::future::pending().await;
    };
    while file.metadata().is_ok_and(|found| found.nlink() > 0) {
        if watch.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Lets the reactor wait for a descriptor.
#[expect(
    deprecated,
    reason = "its replacement is unsafe for the sake of types that may close their descriptor; an OwnedFd does not"
)]
fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, tokio::io::Interest::READABLE)
}
