//! Error handlers.

use nero_yaml::Mark;

use crate::command::CommandGroup;
use crate::pattern::{FullPattern, StepLimitError};

/// What to do about an error of some kind.
#[derive(Debug)]
pub struct Handler {
    /// Its name; may be empty.
    pub name: String,
    /// Exit codes that it is for.
    pub return_code: ReturnCode,
    /// The standard error that it is for.
    pub stderr: FullPattern,
    /// Commands that run once before the action.
    pub commands: Vec<CommandGroup>,
    /// The action.
    pub action: Action,
    /// Where it stands.
    pub mark: Mark,
}

/// Exit codes that a handler is for.
#[derive(Debug)]
pub enum ReturnCode {
    /// None: a handler without `return_code` matches nothing.
    Never,
    /// This one.
    Is(f64),
    /// Those whose digits match.
    Matches(FullPattern),
}

/// What happens after an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The whole flow ends.
    Abort,
    /// The experiment is tried again in the next round.
    Retry,
    /// The experiment counts as deployed.
    Continue,
    /// The flow ends when it comes to this.
    Unknown(String),
}

impl Handler {
    /// Whether it is for this error.
    ///
    /// # Errors
    /// A pattern took too many steps.
    pub fn matches(&self, return_code: i32, stderr: &str) -> Result<bool, StepLimitError> {
        let code = match &self.return_code {
            ReturnCode::Never => false,
            ReturnCode::Is(code) => *code == f64::from(return_code),
            ReturnCode::Matches(pattern) => pattern.matches(&return_code.to_string())?,
        };
        Ok(code && self.stderr.matches(stderr)?)
    }
}
