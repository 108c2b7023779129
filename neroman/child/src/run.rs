//! Starts a program, gives it its input, and reads what it prints, within a deadline.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::ChildError;

/// What is in the pipes when a program has ended is read within this time: a program that it
/// left running may hold them open for ever.
const PIPES: Duration = Duration::from_millis(500);

/// What is kept of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptOutput {
    /// All. A program that prints more than so many bytes is ended.
    Whole(usize),
    /// The last bytes.
    End(usize),
}

/// Limits of a program.
#[derive(Clone, Copy, Debug)]
pub struct ChildLimits {
    /// Of its standard output.
    pub out: KeptOutput,
    /// The bytes that are kept of the end of its standard error.
    pub err: usize,
    /// It has to end within this time.
    pub patience: Duration,
    /// Whether its process group is killed with the deadline and when the future is dropped. Else
    /// it ends by itself.
    pub is_killed: bool,
}

/// A program that ended by itself.
#[derive(Debug)]
pub struct EndedChild {
    /// How it ended.
    pub status: ExitStatus,
    /// What is kept of its standard output.
    pub out: Vec<u8>,
    /// The end of its standard error.
    pub err: Vec<u8>,
}

impl EndedChild {
    /// The last line of its standard error, else of its standard output, else how it ended.
    pub fn last_words(&self) -> String {
        last_line(&self.err)
            .or_else(|| last_line(&self.out))
            .unwrap_or_else(|| self.status.to_string())
    }
}

/// The last line that is not blank.
fn last_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().rev().map(str::trim);
    lines.find(|line| !line.is_empty()).map(str::to_owned)
}

/// Runs a program to its end, in a process group of its own. `program` names it in errors. The
/// program gets the parts of `input` one after the other. What it left running when it ended by
/// itself is not touched.
///
/// # Errors
/// When it does not start, does not end in time, or prints too much; when a part of its input
/// cannot be made.
pub async fn run(
    program: &str,
    mut command: Command,
    input: impl IntoIterator<Item = io::Result<Vec<u8>>>,
    limits: ChildLimits,
) -> Result<EndedChild, ChildError> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(limits.is_killed);
    let leader = command
        .spawn()
        .map_err(ChildError::system("start", program))?;
    let group = ChildGroup {
        leader,
        is_killed: limits.is_killed,
    };
    let ended = timeout(limits.patience, finish(program, group, input, limits)).await;
    ended.unwrap_or_else(|_| {
        Err(ChildError::Late {
            program: program.to_owned(),
            patience: limits.patience,
        })
    })
}

/// A process group that ends with this value, unless its leader has ended.
struct ChildGroup {
    leader: Child,
    is_killed: bool,
}

impl Drop for ChildGroup {
    fn drop(&mut self) {
        // There is no id any more when the leader was waited for: its number may be another's.
        let leader = self.leader.id().and_then(|id| i32::try_from(id).ok());
        if let Some(leader) = leader.and_then(Pid::from_raw).filter(|_| self.is_killed) {
            // Fails only where nothing of the group is left.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

async fn finish(
    program: &str,
    mut group: ChildGroup,
    input: impl IntoIterator<Item = io::Result<Vec<u8>>>,
    limits: ChildLimits,
) -> Result<EndedChild, ChildError> {
    let too_long = |bytes| ChildError::Long {
        program: program.to_owned(),
        bytes,
    };
    let wait = || ChildError::system("wait for", program);
    let child = &mut group.leader;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = {
        let feed = async {
            let Some(mut stdin) = stdin else {
                return Ok(());
            };
            for part in input {
                let part = part.map_err(ChildError::system("make the input of", program))?;
                // A write fails where the program does not read all of its input, which is its
                // affair.
                if stdin.write_all(&part).await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        let pipes = async {
            let out = async { read(stdout, limits.out, &mut out).await.map_err(too_long) };
            let err = async {
                let kept = KeptOutput::End(limits.err);
                read(stderr, kept, &mut err).await.map_err(too_long)
            };
            tokio::try_join!(feed, out, err).map(|_| ())
        };
        tokio::pin!(pipes);
        let ended = tokio::select! {
            status = child.wait() => Some(status.map_err(wait())?),
            read = &mut pipes => {
                read?;
                None
            }
        };
        match ended {
            Some(status) => {
                let read = timeout(PIPES, pipes).await;
                read.unwrap_or(Ok(()))?;
                status
            }
            None => child.wait().await.map_err(wait())?,
        }
    };
    Ok(EndedChild { status, out, err })
}

/// Reads to the end; the error is the most bytes that there may be.
async fn read(
    from: Option<impl AsyncRead + Unpin>,
    keep: KeptOutput,
    kept: &mut Vec<u8>,
) -> Result<(), usize> {
    let Some(mut from) = from else {
        return Ok(());
    };
    let mut part = vec![0; 64 << 10];
    // An output that cannot be read any more has ended.
    while let Ok(length) = from.read(&mut part).await
        && length > 0
    {
        kept.extend_from_slice(&part[..length]);
        match keep {
            KeptOutput::Whole(most) if kept.len() > most => return Err(most),
            KeptOutput::End(most) if kept.len() > 2 * most => {
                kept.drain(..kept.len() - most);
            }
            KeptOutput::Whole(_) | KeptOutput::End(_) => {}
        }
    }
    Ok(())
}
