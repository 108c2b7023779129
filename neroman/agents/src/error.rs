//! Reasons why we cannot speak to a node's agent.

use std::io;
use std::path::PathBuf;

use nero_model::safe::Safe;
use nero_ssh::SshError;
use nero_wire::DialError;
use nero_wire::hello::HelloError;

use crate::AGENTS;
use crate::fault::NodeFault;
use crate::root::RootError;

/// Reason why we cannot speak to a node's agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Programs that were not built or not installed.
    #[error("{} not found in {folder}", .names.join(", "))]
    Missing {
        /// The missing programs.
        names: Vec<&'static str>,
        /// The folder that should contain them.
        folder: PathBuf,
    },
    /// A program cannot be read or put into its place.
    #[error("cannot {what} {path}")]
    Io {
        /// The action that failed.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// A process of another user listens there, or it speaks no gRPC.
    #[error("neromum cannot be reached")]
    Dial(#[source] DialError),
    /// It ended before it answered.
    #[error("neromum ended before it answered ({status}){}", lines(.log))]
    Ended {
        /// Exit status or signal.
        status: String,
        /// Last lines of its log, safe to print.
        log: Vec<String>,
    },
    /// neromum lives and does not answer.
    #[error("neromum does not answer within {seconds} s{}", lines(.log))]
    Silent {
        /// Seconds that we waited.
        seconds: u64,
        /// Last lines of its log, safe to print.
        log: Vec<String>,
    },
    /// Its greeting returned an error.
    #[error("the greeting call to neromum failed")]
    Greeting(#[source] Box<tonic::Status>),
    /// We cannot speak to this neromum, or must not.
    #[error("this neroman cannot work with the neromum that answered")]
    Hello(#[source] HelloError),
    /// A failure of ssh on the way.
    #[error(transparent)]
    Ssh(SshError),
    /// A fault of the machine.
    #[error(transparent)]
    Node(#[from] NodeFault),
    /// The node's root, as the user wrote it, cannot be used.
    #[error("the root {root} cannot be used")]
    Root {
        /// As written.
        root: String,
        /// The fault of the root.
        #[source]
        source: RootError,
    },
    /// The programs did not arrive whole, or could not be put into their place.
    #[error("sending the agents failed (step {status}): {}", Safe::line(.said.trim()))]
    Push {
        /// Exit status of the far side, which names its last step.
        status: i32,
        /// Its standard error.
        said: String,
    },
    /// HTTP/2 could not begin.
    #[error("cannot speak gRPC with neromum")]
    Transport(#[source] tonic::transport::Error),
}

impl AgentError {
    /// The next step for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { .. } => Some(format!(
                "build them with `cargo build -p neromum -p nerokid -p nerokid-shim`, or set {AGENTS} to the folder they lie in"
            )),
            Self::Hello(HelloError::Protocol { .. }) => {
                Some("end that neromum; its runs go on, and this build starts its own".to_owned())
            }
            Self::Hello(HelloError::Role | HelloError::Deployment) => Some(
                "end the program that listens there, or give the node another `root:`".to_owned(),
            ),
            Self::Ssh(error) => error.hint(),
            Self::Node(fault) => Some(fault.hint()),
            Self::Root { .. } => {
                Some("write the node's `root:` as /folder, ~/folder or $NAME/folder".to_owned())
            }
            Self::Push { .. } => {
                Some("the next try sends them again; nothing half sent is ever used".to_owned())
            }
            Self::Greeting(status) if status.code() == tonic::Code::DeadlineExceeded => Some(
                "try again: that machine is slow, or takes in runs of the owner before".to_owned(),
            ),
            Self::Io { .. }
            | Self::Dial(_)
            | Self::Ended { .. }
            | Self::Silent { .. }
            | Self::Greeting(_)
            | Self::Transport(_) => None,
        }
    }

    /// Whether a retry is useless before a person has done something.
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
            // An upgrade replaces the programs one by one, so they may appear
            // soon.
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
    if log.is_empty() {
        String::new()
    } else {
        format!("; its log ends with:\n  {}", log.join("\n  "))
    }
}
