//! Reads the tree into a [`Config`], collecting every mistake.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::rc::Rc;

use indexmap::IndexMap;
use nero_model::names::word_hint;
use nero_model::safe::quoted;
use nero_warden::settings::KINDS;
use nero_yaml::{Entry, Fields, Kind, Limits, Mistakes, Zero};

use crate::config::{Config, Group, Listen, Node, Size, Word};
use crate::file::text_of;
use crate::mail;
use crate::mistake::ConfigError;
use crate::names::{ANY, LOCAL, check_name};
use crate::notify;
use crate::recipe;
use crate::scheduling;
use crate::values::{entries, odd_word, text};

/// Words of the file.
pub(crate) const WORDS: &[&str] = &[
    "nodes",
    "groups",
    "default_node",
    "results_max",
    "results_min_free",
    "user",
    "mail",
    "notify",
    "defaults",
];
/// Words of a node, as in [`Node::fields`].
pub(crate) const NODE_WORDS: &[&str] = &[
    "address",
    "key",
    "root",
    "cpus",
    "memory",
    "gpus",
    "min_free",
    "shared",
    "listen",
    "warden",
    "scheduler",
    "notes",
];
/// Words of a node that are refused.
const NODE_WORDS_LATER: &[&str] = &["slots", "data"];

/// The words of a group.
pub(crate) const GROUP_WORDS: &[&str] = &["nodes", "balance"];
const BALANCE: &[(&str, bool)] = &[("on", true), ("off", false)];

/// Words of `listen`.
const LISTEN: &[(&str, Listen)] = &[("auto", Listen::Auto), ("never", Listen::Never)];

/// What a file may hold.
pub(crate) const LIMITS: Limits = Limits {
    depth: 32,
    key_chars: 1024,
    values: 200_000,
    repeated: 200_000,
};

impl Config {
    /// Reads the file; a missing file sets nothing.
    ///
    /// # Errors
    /// When it cannot be read, and with every mistake in it.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        match text_of(path)? {
            Some(text) => Self::parse(path, &text),
            None => Ok(Self::default()),
        }
    }

    /// Reads a text that is, or shall be, in the file `path`.
    ///
    /// # Errors
    /// With every mistake in it.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        config(text).map_err(|mistakes| ConfigError::Mistakes {
            path: path.to_path_buf(),
            mistakes,
        })
    }
}

/// Reads a text, or answers with every mistake in it.
pub(crate) fn config(text: &str) -> Result<Config, Mistakes> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = ConfigReader {
        text,
        fields: Fields::default(),
        members: Vec::new(),
    };
    let config = match reader.tree(text, &LIMITS) {
        Ok(Some(root)) => reader.root(&root),
        Ok(None) => Config::default(),
        Err(wrong) => {
            reader.add(wrong.into());
            Config::default()
        }
    };
    reader.fields.finish().map(|()| config)
}

struct ConfigReader<'a> {
    text: &'a str,
    /// Reads values and holds the mistakes.
    fields: Fields,
    /// What groups name, each with its group, until all nodes are known.
    members: Vec<(String, Word)>,
}

impl Deref for ConfigReader<'_> {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.fields
    }
}

impl DerefMut for ConfigReader<'_> {
    fn deref_mut(&mut self) -> &mut Fields {
        &mut self.fields
    }
}

impl ConfigReader<'_> {
    fn root(&mut self, root: &nero_yaml::Node) -> Config {
        let mut config = Config::default();
        let mut mail = None;
        for entry in self.entries(root, "config.yaml", "nodes: {box: {address: me@box}}") {
            match entry.key.as_str() {
                "nodes" => config.nodes = self.nodes(&entry.value),
                "groups" => config.groups = self.groups(&entry.value),
                "default_node" => {
                    config.default_node = self.text("default_node", &entry.value, "triton");
                }
                "results_max" => config.results_max = self.size("results_max", &entry.value),
                "results_min_free" => {
                    config.results_min_free = self.size("results_min_free", &entry.value);
                }
                "user" if !entry.value.is_null() => {
                    config.user = Some(mail::read_user(&mut self.fields, &entry.value));
                }
                "mail" if !entry.value.is_null() => mail = Some(entry),
                "notify" => config.notify = notify::read(&mut self.fields, &entry.value),
                "defaults" if !entry.value.is_null() => {
                    config.defaults = self.defaults(&entry.value);
                }
                "user" | "mail" | "defaults" => {}
                _ => self.odd_word(entry, "", WORDS, &[]),
            }
        }
        self.mail(mail, &mut config);
        self.check_names(&config);
        config
    }

    /// Fields for every experiment. The format reads them itself where it reads experiments.
    fn defaults(&mut self, given: &nero_yaml::Node) -> Vec<(String, Word)> {
        nero_format::check_defaults(&mut self.fields, self.text, given);
        let entries = match &given.kind {
            Kind::Map(entries) => entries.as_slice(),
            Kind::List(_) | Kind::Scalar { .. } => &[],
        };
        let each = entries.iter().map(|entry| {
            let written = entry.value.written(self.text);
            let word = Word {
                text: written.split_whitespace().collect::<Vec<_>>().join(" "),
                place: entry.key_mark,
            };
            (entry.key.clone(), word)
        });
        each.collect()
    }

    /// `mail`, which takes its sender and its recipient from `user`.
    fn mail(&mut self, given: Option<&Entry>, config: &mut Config) {
        let place = given.map(|given| given.key_mark);
        if let Some(given) = given {
            let user = config.user.as_ref();
            config.mail = mail::read_mail(&mut self.fields, &given.value, given.key_mark, user);
        }
        let owner = config.user.as_ref().and_then(|user| user.email.clone());
        if !config.notify.fields.contains_key("to") {
            config.notify.to.extend(owner);
        }
        let is_read = config.mail.is_some();
        notify::check(&mut self.fields, &config.notify, place, is_read);
    }

    /// Nodes in the order of the file, this machine first when it is not named.
    fn nodes(&mut self, given: &nero_yaml::Node) -> IndexMap<String, Node> {
        let mut nodes = IndexMap::new();
        let entries = self.entries(given, "nodes", "nodes: {box: {address: me@box}}");
        if !entries.iter().any(|entry| entry.key == LOCAL) {
            nodes.insert(LOCAL.to_owned(), Node::default());
        }
        for entry in entries {
            if entry.key != LOCAL
                && let Err(error) = check_name(&entry.key)
            {
                let message = format!("{} cannot be a node's name: {error}", quoted(&entry.key));
                self.wrong(entry.key_mark, message, "for example `gpu-box`");
                continue;
            }
            nodes.insert(entry.key.clone(), self.node(entry));
        }
        nodes
    }

    fn node(&mut self, given: &Entry) -> Node {
        let name = given.key.as_str();
        let mut node = Node {
            place: Some(given.key_mark),
            ..Node::default()
        };
        let whole = format!("nodes.{name}");
        for entry in self.entries(&given.value, &whole, "{address: me@box, cpus: 8}") {
            let word = entry.key.as_str();
            let full = format!("nodes.{name}.{word}");
            let value = &entry.value;
            let words = || NODE_WORDS.iter().copied().chain(scheduling::words());
            let Some(known) = words().find(|known| *known == word) else {
                let before = format!("nodes.{name}.");
                let words: Vec<&str> = words().collect();
                self.odd_word(entry, &before, &words, NODE_WORDS_LATER);
                continue;
            };
            if value.is_null() {
                continue;
            }
            node.fields.insert(known, entry.key_mark);
            match known {
                "address" => node.address = self.address(name, &full, value),
                "key" => node.key = self.key(name, &full, value),
                "root" => node.root = self.node_root(name, &full, value),
                "cpus" => node.cpus = self.fields.cpus(&full, value),
                "memory" => node.memory_bytes = self.size_bytes(&full, value, Zero::Allowed),
                "gpus" => node.gpus = self.gpus(&full, value),
                "min_free" => node.min_free_bytes = self.size_bytes(&full, value, Zero::Allowed),
                "shared" => node.shared = self.boolean(&full, value),
                "warden" => node.warden = self.choice(&full, value, KINDS).unwrap_or_default(),
                "scheduler" => node.recipe = recipe::read(&mut self.fields, &full, value),
                "listen" => node.listen = self.choice(&full, value, LISTEN).unwrap_or_default(),
                "notes" => node.notes = Some(self.written(value)),
                _ => scheduling::read(&mut self.fields, known, &full, value, &mut node),
            }
        }
        recipe::check(&mut self.fields, name, &node);
        scheduling::check(&mut self.fields, name, &node);
        if name != LOCAL && node.address.is_none() && !node.fields.contains_key("address") {
            self.wrong(
                given.key_mark,
                format!("the node {} has no address", quoted(name)),
                "give what `ssh` takes, for example `address: me@box.example.org`",
            );
        }
        node
    }

    /// A number of GPUs, or a list of their numbers.
    fn gpus(&mut self, full: &str, value: &nero_yaml::Node) -> Option<String> {
        let whole = |one: &nero_yaml::Node| match &one.kind {
            nero_yaml::Kind::Scalar { text, .. } => text.parse::<u16>().ok(),
            nero_yaml::Kind::List(_) | nero_yaml::Kind::Map(_) => None,
        };
        let read = match &value.kind {
            nero_yaml::Kind::List(items) => {
                let each = items
                    .iter()
                    .map(|one| whole(one).map(|one| one.to_string()));
                let each = each.collect::<Option<Vec<String>>>();
                each.map(|each| format!("[{}]", each.join(",")))
            }
            nero_yaml::Kind::Scalar { .. } | nero_yaml::Kind::Map(_) => {
                whole(value).map(|count| count.to_string())
            }
        };
        if read.is_none() {
            let message = format!("`{full}` is a number of GPUs, or a list of their numbers");
            self.wrong(value.mark, message, "for example 4 or [0, 2]; 0 gives none");
        }
        read
    }

    fn address(&mut self, node: &str, full: &str, value: &nero_yaml::Node) -> Option<String> {
        let given = self.text(full, value, "me@box.example.org")?;
        if node == LOCAL {
            let message = format!("`{LOCAL}` is this machine and has no address");
            self.wrong(value.mark, message, "give the node another name");
            return None;
        }
        // Behind `ssh` such a word would be an option, or several words.
        let odd = |c: char| c.is_whitespace() || c.is_control();
        if given.text.starts_with('-') || given.text.contains(odd) {
            let message = format!("{} is no address of `ssh`", quoted(&given.text));
            self.wrong(
                value.mark,
                message,
                "for example box, me@box.example.org or ssh://me@box:2222",
            );
            return None;
        }
        Some(given.text)
    }

    fn key(&mut self, node: &str, full: &str, value: &nero_yaml::Node) -> Option<String> {
        if node == LOCAL {
            let message = format!("`{LOCAL}` is this machine, which `ssh` does not go to");
            self.wrong(value.mark, message, "remove the key");
            return None;
        }
        let given = self.text(full, value, "~/.ssh/lab")?;
        if !given.text.starts_with(['/', '~']) || given.text.contains(char::is_control) {
            let message = format!(
                "`{full}` takes the path of a key, not {}",
                quoted(&given.text)
            );
            self.wrong(value.mark, message, "it begins with `/` or `~/`, as here");
            return None;
        }
        Some(given.text)
    }

    fn node_root(&mut self, node: &str, full: &str, value: &nero_yaml::Node) -> Option<String> {
        if node == LOCAL {
            let hint = "NERONET_HOME moves everything of this machine";
            self.wrong(value.mark, format!("not built yet: `{full}`"), hint);
            return None;
        }
        let given = self.text(full, value, "$WRKDIR/neronet")?;
        if !given.text.starts_with(['/', '~', '$']) || given.text.contains(char::is_control) {
            let message = format!("`{full}` takes a folder, not {}", quoted(&given.text));
            let hint = "it begins with `/`, `~/` or `$NAME/`, as on the node";
            self.wrong(value.mark, message, hint);
            return None;
        }
        Some(given.text)
    }

    fn size(&mut self, full: &str, value: &nero_yaml::Node) -> Option<Size> {
        let bytes = self.size_bytes(full, value, Zero::Allowed)?;
        let place = value.mark;
        Some(Size { bytes, place })
    }

    fn groups(&mut self, given: &nero_yaml::Node) -> IndexMap<String, Group> {
        let mut groups = IndexMap::new();
        for entry in self.entries(given, "groups", "groups: {gpus: [triton, box]}") {
            let group = quoted(&entry.key);
            if let Err(error) = check_name(&entry.key) {
                let message = format!("{group} cannot be a group's name: {error}");
                self.wrong(entry.key_mark, message, "for example `gpus`");
                continue;
            }
            if let Some(read) = self.group(&group, entry) {
                groups.insert(entry.key.clone(), read);
            }
        }
        groups
    }

    /// A list of nodes, or the words of a group.
    fn group(&mut self, group: &str, given: &Entry) -> Option<Group> {
        let mut read = Group {
            nodes: Vec::new(),
            balance: true,
            nodes_place: None,
            balance_place: None,
            place: given.key_mark,
        };
        let mut list = Some(&given.value);
        if let Kind::Map(entries) = &given.value.kind {
            list = None;
            for entry in entries {
                let full = format!("groups.{}.{}", given.key, entry.key);
                match entry.key.as_str() {
                    "nodes" => {
                        read.nodes_place = Some(entry.key_mark);
                        list = Some(&entry.value);
                    }
                    "balance" => {
                        read.balance_place = Some(entry.key_mark);
                        read.balance = self.choice(&full, &entry.value, BALANCE).unwrap_or(true);
                    }
                    _ => self.odd_word(entry, &format!("groups.{}.", given.key), GROUP_WORDS, &[]),
                }
            }
        }
        let one;
        let items: &[Rc<nero_yaml::Node>] = match list.map(|list| &list.kind) {
            Some(Kind::List(items)) => items,
            Some(Kind::Scalar { .. }) if list.is_some_and(|list| !list.is_null()) => {
                one = list.map(Rc::clone);
                one.as_slice()
            }
            Some(Kind::Map(_) | Kind::Scalar { .. }) | None => {
                let message = format!("the group {group} takes a list of nodes");
                let hint = "for example [triton, box], or {nodes: [triton, box], balance: off}";
                self.wrong(given.key_mark, message, hint);
                return None;
            }
        };
        if items.is_empty() {
            self.wrong(given.key_mark, format!("the group {group} is empty"), "");
        }
        read.nodes = self.members(group, items);
        Some(read)
    }

    fn members(&mut self, group: &str, items: &[Rc<nero_yaml::Node>]) -> Vec<String> {
        let mut nodes: Vec<String> = Vec::new();
        for item in items {
            let Some(word) = self.text(&format!("the group {group}"), item, "triton") else {
                continue;
            };
            if nodes.contains(&word.text) {
                let message = format!("{} is twice in the group {group}", quoted(&word.text));
                self.wrong(item.mark, message, "");
            } else {
                nodes.push(word.text.clone());
                self.members.push((group.to_owned(), word));
            }
        }
        nodes
    }

    fn entries<'n>(&mut self, node: &'n nero_yaml::Node, what: &str, example: &str) -> &'n [Entry] {
        entries(&mut self.fields, node, what, example)
    }

    fn text(&mut self, what: &str, node: &nero_yaml::Node, example: &str) -> Option<Word> {
        text(&mut self.fields, what, node, example)
    }

    /// A value as it stands in the file.
    fn written(&self, node: &nero_yaml::Node) -> String {
        match node.scalar() {
            Some(text) => text.to_owned(),
            None => node.written(self.text).to_owned(),
        }
    }

    fn odd_word(&mut self, entry: &Entry, before: &str, known: &[&str], later: &[&str]) {
        odd_word(&mut self.fields, entry, before, known, later);
    }

    /// Names that belong to nothing, or to two things.
    fn check_names(&mut self, config: &Config) {
        let nodes: Vec<&str> = config.nodes.keys().map(String::as_str).collect();
        for (name, group) in &config.groups {
            if config.nodes.contains_key(name) {
                let message = format!("{} is a node and a group", quoted(name));
                self.wrong(group.place, message, "give the group another name");
            }
        }
        for (group, member) in std::mem::take(&mut self.members) {
            let word = member.text.as_str();
            if config.nodes.contains_key(word) {
                continue;
            }
            if config.groups.contains_key(word) || word == ANY {
                let message = format!("the group {group} names {}, no node", quoted(word));
                self.wrong(
                    member.place,
                    message,
                    "groups hold nodes: name them one by one",
                );
                continue;
            }
            let message = format!("the group {group} names the unknown node {}", quoted(word));
            self.wrong(member.place, message, word_hint(word, &nodes, &[]));
        }
        if let Some(mail) = &config.mail
            && let Some(relay) = &mail.relay
            && !config.nodes.contains_key(&relay.node)
            && let Some(place) = mail.fields.get("relay").copied()
        {
            let message = format!("`mail.relay` is the unknown node {}", quoted(&relay.node));
            self.wrong(place, message, word_hint(&relay.node, &nodes, &[]));
        }
        if let Some(word) = &config.default_node
            && let Err(error) = config.resolve(&word.text)
        {
            let message = format!("`default_node`: {error}");
            self.wrong(word.place, message, error.hint);
        }
    }
}
