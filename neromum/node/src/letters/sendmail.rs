//! Hands a message to the node's `sendmail`.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};

/// It queues a message, and does not deliver it meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
/// Where it is on most systems, beside `PATH`.
const FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/lib"];

/// Whether a message was taken.
pub(super) enum SendmailOutcome {
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

pub(super) fn send(from: &str, to: &str, message: &[u8]) -> SendmailOutcome {
    let Some(program) = program() else {
        return SendmailOutcome::No(
            "there is no `sendmail` in PATH, /usr/sbin and /usr/lib".to_owned(),
        );
    };
    let shown = program.display().to_string();
    // A file never fills as a pipe does, whose reader may stand still.
    let input = memfd_create("letter", MemfdFlags::CLOEXEC).map(File::from);
    let input = input.map_err(Into::into).and_then(|mut file: File| {
        file.write_all(message)?;
        file.rewind()?;
        std::io::Result::Ok(file)
    });
    let input = match input {
        Ok(input) => input,
        Err(error) => return SendmailOutcome::No(format!("no memory for a letter: {error}")),
    };
    // A line that is a dot alone does not end the message (`-i`).
    let spawned = Command::new(&program)
        .args(["-i", "-f", from, "--", to])
        .current_dir("/")
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return SendmailOutcome::No(format!("cannot start {shown}: {error}")),
    };
    let until = Instant::now() + PATIENCE;
    match ended(&mut child, until) {
        Ok(Some(status)) if status.success() => SendmailOutcome::Yes(format!("taken by {shown}")),
        Ok(Some(status)) => SendmailOutcome::No(format!("{shown} failed: {status}")),
        Ok(None) => {
            end(&mut child);
            let limit = PATIENCE.as_secs();
            SendmailOutcome::Unknown(format!("{shown} did not end within {limit} s"))
        }
        Err(error) => {
            end(&mut child);
            SendmailOutcome::Unknown(format!("cannot wait for {shown}: {error}"))
        }
    }
}

/// Its status; none: it goes on. Looks again and again, as old kernels have no handles of processes.
fn ended(child: &mut Child, until: Instant) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        // Ends early by a signal alone.
        let _ = poll(&mut [], Some(&LOOK));
    }
}

fn end(child: &mut Child) {
    // Of a leader that was not waited for, the number is no other's.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}
