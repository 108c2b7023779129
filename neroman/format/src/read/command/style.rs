//! `parameters_style`: how parameters without a place in the command reach the job.

use super::hydra;
use crate::definition::{Param, Value};
use crate::read::block::Scope;
use crate::read::fields::Field;

use crate::read::params::Axis;
use crate::read::reader::Reader;
use nero_model::safe::quoted;
use nero_yaml::{Kind, Node};
use std::collections::HashSet;

/// Endings of files of parameters, which choose their format.
const FILES: &[&str] = &["json", "yaml", "yml", "toml"];

/// How parameters are handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Style {
    /// `--name value`, a true one `--name`.
    Flags,
    /// `--name=value`.
    FlagsEqual,
    /// `-name value`.
    Dashes,
    /// `name=value`.
    Hydra,
    /// Variables of the environment.
    Env,
    /// A file in the working directory.
    File(String),
}

/// Words of the format.
pub(crate) const WORDS: &[(&str, Style)] = &[
    ("flags", Style::Flags),
    ("flags=", Style::FlagsEqual),
    ("dashes", Style::Dashes),
    ("hydra", Style::Hydra),
    ("env", Style::Env),
];

/// Reads the field.
pub(crate) fn read(reader: &mut Reader<'_>, scope: &Scope, axes: &[Axis]) -> Option<Style> {
    let given = scope.get(Field::ParametersStyle)?;
    let style = match &given.value.kind {
        Kind::Map(entries) => match entries.as_slice() {
            [entry] if entry.key == "file" => {
                let path = reader.single("parameters_style.file", &entry.value)?;
                Some(Style::File(file(reader, path, &entry.value)?))
            }
            _ => None,
        },
        Kind::Scalar { text, .. } => match text.split_once(':') {
            Some(("file", path)) => Some(Style::File(file(reader, path.trim(), &given.value)?)),
            _ => WORDS
                .iter()
                .find(|(word, _)| word == text)
                .map(|(_, style)| style.clone()),
        },
        Kind::List(_) => None,
    };
    match &style {
        None => reader.wrong(
            given.value.mark,
            "this is no way to hand over parameters",
            "write flags, flags=, dashes, hydra, env, or `file: params.json` (.yaml, .toml)",
        ),
        Some(Style::File(path)) if path.ends_with(".toml") => {
            for axis in axes {
                if let Some(why) = axis.listed().iter().find_map(not_in_toml) {
                    let message =
                        format!("{} has {why}, which TOML does not know", quoted(&axis.name));
                    let hint = "quote it, so that it is a text, or write a .json or .yaml file";
                    reader.wrong(axis.mark, message, hint);
                }
            }
        }
        Some(Style::Hydra) => {
            for axis in axes.iter().filter(|axis| !hydra::is_name(&axis.name)) {
                let message = format!("{} is no name in Hydra's grammar", quoted(&axis.name));
                reader.wrong(
                    axis.mark,
                    message,
                    "take letters, digits, `_`, `-`, `.` and `/`",
                );
            }
        }
        Some(Style::Env) => {
            for axis in axes {
                let name = &axis.name;
                let is_variable = |c: char| c.is_ascii_alphanumeric() || c == '_';
                if !name.chars().all(is_variable) || name.starts_with(|c: char| c.is_ascii_digit())
                {
                    let message = format!("{} is no name of a variable", quoted(name));
                    reader.wrong(axis.mark, message, "take letters, digits and `_`");
                }
            }
        }
        Some(_) => {}
    }
    style
}

fn file(reader: &mut Reader<'_>, path: &str, node: &Node) -> Option<String> {
    let path = reader.inside("parameters_style", path, node.mark)?;
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    if FILES.contains(&ending) {
        return Some(path);
    }
    let message = format!("{} is no file of parameters", quoted(&path));
    reader.wrong(node.mark, message, "its name ends in .json, .yaml or .toml");
    None
}

/// What of a value no file of TOML can hold. A parameter without a value has no line there.
fn not_in_toml(param: &Param) -> Option<&'static str> {
    const LONG: &str = "a whole number of more than 64 bits";
    fn in_tree(value: &serde_json::Value) -> Option<&'static str> {
        match value {
            serde_json::Value::Null => Some("null within a list or map"),
            serde_json::Value::Number(number) => {
                (!number.is_i64() && !number.is_f64()).then_some(LONG)
            }
            serde_json::Value::Array(items) => items.iter().find_map(in_tree),
            serde_json::Value::Object(fields) => fields.values().find_map(in_tree),
            serde_json::Value::Bool(_) | serde_json::Value::String(_) => None,
        }
    }
    match (&param.tree, &param.value) {
        (Some(tree), _) => serde_json::from_str(tree).ok().as_ref().and_then(in_tree),
        (None, Value::Float(_)) => nero_model::whole::digits(&param.text).map(|_| LONG),
        (None, _) => None,
    }
}

impl Style {
    /// The arguments that follow the command: every parameter but those with a place in it,
    /// and those that `repeat:` made, which a program need not know.
    pub(crate) fn arguments(
        &self,
        axes: &[Axis],
        params: &[Param],
        placed: &HashSet<usize>,
    ) -> Vec<String> {
        let mut arguments = Vec::new();
        for (index, param) in params.iter().enumerate() {
            if placed.contains(&index) || !axes[index].is_written() {
                continue;
            }
            let Param {
                name, text, value, ..
            } = param;
            match (self, value) {
                (Self::Env | Self::File(_), _) => {}
                (Self::Flags | Self::FlagsEqual, Value::Bool(false) | Value::Null)
                | (Self::Dashes, Value::Bool(false) | Value::Null) => {}
                (Self::Flags | Self::FlagsEqual, Value::Bool(true)) => {
                    arguments.push(format!("--{name}"));
                }
                (Self::Dashes, Value::Bool(true)) => arguments.push(format!("-{name}")),
                (Self::Flags, _) => arguments.extend([format!("--{name}"), text.clone()]),
                (Self::FlagsEqual, _) => arguments.push(format!("--{name}={text}")),
                (Self::Dashes, _) => arguments.extend([format!("-{name}"), text.clone()]),
                (Self::Hydra, _) => arguments.push(format!("{name}={}", hydra::value(param))),
            }
        }
        arguments
    }
}
