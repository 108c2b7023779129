//! Starting neromum where none answers, and greeting it.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures_util::FutureExt as _;
use nero_model::DeploymentId;
use nero_model::paths::{NodePaths, make_private};
use nero_model::safe::Safe;
use nero_wire::v1::Hello;
use nero_wire::{DialError, dial};
use tokio::process::{Child, Command};
use tokio::time::Instant;
use tonic::transport::Channel;

use super::greet::{self, Greeter};
use super::install::{install, mum_of, refused};
use super::{AgentError, AgentOptions, shared};

/// Time for a started neromum to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first pause between two tries to connect, doubled up to the last. A
/// socket that appears is an event; but its folder may not exist yet.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// Lines of the log that an error carries.
const LINES: usize = 8;
/// Bytes of the log that are searched for those lines.
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
    let (folder, bin) = (from.to_path_buf(), paths.bin());
    let mum = tokio::task::spawn_blocking(move || mum_of(&folder, &bin));
    let greeter = Greeter {
        deployment,
        tenure: 0,
        mum: mum.await.unwrap_or_default(),
        gives: options.gives(),
    };
    let place = AgentSetup {
        paths,
        deployment,
        node,
        options,
        from,
    };
    greet::connect(&|| place.reach().boxed(), &greeter).await
}

/// A neromum: its paths and options, and the programs to start it from.
struct AgentSetup<'a> {
    paths: NodePaths,
    deployment: DeploymentId,
    node: &'a str,
    options: &'a AgentOptions,
    from: &'a Path,
}

impl AgentSetup<'_> {
    /// Connects; starts a neromum where none listens.
    async fn reach(&self) -> Result<Channel, AgentError> {
        if self.is_shared()? {
            let folder = self.install().await?;
            return shared::dial(&folder, self.words()).await;
        }
        let socket = self.paths.sockets().join("mum.sock");
        let earlier = self.paths.earlier_sockets();
        let earlier = earlier.map(|folder| folder.join("mum.sock"));
        for known in [Some(&socket), earlier.as_ref()].into_iter().flatten() {
            if let Some(channel) = try_dial(known).await? {
                return Ok(channel);
            }
        }
        let folder = self.install().await?;
        self.wait(&folder, &socket).await
    }

    /// Whether a lease decides who leads: then only neromum itself finds the
    /// leader.
    fn is_shared(&self) -> Result<bool, AgentError> {
        match self.options.shared {
            // Several hosts share the root of a cluster.
            _ if !self.options.warden.is_empty() => Ok(true),
            Some(said) => Ok(said),
            None => self
                .paths
                .is_shared()
                .map_err(refused("look at", self.paths.root())),
        }
    }

    async fn install(&self) -> Result<PathBuf, AgentError> {
        let (from, bin) = (self.from.to_path_buf(), self.paths.bin());
        let installed = tokio::task::spawn_blocking(move || install(&from, &bin));
        installed
            .await
            .map_err(|error| refused("install", self.paths.root())(std::io::Error::other(error)))?
    }

    /// The node, as words of neromum's command line.
    fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["--root".into(), self.paths.root().into()];
        words.extend(["--deployment".into(), self.deployment.to_string().into()]);
        words.extend(["--node".into(), self.node.into()]);
        words.extend(self.options.words().into_iter().map(OsString::from));
        words
    }

    /// Starts neromum and dials until it answers. The runtime reaps a dropped
    /// child.
    async fn wait(&self, folder: &Path, socket: &Path) -> Result<Channel, AgentError> {
        let deadline = Instant::now() + PATIENCE;
        let (mut pause, longest) = PAUSES;
        let mut child = self.spawn(folder)?;
        loop {
            // Read before dialling: if the child ends after this dial, the next
            // round sees it.
            let ended = child.try_wait().ok().flatten();
            if let Some(channel) = try_dial(socket).await? {
                return Ok(channel);
            }
            if Instant::now() >= deadline {
                return Err(AgentError::Silent {
                    seconds: PATIENCE.as_secs(),
                    log: log(&self.paths),
                });
            }
            match ended {
                // Our neromum found another that serves, and that one may be
                // leaving.
                Some(status) if status.success() => child = self.spawn(folder)?,
                Some(status) => {
                    return Err(AgentError::Ended {
                        status: status.to_string(),
                        log: log(&self.paths),
                    });
                }
                None => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Starts neromum, in a session of its own, so that it outlives this daemon.
    fn spawn(&self, folder: &Path) -> Result<Child, AgentError> {
        let (program, mum) = (folder.join("neromum"), self.paths.mum());
        make_private(&mum).map_err(refused("make", &mum))?;
        let words = last_words(&self.paths);
        let stderr = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&words)
            .map_err(refused("make", &words))?;
        Command::new(&program)
            .args(["serve", "--own-session"])
            .args(self.words())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map_err(refused("start", &program))
    }
}

/// Connects; `None` when no process listens.
async fn try_dial(socket: &Path) -> Result<Option<Channel>, AgentError> {
    match dial(socket).await {
        Ok(channel) => Ok(Some(channel)),
        // A neromum that is just leaving closes its connections.
        Err(DialError::Nobody { .. } | DialError::Transport { .. }) => Ok(None),
        Err(error @ DialError::NotOurs { .. }) => Err(AgentError::Dial(error)),
    }
}

/// File for neromum's output before it has a log, and for its panics.
fn last_words(paths: &NodePaths) -> PathBuf {
    paths.mum().join("stderr")
}

/// The last lines that neromum wrote, safe to print.
fn log(paths: &NodePaths) -> Vec<String> {
    let written: Vec<String> = [paths.mum().join("log"), last_words(paths)]
        .into_iter()
        .filter_map(|path| nero_model::tail(&path, LOG_BYTES).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .flat_map(|text| {
            text.lines()
                .map(|line| Safe::line(line).to_string())
                .collect::<Vec<_>>()
        })
        .collect();
    written[written.len().saturating_sub(LINES)..].to_vec()
}
