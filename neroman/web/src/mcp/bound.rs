//! Documents that an agent can read at once: the heaviest lists and texts are cut, and what was left
//! out is told.

use std::collections::BTreeMap;

use nero_views::json;
use serde_json::{Value, json};

/// Bytes of an answer.
const BYTES_MAX: usize = 50_000;
/// Room for what is told about the cuts.
const RESERVE: usize = 1000;

/// The same document, at most so long; `left_out` tells of each cut place how much of it is there.
pub(super) fn bounded(mut value: Value) -> Value {
    // Of each place that was cut: how much it had.
    let mut cuts: BTreeMap<String, usize> = BTreeMap::new();
    let mut length = size(&value);
    while length > BYTES_MAX - RESERVE {
        let (path, heaviest) = heaviest(&mut value);
        let before = halve(heaviest);
        cuts.entry(path).or_insert(before);
        let now = size(&value);
        if now >= length {
            break;
        }
        length = now;
    }
    if cuts.is_empty() {
        return value;
    }
    let told = cuts.iter().map(|(path, before)| {
        let kept = value.pointer(path).map_or(0, count);
        json!({"at": path, "kept": kept, "of": before})
    });
    let told: Vec<Value> = told.collect();
    value["left_out"] = json!(told);
    value["ask_on"] =
        json!("pick fewer experiments, name columns, or go on with `offset` or `from`");
    value
}

fn size(value: &Value) -> usize {
    json::print(value).len()
}

/// The list, text or object that makes most of a document, with its place.
fn heaviest(value: &mut Value) -> (String, &mut Value) {
    let whole = size(value);
    let child: Option<(String, usize)> = match &*value {
        Value::Object(fields) => {
            let sizes = fields
                .iter()
                .map(|(name, field)| (escaped(name), size(field)));
            sizes.max_by_key(|(_, size)| *size)
        }
        Value::Array(items) => {
            let sizes = items
                .iter()
                .enumerate()
                .map(|(at, item)| (at.to_string(), size(item)));
            sizes.max_by_key(|(_, size)| *size)
        }
        _ => None,
    };
    match child {
        Some((name, size)) if size * 2 > whole => {
            let path = format!("/{name}");
            let child = value.pointer_mut(&path).expect("the child was found");
            let (below, heaviest) = heaviest(child);
            (path + &below, heaviest)
        }
        _ => (String::new(), value),
    }
}

/// A name in a pointer of JSON.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Keeps the first half; returns how much there was.
fn halve(value: &mut Value) -> usize {
    let before = count(value);
    match value {
        Value::Array(items) => items.truncate(before / 2),
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().skip(before / 2).cloned().collect();
            fields.retain(|name, _| !names.contains(name));
        }
        Value::String(text) => {
            let end = text.floor_char_boundary(before / 2);
            text.truncate(end);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    before
}

/// Items, fields or bytes.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        Value::String(text) => text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_document_keeps_its_first_rows_and_tells_of_the_others() {
        let row = json!({"name": "x".repeat(100)});
        let long = json!({"experiments": vec![row; 5000], "total": 5000});
        let cut = bounded(long);
        assert!(size(&cut) <= BYTES_MAX, "{}", size(&cut));
        let kept = cut["experiments"].as_array().expect("rows").len();
        assert!(kept > 200, "{kept}");
        assert_eq!(cut["total"], 5000);
        assert_eq!(
            cut["left_out"],
            json!([{"at": "/experiments", "kept": kept, "of": 5000}])
        );
    }

    #[test]
    fn a_long_text_below_short_fields_is_cut_and_a_short_document_is_not() {
        let text = "ä".repeat(50_000);
        let cut = bounded(json!({"runs": [{"a/b": text, "id": 7}]}));
        assert!(size(&cut) <= BYTES_MAX);
        assert_eq!(cut["runs"][0]["id"], 7);
        assert_eq!(cut["left_out"][0]["at"], "/runs/0/a~1b");
        let short = json!({"runs": [1, 2]});
        assert_eq!(bounded(short.clone()), short);
        let wide: serde_json::Map<String, Value> = (0..9000)
            .map(|at| (format!("name {at}"), json!(at)))
            .collect();
        assert!(size(&bounded(Value::Object(wide))) <= BYTES_MAX);
    }
}
