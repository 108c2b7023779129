//! The parameters of a run with their types, as JSON, YAML and TOML have them. Numbers keep
//! their digits: they go from the spec into the file as text.

use nero_model::json::{JsonToken, tokens};
use nero_wire::v1::{Param, RunSpec};
use serde::de::IgnoredAny;

use super::data;

/// A file format with types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypedFormat {
    Json,
    Yaml,
    Toml,
}

/// The parameters by name, each with its value in the format; null where TOML has none.
///
/// # Errors
/// A place of data in a text without that data.
pub(super) fn params(
    spec: &RunSpec,
    data: &data::DataPaths,
    format: TypedFormat,
) -> Result<Vec<(String, String)>, data::DataError> {
    let given = spec.params.iter();
    let given = given.filter(|param| format != TypedFormat::Toml || param.json.trim() != "null");
    given
        .map(|param| Ok((key(&param.name, format), value(param, data, format)?)))
        .collect()
}

fn value(
    param: &Param,
    data: &data::DataPaths,
    format: TypedFormat,
) -> Result<String, data::DataError> {
    let json = param.json.trim();
    if let Some(word) = not_finite(json, format) {
        return Ok(word.to_owned());
    }
    if serde_json::from_str::<IgnoredAny>(json).is_err() {
        return Ok(quoted(&data.fill(&param.text)?));
    }
    let mut written = String::with_capacity(json.len());
    for token in tokens(json) {
        match token {
            JsonToken::Text(text) => {
                let text: String = serde_json::from_str(text).unwrap_or_default();
                written.push_str(&quoted(&data.fill(&text)?));
            }
            JsonToken::Number(digits) => written.push_str(&number(digits, format)),
            JsonToken::Word(word) => written.push_str(word),
            JsonToken::Sign(':') if format == TypedFormat::Toml => written.push_str(" ="),
            JsonToken::Sign(sign) => written.push(sign),
            JsonToken::Blank => written.push(' '),
        }
    }
    Ok(written)
}

/// A number without digits. JSON has none: there it is text.
fn not_finite(json: &str, format: TypedFormat) -> Option<&'static str> {
    let word = match (json, format) {
        ("NaN", TypedFormat::Json) => "\"NaN\"",
        ("NaN", TypedFormat::Yaml) => ".nan",
        ("NaN", TypedFormat::Toml) => "nan",
        ("Infinity", TypedFormat::Json) => "\"Infinity\"",
        ("Infinity", TypedFormat::Yaml) => ".inf",
        ("Infinity", TypedFormat::Toml) => "inf",
        ("-Infinity", TypedFormat::Json) => "\"-Infinity\"",
        ("-Infinity", TypedFormat::Yaml) => "-.inf",
        ("-Infinity", TypedFormat::Toml) => "-inf",
        _ => return None,
    };
    Some(word)
}

/// A text in quotation marks that JSON, YAML and TOML read as the same: what one of them takes
/// for a line break, or refuses, is escaped.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    let is_odd = |c: char| {
        matches!(
            c,
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
    };
    if !json.contains(is_odd) {
        return json;
    }
    let mut plain = String::with_capacity(json.len() + 8);
    for letter in json.chars() {
        if is_odd(letter) {
            plain.push_str(&format!("\\u{:04x}", u32::from(letter)))
        } else {
            plain.push(letter)
        }
    }
    plain
}

/// Many readers of YAML take `1e-7` for text: a number with an exponent has a point and a
/// sign there.
fn number(digits: &str, format: TypedFormat) -> String {
    let split = digits.split_once(['e', 'E']);
    match (format, split) {
        (TypedFormat::Yaml, Some((mantissa, exponent))) => {
            let point = if mantissa.contains('.') { "" } else { ".0" };
            let sign = if exponent.starts_with(['-', '+']) {
                ""
            } else {
                "+"
            };
            format!("{mantissa}{point}e{sign}{exponent}")
        }
        _ => digits.to_owned(),
    }
}

/// A key, in quotation marks where the format asks for them.
fn key(name: &str, format: TypedFormat) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    // These words are truths or nothing in YAML.
    let is_word = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"]
        .iter()
        .any(|word| word.eq_ignore_ascii_case(name));
    if format != TypedFormat::Json && begins && !is_word && name.chars().all(is_bare) {
        name.to_owned()
    } else {
        quoted(name)
    }
}
