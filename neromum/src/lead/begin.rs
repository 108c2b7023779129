//! Becoming the leader of the next epoch, or finding that another leads.

use std::io;
use std::path::PathBuf;

use nero_journal::v1::Lease;
use nero_model::paths::NodePaths;
use nero_node::lease::files::NewestLease;
use nero_node::lease::{Eye, HeldEpoch, LeaseError, Leases};
use nero_node_core::lease::{EpochReason, FailedAttempts, Step, decide};

use super::Terms;
use crate::relay::addresses::inside;
use crate::relay::door::Door;

/// Limit of the dialler's reason in a lease.
const BECAUSE_CHARS: usize = 200;

/// Reason why this process cannot lead.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// The leases cannot be used.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// Sockets or beats cannot be used.
    #[error("cannot {what}")]
    Io {
        /// The action that failed.
        what: &'static str,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> BeginError {
    move |source| BeginError::Io { what, source }
}

/// An epoch that is ours.
#[derive(Debug)]
pub struct OwnEpoch {
    /// Renews the epoch.
    pub held: HeldEpoch,
    /// The socket that the lease names; not bound yet.
    pub socket: PathBuf,
    /// Listens at the addresses in the lease, and answers no connection yet.
    pub door: Door,
    /// Reason for the new epoch.
    pub why: String,
}

/// Begins the next epoch. `None` when another neromum leads, or was faster.
///
/// # Errors
/// When leases, sockets or beats cannot be made.
pub async fn begin(
    paths: &NodePaths,
    terms: &Terms,
    socket: &str,
    build: &str,
) -> Result<Option<OwnEpoch>, BeginError> {
    let leases = Leases::open(&paths.lease())?;
    let eye = Eye::own().map_err(failed("read /proc"))?;
    let found = leases.newest_lease(&eye)?;
    let tried = FailedAttempts {
        relay: terms.over.is_some() && terms.over == found.as_ref().map(|found| found.seen.epoch),
        ..FailedAttempts::default()
    };
    let Step::Lead(because) = decide(found.as_ref().map(|found| &found.seen), tried) else {
        return Ok(None);
    };
    let why = why(because, found.as_ref(), &terms.because);
    leases.note_host(&eye)?;
    let sockets = paths
        .make_shared_sockets(&eye.process.boot_id)
        .map_err(failed("make a folder for sockets"))?;
    let door = Door::open(&inside(terms.listen, &eye.host.name).await).await;
    let lease = Lease {
        epoch: found.as_ref().map_or(1, |found| found.seen.epoch + 1),
        host: eye.host.name.clone(),
        machine: eye.host.machine.clone(),
        process: Some(eye.process.into()),
        socket: sockets.join(socket).display().to_string(),
        relay: door.addresses(),
        build: build.to_owned(),
        why: why.clone(),
        beat_ms: u32::try_from(terms.beat.as_millis()).unwrap_or(u32::MAX),
    };
    if !leases.begin(&lease)? {
        return Ok(None);
    }
    leases.sweep(lease.epoch);
    let before = found
        .as_ref()
        .map(|found| (&found.seen, found.lease.host.as_str()));
    let held = HeldEpoch::new(leases, eye, lease.epoch, terms.beat, before)
        .map_err(failed("begin to renew the lease"))?;
    Ok(Some(OwnEpoch {
        held,
        socket: sockets.join(socket),
        door,
        why,
    }))
}

fn why(because: EpochReason, found: Option<&NewestLease>, said: &str) -> String {
    let host = found.map_or("", |found| &found.lease.host);
    let said: String = said.chars().take(BECAUSE_CHARS).collect();
    match because {
        EpochReason::First => "nobody led before".to_owned(),
        EpochReason::Left => "the last neromum left in order".to_owned(),
        EpochReason::Dead => format!("the neromum of {host} is dead"),
        EpochReason::Silent => {
            let silent = found.map_or(0, |found| found.seen.beat_age.as_secs());
            format!("the neromum of {host} has been silent for {silent} s")
        }
        EpochReason::Unreachable if said.is_empty() => {
            format!("the neromum of {host} cannot be reached from here")
        }
        EpochReason::Unreachable => {
            format!("the neromum of {host} cannot be reached from here: {said}")
        }
    }
}
