//! The typed value beside a parameter's text.
//!
//! The text reaches the job; the value is what expressions compare. Words follow
//! PyYAML (`no` is false), since the original's files were written for it, with the
//! evident reading of numbers: `010` is ten, `1e-3` a number.

use crate::definition::Value;
use nero_yaml::is_null_text;

/// The value of a scalar; quoted ones are text whatever they look like.
pub(crate) fn typed(text: &str, plain: bool) -> Value {
    if !plain {
        return Value::Text(text.to_owned());
    }
    if is_null_text(text) {
        return Value::Null;
    }
    if let Some(truth) = boolean(text) {
        return Value::Bool(truth);
    }
    number(text).unwrap_or_else(|| Value::Text(text.to_owned()))
}

/// `true`, `Yes`, `off` and their like.
pub(crate) fn boolean(text: &str) -> Option<bool> {
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

fn number(text: &str) -> Option<Value> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    match digits {
        ".inf" | ".Inf" | ".INF" => {
            let infinity = if negative {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            };
            return Some(Value::Float(infinity));
        }
        ".nan" | ".NaN" | ".NAN" if digits.len() == text.len() => {
            return Some(Value::Float(f64::NAN));
        }
        _ => {}
    }
    let based = |prefix: &str, radix| {
        let digits = digits.strip_prefix(prefix)?;
        let fits = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
        let value = i64::from_str_radix(digits, radix).ok().filter(|_| fits)?;
        Some(Value::Int(if negative { -value } else { value }))
    };
    if let Some(value) = based("0x", 16).or_else(|| based("0o", 8)) {
        return Some(value);
    }
    let plain = without_separators(digits)?;
    if !is_decimal(&plain) {
        return None;
    }
    let signed = if negative { format!("-{plain}") } else { plain };
    match signed.parse::<i64>() {
        Ok(whole) => Some(Value::Int(whole)),
        Err(_) => signed.parse().ok().map(Value::Float),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_have_types() {
        let table = [
            ("0.10", Value::Float(0.1)),
            ("010", Value::Int(10)),
            ("1e-3", Value::Float(0.001)),
            ("no", Value::Bool(false)),
            ("On", Value::Bool(true)),
            ("TRUE", Value::Bool(true)),
            ("nO", Value::Text("nO".into())),
            ("y", Value::Text("y".into())),
            ("~", Value::Null),
            ("null", Value::Null),
            ("", Value::Null),
            ("1_000", Value::Int(1000)),
            ("1__0", Value::Text("1__0".into())),
            ("_1", Value::Text("_1".into())),
            ("0x1F", Value::Int(31)),
            ("0o17", Value::Int(15)),
            ("-7", Value::Int(-7)),
            ("+.5", Value::Float(0.5)),
            ("5.", Value::Float(5.0)),
            (".", Value::Text(".".into())),
            ("-", Value::Text("-".into())),
            ("1e", Value::Text("1e".into())),
            ("0x+1", Value::Text("0x+1".into())),
            (".inf", Value::Float(f64::INFINITY)),
            ("inf", Value::Text("inf".into())),
            ("12:30:45", Value::Text("12:30:45".into())),
            ("2026-11-20", Value::Text("2026-11-20".into())),
            ("18446744073709551616", Value::Float(18446744073709551616.0)),
            ("1.2.3", Value::Text("1.2.3".into())),
        ];
        for (text, want) in table {
            assert_eq!(typed(text, true), want, "{text}");
            assert_eq!(typed(text, false), Value::Text(text.into()), "{text}");
        }
        assert!(matches!(typed(".nan", true), Value::Float(x) if x.is_nan()));
    }
}
