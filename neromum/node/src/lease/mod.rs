//! Leadership where several hosts share a node's root: one lease per epoch,
//! renewed by beats. It saves work and keeps two neromums from answering
//! differently. Safety does not rest on it, but on the exclusive creates of
//! claims and cancel requests. See `docs/design/shared-homes.md`.

pub mod files;
mod hold;
pub mod host;
#[cfg(test)]
mod tests;

use nero_model::paths::NodePaths;
use nero_node_core::lease::ProcessPlace;

pub use files::BEAT;
pub use files::{LeaseError, Leases};
pub use hold::{ClaimHost, HeldEpoch};
pub use host::Eye;

/// Whether a neromum on this host leads by lease and may still act.
pub fn leads_here(paths: &NodePaths) -> bool {
    if !paths.lease().is_dir() {
        return false;
    }
    let found = Eye::own()
        .ok()
        .and_then(|eye| Leases::open(&paths.lease()).ok()?.newest_lease(&eye).ok()?);
    found.is_some_and(|found| found.seen.place == ProcessPlace::Here && found.seen.may_act())
}
