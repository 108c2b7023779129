//! Parts of cards (GPUs) that a run has: locks on ranges of bytes of the cards' slot
//! files. The shim inherits them, the job does not, and the launcher keeps them for a
//! shim that dies. With their last process the kernel gives them back.

use std::io;
use std::os::fd::OwnedFd;

use nero_journal::v1::CardLock;
use rustix::fs::{Mode, OFlags, open};

use crate::launcher::run::LaunchedRun;
use crate::sys;

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
    let file = open(card.path.as_str(), flags, Mode::RUSR | Mode::WUSR)?;
    sys::lock_range(&file, card.start, card.length)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

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
