//! A typed value.

use serde::{Deserialize, Serialize};

/// A typed value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// `null`, `~`.
    Null,
    /// `true`, `no`, `On` and so on, written plainly.
    Bool(bool),
    /// A whole number that fits.
    Int(i64),
    /// Any other number. The digits of a longer whole number are in the parameter's text.
    #[serde(with = "float_text")]
    Float(f64),
    /// Everything else, and whatever is quoted.
    Text(String),
}

impl Value {
    /// The value as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Int(n) => Some(*n as f64),
            Value::Float(x) => Some(*x),
            Value::Null | Value::Bool(_) | Value::Text(_) => None,
        }
    }
}

/// Floats as JSON numbers, and `"inf"`, `"-inf"`, `"nan"` where JSON has none.
pub mod float_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum StoredNumber {
        Number(f64),
        Text(String),
    }

    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(x: &f64, to: S) -> Result<S::Ok, S::Error> {
        if x.is_finite() {
            to.serialize_f64(*x)
        } else {
            to.collect_str(x)
        }
    }

    /// # Errors
    /// When it is neither a number nor the text of one.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        match StoredNumber::deserialize(from)? {
            StoredNumber::Number(x) => Ok(x),
            StoredNumber::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}
