//! Fields, settings, words of expressions, states and reasons, exit codes.

use std::path::Path;

use nero_config::{GROUP_SETTINGS, NODE_SETTINGS, SETTINGS};
use nero_expr::{ACTIONS, Fact, FactKind, Fold, NodeFact, State};
use nero_model::{EndReason, StateWord};
use serde_json::Value;

use crate::{Chapter, source, table, typed};

/// `fields.md`, from the schema.
pub fn fields() -> Chapter {
    let schema = nero_format::schema();
    let properties = schema["definitions"]["block"]["properties"].as_object();
    let mut rows: Vec<[String; 3]> = properties
        .into_iter()
        .flatten()
        .map(|(word, shape)| {
            let about = shape["description"].as_str().unwrap_or_default();
            [typed(word), value(shape), about.to_owned()]
        })
        .collect();
    rows.sort();
    let body = "Fields of `neronet.yaml`, by name. `+name:` begins an experiment, and inner blocks \
                inherit the fields of outer ones. [The format](../format.md) explains each.\n\n";
    let body = body.to_owned() + &table(["field", "value", "about"], rows);
    Chapter::new("fields.md", "Fields of neronet.yaml", &body)
}

/// The values that a schema takes, in words.
fn value(shape: &Value) -> String {
    if let Some(name) = shape["$ref"].as_str() {
        return match name.rsplit('/').next() {
            Some("single") => "a value".to_owned(),
            Some("texts") => "a value or a list".to_owned(),
            _ => "a map".to_owned(),
        };
    }
    if let Some(each) = shape["anyOf"].as_array() {
        let mut words: Vec<String> = Vec::new();
        for one in each {
            let is_per_node =
                one["additionalProperties"].is_object() && one["properties"].is_null();
            let item = value(&one["items"]);
            words.push(if is_per_node {
                "one for each node".to_owned()
            } else if one["items"].is_object() && item == words.join(", or ") {
                "a list of these".to_owned()
            } else {
                value(one)
            });
        }
        return words.join(", or ");
    }
    if let Some(words) = shape["enum"].as_array() {
        let words: Vec<String> = words.iter().filter_map(Value::as_str).map(typed).collect();
        return words.join(" ");
    }
    if let Some(inner) = shape["properties"].as_object() {
        let words: Vec<String> = inner.keys().map(|word| typed(word)).collect();
        return format!("a map of {}", words.join(" "));
    }
    match &shape["type"] {
        Value::String(kind) if kind == "array" => format!("a list: {}", value(&shape["items"])),
        kind if kind.to_string().contains("boolean") => "`true` or `false`".to_owned(),
        kind if kind.to_string().contains("object") => "a map".to_owned(),
        _ => "a map or a list".to_owned(),
    }
}

/// `settings.md`.
pub fn settings() -> Chapter {
    let rows = |words: &[(&str, &str)], outer: &str| {
        let row =
            |(word, about): &(&str, &str)| [typed(&format!("{outer}{word}")), (*about).to_owned()];
        table(["key", "is"], words.iter().map(row).collect::<Vec<_>>())
    };
    let body = format!(
        "Keys of `config.yaml`. `neroman config set KEY VALUE` changes one, \
         `neroman config show --origin` prints those in force. [Nodes](../nodes.md) explains them.\n\n{}\n\
         ## Nodes\n\n{}\n## Groups\n\n{}\n\
         `defaults:` holds fields of experiments that stand below those of every file.\n",
        rows(&SETTINGS, ""),
        rows(&NODE_SETTINGS, "nodes.NAME."),
        rows(&GROUP_SETTINGS, "groups.NAME."),
    );
    Chapter::new("settings.md", "Settings of config.yaml", &body)
}

/// `expressions.md`.
pub fn expressions(root: &Path) -> Result<Chapter, String> {
    let facts = source::documented(root, "proto/expr/src/words/fact.rs", "pub enum Fact {")?;
    let facts = Fact::ALL.map(|fact| row(fact.as_str(), fact.kind(), source::of(&facts, &fact)));
    let nodes = source::documented(root, "proto/expr/src/words/node.rs", "pub enum NodeFact {")?;
    let nodes =
        NodeFact::ALL.map(|fact| row(fact.as_str(), fact.kind(), source::of(&nodes, &fact)));
    let folds = source::documented(root, "proto/expr/src/words/past.rs", "pub enum Fold {")?;
    let folds = Fold::ALL.map(|fold| {
        let about = source::of(&folds, &fold)?;
        Ok([typed(&format!("{}(loss)", fold.as_str())), about])
    });
    let actions: Vec<String> = ACTIONS.iter().map(|word| typed(word)).collect();
    let heads = ["word", "kind", "means"];
    let body = format!(
        "Words of selectors, rules and columns. [Selectors, expressions, rules](../selectors.md) \
         has the grammar. Parameters and metrics are named by their own names.\n\n\
         ## Facts of a run\n\n{}\n## Facts of a node, in `requires`\n\n{}\n\
         ## The past of a metric\n\n{}\n`loss@10` is the value at step 10, `mean(loss, 10m)` that of the \
         last ten minutes.\n\n## Actions of rules\n\n{}.\n",
        table(heads, whole(facts)?),
        table(heads, whole(nodes)?),
        table(["written", "means"], whole(folds)?),
        actions.join(", "),
    );
    Ok(Chapter::new(
        "expressions.md",
        "Words of expressions",
        &body,
    ))
}

fn row(word: &str, of: FactKind, about: Result<String, String>) -> Result<[String; 3], String> {
    Ok([typed(word), kind(of).to_owned(), about?])
}

fn whole<T>(rows: impl IntoIterator<Item = Result<T, String>>) -> Result<Vec<T>, String> {
    rows.into_iter().collect()
}

fn kind(kind: FactKind) -> &'static str {
    match kind {
        FactKind::Number => "number",
        FactKind::Seconds => "duration",
        FactKind::Bytes => "size",
        FactKind::Text => "text",
        FactKind::Time => "moment",
        FactKind::Version => "version",
        FactKind::Words => "words",
    }
}

/// A reason of each kind, in JSON.
const REASONS: &str = r#"
{"kind": "exited", "code": 3}
{"kind": "signalled", "signal": 11, "core_dumped": false}
{"kind": "disk_full", "code": 1}
{"kind": "out_of_memory", "code": 0}
{"kind": "not_started", "stage": "execute ./train", "errno": 2}
{"kind": "by_person", "who": "ada"}
{"kind": "by_rule", "rule": 7, "text": "abort: loss > 5", "values": "loss = 7.3"}
{"kind": "time_limit", "limit_ms": 7200000}
{"kind": "by_scheduler", "scheduler": "SLURM", "how": "out_of_memory"}
{"kind": "taken_away", "who": "ada"}
{"kind": "code_unknown"}
{"kind": "rebooted"}
{"kind": "node_gone", "who": "ada"}
{"kind": "other", "text": "what the node wrote"}
"#;

/// `states.md`.
pub fn states(root: &Path) -> Result<Chapter, String> {
    let mut docs = source::documented(root, "proto/expr/src/words/state.rs", "pub enum State {")?;
    for head in ["pub enum StateWord {", "pub enum Phase {"] {
        docs.extend(source::documented(root, "proto/model/src/state.rs", head)?);
    }
    let about = |state| match state {
        State::Single(StateWord::Phase(phase)) => source::of(&docs, &phase),
        State::Single(single) => source::of(&docs, &single),
        several => source::of(&docs, &several),
    };
    let states: Result<Vec<_>, String> = State::words()
        .filter_map(|word| Some((word, State::from_word(word)?)))
        .map(|(word, state)| Ok([typed(word), about(state)?]))
        .collect();
    let docs = source::documented(root, "proto/model/src/state.rs", "pub enum EndReason {")?;
    let mut rows = Vec::new();
    for line in REASONS.trim().lines() {
        let sample: Value =
            serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let kind = sample["kind"].as_str().unwrap_or_default().to_owned();
        let name: String = kind.split('_').map(capital).collect();
        let reason: EndReason =
            serde_json::from_value(sample).map_err(|error| format!("{kind}: {error}"))?;
        let about = docs.iter().find(|(known, _)| *known == name);
        let (_, about) = about.ok_or_else(|| format!("no reason `{name}`"))?;
        rows.push([format!("`` {reason} ``"), source::plain(about)]);
    }
    if rows.len() != docs.len() {
        return Err(
            "a reason of `EndReason` has no sample in xtask/manual/src/words.rs".to_owned(),
        );
    }
    let body = format!(
        "The word in the column `state` of `neroman status`, which selectors know, too. \
         [Selectors](../selectors.md#states) tells what each verb does with them.\n\n{}\n\
         ## Reasons\n\nThe reason of an end, as `neroman show` prints it, for example.\n\n{}",
        table(["state", "means"], states?),
        table(["for example", "means"], rows),
    );
    Ok(Chapter::new("states.md", "States and reasons", &body))
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(usize::from(!word.is_empty()));
    first.to_uppercase() + rest
}

/// `exit-codes.md`.
pub fn exit_codes(root: &Path) -> Result<Chapter, String> {
    let file = "neroman/cli/src/fault.rs";
    let docs = source::documented(root, file, "pub mod code {")?;
    let text =
        std::fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
    let rows = docs.iter().map(|(name, about)| {
        let code = text.split_once(&format!("pub const {name}: u8 = "));
        let code = code.and_then(|(_, rest)| rest.split_once(';'));
        let (code, _) = code.ok_or_else(|| format!("{file}: `{name}` has no number"))?;
        Ok([typed(code), about.clone()])
    });
    let rows: Vec<[String; 2]> = rows.collect::<Result<_, String>>()?;
    let body = "Exit codes of every verb; they are a promise. [JSON](../json.md) has the form of \
                errors with `--json`.\n\n";
    let body = body.to_owned() + &table(["code", "means"], rows);
    Ok(Chapter::new("exit-codes.md", "Exit codes", &body))
}
