//! The way of one run's files from its node to the disk here.

use std::path::PathBuf;
use std::time::Duration;

use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use tonic::transport::Channel;

use super::choice::RunOnNode;
use super::trouble::Trouble;
use crate::transfer::ProgressCallback;
use nero_home::failure::Failure;

/// How long a stream may stay silent.
pub(super) const SILENCE: Duration = Duration::from_secs(120);

/// The source and the destination of one run's files.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) client: MumClient<Channel>,
    pub(super) run: v1::RunRef,
    /// The start of the run; 0: the newest one.
    pub(super) start: u32,
    pub(super) whose: RunOnNode,
    pub(super) folder: PathBuf,
    /// The file that records what came already.
    pub(super) known: PathBuf,
    pub(super) on_progress: ProgressCallback,
    /// Bytes that stay free on the disk of the results.
    pub(super) min_free: u64,
}

/// The failure of a node that is silent although its connection exists.
pub(super) fn silent() -> Trouble {
    Trouble::Node(Failure::node_does("sends nothing more"))
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Trouble> {
    tokio::task::spawn_blocking(work).await.map_err(ended_early)
}

pub(super) fn ended_early(error: tokio::task::JoinError) -> Trouble {
    Trouble::Refused(Failure::bug("writing results ended early").caused_by(&error))
}
