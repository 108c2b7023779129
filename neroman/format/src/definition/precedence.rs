//! What comes before the start of a run: other experiments, other runs, and which node it gets
//! beside them.

use super::is_zero;
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
    /// `place`.
    #[serde(skip_serializing_if = "NodeChoice::is_free")]
    pub place: NodeChoice,
}

/// Which of the nodes that it may have a run gets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeChoice {
    /// The experiment whose newest run has the node; it comes before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<Dependency>,
    /// Experiments that have no live run there: names, globs, numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apart_from: Vec<String>,
    /// Whether the first one in the order of their list, not the least loaded one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_order: bool,
}

/// A line of shell whose output `requires` compares.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeProbe {
    pub name: String,
    pub command: String,
}

impl NodeChoice {
    /// Whether any node does.
    pub fn is_free(&self) -> bool {
        *self == Self::default()
    }

    /// Whether other experiments decide about it.
    pub fn names_others(&self) -> bool {
        self.same_as.is_some() || !self.apart_from.is_empty()
    }
}

impl Precedence {
    /// Whether nothing comes before a start.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it depends on other experiments.
    pub fn waits_for_others(&self) -> bool {
        let stages = self.stage.as_ref().map_or(&[][..], |stage| &stage.before);
        self.dependencies().next().is_some() || !stages.is_empty()
    }

    /// The experiments that it depends on.
    pub fn dependencies(&self) -> impl Iterator<Item = &Dependency> {
        self.needs.iter().chain(&self.place.same_as)
    }

    /// Whether it keeps runs of its kind from its node.
    pub fn is_alone_on_node(&self) -> bool {
        self.lock.is_some() || self.settle_ms > 0
    }

    /// Whether the node has to be chosen with a look at the other runs there.
    pub fn looks_at_others(&self) -> bool {
        self.is_alone_on_node() || self.place.names_others()
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
    /// It has a node, or had one.
    Placed,
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
