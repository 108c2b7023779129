//! The first message of every link.

use nero_model::safe::Safe;
use nero_model::{DeploymentId, PROTOCOL_HIGHEST, PROTOCOL_LOWEST, VERSION};

use prost::Message as _;
use tonic::{Code, Status};

use crate::v1::{GreetRefusal, Hello, Role, greet_refusal};

/// A neromum that knows `CancelRequest.recall`; to an earlier one it is an
/// abort.
pub const RECALL: &str = "withdraw";

/// A neroman that begins a generation of a run when its node has nothing of it any
/// more. An earlier one hands the run over again as it was.
pub const GENERATIONS: &str = "generations";

/// A daemon that has `ListParts`.
pub const LIST_PARTS: &str = "list-parts";

/// Field of a call's head in which a view that types command lines names itself; an earlier daemon
/// leaves it unread.
pub const AUTHOR_FIELD: &str = "neronet-author";

/// Capability of a daemon that makes the plots of experiments.
pub const PLOTS: &str = "plots";

/// Capability of a daemon that knows `ListRequest.all_runs`.
pub const ALL_RUNS: &str = "all-runs";

/// Capability of a daemon that has `Edit`, and knows `StartRequest.set` and `same_code` and
/// `WaitRequest.any`.
pub const EDITS: &str = "edits";

/// Capability with which a neromum reports the share of its node that it gives
/// to runs. A neroman that is configured otherwise replaces that neromum.
const GIVES: &str = "gives=";

/// The capability for these CPUs, this memory and this free disk to keep. `None`
/// means all that the node has. `more` are the words of its scheduler and whether it
/// listens; by default there are none, and the text is that of earlier builds.
pub fn gives(
    cpus: Option<f64>,
    memory_bytes: Option<u64>,
    min_free_bytes: u64,
    more: &[String],
) -> String {
    let cpus = cpus.map_or_else(String::new, |cpus| cpus.to_string());
    let memory = memory_bytes.map_or_else(String::new, |bytes| bytes.to_string());
    let words = std::iter::once(format!("{GIVES}{cpus}/{memory}/{min_free_bytes}"));
    let words: Vec<String> = words.chain(more.iter().cloned()).collect();
    words.join(" ")
}

/// Whether a neromum reports another share than `gives`. A neromum that reports
/// none is of an earlier build.
pub fn gives_otherwise(hello: &Hello, gives: &str) -> bool {
    let mut said = hello.capabilities.iter();
    said.any(|word| word.starts_with(GIVES) && word != gives)
}

/// Whether a neroman has [`GENERATIONS`].
pub fn knows_generations(hello: &Hello) -> bool {
    let mut said = hello.capabilities.iter();
    said.any(|word| word == GENERATIONS)
}

/// The refusal of a greeting because another machine took the deployment over.
pub fn taken_over(message: impl Into<String>) -> Status {
    let why = greet_refusal::Why::TakenOver.into();
    let details = GreetRefusal { why }.encode_to_vec();
    Status::with_details(Code::FailedPrecondition, message, details.into())
}

/// Whether a greeting was refused because another machine took the deployment over. A
/// neromum of an earlier build gives the reason as text alone.
pub fn is_taken_over(refused: &Status) -> bool {
    GreetRefusal::decode(refused.details())
        .is_ok_and(|refusal| refusal.why() == greet_refusal::Why::TakenOver)
}

/// Reason why we cannot speak to a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// The ranges of protocols do not meet.
    #[error(
        "build {} speaks protocols {lowest} to {highest}, this build ({VERSION}) {PROTOCOL_LOWEST} to {PROTOCOL_HIGHEST}",
        Safe::line(.build)
    )]
    Protocol {
        /// The peer's build.
        build: String,
        /// Lowest protocol of the peer.
        lowest: u32,
        /// Highest protocol of the peer.
        highest: u32,
    },
    /// The peer belongs to another neroman.
    #[error("it belongs to another deployment")]
    Deployment,
    /// The peer's role is not the one expected at this socket.
    #[error("the Neronet program at this socket is not the one expected there")]
    Role,
}

/// The hello of this process.
pub fn own(role: Role, build: &str, deployment: Option<DeploymentId>) -> Hello {
    Hello {
        build: if build.is_empty() {
            VERSION.to_owned()
        } else {
            build.to_owned()
        },
        protocol_lowest: PROTOCOL_LOWEST,
        protocol_highest: PROTOCOL_HIGHEST,
        deployment: deployment.map(DeploymentId::to_vec).unwrap_or_default(),
        role: role.into(),
        capabilities: Vec::new(),
        pid: std::process::id() as i32,
        ssh_auth_sock: String::new(),
        tenure: 0,
        host: String::new(),
        ledger: Vec::new(),
        root: String::new(),
    }
}

/// Checks a peer's hello; returns the protocol to speak.
///
/// # Errors
/// When we cannot speak to the peer, or must not.
pub fn check(
    hello: &Hello,
    role: Role,
    deployment: Option<DeploymentId>,
) -> Result<u32, HelloError> {
    let highest = hello.protocol_highest.min(PROTOCOL_HIGHEST);
    if highest < hello.protocol_lowest.max(PROTOCOL_LOWEST) {
        return Err(HelloError::Protocol {
            build: hello.build.clone(),
            lowest: hello.protocol_lowest,
            highest: hello.protocol_highest,
        });
    }
    if hello.role() != role {
        return Err(HelloError::Role);
    }
    match deployment {
        Some(ours) if hello.deployment != ours.as_bytes() => Err(HelloError::Deployment),
        _ => Ok(highest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_meet_agree_on_the_highest_common_protocol() {
        let ours = DeploymentId::random();
        let hello = own(Role::Neromum, "b", Some(ours));
        assert_eq!(
            check(&hello, Role::Neromum, Some(ours)),
            Ok(PROTOCOL_HIGHEST)
        );
        let newer = Hello {
            protocol_highest: 99,
            ..hello.clone()
        };
        assert_eq!(
            check(&newer, Role::Neromum, Some(ours)),
            Ok(PROTOCOL_HIGHEST)
        );
        let too_new = Hello {
            protocol_lowest: 98,
            protocol_highest: 99,
            ..hello.clone()
        };
        let said = check(&too_new, Role::Neromum, None)
            .unwrap_err()
            .to_string();
        let both = format!("this build ({VERSION}) {PROTOCOL_LOWEST} to {PROTOCOL_HIGHEST}");
        assert_eq!(said, format!("build b speaks protocols 98 to 99, {both}"));
        let able = Hello {
            capabilities: vec!["of a later build".to_owned()],
            ..hello.clone()
        };
        assert!(check(&able, Role::Neromum, Some(ours)).is_ok());
        assert_eq!(check(&hello, Role::Nerokid, None), Err(HelloError::Role));
        let other = Some(DeploymentId::random());
        assert_eq!(
            check(&hello, Role::Neromum, other),
            Err(HelloError::Deployment)
        );
    }
}
