//! What others ask of a node.

use std::sync::Arc;
use std::time::Duration;

use nero_wire::v1;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::transport::Channel;

use super::inbox::Inbox;
use super::now::NodeNow;
use nero_home::failure::Failure;

/// The handle of a node.
#[derive(Clone, Debug)]
pub struct NodeHandle {
    pub name: String,
    pub inbox: Arc<Inbox>,
    pub(super) now: watch::Receiver<NodeNow>,
}

/// How long to wait for a fresh try of a connection that failed before.
const FRESH_TRY: Duration = Duration::from_secs(10);

impl NodeHandle {
    /// The present state.
    pub fn now(&self) -> NodeNow {
        self.now.borrow().clone()
    }

    /// Whether its driver has ended: the node was removed, or the daemon leaves.
    pub fn has_ended(&self) -> bool {
        self.now.has_changed().is_err()
    }

    /// Returns at the first change after this is called.
    pub async fn news(&self) {
        let mut now = self.now.clone();
        now.mark_unchanged();
        // An error means that the daemon leaves.
        let _ = now.changed().await;
    }

    /// The state after the node was asked for a description; the present one if
    /// it is not connected or does not answer in time.
    pub async fn described(&self, patience: Duration) -> NodeNow {
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
            // A late description serves the next caller.
            let _ = tokio::time::timeout(patience, newer).await.map(drop);
        }
        self.now()
    }

    /// Whether the node sends a description within this time; false if it is
    /// not connected.
    pub async fn answers(&self, patience: Duration) -> bool {
        let before = self.now();
        let now = self.described(patience).await;
        let newer = match (&now.about, &before.about) {
            (Some(now), Some(before)) => !Arc::ptr_eq(now, before),
            (now, _) => now.is_some(),
        };
        now.connected() && (newer || now.contact_ms > before.contact_ms)
    }

    /// A connection, made if there is none. An earlier failure is returned only
    /// after one fresh try failed or takes long.
    ///
    /// # Errors
    /// When no connection is made in time, or none can be made without a
    /// person.
    pub async fn channel(&self, patience: Duration) -> Result<Channel, Failure> {
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
                // The agent of this machine is started anew in a moment.
                let failed = known.failures > asked && self.name != nero_config::LOCAL;
                known.channel.is_some() || known.needs_person || failed
            });
            // The state after the wait is the answer, whatever it is.
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

    /// The failure of a node that cannot be asked, with the reason.
    pub fn away(&self, known: &NodeNow) -> Failure {
        let failure = Failure::node(format!("node {} does not answer", self.name));
        match (&known.failed, &known.transfer) {
            (Some(why), _) => {
                let mut hint = why.hint_text().to_owned();
                let remedy = why.remedied_by();
                // Steps that the person took meanwhile are not visible here.
                if known.needs_person && remedy == v1::Remedy::Unspecified {
                    let join = if hint.is_empty() { "" } else { "; then " };
                    hint.push_str(&format!("{join}neroman node connect {}", self.name));
                }
                failure.because(why.to_string()).hint(hint).remedy(remedy)
            }
            (None, Some(transfer)) => failure
                .because(format!("{} is not done yet", transfer.what))
                .hint("try again in a moment"),
            (None, None) => failure,
        }
    }
}
