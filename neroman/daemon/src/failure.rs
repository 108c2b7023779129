//! A failure as the command line shows it: what failed, why, what to do.
//!
//! Travels as the details of a gRPC status, so that every client prints the
//! same and exits with the same code.

use std::error::Error;

use nero_model::plain::plain_owned;
use nero_wire::v1;
use prost::Message as _;
use tonic::{Code, Status};

/// A broken connection, before the name of its node is known.
const LOST: &str = "the connection to the node was lost";

/// Why a call was not carried out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    code: Code,
    what: String,
    causes: Vec<String>,
    hint: String,
    hint_names: bool,
    exit_code: u32,
    report: String,
}

impl Failure {
    fn new(code: Code, exit_code: u32, what: impl Into<String>) -> Self {
        Self {
            code,
            what: plain_owned(what.into()),
            causes: Vec::new(),
            hint: String::new(),
            hint_names: false,
            exit_code,
            report: String::new(),
        }
    }

    /// Wrong usage, a bad selector, a bad file: exit code 2.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, 2, what)
    }

    /// The asked-for thing failed: exit code 1.
    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self::new(Code::FailedPrecondition, 1, what)
    }

    /// A node cannot be reached: exit code 4.
    pub(crate) fn node(what: impl Into<String>) -> Self {
        Self::new(Code::Unavailable, 4, what)
    }

    /// A node cannot be reached, in the words of an error and its causes.
    pub(crate) fn node_error(error: &(dyn Error + 'static)) -> Self {
        let failure = Self::node(error.to_string());
        match error.source() {
            Some(cause) => failure.caused_by(cause),
            None => failure,
        }
    }

    /// The daemon is leaving, or too busy: exit code 3.
    pub(crate) fn daemon(what: impl Into<String>) -> Self {
        Self::new(Code::Unavailable, 3, what)
    }

    /// Our own mistake: exit code 70.
    pub(crate) fn bug(what: impl Into<String>) -> Self {
        Self::new(Code::Internal, 70, what)
    }

    /// `config.yaml` cannot be read, or contains mistakes.
    pub(crate) fn config(error: &nero_config::ConfigError) -> Self {
        let failure = Self::usage("the configuration cannot be used").caused_by(error);
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// The state changed between looking and deciding: the caller looks again.
    pub(crate) fn moved() -> Self {
        Self::new(
            Code::Aborted,
            1,
            "the selected experiments changed while they were being started",
        )
        .hint("try again")
    }

    /// The next step for the person; empty if none is known.
    pub(crate) fn hint_text(&self) -> &str {
        &self.hint
    }

    /// The exit code of the command line.
    #[cfg(test)]
    pub(crate) fn exit_code(&self) -> u32 {
        self.exit_code
    }

    /// Whether a node could not be asked.
    pub(crate) fn is_of_node(&self) -> bool {
        self.exit_code == 4
    }

    /// Whether another try may succeed.
    pub(crate) fn try_again(&self) -> bool {
        self.code == Code::Aborted
    }

    /// Sets the next step for the person.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Sets a hint that names what was perhaps meant.
    #[must_use]
    pub(crate) fn hint_names(mut self, hint: impl Into<String>) -> Self {
        self.hint_names = true;
        self.hint(hint)
    }

    /// Sets lines that are printed as they are, with places and carets.
    #[must_use]
    pub(crate) fn report(mut self, report: impl Into<String>) -> Self {
        self.report = plain_owned(report.into());
        self
    }

    /// The lines that are printed as they are.
    #[cfg(test)]
    pub(crate) fn place(&self) -> &str {
        &self.report
    }

    /// Adds a cause in words.
    #[must_use]
    pub(crate) fn because(mut self, why: impl Into<String>) -> Self {
        self.causes.push(plain_owned(why.into()));
        self
    }

    /// The connection to a node broke: exit code 4.
    pub(crate) fn lost() -> Self {
        Self::node(LOST)
    }

    /// Names the node in texts about it or the connection to it.
    #[must_use]
    pub(crate) fn of(mut self, node: &str) -> Self {
        for text in self.causes.iter_mut().chain([&mut self.what]) {
            if text == LOST {
                *text = format!("the connection to {node} was lost");
            } else if let Some(rest) = text.strip_prefix("the node ") {
                *text = format!("node {node} {rest}");
            }
        }
        self
    }

    /// Adds a peer's error. A broken connection is reported as such, without the
    /// words of the protocol.
    #[must_use]
    pub(crate) fn status(mut self, status: &Status) -> Self {
        if connection_lost(status) {
            (self.code, self.exit_code) = (Code::Unavailable, 4);
            return match self.what == LOST {
                true => self,
                false => self.because(LOST),
            };
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
    pub(crate) fn caused_by(mut self, error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(cause) = next {
            self.causes.push(plain_owned(cause.to_string()));
            next = cause.source();
        }
        self
    }
}

/// Whether the peer did not answer: a status from a peer has no source on this
/// side.
pub(crate) fn connection_lost(status: &Status) -> bool {
    let late = matches!(status.code(), Code::DeadlineExceeded)
        || status.message().eq_ignore_ascii_case("timeout expired");
    status.source().is_some() && !late
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        for cause in &self.causes {
            write!(f, ": {cause}")?;
        }
        Ok(())
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        let details = v1::Failure {
            what: failure.what.clone(),
            causes: failure.causes,
            hint: failure.hint,
            hint_names: failure.hint_names,
            exit_code: failure.exit_code,
            report: bounded(failure.report),
        };
        Status::with_details(
            failure.code,
            bounded(failure.what),
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
        let failure = Failure::node("the node sends nothing more").of("h2");
        assert_eq!(failure.to_string(), "node h2 sends nothing more");
        let said = Failure::failed("cannot fetch it").status(&Status::not_found("no such file"));
        assert_eq!(said.of("h2").to_string(), "cannot fetch it: no such file");
    }
}
