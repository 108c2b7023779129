//! Full disks.

use std::fs::{self, File};
use std::io::{self, Write as _};
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
pub struct Small {
    folder: tempfile::TempDir,
    /// Holds the blocks of an ext4.
    _image: Option<tempfile::NamedTempFile>,
}

impl Small {
    /// One of this size; none, which is said, where this user may not mount.
    ///
    /// # Panics
    /// When it cannot be mounted though this user is root.
    pub fn mounted(mebibytes: u32) -> Option<Self> {
        Self::tmpfs(&format!("size={mebibytes}m"))
    }

    /// As [`Small::mounted`], with room for so many files: on this kind of file
    /// system each name of a file counts as one.
    ///
    /// # Panics
    /// When it cannot be mounted though this user is root.
    pub fn with_inodes(mebibytes: u32, inodes: u32) -> Option<Self> {
        Self::tmpfs(&format!("size={mebibytes}m,nr_inodes={inodes}"))
    }

    /// An ext4 of this size, of which a part is reserved for root; none, which is
    /// said, where this user may not mount, or has no loop device.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn ext4(mebibytes: u32) -> Option<Self> {
        let folder = folder()?;
        let image = tempfile::NamedTempFile::new().expect("a file");
        let bytes = u64::from(mebibytes) * 1024 * 1024;
        image.as_file().set_len(bytes).expect("a sparse file");
        let path = image.path();
        let mut making = Command::new("mkfs.ext4");
        making.args(["-q", "-m", "5"]).arg(path);
        let status = making.status().expect("mkfs.ext4 is installed");
        assert!(status.success(), "mkfs.ext4: {status}");
        let mut mounting = Command::new("mount");
        mounting.args(["-t", "ext4", "-o", "loop"]).arg(path);
        let mounted = mounting.arg(folder.path()).output().expect("mount");
        if !mounted.status.success() {
            eprintln!("skipped: no loop device: {mounted:?}");
            return None;
        }
        Some(Self {
            folder,
            _image: Some(image),
        })
    }

    fn tmpfs(options: &str) -> Option<Self> {
        let folder = folder()?;
        mount(&["-t", "tmpfs", "-o", options, "tmpfs"], folder.path());
        Some(Self {
            folder,
            _image: None,
        })
    }

    /// Where it begins.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Leaves no block free, not even to root.
    ///
    /// # Panics
    /// When others always find one.
    pub fn fill(&self) {
        fill(&self.filler()).expect("a full disk");
        let filler = File::options().append(true).open(self.filler());
        let block = [0; 4096];
        let mut filler = filler.expect("the filler");
        while filler.write_all(&block).is_ok() {}
    }

    /// Leaves no inode free.
    ///
    /// # Panics
    /// When they cannot be used up.
    pub fn fill_inodes(&self) {
        let folder = self.filler();
        fs::create_dir(&folder).expect("an inode");
        let made = (0..).map(|number: u32| File::create(folder.join(number.to_string())));
        let refused = made.filter_map(Result::err).next();
        let refused = refused.expect("an end of inodes");
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull, "{refused}");
    }

    /// Gives the room back.
    ///
    /// # Panics
    /// When it was not filled.
    pub fn empty(&self) {
        let filler = self.filler();
        let emptied = match filler.is_dir() {
            true => fs::remove_dir_all(filler),
            false => fs::remove_file(filler),
        };
        emptied.expect("a full disk");
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

/// A folder to mount something in.
fn folder() -> Option<tempfile::TempDir> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting a small file system needs root");
        return None;
    }
    let mut folder = tempfile::Builder::new();
    Some(folder.prefix("ns").tempdir().expect("a folder"))
}

fn mount(words: &[&str], folder: &Path) {
    let status = Command::new("mount").args(words).arg(folder).status();
    assert!(status.expect("mount is installed").success(), "{words:?}");
}

fn unmount(folder: &Path) {
    // Whoever still works there ends by itself.
    let _ = Command::new("umount").arg("-l").arg(folder).status();
}
