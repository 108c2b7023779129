//! Inputs that come too late.

use std::fmt;

use nero_model::RunId;

use crate::fold::change::Change;

/// An input that does not fit where a run stands: it came too late. Nothing changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateInputError {
    pub run: RunId,
    /// The stage of the run.
    pub stage: &'static str,
    pub input: &'static str,
}

impl fmt::Display for LateInputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, stage, input } = self;
        write!(f, "run {run} is {stage}, so it takes no {input}")
    }
}

impl std::error::Error for LateInputError {}

/// An input came too late; [`step`](crate::step()) adds the run and both names.
#[derive(Debug)]
pub(crate) struct LateInput;

/// The changes of a step.
pub(crate) type StepResult = Result<Vec<Change>, LateInput>;
