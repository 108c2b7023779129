//! A parameter and its typed forms.

use serde::{Deserialize, Serialize};

use super::value::Value;

/// A parameter: the text that reaches the job and the name, and its typed value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Param {
    /// The parameter's name.
    pub name: String,
    /// The value letter for letter as it was written, or computed.
    pub text: String,
    /// The value that expressions use.
    pub value: Value,
    /// JSON of a list or a map, whose text is its value for everything that knows neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Box<str>>,
}

impl Param {
    /// A parameter with a single value.
    pub fn new(name: impl Into<String>, text: impl Into<String>, value: Value) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            value,
            tree: None,
        }
    }

    /// The value in JSON, for everything that has types. Whole numbers keep all their digits.
    /// Numbers that JSON does not have are `NaN`, `Infinity` and `-Infinity`.
    pub fn json(&self) -> String {
        match (&self.tree, &self.value) {
            (Some(tree), _) => tree.clone().into(),
            (None, Value::Float(number)) => match not_finite(&self.text, *number) {
                Some(word) => word.to_owned(),
                None => json_of(&self.text, &self.value),
            },
            (None, value) => json_of(&self.text, value),
        }
    }
}

/// A single value in JSON; numbers that JSON does not have are texts.
pub(crate) fn json_of(text: &str, value: &Value) -> String {
    let string = |text: &str| serde_json::Value::from(text).to_string();
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => {
            match (not_finite(text, *number), nero_model::whole::digits(text)) {
                (Some(word), _) => string(word),
                (None, Some(digits)) => digits,
                (None, None) => serde_json::Value::from(*number).to_string(),
            }
        }
        Value::Text(text) => string(text),
    }
}

/// The word for a number without digits.
fn not_finite(text: &str, number: f64) -> Option<&'static str> {
    match number {
        number if number.is_finite() => None,
        // More digits than a floating-point number has room for.
        _ if text.contains(|c: char| c.is_ascii_digit()) => None,
        number if number.is_nan() => Some("NaN"),
        number if number > 0.0 => Some("Infinity"),
        _ => Some("-Infinity"),
    }
}
