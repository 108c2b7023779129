//! Full disks.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

/// Tries to fill the disk while other processes free and take space.
const TRIES: usize = 20;

/// Makes `filler`, which takes all free space of its file system.
///
/// # Errors
/// When `filler` cannot be made, or other processes free space all the time.
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
    /// A tmpfs of this size; `None`, with a message, where this user may not
    /// mount.
    ///
    /// # Panics
    /// When root cannot mount it.
    pub fn mounted(mebibytes: u32) -> Option<Self> {
        Self::tmpfs(&format!("size={mebibytes}m"))
    }

    /// As [`Small::mounted`], with this number of inodes: on tmpfs each name of
    /// a file takes one.
    ///
    /// # Panics
    /// When root cannot mount it.
    pub fn with_inodes(mebibytes: u32, inodes: u32) -> Option<Self> {
        Self::tmpfs(&format!("size={mebibytes}m,nr_inodes={inodes}"))
    }

    /// An ext4 of this size with a reserve for root; `None`, with a message,
    /// where this user may not mount, or has no loop device.
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

    /// Its mount point.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Leaves no free block, not even for root.
    ///
    /// # Panics
    /// When other processes free blocks all the time.
    pub fn fill(&self) {
        fill(&self.filler()).expect("a full disk");
        let filler = File::options().append(true).open(self.filler());
        let block = [0; 4096];
        let mut filler = filler.expect("the filler");
        while filler.write_all(&block).is_ok() {}
    }

    /// Leaves no free inode.
    ///
    /// # Panics
    /// When the inodes cannot be used up.
    pub fn fill_inodes(&self) {
        let folder = self.filler();
        fs::create_dir(&folder).expect("an inode");
        let made = (0..).map(|number: u32| File::create(folder.join(number.to_string())));
        let refused = made.filter_map(Result::err).next();
        let refused = refused.expect("an end of inodes");
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull, "{refused}");
    }

    /// Frees the room again.
    ///
    /// # Panics
    /// When the disk was not filled.
    pub fn empty(&self) {
        let filler = self.filler();
        let emptied = if filler.is_dir() {
            fs::remove_dir_all(filler)
        } else {
            fs::remove_file(filler)
        };
        emptied.expect("a full disk");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        unmount(self.path());
    }
}

/// A folder that is mounted from elsewhere; unmounted when dropped.
#[derive(Debug)]
pub struct Bound(PathBuf);

impl Bound {
    /// Mounts `folder` at `place`, which is made when it does not exist.
    ///
    /// # Panics
    /// When this user may not mount.
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
    // A process that still works there ends by itself.
    let _ = Command::new("umount").arg("-l").arg(folder).status();
}
