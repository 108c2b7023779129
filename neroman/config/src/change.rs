//! One change of one value, made in the text and checked in it.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::str::FromStr as _;

use nero_yaml::{Fields, Kind, Node};
use yaml_edit::{Document, Mapping, YamlNode};

use crate::read;

/// What a value is, apart from how and where it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlainValue {
    Nothing,
    Text(String),
    List(Vec<PlainValue>),
    Map(Vec<(String, PlainValue)>),
}

/// A value that is put in place of another or behind the last, or goes away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Put {
        path: Vec<String>,
        value: PlainValue,
    },
    Remove {
        path: Vec<String>,
    },
}

/// The text cannot be changed so that this and nothing else is different.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnsafeChange;

impl Change {
    /// The text with this change.
    pub(crate) fn on(&self, text: &str) -> Result<String, UnsafeChange> {
        let before = root(text)?;
        let mut wanted = before.as_deref().map_or(PlainValue::Nothing, value_of);
        self.apply(&mut wanted, 0)?;
        let changed = if before.as_ref().is_none_or(|root| root.is_null()) {
            self.appended(text)?
        } else {
            self.edited(text)?
        };
        let after = root(&changed)?;
        if after.as_deref().map_or(PlainValue::Nothing, value_of) != wanted {
            return Err(UnsafeChange);
        }
        let concerned = before.as_deref().map(|root| self.concerned(text, root));
        if keeps_lines(text, &changed, &concerned.unwrap_or_default()) {
            Ok(changed)
        } else {
            Err(UnsafeChange)
        }
    }

    /// Whether what is to go is there; what is put in place needs nothing.
    pub(crate) fn finds_something(&self, text: &str) -> bool {
        let Self::Remove { path } = self else {
            return true;
        };
        let mut at = root(text).ok().flatten();
        for key in path {
            at = at.and_then(|node| match &node.kind {
                Kind::Map(entries) => {
                    let entry = entries.iter().find(|entry| entry.key == *key)?;
                    Some(Rc::clone(&entry.value))
                }
                Kind::List(_) | Kind::Scalar { .. } => None,
            });
        }
        at.is_some()
    }

    /// The change as a person types it.
    pub(crate) fn by_hand(&self) -> String {
        match self {
            Self::Put { path, value } => {
                let path: Vec<String> = path.iter().map(|key| scalar(key)).collect();
                let value = flow(value);
                match path.split_last() {
                    Some((last, [])) => format!("`{last}: {value}`"),
                    Some((last, above)) => {
                        format!("`{last}: {value}` below `{}:`", above.join(": "))
                    }
                    None => value,
                }
            }
            Self::Remove { path } => format!("remove `{}`", path.join(": ")),
        }
    }

    fn path(&self) -> &[String] {
        match self {
            Self::Put { path, .. } | Self::Remove { path } => path,
        }
    }

    /// The change made to the value at `depth` of the path.
    fn apply(&self, at: &mut PlainValue, depth: usize) -> Result<(), UnsafeChange> {
        if *at == PlainValue::Nothing {
            *at = PlainValue::Map(Vec::new());
        }
        let PlainValue::Map(entries) = at else {
            return Err(UnsafeChange);
        };
        let key = &self.path()[depth];
        let index = entries.iter().position(|(name, _)| name == key);
        let last = depth + 1 == self.path().len();
        match (self, index) {
            (Self::Remove { .. }, None) => Err(UnsafeChange),
            (Self::Remove { .. }, Some(index)) if last => {
                entries.remove(index);
                // An empty map is nothing, however it is written.
                if entries.is_empty() {
                    *at = PlainValue::Nothing;
                }
                Ok(())
            }
            (_, Some(index)) if !last => self.apply(&mut entries[index].1, depth + 1),
            (Self::Put { value, .. }, Some(index)) => {
                entries[index].1 = value.clone();
                Ok(())
            }
            (Self::Put { .. }, None) => {
                entries.push((key.clone(), self.below(depth + 1)));
                Ok(())
            }
            (Self::Remove { .. }, Some(_)) => Err(UnsafeChange),
        }
    }

    /// The new value inside of maps for the rest of the path.
    fn below(&self, depth: usize) -> PlainValue {
        let Self::Put { path, value } = self else {
            return PlainValue::Nothing;
        };
        path[depth..]
            .iter()
            .rev()
            .fold(value.clone(), |inner, key| {
                PlainValue::Map(vec![(key.clone(), inner)])
            })
    }

    /// The text with the change, unchecked.
    fn edited(&self, text: &str) -> Result<String, UnsafeChange> {
        let document = Document::from_str(text).map_err(|_| UnsafeChange)?;
        let mut map = document.as_mapping().ok_or(UnsafeChange)?;
        let path = self.path();
        let mut depth = 0;
        while depth + 1 < path.len()
            && let Some(inner) = map.get_mapping(path[depth].as_str())
        {
            map = inner;
            depth += 1;
        }
        match self {
            Self::Put { .. } => put(&map, &path[depth], &self.below(depth + 1))?,
            Self::Remove { .. } => {
                map.remove(path[depth].as_str()).ok_or(UnsafeChange)?;
            }
        }
        Ok(document.to_string())
    }

    /// Behind a text that holds nothing but remarks.
    fn appended(&self, text: &str) -> Result<String, UnsafeChange> {
        if matches!(self, Self::Remove { .. }) {
            return Err(UnsafeChange);
        }
        let mut changed = text.to_owned();
        if !changed.is_empty() && !changed.ends_with('\n') {
            changed.push('\n');
        }
        block(&self.below(0), 0, &mut changed);
        Ok(changed)
    }

    /// The lines that the change may touch, counted from zero.
    fn concerned(&self, text: &str, root: &Node) -> Vec<RangeInclusive<usize>> {
        let mut lines = Vec::new();
        let mut at = root;
        for key in self.path() {
            let Kind::Map(entries) = &at.kind else {
                return lines;
            };
            let only = entries.len() == 1;
            let Some(entry) = entries.iter().find(|entry| entry.key == *key) else {
                // A new entry stands on lines of its own, but in brackets.
                if at.flow {
                    lines.push(lines_of(text, at.bytes.0, last_byte(at)));
                }
                return lines;
            };
            let below = std::ptr::eq(key, &self.path()[self.path().len() - 1]);
            let end = last_byte(&entry.value).max(entry.key_bytes.1);
            if below || entry.value.is_null() {
                lines.push(lines_of(text, entry.key_bytes.0, end));
                if at.flow {
                    lines.push(lines_of(text, at.bytes.0, last_byte(at)));
                }
            } else if only || holds_one(&entry.value) {
                // What holds the last entry may become `{}`.
                lines.push(lines_of(text, entry.key_bytes.0, entry.key_bytes.1));
            }
            at = &entry.value;
        }
        lines
    }
}

fn holds_one(node: &Node) -> bool {
    matches!(&node.kind, Kind::Map(entries) if entries.len() <= 1)
}

fn root(text: &str) -> Result<Option<Rc<Node>>, UnsafeChange> {
    let mut fields = Fields::default();
    let root = fields.tree(text, &read::LIMITS).map_err(|_| UnsafeChange)?;
    fields.finish().map(|()| root).map_err(|_| UnsafeChange)
}

/// A value as it is typed: a list or map in brackets as YAML has it, else a text.
pub(crate) fn typed(text: &str) -> Option<PlainValue> {
    if !text.starts_with(['[', '{']) {
        return Some(PlainValue::Text(text.to_owned()));
    }
    let root = root(text).ok().flatten()?;
    Some(value_of(&root))
}

fn value_of(node: &Node) -> PlainValue {
    match &node.kind {
        Kind::Scalar { .. } if node.is_null() => PlainValue::Nothing,
        Kind::Scalar { text, .. } => PlainValue::Text(text.clone()),
        Kind::List(items) => PlainValue::List(items.iter().map(|item| value_of(item)).collect()),
        Kind::Map(entries) if entries.is_empty() => PlainValue::Nothing,
        Kind::Map(entries) => PlainValue::Map(
            entries
                .iter()
                .map(|entry| (entry.key.clone(), value_of(&entry.value)))
                .collect(),
        ),
    }
}

fn put(map: &Mapping, key: &str, value: &PlainValue) -> Result<(), UnsafeChange> {
    let mut text = String::new();
    block(
        &PlainValue::Map(vec![("v".to_owned(), value.clone())]),
        0,
        &mut text,
    );
    let holder = Document::from_str(&text).map_err(|_| UnsafeChange)?;
    let node: YamlNode = holder.get("v").ok_or(UnsafeChange)?;
    map.set(key, node);
    Ok(())
}

/// The value as lines; lists in brackets.
fn block(value: &PlainValue, indent: usize, out: &mut String) {
    let PlainValue::Map(entries) = value else {
        return;
    };
    for (key, value) in entries {
        let _ = write!(out, "{:indent$}{}:", "", scalar(key));
        match value {
            PlainValue::Map(inner) if !inner.is_empty() => {
                out.push('\n');
                block(value, indent + 2, out);
            }
            PlainValue::Map(_)
            | PlainValue::Nothing
            | PlainValue::Text(_)
            | PlainValue::List(_) => {
                let _ = writeln!(out, " {}", flow(value));
            }
        }
    }
}

/// The value in one line.
fn flow(value: &PlainValue) -> String {
    match value {
        PlainValue::Nothing => "null".to_owned(),
        PlainValue::Text(text) => scalar(text),
        PlainValue::List(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        PlainValue::Map(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{}: {}", scalar(key), flow(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// A text as YAML, without quotes where no reader can take it for something else.
fn scalar(text: &str) -> String {
    let begins = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '$' | '_' | '.');
    let goes_on = |c: char| begins(c) || matches!(c, '-' | '@' | ':' | '+' | '=' | '~' | '%');
    let word = matches!(
        text.to_ascii_lowercase().as_str(),
        "null" | "true" | "false" | "yes" | "no" | "on" | "off"
    );
    let plain = text.starts_with(begins) && text.chars().all(goes_on) && !text.ends_with(':');
    if plain && !word || text == "true" || text == "false" {
        return text.to_owned();
    }
    if !text.chars().any(char::is_control) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", c as u32);
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The byte behind the last that a value is written with. A block ends for the parser
/// only where the next thing begins.
fn last_byte(node: &Node) -> usize {
    let start = node.bytes.0;
    match &node.kind {
        Kind::Map(entries) if !node.flow => entries
            .iter()
            .map(|entry| last_byte(&entry.value).max(entry.key_bytes.1))
            .max()
            .unwrap_or(start),
        Kind::List(items) if !node.flow => items
            .iter()
            .map(|item| last_byte(item))
            .max()
            .unwrap_or(start),
        Kind::Map(_) | Kind::List(_) | Kind::Scalar { .. } => node.bytes.1,
    }
}

/// The lines of some bytes, and blank ones behind them.
fn lines_of(text: &str, start: usize, end: usize) -> RangeInclusive<usize> {
    let line = |byte: usize| text[..byte.min(text.len())].matches('\n').count();
    let written = text[..end.min(text.len())].trim_end().len().max(start);
    let blank = text[written..].len() - text[written..].trim_start().len();
    let after = text[written..written + blank].matches('\n').count();
    let last = line(written);
    line(start)..=last + after.saturating_sub(1)
}

/// Whether every line that is not concerned is still there, in the same order.
fn keeps_lines(before: &str, after: &str, concerned: &[RangeInclusive<usize>]) -> bool {
    let mut after = after.lines();
    before
        .lines()
        .enumerate()
        .filter(|(index, _)| !concerned.iter().any(|lines| lines.contains(index)))
        .all(|(_, line)| after.any(|other| other == line))
}
