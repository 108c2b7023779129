//! The way from the agent to one follower. It counts bytes and events on their
//! way; the stream that takes events off wakes the agent when something waits
//! for room.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use nero_wire::v1::FollowEvent;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::Stream;

use crate::agent::AgentHandle;
use crate::config;

/// Bytes and events on their way to one follower.
#[derive(Debug, Default)]
pub struct Flow {
    bytes: AtomicUsize,
    events: AtomicUsize,
    starved: AtomicBool,
}

impl Flow {
    /// Whether more may be sent.
    pub fn open(&self) -> bool {
        self.bytes.load(Ordering::Acquire) < config::FOLLOWER_BYTES_MAX
            && self.events.load(Ordering::Acquire) < config::FOLLOWER_EVENTS_MAX
    }

    /// An event is on its way.
    pub fn begun(&self, event: &FollowEvent) {
        self.bytes.fetch_add(event.encoded_len(), Ordering::AcqRel);
        self.events.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes whether something waits for room.
    pub fn set_starved(&self, starved: bool) {
        self.starved.store(starved, Ordering::Release);
    }

    /// Whether there is enough room to wake the agent.
    pub fn half_empty(&self) -> bool {
        self.bytes.load(Ordering::Acquire) < config::FOLLOWER_BYTES_MAX / 2
            && self.events.load(Ordering::Acquire) < config::FOLLOWER_EVENTS_MAX / 2
    }
}

/// Events for one follower, as the service sends them.
#[derive(Debug)]
pub struct FollowStream {
    /// Names the follower.
    pub id: u64,
    events: mpsc::UnboundedReceiver<FollowEvent>,
    flow: Arc<Flow>,
    handle: AgentHandle,
}

impl FollowStream {
    /// The receiving end of one follower's events.
    pub fn new(
        id: u64,
        events: mpsc::UnboundedReceiver<FollowEvent>,
        flow: Arc<Flow>,
        handle: AgentHandle,
    ) -> Self {
        Self {
            id,
            events,
            flow,
            handle,
        }
    }
}

impl Stream for FollowStream {
    type Item = Result<FollowEvent, tonic::Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = std::task::ready!(self.events.poll_recv(cx));
        if let Some(event) = &next {
            self.flow
                .bytes
                .fetch_sub(event.encoded_len(), Ordering::AcqRel);
            self.flow.events.fetch_sub(1, Ordering::AcqRel);
            if self.flow.half_empty() && self.flow.starved.swap(false, Ordering::AcqRel) {
                self.handle.follower_has_room(self.id);
            }
        }
        Poll::Ready(next.map(Ok))
    }
}

impl Drop for FollowStream {
    fn drop(&mut self) {
        self.handle.follower_gone(self.id);
    }
}
