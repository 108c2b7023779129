//! Leadership where several hosts share a node's root: one lease per epoch,
//! renewed by beats. Saves work and keeps two from answering differently;
//! safety rests on the exclusive creates of claims and wishes, not on it.
//! See `docs/design/shared-homes.md`.

pub mod begin;
pub mod decide;
pub mod files;
pub mod hold;
pub mod host;
#[cfg(test)]
mod tests;

use std::str::FromStr;
use std::time::Duration;

use nero_model::paths::NodePaths;

use crate::relay::addresses::Listen;

pub use begin::BeginError;
pub use files::{LeaseError, Leases};
pub use hold::{Held, Origin};
pub use host::Eye;

/// Whether several hosts share the root, as the user says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shared {
    /// By the file system's type, or since it was so before.
    #[default]
    Auto,
    /// They do.
    Yes,
    /// They do not: a file lock leads.
    No,
}

impl FromStr for Shared {
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

impl std::fmt::Display for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Yes => "yes",
            Self::No => "no",
        })
    }
}

/// How to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Whether by lease at all.
    pub shared: Shared,
    /// Where diallers of other hosts are let in.
    pub listen: Listen,
    /// Between two beats.
    pub beat: Duration,
    /// Lead though the leader of this epoch may live: it cannot be reached.
    pub over: Option<u64>,
    /// What its dialler met.
    pub because: String,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            shared: Shared::Auto,
            listen: Listen::Auto,
            beat: files::BEAT,
            over: None,
            because: String::new(),
        }
    }
}

impl Terms {
    /// Whether a lease leads this node.
    ///
    /// # Errors
    /// When nobody can say what file system the root lies on.
    pub fn by_lease(&self, paths: &NodePaths) -> std::io::Result<bool> {
        match self.shared {
            Shared::Yes => Ok(true),
            Shared::No => Ok(false),
            Shared::Auto => paths.is_shared(),
        }
    }
}

/// Whether a neromum of this very host leads by lease and may still act.
pub fn leads_here(paths: &NodePaths) -> bool {
    if !paths.lease().is_dir() {
        return false;
    }
    let found = Eye::own()
        .ok()
        .and_then(|eye| Leases::open(&paths.lease()).ok()?.look(&eye).ok()?);
    found.is_some_and(|found| found.seen.place == decide::Place::Here && found.seen.may_act())
}
