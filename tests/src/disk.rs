//! Full disks.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

/// So often others may take what was free a moment ago.
const TRIES: usize = 20;

/// Makes `filler`, which takes all that is free on its file system.
///
/// # Errors
/// When it cannot be made, or others are always faster.
pub fn fill(filler: &Path) -> io::Result<()> {
    let file = File::create(filler)?;
    let mut tries = 0;
    loop {
        let about = statvfs(filler)?;
        let free = about.f_bavail * about.f_frsize;
        if free == 0 {
            return Ok(());
        }
        match fallocate(&file, FallocateFlags::empty(), 0, free) {
            Ok(()) => return Ok(()),
            Err(Errno::NOSPC) if tries < TRIES => tries += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// A small file system of its own; unmounted when dropped.
#[derive(Debug)]
pub struct Small(tempfile::TempDir);

impl Small {
    /// One of this size; none, which is said, where this user may not mount.
    ///
    /// # Panics
    /// When it cannot be mounted though this user is root.
    pub fn mounted(mebibytes: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: mounting a small file system needs root");
            return None;
        }
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix("ns").tempdir().expect("a folder");
        let size = format!("size={mebibytes}m");
        mount(&["-t", "tmpfs", "-o", &size, "tmpfs"], folder.path());
        Some(Self(folder))
    }

    /// Where it begins.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Leaves no block free.
    ///
    /// # Panics
    /// When others always find one.
    pub fn fill(&self) {
        fill(&self.filler()).expect("a full disk");
    }

    /// Gives the room back.
    ///
    /// # Panics
    /// When it was not filled.
    pub fn empty(&self) {
        fs::remove_file(self.filler()).expect("a full disk");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        unmount(self.path());
    }
}

/// A folder that lies elsewhere; as it was when dropped.
#[derive(Debug)]
pub struct Bound(PathBuf);

impl Bound {
    /// Has `folder` lie at `place`; made when it is not there.
    ///
    /// # Panics
    /// When this user may not.
    pub fn at(folder: &Path, place: &Path) -> Self {
        fs::create_dir_all(folder).expect("a folder");
        mount(&["--bind", &place.display().to_string()], folder);
        Self(folder.to_owned())
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

fn mount(words: &[&str], folder: &Path) {
    let status = Command::new("mount").args(words).arg(folder).status();
    assert!(status.expect("mount is installed").success(), "{words:?}");
}

fn unmount(folder: &Path) {
    // Whoever still works there ends by itself.
    let _ = Command::new("umount").arg("-l").arg(folder).status();
}
