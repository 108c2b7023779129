//! Names that may stand in a command of a scheduler.

use std::fmt;

/// Longest name of a partition, account, queue, feature or job.
const CHARS_MAX: usize = 128;

/// A name of letters, digits, `_ . + - @`, which begins with a letter or digit: no
/// option, list, pattern or shell text can be made of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Word(String);

/// A text that is no [`Word`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to 128 letters, digits and _ . + - @, and begins with a letter or digit")]
pub struct WordError;

impl Word {
    /// Checks a name.
    ///
    /// # Errors
    /// When it has other characters, none, or too many.
    pub fn new(text: &str) -> Result<Self, WordError> {
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        let fits = |c: char| c.is_ascii_alphanumeric() || "_.+-@".contains(c);
        if begins && text.len() <= CHARS_MAX && text.chars().all(fits) {
            Ok(Self(text.to_owned()))
        } else {
            Err(WordError)
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
