//! Private folders for the keys and sockets of `node join` and `node welcome`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nero_model::ids::{base32, random};
use nero_model::paths::make_private;
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::fault::Fault;

const PREFIX: &str = "neronet-way-";
/// Held by the process that the folder belongs to.
const LOCK: &str = "lock";

/// A private folder that goes with this value, or after `kill -9` when the next one is made.
pub(super) struct PrivateFolder {
    path: PathBuf,
    _lock: File,
}

impl PrivateFolder {
    pub(super) fn make() -> Result<Self, Fault> {
        let place = std::env::temp_dir();
        remove_left(&place);
        Self::make_in(&place)
            .map_err(|error| Fault::failed("cannot make a folder of our own").because(&error))
    }

    fn make_in(place: &Path) -> io::Result<Self> {
        loop {
            let path = place.join(format!("{PREFIX}{}", base32(&random::<8>())));
            make_private(&path)?;
            let mut options = OpenOptions::new();
            let lock = options.write(true).create_new(true).mode(0o600);
            // Another process may have found the lock free meanwhile, and the folder left.
            let Ok(lock) = lock.open(path.join(LOCK)) else {
                continue;
            };
            flock(&lock, FlockOperation::LockExclusive)?;
            if lock.metadata()?.nlink() > 0 {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of processes that were killed.
fn remove_left(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) && is_left(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a folder is this user's, and the process that it belongs to is gone.
fn is_left(folder: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_own = fs::symlink_metadata(folder).is_ok_and(|of| of.is_dir() && of.uid() == own);
    let mut options = OpenOptions::new();
    let options = options
        .write(true)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    is_own
        && options
            .open(folder.join(LOCK))
            .is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_killed_processes_are_removed_and_no_others() {
        let place = tempfile::tempdir().unwrap();
        let left = place.path().join(format!("{PREFIX}left"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        fs::write(left.join("key"), "").unwrap();
        let unlocked = place.path().join(format!("{PREFIX}just-made"));
        fs::create_dir(&unlocked).unwrap();
        let live = PrivateFolder::make_in(place.path()).unwrap();
        remove_left(place.path());
        assert!(!left.exists());
        assert!(unlocked.exists() && live.path().join(LOCK).exists());
        let path = live.path().to_path_buf();
        drop(live);
        assert!(!path.exists());
    }
}
