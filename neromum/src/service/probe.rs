//! Probes: a line of shell, whose output tells something about this host. It has a time limit,
//! and its processes end with it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nero_model::safe::Safe;
use nero_node::staging::environment::Base;
use nero_wire::v1::ProbeReply;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use super::ServiceState;
use crate::warden::process_group::ProcessGroup;
use crate::warden::runner::ends_with_neromum;

/// Probes that are executed at once: neroman asks for fewer, and a greedy one gets no more.
pub(super) const AT_ONCE: usize = 16;
/// Time limit of a probe.
const LIMIT: Duration = Duration::from_secs(60);
/// Largest output of a probe.
const OUT_BYTES_MAX: usize = 4096;
/// Largest part of standard error that is kept, its last one.
const ERR_BYTES_MAX: usize = 200;

/// Executes a line of shell as jobs are, in the home folder, and answers with what it prints.
pub(super) async fn probe(inner: &ServiceState, command: &str) -> ProbeReply {
    let Ok(_one) = inner.probes.try_acquire() else {
        return none("too many probes are asked at once");
    };
    let executed = execute(command, LIMIT).await;
    executed.map_or_else(none, |printed| ProbeReply {
        printed,
        problem: String::new(),
    })
}

fn none(problem: impl Into<String>) -> ProbeReply {
    ProbeReply {
        printed: Vec::new(),
        problem: problem.into(),
    }
}

async fn execute(command: &str, limit: Duration) -> Result<Vec<u8>, String> {
    let base = Base::of_node();
    let mut shell = Command::new("/bin/sh");
    ends_with_neromum(&mut shell);
    let home = base.value(b"HOME").map(OsStr::from_bytes).map(Path::new);
    let home = home.filter(|home| home.is_dir());
    let mut child = shell
        .args(["-c", command])
        .env_clear()
        .envs(base.each())
        .current_dir(home.unwrap_or(Path::new("/")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("/bin/sh cannot be executed: {error}"))?;
    // Dropped before the child, also when the caller leaves: the group is ended while its
    // leader is not reaped.
    let mut group = ProcessGroup::of(&child);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let talk = async {
        // A probe that prints more than that is ended by its next write.
        let (out, err) = tokio::join!(
            first_of(stdout.expect("it is piped"), OUT_BYTES_MAX + 1),
            last_of(stderr.expect("it is piped"), ERR_BYTES_MAX)
        );
        (child.wait().await, out, err)
    };
    let (status, mut out, err) = match tokio::time::timeout(limit, talk).await {
        Ok((Ok(status), out, err)) => (status, out, err),
        Ok((Err(error), ..)) => return Err(format!("its end is not known: {error}")),
        Err(_) => return Err(format!("it did not end within {} s", limit.as_secs())),
    };
    group.leave();
    if out.len() > OUT_BYTES_MAX {
        return Err(format!("it prints more than {OUT_BYTES_MAX} bytes"));
    }
    if out.ends_with(b"\n") {
        out.pop();
    }
    if out.is_empty() && !status.success() {
        let said = String::from_utf8_lossy(&err);
        let line = Safe::line(said.lines().next_back().unwrap_or_default()).to_string();
        let behind = if line.is_empty() { "" } else { ": " };
        return Err(format!("it printed nothing ({status}){behind}{line}"));
    }
    Ok(out)
}

/// The first bytes of a stream; what comes behind is refused.
async fn first_of(stream: impl AsyncRead + Unpin, bytes: usize) -> Vec<u8> {
    let mut read = Vec::new();
    // What was read before a failure is all that there is.
    let _ = stream.take(bytes as u64).read_to_end(&mut read).await;
    read
}

/// The last bytes of a stream.
async fn last_of(mut stream: impl AsyncRead + Unpin, bytes: usize) -> Vec<u8> {
    let mut last = Vec::new();
    let mut buffer = vec![0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        last.extend_from_slice(&buffer[..read]);
        last.drain(..last.len().saturating_sub(bytes));
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(command: &str) -> Result<String, String> {
        let printed = execute(command, Duration::from_secs(20)).await;
        printed.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    #[tokio::test]
    async fn a_probe_answers_with_what_it_prints_without_the_last_newline() {
        assert_eq!(ask("echo yes").await, Ok("yes".to_owned()));
        assert_eq!(ask("printf 'a\\n\\n'; exit 3").await, Ok("a\n".to_owned()));
        assert_eq!(ask("true").await, Ok(String::new()));
        assert_eq!(ask("cat").await, Ok(String::new()), "nothing to read");
        let failed = ask("echo why >&2; exit 3").await.unwrap_err();
        assert_eq!(failed, "it printed nothing (exit status: 3): why");
    }

    #[tokio::test]
    async fn a_probe_that_prints_without_end_is_ended() {
        let failed = ask("yes").await.unwrap_err();
        assert_eq!(failed, "it prints more than 4096 bytes");
    }

    #[tokio::test]
    async fn a_probe_that_hangs_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file) = (folder.path().join("pipe"), folder.path().join("file"));
        let command = format!(
            "mkfifo {0}; (cat {0}; echo alive > {1}) & echo no; sleep 600",
            pipe.display(),
            file.display()
        );
        let failed = execute(&command, Duration::from_millis(500)).await;
        assert!(failed.unwrap_err().contains("did not end within"));
        // Nobody reads the pipe any more: an open that waits for a reader would hang.
        let mut options = std::fs::OpenOptions::new();
        use std::os::unix::fs::OpenOptionsExt as _;
        options
            .write(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while pipe.exists() && options.open(&pipe).is_ok() {
            assert!(std::time::Instant::now() < deadline, "it still reads");
            tokio::task::yield_now().await;
        }
        assert!(!file.exists());
    }
}
