//! Places in texts that are filled on the node: `{data.corpus}`.
//!
//! Where data lies differs from node to node, and the node may be chosen late. So a
//! place for it stays in the arguments and the environment of a run, as the name
//! between two private characters that no text of a user may hold, and the node puts
//! its own path there.

use thiserror::Error;

/// Begins the name of a place.
pub const BEGIN: char = '\u{e0d0}';
/// Ends the name of a place.
pub const END: char = '\u{e0d1}';

/// A text that cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FillError {
    /// The node has no path for this data.
    #[error("no path is given for the data `{name}`")]
    Unknown {
        /// Name of the data.
        name: String,
    },
    /// A private character without its counterpart. neroman writes only pairs.
    #[error("a text holds a private character of neronet")]
    Broken,
}

/// Whether a text holds a private character, which only we may write.
pub fn has_mark(text: &str) -> bool {
    text.contains([BEGIN, END])
}

/// The place of the data `name`.
pub fn place(name: &str) -> String {
    format!("{BEGIN}{name}{END}")
}

/// Returns the text with every place replaced by the path that `path` returns for
/// its name.
///
/// # Errors
/// When a name has no path, or one of the two private characters is missing.
pub fn fill<'p>(
    text: &str,
    mut path: impl FnMut(&str) -> Option<&'p str>,
) -> Result<String, FillError> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, behind) = after.split_once(END).ok_or(FillError::Broken)?;
        if has_mark(before) || has_mark(name) {
            return Err(FillError::Broken);
        }
        filled.push_str(before);
        filled.push_str(path(name).ok_or_else(|| FillError::Unknown {
            name: name.to_owned(),
        })?);
        rest = behind;
    }
    if has_mark(rest) {
        return Err(FillError::Broken);
    }
    filled.push_str(rest);
    Ok(filled)
}

/// The text as a person wrote it: `{data.corpus}`.
pub fn display_text(text: &str) -> String {
    text.replace(BEGIN, "{data.").replace(END, "}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_and_shown() {
        let text = format!("--in={}/a:{}", place("corpus"), place("x"));
        let path = |name: &str| match name {
            "corpus" => Some("/scratch/my corpus"),
            "x" => Some("{data.corpus}"),
            _ => None,
        };
        let filled = fill(&text, path);
        assert_eq!(
            filled.as_deref(),
            Ok("--in=/scratch/my corpus/a:{data.corpus}")
        );
        assert_eq!(display_text(&text), "--in={data.corpus}/a:{data.x}");
        assert_eq!(fill("plain", |_| None).as_deref(), Ok("plain"));
    }

    #[test]
    fn a_text_that_cannot_be_filled_is_refused() {
        let missing = FillError::Unknown {
            name: "y".to_owned(),
        };
        assert_eq!(fill(&place("y"), |_| None), Err(missing));
        for broken in [
            format!("a{BEGIN}b"),
            format!("a{END}b"),
            format!("{BEGIN}a{BEGIN}b{END}"),
            format!("{END}{}", place("a")),
        ] {
            assert_eq!(
                fill(&broken, |_| Some("p")),
                Err(FillError::Broken),
                "{broken:?}"
            );
        }
    }
}
