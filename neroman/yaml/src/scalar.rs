//! Truths and numbers as plain text.
//!
//! Words follow PyYAML (`no` is false), since the original's files were written for
//! it, with the evident reading of numbers: `010` is ten, `1e-3` and `nan` are numbers.

/// A number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// Whole, where it fits.
    Int(i64),
    /// Any other; of a longer whole number the nearest one, its digits are in the text.
    Float(f64),
}

impl Number {
    /// The nearest floating-point number.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(number) => number as f64,
            Self::Float(number) => number,
        }
    }
}

/// `true`, `Yes`, `off` and their like.
pub fn boolean(text: &str) -> Option<bool> {
    let lower = text.to_ascii_lowercase();
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|c| c.to_ascii_uppercase())
            .into_iter()
            .chain(letters)
            .collect::<String>()
    };
    // Three spellings count, as in PyYAML; `nO` is text.
    if text != lower && text != lower.to_ascii_uppercase() && text != capital(&lower) {
        return None;
    }
    match lower.as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// A number; whole where it fits. `nan` and `inf` are numbers as most programs print them.
pub fn number(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    match digits {
        ".inf" | ".Inf" | ".INF" | "inf" | "Inf" | "INF" | "Infinity" => {
            let infinity = if negative {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            };
            return Some(Number::Float(infinity));
        }
        ".nan" | ".NaN" | ".NAN" | "nan" | "NaN" | "NAN" if digits.len() == text.len() => {
            return Some(Number::Float(f64::NAN));
        }
        _ => {}
    }
    if let Some(whole) = nero_model::whole::digits(text) {
        return match whole.parse() {
            Ok(whole) => Some(Number::Int(whole)),
            Err(_) => whole.parse().ok().map(Number::Float),
        };
    }
    let plain = without_separators(digits)?;
    if !is_decimal(&plain) {
        return None;
    }
    let signed = if negative { format!("-{plain}") } else { plain };
    let number: f64 = signed.parse().ok()?;
    // What no such number is near to would be another one: it is text.
    let mantissa = signed.split(['e', 'E']).next().unwrap_or_default();
    let is_lost =
        number.is_infinite() || number == 0.0 && mantissa.contains(|c| matches!(c, '1'..='9'));
    (!is_lost).then_some(Number::Float(number))
}

/// `1_000` without its `_`, which may stand between digits only.
fn without_separators(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digit = |index: Option<usize>| {
        index
            .and_then(|i| bytes.get(i))
            .is_some_and(u8::is_ascii_digit)
    };
    let misplaced = bytes
        .iter()
        .enumerate()
        .any(|(i, b)| *b == b'_' && !(digit(i.checked_sub(1)) && digit(Some(i + 1))));
    (!misplaced).then(|| text.replace('_', ""))
}

/// Digits with at most one point and an exponent.
fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    let exponent_fits = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['+', '-']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()) && exponent_fits
}
