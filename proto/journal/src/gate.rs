//! The gate between a claimed start and user code, as one name on disk.
//!
//! A shim writes its claim under a private name and gives it the name `claim`.
//! The private name stays: it is the gate. The job's process removes it just
//! before `execve`; a launcher or a neromum that is about to write
//! `JobNotStarted{GATE}` renames it to [`CLOSED`] first. The file server lets
//! only one of them have the name, so user code runs or the start is made
//! again, never both, even if the job's process outlives the shim and the
//! watcher. Every start makes the private name anyway, so the gate costs
//! neither an inode nor a system call more.
//!
//! Shims of earlier builds removed the private name themselves, before they
//! made the job. With such a shim a private name proves that no job was made;
//! without one a job may be under way. A start whose shim died in between is
//! held until a person decides.

use std::ffi::CStr;
use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, unlinkat};
use rustix::io::Errno;

use crate::SegmentId;

/// The gate's name, in the incarnation's folder, once it is closed for ever.
pub const CLOSED: &str = "gate.closed";

/// The gate's name while it is open: the private name of the claim.
pub fn name(claim: SegmentId) -> String {
    format!(".{claim}")
}

/// Result of closing a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// No user code ran, and none ever will.
    Closed,
    /// The job passed, or may yet pass: the start counts as made.
    Passed,
}

/// Passes the gate, in the job's process. Returns true when it may execute user
/// code. `claim_has_one_name` counts the names of the claim. Allocates nothing.
pub fn pass(gate: &CStr, claim_has_one_name: impl FnOnce() -> bool) -> bool {
    match unlinkat(CWD, gate, AtFlags::empty()) {
        Ok(()) => true,
        // The file server may have removed the name and its answer been lost.
        // If the gate was closed, the claim has a second name.
        Err(Errno::NOENT) => claim_has_one_name(),
        Err(_) => false,
    }
}

/// Closes the gate of the start with this folder and claim, unless the job has
/// passed. Closing it again returns the same.
///
/// # Errors
/// When the disk shows neither. The caller may conclude nothing then.
pub fn close(folder: &Path, claim: SegmentId) -> io::Result<Gate> {
    let closed = folder.join(CLOSED);
    match std::fs::rename(folder.join(name(claim)), &closed) {
        Ok(()) => Ok(Gate::Closed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match std::fs::symlink_metadata(&closed) {
                Ok(_) => Ok(Gate::Closed),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Gate::Passed),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::Barrier;

    const CLAIM: SegmentId = SegmentId([7; 8]);

    fn claimed() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let private = folder.path().join(name(CLAIM));
        fs::write(&private, "claim").unwrap();
        fs::hard_link(&private, folder.path().join("claim")).unwrap();
        folder
    }

    fn passes(folder: &Path) -> bool {
        let gate = CString::new(folder.join(name(CLAIM)).as_os_str().as_bytes()).unwrap();
        pass(&gate, || {
            fs::metadata(folder.join("claim")).is_ok_and(|claim| claim.nlink() == 1)
        })
    }

    #[test]
    fn a_closed_gate_stays_closed_for_the_job_and_a_passed_one_passed_for_all_others() {
        let folder = claimed();
        assert_eq!(close(folder.path(), CLAIM).unwrap(), Gate::Closed);
        assert!(!passes(folder.path()));
        assert_eq!(close(folder.path(), CLAIM).unwrap(), Gate::Closed);
        let folder = claimed();
        assert!(passes(folder.path()));
        assert_eq!(close(folder.path(), CLAIM).unwrap(), Gate::Passed);
    }

    #[test]
    fn a_job_passes_when_the_answer_of_the_file_server_was_lost() {
        let folder = claimed();
        fs::remove_file(folder.path().join(name(CLAIM))).unwrap();
        assert!(passes(folder.path()));
    }

    #[test]
    fn a_job_whose_folder_was_removed_does_not_pass() {
        let folder = claimed();
        fs::remove_dir_all(folder.path()).unwrap();
        assert!(!passes(folder.path()));
    }

    #[test]
    fn of_a_job_and_two_who_close_at_the_same_time_one_side_wins() {
        for _ in 0..200 {
            let folder = claimed();
            let start = Barrier::new(3);
            let closing = || {
                start.wait();
                close(folder.path(), CLAIM).unwrap()
            };
            std::thread::scope(|scope| {
                let closers = [scope.spawn(closing), scope.spawn(closing)];
                start.wait();
                let passed = passes(folder.path());
                let expected = if passed { Gate::Passed } else { Gate::Closed };
                for closer in closers {
                    assert_eq!(closer.join().unwrap(), expected);
                }
            });
        }
    }
}
