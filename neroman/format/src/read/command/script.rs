//! `script`: lines that bash executes.
//!
//! `{name}` is a place when a parameter or data has this name; every other brace is
//! bash's. A value is put there as it is, so only values that bash takes as one word are.

use super::pyformat::NameKind;
use super::render;
use crate::definition::Param;
use crate::read::block::Setting;
use crate::read::names::Names;
use crate::read::reader::Reader;
use nero_model::safe::quoted;
use nero_yaml::{Mark, Node};
use std::rc::Rc;

/// The kernel takes no longer argument than 128 KiB.
pub(crate) const BYTES_MAX: usize = 100_000;

/// A script before its places are filled.
#[derive(Debug)]
pub(crate) struct Script {
    pieces: Vec<ScriptPiece>,
    node: Rc<Node>,
}

#[derive(Debug)]
enum ScriptPiece {
    Text(String),
    Param(usize),
}

/// Reads the field.
pub(crate) fn read(reader: &mut Reader<'_>, names: &Names<'_>, given: &Setting) -> Option<Script> {
    read_at(reader, names, &given.key, &given.value)
}

/// Reads a script below another key.
pub(crate) fn read_at(
    reader: &mut Reader<'_>,
    names: &Names<'_>,
    key: &str,
    node: &Rc<Node>,
) -> Option<Script> {
    let text = reader.single(key, node)?;
    if text.trim().is_empty() {
        reader.wrong(node.mark, "the script is empty", "");
        return None;
    }
    if text.len() > BYTES_MAX {
        reader.wrong(
            node.mark,
            format!("the script is longer than {BYTES_MAX} bytes"),
            "put it into a file: `command: bash job.sh {x}`",
        );
        return None;
    }
    let (mut pieces, mut literal) = (Vec::new(), String::new());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, behind) = (&rest[..at], &rest[at + 1..]);
        literal.push_str(before);
        let name = behind.split(['}', '{', '\n']).next().unwrap_or("");
        let is_closed = behind[name.len()..].starts_with('}');
        // `${x}` is a variable of bash.
        let is_place = is_closed && !literal.ends_with('$');
        let kind = if is_place {
            names.kind(name)
        } else {
            NameKind::Unknown
        };
        match kind {
            NameKind::Parameter(index) => {
                pieces.push(ScriptPiece::Text(std::mem::take(&mut literal)));
                pieces.push(ScriptPiece::Param(index));
            }
            NameKind::Text(text) => literal.push_str(&text),
            NameKind::Unknown => {
                if is_place {
                    render::note_near(reader, names, name, "the script", node.mark);
                }
                literal.push('{');
                rest = behind;
                continue;
            }
        }
        rest = &behind[name.len() + 1..];
    }
    literal.push_str(rest);
    pieces.push(ScriptPiece::Text(literal));
    Some(Script {
        pieces,
        node: Rc::clone(node),
    })
}

impl Script {
    /// The positions of the parameters with a place.
    pub(crate) fn params(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().filter_map(|piece| match piece {
            ScriptPiece::Param(index) => Some(*index),
            ScriptPiece::Text(_) => None,
        })
    }

    /// Whether the script reads parameters from its environment.
    pub(crate) fn reads_variables(&self) -> bool {
        self.pieces
            .iter()
            .any(|piece| matches!(piece, ScriptPiece::Text(text) if text.contains("NERO_PARAM")))
    }

    /// Where it is written.
    pub(crate) fn mark(&self) -> Mark {
        self.node.mark
    }

    /// Bash with the script and its arguments; `None` when a mistake was reported. A line
    /// that fails ends the script, also where a command before a `|` fails.
    pub(crate) fn argv(&self, reader: &mut Reader<'_>, params: &[Param]) -> Option<Vec<String>> {
        let text = self.text(reader, params)?;
        let words = ["bash", "-e", "-o", "pipefail", "-c", &text, "script"];
        Some(words.map(str::to_owned).to_vec())
    }

    /// The script with these values; `None` when a mistake was reported.
    pub(crate) fn text(&self, reader: &mut Reader<'_>, params: &[Param]) -> Option<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                ScriptPiece::Text(literal) => text.push_str(literal),
                ScriptPiece::Param(index) => {
                    let param = &params[*index];
                    let is_plain = |c: char| c.is_alphanumeric() || "_./:,=+@%-".contains(c);
                    if param.text.is_empty() || !param.text.chars().all(is_plain) {
                        let variable = nero_model::names::variable("NERO_PARAM_", &param.name);
                        reader.wrong(
                            self.node.mark,
                            format!(
                                "bash would act on characters of {} = {}",
                                quoted(&param.name),
                                quoted(&param.text)
                            ),
                            format!("write \"${variable}\" in the script instead of the place"),
                        );
                        return None;
                    }
                    text.push_str(&param.text);
                }
            }
        }
        Some(text)
    }
}
