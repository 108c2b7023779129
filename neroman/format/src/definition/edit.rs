//! What people change of the experiments of a source: values in place of the source's, and copies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Definition;

/// A value that a person typed in place of the source's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// A parameter, or a field as `resources.memory`.
    pub key: String,
    /// The value as it was typed.
    pub text: String,
    /// The value of the source when it was typed; empty where it had none. `None` until
    /// the source was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Whether the key is a field, not a parameter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_field: bool,
}

impl Override {
    /// An override that was just typed.
    pub fn typed(key: &str, text: &str) -> Self {
        Self {
            key: key.to_owned(),
            text: text.to_owned(),
            over: None,
            is_field: false,
        }
    }

    /// Whether a typed key means this override: `param.x`, and `memory` for
    /// `resources.memory`.
    pub fn is_of(&self, key: &str) -> bool {
        let bare = key.strip_prefix("param.").unwrap_or(key);
        if self.is_field {
            self.key == key || self.key.strip_prefix("resources.") == Some(key)
        } else {
            self.key == bare
        }
    }
}

/// What a person changed of one experiment of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The experiment's number; none for a copy that is being made.
    pub experiment: Option<u64>,
    /// The name of a copy.
    pub name: Option<String>,
    /// The overrides, in the order in which they are shown.
    pub overrides: Vec<Override>,
    /// Those that are stored.
    pub before: Vec<Override>,
}

/// Edits, by the index of the definition that they are of.
pub type Edits = BTreeMap<usize, Vec<Edit>>;

/// An edit with its definition.
#[derive(Debug, Clone, PartialEq)]
pub struct AppliedEdit {
    /// The index of the definition that it is of.
    pub of: usize,
    /// The edit.
    pub edit: Edit,
    /// What came of it.
    pub outcome: Result<Effective, EditMistake>,
}

/// A definition with the overrides that stand in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// The definition.
    pub definition: Definition,
    /// The overrides that stand.
    pub overrides: Vec<Override>,
    /// A line for each override that gave way.
    pub dropped: Vec<String>,
}

/// Why what a person typed cannot stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditMistake {
    /// What is wrong.
    pub message: String,
    /// What to type; may be empty.
    pub hint: String,
}

impl EditMistake {
    /// A mistake; the hint may be empty.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}
