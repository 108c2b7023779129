//! Errors of a command, as they are printed, and the exit codes.
//!
//! This is the edge: a verb returns [`Stop`], and nothing below prints it.

use std::path::Path;

use nero_model::plain::plain_owned;
use nero_model::safe::Safe;
use nero_views::results::NoRows;
use nero_views::{NoColumn, text};
use nero_wire::v1::{Failure, Remedy};
use prost::Message as _;
use serde_json::{Value, json};
use tonic::{Code, Status};

/// Exit codes of the command line; they are a promise.
pub mod code {
    /// Done.
    pub const OK: u8 = 0;
    /// The asked-for thing failed.
    pub const FAILED: u8 = 1;
    /// Wrong usage, a bad selector or a bad file.
    pub const USAGE: u8 = 2;
    /// The own daemon cannot be reached.
    pub const NO_DAEMON: u8 = 3;
    /// A node cannot be reached.
    pub const NO_NODE: u8 = 4;
    /// A bug of ours.
    pub const BUG: u8 = 70;
    /// Ended by Ctrl-C.
    pub const INTERRUPTED: u8 = 130;

    /// The exit code of a verb that did what was asked for, or failed.
    pub fn ok_if(done: bool) -> u8 {
        if done { OK } else { FAILED }
    }

    /// The exit code of a verb on several things; each item tells whether it
    /// failed because its node is out of reach. Other failures count more.
    pub fn of_failures(away: impl IntoIterator<Item = bool>) -> u8 {
        away.into_iter().fold(OK, |code, away| match (code, away) {
            (FAILED, _) | (_, false) => FAILED,
            (_, true) => NO_NODE,
        })
    }
}

/// An error as it is printed: what, why, what next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// The action that failed.
    pub what: String,
    /// The causes, from the nearest to the deepest.
    pub causes: Vec<String>,
    /// The next step for the user; may be empty.
    pub hint: String,
    /// Whether the hint names what the user perhaps meant.
    pub hint_names: bool,
    /// The step to which the daemon's hint leads.
    pub remedy: Remedy,
    /// Exit code of the process.
    pub exit_code: u8,
    /// Several lines with places, shown as they are.
    pub report: String,
}

/// Why a verb stopped early.
#[derive(Debug)]
pub enum Stop {
    /// An error to print.
    Fault(Box<Fault>),
    /// The reader of our output is gone; nothing is printed.
    PipeClosed,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(Box::new(fault))
    }
}

impl Fault {
    /// A failure with this exit code.
    pub fn new(exit_code: u8, what: impl Into<String>) -> Self {
        Self {
            what: plain_owned(what.into()),
            exit_code,
            ..Self::default()
        }
    }

    /// The asked-for thing failed.
    pub fn failed(what: impl Into<String>) -> Self {
        Self::new(code::FAILED, what)
    }

    /// A node cannot be reached.
    pub fn no_node(what: impl Into<String>) -> Self {
        Self::new(code::NO_NODE, what)
    }

    /// Wrong usage.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(code::USAGE, what)
    }

    /// A file that cannot be read, written, made or used, as the verb tells.
    pub fn cannot(verb: &str, path: &Path) -> Self {
        Self::failed(format!("cannot {verb} {}", path.display()))
    }

    /// The own daemon cannot be reached.
    pub fn no_daemon(what: impl Into<String>) -> Self {
        Self::new(code::NO_DAEMON, what)
    }

    /// A verb or option of the design that is not built yet.
    pub fn not_built(thing: impl std::fmt::Display) -> Self {
        Self::usage(format!("{thing} is not built yet")).hint("`neroman help` lists what is built")
    }

    /// Adds an error and everything that caused it.
    pub fn because(mut self, error: &dyn std::error::Error) -> Self {
        let mut next = Some(error);
        while let Some(cause) = next {
            self.causes.push(plain_owned(cause.to_string()));
            next = cause.source();
        }
        self
    }

    /// Adds a cause in words.
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(plain_owned(cause.into()));
        self
    }

    /// Sets the next step for the user.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Sets the next step for the user, if one is known.
    pub fn maybe_hint(self, hint: Option<impl Into<String>>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// The error that the daemon returned.
    pub fn from_status(status: &Status) -> Self {
        match Failure::decode(status.details()) {
            Ok(failure) if !status.details().is_empty() => Self::from_failure(failure),
            _ => Self::from_bare(status),
        }
    }

    /// The error that ended a stream of the daemon.
    pub fn from_failure(failure: Failure) -> Self {
        Self {
            remedy: failure.remedy(),
            what: plain_owned(failure.what),
            causes: failure.causes.into_iter().map(plain_owned).collect(),
            hint: failure.hint,
            hint_names: failure.hint_names,
            exit_code: match u8::try_from(failure.exit_code) {
                Ok(given) if given != code::OK => given,
                _ => code::FAILED,
            },
            report: plain_owned(failure.report),
        }
    }

    fn from_bare(status: &Status) -> Self {
        let fault = Self::new(exit_code_of(status.code()), status.message());
        match status.code() {
            Code::Unimplemented => Self {
                what: "the daemon does not know this call".into(),
                ..fault
            }
            .hint("it is of another version: `neroman daemon stop`, then try again"),
            Code::Internal | Code::Unknown | Code::DataLoss => Self {
                what: "the daemon failed".into(),
                ..fault
            }
            .cause(status.message())
            .hint("this is a bug of Neronet; `neroman daemon logs` has more"),
            _ if status.message().is_empty() => Self {
                what: format!("the daemon refused: {}", status.code()),
                ..fault
            },
            _ => fault,
        }
    }

    /// Whether it shows the place in a selector, and no source, option or setting has the fault.
    pub fn is_of_selector(&self) -> bool {
        let mut lines = self.report.lines();
        let is_place = !self.report.is_empty() && lines.all(|line| line.starts_with("  "));
        is_place && self.exit_code == code::USAGE && self.causes.is_empty()
    }

    /// Lines for standard error. A report of mistakes comes first and is summed
    /// up by the error; a place alone, all of it indented, stands below it.
    pub fn text(&self) -> String {
        let report = Safe::lines(self.report.trim_end()).to_string();
        let is_place = report.lines().all(|line| line.starts_with("  "));
        let mut text = String::new();
        if !report.is_empty() && !is_place {
            text.push_str(&format!("{report}\n"));
        }
        text.push_str(&format!("error: {}\n", Safe::lines(&self.what)));
        for cause in &self.causes {
            text.push_str(&format!("caused by: {}\n", Safe::lines(cause)));
        }
        if !report.is_empty() && is_place {
            text.push_str(&format!("{report}\n"));
        }
        if !self.hint.is_empty() {
            text.push_str(&format!("hint: {}\n", Safe::lines(&self.hint)));
        }
        text
    }

    /// The object of `--json`.
    pub fn json(&self) -> Value {
        json!({"schema": 1, "error": {
            "what": self.what,
            "causes": self.causes,
            "hint": some(&self.hint),
            "exit_code": self.exit_code,
            "report": some(&self.report),
        }})
    }
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn exit_code_of(status: Code) -> u8 {
    match status {
        Code::Ok => code::OK,
        Code::InvalidArgument | Code::NotFound | Code::OutOfRange | Code::Unimplemented => {
            code::USAGE
        }
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => code::NO_DAEMON,
        Code::Internal | Code::Unknown | Code::DataLoss => code::BUG,
        Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::Unauthenticated => code::FAILED,
    }
}

impl From<NoRows> for Fault {
    fn from(error: NoRows) -> Self {
        Self::usage(error.to_string()).hint(error.hint())
    }
}

impl From<NoColumn> for Fault {
    fn from(error: NoColumn) -> Self {
        match error {
            NoColumn::NotBuilt(name) => Self::not_built(format!("the column `{name}`")),
            NoColumn::Unknown { name, near, there } => {
                let fault = Self::usage(format!("there is no column `{name}`"));
                match near {
                    Some(near) => fault.hint(format!("did you mean `{near}`?")),
                    None => fault.hint(format!("there are {}", text::some(&there))),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_of_the_daemon_become_the_fault() {
        let failure = Failure {
            what: "cannot read the selector".into(),
            causes: vec!["`crashde` is no state".into()],
            hint: "did you mean crashed?".into(),
            hint_names: true,
            exit_code: 2,
            report: "  crashde\n  ^^^^^^^\n".into(),
            ..Failure::default()
        };
        let status =
            Status::with_details(Code::InvalidArgument, "x", failure.encode_to_vec().into());
        let fault = Fault::from_status(&status);
        assert_eq!(fault.exit_code, 2);
        assert_eq!(
            fault.text(),
            "error: cannot read the selector\ncaused by: `crashde` is no state\n  \
             crashde\n  ^^^^^^^\nhint: did you mean crashed?\n"
        );
        assert_eq!(fault.json()["error"]["exit_code"], 2);
    }

    #[test]
    fn mistakes_come_before_what_sums_them_up() {
        let fault = Fault {
            report: "a.yaml:1:1: no\n  1 | x".into(),
            ..Fault::usage("a.yaml has a mistake")
        };
        assert_eq!(
            fault.text(),
            "a.yaml:1:1: no\n  1 | x\nerror: a.yaml has a mistake\n"
        );
        // Words that are files did not cause it, nor a wrong option.
        assert!(!fault.is_of_selector());
        assert!(!Fault::usage("no node is named `x`").is_of_selector());
        let fault = Fault {
            report: "  a.yaml\n  ^^^^^^\n".into(),
            ..Fault::usage("no experiment is called `a.yaml`")
        };
        assert!(fault.is_of_selector());
    }

    #[test]
    fn nodes_out_of_reach_have_their_exit_code() {
        assert_eq!(code::of_failures([]), 0);
        assert_eq!(code::of_failures([true, true]), 4);
        assert_eq!(code::of_failures([true, false]), 1);
        assert_eq!(code::of_failures([false, true]), 1);
    }

    #[test]
    fn a_bare_status_has_an_exit_code() {
        let table = [
            (Code::InvalidArgument, 2),
            (Code::Unavailable, 3),
            (Code::Internal, 70),
            (Code::Unimplemented, 2),
            (Code::ResourceExhausted, 1),
        ];
        for (status, want) in table {
            let fault = Fault::from_status(&Status::new(status, ""));
            assert_eq!(fault.exit_code, want, "{status:?}");
            assert!(!fault.what.is_empty(), "{status:?}");
        }
    }

    #[test]
    fn a_failure_without_exit_code_is_one() {
        let failure = Failure {
            what: "no".into(),
            ..Failure::default()
        };
        let status = Status::with_details(Code::Aborted, "", failure.encode_to_vec().into());
        assert_eq!(Fault::from_status(&status).exit_code, 1);
    }

    #[test]
    fn a_fault_never_acts_on_a_terminal() {
        let fault = Fault::usage("\x1b]0;x\x07")
            .cause("\x1b[2J")
            .hint("\u{202e}");
        assert!(!fault.text().chars().any(|c| c == '\x1b' || c == '\u{202e}'));
    }
}
