//! What a run needs of its node and asks of its scheduler.

use serde::{Deserialize, Serialize};

/// What a run needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Processors of the whole run; fractions are allowed.
    pub cpus: f64,
    /// Memory of the whole run.
    pub memory_bytes: Option<u64>,
    /// The longest the run may take.
    pub time_ms: Option<u64>,
    /// Free space that the node has to have when the run goes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Values of single nodes, in place of those.
    #[serde(default, skip_serializing_if = "NodeResources::is_empty")]
    pub on_nodes: NodeResources,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            cpus: 1.0,
            memory_bytes: None,
            time_ms: None,
            disk_bytes: None,
            on_nodes: NodeResources::default(),
        }
    }
}

impl Resources {
    /// What the run needs on a node.
    pub fn on(&self, node: &str) -> Self {
        let own = &self.on_nodes;
        Self {
            cpus: own.cpus.on(node).copied().unwrap_or(self.cpus),
            memory_bytes: own.memory_bytes.on(node).copied().or(self.memory_bytes),
            time_ms: own.time_ms.on(node).copied().or(self.time_ms),
            disk_bytes: own.disk_bytes.on(node).copied().or(self.disk_bytes),
            on_nodes: NodeResources::default(),
        }
    }
}

/// Resources of single nodes, by their names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeResources {
    /// Processors.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub cpus: OnNodes<f64>,
    /// Memory.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub memory_bytes: OnNodes<u64>,
    /// The longest the run may take.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub time_ms: OnNodes<u64>,
    /// Free space.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub disk_bytes: OnNodes<u64>,
}

impl NodeResources {
    /// Whether no node has values of its own.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a run asks of a node's scheduler, beside its resources. Names have the
/// alphabet of `nero_warden::Word`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulerOptions {
    /// GPUs of the whole run.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub gpus: OnNodes<u32>,
    /// The part of each that the run gets, in millionths; 0: it sees to GPUs itself.
    /// Empty: whole ones.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub gpu_share: OnNodes<u32>,
    /// Memory that each must have, in bytes.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub gpumem: OnNodes<u64>,
    /// Their type.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub gpu_type: OnNodes<String>,
    /// Hosts, 1 or more.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub nodes: OnNodes<u32>,
    /// Processes that the launcher starts, as many on each host, 1 or more.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub processes: OnNodes<u32>,
    /// Program that starts the command on the hosts: `srun`, `mpirun`, `none`.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub launcher: OnNodes<String>,
    /// No other job on the hosts.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub exclusive: OnNodes<bool>,
    /// Partition (SLURM).
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub partition: OnNodes<String>,
    /// Account (SLURM), project (Grid Engine).
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub account: OnNodes<String>,
    /// Quality of service (SLURM).
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub qos: OnNodes<String>,
    /// Features of the host (SLURM).
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub constraint: OnNodes<String>,
    /// Queue (Grid Engine).
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub queue: OnNodes<String>,
    /// Parallel environment (Grid Engine).
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub parallel_env: OnNodes<String>,
    /// Lines of the shell before the run.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub setup: OnNodes<Vec<String>>,
    /// The Python of the run: `conda:NAME`, `venv:PATH`, `uv`, `system`.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub python: OnNodes<String>,
    /// The container of the command. One without an image: none, whatever a node has.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub container: OnNodes<Container>,
    /// The person's own options of `sbatch`, each one word.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub sbatch_args: OnNodes<Vec<String>>,
    /// The same of `qsub`.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub qsub_args: OnNodes<Vec<String>>,
    /// Runs that share one task of the scheduler, 1 or more.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub pack: OnNodes<u32>,
    /// Most tasks of one submission that run at the same time, 1 or more.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub at_once: OnNodes<u32>,
    /// Whether a run is submitted again, without a question, when its job vanished from
    /// the scheduler and began nothing.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub reruns_lost: OnNodes<bool>,
}

/// A container that a command is executed in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Container {
    /// Name, or path of an archive, image file or folder; empty: no container.
    pub image: String,
    /// Its runtime; empty: the first that works on the node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// `SOURCE[:TARGET][:ro]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// Network; empty: the host's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub network: String,
    /// `always`, `never`; empty: where the image is missing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pull: String,
    /// Options of the runtime, each one word.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

impl SchedulerOptions {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A value for all nodes, or one for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnNodes<T>(pub Vec<OnNode<T>>);

/// A value for one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnNode<T> {
    /// The node; `None`: every node that has no value of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The value.
    pub value: T,
}

impl<T> Default for OnNodes<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> OnNodes<T> {
    /// Whether no node has a value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same nodes with a value made of each.
    pub fn each<U>(&self, of: impl Fn(&T) -> U) -> OnNodes<U> {
        let each = self.0.iter().map(|one| OnNode {
            node: one.node.clone(),
            value: of(&one.value),
        });
        OnNodes(each.collect())
    }

    /// The value for all nodes without one of their own, taken out.
    pub(crate) fn take_default(&mut self) -> Option<T> {
        let at = self.0.iter().position(|one| one.node.is_none())?;
        Some(self.0.remove(at).value)
    }

    /// The value for a node.
    pub fn on(&self, node: &str) -> Option<&T> {
        let of = |wanted: Option<&str>| {
            let found = self.0.iter().find(|one| one.node.as_deref() == wanted);
            found.map(|one| &one.value)
        };
        of(Some(node)).or_else(|| of(None))
    }
}
