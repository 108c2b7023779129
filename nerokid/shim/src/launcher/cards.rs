//! Parts of cards (GPUs) that a run has: locks on ranges of bytes of the cards' slot
//! files. The shim inherits them, the job does not, and the launcher keeps them for a
//! shim that dies. With their last process the kernel gives them back.

use std::fs::{File, FileTimes};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

use nero_journal::v1::CardLock;
use rustix::fs::{Mode, OFlags, open};

use crate::launcher::run::LaunchedRun;
use crate::sys;

/// How often a slot file is opened that is replaced meanwhile.
const TRIES: usize = 10;

/// Locks all of them, or none.
///
/// # Errors
/// `EBUSY` when another run has one.
pub fn lock_all(cards: &[CardLock]) -> io::Result<Vec<OwnedFd>> {
    cards.iter().map(lock).collect()
}

impl LaunchedRun {
    /// Locks what the shim of an earlier launcher had, and another run did not get since.
    pub fn lock_again(&mut self) {
        if self.locks.is_empty() {
            let free = self.cards.iter().filter_map(|card| lock(card).ok());
            self.locks = free.collect();
        }
    }
}

/// One open file for each: ranges of one would merge.
fn lock(card: &CardLock) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    for _ in 0..TRIES {
        let file = open(card.path.as_str(), flags, Mode::RUSR | Mode::WUSR)?;
        sys::lock_range(&file, card.start, card.length)?;
        let file = File::from(file);
        // Cleaners of /tmp remove old files. A lock on a removed file excludes no other launcher.
        let now = SystemTime::now();
        let times = FileTimes::new().set_accessed(now).set_modified(now);
        drop(file.set_times(times));
        if is_at(&file, Path::new(&card.path))? {
            return Ok(file.into());
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// Whether the open file is the one of this path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match path.symlink_metadata() {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_slot_file_is_young_and_a_removed_one_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("GPU-a.slots");
        let old = File::create(&path).unwrap();
        old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let card = CardLock {
            path: path.display().to_string(),
            start: 0,
            length: 1_000_000,
        };
        let locked = lock(&card).unwrap();
        let age = path.metadata().unwrap().modified().unwrap().elapsed();
        assert!(age.is_ok_and(|age| age.as_secs() < 3600));
        assert!(is_at(&old, &path).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&old, &path).unwrap());
        drop(File::create(&path).unwrap());
        assert!(!is_at(&old, &path).unwrap());
        drop(locked);
    }

    #[test]
    fn parts_fit_beside_each_other_and_are_free_when_their_last_holder_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("GPU-a.slots").display().to_string();
        let part = |start, length| {
            lock_all(&[CardLock {
                path: path.clone(),
                start,
                length,
            }])
        };
        let first = part(0, 600_000).unwrap();
        let busy = |taken: io::Result<_>| taken.unwrap_err().raw_os_error() == Some(libc::EBUSY);
        assert!(busy(part(0, 1_000_000)));
        assert!(busy(part(599_999, 1)));
        let second = part(600_000, 400_000).unwrap();
        drop(first);
        assert!(busy(part(0, 1_000_000)));
        drop(second);
        part(0, 1_000_000).unwrap();
    }
}
