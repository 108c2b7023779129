//! Another machine's agent over one ssh connection: probe, push where the agent
//! is missing, dial and greet.

use std::path::{Path, PathBuf};

use futures_util::FutureExt as _;
use nero_model::DeploymentId;
use nero_model::ids::{hex, random};
use nero_model::paths::NodePaths;
use nero_ssh::{Host, quoted};
use nero_wire::v1::Hello;
use tonic::transport::Channel;

use crate::facts::Facts;
use crate::fault::NodeFault;
use crate::greet::{self, Greeter};
use crate::install::refused;
use crate::root;
use crate::shared::DIALLED;
use crate::supply::Supply;
use crate::{AgentError, AgentOptions, Progress, probe, push, supply};

/// The agent to start or find.
#[derive(Clone, Debug)]
pub struct RemoteCancel {
    /// The node's name.
    pub node: String,
    /// The deployment that the runs belong to.
    pub deployment: DeploymentId,
    /// The node's root; `~` and `$NAME` are expanded there. `None`:
    /// `~/.neronet`.
    pub root: Option<String>,
    /// The share of the machine that runs may use.
    pub options: AgentOptions,
    /// How often the deployment was taken over.
    pub tenure: u64,
}

/// An agent that was reached.
#[derive(Debug)]
pub struct Remote {
    /// Speaks to it, as long as the connection lives.
    pub channel: Channel,
    /// The agent's greeting.
    pub hello: Hello,
    /// Facts that its machine reported.
    pub facts: Facts,
    /// Bytes sent, compressed; 0: the build was there.
    pub pushed_bytes: u64,
    /// Reason why an earlier agent is used and ours was not sent.
    pub kept: Option<NodeFault>,
}

/// Probes the machine, sends the programs that it lacks, starts neromum where
/// none serves and greets it. A neromum of another build that is no newer is
/// replaced; the runs there go on.
///
/// # Errors
/// See [`AgentError`]; [`AgentError::needs_user`] returns whether a retry is
/// useless.
pub async fn start_remote(
    host: &Host,
    cancel: &RemoteCancel,
    progress: &(dyn Fn(Progress) + Send + Sync),
) -> Result<Remote, AgentError> {
    start(host, cancel, supply::folders()?, progress).await
}

/// [`start_remote`] with the programs of one folder: those for each kind of
/// machine in a folder like `x86_64-linux`, or the programs themselves.
///
/// # Errors
/// See [`start_remote`].
pub async fn start_remote_from(
    folder: &Path,
    host: &Host,
    cancel: &RemoteCancel,
    progress: &(dyn Fn(Progress) + Send + Sync),
) -> Result<Remote, AgentError> {
    start(host, cancel, supply::folders_in(folder), progress).await
}

/// The expanded path of a node's root there; `None`: of the usual root. Sends
/// and starts nothing.
///
/// # Errors
/// When the machine cannot be asked, or has a fault.
pub async fn root_of(host: &Host, root: Option<&str>) -> Result<String, AgentError> {
    let facts = probe::probe(host, root.unwrap_or(root::DEFAULT), &[], 0, false).await?;
    Ok(facts.root)
}

/// Number of files and folders that a node's agent has there. Sends and starts nothing.
///
/// # Errors
/// When the machine cannot be asked, or has a fault.
pub async fn files_left(
    host: &Host,
    root: Option<&str>,
    deployment: DeploymentId,
    node: &str,
) -> Result<u64, AgentError> {
    let facts = probe::probe(host, root.unwrap_or(root::DEFAULT), &[], 0, true).await?;
    let folder = NodePaths::new(Path::new(&facts.root), &deployment, node).mum();
    let folder = quoted(&folder.display().to_string());
    let script = format!("find {folder} 2>/dev/null | wc -l");
    let said = host.script(&script).await.map_err(AgentError::Ssh)?;
    let count = String::from_utf8_lossy(&said.out).trim().parse();
    // A machine whose answer is no number may have files.
    Ok(count.unwrap_or(u64::MAX))
}

/// The result of a look at a machine before anything is sent.
#[derive(Clone, Debug)]
pub struct Prospect {
    /// Facts that the machine reported.
    pub facts: Facts,
    /// The build that would be used.
    pub build: String,
    /// Bytes to send, before compression; 0: the build is there.
    pub send_bytes: u64,
}

/// Probes the machine as [`start_remote`] does, but makes, sends and starts
/// nothing there.
///
/// # Errors
/// When the machine cannot be asked, or has a fault.
pub async fn prospect(host: &Host, root: Option<&str>) -> Result<Prospect, AgentError> {
    inspect(host, root, supply::folders()?).await
}

/// [`prospect`] with the programs of one folder, as [`start_remote_from`].
///
/// # Errors
/// See [`prospect`].
pub async fn prospect_from(
    folder: &Path,
    host: &Host,
    root: Option<&str>,
) -> Result<Prospect, AgentError> {
    inspect(host, root, supply::folders_in(folder)).await
}

async fn inspect(
    host: &Host,
    root: Option<&str>,
    folders: Vec<PathBuf>,
) -> Result<Prospect, AgentError> {
    let supplies = supplies(folders).await?;
    let facts = asked(host, root, &supplies, true).await?;
    let supply = supply::choose(&supplies, &facts)?;
    let there = facts.builds.contains(&supply.build);
    Ok(Prospect {
        build: supply.build.clone(),
        send_bytes: if there { 0 } else { supply.bytes },
        facts,
    })
}

async fn supplies(folders: Vec<PathBuf>) -> Result<Vec<Supply>, AgentError> {
    tokio::task::spawn_blocking(move || supply::all(&folders))
        .await
        .map_err(|error| refused("read", Path::new("the agents"))(std::io::Error::other(error)))?
}

/// Probes the machine for the builds of `supplies`.
async fn asked(
    host: &Host,
    root: Option<&str>,
    supplies: &[Supply],
    dry: bool,
) -> Result<Facts, AgentError> {
    let builds: Vec<&str> = supplies.iter().map(|supply| &*supply.build).collect();
    let needed_bytes = supplies.iter().map(push::needed_bytes).max().unwrap_or(0);
    let root = root.unwrap_or(root::DEFAULT);
    probe::probe(host, root, &builds, needed_bytes, dry).await
}

async fn start(
    host: &Host,
    cancel: &RemoteCancel,
    folders: Vec<PathBuf>,
    progress: &(dyn Fn(Progress) + Send + Sync),
) -> Result<Remote, AgentError> {
    let supplies = supplies(folders).await?;
    let facts = asked(host, cancel.root.as_deref(), &supplies, false).await?;
    let supply = supply::choose(&supplies, &facts)?;
    let there = facts.builds.contains(&supply.build);
    let pushed = match &facts.full {
        _ if there => Ok(0),
        Some(full) => Err(AgentError::Node(full.clone())),
        None => push::push(host, supply, &facts, progress).await,
    };
    let pushed_bytes = match pushed {
        Ok(bytes) => bytes,
        Err(AgentError::Node(full @ NodeFault::NoSpace { .. })) => {
            return with_another(host, cancel, facts, full).await;
        }
        Err(error) => return Err(error),
    };
    let greeter = Greeter {
        deployment: cancel.deployment,
        tenure: cancel.tenure,
        mum: supply.mum.clone(),
        gives: cancel.options.gives(),
    };
    let dial = || dial(host, cancel, &facts, &supply.build).boxed();
    let (channel, hello) = greet::connect(&dial, &greeter).await?;
    Ok(Remote {
        channel,
        hello,
        facts,
        pushed_bytes,
        kept: None,
    })
}

/// Uses the agent of an earlier push, since there is no room for ours: so the
/// runs there can be seen and room can be made.
async fn with_another(
    host: &Host,
    cancel: &RemoteCancel,
    facts: Facts,
    full: NodeFault,
) -> Result<Remote, AgentError> {
    let greeter = Greeter {
        deployment: cancel.deployment,
        tenure: cancel.tenure,
        mum: String::new(),
        gives: cancel.options.gives(),
    };
    for build in &facts.other_builds {
        let dial = || dial(host, cancel, &facts, build).boxed();
        match greet::connect(&dial, &greeter).await {
            Ok((channel, hello)) => {
                return Ok(Remote {
                    channel,
                    hello,
                    facts,
                    pushed_bytes: 0,
                    kept: Some(full),
                });
            }
            // The neromum that answers refuses us, whichever program dials it.
            Err(error @ AgentError::Greeting(_)) if error.needs_user() => return Err(error),
            // This build cannot run or be spoken to; try the next.
            Err(_) => {}
        }
    }
    Err(AgentError::Node(full))
}

/// Speaks gRPC with neromum through `neromum dial` there, which starts one where
/// none serves.
async fn dial(
    host: &Host,
    cancel: &RemoteCancel,
    facts: &Facts,
    build: &str,
) -> Result<Channel, AgentError> {
    let mark = format!("nero-{}", hex(&random::<16>()));
    let mut words = vec![
        format!("{}/bin/{build}/neromum", facts.root),
        "dial".to_owned(),
        "--mark".to_owned(),
        mark.clone(),
        "--root".to_owned(),
        facts.root.clone(),
        "--deployment".to_owned(),
        cancel.deployment.to_string(),
        "--node".to_owned(),
        cancel.node.clone(),
    ];
    words.extend(cancel.options.words());
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let command = format!("exec {}", words.join(" "));
    let pipe = host
        .open(&command, &mark, DIALLED)
        .await
        .map_err(AgentError::Ssh)?;
    nero_wire::dial_far(pipe)
        .await
        .map_err(AgentError::Transport)
}
