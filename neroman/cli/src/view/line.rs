//! Lines of neroman that a view executes: this program once more, without a terminal.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use crate::fault::Fault;
use crate::line;
use crate::session::AUTHOR;
use crate::steps;

/// Bytes of an answer that are kept.
const ANSWER_MAX: u64 = 8 << 20;

/// What a line printed, and how it ended.
#[derive(Debug)]
pub struct LineOutput {
    /// The exit code; absent: a signal ended it.
    pub code: Option<u8>,
    /// What it printed on standard output.
    pub stdout: Vec<u8>,
    /// What it printed on standard error.
    pub stderr: Vec<u8>,
}

impl LineOutput {
    /// Whether more was printed than is kept.
    pub fn is_cut(&self) -> bool {
        [&self.stdout, &self.stderr]
            .iter()
            .any(|bytes| bytes.len() as u64 >= ANSWER_MAX)
    }
}

/// Whether every step of a line can tell what it would do.
pub fn has_dry_run(words: &[String]) -> bool {
    steps::cut(words).is_ok_and(|steps| {
        (steps.iter()).all(|step| line::place_of(step.verb, &step.words, "--dry-run").is_some())
    })
}

/// Executes a line. The options hold for every step that knows them; the history names the author
/// where it is not empty.
///
/// # Errors
/// When this program cannot be started once more.
pub async fn execute(
    words: &[String],
    options: &[&str],
    author: &str,
) -> Result<LineOutput, Fault> {
    let cannot = |error: &std::io::Error| {
        Fault::failed("cannot start this program once more").because(error)
    };
    let mut command = Command::new(program().map_err(|error| cannot(&error))?);
    command.arg0("neroman");
    // Options before the first verb hold for each step, and are never operands behind `--`.
    command.args(options).args(words);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.env("NO_COLOR", "1").kill_on_drop(true);
    if !author.is_empty() {
        command.env(AUTHOR, author);
    }
    let mut child = command.spawn().map_err(|error| cannot(&error))?;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let read_out = async {
        if let Some(stdout) = stdout {
            let _ = stdout.take(ANSWER_MAX).read_to_end(&mut out).await;
        }
    };
    let read_err = async {
        if let Some(stderr) = stderr {
            let _ = stderr.take(ANSWER_MAX).read_to_end(&mut err).await;
        }
    };
    tokio::join!(read_out, read_err);
    let status = child.wait().await.map_err(|error| cannot(&error))?;
    Ok(LineOutput {
        code: status.code().and_then(|code| u8::try_from(code).ok()),
        stdout: out,
        stderr: err,
    })
}

/// This program: where the kernel tells it, also when another version lies at its path by now.
fn program() -> std::io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        Ok(running)
    } else {
        std::env::current_exe()
    }
}
