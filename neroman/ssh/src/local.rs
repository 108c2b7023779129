//! Runs the program `ssh` on this machine, with a deadline and bounded output.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::{Instant, timeout, timeout_at};

/// Limit of the kept output of `ssh`; its last lines hold the reason of a
/// failure.
const SAID_BYTES_MAX: usize = 64 * 1024;
/// Time for which the pipes of a program that has ended are still read. They
/// stay open for ever when it left a process behind (a master, a proxy).
const AFTERMATH: Duration = Duration::from_millis(200);

/// Output and exit status of a program.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) status: ExitStatus,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
}

/// Reason why there is no [`ProgramOutput`].
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// It cannot be started.
    Start(io::Error),
    /// It cannot be waited for, or its output cannot be read.
    Wait(io::Error),
    /// It was killed at the deadline.
    Late,
}

/// Runs a program to its end or to its deadline.
pub(crate) async fn run(
    mut command: Command,
    deadline: Duration,
) -> Result<ProgramOutput, CommandFailure> {
    // The program has a group of its own, so that processes that it leaves
    // behind (a master's proxy) do not get signals meant for us.
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    // A thread that starts a program stands still until the program is read from its disk. The
    // daemon answers people on its main thread, so another thread starts programs.
    let until = Instant::now() + deadline;
    let started = tokio::task::spawn_blocking(move || command.spawn());
    let mut child = timeout_at(until, started)
        .await
        .map_err(|_| CommandFailure::Late)?
        .unwrap_or_else(|lost| Err(io::Error::other(lost)))
        .map_err(CommandFailure::Start)?;
    let mut stdout = child.stdout.take().expect("stdout is a pipe");
    let mut stderr = child.stderr.take().expect("stderr is a pipe");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let ended = timeout_at(until, async {
        let both =
            async { tokio::try_join!(drain(&mut stdout, &mut out), drain(&mut stderr, &mut err)) };
        tokio::select! {
            status = child.wait() => status,
            read = both => match read {
                Ok(_) => child.wait().await,
                Err(error) => Err(error),
            },
        }
    })
    .await;
    match ended {
        Ok(Ok(status)) => {
            let _ = timeout(AFTERMATH, async {
                tokio::join!(drain(&mut stdout, &mut out), drain(&mut stderr, &mut err))
            })
            .await;
            #[expect(
                clippy::disallowed_methods,
                reason = "it ends with the last writer of the pipe, and nothing depends on it"
            )]
            tokio::spawn(keep_open(stderr));
            Ok(ProgramOutput { status, out, err })
        }
        Ok(Err(error)) => Err(CommandFailure::Wait(error)),
        Err(_) => {
            let _ = child.kill().await;
            Err(CommandFailure::Late)
        }
    }
}

/// Reads to the end, keeping the last bytes. Loses nothing when dropped.
async fn drain(from: &mut (impl AsyncRead + Unpin), into: &mut Vec<u8>) -> io::Result<()> {
    let mut part = [0; 4096];
    loop {
        let bytes = from.read(&mut part).await?;
        if bytes == 0 {
            return Ok(());
        }
        into.extend_from_slice(&part[..bytes]);
        if into.len() > 2 * SAID_BYTES_MAX {
            into.drain(..into.len() - SAID_BYTES_MAX);
        }
    }
}

/// Reads a pipe until its last writer closes it: a proxy that the program left
/// behind would die of a closed pipe.
async fn keep_open(mut pipe: impl AsyncRead + Unpin) {
    let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
}
