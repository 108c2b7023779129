//! What a cell holds.

use std::fmt;

/// A value of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum BookValue {
    /// The cell is empty.
    Nothing,
    /// A number. One that is not finite is written as its text.
    Number(f64),
    /// A text, never a formula.
    Text(String),
    /// True or false.
    Bool(bool),
}

impl BookValue {
    /// Whether the cell is empty, or holds a text without a character.
    pub(crate) fn is_nothing(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Text(text) => text.is_empty(),
            Self::Number(_) | Self::Bool(_) => false,
        }
    }

    /// The value as a format writes it: a number without a finite value is a text, and a text
    /// is what `text` makes of it.
    pub(crate) fn plain(&self, text: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Number(number) if !number.is_finite() => Self::Text(number.to_string()),
            Self::Text(content) if content.is_empty() => Self::Nothing,
            Self::Text(content) => Self::Text(text(content)),
            Self::Nothing | Self::Number(_) | Self::Bool(_) => self.clone(),
        }
    }

    /// Whether both are the same. Programs write numbers with 15 digits.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => {
                a == b || (a - b).abs() <= 1e-14 * a.abs().max(b.abs())
            }
            (a, b) => a == b || (a.is_nothing() && b.is_nothing()),
        }
    }
}

impl fmt::Display for BookValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Number(value) => f.write_str(&number(*value)),
            Self::Text(text) => f.write_str(text),
            Self::Bool(true) => f.write_str("TRUE"),
            Self::Bool(false) => f.write_str("FALSE"),
        }
    }
}

/// The shortest text that reads as the same number.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-5..1e16).contains(&size) {
        value.to_string()
    } else {
        format!("{value:e}")
    }
}
