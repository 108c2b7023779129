//! The run that another one follows by itself, and why.

use std::fmt;

use nero_format::RetryOn;
use serde::{Deserialize, Serialize};

/// Most runs in a row that rules make.
pub(crate) const BY_RULES_MAX: u32 = 3;

/// The earlier run after which neroman made a run by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follows {
    /// Number of the run that ended.
    pub run: u32,
    pub cause: Cause,
    /// Runs in a row that `retry` made, up to this one.
    pub retries: u32,
    /// Those by each item of a list, where `retry` has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_items: Vec<u32>,
    /// Runs in a row that rules made, up to this one.
    pub by_rules: u32,
    /// The word for nodes that was asked for, where a rule keeps this run on one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_node: Option<String>,
}

/// Why neroman made a run by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// `retry`, with its `max`.
    Retry {
        on: RetryOn,
        max: u32,
        /// The item of the list.
        #[serde(default, skip_serializing_if = "is_first")]
        item: usize,
    },
    /// `on_timeout: requeue`.
    Timeout,
    /// A rule, with its condition. `anywhere`: a node was chosen anew.
    Rule { text: String, anywhere: bool },
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_first(item: &usize) -> bool {
    *item == 0
}

impl Follows {
    /// Runs in a row that an item of `retry` made.
    pub(crate) fn by_item(&self, item: usize) -> u32 {
        match self.by_items.as_slice() {
            [] => self.retries,
            counts => counts.get(item).copied().unwrap_or(0),
        }
    }
}

impl fmt::Display for Follows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Retry { on, max, item } => {
                write!(f, "retry {} of {max} after {on}", self.by_item(*item))
            }
            Cause::Timeout => f.write_str("requeued after its time limit"),
            Cause::Rule { text, anywhere } => {
                let done = if *anywhere { "requeued" } else { "restarted" };
                write!(
                    f,
                    "{done} by the rule `{text}`, {} of {BY_RULES_MAX}",
                    self.by_rules
                )
            }
        }
    }
}
