//! Which shares of a card are locked: ranges of bytes of its slot file, held by the
//! shims and launchers of every home of this user. The only unsafe code of the crate.

use std::fs::{FileTimes, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use nero_node_core::cards::WHOLE;

/// Most ranges that are told of one card.
const RANGES_MAX: usize = 256;

/// The locked ranges, in order; the whole card where they are too many. Takes no lock, and
/// makes the file where it is missing.
///
/// # Errors
/// When the file cannot be used.
pub fn locked(path: &Path) -> io::Result<Vec<(u32, u32)>> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    // Cleaners of /tmp remove old files, and locks with them.
    let now = SystemTime::now();
    drop(file.set_times(FileTimes::new().set_accessed(now).set_modified(now)));
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    let mut todo = vec![(0, WHOLE)];
    while let Some((from, to)) = todo.pop() {
        if from >= to {
            continue;
        }
        if ranges.len() >= RANGES_MAX {
            return Ok(vec![(0, WHOLE)]);
        }
        // Any lock of the range, not always the first.
        let Some((start, end)) = conflict(&file, from, to)? else {
            continue;
        };
        ranges.push((start, end));
        todo.push((from, start));
        todo.push((end, to));
    }
    ranges.sort_unstable();
    Ok(ranges)
}

/// A lock of another open file within the range, cut to it.
fn conflict(file: &std::fs::File, from: u32, to: u32) -> io::Result<Option<(u32, u32)>> {
    let mut asked = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: libc::off_t::from(from),
        l_len: libc::off_t::from(to - from),
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and the kernel writes into `asked` alone. rustix
    // has no call for locks of open files.
    let told = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut asked) };
    if told < 0 {
        return Err(io::Error::last_os_error());
    }
    if asked.l_type == libc::F_UNLCK as libc::c_short {
        return Ok(None);
    }
    let within = |at: i64| u32::try_from(at.clamp(from.into(), to.into())).unwrap_or(to);
    let end = match asked.l_len {
        0 => to,
        length => within(asked.l_start + length),
    };
    Ok(Some((within(asked.l_start), end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_makes_the_slot_file_young() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("GPU-a.slots");
        let file = std::fs::File::create(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(locked(&path).unwrap(), []);
        let age = path.metadata().unwrap().modified().unwrap().elapsed();
        assert!(age.is_ok_and(|age| age.as_secs() < 3600));
    }
}
