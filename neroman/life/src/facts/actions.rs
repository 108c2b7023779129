//! What the daemon had done for runs: firings of its rules, and the ends of commands.

use serde::{Deserialize, Serialize};

use super::journal::CommandEnd;
use super::now::Tick;

/// The end of the command of a rule's newest firing that this machine ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionEnd {
    pub times: u32,
    pub ran: CommandEnd,
}

/// The end of a step that this machine executed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepEnd {
    /// The start whose job asked, and the number of the step.
    pub of: (u32, u32),
    pub ran: CommandEnd,
    /// Whether the node has it.
    pub delivered: bool,
}

/// The end of the command of a handler of `on_error`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResponseEnd {
    pub incarnation: u32,
    pub ran: CommandEnd,
}

/// The firings of one rule in one run, as the daemon decided them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleFirings {
    pub times: u32,
    /// The last one.
    pub at_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Tick>,
    pub action: String,
    pub text: String,
    /// The names of the rule with their values.
    pub values: String,
}
