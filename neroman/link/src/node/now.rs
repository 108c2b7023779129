//! The present state of a node, and notices of its changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nero_wire::hello::RECALL;
use nero_wire::v1;
use tokio::sync::watch;
use tonic::transport::Channel;

use super::contacts::Contact;
use crate::transfer::ProgressCallback;
use nero_home::clock::Clock;
use nero_home::failure::Failure;
use nero_life::now::{Moment, PresentTime, Tick};

/// The present state of a node.
#[derive(Clone, Debug, Default)]
pub struct NodeNow {
    /// Set while connected.
    pub channel: Option<Channel>,
    /// A try to connect is under way.
    pub connecting: bool,
    /// Why it is not connected, if the last try failed.
    pub failed: Option<Failure>,
    /// It is not tried again before a person does something.
    pub needs_person: bool,
    /// The time of the next try.
    pub next_try_ms: Option<i64>,
    /// Since when the node is out of reach: its last contact.
    pub since_ms: Option<i64>,
    /// When the silence was noticed, on our boot clock.
    pub noticed_boot_ms: Option<i64>,
    /// The time of the last contact.
    pub contact_ms: Option<i64>,
    /// The same moment on our boot clock.
    pub contact: Option<Tick>,
    /// The number of tries that failed since the start.
    pub failures: u64,
    /// The transfer to the node that is under way.
    pub transfer: Option<v1::Progress>,
    /// The newest description.
    pub about: Option<Arc<ReceivedDescription>>,
    /// The greeting of its agent.
    pub hello: Option<Arc<v1::Hello>>,
    /// The ssh connection to another machine.
    pub host: Option<nero_ssh::Host>,
    /// The facts that the probe of that machine returned.
    pub facts: Option<Arc<nero_agents::Facts>>,
    /// How many runs that the database does not contain were reported on this
    /// connection.
    pub unknown_runs: usize,
    /// Whether this daemon was ever connected to it.
    pub greeted: bool,
    /// The contact data that the daemon before this one stored.
    pub before: Option<Contact>,
}

/// A node's description, and its time.
#[derive(Clone, Debug, Default)]
pub struct ReceivedDescription {
    pub description: v1::NodeDescription,
    /// Our boot clock when the node's showed `description.boot_ms`.
    pub boot_ms: i64,
    /// The node's clock minus ours.
    pub clock_offset_ms: i64,
    pub round_trip_ms: f64,
}

impl NodeNow {
    /// The state of a node, with what an earlier daemon recorded about it.
    pub(super) fn after(before: Option<Contact>) -> Self {
        Self {
            contact_ms: before.as_ref().and_then(|before| before.contact_ms),
            contact: before.as_ref().and_then(|before| before.contact.clone()),
            before,
            ..Self::default()
        }
    }

    /// The contact data for the next daemon.
    pub(super) fn contact(&self) -> Contact {
        let before = self.before.as_ref().filter(|_| !self.greeted);
        Contact {
            contact_ms: self.heard_ms(),
            contact: self.heard(),
            since_ms: self.since_ms.or(before.and_then(|before| before.since_ms)),
            connected: self.connected() || before.is_some_and(|before| before.connected),
            clock_offset_ms: self.clock_offset_ms(),
        }
    }

    /// The node's clock minus ours, when it was measured last.
    pub fn clock_offset_ms(&self) -> Option<i64> {
        let now = self.about.as_ref().map(|about| about.clock_offset_ms);
        now.or_else(|| self.before.as_ref()?.clock_offset_ms)
    }

    /// Whether nothing was heard of the node since the daemon's start, and no
    /// try failed.
    pub fn unheard(&self) -> bool {
        !self.greeted && !self.out_of_reach()
    }

    /// Whether the node is connected.
    pub fn connected(&self) -> bool {
        self.channel.is_some()
    }

    /// Whether its agent can promise that it never starts a run.
    pub(super) fn supports_recall(&self) -> bool {
        let said = self.hello.iter().flat_map(|hello| &hello.capabilities);
        said.into_iter().any(|word| word == RECALL)
    }

    /// The time of the last contact, a mere sign of life included.
    pub fn heard_ms(&self) -> Option<i64> {
        let later_ms = match (self.heard(), &self.contact) {
            (Some(heard), Some(contact)) => heard.ms.saturating_sub(contact.ms),
            (Some(_) | None, _) => 0,
        };
        Some(self.contact_ms?.saturating_add(later_ms))
    }

    /// The same moment on our boot clock.
    pub fn heard(&self) -> Option<Tick> {
        let contact = self.contact.as_ref()?;
        let carrier_ms = self.host.as_ref().and_then(nero_ssh::Host::heard_boot_ms);
        Some(Tick {
            boot: contact.boot.clone(),
            ms: contact.ms.max(carrier_ms.unwrap_or(0)),
        })
    }

    /// Records a contact at this moment.
    pub(super) fn hear(&mut self, at: Moment) {
        self.contact_ms = Some(at.ms);
        self.contact = Some(at.tick);
    }

    /// Keeps the contact time of a connection that ends now.
    pub(super) fn keep_contact(&mut self) {
        (self.contact_ms, self.contact) = (self.heard_ms(), self.heard());
    }

    /// How long the node is known to be out of reach.
    pub fn away(&self, boot_ms: i64) -> Duration {
        let since_ms = self.noticed_boot_ms.unwrap_or(boot_ms);
        Duration::from_millis(boot_ms.saturating_sub(since_ms).max(0).unsigned_abs())
    }

    /// Marks the node as out of reach from now on.
    pub(super) fn lose(&mut self, now: &Moment) {
        self.keep_contact();
        let heard = self.contact_ms.filter(|_| self.connected());
        self.part();
        let before = self.before.as_ref().filter(|_| !self.greeted);
        let before = before.and_then(Contact::silent_since_ms);
        self.since_ms = self.since_ms.or(heard).or(before).or(Some(now.ms));
        self.noticed_boot_ms = self.noticed_boot_ms.or(Some(now.tick.ms));
    }

    /// Clears the failure.
    pub(super) fn found(&mut self) {
        self.failed = None;
        self.since_ms = None;
        self.noticed_boot_ms = None;
        self.next_try_ms = None;
        self.needs_person = false;
    }

    /// Clears the connection.
    pub(super) fn part(&mut self) {
        self.channel = None;
        self.host = None;
    }

    /// Whether the last try failed, or the connection was lost.
    pub fn out_of_reach(&self) -> bool {
        self.channel.is_none() && self.since_ms.is_some()
    }

    /// Whether a try is likely to succeed: none failed before, or files are
    /// being sent.
    pub(super) fn on_its_way(&self) -> bool {
        let sent = self.transfer.as_ref().map_or(0, |sent| sent.total_bytes);
        self.failed.is_none() || sent > 0
    }

    /// Why it is out of reach, in one line.
    pub fn why_not(&self) -> String {
        self.failed
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    /// The step that the person can take.
    pub fn hint(&self) -> &str {
        self.failed.as_ref().map_or("", Failure::hint_text)
    }

    /// The step to which that hint leads.
    pub fn remedy(&self) -> v1::Remedy {
        let failed = self.failed.as_ref();
        failed.map_or(v1::Remedy::Unspecified, Failure::remedied_by)
    }
}

/// The publisher of a driver's state.
#[derive(Clone, Debug)]
pub(crate) struct StatePublisher {
    one: Arc<watch::Sender<NodeNow>>,
    any: Arc<watch::Sender<u64>>,
}

impl StatePublisher {
    /// `any` is rung with every change of any node.
    pub(super) fn new(any: Arc<watch::Sender<u64>>, now: NodeNow) -> Self {
        Self {
            one: Arc::new(watch::channel(now).0),
            any,
        }
    }

    pub(super) fn listen(&self) -> watch::Receiver<NodeNow> {
        self.one.subscribe()
    }

    /// Changes the state, and wakes the watchers.
    pub(crate) fn change(&self, change: impl FnOnce(&mut NodeNow)) {
        self.one.send_modify(change);
        self.any.send_modify(|count| *count += 1);
    }

    /// Changes facts whose changes wake no watcher.
    pub(crate) fn quietly(&self, change: impl FnOnce(&mut NodeNow)) {
        self.one.send_if_modified(|now| {
            change(now);
            false
        });
    }

    /// The present state.
    pub(super) fn now(&self) -> NodeNow {
        self.one.borrow().clone()
    }
}

/// The states of all nodes.
#[derive(Clone, Debug, Default)]
pub struct NodeStates {
    pub(super) nodes: BTreeMap<String, NodeNow>,
}

impl NodeStates {
    /// The present moment, also on the boot clocks of nodes that reported
    /// theirs.
    pub fn now(&self, clock: Clock) -> PresentTime {
        let here = clock.tick();
        let boot_ms = clock.boot_ms();
        let told = self.nodes.values().filter_map(|node| node.about.as_ref());
        let there = told.filter(|about| about.description.boot_ms > 0);
        let mut boots: BTreeMap<String, i64> = there
            .map(|about| {
                let shown = i64::try_from(about.description.boot_ms).unwrap_or(i64::MAX);
                let boot = about.description.boot_id.clone();
                (boot, shown.saturating_add(boot_ms - about.boot_ms))
            })
            .collect();
        // Our own clock needs no node's report.
        boots.insert(here.boot, here.ms);
        PresentTime {
            ms: clock.now_ms(),
            boots: Arc::new(boots),
            ..PresentTime::default()
        }
    }

    /// The state of a node; `None` if it is not configured.
    pub fn of(&self, node: &str) -> Option<&NodeNow> {
        self.nodes.get(node)
    }

    /// The part that is shown with runs; a cheap way to see whether it changed.
    pub fn reach(&self) -> Vec<(String, bool, Option<i64>)> {
        self.nodes
            .iter()
            .map(|(name, now)| (name.clone(), now.connected(), now.since_ms))
            .collect()
    }
}

/// Shows transfers beside the state of a node.
pub(super) fn progress_callback(tell: StatePublisher) -> ProgressCallback {
    Arc::new(move |progress| {
        // Progress wakes no task that waits for news of the node.
        tell.quietly(|now| now.transfer.clone_from(&progress));
    })
}
