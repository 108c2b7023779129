//! A local node whose root other hosts share: whoever leads may be on another
//! one, and only `neromum dial` finds the way.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use nero_model::ids::{hex, random};
use nero_model::safe::Safe;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tonic::transport::Channel;

use super::AgentError;
use super::install::refused;

/// Bytes read until the mark; nobody else writes there.
const BEFORE_MARK_MAX: usize = 4096;
/// Bytes of the last words that an error carries.
const SAID_BYTES: u64 = 4096;

/// Connects over the standard streams of `neromum dial`, which ends with the
/// connection.
///
/// # Errors
/// When it finds no way; the error has its last words.
pub(crate) async fn dial(folder: &Path, words: Vec<OsString>) -> Result<Channel, AgentError> {
    let program = folder.join("neromum");
    let mark = format!("nero-{}", hex(&random::<16>()));
    let mut child = Command::new(&program)
        .arg("dial")
        .args(words)
        .args(["--mark", &mark])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(refused("start", &program))?;
    let (Some(stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(refused("speak to", &program)(
            std::io::ErrorKind::BrokenPipe.into(),
        ));
    };
    if until_mark(&mut stdout, &mark).await {
        let stream = tokio::io::join(stdout, stdin);
        return nero_wire::dial_far(stream)
            .await
            .map_err(AgentError::Transport);
    }
    drop((stdin, stdout));
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        // What cannot be read is not told.
        let _ = stderr.take(SAID_BYTES).read_to_end(&mut said).await;
    }
    let status = child.wait().await.map_err(refused("wait for", &program))?;
    Err(AgentError::Ended {
        status: status.to_string(),
        log: String::from_utf8_lossy(&said)
            .lines()
            .map(|line| Safe::line(line).to_string())
            .collect(),
    })
}

/// Reads up to the line of the mark, and not a byte further.
async fn until_mark(stdout: &mut (impl AsyncRead + Unpin), mark: &str) -> bool {
    let end = format!("\n{mark}\n");
    let mut read = Vec::new();
    while read.len() < BEFORE_MARK_MAX && !read.ends_with(end.as_bytes()) {
        match stdout.read_u8().await {
            Ok(byte) => read.push(byte),
            Err(_) => return false,
        }
    }
    read.ends_with(end.as_bytes())
}
