//! What is kept about nodes: the ledgers that they answered with, and those that have not told yet
//! what they know.

use std::collections::BTreeSet;

use nero_model::LedgerId;
use serde::{Deserialize, Serialize};

/// The ledger of a neromum, and the root below which it lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLedger {
    pub id: LedgerId,
    pub root: String,
}

/// What is still to be learnt after a home was restored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreState {
    /// When the backup was made.
    pub made_ms: i64,
    /// Nodes that have not told yet what they know.
    pub nodes: BTreeSet<String>,
    /// Host of the backup, if its `local` is not this machine's: that node never tells.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub other_host: String,
}

impl RestoreState {
    /// Whether a node has told what it knows.
    pub(crate) fn has_told(&self, node: &str) -> bool {
        !self.nodes.contains(node) && (node != LOCAL || self.other_host.is_empty())
    }
}

/// The node of the researcher's own machine.
const LOCAL: &str = "local";
