//! Copies of the logs of adopted jobs. A log is a file of the person, which may be
//! anything by now.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Bytes of a log that one look copies; the rest follows at the next.
const COPIED_MAX: u64 = 64 << 20;

/// What one look did to the logs of a job.
#[derive(Debug, Default)]
pub struct LogCopy {
    /// Whether something was appended.
    pub grew: bool,
    /// Whether there is more than one look copies.
    pub has_more: bool,
    /// Why a log cannot be followed.
    pub problem: Option<String>,
}

/// Copies what is new in these logs, each to its copy.
pub(super) fn copied(logs: &[(PathBuf, PathBuf)]) -> LogCopy {
    let mut all = LogCopy::default();
    for (from, to) in logs {
        match append(from, to) {
            Ok((bytes, has_more)) => {
                all.grew |= bytes > 0;
                all.has_more |= has_more;
            }
            // It is made when the job begins.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let from = from.display();
                all.problem = Some(format!("its log {from} is not followed: {error}"));
            }
        }
    }
    all
}

/// Appends what a log has more than its copy. A log that is shorter was truncated: the
/// copy begins anew. Returns the number of bytes, and whether there are more.
fn append(from: &Path, to: &Path) -> io::Result<(u64, bool)> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut log = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(from)
        .map_err(|error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
                io::Error::other("it is a link")
            }
            _ => error,
        })?;
    let found = log.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    if found.uid() != rustix::process::getuid().as_raw() {
        return Err(io::Error::other("it is another user's"));
    }
    let mut copy = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(to)?;
    let mut there = copy.metadata()?.len();
    if found.len() < there {
        copy.set_len(0)?;
        there = 0;
    }
    let more = found.len() - there;
    if more == 0 {
        return Ok((0, false));
    }
    io::Seek::seek(&mut log, io::SeekFrom::Start(there))?;
    let bytes = pour(&mut log, &mut copy, more.min(COPIED_MAX))?;
    Ok((bytes, bytes < more))
}

fn pour(from: &mut File, to: &mut File, bytes: u64) -> io::Result<u64> {
    io::copy(&mut from.take(bytes), to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_grows_with_its_log_and_begins_anew_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let (log, to) = (folder.path().join("job.out"), folder.path().join("copy"));
        let read = || std::fs::read_to_string(&to).unwrap();
        assert_eq!(
            append(&log, &to).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        std::fs::write(&log, "loss 3\n").unwrap();
        assert_eq!(append(&log, &to).unwrap(), (7, false));
        std::fs::write(&log, "loss 3\nloss 2\n").unwrap();
        assert_eq!(append(&log, &to).unwrap(), (7, false));
        assert_eq!(append(&log, &to).unwrap(), (0, false));
        assert_eq!(read(), "loss 3\nloss 2\n");
        std::fs::write(&log, "new\n").unwrap();
        append(&log, &to).unwrap();
        assert_eq!(read(), "new\n");
    }

    #[test]
    fn a_log_that_is_a_link_or_a_pipe_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (link, pipe) = (folder.path().join("link"), folder.path().join("pipe"));
        let to = folder.path().join("copy");
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        let error = append(&link, &to).unwrap_err();
        assert_eq!(error.to_string(), "it is a link");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let error = append(&pipe, &to).unwrap_err();
        assert_eq!(error.to_string(), "it is no plain file");
        assert!(!to.exists());
    }
}
