//! Why runs of a batch are held, and how far a batch has come.

use nero_model::RunId;
use serde::{Deserialize, Serialize};

/// Why runs of a batch are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldCause {
    /// The first run of the batch has not finished.
    Pilot,
    /// The first ends of the batch were equal crashes; this run is the first of them.
    Crashes(RunId),
    /// It needs other experiments. Never stored: see
    /// [`Dispatch::behind_others`](crate::facts::dispatch::Dispatch::behind_others).
    Others,
    /// As many runs of its start as may go on at once do. Never stored: see
    /// [`Dispatch::in_line`](crate::facts::dispatch::Dispatch::in_line).
    AtMost,
}

/// A run that has not begun is not started.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hold {
    /// It is held. `told`: its node answered that it holds the run, too.
    On { cause: HoldCause, told: bool },
    /// The hold was lifted, and its node may not know that yet.
    Lifted,
}

/// The number of runs of a batch, and how many of them have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchCount {
    pub runs: u32,
    pub ended: u32,
}
