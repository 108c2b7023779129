//! Copies checkpoints of an earlier run on this node into a new work folder:
//! matching files are copied (sharing blocks where the file system can), links
//! are copied as links, and nothing is followed. The earlier folder is a job's,
//! and hostile; the new one is ours alone until it gets its name.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::files::list::{Listing, walk};
use crate::files::{link_below, open_below, open_folder};

/// Reason why checkpoints cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The earlier run's folder cannot be used.
    #[error("cannot read the files of the earlier run at {path}")]
    Earlier {
        /// Its work folder, or a file in it.
        path: PathBuf,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// More files match than the limit.
    #[error("too many files of the earlier run fit `checkpoint:` at {path}")]
    TooMany {
        /// Its work folder.
        path: PathBuf,
    },
    /// A file cannot be made.
    #[error("cannot make {path}")]
    Make {
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
}

/// The copied files, and the links still to be made.
#[derive(Debug)]
pub struct CopiedCheckpoints {
    earlier: PathBuf,
    folder: OwnedFd,
    files: usize,
    links: Vec<String>,
}

/// Copies the matching files from `earlier` into `work`, which has no folder
/// behind a link.
///
/// # Errors
/// See [`ResumeError`].
pub fn carry(
    earlier: &Path,
    patterns: &[String],
    work: &Path,
) -> Result<CopiedCheckpoints, ResumeError> {
    let Listing { reply, links, full } = walk(earlier, patterns).map_err(unreadable(earlier))?;
    if full {
        let path = earlier.to_path_buf();
        return Err(ResumeError::TooMany { path });
    }
    for left_out in &reply.left_out {
        tracing::info!(file = %left_out, "not carried over from the earlier run");
    }
    let folder = open_folder(earlier).map_err(unreadable(earlier))?;
    for entry in &reply.files {
        let path = Path::new(&entry.path);
        let source = open_below(&folder, path).map_err(unreadable(&earlier.join(path)))?;
        let to = work.join(path);
        make_room(work, path).map_err(made(&to))?;
        copy(source, &to).map_err(made(&to))?;
    }
    Ok(CopiedCheckpoints {
        earlier: earlier.to_path_buf(),
        folder,
        files: reply.files.len(),
        links,
    })
}

impl CopiedCheckpoints {
    /// Whether nothing matched: the run begins at its beginning.
    pub fn is_empty(&self) -> bool {
        self.files == 0 && self.links.is_empty()
    }

    /// Makes the matching links. Nothing may be made in `work` after that: it
    /// could go through one of them.
    ///
    /// # Errors
    /// See [`ResumeError`].
    pub fn links(self, work: &Path) -> Result<(), ResumeError> {
        for path in &self.links {
            let path = Path::new(path);
            let target = link_below(&self.folder, path);
            let target = target.map_err(unreadable(&self.earlier.join(path)))?;
            let to = work.join(path);
            make_room(work, path).map_err(made(&to))?;
            symlink(target, &to).map_err(made(&to))?;
        }
        Ok(())
    }
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> ResumeError {
    let path = path.to_path_buf();
    move |source| ResumeError::Earlier { path, source }
}

fn made(path: &Path) -> impl FnOnce(io::Error) -> ResumeError {
    let path = path.to_path_buf();
    move |source| ResumeError::Make { path, source }
}

/// Makes the folders above a path, and removes files in the way: a file of the
/// code where the job had made a folder, or the file itself.
fn make_room(work: &Path, path: &Path) -> io::Result<()> {
    let above: Vec<&Path> = path.ancestors().skip(1).collect();
    for folder in above
        .iter()
        .rev()
        .filter(|part| part.components().count() > 0)
    {
        let folder = work.join(folder);
        match fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => continue,
            Ok(_) => fs::remove_file(&folder)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        super::private_folder(&folder)?;
    }
    let to = work.join(path);
    match fs::symlink_metadata(&to) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(&to),
        Ok(_) => fs::remove_file(&to),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn copy(mut source: File, to: &Path) -> io::Result<()> {
    let executable = source.metadata()?.mode() & 0o100;
    let mut target = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600 | executable)
        .open(to)?;
    if rustix::fs::ioctl_ficlone(&target, &source).is_ok() {
        return Ok(());
    }
    io::copy(&mut source, &mut target).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn checkpoints_come_and_nothing_is_followed() {
        let place = tempfile::tempdir().unwrap();
        let (earlier, work) = (place.path().join("earlier"), place.path().join("work"));
        fs::create_dir_all(earlier.join("ckpt/deep")).unwrap();
        fs::create_dir_all(work.join("ckpt/three")).unwrap();
        fs::write(place.path().join("secret"), "no").unwrap();
        fs::write(earlier.join("ckpt/one.pt"), "one").unwrap();
        fs::write(earlier.join("ckpt/deep/two.pt"), "two").unwrap();
        fs::write(earlier.join("ckpt/three"), "a file now").unwrap();
        fs::write(earlier.join("log.txt"), "not wanted").unwrap();
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(earlier.join("ckpt/one.pt"), mode).unwrap();
        symlink("one.pt", earlier.join("ckpt/last.pt")).unwrap();
        symlink("../../secret", earlier.join("ckpt/evil.pt")).unwrap();
        symlink("..", earlier.join("ckpt/up")).unwrap();
        let fifo = std::process::Command::new("mkfifo")
            .arg(earlier.join("ckpt/pipe.pt"))
            .status();
        assert!(fifo.unwrap().success());
        // The code has a file where the checkpoint has a folder.
        fs::write(work.join("ckpt/deep"), "code").unwrap();
        fs::write(work.join("ckpt/one.pt"), "code").unwrap();
        let patterns = ["ckpt/**".to_owned()];
        let carried = carry(&earlier, &patterns, &work).unwrap();
        assert_eq!((carried.files, carried.links.len()), (3, 3));
        carried.links(&work).unwrap();
        let read = |path: &str| fs::read_to_string(work.join(path)).unwrap();
        assert_eq!(read("ckpt/one.pt"), "one");
        assert_eq!(read("ckpt/deep/two.pt"), "two");
        assert_eq!(read("ckpt/three"), "a file now");
        let link = |path: &str| fs::read_link(work.join(path)).unwrap();
        assert_eq!(link("ckpt/last.pt"), Path::new("one.pt"));
        assert_eq!(link("ckpt/evil.pt"), Path::new("../../secret"));
        assert!(!work.join("log.txt").exists() && !work.join("ckpt/pipe.pt").exists());
        let mode = fs::metadata(work.join("ckpt/one.pt")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
