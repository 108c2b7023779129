//! Folders with sockets below `/tmp`, which test processes that were killed left there.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A younger folder may belong to a program that is about to listen there.
const AGE_MIN: Duration = Duration::from_secs(600);

/// Removes the folders in which nothing listens any more. A program that needs one makes it anew.
pub fn sockets() -> Result<(), String> {
    let uid = rustix::process::getuid().as_raw();
    let top = PathBuf::from(format!("/tmp/neronet-{uid}"));
    let Ok(folders) = fs::read_dir(&top) else {
        // There is none, or it is not ours.
        return Ok(());
    };
    for folder in folders.flatten().map(|entry| entry.path()) {
        if is_left_behind(&folder) {
            fs::remove_dir_all(&folder)
                .map_err(|error| format!("{}: {error}", folder.display()))?;
        }
    }
    Ok(())
}

/// Whether a folder has nothing but sockets and their locks, and nothing listens.
fn is_left_behind(folder: &Path) -> bool {
    let modified = fs::metadata(folder).and_then(|found| found.modified());
    let age = modified.ok().and_then(|at| at.elapsed().ok());
    let Ok(entries) = fs::read_dir(folder) else {
        return false;
    };
    let is_dead = |path: PathBuf| {
        let is_socket = fs::symlink_metadata(&path).is_ok_and(|one| one.file_type().is_socket());
        if is_socket {
            UnixStream::connect(&path).is_err()
        } else {
            path.extension().is_some_and(|end| end == "lock")
        }
    };
    age.is_some_and(|age| age >= AGE_MIN) && entries.flatten().all(|entry| is_dead(entry.path()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::net::UnixListener;
    use std::time::SystemTime;

    use super::{AGE_MIN, is_left_behind};

    #[test]
    fn a_folder_goes_when_it_is_old_and_nothing_listens_there() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("mum.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        fs::write(folder.path().join("mum.sock.lock"), "").unwrap();
        let make_old = || {
            let old = SystemTime::now() - AGE_MIN;
            File::open(folder.path())
                .unwrap()
                .set_modified(old)
                .unwrap();
        };
        make_old();
        assert!(!is_left_behind(folder.path()), "somebody listens");
        drop(listener);
        assert!(is_left_behind(folder.path()));
        fs::write(folder.path().join("notes"), "").unwrap();
        make_old();
        assert!(!is_left_behind(folder.path()), "a file of another kind");
    }
}
