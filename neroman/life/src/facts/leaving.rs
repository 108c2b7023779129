//! Why a run leaves a node, as it is stored: refusal, deferral, recall.

use serde::{Deserialize, Serialize};

use super::now::Tick;

/// A node's statement that it cannot have a run that was not started there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub node: String,
    /// The node's words, bounded.
    pub why: String,
    /// The step that a person can take.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
    pub at_ms: i64,
}

/// A node's statement that it cannot take a run for now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deferral {
    pub node: String,
    /// The node's words, bounded.
    pub why: String,
    /// Time of the first such statement.
    pub since_ms: i64,
    /// The same moment on our boot clock; `None` in data of an earlier build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Tick>,
    /// Time at which the run left the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<i64>,
    /// The same moment on our boot clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Tick>,
}

/// The reason of a recall, and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recall {
    pub refusal: Refusal,
    /// Whether it may come back if the node has nothing of it: the node could not
    /// take it for now.
    #[serde(default)]
    pub passes: bool,
    /// The node that has room for it; `None` if its own node cannot have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Whether the node may have been asked: this is synced.
    #[serde(default)]
    pub asked: bool,
}

/// Why a run leaves its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The node cannot start it.
    CannotStart,
    /// The node cannot take it for now.
    NoRoomNow,
    /// Another node can start it now.
    RoomElsewhere,
}

impl Recall {
    pub(crate) fn cause(&self) -> Cause {
        match (self.passes, &self.to) {
            (_, Some(_)) => Cause::RoomElsewhere,
            (true, None) => Cause::NoRoomNow,
            (false, None) => Cause::CannotStart,
        }
    }
}
