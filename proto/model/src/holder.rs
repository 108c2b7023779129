//! The contents of a daemon's lock file: its process, its host and its socket.
//! Clients of every session find the daemon there, and name it when it does not
//! answer.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::process::ProcessId;

/// The daemon that holds a lock, or that held it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process of the daemon.
    pub process: ProcessId,
    /// The host on which it runs.
    pub host: String,
    /// Socket at which the daemon answers.
    pub socket: PathBuf,
}

impl Holder {
    /// This process, which answers at `socket`.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn own(socket: &Path) -> io::Result<Self> {
        Ok(Self {
            process: ProcessId::own()?,
            host: host(),
            socket: socket.to_path_buf(),
        })
    }

    /// Reads the file; `None` when it is empty, half written or gone. A daemon of
    /// an earlier version writes nothing and leaves the contents as they were.
    pub fn read(path: &Path) -> Option<Self> {
        Self::parse(&fs::read(path).ok()?)
    }

    /// Writes the holder into the file that this process has locked.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn write(&self, file: &File) -> io::Result<()> {
        let boot: String = self
            .process
            .boot_id
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let mut text = format!(
            "pid {}\nstart {}\nnamespace {}\nboot {boot}\nhost {}\nsocket ",
            self.process.pid, self.process.start_ticks, self.process.pid_namespace, self.host,
        )
        .into_bytes();
        text.extend_from_slice(self.socket.as_os_str().as_bytes());
        text.push(b'\n');
        file.set_len(0)?;
        file.write_all_at(&text, 0)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        // The last line is whole: the file was not read in the middle of a write.
        let text = text.strip_suffix(b"\n")?;
        let value = |name: &str| {
            let mut lines = text.split(|byte| *byte == b'\n');
            lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b" "))
        };
        let word = |name: &str| std::str::from_utf8(value(name)?).ok();
        let boot = word("boot")?;
        let mut boot_id = [0; 16];
        for (index, byte) in boot_id.iter_mut().enumerate() {
            let digits = boot.get(2 * index..2 * index + 2)?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self {
            process: ProcessId {
                boot_id,
                pid_namespace: word("namespace")?.parse().ok()?,
                pid: word("pid")?.parse().ok()?,
                start_ticks: word("start")?.parse().ok()?,
            },
            host: word("host")?.to_owned(),
            socket: PathBuf::from(OsStr::from_bytes(value("socket")?)),
        })
    }

    /// Whether the daemon runs on this host.
    pub fn is_here(&self) -> bool {
        self.host == host()
    }
}

/// This host's name.
pub fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_holder_is_read_and_half_of_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let file = File::create(&path).unwrap();
        let long = Holder::own(Path::new("/a/rather long/place/s")).unwrap();
        long.write(&file).unwrap();
        assert_eq!(Holder::read(&path), Some(long.clone()));
        let own = Holder::own(Path::new("/s")).unwrap();
        own.write(&file).unwrap();
        assert_eq!(Holder::read(&path), Some(own));
        assert!(long.is_here());
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            assert_eq!(Holder::parse(&whole[..length]), None, "{length} bytes");
        }
    }
}
