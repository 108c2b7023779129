//! Variables of a job's environment that are not what they look like: names that nothing sets,
//! and two parameters that make one name.

use std::collections::HashMap;

use nero_model::names::{may_be_given, variable};
use nero_model::safe::quoted;
use nero_yaml::Mark;

use crate::read::block::Scope;
use crate::read::command::style::Style;
use crate::read::params::Axis;
use crate::read::reader::Reader;

/// Notes the variables in a value that a node may lack, which then refuses the run.
pub(super) fn note_unset(
    reader: &mut Reader<'_>,
    value: &str,
    mark: impl Fn(&Reader<'_>, usize) -> Mark,
    is_set: impl Fn(&str) -> bool,
) {
    for (at, name) in expanded(value) {
        if may_be_given(name) || is_set(name) {
            continue;
        }
        let mark = mark(reader, at);
        let text = if name.starts_with("NERO_") {
            format!(
                "`${name}` is set after `env:`, so that nodes refuse these runs; a dollar sign is written `$$`"
            )
        } else {
            format!(
                "nodes where `${name}` is not set refuse these runs; a line of `setup`, as `export NAME=${name}`, knows what login files set; a dollar sign is written `$$`"
            )
        };
        reader.note_once(mark, &format!("unset {name}"), text);
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
            let texts = axis.listed().iter().map(|param| param.text.clone());
            let texts: Vec<String> = texts.collect();
            for text in texts.iter().filter(|text| text.contains('$')) {
                let is_set = |name: &str| scope.env.iter().any(|named| named.name == name);
                note_unset(reader, text, |_, _| axis.mark, is_set);
            }
        }
    }
}
