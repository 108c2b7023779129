//! Becoming the leader of a node whose root several hosts share: on which terms, and the epoch that
//! begins. `lease` has the files of all epochs.

pub mod begin;

use std::str::FromStr;
use std::time::Duration;

use nero_model::paths::NodePaths;
use nero_node::lease::BEAT;

use crate::relay::addresses::Listen;

pub use begin::BeginError;

/// The user's setting: whether several hosts share the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RootSharing {
    /// Decided by the type of the file system, or by an earlier lease.
    #[default]
    Auto,
    /// They share it.
    Yes,
    /// They do not share it: a file lock decides who leads.
    No,
}

impl FromStr for RootSharing {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => Ok(Self::Auto),
            "yes" => Ok(Self::Yes),
            "no" => Ok(Self::No),
            _ => Err(()),
        }
    }
}

impl std::fmt::Display for RootSharing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Yes => "yes",
            Self::No => "no",
        })
    }
}

/// Terms of leading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Whether a lease is used at all.
    pub shared: RootSharing,
    /// Addresses for diallers of other hosts.
    pub listen: Listen,
    /// Interval of the beats.
    pub beat: Duration,
    /// Lead even if the leader of this epoch may live: it cannot be reached.
    pub over: Option<u64>,
    /// Reason of the dialler that started us.
    pub because: String,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            shared: RootSharing::Auto,
            listen: Listen::Auto,
            beat: BEAT,
            over: None,
            because: String::new(),
        }
    }
}

impl Terms {
    /// Whether a lease decides who leads this node.
    ///
    /// # Errors
    /// When the type of the root's file system cannot be read.
    pub fn by_lease(&self, paths: &NodePaths) -> std::io::Result<bool> {
        match self.shared {
            RootSharing::Yes => Ok(true),
            RootSharing::No => Ok(false),
            RootSharing::Auto => paths.is_shared(),
        }
    }
}
