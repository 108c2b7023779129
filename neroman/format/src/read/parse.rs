//! Makes the tree, and turns its mistakes into ours.
//!
//! Mistakes here are collected like all others; only a text that does not parse ends the
//! reading. Sizes are bounded by [`LIMITS`].

use super::text::Text;
use crate::definition::problem::{Problem, printable};
use nero_yaml::{Fields, Limits, Mark, MistakeKind, Node, Wrong};
use std::rc::Rc;

/// What a file may hold: 64 levels, and about 64 MiB of the shortest values.
const LIMITS: Limits = Limits {
    depth: 64,
    key_chars: 8192,
    values: 8_000_000,
    repeated: 250_000,
};

/// The one tag that is read, before a list: a range in the original's files.
const TUPLE: &str = "!!python/tuple";

/// Builds the tree, or `None` for a file without a document. A text that does not
/// parse is the one mistake that ends the reading at once.
pub(crate) fn parse(text: &Text, fields: &mut Fields) -> Result<Option<Rc<Node>>, Problem> {
    let mut report = |Wrong { mark, what }: Wrong| {
        if let Some((message, hint)) = said(text, mark, &what) {
            fields.wrong(mark, message, hint);
        }
    };
    nero_yaml::parse(&text.text, &LIMITS, &mut report).map_err(|Wrong { mark, what }| {
        let hint = match what {
            MistakeKind::TooMany(_) => "write ranges, or several files".to_owned(),
            MistakeKind::TooManyRepeated(_) => {
                "use blocks that inherit (`+name:`) instead of aliases".to_owned()
            }
            _ => what.hint(),
        };
        text.problem(mark, what.to_string(), hint)
    })
}

/// The value of a cell that is written as YAML is.
pub(crate) fn cell(text: &str) -> Result<Option<Rc<Node>>, (String, String)> {
    let mut first: Option<(String, String)> = None;
    let mut report = |Wrong { what, .. }: Wrong| {
        first.get_or_insert_with(|| (what.to_string(), what.hint()));
    };
    let node = nero_yaml::parse(text, &LIMITS, &mut report)
        .map_err(|Wrong { what, .. }| (what.to_string(), what.hint()))?;
    match first {
        Some(wrong) => Err(wrong),
        None => Ok(node),
    }
}

/// Whether a list is a tuple.
pub(crate) fn is_tuple(node: &Node) -> bool {
    node.tag.as_deref() == Some(TUPLE)
}

/// Message and hint, of what is a mistake for us.
fn said(text: &Text, mark: Mark, what: &MistakeKind) -> Option<(String, String)> {
    let hint = match what {
        MistakeKind::Tag { tag, on_list } if **tag == *TUPLE => {
            let message = format!("`{TUPLE}` goes before a list");
            return (!on_list).then(|| (message, format!("for example `{TUPLE} [0, 1, 0.1]`")));
        }
        MistakeKind::Tag { tag, .. } => tag_hint(text.line(mark.line), mark, tag),
        MistakeKind::MergesNoMap { .. } => "for a parameter of that name quote it: '<<'".to_owned(),
        _ => what.hint(),
    };
    Some((what.to_string(), hint))
}

/// The text that a tag begins, quoted where that can be told from its line.
fn tag_hint(line: &str, mark: Mark, tag: &str) -> String {
    let rest = line.char_indices().nth(mark.column as usize - 1);
    let rest = rest.map_or("", |(index, _)| &line[index..]);
    let rest = rest.split(" #").next().unwrap_or("");
    let rest = rest.split(['}', ']']).next().unwrap_or("").trim();
    if tag.starts_with("!!") || rest.contains(['{', '[', '\'']) {
        format!("quote the value if it is text; of tags only `{TUPLE}` is read")
    } else {
        format!("quote it if it is text: '{}'", printable(rest))
    }
}
