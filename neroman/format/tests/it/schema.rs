//! The JSON schema holds for what is read, and refuses words that are none.

use std::path::Path;

use nero_format::schema;
use serde_json::{Value, json};

/// Whether a value fits a schema, as far as the parts go that ours uses.
fn fits(value: &Value, of: &Value, root: &Value) -> bool {
    let own = |key: &str| of.get(key);
    if let Some(name) = own("$ref").and_then(Value::as_str) {
        let inner = root.pointer(name.trim_start_matches('#'));
        return fits(value, inner.unwrap_or_else(|| panic!("no {name}")), root);
    }
    if let Some(of) = own("anyOf").and_then(Value::as_array) {
        return of.iter().any(|of| fits(value, of, root));
    }
    if let Some(words) = own("enum").and_then(Value::as_array) {
        return words.contains(value);
    }
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let has_type = |types: &Value| match types {
        Value::Array(types) => types.iter().any(|one| one == is),
        one => one == is,
    };
    if own("type").is_some_and(|types| !has_type(types)) {
        return false;
    }
    match value {
        Value::Array(items) => {
            let of = own("items").cloned().unwrap_or(json!({}));
            items.iter().all(|item| fits(item, &of, root))
        }
        Value::Object(entries) => entries.iter().all(|(key, value)| {
            let named = own("properties").and_then(|named| named.get(key));
            let block = own("patternProperties").and_then(|of| of.get("^\\+"));
            let block = block.filter(|_| key.starts_with('+'));
            match named.or(block).or(own("additionalProperties")) {
                None => true,
                Some(Value::Bool(allowed)) => *allowed,
                Some(of) => fits(value, of, root),
            }
        }),
        _ => true,
    }
}

fn tree(node: &nero_yaml::Node) -> Value {
    match &node.kind {
        nero_yaml::Kind::Scalar { .. } if node.is_null() => Value::Null,
        nero_yaml::Kind::Scalar { text, plain } => match text.as_str() {
            "true" | "false" if *plain => Value::Bool(text == "true"),
            text => text
                .parse::<f64>()
                .ok()
                .filter(|_| *plain)
                .map_or(json!(text), |x| json!(x)),
        },
        nero_yaml::Kind::List(items) => items.iter().map(|item| tree(item)).collect(),
        nero_yaml::Kind::Map(entries) => {
            let each = entries.iter();
            Value::Object(
                each.map(|one| (one.key.clone(), tree(&one.value)))
                    .collect(),
            )
        }
    }
}

fn read(text: &str) -> Value {
    let limits = nero_yaml::Limits {
        depth: 64,
        key_chars: 1024,
        values: 100_000,
        repeated: 100_000,
    };
    let node = nero_yaml::parse(text, &limits, &mut |_| {})
        .unwrap_or_else(|wrong| panic!("{wrong:?}: {text}"));
    node.map_or(Value::Null, |node| tree(&node))
}

/// The YAML of a page that is a description: it is read as one by the format.
fn examples() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = |name: &str| {
        let text = std::fs::read_to_string(root.join(name));
        (
            name.to_owned(),
            text.unwrap_or_else(|error| panic!("{name}: {error}")),
        )
    };
    let mut all = vec![
        file("examples/penguins/neronet.yaml"),
        file("examples/sums/config.yaml"),
    ];
    for name in ["format", "parameters", "jobs", "order", "metrics"] {
        let (name, page) = file(&format!("docs/{name}.md"));
        for (number, part) in page.split("```yaml\n").skip(1).enumerate() {
            let text = part.split("```").next().unwrap_or_default();
            all.push((format!("{name}, example {number}"), text.to_owned()));
        }
    }
    all
}

#[test]
fn every_example_fits_the_schema_and_words_that_are_none_do_not() {
    let schema = schema();
    let examples = examples();
    assert!(examples.len() > 8, "{examples:?}");
    for (name, text) in &examples {
        assert!(fits(&read(text), &schema, &schema), "{name}: {text}");
    }
    for wrong in [
        "comand: prog",
        "+a: {commandd: prog}",
        "+a: prog",
        "+a: {command: {x: 1}}",
        "+a: {+b: {env: [A=1]}}",
        "+a: {command: prog, resources: {gpu: 1}}",
        "+a: {command: prog, resources: {cpus: {alpha: [1]}}}",
        "+a: {command: prog, rules: [{stop: loss > 3}]}",
        "+a: {command: prog, rules: 'abort: x'}",
        "+a: {command: prog, parameters_style: argparse}",
        "+a: {command: prog, monitor: {intervall: 3}}",
    ] {
        assert!(!fits(&read(wrong), &schema, &schema), "{wrong}");
    }
}
