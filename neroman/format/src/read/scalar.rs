//! The typed value beside a parameter's text.
//!
//! The text reaches the job; the value is what expressions compare.

use crate::definition::Value;
use nero_yaml::{Number, boolean, is_null_text, number};

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
    match number(text) {
        Some(Number::Int(number)) => Value::Int(number),
        Some(Number::Float(number)) => Value::Float(number),
        None => Value::Text(text.to_owned()),
    }
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
            ("-inf", Value::Float(f64::NEG_INFINITY)),
            ("Infinity", Value::Float(f64::INFINITY)),
            ("infinite", Value::Text("infinite".into())),
            ("1e400", Value::Text("1e400".into())),
            ("1e-400", Value::Text("1e-400".into())),
            ("0e5", Value::Float(0.0)),
            ("0x1ffffffffffffffff", Value::Float(36893488147419103231.0)),
            ("12:30:45", Value::Text("12:30:45".into())),
            ("2026-11-20", Value::Text("2026-11-20".into())),
            ("18446744073709551616", Value::Float(18446744073709551616.0)),
            ("1.2.3", Value::Text("1.2.3".into())),
        ];
        for (text, want) in table {
            assert_eq!(typed(text, true), want, "{text}");
            assert_eq!(typed(text, false), Value::Text(text.into()), "{text}");
        }
        for text in [".nan", "nan", "NaN"] {
            assert!(matches!(typed(text, true), Value::Float(x) if x.is_nan()));
        }
    }
}
