//! Starting the daemon: exactly one, however many clients want it at once.
//!
//! A client holds the start lock until the daemon that it started answers; the others
//! wait for the lock and find the daemon running.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nero_model::paths::make_private;
use nero_model::safe::Safe;
use nero_model::{Holder, Home};
use rustix::fs::{FlockOperation, flock};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::{GreetedDaemon, environment, find, wake};
use crate::fault::Fault;

/// How long a new daemon may take until it answers.
const START_DEADLINE: Duration = Duration::from_secs(10);

/// How long to wait while another client starts a daemon: its deadline and some.
const LOCK_DEADLINE: Duration = Duration::from_secs(15);

/// Between two looks at the socket of a daemon that is starting. No event reports
/// that it listens; the looks go on for milliseconds, once per daemon.
const LOOK: Duration = Duration::from_millis(2);

/// The wait before another daemon is started while an older one is ending.
const AGAIN: Duration = Duration::from_millis(20);

/// How much of the log is shown when a daemon does not come up.
const LOG_LINES: usize = 20;

/// The program that is started as the daemon.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

impl Program {
    /// This very program.
    ///
    /// # Errors
    /// When the kernel does not return the path.
    pub fn own() -> Result<Self, Fault> {
        let path = std::env::current_exe()
            .map_err(|error| Fault::no_daemon("cannot find neroman itself").because(&error))?;
        // An upgrade replaced it: what lies there now starts.
        let replaced = path
            .to_str()
            .and_then(|path| path.strip_suffix(" (deleted)"));
        let path = replaced.map_or(path.clone(), PathBuf::from);
        Ok(Self {
            path,
            args: ["daemon", "run", "--own-session"].map(str::to_owned).into(),
        })
    }
}

/// Starts the daemon, or waits for the client that is starting it.
pub async fn start(home: &Home, program: &Program) -> Result<GreetedDaemon, Fault> {
    prepare(home)?;
    let _lock = lock(&home.start_lock()).await?;
    if let Some(greeted) = find(home).await? {
        return Ok(greeted);
    }
    let (log, log_from) = open_log(home)?;
    let spawned = || {
        spawn(program, &log).map_err(|error| {
            Fault::no_daemon(format!("cannot start {}", program.path.display())).because(&error)
        })
    };
    let mut child = spawned()?;
    let mut is_locked = false;
    let deadline = Instant::now() + START_DEADLINE;
    loop {
        if let Some(greeted) = find(home).await? {
            return Ok(greeted);
        }
        let ended = tokio::time::timeout(LOOK, child.wait()).await;
        let late = Instant::now() > deadline;
        let why = match ended {
            // This process left the place to the daemon that has the lock: that one
            // is about to answer or to end, unless it runs on another host.
            Ok(Ok(status)) if status.success() => {
                is_locked = true;
                let holder = Holder::read(&home.daemon_lock());
                let is_away = holder.as_ref().is_some_and(|holder| !holder.is_here());
                if is_away {
                    return Err(wake::is_held(home, holder.as_ref()));
                }
                if !late {
                    tokio::time::sleep(AGAIN).await;
                    child = spawned()?;
                    continue;
                }
                return Err(wake::is_held(home, holder.filter(wake::lives).as_ref()));
            }
            Ok(status) => ended_early(status),
            Err(_) if late && is_locked => {
                let holder = Holder::read(&home.daemon_lock());
                return Err(wake::is_held(home, holder.filter(wake::lives).as_ref()));
            }
            Err(_) if late => {
                format!("it does not answer after {} s", START_DEADLINE.as_secs())
            }
            Err(_) => continue,
        };
        return Err(did_not_come(home, log_from, why));
    }
}

/// Takes the lock that makes a starter the only one. The kernel wakes the
/// thread; a thread that still waits when the time is up goes with the process.
pub async fn lock(path: &Path) -> Result<File, Fault> {
    let cannot = |error: &dyn std::error::Error| {
        Fault::no_daemon(format!("cannot lock {}", path.display())).because(error)
    };
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| unusable("lock", path, &error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {}
        Err(error) => return Err(cannot(&error)),
    }
    let (done, waiting) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let locked = loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other.map(|()| file),
            }
        };
        // After the deadline no receiver is left; the lock goes with the file.
        let _ = done.send(locked);
    });
    match tokio::time::timeout(LOCK_DEADLINE, waiting).await {
        Ok(Ok(Ok(file))) => Ok(file),
        Ok(Ok(Err(error))) => Err(cannot(&error)),
        Ok(Err(error)) => Err(cannot(&error)),
        Err(_) => Err(Fault::no_daemon(format!(
            "another neroman has been starting the daemon for more than {} s",
            LOCK_DEADLINE.as_secs()
        ))
        .hint(format!("it holds {}", path.display()))),
    }
}

fn prepare(home: &Home) -> Result<(), Fault> {
    for folder in [&home.data, &home.state] {
        make_private(folder).map_err(|error| unusable("use the folder", folder, &error))?;
    }
    Ok(())
}

/// The daemon's log, and where it ends now.
fn open_log(home: &Home) -> Result<(File, u64), Fault> {
    let path = home.daemon_log();
    let open = || -> io::Result<(File, u64)> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)?;
        let length = log.metadata()?.len();
        Ok((log, length))
    };
    open().map_err(|error| unusable("write", &path, &error))
}

/// The error of a file or folder of the home. On a read-only file system no daemon
/// can start, and without a daemon no command can read the databases.
fn unusable(what: &str, path: &Path, error: &io::Error) -> Fault {
    let path = path.display();
    let refused = format!("cannot {what} {path}");
    if error.kind() != io::ErrorKind::ReadOnlyFilesystem {
        return Fault::no_daemon(refused).because(error);
    }
    Fault::no_daemon("the daemon cannot start: its home is on a read-only file system")
        .cause(refused)
        .because(error)
        .hint(format!(
            "make it writable (`findmnt -T {path}` names the file system; `dmesg` tells whether a disk error made it \
             read-only), then type the command again; runs on nodes go on meanwhile, and their results come home \
             afterwards. NERONET_HOME=DIR uses another home, which knows none of these experiments"
        ))
}

/// Starts the daemon without a terminal: `--own-session` makes it leave ours first,
/// and none of its streams points there.
fn spawn(program: &Program, log: &File) -> io::Result<Child> {
    Command::new(&program.path)
        .args(&program.args)
        .env_clear()
        .envs(environment::for_daemon())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .spawn()
}

fn ended_early(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => format!("it ended with {status}"),
        Err(error) => format!("its end cannot be seen: {error}"),
    }
}

fn did_not_come(home: &Home, log_from: u64, why: String) -> Fault {
    let path = home.daemon_log();
    let mut fault = Fault::no_daemon("the daemon could not be started")
        .cause(why)
        .hint(format!("its log is {}", path.display()));
    match last_lines(&path, log_from, LOG_LINES) {
        Ok(lines) => fault.report = Safe::lines(&lines).to_string(),
        Err(error) => fault = fault.cause(format!("its log cannot be read: {error}")),
    }
    fault
}

/// The last lines of a file from an offset on.
pub fn last_lines(path: &Path, from: u64, lines: usize) -> io::Result<Vec<u8>> {
    /// No log line that matters is earlier than this.
    const BYTES_MAX: u64 = 1024 * 1024;
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(
        from.max(length.saturating_sub(BYTES_MAX)).min(length),
    ))?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    let end = bytes.len() - usize::from(bytes.ends_with(b"\n"));
    let begin = bytes[..end]
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, byte)| **byte == b'\n')
        .nth(lines.saturating_sub(1))
        .map_or(0, |(at, _)| at + 1);
    Ok(bytes.split_off(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_returns_at_most_that_many_lines_behind_an_offset() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        fs::write(&path, "a\nb\nc\n").expect("a file");
        let last = |from, lines| {
            String::from_utf8(last_lines(&path, from, lines).expect("a file")).expect("text")
        };
        assert_eq!(last(0, 2), "b\nc\n");
        assert_eq!(last(0, 9), "a\nb\nc\n");
        assert_eq!(last(4, 9), "c\n");
        assert_eq!(last(99, 9), "");
    }
}
