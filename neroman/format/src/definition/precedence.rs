//! What comes before the start of a run: other experiments, other runs.

use serde::{Deserialize, Serialize};

/// What has to have happened before a run starts, and what it keeps other runs from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Precedence {
    /// `depends_on`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Dependency>,
    /// `stage`, and what `stages` has before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<InStage>,
    /// `lock`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<RunLock>,
    /// `settle`.
    #[serde(skip_serializing_if = "is_zero")]
    pub settle_ms: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Precedence {
    /// Whether nothing comes before a start.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it depends on other experiments.
    pub fn waits_for_others(&self) -> bool {
        let stages = self.stage.as_ref().map_or(&[][..], |stage| &stage.before);
        !self.needs.is_empty() || !stages.is_empty()
    }

    /// Whether the node has to be chosen with a look at the other runs there.
    pub fn is_alone_on_node(&self) -> bool {
        self.lock.is_some() || self.settle_ms > 0
    }
}

/// Experiments that come before.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dependency {
    /// How far they have to be.
    pub until: DependsUntil,
    /// The number of an experiment; else a name, or a glob on names, of the same source.
    pub on: String,
}

/// How far an experiment has to be before another one starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependsUntil {
    /// It finished: with success.
    Finished,
    /// It ended, in whatever way.
    Ended,
    /// Its job was started.
    Started,
}

/// A stage of a source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InStage {
    /// Its name.
    pub name: String,
    /// The stages before it, the first one first.
    pub before: Vec<String>,
}

/// A name that one run has at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunLock {
    /// The name.
    pub name: String,
    /// Whether on all nodes together, not on each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub everywhere: bool,
}
