//! The tree.

use std::rc::Rc;

use serde_saphyr::granit_parser::Marker;

/// A position in the text, counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

impl Mark {
    /// The parser's place; it counts columns from zero.
    pub fn of(marker: Marker) -> Self {
        Self {
            line: u32::try_from(marker.line()).unwrap_or(u32::MAX),
            column: u32::try_from(marker.col() + 1).unwrap_or(u32::MAX),
        }
    }
}

/// A value.
#[derive(Debug)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Where it begins, behind its tag and anchor.
    pub mark: Mark,
    /// Its tag as it is written, `!!python/tuple`.
    pub tag: Option<Box<str>>,
    /// First byte and the one behind the last, tag and anchor excluded. Of a block map or
    /// list the end is where the next thing begins.
    pub bytes: (usize, usize),
    /// Whether it is a list or map in brackets.
    pub flow: bool,
    /// Values in it, itself included, aliases followed.
    pub(crate) weight: usize,
}

/// What a value is.
#[derive(Debug)]
pub enum Kind {
    /// A single value.
    Scalar {
        /// Its text, quotes and escapes resolved.
        text: String,
        /// Without quotes and not a block.
        plain: bool,
    },
    /// A list.
    List(Vec<Rc<Node>>),
    /// A map in the order of the text; what merge keys bring stands where they stood.
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key's text.
    pub key: String,
    /// Where the key begins.
    pub key_mark: Mark,
    /// First byte of the key and the one behind its last.
    pub key_bytes: (usize, usize),
    /// Its value.
    pub value: Rc<Node>,
}

impl Entry {
    /// A key that stands in no text of its own, made for this place.
    pub fn made(key: &str, mark: Mark, value: impl Into<Rc<Node>>) -> Self {
        Self {
            key: key.to_owned(),
            key_mark: mark,
            key_bytes: (0, 0),
            value: value.into(),
        }
    }
}

impl Node {
    /// A value that stands in no text of its own, made for this place.
    pub fn made(kind: Kind, mark: Mark) -> Self {
        let weight = match &kind {
            Kind::Scalar { .. } => 1,
            Kind::List(items) => 1 + items.iter().map(|item| item.weight).sum::<usize>(),
            Kind::Map(entries) => {
                let each = entries.iter().map(|entry| entry.value.weight);
                1 + each.sum::<usize>()
            }
        };
        Self {
            kind,
            mark,
            tag: None,
            bytes: (0, 0),
            flow: false,
            weight,
        }
    }

    /// The same value as if so many lines stood above its text. Bytes stay those of the text.
    pub fn below(self: &Rc<Self>, lines: u32) -> Rc<Self> {
        let moved = |mark: Mark| Mark {
            line: mark.line.saturating_add(lines),
            ..mark
        };
        let kind = match &self.kind {
            Kind::Scalar { text, plain } => Kind::Scalar {
                text: text.clone(),
                plain: *plain,
            },
            Kind::List(items) => Kind::List(items.iter().map(|item| item.below(lines)).collect()),
            Kind::Map(entries) => {
                let each = entries.iter().map(|entry| Entry {
                    key_mark: moved(entry.key_mark),
                    value: entry.value.below(lines),
                    ..entry.clone()
                });
                Kind::Map(each.collect())
            }
        };
        Rc::new(Self {
            kind,
            mark: moved(self.mark),
            tag: self.tag.clone(),
            ..*self.as_ref()
        })
    }

    /// Whether this is `null`, `~` or nothing at all.
    pub fn is_null(&self) -> bool {
        match &self.kind {
            Kind::Scalar { text, plain } => *plain && is_null_text(text),
            Kind::List(_) | Kind::Map(_) => false,
        }
    }

    /// The scalar's text.
    pub fn scalar(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// What it is, for messages.
    pub fn describe(&self) -> &'static str {
        match &self.kind {
            Kind::Scalar { .. } if self.is_null() => "nothing",
            Kind::Scalar { .. } => "a single value",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }

    /// The value as it stands in the `text` that it was read from.
    pub fn written<'t>(&self, text: &'t str) -> &'t str {
        let (start, end) = self.bytes;
        text.get(start..end).unwrap_or("").trim_end()
    }

    /// The mark of a byte inside the scalar's text, where `text` has it literally.
    pub fn mark_inside(&self, text: &str, offset: usize) -> Mark {
        let Some(value) = self.scalar() else {
            return self.mark;
        };
        let written = self.written(text);
        let skipped = if written == value {
            0
        } else if written.len() == value.len() + 2
            && written.get(1..written.len() - 1) == Some(value)
        {
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

/// Whether a plain scalar of this text is null.
pub fn is_null_text(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}
