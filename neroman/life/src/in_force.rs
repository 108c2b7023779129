//! The rules in force of one run, and what its node has of them.

use std::sync::Arc;

use nero_model::paths::run::RULES_VERSION_MAX;

use super::change::{Change, dispatch_changed};
use super::cohort::PeersNumber;
use super::late::{Late, Stepped};
use super::run::Run;

/// Records that the rules which were sent as `version` lie on the run's node as `kept`.
/// Rules that were changed since then get a version above that one.
pub(crate) fn delivered(run: &Run, version: u64, kept: u64) -> Option<Change> {
    let changed = run.rules_version() > version;
    dispatch_changed(run, |dispatch| {
        dispatch.rules_delivered = dispatch.rules_delivered.max(version);
        if (version + 1..RULES_VERSION_MAX).contains(&kept) {
            dispatch.rules_version = dispatch.rules_version.max(kept + u64::from(changed));
            dispatch.rules_delivered = kept;
        }
    })
}

/// Puts new aggregates over its peers in force, with the next version of its rules.
pub(crate) fn folded(run: &Run, numbers: &Arc<[PeersNumber]>) -> Stepped {
    if !run.takes_peers() {
        return Err(Late);
    }
    let changed = dispatch_changed(run, |dispatch| {
        dispatch.rules_version = run.rules_version().saturating_add(1);
        dispatch.peers = numbers.to_vec();
    });
    Ok(changed.into_iter().collect())
}

/// Puts these rules in force, with the next version.
pub(crate) fn changed(run: &Run, ids: &Arc<[u64]>) -> Change {
    let mut dispatch = run.dispatch.clone();
    dispatch.rules_version = run.rules_version().saturating_add(1);
    Change::Dispatch {
        run: run.made.id,
        dispatch: Box::new(dispatch),
        rules: Some(Arc::clone(ids)),
    }
}
