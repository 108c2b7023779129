//! Disks that show late what other hosts changed: the file system of `nero-disk`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::home::{Home, program};

/// The delay in milliseconds of the disk of each cluster that a test has alone, given by hand.
const DELAY_MS: &str = "NERO_LATE_MS";

/// The delay that was given by hand; zero: none was.
///
/// # Panics
/// When it is not a number.
pub fn delay_by_hand() -> Duration {
    let delay_ms = std::env::var(DELAY_MS).map(|text| text.parse().expect("a number of ms"));
    Duration::from_millis(delay_ms.unwrap_or(0))
}

/// The folder `node` of a home, as one host sees it; the mount ends when it is dropped.
#[derive(Debug)]
pub struct LateDisk {
    server: Child,
    description: PathBuf,
    full: PathBuf,
}

/// Gives this thread, and all that it starts from now on, mounts of their own; `None`, with a
/// message, where this user may not.
///
/// # Panics
/// When root may not.
pub(crate) fn may_mount() -> Option<()> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: a disk of its own needs root and /dev/fuse");
        return None;
    }
    // SAFETY: mounts alone are unshared, and no file descriptor depends on them.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.expect("root has mounts of its own");
    let private = Command::new("mount")
        .args(["--make-rprivate", "/"])
        .status();
    assert!(private.is_ok_and(|status| status.success()));
    Some(())
}

/// Starts `nero-disk` and waits until it is mounted.
///
/// # Panics
/// When it is not.
pub(crate) fn serve(description: &Path) -> Child {
    let mut server = Command::new(program("nero-disk"))
        .arg(description)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it is built");
    let mut line = String::new();
    let mut out = BufReader::new(server.stdout.take().expect("piped"));
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n", "{} is mounted", description.display());
    server
}

impl LateDisk {
    /// Mounts it for this thread, and for all that the thread starts from now on; `None`,
    /// with a message, where this user may not.
    ///
    /// # Panics
    /// When root cannot mount it.
    pub fn mounted(home: &Home, delay: Duration) -> Option<Self> {
        may_mount()?;
        let (behind, at) = (home.base().join("behind"), home.base().join("node"));
        for folder in [&behind, &at] {
            nero_model::paths::make_private(folder).expect("a folder");
        }
        // Not in the words of the server's command line: it is no process of the home.
        let description = home.path().join("late");
        let full = home.path().join("full");
        let (behind, at, full_at) = (behind.display(), at.display(), full.display());
        let text = format!("{behind}\n{at}\n{}\n{full_at}\n", delay.as_millis());
        fs::write(&description, text).expect("a file");
        let server = serve(&description);
        Some(Self {
            server,
            description,
            full,
        })
    }

    /// Refuses on every host what needs room, as a full disk does (`ENOSPC`) or a quota
    /// (`EDQUOT`).
    ///
    /// # Panics
    /// When the disk of this machine is full.
    pub fn fill(&self, why: Errno) {
        let fresh = self.full.with_extension("new");
        fs::write(&fresh, why.raw_os_error().to_string()).expect("a file");
        fs::rename(&fresh, &self.full).expect("same folder");
    }

    /// Undoes [`fill`](Self::fill).
    ///
    /// # Panics
    /// When it was not filled.
    pub fn empty(&self) {
        fs::remove_file(&self.full).expect("it was filled");
    }

    /// As [`LateDisk::mounted`], with the delay that was given by hand, if one was.
    ///
    /// # Panics
    /// As [`LateDisk::mounted`], and when it is not a number.
    pub fn by_hand(home: &Home) -> Option<Self> {
        let delay = delay_by_hand();
        if delay.is_zero() {
            None
        } else {
            Self::mounted(home, delay)
        }
    }

    /// The command with which another host mounts the same folder at the same place.
    pub fn command(&self) -> String {
        let server = program("nero-disk");
        format!("{} {}", server.display(), self.description.display())
    }
}

impl Drop for LateDisk {
    fn drop(&mut self) {
        let at = fs::read_to_string(&self.description).unwrap_or_default();
        if let Some(at) = at.lines().nth(1) {
            // A process that still works there is ended with its home.
            let _ = Command::new("umount").args(["-l", at]).status();
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
