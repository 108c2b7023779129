//! The job's tree: who belongs to it, and signals to all of it.
//!
//! Called by the keeper of a run (shim or launcher). A process is listed only
//! when its parent is known to be of the tree, and signalled only after its
//! start time was found unchanged through a handle that was opened before.
//! Nothing is allocated.

use std::io;

use nero_model::process::Stat;

use crate::procfs;
use crate::sys;

/// Limit of processes that one pass can hold. A larger tree takes several
/// passes: the final signal is repeated until no process is left.
pub const MEMBERS_MAX: usize = 4096;
/// Limit of processes recorded as out of reach.
pub const REFUSED_MAX: usize = 16;

/// One process of the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Pid of the process.
    pub pid: i32,
    /// Start time of the process; with the pid it identifies the process.
    pub start_ticks: u64,
}

/// Roots of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roots<'a> {
    /// Every child of this process, which is us: a shim's tree.
    ChildrenOf {
        /// Our number.
        own: i32,
        /// Children that are no processes of the job.
        except: [Option<i32>; 2],
    },
    /// These processes, which the caller has identified.
    These(&'a [Member]),
}

/// Limit of processes named in the record of the end.
pub const NAMED_MAX: usize = 8;

/// A process with the name that people know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedProcess {
    /// Pid; 0: none.
    pub pid: i32,
    /// Name of the process, followed by zeros.
    pub name: [u8; 16],
}

/// The first processes of a tree; pid 0 marks the end.
pub type Names = [NamedProcess; NAMED_MAX];

/// Result of a signal to every process of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalReport {
    /// Processes that run.
    pub alive: u32,
    /// Processes that got the signal.
    pub sent: u32,
    /// Processes that we may not signal; the first of them are in
    /// `out_of_reach`.
    pub refused: u32,
    /// Equal for equal sets of processes, and most likely different for others.
    pub fingerprint: u64,
    /// Numbers of processes out of reach; 0 behind the last.
    pub out_of_reach: [i32; REFUSED_MAX],
}

/// Sends a signal to the whole tree.
pub type SignalTree<'a> = dyn FnMut(i32) -> (SignalReport, Names) + 'a;

/// The processes that run, parents before children.
#[derive(Debug)]
pub struct Members {
    list: [Member; MEMBERS_MAX],
    length: usize,
}

impl Members {
    /// Lists the tree.
    pub fn list(roots: Roots<'_>) -> Self {
        let mut members = Self {
            list: [Member::default(); MEMBERS_MAX],
            length: 0,
        };
        match roots {
            Roots::ChildrenOf { own, except } => members.add_children(own, own, except),
            Roots::These(those) => {
                for member in those
                    .iter()
                    .filter(|one| !procfs::is_podmans_pause(one.pid))
                {
                    members.push(*member);
                }
            }
        }
        let mut at = 0;
        while at < members.length {
            let parent = members.list[at];
            let before = members.length;
            members.add_children(parent.pid, 0, [None; 2]);
            // The parent may have ended meanwhile, and its pid been given to a
            // stranger, whose children these would be.
            if members.length > before && !is_still(parent) {
                members.length = before;
            }
            at += 1;
        }
        members
    }

    /// Those listed.
    pub fn as_slice(&self) -> &[Member] {
        &self.list[..self.length]
    }

    fn push(&mut self, member: Member) {
        if self.length < MEMBERS_MAX && !self.as_slice().contains(&member) {
            self.list[self.length] = member;
            self.length += 1;
        }
    }

    fn add_children(&mut self, parent: i32, own: i32, except: [Option<i32>; 2]) {
        let mut add = |pid: i32, stat: &Stat| {
            let is_member = stat.ppid == parent && !except.contains(&Some(pid));
            if is_member && procfs::runs(stat) && !procfs::is_podmans_pause(pid) {
                self.push(Member {
                    pid,
                    start_ticks: stat.start_ticks,
                });
            }
        };
        let told = procfs::children(parent, |pid| {
            if let Ok(stat) = procfs::stat(pid) {
                add(pid, &stat);
            }
        });
        // Without the kernel's list of children (or with a parent that is
        // gone), look at the parent of every process. Our own list can be
        // missing for no other reason.
        if !told && (parent == own || !kernel_lists_children()) {
            procfs::everybody(|pid| {
                if let Ok(stat) = procfs::stat(pid) {
                    add(pid, &stat);
                }
            });
        }
    }

    /// Sends a signal to each; a stopped process is continued, so that it can
    /// act. Signal 0 only looks. Returns the names of running processes; no
    /// names with the final signal.
    pub fn signal(&self, signal: i32) -> (SignalReport, Names) {
        let (mut swept, mut names) = (SignalReport::default(), Names::default());
        for member in self.as_slice() {
            if signal != libc::SIGKILL
                && let Some(named) = names.get_mut(swept.alive as usize)
            {
                named.pid = member.pid;
                procfs::name(member.pid, &mut named.name);
            }
            let outcome = signal_one(*member, signal);
            if let Err(error) = &outcome
                && error.raw_os_error() == Some(libc::ESRCH)
            {
                continue;
            }
            swept.alive += 1;
            swept.fingerprint ^= fingerprint(*member);
            if outcome.is_ok() {
                swept.sent += 1;
            } else {
                if let Some(place) = swept.out_of_reach.get_mut(swept.refused as usize) {
                    *place = member.pid;
                }
                swept.refused += 1;
            }
        }
        (swept, names)
    }
}

/// Whether this process has children and each is podman's pause process, which
/// serves the user's containers beyond any run.
pub fn has_only_pauses() -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let (mut children, mut pauses) = (0, 0);
    let mut count = |pid: i32| {
        children += 1;
        pauses += u32::from(procfs::is_podmans_pause(pid));
    };
    if !procfs::children(own, &mut count) {
        procfs::everybody(|pid| {
            if procfs::stat(pid).is_ok_and(|stat| stat.ppid == own) {
                count(pid);
            }
        });
    }
    pauses > 0 && children == pauses
}

fn kernel_lists_children() -> bool {
    procfs::children(rustix::process::getpid().as_raw_nonzero().get(), |_| {})
}

fn is_still(member: Member) -> bool {
    procfs::stat(member.pid).is_ok_and(|stat| stat.start_ticks == member.start_ticks)
}

/// Sends a signal to exactly this process.
///
/// # Errors
/// `ESRCH` when it is gone, `EPERM` when it is out of reach.
pub fn signal_one(member: Member, signal: i32) -> io::Result<()> {
    let send: &dyn Fn(i32) -> io::Result<()> = match sys::pidfd_open(member.pid) {
        // If the handle's process is alive when the signal is sent, it had this
        // pid when the start time was read.
        Ok(handle) => &move |signal| sys::pidfd_signal(&handle, signal),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Err(error),
        // Before Linux 5.3, or out of descriptors: between the comparison and
        // the signal lies a moment that only handles can close.
        Err(_) => &|signal| sys::kill(member.pid, signal),
    };
    if !is_still(member) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    send(signal)?;
    if ![0, libc::SIGKILL, libc::SIGSTOP].contains(&signal) {
        // Best effort: the process may have ended by the first signal.
        let _ = send(libc::SIGCONT);
    }
    Ok(())
}

fn fingerprint(member: Member) -> u64 {
    (member.start_ticks ^ ((member.pid as u64) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Command, Stdio};

    fn cat() -> (Child, Member) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let start_ticks = procfs::stat(pid).unwrap().start_ticks;
        (child, Member { pid, start_ticks })
    }

    #[test]
    fn another_start_time_is_another_process() {
        let (mut child, member) = cat();
        let stranger = Member {
            start_ticks: member.start_ticks + 1,
            ..member
        };
        let error = signal_one(stranger, libc::SIGKILL).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
        assert_eq!(Members::list(Roots::These(&[stranger])).signal(9).0.sent, 0);
        assert!(child.try_wait().unwrap().is_none());
        let (swept, _) = Members::list(Roots::These(&[member])).signal(libc::SIGKILL);
        assert_eq!((swept.alive, swept.sent, swept.refused), (1, 1, 0));
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_tree_is_listed_from_its_root_down() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 1000 & wait"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = shell.id() as i32;
        let start_ticks = procfs::stat(pid).unwrap().start_ticks;
        let root = Member { pid, start_ticks };
        let listed = loop {
            let members = Members::list(Roots::These(&[root]));
            if members.as_slice().len() == 2 {
                break members;
            }
            std::thread::yield_now();
        };
        assert_eq!(listed.as_slice()[0], root);
        assert_eq!(listed.signal(libc::SIGKILL).0.sent, 2);
        shell.wait().unwrap();
    }
}
