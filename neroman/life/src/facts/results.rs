//! How far the results of a run have come home.

use serde::{Deserialize, Serialize};

/// How far the results have come home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Results {
    /// The run has not ended, or nothing was decided.
    #[default]
    Open,
    /// Being fetched into this folder; empty: it is not made yet.
    Fetching {
        folder: String,
        /// Why they wait on this machine; empty if they do not.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// Complete in this folder; the notes list files that stayed on the node.
    Done {
        folder: String,
        notes: Vec<String>,
        /// Files that stayed there because they are too large.
        #[serde(default)]
        left: u64,
        /// Warnings for every view of the run: files that stayed there, and
        /// outputs that matched no file.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
    /// The run printed nothing and has no outputs.
    Nothing,
    /// Given up, with the reason.
    Failed { folder: String, why: String },
}

impl Results {
    /// Whether no further attempt will be made.
    pub fn settled(&self) -> bool {
        match self {
            Self::Open | Self::Fetching { .. } => false,
            Self::Done { .. } | Self::Nothing | Self::Failed { .. } => true,
        }
    }

    /// Sets another folder, if there is one.
    pub fn set_folder(&mut self, now: String) {
        match self {
            Self::Done { folder, .. }
            | Self::Fetching { folder, .. }
            | Self::Failed { folder, .. } => {
                *folder = now;
            }
            Self::Open | Self::Nothing => {}
        }
    }

    /// The folder, if there is one.
    pub fn folder(&self) -> &str {
        match self {
            Self::Done { folder, .. }
            | Self::Fetching { folder, .. }
            | Self::Failed { folder, .. } => folder,
            Self::Open | Self::Nothing => "",
        }
    }
}
