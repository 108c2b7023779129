//! The facts of a run that never change, and its demands on its node.

use std::borrow::Cow;

use nero_format::{
    DataDef, Definition, FollowUp, NodeProbe, NodeResources, OutputProcessing, Precedence,
    SchedulerOptions, SharedPart,
};
use nero_model::units::print_duration_ms;
use nero_model::{RunId, RunToken};
use serde::{Deserialize, Serialize};

use super::follows::{Cause, Follows};
use super::now::Tick;

/// The facts of a run that never change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub token: RunToken,
    pub id: RunId,
    /// The word that was asked for: a node, a group, `any`. For a run made before
    /// nodes were chosen, its node.
    pub node: String,
    /// Whether the placer chooses its node, or did so at the start.
    #[serde(default)]
    pub placing: bool,
    pub created_ms: i64,
    /// The same moment on the boot clock of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Tick>,
    /// BLAKE3 of the frozen tree in hexadecimal; empty: no files.
    #[serde(default)]
    pub tree: String,
    /// Commit of the folder, when it is a checkout.
    #[serde(default)]
    pub git: String,
    /// Fingerprint of its definition; empty if it was taken over, and so unknown.
    #[serde(default)]
    pub fingerprint: String,
    /// Time limit, to compute the time left.
    #[serde(default)]
    pub time_ms: u64,
    /// Whether files are to come home.
    #[serde(default)]
    pub outputs: bool,
    /// Whether no outputs are named: then all files that its job makes come home.
    #[serde(default)]
    pub all_made: bool,
    /// The demands on its node.
    #[serde(default)]
    pub takes: RunDemands,
    /// The first run of those that were made together with this one, by one `start` or
    /// `restart`; it names the batch. Unknown for a run that was taken over, or made by
    /// an earlier build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<RunId>,
    /// The earlier run of the experiment whose checkpoints it begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<u32>,
    /// The runs that follow its end by themselves.
    #[serde(default, skip_serializing_if = "FollowUp::is_none")]
    pub again: SharedPart<FollowUp>,
    /// Whether its experiment names checkpoints.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
    /// What is made of its outputs when they are home.
    #[serde(default, skip_serializing_if = "OutputProcessing::is_empty")]
    pub processing: SharedPart<OutputProcessing>,
    /// What comes before its start.
    #[serde(default, skip_serializing_if = "Precedence::is_none")]
    pub precedence: SharedPart<Precedence>,
    /// Of the runs that wait on a node, those of a higher one go first.
    #[serde(default, skip_serializing_if = "is_none")]
    pub priority: i32,
    /// Its place among the runs of its start.
    #[serde(default, skip_serializing_if = "is_first")]
    pub rank: u32,
    /// The runs of which only some go on at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Line>,
    /// The run after which neroman made it by itself; none: a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Follows>,
}

/// Runs of which only some go on at once, over all nodes: those of one start, and the runs
/// that follow them by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The first run of the start.
    pub of: RunId,
    pub at_most: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_none(priority: &i32) -> bool {
    *priority == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_first(rank: &u32) -> bool {
    *rank == 0
}

impl RunRecord {
    /// Holds what the run before it holds, where both are equal.
    pub fn share(&mut self, before: &Self) {
        self.again.share(&before.again);
        self.processing.share(&before.processing);
        self.precedence.share(&before.precedence);
        let (takes, of_before) = (&mut self.takes, &before.takes);
        takes.probes.share(&of_before.probes);
        takes.data.share(&of_before.data);
        takes.scheduling.share(&of_before.scheduling);
        takes.on_nodes.share(&of_before.on_nodes);
    }

    /// The time limit on a node, or where none is chosen yet; 0: none.
    pub fn time_ms_on(&self, node: Option<&str>) -> u64 {
        let own = node.and_then(|node| self.takes.on_nodes.time_ms.on(node));
        own.copied().unwrap_or(self.time_ms)
    }

    /// The batch whose runs and first ends it counts among. A run that neroman made by
    /// itself is its experiment once more, and no sign of what the others will do.
    pub(crate) fn counts_in(&self) -> Option<RunId> {
        self.batch.filter(|_| self.follows.is_none())
    }
}

/// The resources that a run takes of its node, and its requirements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunDemands {
    /// Processors; 0 means 1.
    pub cpus: f64,
    /// Memory; 0 if not stated.
    pub memory_bytes: u64,
    /// Time limit that a scheduler is asked for, in seconds; 0: none.
    #[serde(skip_serializing_if = "is_zero")]
    pub limit_s: u64,
    /// Runs of its start that ask the same, of which a pack may hold as many as it can;
    /// 0: not looked at.
    #[serde(skip)]
    pub together: u32,
    /// Free space below the node's root; 0: not stated.
    pub disk_bytes: u64,
    /// The canonical expression of `requires`; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub requires: String,
    /// The probes that `requires` uses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: SharedPart<Vec<NodeProbe>>,
    /// The node that is preferred if it fits; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefer: String,
    /// Whether the first node that can start it is taken, in the order of their list.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_order: bool,
    /// The data on the nodes, with their paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data: SharedPart<Vec<DataDef>>,
    /// What it asks of a scheduler.
    #[serde(skip_serializing_if = "SchedulerOptions::is_empty")]
    pub scheduling: SharedPart<SchedulerOptions>,
    /// What single nodes give in place of `cpus`, `memory_bytes`, `disk_bytes` and the time
    /// limit.
    #[serde(skip_serializing_if = "NodeResources::is_empty")]
    pub on_nodes: SharedPart<NodeResources>,
    /// The grace that belongs to the time limits of `on_nodes`.
    #[serde(skip_serializing_if = "is_zero")]
    pub grace_ms: u64,
    /// Whether a retry asks for more than the person did: it ends where no node can
    /// ever take it, instead of waiting for one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub grown: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl RunDemands {
    /// What it takes on a node.
    pub fn on(&self, node: &str) -> Cow<'_, Self> {
        if self.on_nodes.is_empty() {
            return Cow::Borrowed(self);
        }
        let own = &self.on_nodes;
        let limit_s = |time_ms: &u64| Definition::limit_s(*time_ms, self.grace_ms);
        Cow::Owned(Self {
            cpus: own.cpus.on(node).copied().unwrap_or(self.cpus),
            memory_bytes: own
                .memory_bytes
                .on(node)
                .copied()
                .unwrap_or(self.memory_bytes),
            limit_s: own.time_ms.on(node).map_or(self.limit_s, limit_s),
            disk_bytes: own.disk_bytes.on(node).copied().unwrap_or(self.disk_bytes),
            on_nodes: SharedPart::default(),
            ..self.clone()
        })
    }

    /// Processors that it keeps busy.
    pub fn cores(&self) -> f64 {
        if self.cpus > 0.0 { self.cpus } else { 1.0 }
    }

    /// Hosts on a node with a scheduler, at least 1.
    pub fn hosts(&self, node: &str) -> u32 {
        self.scheduling.nodes.on(node).copied().unwrap_or(1).max(1)
    }

    /// Processors on a node with a scheduler, at least one for each of its processes.
    pub fn cores_on(&self, node: &str) -> f64 {
        let processes = self.scheduling.processes.on(node).copied().unwrap_or(0);
        self.cores().max(processes.max(self.hosts(node)).into())
    }

    /// Whether it waits here until a node fits. Runs wait for processors and
    /// memory on the node itself, which refuses what it can never provide.
    pub fn asks(&self) -> bool {
        self.disk_bytes > 0 || !self.on_nodes.disk_bytes.is_empty() || !self.requires.is_empty()
    }
}

impl RunRecord {
    /// Time until a retry is due, by `retry.after`; 0 for any other run. After another start
    /// of this machine all of it counts anew, since only a boot clock decides.
    pub fn pause_left_ms(&self, now: &Tick) -> i64 {
        let pause_ms = self.pause_ms();
        let created = self.created.as_ref();
        (pause_ms - now.since(created)).clamp(0, pause_ms)
    }

    fn pause_ms(&self) -> i64 {
        let item = self.follows.as_ref().and_then(|one| match one.cause {
            Cause::Retry { item, .. } => Some(item),
            Cause::Timeout | Cause::Rule { .. } => None,
        });
        let retry = item.and_then(|item| self.again.retries().nth(item));
        retry.map_or(0, |retry| i64::try_from(retry.after_ms).unwrap_or(i64::MAX))
    }

    /// Why a retry that is not due yet waits.
    pub(crate) fn why_later(&self) -> String {
        let pause = print_duration_ms(self.pause_ms().unsigned_abs());
        let before = self.follows.as_ref().map_or(0, |follows| follows.run);
        let experiment = self.id.experiment;
        format!("retried {pause} after {experiment}.{before} ended (`retry.after`)")
    }
}
