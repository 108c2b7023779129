//! Mistakes of a text, and their messages.

use std::fmt;

use nero_model::safe::quoted;
use serde_saphyr::granit_parser::{ErrorKind, ScanError};

use crate::tree::Mark;

/// A mistake and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Its place in the text.
    pub mark: Mark,
    /// The kind of mistake.
    pub what: MistakeKind,
}

/// What is wrong; shown as a message of one line that is safe to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MistakeKind {
    /// The text does not parse.
    NotYaml {
        /// The parser's word.
        why: String,
        /// What people usually meant.
        hint: &'static str,
    },
    /// A document behind the first.
    SecondDocument,
    /// A part of YAML that is newer than this reader.
    Unknown,
    /// An alias of what it stands in.
    AliasInItself,
    /// More values than [`crate::Limits::values`].
    TooMany(usize),
    /// Aliases stand for more values than [`crate::Limits::repeated`].
    TooManyRepeated(usize),
    /// A key that is no text.
    KeyIsNoText {
        /// What it is.
        is: &'static str,
    },
    /// A key that stands in the map already.
    KeyTwice {
        /// The key.
        key: String,
        /// The line in which it stands.
        line: u32,
    },
    /// `<<` with something else than maps.
    MergesNoMap {
        /// With what.
        is: &'static str,
    },
    /// A value with a tag; the one reading decides whether that is a mistake.
    Tag {
        /// As it is written.
        tag: Box<str>,
        /// Whether it stands before a list.
        on_list: bool,
    },
}

impl fmt::Display for MistakeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYaml { why, .. } => write!(f, "this is not YAML: {why}"),
            Self::SecondDocument => f.write_str("a second document begins here"),
            Self::Unknown => f.write_str("this YAML construct is not understood"),
            Self::AliasInItself => f.write_str("an alias stands inside of what it repeats"),
            Self::TooMany(most) => write!(f, "the file has more than {most} values"),
            Self::TooManyRepeated(most) => write!(f, "aliases repeat more than {most} values"),
            Self::KeyIsNoText { is } => write!(f, "a key is text, not {is}"),
            Self::KeyTwice { key, .. } => write!(f, "{} is given twice", quoted(key)),
            Self::MergesNoMap { is } => write!(f, "`<<` takes a map or a list of maps, not {is}"),
            Self::Tag { tag, .. } => write!(f, "{} is a YAML tag", quoted(tag)),
        }
    }
}

impl MistakeKind {
    /// What to do; may be empty.
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::NotYaml { hint, .. } => hint,
            Self::SecondDocument => "one file has one document: remove the `---`",
            Self::Unknown | Self::AliasInItself => "write the value out",
            Self::TooMany(_) | Self::TooManyRepeated(_) => "",
            Self::KeyIsNoText { .. } => "quote it if it is text that begins with `{` or `[`",
            Self::KeyTwice { line, .. } => return format!("it stands in line {line} already"),
            Self::MergesNoMap { .. } => "quote it if it is a name: '<<'",
            Self::Tag { .. } => "quote the value if it is text",
        };
        hint.to_owned()
    }
}

/// The parser's mistake in our form, with the cause that people usually have.
pub fn not_yaml(text: &str, error: &ScanError) -> Wrong {
    use ErrorKind as E;
    let at = error.marker().byte_offset().unwrap_or(text.len());
    let line = line_at(text, at);
    let after = line.trim_start();
    let indent = &line[..line.len() - after.len()];
    let hint = if indent.contains('\t') {
        "YAML does not indent with tabs: use spaces"
    } else {
        match error.kind() {
            E::MappingValueNotAllowed if !before(text, at).contains(": {") => {
                "quote text that holds `: `, or check the indentation of this line"
            }
            _ if brace_begins_text(line) => "quote text that begins with `{`: '{x} {y}'",
            E::InvalidTrailingDoubleQuotedScalar | E::InvalidTrailingSingleQuotedScalar => {
                "quote the whole value, with the other kind of quotes outside"
            }
            _ if error.info().contains("unknown escape character") => {
                "in double quotes a `\\` begins an escape: use single quotes, '\\w+'"
            }
            _ if error.info().contains("quoted scalar") => {
                "close the quote, or double a quote inside of it"
            }
            _ if error.info().contains("scanning a tag") => {
                "quote text that begins with `!`: '!finished'"
            }
            E::RecursionLimitExceeded => "values are nested too deeply",
            E::UnknownAnchor => "quote text that begins with `*`: '*.py'",
            E::MappingValueNotAllowed => {
                "quote text that holds `: `, or check the indentation of this line"
            }
            E::UnexpectedCharacter { .. } => "quote text that begins with this character",
            E::UnclosedFlowCollection { .. }
            | E::UnexpectedEofFlowSequence
            | E::UnexpectedEofFlowMapping => "close the bracket",
            _ if after.starts_with(['@', '`', '%']) => "quote text that begins with this character",
            _ => "check indentation, brackets and quotes near this place",
        }
    };
    Wrong {
        mark: Mark::of(*error.marker()),
        what: MistakeKind::NotYaml {
            why: error.info().to_owned(),
            hint,
        },
    }
}

/// The part of its line that stands before a byte.
fn before(text: &str, byte: usize) -> &str {
    let text = text.get(..byte).unwrap_or(text);
    text.rsplit('\n').next().unwrap_or(text)
}

/// The line that holds a byte, without its end.
fn line_at(text: &str, byte: usize) -> &str {
    let at = text.floor_char_boundary(byte);
    let ends = ['\n', '\r'];
    let start = text[..at].rfind(ends).map_or(0, |end| end + 1);
    let end = text[at..].find(ends).map_or(text.len(), |end| at + end);
    &text[start..end]
}

/// `parameters_format: {x} {y}`, the commonest mistake: YAML ends the value at `}`.
fn brace_begins_text(line: &str) -> bool {
    line.split_once(": {")
        .and_then(|(_, rest)| rest.split_once('}'))
        .is_some_and(|(inside, after)| {
            let after = after.trim();
            !inside.contains([':', ','])
                && !after.is_empty()
                && !after.starts_with(['#', ',', '}', ']'])
        })
}
