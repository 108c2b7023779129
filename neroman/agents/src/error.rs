//! Why a node's agent cannot be spoken to.

use std::io;
use std::path::PathBuf;

use nero_model::safe::Safe;
use nero_ssh::SshError;
use nero_wire::DialError;
use nero_wire::hello::HelloError;

use crate::AGENTS;
use crate::fault::NodeFault;
use crate::root::RootError;

/// Why a node's agent cannot be spoken to.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Programs that were not built or not installed.
    #[error("{} not found in {folder}", .names.join(", "))]
    Missing {
        /// Which.
        names: Vec<&'static str>,
        /// Where they were looked for.
        folder: PathBuf,
    },
    /// A program cannot be read or put into its place.
    #[error("cannot {what} {path}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// Somebody else listens there, or no gRPC is spoken.
    #[error("neromum cannot be reached")]
    Dial(#[source] DialError),
    /// It ended before it answered.
    #[error("neromum ended before it answered ({status}){}", lines(.log))]
    Ended {
        /// How.
        status: String,
        /// Its last lines, safe to print.
        log: Vec<String>,
    },
    /// It lives and does not answer.
    #[error("neromum does not answer within {seconds} s{}", lines(.log))]
    Silent {
        /// How long it was waited for.
        seconds: u64,
        /// Its last lines, safe to print.
        log: Vec<String>,
    },
    /// Its greeting failed.
    #[error("neromum does not greet")]
    Greeting(#[source] Box<tonic::Status>),
    /// It must not be spoken to.
    #[error("neromum cannot be spoken to")]
    Hello(#[source] HelloError),
    /// The way there.
    #[error(transparent)]
    Ssh(SshError),
    /// Something about the machine.
    #[error(transparent)]
    Node(#[from] NodeFault),
    /// The node's root as its user wrote it.
    #[error("the root {root} cannot be used")]
    Root {
        /// As written.
        root: String,
        /// What is wrong with it.
        #[source]
        source: RootError,
    },
    /// What was sent did not arrive whole, or could not be put into its place.
    #[error("sending the agents failed (step {status}): {}", Safe::line(.said.trim()))]
    Push {
        /// Where the far side stopped.
        status: i32,
        /// What it said.
        said: String,
    },
    /// HTTP/2 could not begin.
    #[error("cannot speak gRPC with neromum")]
    Transport(#[source] tonic::transport::Error),
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
            Self::Ssh(error) => error.hint(),
            Self::Node(fault) => Some(fault.hint()),
            Self::Root { .. } => {
                Some("write the node's `root:` as /folder, ~/folder or $NAME/folder".to_owned())
            }
            Self::Push { .. } => {
                Some("the next try sends them again; nothing half sent is ever used".to_owned())
            }
            Self::Io { .. }
            | Self::Dial(_)
            | Self::Ended { .. }
            | Self::Silent { .. }
            | Self::Greeting(_)
            | Self::Hello(_)
            | Self::Transport(_) => None,
        }
    }

    /// Whether trying again is useless before somebody has done something.
    pub fn needs_user(&self) -> bool {
        match self {
            Self::Hello(_) | Self::Root { .. } => true,
            Self::Ssh(error) => error.needs_user(),
            Self::Node(fault) => fault.needs_user(),
            Self::Greeting(status) => matches!(
                status.code(),
                // Another deployment or role; taken over by another machine.
                tonic::Code::PermissionDenied | tonic::Code::FailedPrecondition
            ),
            // They may be on their way: an upgrade replaces them one by one.
            Self::Missing { .. }
            | Self::Io { .. }
            | Self::Dial(_)
            | Self::Ended { .. }
            | Self::Silent { .. }
            | Self::Push { .. }
            | Self::Transport(_) => false,
        }
    }
}

fn lines(log: &[String]) -> String {
    match log.is_empty() {
        true => String::new(),
        false => format!("; its log ends with:\n  {}", log.join("\n  ")),
    }
}
