//! Why files did not come home, and whether another try can help.

use tonic::{Code, Status};

use nero_home::failure::{Failure, connection_lost};

/// The hint for a full disk here.
pub(super) const MAKE_ROOM: &str = "make room there, and they come by themselves";

/// Why bringing files home ended early.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The node or the connection failed; a later try continues.
    Node(Failure),
    /// There is no room here; a later try continues.
    Full(Failure),
    /// The node's answer is invalid, or this machine refuses: a few tries.
    Refused(Failure),
}

impl Trouble {
    /// The meaning of a node's status.
    pub(super) fn status(what: impl Into<String>, status: &Status) -> Self {
        if connection_lost(status) {
            return Self::Node(Failure::node(what).status(status));
        }
        match status.code() {
            Code::NotFound
            | Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::ResourceExhausted
            | Code::DataLoss => Self::Refused(Failure::failed(what).status(status)),
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::AlreadyExists
            | Code::Aborted
            | Code::Internal
            | Code::Unavailable
            | Code::Unauthenticated => Self::Node(Failure::node(what).status(status)),
        }
    }

    /// A file here cannot be written.
    pub(super) fn unwritten(path: &std::path::Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let failure = Failure::failed(format!("cannot write {}", path.display())).caused_by(error);
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Self::Full(failure.hint(MAKE_ROOM))
            }
            _ => Self::Refused(failure),
        }
    }

    /// Names the node in the text.
    #[must_use]
    pub fn of(self, node: &str) -> Self {
        match self {
            Self::Node(failure) => Self::Node(failure.of(node)),
            Self::Full(failure) => Self::Full(failure),
            Self::Refused(failure) => Self::Refused(failure.of(node)),
        }
    }

    /// The failure as text.
    pub fn failure(&self) -> &Failure {
        match self {
            Self::Node(failure) | Self::Full(failure) | Self::Refused(failure) => failure,
        }
    }
}

impl From<Failure> for Trouble {
    /// A failure of our own databases or threads.
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}
