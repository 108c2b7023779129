//! The values of `config.yaml`.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use nero_format::SchedulerOptions;
use nero_warden::Kind;
use nero_warden::generic::Recipe;
pub use nero_yaml::Mark as Place;

use crate::mail::{Mail, User};
use crate::names::{ANY, LOCAL};
use crate::notify::Notify;

/// A word and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub text: String,
    /// Its place.
    pub place: Place,
}

/// The values of the file, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Every node in the order of the file; [`LOCAL`] comes first when the file does
    /// not name it.
    pub nodes: IndexMap<String, Node>,
    /// Groups in the order of the file.
    pub groups: IndexMap<String, Group>,
    /// What is meant when no node is named: a node, a group or `any`.
    pub default_node: Option<Word>,
    /// How much of what a run makes comes home where its experiment does not set it.
    pub results_max: Option<Size>,
    /// How much is left free on the disk that takes results.
    pub results_min_free: Option<Size>,
    /// The owner.
    pub user: Option<User>,
    /// How mail leaves; without it none is sent.
    pub mail: Option<Mail>,
    /// What is told to whom, and when.
    pub notify: Notify,
    /// Fields of every experiment that its file does not give, as they are written.
    pub defaults: Vec<(String, Word)>,
}

/// A number of bytes and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The number.
    pub bytes: u64,
    /// Its place.
    pub place: Place,
}

/// See [`Config::results_max_bytes`].
const RESULTS_MAX_BYTES: u64 = 100 << 20;
/// See [`Config::results_min_free_bytes`].
const RESULTS_MIN_FREE_BYTES: u64 = 64 << 20;

/// A place where runs go.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// As `ssh` takes it; `None` for [`LOCAL`] alone.
    pub address: Option<String>,
    /// Path of a private key that `ssh` tries, too; `None`: those of its own configuration.
    pub key: Option<String>,
    /// Folder of ours there, with `~` and `$NAME` as on the node; `None`: `~/.neronet`.
    pub root: Option<String>,
    /// How many processors runs may use; `None`: what the node has.
    pub cpus: Option<f64>,
    /// How much memory runs may use, in bytes; `None`: what the node has.
    pub memory_bytes: Option<u64>,
    /// The GPUs that runs may have, as neromum's option has it: `4`, `[0,2]`; `None`: all.
    pub gpus: Option<String>,
    /// Nothing new starts below this much free disk, in bytes.
    pub min_free_bytes: Option<u64>,
    /// Whether other hosts use the same root; `None`: told by its file system.
    pub shared: Option<bool>,
    /// Whether the agent may listen inside of the cluster.
    pub listen: Listen,
    /// The scheduler that starts its runs.
    pub warden: Kind,
    /// What runs ask of that scheduler where their experiments ask nothing else.
    pub asks: SchedulerOptions,
    /// Most jobs and tasks of this user in its queue; `None`: the site's limits alone.
    pub max_queued: Option<u64>,
    /// Most tasks of one array that run at once; `None`: the site's limits alone.
    pub max_running: Option<u32>,
    /// How a generic scheduler is asked.
    pub recipe: Option<Recipe>,
    /// The owner's remarks, as written.
    pub notes: Option<String>,
    /// Where the node's name stands; `None` when the file does not name it.
    pub place: Option<Place>,
    /// Where each of its fields stands, by the field's name.
    pub fields: BTreeMap<&'static str, Place>,
}

impl Node {
    /// Its scheduler, as words of the agent's command line; none without one.
    pub fn warden_words(&self) -> Vec<String> {
        let settings = nero_warden::Settings {
            kind: self.warden,
            max_queued: self.max_queued,
            max_running: self.max_running,
            recipe: self.recipe.clone(),
        };
        settings.words()
    }
}

/// Whether a node's agent takes connections from other hosts of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Listen {
    /// Where it is of use.
    #[default]
    Auto,
    /// Everything goes through the disk.
    Never,
}

impl Listen {
    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Never => "never",
        }
    }
}

/// Nodes under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Names of nodes, in the order of the file.
    pub nodes: Vec<String>,
    /// Whether runs that wait on one of its nodes go to another one with room.
    pub balance: bool,
    /// Where its word `nodes` stands; `None` when the group is a list alone.
    pub nodes_place: Option<Place>,
    /// Where its word `balance` stands; `None`: not given.
    pub balance_place: Option<Place>,
    /// Where the group's name stands.
    pub place: Place,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            nodes: IndexMap::from([(LOCAL.to_owned(), Node::default())]),
            groups: IndexMap::new(),
            default_node: None,
            results_max: None,
            results_min_free: None,
            user: None,
            mail: None,
            notify: Notify::default(),
            defaults: Vec::new(),
        }
    }
}

impl Config {
    /// A node of this name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// The entry of this machine.
    ///
    /// # Panics
    /// Never for a configuration made here: the node is always there.
    pub fn local(&self) -> &Node {
        &self.nodes[LOCAL]
    }

    /// So many bytes of what a run makes, and of each of its logs, come home where
    /// its experiment names no outputs: 100 MiB unless given.
    pub fn results_max_bytes(&self) -> u64 {
        self.results_max
            .map_or(RESULTS_MAX_BYTES, |size| size.bytes)
    }

    /// So many bytes stay free on the disk that takes results: 64 MiB unless given.
    pub fn results_min_free_bytes(&self) -> u64 {
        self.results_min_free
            .map_or(RESULTS_MIN_FREE_BYTES, |size| size.bytes)
    }

    /// The name of the owner, if this address is theirs.
    pub fn name_of(&self, address: &str) -> Option<&str> {
        let user = self.user.as_ref()?;
        let is_theirs = user.email.as_deref() == Some(address);
        user.name.as_deref().filter(|_| is_theirs)
    }

    /// Whether runs that were asked of this word, and wait on the node, may go to another
    /// node with room: never those of one node, nor those of a group that is not
    /// balanced. Runs of `any` stay on a node of such a group.
    pub fn balances(&self, word: &str, node: &str) -> bool {
        if self.nodes.contains_key(word) {
            return false;
        }
        if let Some(group) = self.groups.get(word) {
            return group.balance;
        }
        let of_node = |group: &&Group| group.nodes.iter().any(|member| member == node);
        word == ANY
            && self
                .groups
                .values()
                .filter(of_node)
                .all(|group| group.balance)
    }

    /// The groups that a node is in.
    pub fn groups_of<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a str> {
        self.groups
            .iter()
            .filter(move |(_, group)| group.nodes.iter().any(|member| member == node))
            .map(|(name, _)| name.as_str())
    }
}
