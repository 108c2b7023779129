//! The task of one node: connect, work while there is something to do, leave.

use std::sync::Arc;
use std::time::Duration;

use nero_wire::v1::mum_client::MumClient;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::transport::Channel;

use super::backoff::Backoff;
use super::deliver::Deliver;
use super::follow::{self, FollowEnd};
use super::inbox::Inbox;
use super::{Connect, NodeNow, Settings, open_runs, transfer};
use crate::failure::Failure;
use crate::ledger::Ledger;
use crate::results;

/// Drives one node until the daemon stops.
pub(crate) struct Driver {
    settings: Settings,
    inbox: Arc<Inbox>,
    ledger: Ledger,
    connect: Arc<dyn Connect>,
    tell: watch::Sender<NodeNow>,
    stop: watch::Receiver<bool>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

/// Why a connection ended.
enum SessionEnd {
    /// There is nothing to do.
    Idle,
    Lost(Failure),
}

impl Driver {
    pub(super) fn new(
        settings: Settings,
        inbox: Arc<Inbox>,
        ledger: Ledger,
        connect: Arc<dyn Connect>,
        tell: watch::Sender<NodeNow>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self {
            settings,
            inbox,
            ledger,
            connect,
            tell,
            stop,
        }
    }

    /// Works until the daemon stops.
    pub(crate) async fn run(mut self) {
        let mut stop = self.stop.clone();
        let stopped = tokio::select! {
            () = self.drive() => false,
            // An error means that the sender is gone: the daemon leaves, too.
            stopped = async { stop.wait_for(|stop| *stop).await.is_ok() } => stopped,
        };
        if stopped {
            self.send_home().await;
        }
        tracing::debug!(node = self.settings.name, "driver ended");
    }

    /// Lets the node's agent leave when no run needs it: it would leave by
    /// itself, and nobody has to wait for that.
    async fn send_home(&self) {
        let state = self.ledger.state();
        let live = |id: &nero_model::RunId| state.run(*id).is_some_and(|run| run.phase().is_live());
        if open_runs(&state, &self.settings.name).iter().any(live) {
            return;
        }
        let Some(channel) = self.tell.borrow().channel.clone() else {
            return;
        };
        let mut client = MumClient::new(channel);
        let asked = client.stop(nero_wire::v1::StopRequest::default());
        // It may be gone already, and leaves by itself if it did not hear.
        let _ = tokio::time::timeout(Duration::from_secs(2), asked).await;
    }

    async fn drive(&mut self) {
        let mut backoff = Backoff::default();
        loop {
            while !self.wanted() {
                self.inbox.rung().await;
            }
            let end = match self.connect.connect().await {
                Ok(channel) => {
                    let began = Instant::now();
                    let end = self.session(channel).await;
                    if began.elapsed() > Duration::from_secs(1) {
                        backoff.reset();
                    }
                    end
                }
                Err(failure) => SessionEnd::Lost(failure),
            };
            match end {
                SessionEnd::Idle => {
                    backoff.reset();
                    self.tell.send_modify(|now| {
                        now.channel = None;
                        now.why_not.clear();
                    });
                }
                SessionEnd::Lost(failure) => {
                    tracing::info!(node = self.settings.name, %failure, "node lost");
                    self.tell.send_modify(|now| {
                        now.channel = None;
                        now.why_not = failure.to_string();
                    });
                    tokio::time::sleep(backoff.next()).await;
                }
            }
        }
    }

    /// Whether there is a reason to be connected.
    fn wanted(&self) -> bool {
        self.inbox.link_wanted() || self.ledger.state().open > 0
    }

    async fn session(&mut self, channel: Channel) -> SessionEnd {
        let client = MumClient::new(channel.clone())
            .max_decoding_message_size(nero_model::MESSAGE_BYTES_MAX)
            .max_encoding_message_size(nero_model::MESSAGE_BYTES_MAX);
        let clock = self.settings.clock;
        self.tell.send_modify(|now| {
            now.channel = Some(channel);
            now.why_not.clear();
            now.contact_ms = Some(clock.now_ms());
        });
        // Whatever is open is looked at anew: nothing is remembered of an
        // earlier connection.
        self.inbox.look_at_all();
        let hearer = transfer::shown(self.tell.clone());
        let fetcher =
            results::Fetcher::new(self.settings.clone(), self.ledger.clone(), client.clone());
        let (closed_tx, closed_rx) = tokio::sync::mpsc::channel(16);
        let deliver = Deliver::new(
            self.settings.clone(),
            Arc::clone(&self.inbox),
            self.ledger.clone(),
            client.clone(),
            fetcher.queue(),
            closed_tx,
            hearer,
        );
        let end = tokio::select! {
            end = follow::run(&self.settings, &self.ledger, client.clone(), &self.tell, closed_rx) => match end {
                FollowEnd::Lost(failure) => SessionEnd::Lost(failure),
            },
            failure = deliver.run() => SessionEnd::Lost(failure),
            () = fetcher.run() => SessionEnd::Lost(Failure::bug("the fetcher of results ended")),
            failure = self.describe(client.clone()) => SessionEnd::Lost(failure),
            () = self.idle() => SessionEnd::Idle,
        };
        self.tell
            .send_modify(|now| now.contact_ms = Some(clock.now_ms()));
        end
    }

    /// Asks what the node has, whenever somebody wants to know.
    async fn describe(&self, mut client: MumClient<Channel>) -> Failure {
        const PATIENCE: Duration = Duration::from_secs(20);
        loop {
            let mut request = tonic::Request::new(nero_wire::v1::DescribeRequest {});
            request.set_timeout(PATIENCE);
            match client.describe(request).await {
                Ok(reply) => {
                    let now_ms = self.settings.clock.now_ms();
                    self.tell.send_modify(|now| {
                        now.description = Some(reply.into_inner());
                        now.contact_ms = Some(now_ms);
                    });
                }
                Err(status) => {
                    return Failure::node("the node does not say what it has").status(&status);
                }
            }
            self.inbox.description_wanted().await;
        }
    }

    /// Returns when nothing has been open for long enough.
    async fn idle(&self) {
        let mut states = self.ledger.watch();
        let mut since = Instant::now();
        loop {
            let busy = states.borrow_and_update().open > 0;
            if busy || self.inbox.link_wanted() {
                since = Instant::now();
                tokio::time::sleep(self.settings.idle.min(Duration::from_secs(10))).await;
            } else if since.elapsed() >= self.settings.idle {
                return;
            } else {
                let rest = self.settings.idle - since.elapsed();
                // A change of anything may open a run; an error means the end.
                let _ = tokio::time::timeout(rest, states.changed()).await;
            }
        }
    }
}
