//! From a program just started to a launcher that may fork: alone on its
//! socket, detached from the process that started it, clean.
//!
//! Called once, by `run`; keeps in [`LauncherState`] the inherited state that jobs shall
//! have.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nero_model::ProcessId;
use rustix::fs::{FlockOperation, Mode, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::oom::OomEvents;
use crate::plan::LauncherState;
use crate::sys::{self, ChildStack};

/// Amount by which a job's `oom_score_adj` is raised, and the highest value.
const OOM_RAISE: i32 = 500;
const OOM_MAX: i32 = 1000;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// A launcher that holds its lock and listens.
#[derive(Debug)]
pub struct ListeningLauncher {
    /// State that it inherited.
    pub own: LauncherState,
    /// Lock file, held as long as the launcher lives.
    pub lock: File,
    /// Socket on which neromum connects.
    pub listener: OwnedFd,
    /// Path of the socket, to be removed when leaving.
    pub socket: PathBuf,
}

/// Takes the place; `None`: another launcher has it.
///
/// # Errors
/// When log, lock or socket cannot be made.
pub fn take_place(
    socket: &Path,
    log: &Path,
    in_allocation: bool,
) -> io::Result<Option<ListeningLauncher>> {
    let (socket, log) = (std::path::absolute(socket)?, std::path::absolute(log)?);
    let umask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    if !sys::close_from(3) {
        (3..=highest_descriptor()).for_each(sys::close);
    }
    let Some(lock) = lock(&socket)? else {
        return Ok(None);
    };
    detach(&log)?;
    sys::block_signals();
    sys::default_signals();
    sys::become_subreaper();
    let own = own(umask, in_allocation)?;
    let listener = listen(&socket)?;
    Ok(Some(ListeningLauncher {
        own,
        lock,
        listener,
        socket,
    }))
}

/// Exclusive per socket. The lock dies with the process, and shims close it.
fn lock(socket: &Path) -> io::Result<Option<File>> {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Own session, no terminal, no descriptor of the process that started us.
fn detach(log: &Path) -> io::Result<()> {
    let log = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(log)?;
    // Refused to the leader of a process group. Such a launcher stays in its
    // session.
    let _ = rustix::process::setsid();
    rustix::process::chdir("/")?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(&log)?;
    rustix::stdio::dup2_stderr(&log)?;
    Ok(())
}

fn own(umask: Mode, in_allocation: bool) -> io::Result<LauncherState> {
    let limits = [Resource::Core, Resource::Nofile].map(|which| (which, getrlimit(which)));
    // A core file could contain arguments and environments of users; many
    // guarded runs need many handles.
    let core = rustix::process::Rlimit {
        current: Some(0),
        ..limits[0].1
    };
    let files = rustix::process::Rlimit {
        current: limits[1].1.maximum,
        ..limits[1].1
    };
    // Best effort: no promise depends on either.
    let _ = setrlimit(Resource::Core, core);
    let _ = setrlimit(Resource::Nofile, files);
    let inherited = std::fs::read_to_string("/proc/self/oom_score_adj")
        .ok()
        .and_then(|text| text.trim().parse::<i32>().ok())
        .unwrap_or(0);
    Ok(LauncherState {
        process: ProcessId::own()?,
        umask,
        limits,
        oom_score_adj: (inherited + OOM_RAISE).min(OOM_MAX).to_string(),
        child_stack: ChildStack::new()?,
        oom: OomEvents::find(),
        in_allocation,
        ticks_per_second: sys::ticks_per_second(),
    })
}

/// The highest descriptor in use, for kernels that cannot close a range.
pub fn highest_descriptor() -> i32 {
    let names = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let numbers = names.filter_map(|name| name.ok()?.file_name().to_str()?.parse().ok());
    numbers.max().unwrap_or(1024)
}

/// A socket that only we can have made, closed to others by the umask.
fn listen(path: &Path) -> io::Result<OwnedFd> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}
