//! Nodes that are reached by the user's own `ssh`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use nero_agents::{AgentError, AgentOptions, RemoteCancel};
use nero_model::DeploymentId;
use nero_ssh::{Asks, Host, SSH_VARIABLE, Ssh, SshError};
use nero_wire::hello;
use nero_wire::v1::{self, Remedy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::connect::{Connect, ConnectFailure, Link, OnProgress};
use nero_home::failure::Failure;

/// Agents that are remembered: a few terminals and sessions.
const SOCKS_MAX: usize = 8;
/// A living agent answers at once; it may be at the far end of a slow line.
const SOCK_ANSWERS: Duration = Duration::from_secs(2);
/// Asks an agent which extensions it knows: length, kind of message, the word
/// and its length. All answer, if only that they do not know the question, and
/// none asks a person to unlock or to confirm anything for it.
const QUERY: &[u8] = b"\0\0\0\x0a\x1b\0\0\0\x05query";

/// Sockets of ssh agents that clients brought, the newest first.
#[derive(Clone, Debug, Default)]
pub struct Socks(Arc<Mutex<Vec<PathBuf>>>);

impl Socks {
    /// Remembers one; whether it was not known before.
    pub fn bring(&self, path: &Path) -> bool {
        if !path.is_absolute() {
            return false;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = match known.iter().position(|one| one == path) {
            Some(at) => {
                known.remove(at);
                false
            }
            None => true,
        };
        known.insert(0, path.to_path_buf());
        known.truncate(SOCKS_MAX);
        fresh
    }

    /// The newest agent that answers. The kernel accepts connections for a
    /// frozen agent, and sshd for one at the other end of a dead connection.
    pub(crate) async fn newest(&self) -> Option<PathBuf> {
        let known = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let asked = known.into_iter().map(|path| async {
            let answered = tokio::time::timeout(SOCK_ANSWERS, answers(&path)).await;
            matches!(answered, Ok(Ok(()))).then_some(path)
        });
        let mut answering = stream::iter(asked).buffered(SOCKS_MAX);
        while let Some(answered) = answering.next().await {
            if answered.is_some() {
                return answered;
            }
        }
        None
    }
}

async fn answers(agent: &Path) -> io::Result<()> {
    let mut stream = UnixStream::connect(agent).await?;
    stream.write_all(QUERY).await?;
    stream.read_u8().await.map(drop)
}

/// What all nodes elsewhere share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Agents {
    ssh: Result<Ssh, Failure>,
    pub socks: Socks,
    pub deployment: DeploymentId,
    /// How often the deployment was taken over.
    pub tenure: u64,
}

impl Agents {
    /// `sockets` is a private folder for those of ssh.
    pub fn new(sockets: &Path, deployment: DeploymentId, tenure: u64) -> Self {
        Self {
            ssh: Ssh::from_environment(sockets).map_err(|error| refused(&error).failure),
            socks: Socks::default(),
            deployment,
            tenure,
        }
    }

    /// The same for another deployment.
    pub fn of(&self, deployment: DeploymentId, tenure: u64) -> Self {
        Self {
            deployment,
            tenure,
            ..self.clone()
        }
    }

    /// The same, which tries a private key, too.
    pub fn with_key(&self, key: Option<String>) -> Self {
        Self {
            ssh: self
                .ssh
                .as_ref()
                .map(|ssh| ssh.with_key(key))
                .map_err(Clone::clone),
            ..self.clone()
        }
    }

    /// The user's ssh.
    ///
    /// # Errors
    /// When its variable in the environment is no command.
    pub fn ssh(&self) -> Result<&Ssh, Failure> {
        self.ssh.as_ref().map_err(Clone::clone)
    }

    /// Ends what a daemon that was killed left of nodes that are not configured
    /// any more: no driver ever would. What is there now, that is; beside
    /// everything else.
    pub fn end_strangers(&self, config: &nero_config::Config) {
        let Ok(ssh) = self.ssh() else { return };
        let ending = ssh.end_strangers(config.nodes.keys().map(|name| &**name));
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends with the commands that it waits for, and nothing depends on it"
        )]
        tokio::spawn(async move {
            let ended = ending.await;
            if ended > 0 {
                tracing::info!(ended, "connections of removed nodes are ended");
            }
        });
    }

    /// A connection that commands go over.
    ///
    /// # Errors
    /// Says why there is none.
    pub async fn host(&self, node: &str, address: &str) -> Result<Host, ConnectFailure> {
        let ssh = self.ssh().map_err(|failure| ConnectFailure {
            failure,
            needs_person: true,
        })?;
        let sock = self.socks.newest().await;
        ssh.connect(node, address, sock.as_deref())
            .await
            .map_err(|error| refused(&error))
    }
}

fn refused(error: &SshError) -> ConnectFailure {
    ConnectFailure {
        failure: by_ssh(error),
        needs_person: error.needs_user(),
    }
}

/// What failed on the way, with what to do.
pub fn by_ssh(error: &SshError) -> Failure {
    let failure = Failure::node_error(error);
    let failure = failure.remedy(remedy(error));
    match error.hint() {
        Some(hint) => failure.hint(as_used(&hint, &ssh_command())),
        None => failure,
    }
}

/// The step to which the hint of an error of ssh leads.
fn remedy(error: &SshError) -> Remedy {
    match error.asks() {
        Asks::Nothing => Remedy::Unspecified,
        Asks::ToConnect => Remedy::Connect,
        Asks::InTerminal => Remedy::Terminal,
    }
}

/// The user's own `ssh`, when another one is named.
fn ssh_command() -> String {
    let command = std::env::var_os(SSH_VARIABLE).unwrap_or_default();
    command.to_string_lossy().trim().to_owned()
}

/// A hint whose commands begin as those that are run here, so that they work
/// when they are typed.
fn as_used(hint: &str, command: &str) -> String {
    if command.is_empty() {
        return hint.to_owned();
    }
    ["`", "`time "]
        .iter()
        .fold(hint.to_owned(), |hint, before| {
            hint.replace(&format!("{before}ssh "), &format!("{before}{command} "))
        })
}

/// Connects to neromum on another machine; sends and starts it where needed.
#[derive(Debug)]
pub struct RemoteAgent {
    pub agents: Agents,
    pub name: String,
    pub address: String,
    pub root: Option<String>,
    pub options: AgentOptions,
}

impl RemoteAgent {
    /// What would be found and sent there; nothing is.
    pub async fn prospect(&self, host: &Host) -> Result<nero_agents::Prospect, Failure> {
        let prospect = nero_agents::prospect(host, self.root.as_deref()).await;
        prospect.map_err(|error| self.not_started(&error).failure)
    }

    /// Where the node's root is. Asks without speaking to an agent, which may
    /// refuse us.
    pub async fn root_at(&self, host: &Host) -> Result<String, Failure> {
        let root = nero_agents::root_of(host, self.root.as_deref()).await;
        root.map_err(|error| self.not_started(&error).failure)
    }

    async fn link(&self, heard: OnProgress<'_>) -> Result<Link, ConnectFailure> {
        let say = |what: &str| {
            heard(v1::Progress {
                what: what.to_owned(),
                node: self.name.clone(),
                ..v1::Progress::default()
            });
        };
        say("connecting");
        let host = self.agents.host(&self.name, &self.address).await?;
        say("looking at the machine");
        let cancel = RemoteCancel {
            node: self.name.clone(),
            deployment: self.agents.deployment,
            root: self.root.clone(),
            options: self.options.clone(),
            tenure: self.agents.tenure,
        };
        let progress = |progress: nero_agents::Progress| {
            heard(v1::Progress {
                what: progress.what,
                node: self.name.clone(),
                done_bytes: progress.done_bytes,
                total_bytes: progress.total_bytes,
                ..v1::Progress::default()
            });
        };
        let remote = nero_agents::start_remote(&host, &cancel, &progress)
            .await
            .map_err(|error| self.not_started(&error))?;
        if remote.pushed_bytes > 0 {
            tracing::info!(
                node = self.name,
                bytes = remote.pushed_bytes,
                build = remote.hello.build,
                "agents sent"
            );
        }
        if let Some(why) = &remote.kept {
            tracing::warn!(
                node = self.name,
                build = remote.hello.build,
                %why,
                "our agent could not be sent; the one there is used"
            );
        }
        let carrier = host.clone();
        Ok(Link {
            channel: remote.channel,
            hello: remote.hello,
            gone: async move { carrier.gone().await }.boxed(),
            host: Some(host),
            facts: Some(Arc::new(remote.facts)),
        })
    }

    fn not_started(&self, error: &AgentError) -> ConnectFailure {
        let failure = match error {
            // It names the node itself.
            AgentError::Ssh(error) => Failure::node_error(error).remedy(remedy(error)),
            // The node's own words, without those of the protocol.
            AgentError::Greeting(status) => {
                let what = format!("cannot use node {} ({})", self.name, self.address);
                let failure = Failure::node(what).status(status);
                if hello::is_taken_over(status) {
                    failure
                        .hint(format!(
                            "to have them back here: neroman node take-over {}",
                            self.name
                        ))
                        .remedy(Remedy::TakeOver)
                } else {
                    failure
                }
            }
            AgentError::Transport(_) => Failure::lost().of(&self.name),
            other => {
                let what = format!("cannot use node {} ({})", self.name, self.address);
                Failure::node(what).caused_by(other)
            }
        };
        ConnectFailure {
            failure: match error.hint() {
                Some(hint) => failure.hint(as_used(&hint, &ssh_command())),
                None => failure,
            },
            needs_person: error.needs_user(),
        }
    }
}

impl Connect for RemoteAgent {
    fn connect<'a>(&'a self, heard: OnProgress<'a>) -> BoxFuture<'a, Result<Link, ConnectFailure>> {
        self.link(heard).boxed()
    }

    fn hang_up(&self) -> BoxFuture<'_, ()> {
        async move {
            let Ok(ssh) = self.agents.ssh() else { return };
            if let Err(error) = ssh.hang_up(&self.name, &self.address).await {
                tracing::debug!(node = self.name, %error, "connection not ended");
            }
        }
        .boxed()
    }

    fn files_left(&self) -> BoxFuture<'_, Result<u64, Failure>> {
        async move {
            let host = self.agents.host(&self.name, &self.address).await;
            let host = host.map_err(|refused| refused.failure)?;
            let (root, deployment) = (self.root.as_deref(), self.agents.deployment);
            let left = nero_agents::files_left(&host, root, deployment, &self.name).await;
            left.map_err(|error| self.not_started(&error).failure)
        }
        .boxed()
    }

    fn forget(&self) -> BoxFuture<'_, ()> {
        async move {
            let Ok(ssh) = self.agents.ssh() else { return };
            if let Err(error) = ssh.forget(&self.name, &self.address).await {
                tracing::debug!(node = self.name, %error, "connection not ended");
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    #[test]
    fn a_hint_can_be_typed_where_another_ssh_is_used() {
        let hint = "`ssh -v h3` prints more, `time ssh h3 true` too; `ssh-add -l`, ssh";
        assert_eq!(as_used(hint, ""), hint);
        assert_eq!(
            as_used(hint, "ssh -F f"),
            "`ssh -F f -v h3` prints more, `time ssh -F f h3 true` too; `ssh-add -l`, ssh"
        );
    }

    /// An agent that knows no question, as long as it is held.
    fn agent(socket: &Path) -> tokio::task::JoinSet<()> {
        let listener = UnixListener::bind(socket).unwrap();
        let mut serving = tokio::task::JoinSet::new();
        serving.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut question = vec![0; stream.read_u32().await.unwrap() as usize];
                stream.read_exact(&mut question).await.unwrap();
                assert_eq!(question[0], 27);
                stream.write_all(&[0, 0, 0, 1, 5]).await.unwrap();
            }
        });
        serving
    }

    #[tokio::test]
    async fn the_newest_agent_that_answers_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let _first = agent(&at("first"));
        let second = agent(&at("second"));
        let _frozen = UnixListener::bind(at("frozen")).unwrap();
        let socks = Socks::default();
        assert_eq!(socks.newest().await, None);
        assert!(socks.bring(&at("first")));
        assert!(socks.bring(&at("second")));
        assert!(!socks.bring(Path::new("relative")));
        assert_eq!(socks.newest().await, Some(at("second")));
        drop(second);
        assert_eq!(socks.newest().await, Some(at("first")));
        assert!(!socks.bring(&at("second")), "it is known");
        assert!(socks.bring(&at("frozen")));
        assert_eq!(socks.newest().await, Some(at("first")));
        for number in 0..SOCKS_MAX {
            assert!(socks.bring(&at(&number.to_string())));
        }
        assert_eq!(socks.newest().await, None, "the old ones are forgotten");
    }
}
