//! Where every value in force comes from.
//!
//! A flag beats the environment, which beats the experiment, which beats this file.
//! Flags and experiments are of one command; what holds for all of them is told here.

use std::fmt;

use nero_model::{Home, units};
use nero_warden::generic::Recipe;

use crate::config::{Config, Node};
use crate::names::LOCAL;
use crate::scheduling;

/// The variable that names the node when the command does not.
pub const NODE_VARIABLE: &str = "NERONET_NODE";
/// The variable that moves everything below one folder.
const HOME_VARIABLE: &str = "NERONET_HOME";

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// No source sets it.
    Default,
    /// `config.yaml`, in this line.
    File {
        /// Line, from one.
        line: u32,
    },
    /// A variable of the environment.
    Environment(&'static str),
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { line } => write!(f, "config.yaml:{line}"),
            Self::Environment(variable) => f.write_str(variable),
        }
    }
}

/// A value in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// As `config set` takes it, or the name of a folder of ours.
    pub key: String,
    /// The value; `None`: see `otherwise`.
    pub value: Option<String>,
    /// What holds without a value: "what the node has".
    pub otherwise: &'static str,
    /// Where it comes from.
    pub from: From,
}

impl Config {
    /// Every value in force. `variable` answers what the environment holds.
    pub fn origins(&self, home: &Home, variable: impl Fn(&str) -> Option<String>) -> Vec<Origin> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut origins = folders(home, &variable);
        for (key, name, otherwise) in [
            ("ssh", "NERONET_SSH", "ssh"),
            ("agents", "NERONET_AGENTS", "beside this program"),
        ] {
            let value = variable(name);
            origins.push(Origin {
                key: key.to_owned(),
                from: match value {
                    Some(_) => From::Environment(name),
                    None => From::Default,
                },
                value,
                otherwise,
            });
        }
        origins.push(self.default_origin(variable(NODE_VARIABLE)));
        for (key, given, bytes) in [
            ("results_max", self.results_max, self.results_max_bytes()),
            (
                "results_min_free",
                self.results_min_free,
                self.results_min_free_bytes(),
            ),
        ] {
            let line = given.map(|size| size.place.line);
            origins.push(Origin {
                key: key.to_owned(),
                value: Some(units::print_bytes(bytes)),
                otherwise: "",
                from: line.map_or(From::Default, |line| From::File { line }),
            });
        }
        for (key, word) in &self.defaults {
            origins.push(Origin {
                key: format!("defaults.{key}"),
                value: Some(word.text.clone()),
                otherwise: "",
                from: From::File {
                    line: word.place.line,
                },
            });
        }
        origins.extend(crate::mail::origins(self));
        for (name, node) in &self.nodes {
            origins.extend(node_origins(name, node, home));
        }
        for (name, group) in &self.groups {
            origins.push(Origin {
                key: format!("groups.{name}"),
                value: Some(group.nodes.join(", ")),
                otherwise: "",
                from: From::File {
                    line: group.place.line,
                },
            });
            if let Some(place) = group.balance_place {
                origins.push(Origin {
                    key: format!("groups.{name}.balance"),
                    value: Some(if group.balance { "on" } else { "off" }.to_owned()),
                    otherwise: "",
                    from: From::File { line: place.line },
                });
            }
        }
        origins
    }

    fn default_origin(&self, named: Option<String>) -> Origin {
        let (value, from) = match (named, &self.default_node) {
            (Some(word), _) => (word, From::Environment(NODE_VARIABLE)),
            (None, Some(word)) => {
                let line = word.place.line;
                (word.text.clone(), From::File { line })
            }
            (None, None) => (LOCAL.to_owned(), From::Default),
        };
        Origin {
            key: "default_node".to_owned(),
            value: Some(value),
            otherwise: "",
            from,
        }
    }
}

fn folders(home: &Home, variable: &impl Fn(&str) -> Option<String>) -> Vec<Origin> {
    let sockets = match variable("XDG_RUNTIME_DIR") {
        Some(_) => "XDG_RUNTIME_DIR",
        None => "XDG_STATE_HOME",
    };
    [
        ("config", &home.config, "XDG_CONFIG_HOME"),
        ("data", &home.data, "XDG_DATA_HOME"),
        ("state", &home.state, "XDG_STATE_HOME"),
        ("sockets", &home.sockets, sockets),
    ]
    .into_iter()
    .map(|(key, path, name)| Origin {
        key: key.to_owned(),
        value: Some(path.display().to_string()),
        otherwise: "",
        from: [HOME_VARIABLE, name]
            .into_iter()
            .find(|name| variable(name).is_some())
            .map_or(From::Default, From::Environment),
    })
    .collect()
}

fn node_origins(name: &str, node: &Node, home: &Home) -> Vec<Origin> {
    let is_local = name == LOCAL;
    let bytes = |bytes: Option<u64>| bytes.map(units::print_bytes);
    let root = if is_local {
        Some(home.local_root.display().to_string())
    } else {
        node.root.clone().or_else(|| Some("~/.neronet".to_owned()))
    };
    let fields = [
        ("address", node.address.clone(), "this machine"),
        ("key", node.key.clone(), ""),
        ("root", root, ""),
        (
            "cpus",
            node.cpus.map(|cpus| cpus.to_string()),
            "what it has",
        ),
        ("memory", bytes(node.memory_bytes), "what it has"),
        ("gpus", node.gpus.clone(), "all of them"),
        (
            "min_free",
            bytes(node.min_free_bytes),
            "the agent's reserve",
        ),
        (
            "shared",
            node.shared.map(|shared| shared.to_string()),
            "told by its file system",
        ),
        ("listen", Some(node.listen.as_str().to_owned()), ""),
        ("warden", Some(node.warden.as_str().to_owned()), ""),
        ("scheduler", node.recipe.as_ref().map(Recipe::text), ""),
        ("notes", node.notes.clone(), ""),
    ];
    let of_scheduler = scheduling::display_settings(node).into_iter();
    fields
        .into_iter()
        .chain(of_scheduler.map(|(word, value)| (word, Some(value), "")))
        .filter(|(word, value, _)| value.is_some() || !["key", "notes", "scheduler"].contains(word))
        .map(|(word, value, otherwise)| Origin {
            key: format!("nodes.{name}.{word}"),
            value,
            otherwise,
            from: match node.fields.get(word) {
                Some(place) => From::File { line: place.line },
                None => From::Default,
            },
        })
        .collect()
}
