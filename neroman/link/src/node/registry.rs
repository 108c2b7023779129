//! All nodes of the configuration, and the tasks that drive them. A configured
//! node has a driver; a node that leaves the configuration loses it, and its
//! runs report that.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nero_config::Config;
use tokio::sync::{mpsc, watch};
use tonic::transport::Channel;

use super::contacts::{self, Contact, Contacts};
use super::description;
use super::driver::{Driver, DriverStop};
use super::inbox::{Inboxes, RetryCause};
use super::now::{NodeNow, NodeStates, StatePublisher};
use super::way::Way;
use super::{NodeHandle, Settings};
use crate::config_file::{ConfigFile, ConfigStamp};
use crate::connect::{Connect, NodeConnector};
use nero_home::failure::Failure;
use nero_home::ledger::Ledger;
use nero_life::place::Figures;
use nero_life::state::State;

/// The parts of the registry.
#[expect(missing_debug_implementations, reason = "ways to nodes show nothing")]
pub struct Setup {
    pub config: Arc<ConfigFile>,
    /// The file of contact data.
    pub contacts: PathBuf,
    /// Settings of every node; each driver fills in the name.
    pub settings: Settings,
    pub ledger: Ledger,
    pub inboxes: Arc<Inboxes>,
    pub ways: Arc<dyn NodeConnector>,
    /// True once the daemon leaves.
    pub stop: watch::Receiver<bool>,
}

/// One node that has a driver.
struct Entry {
    node: NodeHandle,
    way: Way,
    configured: nero_config::Node,
    asks: watch::Sender<nero_format::SchedulerOptions>,
    stop: watch::Sender<DriverStop>,
}

impl Entry {
    /// Keeps the words of the configuration. Runs that are handed over from now on ask
    /// by them.
    fn configure(&mut self, configured: &nero_config::Node) {
        self.configured = configured.clone();
        self.asks.send_replace(configured.asks.clone());
    }
}

/// The configuration as it was read last, and the drivers of its nodes.
struct ConfiguredNodes {
    stamp: ConfigStamp,
    config: Arc<Config>,
    /// Why the present file cannot be used.
    problem: Option<Failure>,
    nodes: BTreeMap<String, Entry>,
}

struct RegistryState {
    config: Arc<ConfigFile>,
    contacts: PathBuf,
    /// The contact data that the daemon before this one stored.
    before: Contacts,
    settings: Settings,
    ledger: Ledger,
    inboxes: Arc<Inboxes>,
    ways: Arc<dyn NodeConnector>,
    held: Mutex<ConfiguredNodes>,
    /// Rung with every change of the state of any node.
    any: Arc<watch::Sender<u64>>,
    spawn: mpsc::UnboundedSender<Driver>,
}

/// All nodes. Cheap to clone.
#[derive(Clone)]
pub struct Nodes(Arc<RegistryState>);

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").finish_non_exhaustive()
    }
}

impl Nodes {
    /// Reads the configuration and makes the drivers, which are to be run.
    pub(super) fn made(setup: Setup) -> (Self, mpsc::UnboundedReceiver<Driver>) {
        #[expect(
            clippy::disallowed_methods,
            reason = "one driver for each node, taken as soon as the task runs"
        )]
        let (spawn, spawned) = mpsc::unbounded_channel();
        let shared = RegistryState {
            config: setup.config,
            before: contacts::read(&setup.contacts),
            contacts: setup.contacts,
            settings: setup.settings,
            ledger: setup.ledger,
            inboxes: setup.inboxes,
            ways: setup.ways,
            held: Mutex::new(ConfiguredNodes {
                stamp: None,
                config: Arc::new(Config::default()),
                problem: None,
                nodes: BTreeMap::new(),
            }),
            any: Arc::new(watch::channel(0).0),
            spawn,
        };
        let nodes = Self(Arc::new(shared));
        nodes.read(&mut nodes.held());
        (nodes, spawned)
    }

    fn held(&self) -> MutexGuard<'_, ConfiguredNodes> {
        // A panic in here leaves the drivers as they are; the file is read
        // anew.
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration in the present file.
    ///
    /// # Errors
    /// When the file cannot be used; the nodes stay as they were.
    pub fn config(&self) -> Result<Arc<Config>, Failure> {
        self.look_at_config();
        let held = self.read_if_changed();
        match &held.problem {
            Some(problem) => Err(problem.clone()),
            None => Ok(Arc::clone(&held.config)),
        }
    }

    /// The last configuration that could be used. A caller that needs the file reports its fault.
    pub fn usable_config(&self) -> Arc<Config> {
        Arc::clone(&self.read_if_changed().config)
    }

    /// Has the file be looked at before the next use: a person may have changed it just now.
    pub fn look_at_config(&self) {
        self.0.config.look_again();
    }

    fn read_if_changed(&self) -> MutexGuard<'_, ConfiguredNodes> {
        let mut held = self.held();
        if held.stamp != self.0.config.stamp() {
            self.read(&mut held);
        }
        held
    }

    /// Reads the file and starts and stops drivers accordingly.
    fn read(&self, held: &mut ConfiguredNodes) {
        // Taken first: a change in between is read the next time.
        self.look_at_config();
        held.stamp = self.0.config.stamp();
        match Config::read(self.0.config.path()) {
            Ok(config) => {
                held.config = Arc::new(config);
                held.problem = None;
            }
            Err(error) => {
                let problem = Failure::config(&error);
                tracing::warn!(%problem, "the configuration cannot be used");
                held.problem = Some(problem);
            }
        }
        let config = Arc::clone(&held.config);
        held.nodes.retain(|name, entry| {
            let stays = config.nodes.contains_key(name);
            if !stays {
                tracing::info!(node = name, "node is configured no more");
                entry.stop.send_replace(DriverStop::Removed);
            }
            stays
        });
        for (name, configured) in &config.nodes {
            match held.nodes.get_mut(name) {
                Some(entry) if same(&entry.configured, configured) => entry.configure(configured),
                Some(entry) => {
                    tracing::info!(node = name, "node is configured otherwise");
                    entry.configure(configured);
                    entry.way.change(self.0.ways.way(name, configured));
                    entry.node.inbox.kick(RetryCause::Changed);
                }
                None => {
                    let entry = self.entry(name, configured);
                    held.nodes.insert(name.clone(), entry);
                }
            }
        }
        self.0.any.send_modify(|count| *count += 1);
        self.0.inboxes.ring_placer();
    }

    fn entry(&self, name: &str, configured: &nero_config::Node) -> Entry {
        let inbox = self.0.inboxes.of(name);
        let before = self.0.before.get(name).cloned();
        let tell = StatePublisher::new(Arc::clone(&self.0.any), NodeNow::after(before));
        let way = Way::new(self.0.ways.way(name, configured));
        let (stop, stopped) = watch::channel(DriverStop::No);
        let (asks, asked) = watch::channel(configured.asks.clone());
        let settings = Settings {
            asks: asked,
            name: name.to_owned(),
            remote: configured.address.is_some(),
            ..self.0.settings.clone()
        };
        let node = NodeHandle {
            name: name.to_owned(),
            inbox: Arc::clone(&inbox),
            now: tell.listen(),
        };
        // A task that is gone means that the daemon is leaving.
        let _ = self.0.spawn.send(Driver {
            settings,
            inbox,
            ledger: self.0.ledger.clone(),
            way: way.clone(),
            tell,
            stop: stopped,
        });
        Entry {
            node,
            way,
            configured: configured.clone(),
            asks,
            stop,
        }
    }

    /// The way to a node by the given configuration.
    pub fn way(&self, name: &str, node: &nero_config::Node) -> Arc<dyn Connect> {
        self.0.ways.way(name, node)
    }

    /// A configured node.
    pub fn node(&self, name: &str) -> Option<NodeHandle> {
        self.held().nodes.get(name).map(|entry| entry.node.clone())
    }

    /// All nodes.
    pub fn all(&self) -> Vec<NodeHandle> {
        let held = self.held();
        held.nodes
            .values()
            .map(|entry| entry.node.clone())
            .collect()
    }

    /// The states of all nodes.
    pub fn known(&self) -> NodeStates {
        let held = self.read_if_changed();
        NodeStates {
            nodes: held
                .nodes
                .iter()
                .map(|(name, entry)| (name.clone(), entry.node.now()))
                .collect(),
        }
    }

    /// Kicks all nodes after another ssh agent came: failed tries may succeed
    /// with it.
    pub fn agent_came(&self) {
        for node in self.all() {
            if node.now().out_of_reach() {
                node.inbox.kick(RetryCause::Agent);
            }
        }
    }

    /// Notices of any change of any node's state.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.any.subscribe()
    }

    /// A connection to a node.
    ///
    /// # Errors
    /// When the node is not configured, or no connection is made in time.
    pub async fn channel(&self, node: &str, patience: Duration) -> Result<Channel, Failure> {
        match self.node(node) {
            Some(node) => node.channel(patience).await,
            None => Err(not_configured(node)),
        }
    }

    /// Waits until the node is connected, or its state changes; at least for a
    /// moment.
    pub async fn settled(&self, node: &str, moment: Duration) {
        tokio::time::sleep(moment).await;
        if let Some(node) = self.node(node)
            && !node.now().connected()
        {
            node.news().await;
        }
    }

    /// The known state of a node; empty for a node that is not configured.
    pub fn now(&self, node: &str) -> NodeNow {
        self.node(node).map(|node| node.now()).unwrap_or_default()
    }

    /// The file of contact data.
    pub(super) fn contacts_path(&self) -> PathBuf {
        self.0.contacts.clone()
    }

    /// The contact data of all nodes for the next daemon.
    pub(super) fn contacts(&self) -> Contacts {
        let held = self.held();
        let contact = |entry: &Entry| entry.node.now().contact();
        let all = held.nodes.iter();
        all.map(|(name, entry)| (name.clone(), contact(entry)))
            .filter(|(_, contact)| *contact != Contact::default())
            .collect()
    }

    /// The last descriptions of nodes as figures, with the share that our runs
    /// take.
    pub fn figures(&self, state: &State) -> HashMap<String, Figures> {
        let known = self.known();
        let config = self.usable_config();
        known
            .nodes
            .iter()
            .filter_map(|(name, now)| {
                let about = now.about.as_ref()?;
                let figures = description::figures(state, &config, name, &about.description);
                Some((name.clone(), figures))
            })
            .collect()
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    pub(super) fn inboxes(&self) -> &Inboxes {
        &self.0.inboxes
    }

    /// After this long out of reach, a node loses the runs that it never got.
    pub(super) fn away(&self) -> Duration {
        self.0.settings.away
    }

    pub(super) fn clock(&self) -> nero_home::clock::Clock {
        self.0.settings.clock
    }

    /// Ends every driver: the daemon is about to leave.
    pub fn stop_all(&self) {
        for entry in self.held().nodes.values() {
            entry.stop.send_replace(DriverStop::Leaving);
        }
    }
}

/// Whether a connection made for `one` serves for `other`.
fn same(one: &nero_config::Node, other: &nero_config::Node) -> bool {
    one.address == other.address
        && one.key == other.key
        && one.root == other.root
        && one.cpus == other.cpus
        && one.memory_bytes == other.memory_bytes
        && one.min_free_bytes == other.min_free_bytes
        && one.shared == other.shared
        && one.listen == other.listen
        && one.warden_words() == other.warden_words()
}

/// The failure for a node that is not configured.
pub fn not_configured(node: &str) -> Failure {
    Failure::node(format!("node {node} is not configured"))
        .hint(format!("neroman node add {node} ADDRESS"))
}
