//! Hands a message to the node's `sendmail`.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// It queues a message, and does not deliver it meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where it is on most systems, beside `PATH`.
const FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/lib"];

/// Whether a message was taken.
pub(super) enum Taken {
    Yes(String),
    No(String),
    /// It did not end in time.
    Unknown(String),
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    let mut programs = folders.map(|folder| folder.join("sendmail"));
    programs.find(|program| program.is_file())
}

pub(super) fn send(from: &str, to: &str, message: &[u8]) -> Taken {
    let Some(program) = program() else {
        return Taken::No("there is no `sendmail` in PATH, /usr/sbin and /usr/lib".to_owned());
    };
    let shown = program.display().to_string();
    // A line that is a dot alone does not end the message (`-i`).
    let spawned = Command::new(&program)
        .args(["-i", "-f", from, "--", to])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return Taken::No(format!("cannot start {shown}: {error}")),
    };
    let until = Instant::now() + PATIENCE;
    // A pipe takes 64 KiB, and a message is shorter: a program that does not read holds up nobody.
    let fed = child.stdin.take().map(|mut input| input.write_all(message));
    match ended(&mut child, until) {
        Ok(Some(status)) if status.success() && matches!(fed, Some(Ok(()))) => {
            Taken::Yes(format!("taken by {shown}"))
        }
        Ok(Some(status)) => Taken::No(format!("{shown} failed: {status}")),
        Ok(None) => {
            end(&mut child);
            let limit = PATIENCE.as_secs();
            Taken::Unknown(format!("{shown} did not end within {limit} s"))
        }
        Err(error) => {
            end(&mut child);
            Taken::Unknown(format!("cannot wait for {shown}: {error}"))
        }
    }
}

/// Its status; none: it goes on.
fn ended(child: &mut Child, until: Instant) -> std::io::Result<Option<std::process::ExitStatus>> {
    let handle = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let rest = until.saturating_duration_since(Instant::now());
    let rest = Timespec {
        tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: rest.subsec_nanos().into(),
    };
    // Interrupted or over: the status tells.
    let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&rest));
    child.try_wait()
}

fn end(child: &mut Child) {
    // Of a leader that was not waited for, the number is no other's.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}
