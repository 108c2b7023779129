//! The way to a node: one task that connects when there is something to do,
//! carries wishes there and brings records back, and leaves when it is idle.

mod backoff;
mod deliver;
mod driver;
mod follow;
mod inbox;
mod stage;
mod transfer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nero_wire::v1;
use tokio::sync::watch;
use tonic::transport::Channel;

use crate::core::state::State;
use crate::failure::Failure;
use crate::ledger::Ledger;

pub(crate) use deliver::desk_change;
pub(crate) use inbox::Inbox;
pub(crate) use transfer::{Hearer, Moving};

/// What is known of a node now.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeNow {
    /// Set while connected.
    pub channel: Option<Channel>,
    /// Why it is not connected, when the last try failed.
    pub why_not: String,
    /// When it was heard of last.
    pub contact_ms: Option<i64>,
    /// The newest description.
    pub description: Option<v1::NodeDescription>,
    /// Files on their way, when that takes more than a moment.
    pub transfer: Option<v1::Progress>,
}

/// How a node is connected to. The one way of this version is a neromum on
/// this machine.
pub(crate) trait Connect: Send + Sync + 'static {
    /// Connects, and starts neromum where none answers.
    fn connect(&self) -> futures_util::future::BoxFuture<'_, Result<Channel, Failure>>;
}

/// What a driver needs to know.
#[derive(Clone)]
pub(crate) struct Settings {
    pub name: String,
    /// Frozen files by content.
    pub store: PathBuf,
    /// Results of experiments whose folder cannot be written.
    pub results_fallback: PathBuf,
    /// Without anything to do for this long, the connection is given up.
    pub idle: Duration,
    pub clock: crate::clock::Clock,
}

/// The handle of a node.
#[derive(Clone)]
pub(crate) struct Node {
    pub inbox: Arc<Inbox>,
    now: watch::Receiver<NodeNow>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").finish_non_exhaustive()
    }
}

impl Node {
    /// Makes the handle, and the driver to be run.
    pub(crate) fn new(
        settings: Settings,
        inbox: Arc<Inbox>,
        ledger: Ledger,
        connect: Arc<dyn Connect>,
        stop: watch::Receiver<bool>,
    ) -> (Self, driver::Driver) {
        let (tell, now) = watch::channel(NodeNow::default());
        let node = Self {
            inbox: Arc::clone(&inbox),
            now,
        };
        let driver = driver::Driver::new(settings, inbox, ledger, connect, tell, stop);
        (node, driver)
    }

    /// What is known now.
    pub(crate) fn now(&self) -> NodeNow {
        self.now.borrow().clone()
    }

    /// Tells when what is known changes.
    pub(crate) fn watch(&self) -> watch::Receiver<NodeNow> {
        self.now.clone()
    }

    /// What is known once the node was asked; as it is when it does not answer
    /// at once or is not connected.
    pub(crate) async fn described(&self, patience: Duration) -> NodeNow {
        let mut now = self.now.clone();
        if now.borrow_and_update().channel.is_some() {
            self.inbox.want_description();
            let asked = tokio::time::timeout(patience, now.changed());
            // Late news are for the next one who asks.
            let _ = asked.await;
        }
        self.now()
    }

    /// A connection, made when there is none.
    ///
    /// # Errors
    /// When none comes about in time.
    pub(crate) async fn channel(&self, patience: Duration) -> Result<Channel, Failure> {
        let mut now = self.now.clone();
        if let Some(channel) = now.borrow_and_update().channel.clone() {
            return Ok(channel);
        }
        self.inbox.want_link();
        let connected = tokio::time::timeout(patience, async {
            loop {
                if now.changed().await.is_err() {
                    return None;
                }
                if let Some(channel) = now.borrow_and_update().channel.clone() {
                    return Some(channel);
                }
            }
        });
        match connected.await {
            Ok(Some(channel)) => Ok(channel),
            Ok(None) | Err(_) => {
                let why = self.now().why_not;
                let failure = Failure::node("node local does not answer");
                Err(if why.is_empty() {
                    failure
                } else {
                    failure.because(why)
                })
            }
        }
    }
}

/// The runs of a node that it may still have something to say about.
pub(crate) fn open_runs(state: &State, node: &str) -> Vec<nero_model::RunId> {
    state
        .experiments
        .iter()
        .flat_map(|experiment| experiment.runs.iter())
        .filter(|run| run.open() && run.made.node == node)
        .map(|run| run.made.id)
        .collect()
}
