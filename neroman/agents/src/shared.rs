//! A local node whose root other hosts share: the leading neromum may be on
//! another host, and only `neromum dial` finds the way.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nero_model::ids::{hex, random};
use nero_model::safe::Safe;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;
use tonic::transport::Channel;

use super::AgentError;
use super::install::refused;

/// Limit of bytes before the mark; only `neromum dial` writes to this pipe.
const BEFORE_MARK_MAX: usize = 4096;
/// Limit of the last words that an error carries.
const SAID_BYTES: u64 = 4096;
/// Time for `neromum dial` to find a way. In a root that several hosts share it
/// gives a silent leader 95 s, and then reports the leader that it met.
pub(crate) const DIALLED: Duration = Duration::from_secs(110);
/// Time from the end of its output to its exit.
const ENDS: Duration = Duration::from_secs(5);

/// Connects over the standard streams of `neromum dial`, which ends with the
/// connection.
///
/// # Errors
/// When `neromum dial` finds no way; the error has its last words.
pub(crate) async fn dial(folder: &Path, words: Vec<OsString>) -> Result<Channel, AgentError> {
    dial_within(DIALLED, folder, words).await
}

async fn dial_within(
    patience: Duration,
    folder: &Path,
    words: Vec<OsString>,
) -> Result<Channel, AgentError> {
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
    let marked = timeout(patience, until_mark(&mut stdout, &mark)).await;
    if marked == Ok(true) {
        let stream = tokio::io::join(stdout, stdin);
        return nero_wire::dial_far(stream)
            .await
            .map_err(AgentError::Transport);
    }
    drop((stdin, stdout));
    if marked.is_err() {
        let _ = child.start_kill();
    }
    let mut said = Vec::new();
    let ended = timeout(ENDS, async {
        if let Some(stderr) = child.stderr.take() {
            // If its standard error cannot be read, the error goes without.
            let _ = stderr.take(SAID_BYTES).read_to_end(&mut said).await;
        }
        child.wait().await
    });
    let ended = ended.await;
    let log = String::from_utf8_lossy(&said)
        .lines()
        .map(|line| Safe::line(line).to_string())
        .collect();
    match (marked, ended) {
        (Ok(_), Ok(status)) => Err(AgentError::Ended {
            status: status.map_err(refused("wait for", &program))?.to_string(),
            log,
        }),
        (Err(_), _) | (_, Err(_)) => {
            let _ = child.start_kill();
            Err(AgentError::Silent {
                seconds: patience.as_secs(),
                log,
            })
        }
    }
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder in which neromum is the given script.
    fn neromum(script: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("neromum");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
        folder
    }

    #[tokio::test]
    async fn a_dial_that_finds_no_way_is_not_waited_for_for_ever() {
        let dial = async |script: &str| {
            let folder = neromum(script);
            let patience = Duration::from_millis(100);
            let dialled = dial_within(patience, folder.path(), Vec::new()).await;
            dialled.unwrap_err().to_string()
        };
        let said = dial("echo login2 is frozen >&2; exec sleep 1000").await;
        assert!(
            said.contains("does not answer") && said.contains("login2 is frozen"),
            "{said}"
        );
        let said = dial("echo no way >&2; exit 3").await;
        assert!(
            said.contains("exit status: 3") && said.contains("no way"),
            "{said}"
        );
    }
}
