//! What the writer hands to the runtime: each batch in one message, with the new state, the replies
//! and the runs that concern nodes.
//!
//! A task that another thread wakes costs a write into an eventfd, and a switch when the runtime
//! sleeps. So the writer wakes one task of the runtime, and that one wakes all others.

use std::sync::Arc;

use nero_life::change::ChangeKinds;
use nero_life::state::State;
use nero_model::RunId;
use tokio::sync::{mpsc, oneshot};

use super::news::Publisher;
use super::{Bell, Listener};

/// Everything that one batch leaves to the runtime.
#[derive(Default)]
pub(super) struct Delivery {
    /// The new state, if something was committed.
    pub(super) state: Option<Arc<State>>,
    /// The kinds of changes that it has.
    pub(super) kinds: ChangeKinds,
    replies: Vec<Box<dyn FnOnce() + Send>>,
    pub(super) bells: Vec<(RunId, Bell)>,
}

impl Delivery {
    /// Adds a reply. Its caller may be gone by then.
    pub(super) fn reply<T: Send + 'static>(&mut self, to: oneshot::Sender<T>, answer: T) {
        self.replies.push(Box::new(move || drop(to.send(answer))));
    }

    fn is_empty(&self) -> bool {
        self.state.is_none() && self.replies.is_empty() && self.bells.is_empty()
    }

    /// Adds what a later batch left.
    fn append(&mut self, later: Self) {
        self.state = later.state.or(self.state.take());
        self.kinds.add(later.kinds);
        self.replies.extend(later.replies);
        self.bells.extend(later.bells);
    }
}

/// The writer's end.
#[derive(Clone)]
pub(super) struct Outbox(mpsc::UnboundedSender<Delivery>);

impl Outbox {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Delivery>) {
        #[expect(
            clippy::disallowed_methods,
            reason = "a message answers callers who wait for it, or follows from a timer"
        )]
        let (tx, rx) = mpsc::unbounded_channel();
        (Self(tx), rx)
    }

    /// Whether the task of the runtime that takes deliveries has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Hands a delivery over. When the runtime is gone, so are all callers.
    pub(super) fn send(&self, delivery: Delivery) {
        if !delivery.is_empty() {
            let _ = self.0.send(delivery);
        }
    }
}

/// Publishes the states, answers the callers and rings the bells, in this order, until the writer
/// ends: a caller that has its answer finds its change in the state.
pub(super) async fn deliver(
    mut deliveries: mpsc::UnboundedReceiver<Delivery>,
    publisher: Publisher,
    listener: Listener,
) {
    while let Some(mut delivery) = deliveries.recv().await {
        while let Ok(later) = deliveries.try_recv() {
            delivery.append(later);
        }
        if let Some(state) = delivery.state {
            publisher.publish(state, delivery.kinds);
        }
        for reply in delivery.replies {
            reply();
        }
        listener(&publisher.state(), &delivery.bells);
    }
}
