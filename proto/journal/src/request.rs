//! Requests in a run's `control/` folder: `cancel.1`, `cancel.2` …, `pause.1`, `pause.2` …, each
//! complete or absent. Readers count from 1 up to the first gap: a file behind it is no request.
//! Other files of the folder have numbers with gaps.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use nero_model::paths::run;
use prost::Message;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::frame::{self, FrameKind, has_no_room};

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// The run is to end; a `nero.v1.Cancel`.
    Cancel,
    /// An odd one pauses the run, an even one ends the pause; a `nero.v1.Pause`.
    Pause,
}

impl RequestKind {
    /// Path of the request with this number.
    pub fn path(self, run_dir: &Path, number: u32) -> PathBuf {
        let kind = match self {
            Self::Cancel => "cancel",
            Self::Pause => "pause",
        };
        run_dir.join(run::CONTROL).join(format!("{kind}.{number}"))
    }

    /// Number of the newest request; 0: there is none.
    ///
    /// # Errors
    /// When the file system does not tell.
    pub fn newest(self, run_dir: &Path) -> io::Result<u32> {
        let mut newest = 0;
        loop {
            match self.path(run_dir, newest + 1).symlink_metadata() {
                Ok(_) => newest += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(newest),
                Err(error) => return Err(error),
            }
        }
    }

    /// Number of the newest request before the first one that is missing or cannot be looked at.
    pub fn newest_known(self, run_dir: &Path) -> u32 {
        let is_there = |number: &u32| self.path(run_dir, *number).symlink_metadata().is_ok();
        (1..).take_while(is_there).last().unwrap_or(0)
    }

    /// Makes the request with this number, on a disk without room or inodes, too. There the run's
    /// spec gets its path as a second name, and readers take it for a damaged request. Where a
    /// second name costs an inode, as on tmpfs, the spare is renamed instead. Returns false when
    /// a stand-in was used.
    ///
    /// # Errors
    /// See [`frame::create`]; `StorageFull` when the spare was used up, or was never made.
    pub fn create(self, run_dir: &Path, number: u32, message: &impl Message) -> io::Result<bool> {
        let path = self.path(run_dir, number);
        let kind = match self {
            Self::Cancel => FrameKind::Cancel,
            Self::Pause => FrameKind::Pause,
        };
        let full = match frame::create(kind, &path, message) {
            Err(error) if has_no_room(&error) => error,
            made => return made.map(|()| true),
        };
        match fs::hard_link(run_dir.join(run::SPEC), &path) {
            Err(error) if has_no_room(&error) => {}
            linked => return linked.map(|()| false),
        }
        let spare = run_dir.join(run::SPARE);
        match renameat_with(CWD, &spare, CWD, &path, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(false),
            Err(Errno::EXIST) => Err(Errno::EXIST.into()),
            Err(_) => Err(full),
        }
    }
}

/// Makes the next pause request, unless the newest one asks for the same. Returns the number of
/// the newest one, and whether it was made.
///
/// # Errors
/// When the disk refuses.
pub fn set_paused(
    run_dir: &Path,
    is_paused: bool,
    pause: &impl Message,
) -> io::Result<(u32, bool)> {
    loop {
        let newest = RequestKind::Pause.newest(run_dir)?;
        if is_paused == (newest % 2 == 1) {
            return Ok((newest, false));
        }
        match RequestKind::Pause.create(run_dir, newest + 1, pause) {
            Ok(_) => return Ok((newest + 1, true)),
            // Another process made this one meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// The numbers that `number` reads in names of a folder's files, highest first;
/// none when there is no folder.
///
/// # Errors
/// When the folder cannot be read.
pub fn numbers(folder: &Path, number: impl Fn(&OsStr) -> Option<u64>) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found: Vec<u64> = Vec::new();
    for entry in entries {
        found.extend(number(&entry?.file_name()));
    }
    found.sort_unstable_by(|left, right| right.cmp(left));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::Notice;

    #[test]
    fn a_pause_is_the_next_request_whatever_else_lies_there() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = folder.path();
        fs::create_dir(run_dir.join(run::CONTROL)).unwrap();
        // A job wrote it, and no shim reads it.
        let foreign = RequestKind::Pause.path(run_dir, u32::MAX);
        fs::write(foreign, "").unwrap();
        let set = |is_paused| set_paused(run_dir, is_paused, &Notice::default()).unwrap();
        assert_eq!(set(false), (0, false), "it is not paused");
        assert_eq!(set(true), (1, true));
        assert_eq!(set(true), (1, false), "it is paused already");
        assert_eq!(set(false), (2, true));
        assert_eq!(RequestKind::Pause.newest(run_dir).unwrap(), 2);
        assert_eq!(RequestKind::Pause.newest_known(run_dir), 2);
        assert_eq!(RequestKind::Cancel.newest(run_dir).unwrap(), 0);
    }
}
