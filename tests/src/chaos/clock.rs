//! A wall clock that can be set, for programs that use the C library: those below this process, by
//! an `/etc/ld.so.preload` in a mount name space of their own, or those that a test names, by
//! `LD_PRELOAD`. Both load `rig/clock.c`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Path of the clock's files, the same on this machine and its hosts.
const FOLDER: &str = "/etc/neronet-chaos";

/// The clock of all programs that start after it was made.
#[derive(Debug)]
pub struct WallClock(File);

impl WallClock {
    /// Makes the clock; `None` where this user may not. To be called before any thread or program
    /// is started.
    ///
    /// # Errors
    /// When this user may, and making the clock fails.
    pub fn make() -> io::Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        // SAFETY: mounts alone are unshared, and no file descriptor depends on them.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
        let layers = tempfile::Builder::new().prefix("nk").tempdir()?.keep();
        let at = layers.display();
        run("mount", &["--make-rprivate", "/"])?;
        run("mount", &["-t", "tmpfs", "tmpfs", &at.to_string()])?;
        fs::create_dir(layers.join("upper"))?;
        fs::create_dir(layers.join("work"))?;
        let options = format!("lowerdir=/etc,upperdir={at}/upper,workdir={at}/work");
        run(
            "mount",
            &["-t", "overlay", "overlay", "-o", &options, "/etc"],
        )?;
        let (clock, library) = Self::preloaded(Path::new(FOLDER))?;
        fs::write("/etc/ld.so.preload", format!("{library}\n"))?;
        Ok(Some(clock))
    }

    /// Makes a clock in a new folder, for the programs whose `LD_PRELOAD` names the library
    /// that is returned.
    ///
    /// # Errors
    /// When making the clock fails.
    pub fn preloaded(folder: &Path) -> io::Result<(Self, String)> {
        fs::create_dir(folder)?;
        let at = folder.display();
        let (library, offset) = (format!("{at}/clock.so"), format!("{at}/clock"));
        let clock = Self(File::create(&offset)?);
        clock.set(0)?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("rig/clock.c");
        let define = format!("-DCLOCK_FILE=\"{offset}\"");
        let source = source.display().to_string();
        run(
            "cc",
            &["-O1", "-shared", "-fPIC", &define, "-o", &library, &source],
        )?;
        Ok((clock, library))
    }

    /// Sets the clock `offset_s` seconds ahead of the true time.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set(&self, offset_s: i64) -> io::Result<()> {
        self.0.write_all_at(&offset_s.to_ne_bytes(), 0)
    }
}

fn run(program: &str, words: &[&str]) -> io::Result<()> {
    let status = Command::new(program).args(words).status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{program} {words:?}: {status}")))
}
