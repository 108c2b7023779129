//! Changes to `config.yaml` that keep its comments, its order and every other line.
//!
//! `yaml-edit` changes the text; nothing is trusted to it: the result is read again
//! and must hold exactly the wanted change, and every line that the change does not
//! concern must still be there. Where that fails, the owner is told what to type.

use std::path::Path;

use nero_model::names::suggest;
use nero_model::safe::quoted;

use crate::change::{self, Change, PlainValue, UnsafeChange};
use crate::config::{Config, Place};
use crate::file::{ConfigFile, WriteError};
use crate::mail;
use crate::mistake::ConfigError;
use crate::names::{LOCAL, NameError, check_name};
use crate::notify;
use crate::read;

/// What shall be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// A node that is not there yet.
    AddNode {
        /// Its name.
        name: String,
        /// Its words and what they shall hold, in the order in which they are written:
        /// `("address", "me@box")`, `("memory", "16G")`.
        fields: Vec<(String, String)>,
    },
    /// A node that no group and no default names.
    RemoveNode {
        /// Its name.
        name: String,
    },
    /// One value: `default_node`, `groups.NAME` (`a, b`), `groups.NAME.balance`,
    /// `nodes.NAME.FIELD`, a word of `user`, `mail` or `notify`.
    /// An empty one takes away what is set.
    Set {
        /// Its key, as `nodes.alpha.cpus`.
        key: String,
        /// As it is typed.
        value: String,
    },
    /// A node in a group, which is made when it is missing; nothing changes when it is in there.
    JoinGroup {
        /// The group.
        group: String,
        /// The node.
        node: String,
    },
    /// A node out of a group, which goes with its last node.
    LeaveGroup {
        /// The group.
        group: String,
        /// The node.
        node: String,
    },
    /// Several in their order, all or none.
    Several(Vec<Edit>),
}

/// Why the file was not changed. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// What is in the file cannot be used already.
    #[error(transparent)]
    Config(ConfigError),
    /// The name cannot be a node's.
    #[error("{} cannot be a node's name", quoted(.name))]
    Name {
        /// The name.
        name: String,
        /// The fault of the name.
        #[source]
        source: NameError,
    },
    /// There is a node or group of this name.
    #[error("{} is there already (line {} of the configuration)", quoted(.name), .place.line)]
    Exists {
        /// The name.
        name: String,
        /// Where it stands.
        place: Place,
    },
    /// There is no such node, or no such key.
    #[error("{what}")]
    Unknown {
        /// What is unknown.
        what: String,
        /// What to do.
        hint: String,
    },
    /// Something else in the file names the node.
    #[error("the node {} is named by {by} (line {} of the configuration)", quoted(.name), .place.line)]
    Used {
        /// The node.
        name: String,
        /// By what.
        by: String,
        /// The place in the file.
        place: Place,
    },
    /// The new value is not valid.
    #[error("{message}")]
    Value {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The file is written in a way that does not let this one thing be changed.
    #[error("this file cannot be changed here without touching more than asked")]
    Unsafe {
        /// What to type.
        by_hand: String,
    },
    /// The file was read and could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl EditError {
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.hint().map(str::to_owned),
            Self::Name { .. } => Some("for example `gpu-box`".to_owned()),
            Self::Exists { name, .. } => Some(format!(
                "choose another name, or `neroman config set nodes.{name}.address ADDRESS`"
            )),
            Self::Used { .. } => Some("change that first".to_owned()),
            Self::Unknown { hint, .. } | Self::Value { hint, .. } => {
                Some(hint.clone()).filter(|hint| !hint.is_empty())
            }
            Self::Unsafe { by_hand } => Some(format!("edit it by hand: {by_hand}")),
            Self::Write(error) => Some(error.hint().to_owned()),
        }
    }
}

impl Edit {
    /// Changes the file `path`, which is made when it is missing. What other editors
    /// wrote meanwhile is never lost.
    ///
    /// # Errors
    /// When the new value is not valid or cannot be written; the file is then as it was.
    pub fn apply(&self, path: &Path) -> Result<(), EditError> {
        let file = ConfigFile::open(path).map_err(EditError::Config)?;
        let text = self.on(path, file.text())?;
        if text == file.text() {
            return Ok(());
        }
        Ok(file.write(&text)?)
    }

    /// The text of the file with this change.
    ///
    /// # Errors
    /// When the new value is not valid or cannot be written.
    pub fn on(&self, path: &Path, text: &str) -> Result<String, EditError> {
        let config = Config::parse(path, text).map_err(EditError::Config)?;
        let change = match self {
            Self::AddNode { name, fields } => add_node(&config, name, fields)?,
            Self::RemoveNode { name } => remove_node(&config, name)?,
            Self::Set { key, value } => set(&config, key, value)?,
            Self::JoinGroup { group, node } => {
                let Some(nodes) = with_node(&config, group, node) else {
                    return Ok(text.to_owned());
                };
                set_group(&config, group, &nodes)?
            }
            Self::LeaveGroup { group, node } => {
                let Some(nodes) = without_node(&config, group, node) else {
                    return Ok(text.to_owned());
                };
                set_group(&config, group, &nodes)?
            }
            Self::Several(edits) => {
                let mut edits = edits.iter();
                return edits.try_fold(text.to_owned(), |text, edit| edit.on(path, &text));
            }
        };
        if let (Self::Set { key, .. }, false) = (self, change.finds_something(text)) {
            return Err(EditError::Unknown {
                what: format!("{} is not set", quoted(key)),
                hint: String::new(),
            });
        }
        let by_hand = || EditError::Unsafe {
            by_hand: change.by_hand(),
        };
        let changed = change.on(text).map_err(|UnsafeChange| by_hand())?;
        match read::config(&changed) {
            Ok(_) => Ok(changed),
            Err(mistakes) => Err(EditError::Value {
                message: mistakes.list[0].message.clone(),
                hint: mistakes.list[0].hint.clone(),
            }),
        }
    }
}

fn add_node(config: &Config, name: &str, fields: &[(String, String)]) -> Result<Change, EditError> {
    check_name(name).map_err(|source| EditError::Name {
        name: name.to_owned(),
        source,
    })?;
    let node = config.node(name).and_then(|node| node.place);
    let group = config.groups.get(name).map(|group| group.place);
    if let Some(place) = node.or(group) {
        let name = name.to_owned();
        return Err(EditError::Exists { name, place });
    }
    let fields: Vec<(String, PlainValue)> = fields
        .iter()
        .map(|(word, value)| (word.clone(), PlainValue::Text(value.clone())))
        .collect();
    let value = if fields.is_empty() {
        PlainValue::Nothing
    } else {
        PlainValue::Map(fields)
    };
    Ok(Change::Put {
        path: vec!["nodes".to_owned(), name.to_owned()],
        value,
    })
}

fn remove_node(config: &Config, name: &str) -> Result<Change, EditError> {
    if config.node(name).is_none_or(|node| node.place.is_none()) {
        let hint = match config.resolve(name) {
            Err(error) => error.hint,
            Ok(_) if name == LOCAL => "this machine is always there".to_owned(),
            Ok(_) => "`neroman status nodes` lists the nodes".to_owned(),
        };
        let what = format!("config.yaml has no node {}", quoted(name));
        return Err(EditError::Unknown { what, hint });
    }
    let of_group = config.groups.iter().find_map(|(group, about)| {
        let named = about.nodes.iter().any(|node| node == name);
        named.then(|| (format!("the group {}", quoted(group)), about.place))
    });
    let of_default = config
        .default_node
        .as_ref()
        .filter(|word| word.text == name)
        .map(|word| ("`default_node`".to_owned(), word.place));
    if let Some((by, place)) = of_group.or(of_default)
        && name != LOCAL
    {
        let name = name.to_owned();
        return Err(EditError::Used { name, by, place });
    }
    Ok(Change::Remove {
        path: vec!["nodes".to_owned(), name.to_owned()],
    })
}

/// Words of the file with words below them that can be set.
const SECTIONS: &[(&str, &[&str])] = &[
    ("user", mail::USER_WORDS),
    ("mail", mail::MAIL_WORDS),
    ("notify", notify::NOTIFY_WORDS),
];
/// Keys without a section.
const PLAIN_KEYS: &[&str] = &["default_node", "results_max", "results_min_free"];
/// Keys whose value is a list.
const LISTS: &[&str] = &["notify.events", "notify.to"];

/// Names may hold dots, words of the file do not.
fn set(config: &Config, key: &str, value: &str) -> Result<Change, EditError> {
    let text = PlainValue::Text(value.trim().to_owned());
    let put = |path: Vec<String>, value: PlainValue| {
        if text == PlainValue::Text(String::new()) {
            Change::Remove { path }
        } else {
            Change::Put { path, value }
        }
    };
    if PLAIN_KEYS.contains(&key) {
        return Ok(put(vec![key.to_owned()], text.clone()));
    }
    if let Some(group) = key.strip_prefix("groups.") {
        return set_group(config, group, value);
    }
    if let Some((section, word)) = key.split_once('.')
        && let Some((_, words)) = SECTIONS.iter().find(|(known, _)| *known == section)
        && words.contains(&word)
    {
        let value = if LISTS.contains(&key) {
            list(value)
        } else {
            text.clone()
        };
        return Ok(put(vec![section.to_owned(), word.to_owned()], value));
    }
    let node = key
        .strip_prefix("nodes.")
        .and_then(|rest| rest.rsplit_once('.'));
    if let Some((name, field)) = node {
        if config.node(name).is_none() {
            let known = config.nodes.keys().map(String::as_str);
            let hint = match suggest(name, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!(
                    "`neroman node add {} ADDRESS` adds it",
                    quoted(name).trim_matches('`')
                ),
            };
            let what = format!("there is no node {}", quoted(name));
            return Err(EditError::Unknown { what, hint });
        }
        let path = vec!["nodes".to_owned(), name.to_owned(), field.to_owned()];
        let typed = match field {
            "notes" => Some(text.clone()),
            _ => change::typed(value.trim()),
        };
        let typed = typed.ok_or_else(|| EditError::Value {
            message: format!("{} is no list or map", quoted(value)),
            hint: "as in the file: '[0, 2]'".to_owned(),
        })?;
        return Ok(put(path, typed));
    }
    let sections = SECTIONS.iter();
    let words = sections
        .flat_map(|(section, words)| words.iter().map(move |word| format!("{section}.{word}")));
    let known = words.chain(PLAIN_KEYS.iter().map(|key| (*key).to_owned()));
    Err(EditError::Unknown {
        what: format!("there is no setting {}", quoted(key)),
        hint: match suggest(key, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "settings are default_node, results_max, results_min_free, groups.NAME, \
                     groups.NAME.balance, nodes.NAME.FIELD, and words of user, mail and notify"
                .to_owned(),
        },
    })
}

/// The change of a group's nodes, or of its `balance`. A group that is a list alone
/// becomes a map when it gets a second word.
fn set_group(config: &Config, key: &str, value: &str) -> Result<Change, EditError> {
    let path = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let balanced = key.strip_suffix(".balance");
    let of_balance = balanced.filter(|_| !config.groups.contains_key(key));
    let (name, is_balance) = of_balance.map_or((key, false), |name| (name, true));
    let group = config.groups.get(name);
    let value = value.trim();
    if is_balance {
        let Some(group) = group else {
            return Err(EditError::Unknown {
                what: format!("there is no group {}", quoted(name)),
                hint: "`neroman config set groups.NAME 'NODE, NODE'` makes one".to_owned(),
            });
        };
        let balance = ("balance".to_owned(), PlainValue::Text(value.to_owned()));
        return Ok(match (group.nodes_place, value) {
            (_, "") => Change::Remove {
                path: path(&["groups", name, "balance"]),
            },
            (Some(_), _) => Change::Put {
                path: path(&["groups", name, "balance"]),
                value: balance.1,
            },
            (None, _) => Change::Put {
                path: path(&["groups", name]),
                value: PlainValue::Map(vec![
                    ("nodes".to_owned(), list(&group.nodes.join(","))),
                    balance,
                ]),
            },
        });
    }
    if value.is_empty() {
        let path = path(&["groups", name]);
        return Ok(Change::Remove { path });
    }
    let has_words = group.is_some_and(|group| group.nodes_place.is_some());
    Ok(Change::Put {
        path: if has_words {
            path(&["groups", name, "nodes"])
        } else {
            path(&["groups", name])
        },
        value: list(value),
    })
}

/// The nodes of a group with one more; `None`: it is in there.
fn with_node(config: &Config, group: &str, node: &str) -> Option<String> {
    let nodes = config.groups.get(group).map(|group| group.nodes.as_slice());
    let nodes = nodes.unwrap_or_default();
    let others = nodes.iter().map(String::as_str);
    let all: Vec<&str> = others.chain([node]).collect();
    (!nodes.iter().any(|known| known == node)).then(|| all.join(","))
}

/// The nodes of a group but one; `None`: it is not in there.
fn without_node(config: &Config, group: &str, node: &str) -> Option<String> {
    let nodes = &config.groups.get(group)?.nodes;
    let others = nodes.iter().map(String::as_str).filter(|one| *one != node);
    let others: Vec<&str> = others.collect();
    (others.len() < nodes.len()).then(|| others.join(","))
}

/// `a, b` or `[a, b]` as a list.
fn list(value: &str) -> PlainValue {
    let value = value.trim();
    let inner = value
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'));
    let items = inner.unwrap_or(value).split([',', ' ']);
    let items = items.filter(|item| !item.is_empty());
    PlainValue::List(
        items
            .map(|item| PlainValue::Text(item.to_owned()))
            .collect(),
    )
}
