//! Reading `/proc` without allocating.
//!
//! Called by the shim and the launcher when a tree is to be signalled or
//! counted, never in the course of an ordinary run.

use std::ffi::CStr;
use std::fmt::{self, Write};
use std::mem::MaybeUninit;

use nero_model::process::Stat;
use rustix::fs::{CWD, Mode, OFlags, RawDir, openat};
use rustix::io::Errno;

/// A short path, built on the stack.
#[derive(Debug)]
pub struct StackPath {
    bytes: [u8; 64],
    length: usize,
}

impl StackPath {
    /// From the output of `format_args!`. A text longer than any of our paths is
    /// cut, and then names nothing.
    pub fn new(text: fmt::Arguments<'_>) -> Self {
        let mut path = Self {
            bytes: [0; 64],
            length: 0,
        };
        let _ = path.write_fmt(text);
        path
    }

    /// For the kernel.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

impl Write for StackPath {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        // One byte stays for the final zero.
        if end >= self.bytes.len() {
            return Err(fmt::Error);
        }
        self.bytes[self.length..end].copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Reads one process.
///
/// # Errors
/// `NOENT` or `SRCH` when it is gone.
pub fn stat(pid: i32) -> Result<Stat, Errno> {
    let path = StackPath::new(format_args!("/proc/{pid}/stat"));
    let file = openat(
        CWD,
        path.as_c_str(),
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut line = [0; 1024];
    let read = rustix::io::read(&file, &mut line)?;
    Stat::parse(&line[..read]).ok_or(Errno::INVAL)
}

/// Puts the name of a process, and zeros behind it, into `name`.
pub fn name(pid: i32, name: &mut [u8; 16]) {
    let path = StackPath::new(format_args!("/proc/{pid}/comm"));
    name.fill(0);
    let length = read(&path, name);
    let end = name[..length].iter().rposition(|byte| *byte == b'\n');
    name[end.unwrap_or(length)..].fill(0);
}

/// Whether a process is one that rootless podman leaves behind at its first
/// command, and needs from then on: `catatonit -P`, or podman itself under
/// another name. Podman keeps its number in a file whose path depends on the
/// job's own environment, so the process's name and arguments decide.
pub fn is_podmans_pause(pid: i32) -> bool {
    let mut comm = [0; 16];
    name(pid, &mut comm);
    if comm.starts_with(b"podman pause\0") {
        return true;
    }
    if !comm.starts_with(b"catatonit\0") {
        return false;
    }
    let mut line = [0; 128];
    let length = read(
        &StackPath::new(format_args!("/proc/{pid}/cmdline")),
        &mut line,
    );
    let mut words = line[..length].split(|byte| *byte == 0);
    let first = words.next().unwrap_or_default();
    first.ends_with(b"catatonit") && words.eq([b"-P".as_slice(), b""])
}

/// Reads a small file; returns the number of bytes, 0 when it is gone.
fn read(path: &StackPath, into: &mut [u8]) -> usize {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    openat(CWD, path.as_c_str(), flags, Mode::empty())
        .and_then(|file| rustix::io::read(&file, into))
        .unwrap_or(0)
}

/// Whether a thread of the process still runs: other threads may, when the first
/// has ended.
pub fn runs(stat: &Stat) -> bool {
    !matches!(stat.state, b'Z' | b'X' | b'x') || stat.threads > 1
}

/// Calls `each` with the number of every child. False when the kernel has no
/// list of children (built without it, or the process is gone).
pub fn children(pid: i32, mut each: impl FnMut(i32)) -> bool {
    let path = StackPath::new(format_args!("/proc/{pid}/task"));
    let mut told = false;
    numbers_in(&path, |thread| {
        let path = StackPath::new(format_args!("/proc/{pid}/task/{thread}/children"));
        told |= numbers_of(&path, &mut each);
    });
    told
}

/// Calls `each` with the number of every process.
pub fn everybody(each: impl FnMut(i32)) {
    numbers_in(&StackPath::new(format_args!("/proc")), each);
}

/// Calls `each` with every name in a folder that is a number.
fn numbers_in(path: &StackPath, mut each: impl FnMut(i32)) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = openat(CWD, path.as_c_str(), flags, Mode::empty()) else {
        return;
    };
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&folder, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        if let Some(number) = number(entry.file_name().to_bytes()) {
            each(number);
        }
    }
}

/// Calls `each` with every number in a file of numbers and spaces.
fn numbers_of(path: &StackPath, each: &mut impl FnMut(i32)) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(file) = openat(CWD, path.as_c_str(), flags, Mode::empty()) else {
        return false;
    };
    let mut buffer = [0; 4096];
    let mut so_far = 0i32;
    let mut digits = false;
    loop {
        match rustix::io::read(&file, &mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                for byte in &buffer[..read] {
                    if byte.is_ascii_digit() {
                        so_far = so_far.wrapping_mul(10).wrapping_add(i32::from(byte - b'0'));
                        digits = true;
                    } else if std::mem::take(&mut digits) {
                        each(std::mem::take(&mut so_far));
                    }
                }
            }
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    if digits {
        each(so_far);
    }
    true
}

fn number(name: &[u8]) -> Option<i32> {
    std::str::from_utf8(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_among_the_children_and_everybody() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let own = std::process::id() as i32;
        let mut seen = 0;
        assert!(children(own, |one| seen += i32::from(one == pid)));
        assert_eq!(seen, 1);
        let mut seen = 0;
        everybody(|one| seen += i32::from(one == pid));
        assert_eq!(seen, 1);
        assert_eq!(stat(pid).unwrap().ppid, own);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(stat(pid).is_err());
        assert!(!children(pid, |_| {}));
    }

    #[test]
    fn a_path_too_long_is_cut_not_overrun() {
        let path = StackPath::new(format_args!("/{:0>100}", 1));
        assert!(path.as_c_str().to_bytes().len() < 64);
    }
}
