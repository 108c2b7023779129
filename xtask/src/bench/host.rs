//! Hosts reached by ssh, which end when they are dropped.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::programs::Programs;
use crate::steps::execute;

/// Hosts `h1`, …; they end when this value is dropped.
pub struct Host {
    holder: Child,
    folder: tempfile::TempDir,
    rig: PathBuf,
}

impl Host {
    /// Brings one host up.
    pub fn up(root: &Path) -> Result<Self, String> {
        Self::up_many(root, 1)
    }

    /// Brings hosts up.
    pub fn up_many(root: &Path, count: usize) -> Result<Self, String> {
        // Socket paths are short; the build folder's may be long.
        let folder = tempfile::Builder::new()
            .prefix("nb")
            .tempdir()
            .map_err(|error| error.to_string())?;
        let rig = root.join("tests/rig/sshd.sh");
        let mut holder = Command::new("bash")
            .arg(&rig)
            .arg("hold")
            .arg(folder.path())
            .env("HOSTS", count.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start sshd.sh: {error}"))?;
        let out = holder.stdout.take().ok_or("no pipe")?;
        let ready = BufReader::new(out)
            .lines()
            .map_while(Result::ok)
            .any(|line| line.starts_with("ready"));
        if !ready {
            return Err("the host did not come up; see what sshd.sh said".to_owned());
        }
        Ok(Self {
            holder,
            folder,
            rig,
        })
    }

    /// A fault of the rig, at one of the hosts.
    pub fn fault(&self, fault: &str, host: &str) -> Result<(), String> {
        let mut rig = Command::new("bash");
        rig.arg(&self.rig).arg(fault).arg(self.folder.path());
        rig.arg(host);
        execute(rig)
    }

    /// The value for `NERONET_SSH`.
    pub fn ssh(&self) -> String {
        format!("ssh -F {}", self.folder.path().join("ssh_config").display())
    }

    /// A folder that the host sees at the same path, and where all may write.
    pub fn common(&self) -> PathBuf {
        self.folder.path().join("common")
    }

    /// A program, where the host can start it.
    pub fn program(&self, programs: &Programs, name: &str) -> Result<PathBuf, String> {
        let to = self.common().join(name);
        fs::copy(programs.path(name), &to).map_err(|error| format!("{}: {error}", to.display()))?;
        Ok(to)
    }

    /// `rsync -a FROM h1:TO`, or back.
    pub fn rsync(&self, from: &str, to: &str) -> Result<f64, String> {
        let began = std::time::Instant::now();
        let ended = Command::new("rsync")
            .args(["-a", "-e", &self.ssh(), from, to])
            .status()
            .map_err(|error| format!("cannot start rsync: {error} (apt-get install rsync)"))?;
        if !ended.success() {
            return Err(format!("rsync {from} {to} ended with {ended}"));
        }
        Ok(began.elapsed().as_secs_f64())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        // It ends when its standard input does.
        let _ = self.holder.wait();
    }
}
