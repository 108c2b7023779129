//! A node's agents: finding the programs, installing them below the node's root
//! or sending them there, starting neromum and greeting it.
//!
//! Called by the daemon's link whenever it needs a connection. Builds lie side by
//! side in `<root>/bin/`, named by their content; none is ever overwritten while
//! it is sound, and nothing that runs is touched.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "the runtime of a test ends its tasks"
    )
)]

mod elf;
mod error;
mod facts;
mod fault;
mod greet;
mod install;
mod libc;

mod probe;
mod push;
mod remote;
mod root;
mod shared;
mod start;
mod supply;

use std::path::Path;

use nero_model::DeploymentId;
use nero_wire::v1::Hello;
use tonic::transport::Channel;

pub use elf::Glibc;
pub use error::AgentError;
pub use facts::{Facts, clock_ms, clock_offset_ms, read as read_facts};
pub use fault::NodeFault;
pub use libc::Libc;
pub use remote::{
    Prospect, Remote, RemoteCancel, files_left, prospect, prospect_from, root_of, start_remote,
    start_remote_from,
};
pub use root::RootError;

/// Variable with the folder of the programs, in place of this program's own
/// folder. It contains the programs themselves, or one folder such as
/// `x86_64-linux` for each kind of machine.
pub const AGENTS: &str = "NERONET_AGENTS";

/// The path of nerokid for this machine.
///
/// # Errors
/// When the path of this program is unknown.
pub fn nerokid() -> Result<std::path::PathBuf, AgentError> {
    Ok(supply::for_this_machine()?.join("nerokid"))
}

/// The lowest glibc that a program runs with; `None`: it runs with any C library.
///
/// # Errors
/// When the file cannot be read, or is no 64-bit program.
pub fn glibc_of(program: &Path) -> std::io::Result<Option<Glibc>> {
    Ok(elf::needs(program)?.glibc)
}

/// Agents that can be sent to nodes.
#[derive(Clone, Debug)]
pub struct AgentSet {
    /// The folder of the programs.
    pub folder: std::path::PathBuf,
    /// Machine, as `uname -m` prints it.
    pub arch: &'static str,
    /// The oldest C library that they run with; `None`: any.
    pub glibc: Option<Glibc>,
    /// Name of neromum in greetings.
    pub program: String,
}

/// All agents that this program finds, the preferred first. Blocks.
///
/// # Errors
/// When there are none, or one of them cannot be read.
pub fn sets() -> Result<Vec<AgentSet>, AgentError> {
    let supplies = supply::all(&supply::folders()?)?;
    let sets = supplies.into_iter().map(|supply| AgentSet {
        folder: supply.programs[0]
            .parent()
            .unwrap_or(Path::new("/"))
            .to_path_buf(),
        arch: supply.arch,
        glibc: supply.glibc,
        program: supply.mum,
    });
    Ok(sets.collect())
}

/// The share of the machine that runs may use; `None`: all that it has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentOptions {
    /// CPUs.
    pub cpus: Option<f64>,
    /// Memory.
    pub memory_bytes: Option<u64>,
    /// The GPUs that it gives to runs, as its option has it; `None`: all.
    pub gpus: Option<String>,
    /// Nothing new starts below this much free disk.
    pub min_free_bytes: Option<u64>,
    /// Whether other hosts use the same root; `None`: its file system decides.
    pub shared: Option<bool>,
    /// neromum takes no connections from those other hosts.
    pub listen_never: bool,
    /// Words of its scheduler; none without one.
    pub warden: Vec<String>,
}

impl AgentOptions {
    /// The share that a neromum with these options reports.
    fn gives(&self) -> String {
        let min_free = self.min_free_bytes.unwrap_or(nero_model::MIN_FREE_BYTES);
        let listen = self.listen_never.then(|| "--listen never".to_owned());
        let gpus = self.gpus.as_ref().map(|gpus| format!("--gpus {gpus}"));
        let more: Vec<String> = self
            .warden
            .iter()
            .cloned()
            .chain(listen)
            .chain(gpus)
            .collect();
        nero_wire::hello::gives(self.cpus, self.memory_bytes, min_free, &more)
    }

    /// As words of neromum's command line.
    fn words(&self) -> Vec<String> {
        let shared = self.shared.map(|shared| if shared { "yes" } else { "no" });
        let options = [
            ("--shared", shared.map(str::to_owned)),
            ("--listen", self.listen_never.then(|| "never".to_owned())),
            ("--cpus", self.cpus.map(|cpus| cpus.to_string())),
            ("--memory", self.memory_bytes.map(|bytes| bytes.to_string())),
            ("--gpus", self.gpus.clone()),
            (
                "--min-free",
                self.min_free_bytes.map(|bytes| bytes.to_string()),
            ),
        ];
        options
            .into_iter()
            .filter_map(|(option, value)| Some([option.to_owned(), value?]))
            .flatten()
            .chain(self.warden.iter().cloned())
            .collect()
    }
}

/// Progress of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Name of the transfer, as "sending the agents".
    pub what: String,
    /// Bytes sent so far.
    pub done_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// Connects to this machine's neromum of this deployment, and starts it where
/// none answers. Checks its greeting; another build that is no newer is replaced,
/// and its runs go on.
///
/// # Errors
/// See [`AgentError`].
pub async fn start_local(
    root: &Path,
    deployment: DeploymentId,
    node: &str,
    options: &AgentOptions,
) -> Result<(Channel, Hello), AgentError> {
    let from = supply::for_this_machine()?;
    start_local_from(&from, root, deployment, node, options).await
}

/// [`start_local`] with the programs of one folder.
///
/// # Errors
/// See [`AgentError`].
pub async fn start_local_from(
    from: &Path,
    root: &Path,
    deployment: DeploymentId,
    node: &str,
    options: &AgentOptions,
) -> Result<(Channel, Hello), AgentError> {
    start::connect(root, deployment, node, options, from).await
}

#[cfg(test)]
mod tests;
