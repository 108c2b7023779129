//! What was measured: series, processes, progress, the host.

use serde::{Deserialize, Serialize};

use super::super::now::Tick;
use super::Key;

/// Summary of one series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    pub key: (u32, Key),
    #[serde(with = "nero_format::float_text")]
    pub last: f64,
    #[serde(with = "nero_format::float_text")]
    pub step: f64,
    #[serde(with = "nero_format::float_text")]
    pub min: f64,
    #[serde(with = "nero_format::float_text")]
    pub max: f64,
    pub count: u64,
    /// Time of the last point, on the node's wall clock.
    pub at_ms: i64,
}

/// The last measurement of the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub key: (u32, Key),
    pub at_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<Tick>,
    pub cpu_cores: f64,
    pub cpu_ms: u64,
    pub rss_bytes: u64,
    pub peak_rss_bytes: u64,
    pub written_bytes: u64,
    pub silent_ms: u64,
    /// Mean utilisation of its GPUs, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<f64>,
    /// Memory of its processes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpumem_bytes: Option<u64>,
    /// Power that its GPUs take together, in watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_power_w: Option<f64>,
    /// Of the hottest of its GPUs, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_temperature_c: Option<f64>,
}

/// How far the job has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub key: (u32, Key),
    /// From 0 to 1.
    pub done: f64,
    /// Run time of its start at that moment.
    pub ran_ms: u64,
    /// Expected run time from then to the end; `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
}

/// The host at the run's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    pub key: (u32, Key),
    pub host: String,
    pub kernel: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    pub cpu_model: String,
    pub disk_free_bytes: u64,
    pub gpus: Vec<String>,
    /// Of these the ones that the run was given, where a node gives them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given_gpus: Vec<String>,
    /// The image of its container with its digest; empty: it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
}
