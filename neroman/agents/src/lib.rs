//! A node's agents: finding the programs, installing them below the node's root,
//! starting neromum and greeting it.
//!
//! Called by the daemon's link whenever it needs a connection. Builds lie side by
//! side in `<root>/bin/`, named by their content; none is ever overwritten while
//! it is sound, and nothing that runs is touched.

mod elf;
mod install;
mod start;

use std::io;
use std::path::{Path, PathBuf};

use nero_model::DeploymentId;
use nero_wire::DialError;
use nero_wire::hello::HelloError;
use nero_wire::v1::Hello;
use tonic::transport::Channel;

#[cfg(test)]
use install::install;
#[cfg(test)]
use nero_model::builds::PROGRAMS;

/// Names the folder of the programs, instead of the one of this program.
pub const AGENTS: &str = "NERONET_AGENTS";

/// How much of the machine runs may use; `None`: what it has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentOptions {
    pub cpus: Option<f64>,
    pub memory_bytes: Option<u64>,
    /// Nothing new starts below this much free disk.
    pub min_free_bytes: Option<u64>,
}

/// Why a node's agent cannot be spoken to.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Programs that were not built or not installed.
    #[error("{} not found in {folder}", .names.join(", "))]
    Missing {
        names: Vec<&'static str>,
        folder: PathBuf,
    },
    /// A program cannot be read or put into its place.
    #[error("cannot {what} {path}")]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Somebody else listens there, or no gRPC is spoken.
    #[error("neromum cannot be reached")]
    Dial(#[source] DialError),
    /// It ended before it answered.
    #[error("neromum ended before it answered ({status}){}", lines(.log))]
    Ended { status: String, log: Vec<String> },
    /// It lives and does not answer.
    #[error("neromum does not answer within {seconds} s{}", lines(.log))]
    Silent { seconds: u64, log: Vec<String> },
    /// Its greeting failed.
    #[error("neromum does not greet")]
    Greeting(#[source] Box<tonic::Status>),
    /// It must not be spoken to.
    #[error("neromum cannot be spoken to")]
    Hello(#[source] HelloError),
}

impl AgentError {
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { .. } => Some(format!(
                "build them with `cargo build -p neromum -p nerokid -p nerokid-shim`, or set {AGENTS} to the folder they lie in"
            )),
            Self::Hello(HelloError::Protocol { .. }) => {
                Some("end that neromum; its runs go on, and this build starts its own".to_owned())
            }
            Self::Io { .. }
            | Self::Dial(_)
            | Self::Ended { .. }
            | Self::Silent { .. }
            | Self::Greeting(_)
            | Self::Hello(_) => None,
        }
    }
}

fn lines(log: &[String]) -> String {
    match log.is_empty() {
        true => String::new(),
        false => format!("; its log ends with:\n  {}", log.join("\n  ")),
    }
}

/// Connects to this machine's neromum of this deployment; starts it where
/// nobody answers. Its greeting is checked.
///
/// # Errors
/// See [`AgentError`].
pub async fn start_local(
    root: &Path,
    deployment: DeploymentId,
    node: &str,
    options: &AgentOptions,
) -> Result<(Channel, Hello), AgentError> {
    let from = programs_folder()?;
    start::connect(root, deployment, node, options, &from).await
}

/// The folder of the programs: [`AGENTS`], or that of this program.
fn programs_folder() -> Result<PathBuf, AgentError> {
    if let Some(folder) = std::env::var_os(AGENTS).filter(|folder| !folder.is_empty()) {
        return Ok(PathBuf::from(folder));
    }
    let own = std::env::current_exe().map_err(|source| AgentError::Io {
        what: "find",
        path: PathBuf::from("the path of this program"),
        source,
    })?;
    Ok(own.parent().unwrap_or(Path::new("/")).to_path_buf())
}

#[cfg(test)]
mod tests;
