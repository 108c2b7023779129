//! What was made of a run's outputs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::journal::Metric;

/// What was made of a run's outputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessedOutputs {
    /// Summaries of the series, by name. A name that the job printed, too, is the job's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, Metric>,
    /// The file of their numbers; empty: the one that has the name of the run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub numbers: String,
    /// What failed: a line, and perhaps a traceback below it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// What else there is to tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Pictures among its results that are ours.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<String>,
    /// Whether all of that is to be made anew: it was made of outputs or records that are
    /// others now. The series are gone already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// How often it was to be made anew.
    pub version: u32,
}

impl ProcessedOutputs {
    /// What is left when its run's outputs or records are others.
    pub(crate) fn outdated(self) -> Self {
        Self {
            pictures: self.pictures,
            stale: true,
            version: self.version.saturating_add(1),
            ..Self::default()
        }
    }
}
