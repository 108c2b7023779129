//! The identity of a process: (boot id, pid name space, pid, start time).
//! A pid alone identifies no process, since the kernel gives it to the next one.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// The identity of a process, unique also across boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessId {
    /// The kernel's id of this start of the machine.
    pub boot_id: [u8; 16],
    /// Inode of the pid name space in which `pid` counts.
    pub pid_namespace: u64,
    /// The number, positive.
    pub pid: i32,
    /// Clock ticks from the start of the machine to that of the process.
    pub start_ticks: u64,
}

/// State of a recorded process now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs (or is stopped).
    Alive,
    /// It has ended; its parent has not yet asked for its status.
    Zombie,
    /// It is gone; another process may have its number.
    Dead,
    /// The machine was started anew since.
    Rebooted,
    /// The process counts in another pid name space, so its state cannot be read
    /// from here.
    Elsewhere,
}

impl ProcessId {
    /// This process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn own() -> io::Result<Self> {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// The process that has this number now.
    ///
    /// # Errors
    /// When there is none, or `/proc` cannot be read.
    pub fn of(pid: i32) -> io::Result<Self> {
        let stat = Stat::read(pid)?;
        Ok(Self {
            boot_id: boot_id()?,
            pid_namespace: pid_namespace()?,
            pid,
            start_ticks: stat.start_ticks,
        })
    }

    /// State of exactly this process, not of a later one with its number.
    ///
    /// # Errors
    /// When `/proc` cannot be read, unless the reason is that the process is
    /// gone.
    pub fn life(&self) -> io::Result<Life> {
        if self.boot_id != boot_id()? {
            return Ok(Life::Rebooted);
        }
        if self.pid_namespace != pid_namespace()? {
            return Ok(Life::Elsewhere);
        }
        match Stat::read(self.pid) {
            Ok(stat) if stat.start_ticks != self.start_ticks => Ok(Life::Dead),
            Ok(stat) if matches!(stat.state, b'Z' | b'X' | b'x') => Ok(Life::Zombie),
            Ok(_) => Ok(Life::Alive),
            Err(error) if gone(&error) => Ok(Life::Dead),
            Err(error) => Err(error),
        }
    }
}

/// Reaches exactly one process, whoever gets its number later.
#[derive(Debug)]
pub struct ProcessHandle {
    process: ProcessId,
    pid: Pid,
    /// None before Linux 5.3, in some containers, and where this process has no descriptor left.
    descriptor: Option<OwnedFd>,
}

impl ProcessHandle {
    /// A handle of this process; none when it is gone.
    pub fn open(process: &ProcessId) -> Option<Self> {
        let pid = Pid::from_raw(process.pid)?;
        let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Some(descriptor),
            Err(Errno::SRCH) => return None,
            Err(_) => None,
        };
        // Only now: the number was the process's when the descriptor was made, if it still is.
        let handle = Self {
            process: *process,
            pid,
            descriptor,
        };
        handle.is_there().then_some(handle)
    }

    /// Whether the process has not been waited for.
    fn is_there(&self) -> bool {
        matches!(self.process.life(), Ok(Life::Alive | Life::Zombie))
    }

    /// Whether the process runs.
    pub fn is_alive(&self) -> bool {
        matches!(self.process.life(), Ok(Life::Alive))
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// `ESRCH` when the process is gone, `EPERM` when it is out of reach.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if let Some(descriptor) = &self.descriptor {
            match pidfd_send_signal(descriptor, signal) {
                Err(Errno::NOSYS) => {}
                sent => return Ok(sent?),
            }
        }
        // Between this comparison and the signal lies a moment that only descriptors close.
        if !self.is_there() {
            return Err(Errno::SRCH.into());
        }
        Ok(kill_process(self.pid, signal)?)
    }

    /// A descriptor that becomes readable when the process ends, where the kernel has such.
    pub fn descriptor(self) -> Option<OwnedFd> {
        self.descriptor
    }
}

/// A process that ended between two system calls answers with either.
fn gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(3)
}

/// The fields of `/proc/PID/stat` that we use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// State letter: `R`, `S`, `D`, `Z`, `T` …
    pub state: u8,
    /// Parent's number.
    pub ppid: i32,
    /// Session's number.
    pub session: i32,
    /// CPU time in user mode, in clock ticks.
    pub user_ticks: u64,
    /// CPU time in the kernel, in clock ticks.
    pub system_ticks: u64,
    /// Number of threads.
    pub threads: u32,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
    /// Resident pages.
    pub rss_pages: u64,
}

impl Stat {
    /// Reads one process.
    ///
    /// # Errors
    /// `NotFound` (or `ESRCH`) when it is gone; `InvalidData` when the kernel
    /// wrote something else than it promises.
    pub fn read(pid: i32) -> io::Result<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat"))?)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc/PID/stat"))
    }

    /// Parses the line. The name in parentheses may hold any byte, so fields
    /// count from the last `)`.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let after = line.iter().rposition(|byte| *byte == b')')? + 2;
        let mut fields = line.get(after..)?.split(|byte| *byte == b' ');
        // Field numbers are those of proc(5); the first here is 3.
        let state = *fields.next()?.first()?;
        let ppid = number(fields.next()?)?;
        let session = number(fields.nth(1)?)?;
        let user_ticks = number(fields.nth(7)?)?;
        let system_ticks = number(fields.next()?)?;
        let threads = number(fields.nth(4)?)?;
        let start_ticks = number(fields.nth(1)?)?;
        let rss_pages = number(fields.nth(1)?)?;
        Some(Self {
            state,
            ppid,
            session,
            user_ticks,
            system_ticks,
            threads,
            start_ticks,
            rss_pages,
        })
    }
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.trim_end().parse().ok()
}

/// The kernel's id of this start of the machine, 16 bytes.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn boot_id() -> io::Result<[u8; 16]> {
    static BOOT: OnceLock<[u8; 16]> = OnceLock::new();
    if let Some(known) = BOOT.get() {
        return Ok(*known);
    }
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let mut id = [0; 16];
    let mut digits = text.bytes().filter_map(|b| char::from(b).to_digit(16));
    for byte in &mut id {
        let (Some(high), Some(low)) = (digits.next(), digits.next()) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "unreadable boot id",
            ));
        };
        *byte = (high * 16 + low) as u8;
    }
    Ok(*BOOT.get_or_init(|| id))
}

/// Inode of this process's pid name space.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn pid_namespace() -> io::Result<u64> {
    static NAMESPACE: OnceLock<u64> = OnceLock::new();
    if let Some(known) = NAMESPACE.get() {
        return Ok(*known);
    }
    let inode = fs::metadata("/proc/self/ns/pid")?.ino();
    Ok(*NAMESPACE.get_or_init(|| inode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_alive_then_a_zombie_then_dead() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let id = ProcessId::of(child.id() as i32).unwrap();
        assert_eq!(id.life().unwrap(), Life::Alive);
        child.kill().unwrap();
        while id.life().unwrap() == Life::Alive {
            std::thread::yield_now();
        }
        assert_eq!(id.life().unwrap(), Life::Zombie);
        child.wait().unwrap();
        assert_eq!(id.life().unwrap(), Life::Dead);
    }

    #[test]
    fn a_process_id_tells_apart_boots_recycled_pids_and_pid_namespaces() {
        let own = ProcessId::own().unwrap();
        assert_eq!(own.life().unwrap(), Life::Alive);
        let rebooted = ProcessId {
            boot_id: [7; 16],
            ..own
        };
        assert_eq!(rebooted.life().unwrap(), Life::Rebooted);
        let recycled = ProcessId {
            start_ticks: own.start_ticks + 1,
            ..own
        };
        assert_eq!(recycled.life().unwrap(), Life::Dead);
        let elsewhere = ProcessId {
            pid_namespace: 1,
            ..own
        };
        assert_eq!(elsewhere.life().unwrap(), Life::Elsewhere);
    }

    #[test]
    fn names_with_parentheses_and_spaces_do_not_shift_fields() {
        let line = b"12 (a) b (c) S 1 12 13 0 -1 4194560 1 2 3 4 50 60 0 0 20 0 7 0 987 1000 42 18446744073709551615";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.state, stat.ppid, stat.session), (b'S', 1, 13));
        assert_eq!(
            (stat.user_ticks, stat.system_ticks, stat.threads),
            (50, 60, 7)
        );
        assert_eq!((stat.start_ticks, stat.rss_pages), (987, 42));
        assert_eq!(Stat::parse(b"12 (a"), None);
    }
}
