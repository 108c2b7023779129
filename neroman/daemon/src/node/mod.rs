//! The way to the nodes. Each has one task that connects when there is
//! something to do, carries wishes there, brings records back, and leaves when
//! it is idle; the placer chooses nodes for runs that name none.

mod abandoned;
mod backoff;
mod contacts;
mod deliver;
mod described;
mod driver;
mod follow;
mod hand_over;
mod inbox;
mod now;
mod placer;
mod registry;
mod resume;
mod stage;
mod transfer;
mod wake;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use nero_wire::v1;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::transport::Channel;

use crate::failure::Failure;
use crate::results::Places;
use nero_life::state::State;

pub(crate) use described::BYTES_MAX;
pub(crate) use inbox::{Inbox, Inboxes, Kick};
pub(crate) use now::{Described, Known, NodeNow};
pub(crate) use registry::{Nodes, Setup, not_configured};
pub(crate) use transfer::{Hearer, Moving};

/// A connection to a node's neromum, greeted.
pub(crate) struct Link {
    pub channel: Channel,
    pub hello: v1::Hello,
    /// Returns when what carries the channel has ended.
    pub gone: BoxFuture<'static, ()>,
    /// What carries it to another machine.
    pub host: Option<nero_ssh::Host>,
    /// What that machine said of itself.
    pub facts: Option<Arc<nero_agents::Facts>>,
}

/// Why no connection came about.
#[derive(Clone, Debug)]
pub(crate) struct Unconnected {
    pub failure: Failure,
    /// Trying again is of no use before a person does something.
    pub needs_person: bool,
}

impl From<Failure> for Unconnected {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            needs_person: false,
        }
    }
}

/// Is told how far something on its way has come.
pub(crate) type Heard<'a> = &'a (dyn Fn(v1::Progress) + Send + Sync);

/// How one node is connected to.
pub(crate) trait Connect: Send + Sync + 'static {
    /// Connects, and starts neromum where none answers.
    fn connect<'a>(&'a self, heard: Heard<'a>) -> BoxFuture<'a, Result<Link, Unconnected>>;

    /// Lets go of what carries connections: it may be dead without knowing. What
    /// a person opened stays: what they typed is not thrown away.
    fn hang_up(&self) -> BoxFuture<'_, ()>;

    /// Lets go of everything.
    fn forget(&self) -> BoxFuture<'_, ()> {
        self.hang_up()
    }
}

/// How nodes are connected to: this machine, and others.
pub(crate) trait Ways: Send + Sync + 'static {
    /// The way to a node, as it is configured now.
    fn way(&self, name: &str, node: &nero_config::Node) -> Arc<dyn Connect>;
}

/// What a driver needs to know.
#[derive(Clone)]
pub(crate) struct Settings {
    pub name: String,
    /// Frozen files by content.
    pub store: PathBuf,
    /// Where results go.
    pub results: Places,
    /// Without anything to do for this long, the connection is given up.
    pub idle: Duration,
    pub clock: crate::clock::Clock,
    /// Out of reach for this long, a node loses what it never got, if another
    /// one may take it.
    pub away: Duration,
    /// Another machine.
    pub remote: bool,
}

/// The handle of a node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub name: String,
    pub inbox: Arc<Inbox>,
    now: watch::Receiver<NodeNow>,
}

/// How long a fresh try of a way that failed before is waited for.
const FRESH_TRY: Duration = Duration::from_secs(10);

impl Node {
    /// What is known now.
    pub(crate) fn now(&self) -> NodeNow {
        self.now.borrow().clone()
    }

    /// Returns when what is known changes after this is called first.
    pub(crate) async fn news(&self) {
        let mut now = self.now.clone();
        now.mark_unchanged();
        // An error means that the daemon leaves.
        let _ = now.changed().await;
    }

    /// What is known once the node was asked; as it is when it does not answer
    /// at once or is not connected.
    pub(crate) async fn described(&self, patience: Duration) -> NodeNow {
        let mut now = self.now.clone();
        let asked = {
            let known = now.borrow_and_update();
            known.channel.is_some().then(|| known.about.clone())
        };
        if let Some(before) = asked {
            self.inbox.want_description();
            let newer = now.wait_for(|known| {
                known.channel.is_none()
                    || match (&known.about, &before) {
                        (Some(now), Some(before)) => !Arc::ptr_eq(now, before),
                        (now, _) => now.is_some(),
                    }
            });
            // Late news are for the next one who asks.
            let _ = tokio::time::timeout(patience, newer).await.map(drop);
        }
        self.now()
    }

    /// Whether the node says anything within this time; false when it is not
    /// connected.
    pub(crate) async fn answers(&self, patience: Duration) -> bool {
        let before = self.now();
        let now = self.described(patience).await;
        let newer = match (&now.about, &before.about) {
            (Some(now), Some(before)) => !Arc::ptr_eq(now, before),
            (now, _) => now.is_some(),
        };
        now.connected() && (newer || now.contact_ms > before.contact_ms)
    }

    /// A connection, made when there is none. What was wrong already is told
    /// once one fresh try failed, or takes long.
    ///
    /// # Errors
    /// When none comes about in time, or none can without a person.
    pub(crate) async fn channel(&self, patience: Duration) -> Result<Channel, Failure> {
        let mut now = self.now.clone();
        let start = Instant::now();
        let asked = {
            let known = now.borrow_and_update();
            if let Some(channel) = &known.channel {
                return Ok(channel.clone());
            }
            if known.needs_person {
                return Err(self.away(&known));
            }
            known.failures
        };
        self.inbox.want_link();
        let mut settled = async |until: Instant| {
            let settled = now.wait_for(|known| {
                // This machine's own agent is started anew in a moment.
                let failed = known.failures > asked && self.name != nero_config::LOCAL;
                known.channel.is_some() || known.needs_person || failed
            });
            // What is known by then is the answer, whatever it is.
            let _ = tokio::time::timeout_at(until, settled).await.map(drop);
        };
        settled(start + patience.min(FRESH_TRY)).await;
        let known = self.now();
        if known.channel.is_none() && known.failures == asked && known.on_its_way() {
            settled(start + patience).await;
        }
        let known = self.now();
        match &known.channel {
            Some(channel) => Ok(channel.clone()),
            None => Err(self.away(&known)),
        }
    }

    /// That the node cannot be asked, and why.
    pub(crate) fn away(&self, known: &NodeNow) -> Failure {
        let failure = Failure::node(format!("node {} does not answer", self.name));
        match (&known.failed, &known.transfer) {
            (Some(why), _) => {
                let mut hint = why.hint_text().to_owned();
                // What was done meanwhile is not seen from here.
                let told = ["node connect", "node take-over"];
                if known.needs_person && !told.iter().any(|what| hint.contains(what)) {
                    let join = if hint.is_empty() { "" } else { "; then " };
                    hint.push_str(&format!("{join}neroman node connect {}", self.name));
                }
                failure.because(why.to_string()).hint(hint)
            }
            (None, Some(transfer)) => failure
                .because(format!("{} is not done yet", transfer.what))
                .hint("try again in a moment"),
            (None, None) => failure,
        }
    }
}

/// The runs of a node that it may still have something to say about.
pub(crate) fn open_runs(state: &State, node: &str) -> Vec<nero_model::RunId> {
    state
        .experiments
        .iter()
        .flat_map(|experiment| experiment.runs.iter())
        .filter(|run| run.open() && run.node() == Some(node))
        .map(|run| run.made.id)
        .collect()
}
