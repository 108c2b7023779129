//! Reaching neromum: at its socket, or by starting it, detached, so that it
//! outlives the connection of the caller.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nero_model::paths::{NodePaths, make_private};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::{DialError, failed};
use nero_warden::Kind;

use crate::args::Options;
use crate::run::{SOCKET, is_led_by_lock};

/// Time for a started neromum to answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// First and longest pause between two tries to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));
/// Limit of lines from a log.
const LINES: usize = 8;
/// Limit of bytes searched for them.
const LOG_BYTES: u64 = 8 * 1024;
/// Variables that belong to the connection and would later be stale, or another
/// connection's.
const OF_THE_CONNECTION: &[&str] = &[
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_ORIGINAL_COMMAND",
    "SSH_TTY",
    "SSH_USER_AUTH",
    "DISPLAY",
    "XDG_SESSION_ID",
];

/// Connects to the neromum that serves at `socket`; starts one where none does.
///
/// # Errors
/// See [`DialError`].
pub async fn reach(
    options: &Options,
    paths: &NodePaths,
    socket: &Path,
) -> Result<UnixStream, DialError> {
    let stream = match UnixStream::connect(socket).await {
        Ok(stream) => stream,
        Err(_) => match earlier(paths).await {
            Some((stream, socket)) => return checked(stream, &socket),
            None => begin(options, paths, socket).await?,
        },
    };
    checked(stream, socket)
}

/// Connects to a neromum of an earlier version, which may listen in this
/// session's folder.
async fn earlier(paths: &NodePaths) -> Option<(UnixStream, PathBuf)> {
    let socket = paths.earlier_sockets()?.join(SOCKET);
    Some((UnixStream::connect(&socket).await.ok()?, socket))
}

/// Connects to the neromum that leads by a file lock since before the node had a
/// scheduler, if one does. Our caller sees in its greeting that it gives runs something
/// else than configured, and asks it to leave.
///
/// # Errors
/// See [`DialError`].
pub async fn before_scheduler(
    options: &Options,
    paths: &NodePaths,
) -> Result<Option<UnixStream>, DialError> {
    if options.warden.kind == Kind::None {
        return Ok(None);
    }
    let socket = paths.sockets().join(SOCKET);
    let deadline = Instant::now() + PATIENCE;
    // It may be leaving: it closes the socket first.
    while is_led_by_lock(paths) && Instant::now() < deadline {
        if let Ok(stream) = UnixStream::connect(&socket).await {
            return checked(stream, &socket).map(Some);
        }
        tokio::time::sleep(PAUSES.1).await;
    }
    Ok(None)
}

/// Refuses a socket that another user serves.
///
/// # Errors
/// See [`DialError`].
pub fn checked(stream: UnixStream, socket: &Path) -> Result<UnixStream, DialError> {
    let peer = stream
        .peer_cred()
        .map_err(failed("ask who serves the socket"))?;
    if peer.uid() != rustix::process::geteuid().as_raw() {
        return Err(DialError::NotOurs {
            path: socket.to_path_buf(),
        });
    }
    Ok(stream)
}

async fn begin(
    options: &Options,
    paths: &NodePaths,
    socket: &Path,
) -> Result<UnixStream, DialError> {
    let deadline = Instant::now() + PATIENCE;
    let (mut pause, longest) = PAUSES;
    let mut child = spawn(options, paths)?;
    loop {
        // Read before connecting: if the child ends after this try, the next
        // round sees it.
        let ended = child.try_wait().ok().flatten();
        if let Ok(stream) = UnixStream::connect(socket).await {
            return Ok(stream);
        }
        if Instant::now() >= deadline {
            let seconds = PATIENCE.as_secs();
            let log = log(paths);
            return Err(DialError::Silent { seconds, log });
        }
        match ended {
            // Our neromum found another that serves, and that one may be leaving.
            Some(status) if status.success() => child = spawn(options, paths)?,
            Some(status) => {
                return Err(DialError::Ended {
                    status: status.to_string(),
                    log: log(paths),
                });
            }
            None => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

/// Starts `serve`, which makes itself a session of its own and gets no part of
/// the connection. The runtime reaps a dropped child, or the process that adopts
/// it does.
pub fn spawn(options: &Options, paths: &NodePaths) -> Result<Child, DialError> {
    let program = std::env::current_exe().map_err(failed("find the path of this program"))?;
    make_private(&paths.mum()).map_err(failed("make its folder"))?;
    let stderr = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(last_words(paths))
        .map_err(failed("make the file for its last words"))?;
    let mut command = Command::new(program);
    command.arg("serve").args(options.for_serve());
    for name in OF_THE_CONNECTION {
        command.env_remove(name);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .current_dir("/")
        .spawn()
        .map_err(failed("start neromum"))
}

/// File for neromum's output before it has a log, and for its panics.
fn last_words(paths: &NodePaths) -> PathBuf {
    paths.mum().join("stderr")
}

/// The last lines of neromum's log, behind its last words.
pub fn log(paths: &NodePaths) -> String {
    let texts: Vec<String> = [paths.mum().join("log"), last_words(paths)]
        .into_iter()
        .filter_map(|path| nero_model::tail(&path, LOG_BYTES).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .collect();
    let lines: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
    match &lines[lines.len().saturating_sub(LINES)..] {
        [] => String::new(),
        last => format!("; its log ends with:\n  {}", last.join("\n  ")),
    }
}
