//! Values, three-valued truth, and numbers as text.

use std::fmt;

/// The value of a name or of a part of an expression.
///
/// Borrowed from the [`crate::bind::scope::Scope`], so that evaluating copies no text.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Value<'a> {
    /// Not known; any comparison with it is unknown.
    #[default]
    Unknown,
    /// A number, and the text in which it was written, if it was.
    Number(f64, Option<&'a str>),
    /// Text.
    Text(&'a str),
    /// True or false, and the text in which it was written (`no`), if it was.
    Bool(bool, Option<&'a str>),
    /// A moment: Unix time in milliseconds.
    Time(i64),
}

impl<'a> Value<'a> {
    /// A number without a written text, such as a measured one.
    pub fn number(value: f64) -> Value<'a> {
        Value::Number(value, None)
    }

    /// `Unknown` for `None`, else a number.
    pub fn number_or_unknown(value: Option<f64>) -> Value<'a> {
        value.map_or(Value::Unknown, Value::number)
    }

    /// `Unknown` for `None`, else text.
    pub fn text_or_unknown(text: Option<&'a str>) -> Value<'a> {
        text.map_or(Value::Unknown, Value::Text)
    }

    /// `Unknown` for `None`, else a moment in Unix milliseconds.
    pub fn time_or_unknown(ms: Option<i64>) -> Value<'a> {
        ms.map_or(Value::Unknown, Value::Time)
    }

    /// Whether the value is known.
    pub fn is_known(&self) -> bool {
        !matches!(self, Value::Unknown)
    }

    /// Runs `with` on the value's text: as written, else the shortest form.
    /// `None` for unknown values and moments, which have no text.
    pub(crate) fn with_text<T>(&self, with: impl FnOnce(&str) -> T) -> Option<T> {
        match *self {
            Value::Unknown | Value::Time(_) => None,
            Value::Text(text) | Value::Number(_, Some(text)) | Value::Bool(_, Some(text)) => {
                Some(with(text))
            }
            Value::Bool(truth, None) => Some(with(if truth { "true" } else { "false" })),
            Value::Number(number, None) => Some(with(NumberText::new(number).as_str())),
        }
    }
}

/// True, false, or not known.
///
/// Kleene's logic: `false && unknown` is false, `true || unknown` is true, and any other
/// combination with an unknown part is unknown. Unknown never selects and never fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Truth {
    /// Holds.
    True,
    /// Does not hold.
    False,
    /// A value that it depends on is not known.
    Unknown,
}

impl Truth {
    /// Whether it holds for certain; only then it selects or fires.
    pub fn is_true(self) -> bool {
        self == Truth::True
    }

    /// `Unknown` for `None`.
    pub fn from_option(truth: Option<bool>) -> Truth {
        match truth {
            Some(true) => Truth::True,
            Some(false) => Truth::False,
            None => Truth::Unknown,
        }
    }

    /// Kleene's not.
    pub fn negated(self) -> Truth {
        match self {
            Truth::True => Truth::False,
            Truth::False => Truth::True,
            Truth::Unknown => Truth::Unknown,
        }
    }
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Truth::True => "true",
            Truth::False => "false",
            Truth::Unknown => "unknown",
        })
    }
}

/// The shortest text that reads back as a number, on the stack.
///
/// Plain digits between 1e-5 and 1e16, an exponent outside; `NaN`, `inf`.
pub struct NumberText {
    bytes: [u8; 32],
    len: usize,
}

impl NumberText {
    /// The text of `number`.
    pub fn new(number: f64) -> NumberText {
        let mut text = NumberText {
            bytes: [0; 32],
            len: 0,
        };
        let size = number.abs();
        let plain = number == 0.0 || !number.is_finite() || (1e-5..1e16).contains(&size);
        // At most 17 digits, a sign, a point and leading zeros or an exponent: 32 is enough.
        let written = if plain {
            fmt::write(&mut text, format_args!("{number}"))
        } else {
            fmt::write(&mut text, format_args!("{number:e}"))
        };
        debug_assert!(written.is_ok(), "a number fits into 32 bytes");
        text
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }
}

/// Whether a number has this text, so that the two are equal.
pub(crate) fn is_text_of_number(text: &str) -> bool {
    let number = text.parse::<f64>();
    number.is_ok_and(|number| NumberText::new(number).as_str() == text)
}

impl fmt::Write for NumberText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let end = self.len + part.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
        room.copy_from_slice(part.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl fmt::Debug for NumberText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for NumberText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_have_their_shortest_text() {
        for (number, text) in [
            (7.3, "7.3"),
            (7200.0, "7200"),
            (-0.001, "-0.001"),
            (1e300, "1e300"),
            (5e-9, "5e-9"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(NumberText::new(number).as_str(), text);
        }
    }

    proptest! {
        #[test]
        fn every_number_fits_and_reads_back(number in proptest::num::f64::ANY) {
            let text = NumberText::new(number);
            let back: f64 = text.as_str().parse().unwrap();
            prop_assert!(back == number || (back.is_nan() && number.is_nan()));
        }
    }
}
