//! What a word means where a node can be named.

use crate::config::Config;
use crate::names::{ANY, LOCAL};
use nero_model::names::suggest;

/// Where runs may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// This node.
    Node(String),
    /// Any node of a group.
    Group {
        /// The group.
        name: String,
        /// Its nodes, in the order of the file.
        nodes: Vec<String>,
    },
    /// Any node at all, in the order of the file.
    Any(Vec<String>),
}

impl Target {
    /// The nodes that it stands for.
    pub fn nodes(&self) -> &[String] {
        match self {
            Self::Node(name) => std::slice::from_ref(name),
            Self::Group { nodes, .. } | Self::Any(nodes) => nodes,
        }
    }
}

/// A word that names neither a node nor a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no node or group is named {}", nero_model::safe::quoted(.word))]
pub struct UnknownTarget {
    /// The word.
    pub word: String,
    /// What to do.
    pub hint: String,
}

impl Config {
    /// What a word means: a node, a group, `any`.
    ///
    /// # Errors
    /// When it is none of these; with the nearest one, or all.
    pub fn resolve(&self, word: &str) -> Result<Target, UnknownTarget> {
        if self.nodes.contains_key(word) {
            return Ok(Target::Node(word.to_owned()));
        }
        if let Some(group) = self.groups.get(word) {
            return Ok(Target::Group {
                name: word.to_owned(),
                nodes: group.nodes.clone(),
            });
        }
        if word == ANY {
            return Ok(Target::Any(self.nodes.keys().cloned().collect()));
        }
        Err(UnknownTarget {
            word: word.to_owned(),
            hint: self.unknown_hint(word),
        })
    }

    /// The target of a command that names no node: `default_node`, else this
    /// machine.
    pub fn default_target(&self) -> &str {
        self.default_node
            .as_ref()
            .map_or(LOCAL, |word| word.text.as_str())
    }

    fn unknown_hint(&self, word: &str) -> String {
        const LISTED: usize = 12;
        let mut known: Vec<&str> = self.nodes.keys().map(String::as_str).collect();
        known.extend(self.groups.keys().map(String::as_str));
        if let Some(near) = suggest(word, known.iter().copied()) {
            return format!("did you mean `{near}`?");
        }
        let all = if known.len() > LISTED {
            ", …: `neroman node list`"
        } else {
            ""
        };
        known.truncate(LISTED);
        format!(
            "known are {}{all}; `neroman node add NAME ADDRESS` adds one",
            known.join(", ")
        )
    }
}
