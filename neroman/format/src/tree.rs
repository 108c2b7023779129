//! The tree of positioned nodes that a file is read into (see `parse`).

use crate::source::{Mark, Text};
use std::rc::Rc;

/// A node of the file.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) mark: Mark,
    /// Whether it carries `!!python/tuple`.
    pub(crate) tuple: bool,
    /// Bytes of the file that it covers, tag and anchor excluded.
    pub(crate) bytes: Option<(usize, usize)>,
    /// Nodes in it, itself included, aliases followed.
    pub(crate) weight: usize,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A scalar; `plain` means without quotes and not a block.
    Scalar { text: String, plain: bool },
    /// A list.
    List(Vec<Rc<Node>>),
    /// A map in the order of the file, without merge keys.
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_mark: Mark,
    pub(crate) value: Rc<Node>,
}

impl Node {
    /// Whether this is `null`, `~` or nothing at all.
    pub(crate) fn is_null(&self) -> bool {
        match &self.kind {
            Kind::Scalar { text, plain } => *plain && is_null_text(text),
            Kind::List(_) | Kind::Map(_) => false,
        }
    }

    /// The scalar's text.
    pub(crate) fn scalar(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// What it is, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match &self.kind {
            Kind::Scalar { .. } if self.is_null() => "nothing",
            Kind::Scalar { .. } => "a single value",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }

    /// The node as it stands in the file.
    pub(crate) fn written<'t>(&self, text: &'t Text) -> &'t str {
        self.bytes
            .and_then(|(start, end)| text.text.get(start..end))
            .unwrap_or("")
            .trim_end()
    }

    /// The mark of a byte inside the scalar's text, where the file has it literally.
    pub(crate) fn mark_inside(&self, text: &Text, offset: usize) -> Mark {
        let Some(value) = self.scalar() else {
            return self.mark;
        };
        let written = self.written(text);
        let skipped = if written == value {
            0
        } else if written.len() == value.len() + 2 && &written[1..written.len() - 1] == value {
            1
        } else {
            return self.mark;
        };
        let chars = value.get(..offset).map_or(0, |v| v.chars().count());
        Mark {
            line: self.mark.line,
            column: self.mark.column + skipped + u32::try_from(chars).unwrap_or(0),
        }
    }
}

/// The spellings of null in YAML.
pub(crate) fn is_null_text(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}
