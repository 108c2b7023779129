//! Reads one of a run's logs: from an offset, the last lines, or continuously
//! until the run has ended. inotify reports growth; a log that its job
//! truncated is read again from its new beginning, and the part is marked so.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nero_wire::v1::LogPart;
use tokio::sync::oneshot;

use crate::config;
use crate::watch::{Watch, WatchFlags};

/// Limit of the bytes in which the beginning of the last lines is searched.
const LAST_LINES_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Interval of looks at a followed log without inotify.
const LOOK_WITHOUT_INOTIFY: Duration = Duration::from_secs(1);

/// Position at which reading begins.
#[derive(Clone, Copy, Debug)]
pub enum From {
    /// At an offset; a negative one counts from the end.
    Offset(i64),
    /// At the beginning of the last lines, so many.
    LastLines(u64),
}

/// A log that is being read.
#[derive(Debug)]
pub struct LogReader {
    path: PathBuf,
    file: File,
    offset: u64,
    left: u64,
    truncated: bool,
}

impl LogReader {
    /// Opens a log; `max_bytes` 0 means no limit.
    ///
    /// # Errors
    /// When the log does not exist or is no regular file.
    pub fn open(path: &Path, from: From, max_bytes: u64) -> io::Result<Self> {
        let file = opened(path)?;
        let size = file.metadata()?.len();
        let offset = match from {
            From::Offset(at) => match u64::try_from(at) {
                Ok(at) => at.min(size),
                Err(_) => size.saturating_sub(at.unsigned_abs()),
            },
            From::LastLines(lines) => last_lines(&file, size, lines)?,
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            offset,
            left: if max_bytes == 0 { u64::MAX } else { max_bytes },
            truncated: false,
        })
    }

    /// The next part; `None` at the present end.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn next_part(&mut self) -> io::Result<Option<LogPart>> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut data = vec![0; self.left.min(64 * 1024) as usize];
        let mut length = self.file.read_at(&mut data, self.offset)?;
        if length == 0 && self.file.metadata()?.len() < self.offset {
            self.offset = 0;
            self.truncated = true;
            length = self.file.read_at(&mut data, 0)?;
        }
        if length == 0 {
            return Ok(None);
        }
        data.truncate(length);
        let part = LogPart {
            offset: self.offset,
            data,
            truncated: std::mem::take(&mut self.truncated),
            end: false,
        };
        self.offset += length as u64;
        self.left = self.left.saturating_sub(length as u64);
        Ok(Some(part))
    }

    /// Opens the log again: of a file that was open before, a file server may not show for a
    /// minute what another host appended to it.
    #[must_use]
    pub fn opened_again(mut self) -> Self {
        // A log that was removed is read on as it is.
        if let Ok(file) = opened(&self.path) {
            self.file = file;
        }
        self
    }

    /// Whether all requested bytes were returned.
    pub fn is_full(&self) -> bool {
        self.left == 0
    }

    /// The part that marks the end.
    pub fn end(&self) -> LogPart {
        LogPart {
            offset: self.offset,
            data: Vec::new(),
            truncated: false,
            end: true,
        }
    }
}

fn opened(path: &Path) -> io::Result<File> {
    let (folder, name) = match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => (folder, Path::new(name)),
        _ => return Err(io::Error::from(io::ErrorKind::InvalidInput)),
    };
    super::open_below(super::open_folder(folder)?, name)
}

/// Where the last so many lines begin. A carriage return ends a line as a line
/// feed does, and both together end one.
fn last_lines(file: &File, size: u64, lines: u64) -> io::Result<u64> {
    let lowest = size.saturating_sub(LAST_LINES_BYTES_MAX);
    let mut buffer = vec![0; 64 * 1024];
    let mut at = size;
    let mut left = lines;
    // What follows the byte that is looked at. An end of a line at the very end
    // begins none.
    let mut next = None;
    while at > lowest {
        let length = (at - lowest).min(buffer.len() as u64);
        at -= length;
        let block = &mut buffer[..length as usize];
        file.read_exact_at(block, at)?;
        for (index, byte) in block.iter().enumerate().rev() {
            if ends_line(*byte, next) {
                left -= 1;
                if left == 0 {
                    return Ok(at + index as u64 + 1);
                }
            }
            next = Some(*byte);
        }
    }
    Ok(lowest)
}

/// Whether a line ends with this byte, and another one follows.
fn ends_line(byte: u8, next: Option<u8>) -> bool {
    match (byte, next) {
        (_, None) | (b'\r', Some(b'\n')) => false,
        (byte, Some(_)) => matches!(byte, b'\n' | b'\r'),
    }
}

/// Waits for growth (or truncation) of a log.
#[derive(Debug)]
pub struct Growth {
    watch: Option<Watch>,
}

impl Growth {
    /// Watches a log; without a watch of the kernel, looks at intervals.
    pub fn of(path: &Path) -> Self {
        let watch = Watch::of(path, WatchFlags::MODIFY).ok();
        Self { watch }
    }

    /// Waits for the next change, or until `ended`, after which there is none;
    /// returns true then.
    pub async fn changed_or(&mut self, ended: &mut oneshot::Receiver<()>) -> bool {
        tokio::select! {
            biased;
            () = self.changed() => false,
            _ = ended => true,
        }
    }

    async fn changed(&mut self) {
        let seen = match &self.watch {
            Some(watch) => watch.changed().await.is_ok(),
            None => false,
        };
        if !seen {
            tokio::time::sleep(LOOK_WITHOUT_INOTIFY).await;
        }
    }
}

/// Parts in flight to one reader.
pub const PARTS_IN_FLIGHT: usize = 4;
const _: () = assert!(PARTS_IN_FLIGHT * 64 * 1024 <= config::FOLLOWER_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn all(log: &mut LogReader) -> Vec<u8> {
        let mut data = Vec::new();
        while let Some(part) = log.next_part().unwrap() {
            data.extend_from_slice(&part.data);
        }
        data
    }

    #[test]
    fn offsets_count_from_either_end_and_lines_from_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout.log");
        fs::write(&path, "one\ntwo\nthree\n").unwrap();
        let from = |from| all(&mut LogReader::open(&path, from, 0).unwrap());
        assert_eq!(from(From::Offset(4)), b"two\nthree\n");
        assert_eq!(from(From::Offset(-6)), b"three\n");
        assert_eq!(from(From::Offset(-600)), b"one\ntwo\nthree\n");
        assert_eq!(from(From::Offset(99)), b"");
        assert_eq!(from(From::LastLines(1)), b"three\n");
        assert_eq!(from(From::LastLines(2)), b"two\nthree\n");
        assert_eq!(from(From::LastLines(9)), b"one\ntwo\nthree\n");
        fs::write(&path, "one\ntwo\nthr").unwrap();
        assert_eq!(from(From::LastLines(1)), b"thr");
        fs::write(&path, "head\r\n 10%\r 20%\r 30%\r\nend\r").unwrap();
        assert_eq!(from(From::LastLines(1)), b"end\r");
        assert_eq!(from(From::LastLines(2)), b" 30%\r\nend\r");
        assert_eq!(from(From::LastLines(3)), b" 20%\r 30%\r\nend\r");
        assert_eq!(
            from(From::LastLines(5)),
            b"head\r\n 10%\r 20%\r 30%\r\nend\r"
        );
        fs::write(&path, "one\ntwo\nthr").unwrap();
        let mut limited = LogReader::open(&path, From::Offset(0), 5).unwrap();
        assert_eq!(all(&mut limited), b"one\nt");
        assert!(limited.is_full());
    }

    #[test]
    fn lines_longer_than_a_block_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout.log");
        let long = "x".repeat(200_000);
        fs::write(&path, format!("a\n{long}\nb\n")).unwrap();
        let mut log = LogReader::open(&path, From::LastLines(2), 0).unwrap();
        assert_eq!(all(&mut log).len(), 200_003);
    }

    #[test]
    fn a_log_that_was_cut_is_read_from_its_new_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout.log");
        fs::write(&path, "long old content").unwrap();
        let mut log = LogReader::open(&path, From::Offset(0), 0).unwrap();
        assert_eq!(all(&mut log), b"long old content");
        fs::write(&path, "new").unwrap();
        let part = log.next_part().unwrap().unwrap();
        assert!(part.truncated && part.offset == 0 && part.data == b"new");
    }
}
