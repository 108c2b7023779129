//! Starting neromum where nobody answers, and greeting it.

use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nero_model::DeploymentId;
use nero_model::paths::{NodePaths, make_private};
use nero_model::safe::Safe;
use nero_wire::v1::mum_client::MumClient;
use nero_wire::v1::{Hello, Role};
use nero_wire::{DialError, dial, hello};
use tokio::process::{Child, Command};
use tokio::time::Instant;
use tonic::transport::Channel;

use super::install::{install, refused};
use super::{AgentError, AgentOptions};

/// How long a neromum that was started may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a greeting may take.
const GREETING: Duration = Duration::from_secs(5);
/// The first pause between two tries to connect, doubled up to the last. A
/// socket that appears is an event; but its folder may not exist yet.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// Lines of the log that an error carries.
const LINES: usize = 8;
/// Bytes of the log that are looked at for them.
const LOG_BYTES: u64 = 8 * 1024;

/// See [`super::start_local`]; the programs lie in `from`.
pub(crate) async fn connect(
    root: &Path,
    deployment: DeploymentId,
    node: &str,
    options: &AgentOptions,
    from: &Path,
) -> Result<(Channel, Hello), AgentError> {
    let paths = NodePaths::new(root, &deployment, node);
    let socket = paths.sockets().join("mum.sock");
    if let Some(channel) = try_dial(&socket).await? {
        return greet(channel, deployment).await;
    }
    let (from, bin) = (from.to_path_buf(), paths.bin());
    let installed = tokio::task::spawn_blocking(move || install(&from, &bin));
    let folder = installed
        .await
        .map_err(|error| refused("install", root)(std::io::Error::other(error)))??;
    let child = spawn(&folder, &paths, deployment, node, options)?;
    let channel = wait(child, &paths, &socket).await?;
    greet(channel, deployment).await
}

/// Connects; none when nobody listens.
async fn try_dial(socket: &Path) -> Result<Option<Channel>, AgentError> {
    match dial(socket).await {
        Ok(channel) => Ok(Some(channel)),
        // A neromum that is just leaving lets go of its connections.
        Err(DialError::Nobody { .. } | DialError::Transport { .. }) => Ok(None),
        Err(error @ DialError::NotOurs { .. }) => Err(AgentError::Dial(error)),
    }
}

async fn greet(channel: Channel, deployment: DeploymentId) -> Result<(Channel, Hello), AgentError> {
    let mut request = tonic::Request::new(hello::own(Role::Neroman, "", Some(deployment)));
    request.set_timeout(GREETING);
    let greeting = tokio::time::timeout(GREETING, async {
        MumClient::new(channel.clone()).greet(request).await
    });
    let refused = |status| AgentError::Greeting(Box::new(status));
    let theirs = greeting
        .await
        .map_err(|_| refused(tonic::Status::deadline_exceeded("no greeting in time")))?
        .map_err(refused)?
        .into_inner();
    hello::check(&theirs, Role::Neromum, Some(deployment)).map_err(AgentError::Hello)?;
    Ok((channel, theirs))
}

/// Starts neromum, in a session of its own, so that it outlives this daemon.
fn spawn(
    folder: &Path,
    paths: &NodePaths,
    deployment: DeploymentId,
    node: &str,
    options: &AgentOptions,
) -> Result<Child, AgentError> {
    let program = folder.join("neromum");
    make_private(&paths.mum()).map_err(refused("make", &paths.mum()))?;
    let words = last_words(paths);
    let stderr = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&words)
        .map_err(refused("make", &words))?;
    let mut command = Command::new(&program);
    command
        .args(["serve", "--own-session", "--root"])
        .arg(paths.root())
        .args(["--deployment", &deployment.to_string(), "--node", node]);
    let numbers = [
        ("--cpus", options.cpus.map(|cpus| cpus.to_string())),
        (
            "--memory",
            options.memory_bytes.map(|bytes| bytes.to_string()),
        ),
        (
            "--min-free",
            options.min_free_bytes.map(|bytes| bytes.to_string()),
        ),
    ];
    for (option, number) in numbers {
        if let Some(number) = number {
            command.args([option, &number]);
        }
    }
    command
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .map_err(refused("start", &program))
}

/// What neromum says before it has a log, and when it panics.
fn last_words(paths: &NodePaths) -> PathBuf {
    paths.mum().join("stderr")
}

/// Dials until neromum answers. A child that is let go is reaped by the runtime.
async fn wait(mut child: Child, paths: &NodePaths, socket: &Path) -> Result<Channel, AgentError> {
    let deadline = Instant::now() + PATIENCE;
    let (mut pause, longest) = PAUSES;
    loop {
        // Asked before dialling: an end after the last try is seen by the next.
        let ended = child.try_wait().ok().flatten();
        if let Some(channel) = try_dial(socket).await? {
            return Ok(channel);
        }
        match ended {
            // One that finds another serving ends well: that one will answer.
            Some(status) if !status.success() => {
                return Err(AgentError::Ended {
                    status: status.to_string(),
                    log: log(paths),
                });
            }
            _ if Instant::now() >= deadline => {
                return Err(AgentError::Silent {
                    seconds: PATIENCE.as_secs(),
                    log: log(paths),
                });
            }
            _ => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

/// The last lines that neromum wrote, safe to print.
fn log(paths: &NodePaths) -> Vec<String> {
    let tail = |path: PathBuf| -> std::io::Result<String> {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let written: Vec<String> = [paths.mum().join("log"), last_words(paths)]
        .into_iter()
        .filter_map(|path| tail(path).ok())
        .flat_map(|text| {
            text.lines()
                .map(|line| Safe::line(line).to_string())
                .collect::<Vec<_>>()
        })
        .collect();
    written[written.len().saturating_sub(LINES)..].to_vec()
}
