//! Variables of a job's environment that are not what they look like: names that nothing sets,
//! and two parameters that make one name.

use std::collections::HashMap;

use nero_model::names::variable;
use nero_model::safe::quoted;
use nero_yaml::Mark;

use crate::read::block::Scope;
use crate::read::command::style::Style;
use crate::read::params::Axis;
use crate::read::reader::Reader;

/// What a job has before `env:`, on every node.
const GIVEN: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TZ",
    "TMPDIR",
    "PATH",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
];
/// Begins of names that the shell of `add` or a scheduler may give.
const PERHAPS: &[&str] = &["CONDA_", "SLURM_", "PBS_", "SGE_", "LSB_"];

/// Tells of the variables in a value that nothing sets: nothing comes in their place.
pub(super) fn note_unset(
    reader: &mut Reader<'_>,
    value: &str,
    mark: impl Fn(&Reader<'_>, usize) -> Mark,
    is_set: impl Fn(&str) -> bool,
) {
    for (at, name) in expanded(value) {
        let is_given = GIVEN.contains(&name) || PERHAPS.iter().any(|begin| name.starts_with(begin));
        if is_given || is_set(name) {
            continue;
        }
        let why = if name.starts_with("NERO_") {
            "is set after `env:`"
        } else {
            "is set by nothing that every node has; where it is not set"
        };
        let mark = mark(reader, at);
        reader.note_once(
            mark,
            &format!("unset {name}"),
            format!("`${name}` {why}, nothing comes in its place; a dollar sign is written `$$`"),
        );
    }
}

/// The names behind `$` in a value and their places, as nodes find them.
fn expanded(value: &str) -> Vec<(usize, &str)> {
    let mut names = Vec::new();
    let mut from = 0;
    while let Some(at) = value[from..].find('$').map(|at| from + at) {
        let behind = &value[at + 1..];
        from = at + 1;
        if behind.starts_with('$') {
            from += 1;
            continue;
        }
        let braced = behind.strip_prefix('{');
        let name = braced.unwrap_or(behind);
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = name.find(|c| !is_part(c)).unwrap_or(name.len());
        let (name, rest) = name.split_at(length);
        let is_closed = braced.is_none() || rest.starts_with('}');
        if is_closed && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            names.push((at, name));
        }
    }
    names
}

/// Tells of parameters that are variables by the way, or by their style.
pub(super) fn check(reader: &mut Reader<'_>, scope: &Scope, axes: &[Axis], style: Option<&Style>) {
    let mut made: HashMap<String, Vec<&Axis>> = HashMap::new();
    for axis in axes {
        let name = variable("NERO_PARAM_", &axis.name);
        made.entry(name).or_default().push(axis);
    }
    for axis in axes {
        let name = variable("NERO_PARAM_", &axis.name);
        let alike = &made[&name];
        if let [first, .., last] = alike.as_slice()
            && first.name == axis.name
        {
            let names: Vec<String> = alike.iter().map(|one| quoted(&one.name)).collect();
            let (names, last) = (names.join(", "), quoted(&last.name));
            reader.note_once(
                axis.mark,
                "one variable",
                format!("{names} have one variable, {name}, and it has the value of {last}; `NERO_PARAMS` has each"),
            );
        }
    }
    if style == Some(&Style::Env) {
        for axis in axes {
            let texts: Vec<String> = axis
                .listed()
                .iter()
                .map(|param| param.text.clone())
                .collect();
            for text in texts.iter().filter(|text| text.contains('$')) {
                let is_set = |name: &str| scope.env.iter().any(|named| named.name == name);
                note_unset(reader, text, |_, _| axis.mark, is_set);
            }
        }
    }
}
