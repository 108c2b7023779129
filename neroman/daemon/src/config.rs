//! `config.yaml`: the nodes and which one is meant when none is named.
//!
//! Words of the manual that have no effect yet are refused by name and place,
//! never ignored.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::Spanned;

/// The one node of this version.
pub(crate) const LOCAL: &str = "local";

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Config {
    pub local: LocalNode,
}

/// How much of this machine runs may use; `None`: what it has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LocalNode {
    pub cpus: Option<f64>,
    pub memory_bytes: Option<u64>,
    /// Nothing new starts below this much free disk.
    pub min_free_bytes: Option<u64>,
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file is there and cannot be read.
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// It is no such file.
    #[error("{path} is no configuration")]
    Yaml {
        path: PathBuf,
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    /// A word that this version does not have.
    #[error("not built yet: `{word}` ({path}:{line}:{column})")]
    NotBuilt {
        path: PathBuf,
        word: String,
        line: u64,
        column: u64,
    },
    /// A value that cannot be meant.
    #[error("`{word}` {why} ({path}:{line}:{column})")]
    Value {
        path: PathBuf,
        word: String,
        why: String,
        line: u64,
        column: u64,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    nodes: Option<BTreeMap<String, Spanned<Option<RawNode>>>>,
    default_node: Option<Spanned<String>>,
    groups: Later,
    user: Later,
    mail: Later,
    notify: Later,
    defaults: Later,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawNode {
    cpus: Option<Spanned<f64>>,
    memory: Option<Spanned<String>>,
    min_free: Option<Spanned<String>>,
    address: Later,
    warden: Later,
    root: Later,
    setup: Later,
    slots: Later,
    gpus: Later,
    max_running: Later,
    max_queued: Later,
    sbatch_args: Later,
    qsub_args: Later,
    notes: Later,
}

type Later = Option<Spanned<IgnoredAny>>;

impl Config {
    /// Reads the file; one that is missing says nothing.
    ///
    /// # Errors
    /// When it cannot be read, or says what this version cannot do.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ConfigError::Read {
                path: path.to_path_buf(),
                source,
            }),
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let blank = text
            .lines()
            .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
        if blank {
            return Ok(Self::default());
        }
        let raw: Raw = serde_saphyr::from_str(text).map_err(|source| ConfigError::Yaml {
            path: path.to_path_buf(),
            source: Box::new(source),
        })?;
        for (word, later) in [
            ("groups", &raw.groups),
            ("user", &raw.user),
            ("mail", &raw.mail),
            ("notify", &raw.notify),
            ("defaults", &raw.defaults),
        ] {
            refuse(path, word, later)?;
        }
        if let Some(node) = raw.default_node.filter(|node| node.value != LOCAL) {
            return Err(not_built(
                path,
                &format!("default_node: {}", node.value),
                &node,
            ));
        }
        let mut config = Self::default();
        for (name, node) in raw.nodes.unwrap_or_default() {
            if name != LOCAL {
                return Err(not_built(path, &format!("nodes: {name}"), &node));
            }
            if let Some(node) = node.value {
                config.local = local(path, node)?;
            }
        }
        Ok(config)
    }
}

fn local(path: &Path, node: RawNode) -> Result<LocalNode, ConfigError> {
    for (word, later) in [
        ("address", &node.address),
        ("warden", &node.warden),
        ("root", &node.root),
        ("setup", &node.setup),
        ("slots", &node.slots),
        ("gpus", &node.gpus),
        ("max_running", &node.max_running),
        ("max_queued", &node.max_queued),
        ("sbatch_args", &node.sbatch_args),
        ("qsub_args", &node.qsub_args),
    ] {
        refuse(path, &format!("nodes.local.{word}"), later)?;
    }
    // Free notes of the user are kept in the file and mean nothing to us.
    let _ = node.notes;
    let cpus = node.cpus.as_ref().map(|cpus| cpus.value);
    if let Some(given) = node
        .cpus
        .filter(|cpus| !(cpus.value > 0.0 && cpus.value < 1e6))
    {
        return Err(ConfigError::Value {
            path: path.to_path_buf(),
            word: "nodes.local.cpus".to_owned(),
            why: "takes a number above zero".to_owned(),
            line: given.referenced.line(),
            column: given.referenced.column(),
        });
    }
    Ok(LocalNode {
        cpus,
        memory_bytes: bytes(path, "memory", node.memory)?,
        min_free_bytes: bytes(path, "min_free", node.min_free)?,
    })
}

fn bytes(
    path: &Path,
    word: &str,
    given: Option<Spanned<String>>,
) -> Result<Option<u64>, ConfigError> {
    let Some(given) = given else { return Ok(None) };
    nero_model::units::parse_bytes(&given.value)
        .map(Some)
        .map_err(|error| ConfigError::Value {
            path: path.to_path_buf(),
            word: format!("nodes.local.{word}"),
            why: format!("takes a size: {error}"),
            line: given.referenced.line(),
            column: given.referenced.column(),
        })
}

fn refuse(path: &Path, word: &str, later: &Later) -> Result<(), ConfigError> {
    match later {
        Some(place) => Err(not_built(path, word, place)),
        None => Ok(()),
    }
}

fn not_built<T>(path: &Path, word: &str, place: &Spanned<T>) -> ConfigError {
    ConfigError::NotBuilt {
        path: path.to_path_buf(),
        word: word.to_owned(),
        line: place.referenced.line(),
        column: place.referenced.column(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("config.yaml"), text).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            format!("{error} {}", cause.unwrap_or_default())
        })
    }

    #[test]
    fn what_is_built_is_read() {
        assert_eq!(read("# nothing\n"), Ok(Config::default()));
        assert_eq!(read("nodes:\n  local:\n"), Ok(Config::default()));
        let config = read(
            "default_node: local\nnodes: {local: {cpus: 1.5, memory: 4G, min_free: 1024, notes: x}}",
        );
        let local = LocalNode {
            cpus: Some(1.5),
            memory_bytes: Some(4 << 30),
            min_free_bytes: Some(1024),
        };
        assert_eq!(config, Ok(Config { local }));
    }

    #[test]
    fn everything_else_is_refused_with_its_place() {
        for (text, expected) in [
            (
                "mail: {smtp: x}\n",
                "not built yet: `mail` (config.yaml:1:7)",
            ),
            (
                "nodes:\n  triton: {address: t}\n",
                "not built yet: `nodes: triton` (config.yaml:2:11)",
            ),
            (
                "nodes: {local: {gpus: 2}}\n",
                "not built yet: `nodes.local.gpus`",
            ),
            (
                "default_node: triton\n",
                "not built yet: `default_node: triton`",
            ),
            ("nodes: {local: {memory: much}}\n", "takes a size"),
            ("nodes: {local: {cpus: 0}}\n", "takes a number above zero"),
            ("colour: red\n", "colour"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
