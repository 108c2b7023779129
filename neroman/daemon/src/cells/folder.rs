//! Changes of a table on the disk, which the kernel reports.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

/// The folder of a table.
#[derive(Debug)]
pub(super) struct FolderWatch {
    readable: AsyncFd<OwnedFd>,
    /// The table's name. Names of its locks contain it, or all but its first two letters.
    name: Vec<u8>,
}

impl FolderWatch {
    /// Watches the folder of a table; `None` where the kernel has no watch left.
    pub(super) fn of(file: &Path) -> Option<Self> {
        let name = file.file_name()?.to_str()?;
        let name: String = name.chars().skip(2).collect();
        let watch = || {
            let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            let changes = WatchFlags::CLOSE_WRITE
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE
                | WatchFlags::ATTRIB;
            inotify::add_watch(&fd, file.parent().unwrap_or(Path::new("/")), changes)?;
            readable(fd)
        };
        let readable = watch().ok()?;
        let name = name.into_bytes();
        Some(Self { readable, name })
    }

    /// Waits until the table or a lock beside it changed.
    pub(super) async fn changed(&self) {
        loop {
            let Ok(mut ready) = self.readable.readable().await else {
                return std::future::pending().await;
            };
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut events = inotify::Reader::new(self.readable.get_ref(), &mut buffer);
            let mut is_ours = false;
            while let Ok(event) = events.next() {
                let name = event.file_name().map(|name| name.to_bytes().to_vec());
                is_ours |= name.is_some_and(|name| self.is_about(&name));
            }
            ready.clear_ready();
            if is_ours {
                return;
            }
        }
    }

    fn is_about(&self, name: &[u8]) -> bool {
        let ours = OsStr::from_bytes(name).as_bytes();
        let is_private = ours.ends_with(b".neronet") || ours.ends_with(b".neronet-backup");
        !is_private
            && ours
                .windows(self.name.len().max(1))
                .any(|part| part == self.name)
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
