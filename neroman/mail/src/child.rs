//! Starts a program, gives it its input, and reads what it prints, within a deadline.
//!
//! The program gets a process group of its own, which ends with the deadline or when the future
//! is dropped. What the program left running when it ended by itself is not touched.

use std::ffi::OsStr;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nero_model::safe::quoted;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// What is kept of an output.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// What is in the pipes when a program has ended is read within this time: a program that it
/// left running may hold them open for ever.
const PIPES: Duration = Duration::from_millis(500);

/// A program that ended by itself.
#[derive(Debug)]
pub(crate) struct EndedChild {
    pub(crate) status: ExitStatus,
    /// The end of its standard output.
    pub(crate) out: Vec<u8>,
    /// The end of its standard error.
    pub(crate) err: Vec<u8>,
}

impl EndedChild {
    /// The last line of its standard error, else of its standard output, else how it ended.
    pub(crate) fn last_words(&self) -> String {
        let last = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let mut lines = text.lines().rev().map(str::trim);
            lines.find(|line| !line.is_empty()).map(str::to_owned)
        };
        let said = last(&self.err).or_else(|| last(&self.out));
        said.unwrap_or_else(|| self.status.to_string())
    }
}

/// Runs a program to its end. The error is for people: which program failed and how.
pub(crate) async fn run(
    program: &OsStr,
    arguments: &[impl AsRef<OsStr>],
    input: &[u8],
    deadline: Duration,
) -> Result<EndedChild, String> {
    let name = quoted(&program.to_string_lossy());
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let child = command
        .spawn()
        .map_err(|error| format!("cannot start {name}: {error}"))?;
    match timeout(deadline, finish(ChildGroup(child), input)).await {
        Ok(Ok(ended)) => Ok(ended),
        Ok(Err(error)) => Err(format!("cannot wait for {name}: {error}")),
        Err(_) => Err(format!(
            "{name} did not end within {} s",
            deadline.as_secs()
        )),
    }
}

/// A process group that ends with this value, unless its leader has ended.
struct ChildGroup(Child);

impl Drop for ChildGroup {
    fn drop(&mut self) {
        // There is no id any more when the leader was waited for: its number may be another's.
        let leader = self.0.id().and_then(|id| i32::try_from(id).ok());
        if let Some(leader) = leader.and_then(Pid::from_raw) {
            // Fails only where nothing of the group is left.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

async fn finish(mut group: ChildGroup, input: &[u8]) -> std::io::Result<EndedChild> {
    let child = &mut group.0;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = {
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A program need not read its input.
                let _ = stdin.write_all(input).await;
            }
        };
        let pipes = async {
            tokio::join!(feed, read_end(stdout, &mut out), read_end(stderr, &mut err));
        };
        tokio::pin!(pipes);
        let ended = tokio::select! {
            status = child.wait() => Some(status?),
            () = &mut pipes => None,
        };
        match ended {
            Some(status) => {
                let _ = timeout(PIPES, pipes).await;
                status
            }
            None => child.wait().await?,
        }
    };
    Ok(EndedChild { status, out, err })
}

/// Reads to the end and keeps the last bytes.
async fn read_end(from: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let mut part = vec![0; 8 << 10];
    // An output that cannot be read any more has ended.
    while let Ok(length) = from.read(&mut part).await
        && length > 0
    {
        kept.extend_from_slice(&part[..length]);
        if kept.len() > 2 * OUTPUT_BYTES_MAX {
            kept.drain(..kept.len() - OUTPUT_BYTES_MAX);
        }
    }
}

/// The password or key that a program prints: its first line. The error is for people.
pub(crate) async fn secret(command: &[String], deadline: Duration) -> Result<String, String> {
    let (program, arguments) = command.split_first().ok_or("the command is empty")?;
    let name = quoted(program);
    let ended = run(program.as_ref(), arguments, b"", deadline).await?;
    if !ended.status.success() {
        // Never its standard output: that may be a secret.
        let last = String::from_utf8_lossy(&ended.err).into_owned();
        let last = last.lines().rev().find(|line| !line.trim().is_empty());
        let said = last.map_or_else(|| ended.status.to_string(), str::to_owned);
        return Err(format!("{name} failed: {said}"));
    }
    let text = String::from_utf8(ended.out);
    let text = text.map_err(|_| format!("{name} printed something that is no text"))?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None => Err(format!("{name} printed nothing")),
    }
}
