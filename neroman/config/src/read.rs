//! Reads the tree into a [`Config`], collecting every mistake.

use std::rc::Rc;

use indexmap::IndexMap;
use nero_model::safe::quoted;
use nero_model::units;
use nero_yaml::{Entry, Kind, Limits, Wrong};

use crate::config::{Config, Group, LOCAL, Listen, Node, Place, Size, Word};
use crate::mistake::Mistake;
use crate::names::{ANY, check_name, known_hint, nearest};

/// More processors than any machine has.
const CPUS_MAX: f64 = 1e6;
/// More text than any address or path has.
const TEXT_BYTES_MAX: usize = 4096;

/// Words of the file.
const WORDS: &[&str] = &[
    "nodes",
    "groups",
    "default_node",
    "results_max",
    "results_min_free",
];
/// Words of the file that are refused.
const WORDS_LATER: &[&str] = &["user", "mail", "notify", "defaults"];
/// Words of a node, as in [`Node::fields`].
const NODE_WORDS: &[&str] = &[
    "address", "root", "cpus", "memory", "min_free", "shared", "listen", "notes",
];
/// Words of a node that are refused.
const NODE_WORDS_LATER: &[&str] = &[
    "warden",
    "setup",
    "slots",
    "gpus",
    "max_running",
    "max_queued",
    "sbatch_args",
    "qsub_args",
    "data",
];

/// What a file may hold.
const LIMITS: Limits = Limits {
    depth: 32,
    key_chars: 1024,
    values: 200_000,
    repeated: 200_000,
};

/// The tree of a text; what does not end the reading is added to `mistakes`.
pub(crate) fn tree(
    text: &str,
    mistakes: &mut Vec<Mistake>,
) -> Result<Option<Rc<nero_yaml::Node>>, Mistake> {
    let mut wrong = |wrong| mistakes.push(mistake(wrong));
    nero_yaml::parse(text, &LIMITS, &mut wrong).map_err(mistake)
}

fn mistake(Wrong { mark, what }: Wrong) -> Mistake {
    Mistake {
        place: mark,
        message: what.to_string(),
        hint: what.hint(),
    }
}

/// Reads a text, or answers with every mistake in it.
pub(crate) fn config(text: &str) -> Result<Config, Vec<Mistake>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader {
        text,
        mistakes: Vec::new(),
        members: Vec::new(),
    };
    let root = match tree(text, &mut reader.mistakes) {
        Ok(root) => root,
        Err(mistake) => {
            reader.mistakes.push(mistake);
            return Err(reader.sorted());
        }
    };
    let config = match &root {
        Some(root) => reader.root(root),
        None => Config::default(),
    };
    match reader.mistakes.is_empty() {
        true => Ok(config),
        false => Err(reader.sorted()),
    }
}

struct Reader<'a> {
    text: &'a str,
    mistakes: Vec<Mistake>,
    /// What groups name, each with its group, until all nodes are known.
    members: Vec<(String, Word)>,
}

impl Reader<'_> {
    fn sorted(mut self) -> Vec<Mistake> {
        self.mistakes.sort_by_key(|mistake| mistake.place);
        self.mistakes.dedup();
        self.mistakes
    }

    fn wrong(&mut self, place: Place, message: impl Into<String>, hint: impl Into<String>) {
        self.mistakes.push(Mistake {
            place,
            message: message.into(),
            hint: hint.into(),
        });
    }

    fn root(&mut self, root: &nero_yaml::Node) -> Config {
        let mut config = Config::default();
        for entry in self.entries(root, "the file", "nodes: {box: {address: me@box}}") {
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
                _ => self.odd_word(entry, "", WORDS, WORDS_LATER),
            }
        }
        self.check_names(&config);
        config
    }

    /// Nodes in the order of the file, this machine first when it is not named.
    fn nodes(&mut self, given: &nero_yaml::Node) -> IndexMap<String, Node> {
        let mut nodes = IndexMap::new();
        let entries = self.entries(given, "`nodes`", "nodes: {box: {address: me@box}}");
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
        let whole = format!("the node {}", quoted(name));
        for entry in self.entries(&given.value, &whole, "{address: me@box, cpus: 8}") {
            let word = entry.key.as_str();
            let full = format!("nodes.{name}.{word}");
            let value = &entry.value;
            let Some(known) = NODE_WORDS.iter().find(|known| **known == word) else {
                self.odd_word(
                    entry,
                    &format!("nodes.{name}."),
                    NODE_WORDS,
                    NODE_WORDS_LATER,
                );
                continue;
            };
            if value.is_null() {
                continue;
            }
            node.fields.insert(known, entry.key_mark);
            match *known {
                "address" => node.address = self.address(name, &full, value),
                "root" => node.root = self.node_root(name, &full, value),
                "cpus" => node.cpus = self.cpus(&full, value),
                "memory" => node.memory_bytes = self.bytes(&full, value),
                "min_free" => node.min_free_bytes = self.bytes(&full, value),
                "shared" => node.shared = self.truth(&full, value),
                "listen" => node.listen = self.listen(&full, value),
                _ => node.notes = Some(self.written(value)),
            }
        }
        if name != LOCAL && node.address.is_none() && !node.fields.contains_key("address") {
            self.wrong(
                given.key_mark,
                format!("the node {} has no address", quoted(name)),
                "give what `ssh` takes, for example `address: me@box.example.org`",
            );
        }
        node
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

    fn cpus(&mut self, full: &str, value: &nero_yaml::Node) -> Option<f64> {
        let number = value.scalar().and_then(|text| text.parse::<f64>().ok());
        let fits = number.filter(|number| *number > 0.0 && *number < CPUS_MAX);
        if fits.is_none() {
            let message = format!("`{full}` takes a number above zero");
            self.wrong(value.mark, message, "for example 8, or 0.5");
        }
        fits
    }

    fn bytes(&mut self, full: &str, value: &nero_yaml::Node) -> Option<u64> {
        let given = self.text(full, value, "16G")?;
        match units::parse_bytes(&given.text) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                let message = format!("`{full}` takes a size: {error}");
                self.wrong(value.mark, message, "for example 16G");
                None
            }
        }
    }

    fn size(&mut self, full: &str, value: &nero_yaml::Node) -> Option<Size> {
        let bytes = self.bytes(full, value)?;
        let place = value.mark;
        Some(Size { bytes, place })
    }

    fn truth(&mut self, full: &str, value: &nero_yaml::Node) -> Option<bool> {
        match value.scalar() {
            Some("true" | "True" | "yes" | "on") => Some(true),
            Some("false" | "False" | "no" | "off") => Some(false),
            _ => {
                let message = format!("`{full}` takes true or false");
                self.wrong(value.mark, message, "");
                None
            }
        }
    }

    fn listen(&mut self, full: &str, value: &nero_yaml::Node) -> Listen {
        match value.scalar() {
            Some("auto") => Listen::Auto,
            Some("never") => Listen::Never,
            _ => {
                self.wrong(value.mark, format!("`{full}` takes auto or never"), "");
                Listen::Auto
            }
        }
    }

    fn groups(&mut self, given: &nero_yaml::Node) -> IndexMap<String, Group> {
        let mut groups = IndexMap::new();
        for entry in self.entries(given, "`groups`", "groups: {gpus: [triton, box]}") {
            let group = quoted(&entry.key);
            if let Err(error) = check_name(&entry.key) {
                let message = format!("{group} cannot be a group's name: {error}");
                self.wrong(entry.key_mark, message, "for example `gpus`");
                continue;
            }
            let one;
            let items: &[Rc<nero_yaml::Node>] = match &entry.value.kind {
                Kind::List(items) => items,
                Kind::Scalar { .. } if !entry.value.is_null() => {
                    one = Rc::clone(&entry.value);
                    std::slice::from_ref(&one)
                }
                Kind::Map(_) | Kind::Scalar { .. } => {
                    let message = format!("the group {group} takes a list of nodes");
                    self.wrong(entry.key_mark, message, "for example [triton, box]");
                    continue;
                }
            };
            if items.is_empty() {
                self.wrong(entry.key_mark, format!("the group {group} is empty"), "");
            }
            let nodes = self.members(&group, items);
            let place = entry.key_mark;
            groups.insert(entry.key.clone(), Group { nodes, place });
        }
        groups
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

    /// The entries of a map; nothing at all is an empty one.
    fn entries<'n>(&mut self, node: &'n nero_yaml::Node, what: &str, example: &str) -> &'n [Entry] {
        match &node.kind {
            Kind::Map(entries) => entries,
            Kind::Scalar { .. } if node.is_null() => &[],
            Kind::Scalar { .. } | Kind::List(_) => {
                let message = format!("{what} holds {}, not a map", node.describe());
                self.wrong(node.mark, message, format!("for example `{example}`"));
                &[]
            }
        }
    }

    /// A single word or number as it is written.
    fn text(&mut self, what: &str, node: &nero_yaml::Node, example: &str) -> Option<Word> {
        let text = node
            .scalar()
            .filter(|text| !text.is_empty() && text.len() <= TEXT_BYTES_MAX && !node.is_null());
        let Some(text) = text else {
            let message = format!("`{}` takes a single value", what.trim_matches('`'));
            self.wrong(node.mark, message, format!("for example {example}"));
            return None;
        };
        Some(Word {
            text: text.to_owned(),
            place: node.mark,
        })
    }

    /// A value as it stands in the file.
    fn written(&self, node: &nero_yaml::Node) -> String {
        match node.scalar() {
            Some(text) => text.to_owned(),
            None => node.written(self.text).to_owned(),
        }
    }

    fn odd_word(&mut self, entry: &Entry, before: &str, known: &[&str], later: &[&str]) {
        let word = entry.key.as_str();
        if later.contains(&word) {
            self.wrong(
                entry.key_mark,
                format!("not built yet: `{before}{word}`"),
                "",
            );
            return;
        }
        let message = format!("{} is no word of the configuration", quoted(&entry.key));
        let all = known.iter().chain(later).copied();
        let hint = match nearest(word, all) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are {}", known.join(", ")),
        };
        self.wrong(entry.key_mark, message, hint);
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
            self.wrong(member.place, message, known_hint(word, &nodes));
        }
        if let Some(word) = &config.default_node
            && let Err(error) = config.resolve(&word.text)
        {
            let message = format!("`default_node`: {error}");
            self.wrong(word.place, message, error.hint);
        }
    }
}
