//! The JSON schema of the format, for editors: made from the same table of words that the
//! reader uses. It checks shapes; values are checked when a file is added.

use serde_json::{Map, Value, json};

use super::about::about;
use super::fields::{FIELDS, Field, RESOURCES};
use nero_expr::ACTIONS;

/// The schema of a `neronet.yaml`.
pub fn schema() -> Value {
    let block = block();
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "neronet.yaml",
        "$ref": "#/definitions/block",
        "definitions": {
            "block": block,
            "single": {"type": ["string", "number", "boolean", "null"]},
            "texts": any(&[single(), list(&single())]),
            "map": {"type": "object"},
        },
    })
}

fn block() -> Value {
    let mut properties = Map::new();
    for (word, field) in FIELDS {
        let mut shape = shape(*field);
        shape["description"] = about(word).into();
        properties.insert((*word).to_owned(), shape);
    }
    let inner = any(&[
        json!({"$ref": "#/definitions/block"}),
        json!({"type": "null"}),
    ]);
    json!({
        "type": ["object", "null"],
        "properties": properties,
        "patternProperties": {"^\\+": inner},
        "additionalProperties": false,
    })
}

fn single() -> Value {
    json!({"$ref": "#/definitions/single"})
}

fn texts() -> Value {
    json!({"$ref": "#/definitions/texts"})
}

fn list(of: &Value) -> Value {
    json!({"type": "array", "items": of})
}

fn any(of: &[Value]) -> Value {
    json!({"anyOf": of})
}

/// A value for all nodes, or one for each.
/// One container, or one for each node.
fn container() -> Value {
    let words = ["image", "runtime", "mounts", "network", "pull", "options"];
    per_node(&any(&[single(), map(&words, &texts())]))
}

fn per_node(of: &Value) -> Value {
    let each = json!({"type": "object", "additionalProperties": of});
    any(&[of.clone(), each])
}

fn map(words: &[&str], of: &Value) -> Value {
    let properties = words.iter().map(|word| ((*word).to_owned(), of.clone()));
    let properties: Map<String, Value> = properties.collect();
    json!({
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": false,
    })
}

fn choice(words: &[&str]) -> Value {
    json!({"enum": words})
}

/// The shape of a field's value.
fn shape(field: Field) -> Value {
    let anything = || json!({});
    match field {
        Field::Command => texts(),
        Field::RunCommandPrefix
        | Field::MainCodeFile
        | Field::ParametersFormat
        | Field::ResultsDir
        | Field::ResultsMax
        | Field::CustomMsg
        | Field::LogOutput
        | Field::Node
        | Field::Requires
        | Field::OnTimeout
        | Field::Progress
        | Field::Repeat
        | Field::Script
        | Field::Parent
        | Field::Keep
        | Field::Cohort
        | Field::Priority
        | Field::Stage
        | Field::Settle
        | Field::Later(_) => single(),
        Field::Buffered | Field::LineBuffered | Field::Split => {
            json!({"type": ["boolean", "string", "null"]})
        }
        Field::Parameters | Field::Conditions | Field::Render => {
            json!({"type": ["object", "null"]})
        }
        Field::Env | Field::Probes => json!({
            "type": ["object", "null"],
            "additionalProperties": single(),
        }),
        Field::Data => json!({
            "type": ["object", "null"],
            "additionalProperties": per_node(&single()),
        }),
        Field::Collection
        | Field::RequiredFiles
        | Field::Checkpoint
        | Field::Exclude
        | Field::Stages
        | Field::Tags => texts(),
        Field::DependsOn => any(&[texts(), map(&["finished", "ended", "started"], &texts())]),
        Field::Place => {
            let of = map(&["same_as", "apart_from"], &texts());
            any(&[choice(&["first", "free"]), of])
        }
        Field::Lock => any(&[single(), map(&["name", "scope"], &single())]),
        Field::Resources => map(RESOURCES, &per_node(&single())),
        Field::Files | Field::Outputs => {
            let one = any(&[single(), json!({"type": "object"})]);
            any(&[one.clone(), list(&one)])
        }
        Field::Rules => {
            let words: Vec<&str> = [ACTIONS, &["on", "repeat"]].concat();
            list(&map(&words, &single()))
        }
        Field::Metrics => {
            let words = [
                "match", "only", "skip", "decimal", "table", "file", "command",
            ];
            let one = any(&[single(), map(&words, &single())]);
            any(&[one.clone(), list(&one)])
        }
        Field::Monitor => map(&["interval", "grace", "strays"], &single()),
        Field::SbatchArgs | Field::QsubArgs | Field::Setup => per_node(&texts()),
        Field::Partition
        | Field::Account
        | Field::Qos
        | Field::Constraint
        | Field::Queue
        | Field::ParallelEnv
        | Field::Launcher
        | Field::OnLost
        | Field::Pack
        | Field::AtOnce
        | Field::Python => per_node(&single()),
        Field::OutputLineProcessor | Field::OutputFileProcessor | Field::Plot | Field::Zip => {
            anything()
        }
        Field::Container => container(),
        Field::Retry => {
            let words = ["on", "exit", "stderr", "max", "memory", "time", "after"];
            let one = any(&[single(), map(&words, &texts())]);
            any(&[one.clone(), list(&one)])
        }
        Field::Steps => list(&map(&["run", "local"], &single())),
        Field::OnError => {
            let words = ["exit", "stderr", "then", "max", "after", "run"];
            let one = map(&words, &texts());
            any(&[one.clone(), list(&one)])
        }
        Field::ParametersStyle => {
            let words = ["flags", "flags=", "dashes", "hydra", "env"];
            any(&[choice(&words), map(&["file"], &single())])
        }
    }
}
