//! Lists and maps that are one value of a parameter.

use nero_yaml::{Kind, Node};

use crate::definition::{Param, Value, json_of};
use crate::read::parse;
use crate::read::reader::Reader;
use crate::read::scalar::typed;

/// The JSON of a value of the file.
pub(crate) fn json(node: &Node) -> String {
    match &node.kind {
        Kind::Scalar { text, plain } => json_of(text, &typed(text, *plain)),
        Kind::List(items) => {
            let items: Vec<String> = items.iter().map(|item| json(item)).collect();
            format!("[{}]", items.join(", "))
        }
        Kind::Map(entries) => {
            let key = |key: &str| serde_json::Value::from(key).to_string();
            let entries = entries.iter();
            let entries =
                entries.map(|entry| format!("{}: {}", key(&entry.key), json(&entry.value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A list or a map as one value. Its text is what was written, where that is one line in
/// brackets; else its JSON.
pub(crate) fn param(reader: &Reader<'_>, name: &str, node: &Node) -> Param {
    let json = json(node);
    let written = reader.text.written(node);
    let is_line = written.starts_with(['[', '{']) && !written.contains(['\n', '\r']);
    let is_same = is_line && of_text(written).is_some_and(|own| own == json);
    let text = if is_same { written } else { &json };
    Param {
        tree: Some(json.as_str().into()),
        ..Param::new(name, text, Value::Text(text.to_owned()))
    }
}

/// A parameter with a value that was typed; a whole list or map in brackets is one.
pub(crate) fn typed_param(name: &str, text: &str) -> Param {
    Param {
        tree: of_text(text).map(Into::into),
        ..Param::new(name, text, typed(text, true))
    }
}

/// The JSON of a text that is a whole list or map in brackets.
pub fn of_text(text: &str) -> Option<String> {
    if !text.starts_with(['[', '{']) {
        return None;
    }
    let node = parse::cell(text).ok()??;
    (!matches!(node.kind, Kind::Scalar { .. })).then(|| json(&node))
}
