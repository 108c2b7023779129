//! Values in Hydra's grammar of overrides.

use nero_model::json::{JsonToken, tokens};

use crate::definition::{Param, Value};
use crate::read::params::tree;

/// Whether Hydra reads an override with this name.
pub(crate) fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_./@:-+~".contains(c);
    !name.is_empty() && name.chars().all(is_part)
}

/// The value of a parameter, which Hydra reads back as the same text, number, list or map. A
/// text that is a whole list or map of plain values in brackets is one there.
pub(crate) fn value(param: &Param) -> String {
    let tree = match (&param.tree, &param.value) {
        (Some(tree), _) => Some(tree.to_string()),
        (None, Value::Text(text)) => tree::of_text(text).filter(|json| is_meant(text, json)),
        (None, _) => None,
    };
    if let Some(tree) = tree {
        return of_json(&tree);
    }
    match &param.value {
        Value::Text(text) => of_text(text),
        Value::Int(_) | Value::Float(_) if is_number(&param.text) => param.text.clone(),
        Value::Float(number) if number.is_nan() => "nan".to_owned(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            match param.json().as_str() {
                "Infinity" => "inf".to_owned(),
                "-Infinity" => "-inf".to_owned(),
                json => json.to_owned(),
            }
        }
    }
}

/// Whether a text in brackets is written as a list or a map: plain values, and at least one.
fn is_meant(text: &str, json: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./+-,:[]{}'\" ".contains(c);
    // A word of a map without a value.
    let has_nothing = json.contains("null") && !text.contains("null");
    let is_empty = json.contains("[]") || json.contains("{}");
    text.chars().all(is_plain) && !has_nothing && !is_empty
}

/// Whether Hydra reads a number in the text of a number.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '-' | '+');
    let begins = digits.as_bytes();
    let has_zeros = begins.first() == Some(&b'0') && begins.get(1).is_some_and(u8::is_ascii_digit);
    !has_zeros && digits.starts_with(|c: char| c.is_ascii_digit()) && digits.chars().all(is_part)
}

/// A list or a map.
fn of_json(json: &str) -> String {
    let all: Vec<JsonToken<'_>> = tokens(json)
        .filter(|one| *one != JsonToken::Blank)
        .collect();
    let mut written = String::with_capacity(json.len());
    for (at, token) in all.iter().enumerate() {
        match token {
            JsonToken::Text(quoted) => {
                let text: String = serde_json::from_str(quoted).unwrap_or_default();
                // Keys have no quotes in this grammar.
                match all.get(at + 1) {
                    Some(JsonToken::Sign(':')) => written.push_str(&key(&text)),
                    _ => written.push_str(&of_text(&text)),
                }
            }
            JsonToken::Number(part) | JsonToken::Word(part) => written.push_str(part),
            JsonToken::Sign(sign) => written.push(*sign),
            JsonToken::Blank => {}
        }
    }
    written
}

fn key(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for letter in text.chars() {
        if "\\()[]{}:=, \t".contains(letter) {
            written.push('\\');
        }
        written.push(letter);
    }
    written
}

/// A text: bare where it is a plain word, else in quotes. Within these a backslash is one, but
/// for those before a quote or at the end, which stand twice.
fn of_text(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_/-.".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '/'));
    let is_word = ["null", "true", "false", "nan", "inf"];
    let is_word = is_word.iter().any(|word| word.eq_ignore_ascii_case(text));
    if begins && !is_word && text.chars().all(is_part) {
        return text.to_owned();
    }
    let mut written = String::with_capacity(text.len() + 2);
    written.push('\'');
    let mut backslashes = 0;
    for letter in text.chars() {
        match letter {
            '\\' => backslashes += 1,
            '\'' => {
                written.push_str(&"\\".repeat(backslashes + 1));
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        written.push(letter);
    }
    written.push_str(&"\\".repeat(backslashes));
    written.push('\'');
    written
}
