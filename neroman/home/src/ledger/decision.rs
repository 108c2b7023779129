//! What a decision of the ledger returns.

use nero_life::change::Change;
use nero_life::input::Input;
use nero_life::state::State;
use nero_life::{LateInputError, steps};
use nero_model::RunId;

/// The result of a decision.
#[derive(Debug, Default)]
pub struct Decision<T> {
    pub answer: T,
    pub changes: Vec<Change>,
}

impl<T> Decision<T> {
    /// Changes nothing here: only the answer is remembered.
    pub fn of(answer: T) -> Self {
        let changes = Vec::new();
        Self { answer, changes }
    }
}

/// What to do with an input that no longer fits its run.
#[derive(Clone, Copy, Debug)]
pub enum LatePolicy {
    /// The run went on meanwhile, for this reason, and the input is ignored.
    Passes(&'static str),
    /// A mistake of ours: the input was found to fit, or fits always.
    Never,
}

impl LatePolicy {
    /// The changes of inputs of runs; the others are logged.
    pub fn steps(self, state: &State, inputs: &[(RunId, Input)], now_ms: i64) -> Vec<Change> {
        let inputs = inputs.iter().map(|(id, input)| (*id, input));
        steps(state, inputs, now_ms, |error| self.log(&error))
    }

    /// Logs one input that does not fit.
    pub fn log(self, error: &LateInputError) {
        match self {
            Self::Passes(why) => tracing::debug!(%error, why, "ignored"),
            Self::Never => tracing::error!(%error, "please report this mistake of neroman"),
        }
    }
}
