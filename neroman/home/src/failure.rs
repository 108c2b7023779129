//! A failure as the command line shows it: what failed, why, what to do.
//!
//! Travels as the details of a gRPC status, so that every client prints the
//! same and exits with the same code.

use std::error::Error;
use std::fmt;

use nero_model::plain::plain_owned;
use nero_wire::v1;
use prost::Message as _;
use tonic::{Code, Status, TimeoutExpired};

/// One part of a failure.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    /// What a node does or lacks, to go on from its name; `None`: the name is not
    /// known yet.
    Node(Option<String>, String),
    /// The connection to a node broke.
    Lost(Option<String>),
}

impl Part {
    /// Names the node, if the part is about a node without a name.
    fn name(&mut self, node: &str) {
        if let Self::Node(name @ None, _) | Self::Lost(name @ None) = self {
            *name = Some(node.to_owned());
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Node(None, does) => write!(f, "the node {does}"),
            Self::Node(Some(node), does) => write!(f, "node {node} {does}"),
            Self::Lost(None) => f.write_str("the connection to the node was lost"),
            Self::Lost(Some(node)) => write!(f, "the connection to {node} was lost"),
        }
    }
}

/// Why a call was not carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    code: Code,
    what: Box<Part>,
    causes: Vec<Part>,
    hint: String,
    hint_names: bool,
    remedy: v1::Remedy,
    exit_code: u32,
    report: String,
}

impl Failure {
    fn new(code: Code, exit_code: u32, what: impl Into<String>) -> Self {
        Self::about(code, exit_code, Part::Text(plain_owned(what.into())))
    }

    fn about(code: Code, exit_code: u32, what: Part) -> Self {
        Self {
            code,
            what: Box::new(what),
            causes: Vec::new(),
            hint: String::new(),
            hint_names: false,
            remedy: v1::Remedy::Unspecified,
            exit_code,
            report: String::new(),
        }
    }

    /// Wrong usage, a bad selector, a bad file: exit code 2.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, 2, what)
    }

    /// The asked-for thing failed: exit code 1.
    pub fn failed(what: impl Into<String>) -> Self {
        Self::new(Code::FailedPrecondition, 1, what)
    }

    /// A node cannot be reached: exit code 4.
    pub fn node(what: impl Into<String>) -> Self {
        Self::new(Code::Unavailable, 4, what)
    }

    /// A node cannot be used. `does` goes on from its name, which [`Failure::of`] adds.
    pub fn node_does(does: impl Into<String>) -> Self {
        Self::about(
            Code::Unavailable,
            4,
            Part::Node(None, plain_owned(does.into())),
        )
    }

    /// A node does what it must not, said as in [`Failure::node_does`]: exit code 1.
    pub fn node_errs(does: &str) -> Self {
        let what = Part::Node(None, does.to_owned());
        Self::about(Code::FailedPrecondition, 1, what)
    }

    /// A node cannot be reached, in the words of an error and its causes.
    pub fn node_error(error: &(dyn Error + 'static)) -> Self {
        let failure = Self::node(error.to_string());
        match error.source() {
            Some(cause) => failure.caused_by(cause),
            None => failure,
        }
    }

    /// The daemon is leaving, or too busy: exit code 3.
    pub fn daemon(what: impl Into<String>) -> Self {
        Self::new(Code::Unavailable, 3, what)
    }

    /// Our own mistake: exit code 70.
    pub fn bug(what: impl Into<String>) -> Self {
        Self::new(Code::Internal, 70, what)
    }

    /// `config.yaml` cannot be read, or contains mistakes.
    pub fn config(error: &nero_config::ConfigError) -> Self {
        let failure = Self::usage("the configuration cannot be used").caused_by(error);
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// The state changed between looking and deciding: the caller looks again.
    pub fn moved() -> Self {
        Self::new(
            Code::Aborted,
            1,
            "the selected experiments changed while they were being started",
        )
        .hint("try again")
    }

    /// The next step for the person; empty if none is known.
    pub fn hint_text(&self) -> &str {
        &self.hint
    }

    /// The exit code of the command line.
    pub fn exit_code(&self) -> u32 {
        self.exit_code
    }

    /// The step to which the hint leads.
    pub fn remedied_by(&self) -> v1::Remedy {
        self.remedy
    }

    /// Whether a node could not be asked.
    pub fn is_of_node(&self) -> bool {
        self.exit_code == 4
    }

    /// Whether another try may succeed.
    pub fn try_again(&self) -> bool {
        self.code == Code::Aborted
    }

    /// Sets the next step for the person.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Sets the step to which the hint leads.
    #[must_use]
    pub fn remedy(mut self, remedy: v1::Remedy) -> Self {
        self.remedy = remedy;
        self
    }

    /// Sets a hint that names what was perhaps meant.
    #[must_use]
    pub fn hint_names(mut self, hint: impl Into<String>) -> Self {
        self.hint_names = true;
        self.hint(hint)
    }

    /// Sets lines that are printed as they are, with places and carets.
    #[must_use]
    pub fn report(mut self, report: impl Into<String>) -> Self {
        self.report = plain_owned(report.into());
        self
    }

    /// The lines that are printed as they are.
    pub fn place(&self) -> &str {
        &self.report
    }

    /// Adds a cause in words.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.causes.push(Part::Text(plain_owned(why.into())));
        self
    }

    /// The connection to a node broke: exit code 4.
    pub fn lost() -> Self {
        Self::about(Code::Unavailable, 4, Part::Lost(None))
    }

    /// Names the node where the failure is about it or the connection to it.
    #[must_use]
    pub fn of(mut self, node: &str) -> Self {
        for part in self.causes.iter_mut().chain([&mut *self.what]) {
            part.name(node);
        }
        self
    }

    /// Adds a peer's error. A broken connection is reported as such, without the
    /// words of the protocol.
    #[must_use]
    pub fn status(mut self, status: &Status) -> Self {
        if connection_lost(status) {
            (self.code, self.exit_code) = (Code::Unavailable, 4);
            if !matches!(*self.what, Part::Lost(_)) {
                self.causes.push(Part::Lost(None));
            }
            return self;
        }
        let code = status.code();
        match status.message() {
            _ if code == Code::Unimplemented => self
                .because("the neromum there is of another build and does not know this call")
                .hint("its runs go on; try again once it was replaced by this build's"),
            "" => self.because(code.to_string()),
            message => self.because(message),
        }
    }

    /// Adds an error and its causes.
    #[must_use]
    pub fn caused_by(mut self, error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(cause) = next {
            self.causes.push(Part::Text(plain_owned(cause.to_string())));
            next = cause.source();
        }
        self
    }
}

/// Whether the peer did not answer: a status from a peer has no source on this
/// side.
pub fn connection_lost(status: &Status) -> bool {
    if status.code() == Code::DeadlineExceeded {
        return false;
    }
    let mut next = status.source();
    while let Some(cause) = next {
        if cause.is::<TimeoutExpired>() {
            return false;
        }
        next = cause.source();
    }
    status.source().is_some()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        for cause in &self.causes {
            write!(f, ": {cause}")?;
        }
        Ok(())
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        let details = v1::Failure {
            what: failure.what.to_string(),
            causes: failure.causes.iter().map(Part::to_string).collect(),
            hint: failure.hint,
            hint_names: failure.hint_names,
            remedy: failure.remedy.into(),
            exit_code: failure.exit_code,
            report: bounded(failure.report),
        };
        Status::with_details(
            failure.code,
            bounded(failure.what.to_string()),
            details.encode_to_vec().into(),
        )
    }
}

/// Statuses travel in headers, which have to stay short.
fn bounded(text: String) -> String {
    const BYTES_MAX: usize = 4 * 1024;
    if text.len() <= BYTES_MAX {
        return text;
    }
    let cut = text.floor_char_boundary(BYTES_MAX);
    format!("{}…", &text[..cut])
}

/// Whether the status means that the node cannot do it now, for example because
/// its disk is full.
pub fn cannot_now(status: &tonic::Status) -> bool {
    use tonic::Code::{Internal, InvalidArgument, ResourceExhausted};
    let refuses = matches!(
        status.code(),
        Internal | InvalidArgument | ResourceExhausted
    );
    refuses && !connection_lost(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_the_kernel_is_told() {
        let error = std::io::Error::from_raw_os_error(13);
        let failure = Failure::failed(format!("cannot read a: {error}"))
            .because(error.to_string())
            .caused_by(&error)
            .status(&Status::internal(format!("x: {error}")))
            .report(error.to_string());
        let details = v1::Failure::decode(Status::from(failure).details()).unwrap();
        let all = format!("{details:?}");
        assert_eq!(all.matches("Permission denied").count(), 5, "{all}");
        assert!(!all.contains("os error"), "{all}");
    }

    #[test]
    fn a_lost_connection_is_told_without_the_words_of_the_protocol() {
        let broken = std::io::Error::other("h2 protocol error: error reading a body");
        let broken = Status::from_error(Box::new(broken));
        let failure = Failure::failed("cannot fetch stdout.log").status(&broken);
        assert_eq!(
            failure.clone().of("h2").to_string(),
            "cannot fetch stdout.log: the connection to h2 was lost"
        );
        assert_eq!(failure.exit_code(), 4);
        let failure = Failure::lost().status(&broken).of("h2");
        assert_eq!(failure.to_string(), "the connection to h2 was lost");
        let failure = Failure::node_does("sends nothing more").of("h2");
        assert_eq!(failure.to_string(), "node h2 sends nothing more");
        let said = Failure::failed("cannot fetch it").status(&Status::not_found("no such file"));
        assert_eq!(said.of("h2").to_string(), "cannot fetch it: no such file");
    }
}
