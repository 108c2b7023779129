//! Which names nodes and groups may have, and which name was probably meant.

use nero_model::StateWord;

/// The node that is this machine; it is always there.
pub const LOCAL: &str = "local";

/// Stands for whichever node fits.
pub const ANY: &str = "any";

/// Longer names fit in no table and no path of a socket.
const NAME_CHARS_MAX: usize = 64;

/// Words that mean something else where a node can be named, beside the states of runs.
const RESERVED: &[&str] = &[
    "all", ANY, "last", "nodes", "default", "live", "failed", "done", "changed",
];

/// Why a name cannot be a node's or a group's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is none.
    #[error("a name is empty")]
    Empty,
    /// Longer than a name that a person types.
    #[error("a name has at most {NAME_CHARS_MAX} characters")]
    Long,
    /// A character that a shell, a path or a selector would read otherwise.
    #[error("a name holds letters, digits, `.`, `_` and `-`, not `{0}`")]
    Character(String),
    /// It begins like an option or a hidden file.
    #[error("a name begins with a letter, a digit or `_`")]
    Begin,
    /// It would be read as the number of an experiment or run.
    #[error("a name of digits alone means an experiment")]
    Number,
    /// The word has another meaning.
    #[error("`{0}` means something else")]
    Reserved(&'static str),
    /// The name of this machine.
    #[error("`{LOCAL}` is always this machine")]
    Local,
}

/// Whether a node other than [`LOCAL`], or a group, may be named so.
///
/// # Errors
/// Says what is wrong with the name.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    let odd = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if let Some(c) = name.chars().find(odd) {
        return Err(NameError::Character(c.escape_debug().to_string()));
    }
    if name.len() > NAME_CHARS_MAX {
        return Err(NameError::Long);
    }
    if name.starts_with(['-', '.']) {
        return Err(NameError::Begin);
    }
    if !name.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return Err(NameError::Number);
    }
    if name == LOCAL {
        return Err(NameError::Local);
    }
    let state = || name.parse().ok().map(StateWord::as_str);
    let reserved = RESERVED.iter().copied().find(|word| *word == name);
    match reserved.or_else(state) {
        Some(word) => Err(NameError::Reserved(word)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in [
            "triton",
            "box-2",
            "a.b_c",
            "2gpu",
            "_x",
            "Local",
            &"x".repeat(64),
        ] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let table = [
            ("", NameError::Empty),
            ("a b", NameError::Character(" ".into())),
            ("käse", NameError::Character("ä".into())),
            ("a/b", NameError::Character("/".into())),
            ("a\u{1b}", NameError::Character("\\u{1b}".into())),
            ("-v", NameError::Begin),
            ("..", NameError::Begin),
            ("12", NameError::Number),
            ("1-4.2", NameError::Number),
            ("any", NameError::Reserved("any")),
            ("nodes", NameError::Reserved("nodes")),
            ("local", NameError::Local),
        ];
        for (bad, error) in table {
            assert_eq!(check_name(bad), Err(error), "{bad}");
        }
        assert_eq!(check_name(&"x".repeat(65)), Err(NameError::Long));
    }
}
