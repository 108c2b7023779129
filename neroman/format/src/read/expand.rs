//! Expands a draft over the product of its parameters.
//!
//! The count is known before anything is made: a product over the bound is refused
//! with its size. The last-listed parameter runs fastest, and when there is more than
//! one experiment each name contains all its parameters, sorted by name.

use super::command::steps;
use super::command::style::Style;
use super::define::Draft;
use super::fill;
use super::groups::precedence;
use super::reader::{ExperimentMarks, Reader};
use crate::definition::{Definition, Param};
use nero_model::StateWord;
use nero_model::safe::quoted;
use nero_yaml::Mark;
use std::rc::Rc;

/// More experiments of one source are a mistake in a range, not a plan.
pub(crate) const EXPERIMENTS_MAX: u64 = 100_000;
/// Bytes of all definitions of a source together.
const BYTES_MAX: u64 = 1 << 30;
/// A longer name is of no use and fits no record.
const NAME_BYTES_MAX: usize = 4096;

/// Makes the experiments of a block.
pub(crate) fn expand(reader: &mut Reader<'_>, draft: &Draft, name: &str, mark: Mark) {
    let count = draft.combine.count(&draft.axes);
    let before = reader.definitions.len() as u128;
    if count.saturating_add(before) > u128::from(EXPERIMENTS_MAX) {
        refuse(reader, draft, name, mark, count);
        return;
    }
    note_name(reader, name, mark);
    let common_bytes = serde_json::to_vec(&draft.common).map_or(0, |json| json.len() as u64);
    let mut sorted: Vec<usize> = (0..draft.axes.len())
        .filter(|index| !draft.axes[*index].is_seed())
        .collect();
    sorted.sort_by(|a, b| draft.axes[*a].name.cmp(&draft.axes[*b].name));
    let mut excludes_all = true;
    for index in 0..count {
        let Some(params) = draft.combine.element(&draft.axes, index) else {
            continue;
        };
        excludes_all = false;
        let full = if count > 1 {
            suffixed(name, &params, &sorted)
        } else {
            name.to_owned()
        };
        if !make(reader, draft, full, params, mark, common_bytes) || reader.full() {
            return;
        }
    }
    if excludes_all {
        reader.wrong(
            mark,
            format!("`exclude` drops every combination of {}", quoted(name)),
            "it drops those for which one of its conditions holds",
        );
    }
}

fn refuse(reader: &mut Reader<'_>, draft: &Draft, name: &str, mark: Mark, count: u128) {
    let factors: Vec<String> = draft
        .axes
        .iter()
        .filter(|axis| axis.count() > 1)
        .take(8)
        .map(|axis| format!("{}: {}", quoted(&axis.name), axis.count()))
        .collect();
    let place = draft.axes.iter().find(|axis| axis.count() > 1);
    let place = place.map_or(mark, |axis| axis.mark);
    let (message, hint) = if count > u128::from(EXPERIMENTS_MAX) {
        let shown = if count == u128::MAX {
            "too many to count".to_owned()
        } else {
            count.to_string()
        };
        (
            format!(
                "{} would make {shown} experiments ({})",
                quoted(name),
                factors.join(" × ")
            ),
            format!(
                "one source makes at most {EXPERIMENTS_MAX}: take coarser ranges, or several sources"
            ),
        )
    } else {
        (
            format!(
                "with {} the source makes more than {EXPERIMENTS_MAX} experiments",
                quoted(name)
            ),
            "take coarser ranges, or several sources".to_owned(),
        )
    };
    reader.wrong(place, message, hint);
}

fn suffixed(name: &str, params: &[Param], sorted: &[usize]) -> String {
    let mut full = name.to_owned();
    for index in sorted {
        let param = &params[*index];
        full.extend(["_", &param.name, "-", &param.text]);
    }
    full
}

/// Adds one experiment; answers whether it is worth going on.
fn make(
    reader: &mut Reader<'_>,
    draft: &Draft,
    name: String,
    params: Vec<Param>,
    mark: Mark,
    common_bytes: u64,
) -> bool {
    let Some(argv) = fill::argv(reader, draft, &params) else {
        return true;
    };
    if name.len() > NAME_BYTES_MAX || name.contains('\0') {
        reader.wrong(
            mark,
            format!(
                "the name {} is longer than {NAME_BYTES_MAX} bytes or holds a NUL",
                quoted(&name)
            ),
            "take shorter names or values",
        );
        return false;
    }
    let key = (draft.common.collection().to_owned(), name.clone());
    if let Some(first) = reader.names.get(&key).copied() {
        refuse_twice(reader, &name, &key.0, mark, first);
        return true;
    }
    reader.names.insert(key, mark);
    let variable: usize = argv.iter().map(String::len).sum::<usize>() * 2
        + params
            .iter()
            .map(|p| p.name.len() + 2 * p.text.len() + 64)
            .sum::<usize>();
    reader.bytes += common_bytes + variable as u64 + 2 * name.len() as u64;
    if reader.bytes > BYTES_MAX {
        reader.wrong(
            mark,
            format!(
                "the experiments up to {} are larger than {} MiB",
                quoted(&name),
                BYTES_MAX >> 20
            ),
            "put long values into files that travel with the run",
        );
        return false;
    }
    if !draft.needs_marks.is_empty() {
        reader.written.push(ExperimentMarks {
            of: reader.definitions.len(),
            marks: Rc::clone(&draft.needs_marks),
        });
    }
    let mut definition = filled(draft, name, argv, params);
    if let Some(before) = reader.definitions.last() {
        definition.share(before);
    }
    reader.definitions.push(definition);
    true
}

/// Reports that two experiments of a collection have the same name.
fn refuse_twice(reader: &mut Reader<'_>, name: &str, collection: &str, mark: Mark, first: Mark) {
    let hint = if first == mark {
        "a list holds the same value twice".to_owned()
    } else {
        format!(
            "the other one is in {}; names are unique in a collection",
            reader.text.beside(first)
        )
    };
    reader.wrong(
        mark,
        format!(
            "{} comes twice in the collection {}",
            quoted(name),
            quoted(collection)
        ),
        hint,
    );
}

/// The definition of one experiment; `None` when a mistake was reported.
pub(crate) fn definition(
    reader: &mut Reader<'_>,
    draft: &Draft,
    name: String,
    params: Vec<Param>,
) -> Option<Definition> {
    let argv = fill::argv(reader, draft, &params)?;
    Some(filled(draft, name, argv, params))
}

fn filled(draft: &Draft, name: String, argv: Vec<String>, params: Vec<Param>) -> Definition {
    let mut definition = draft.common.clone();
    definition.command_text = steps::shown_steps(&argv).unwrap_or_else(|| joined(&argv));
    definition.name = name;
    definition.argv = argv;
    if draft.style == Some(Style::Env) {
        for (axis, param) in draft.axes.iter().zip(&params) {
            let is_given = definition.env.iter().any(|(name, _)| *name == param.name);
            if axis.is_written() && !is_given {
                definition
                    .env
                    .push((param.name.clone(), Some(param.text.clone())));
            }
        }
    }
    precedence::fill(&mut definition.precedence, &params);
    definition.params = params;
    definition
}

/// The arguments as one line, quoted where a shell would need it.
fn joined(argv: &[String]) -> String {
    let shown: Vec<String> = argv
        .iter()
        .map(|arg| nero_model::data::display_text(arg))
        .collect();
    shlex::try_join(shown.iter().map(String::as_str)).unwrap_or_default()
}

/// A name that looks like something else is kept, with a note.
fn note_name(reader: &mut Reader<'_>, name: &str, mark: Mark) {
    if let Some(what) = looks_like(name) {
        reader.note(
            Some(mark),
            format!(
                "the name {} looks like {what}: select it in backticks, '`{}`'",
                quoted(name),
                crate::definition::problem::printable(name)
            ),
        );
    }
}

/// What a selector takes a text for before it looks for names.
fn looks_like(name: &str) -> Option<&'static str> {
    const WORDS: &[&str] = &["all", "last", "live", "failed", "done", "changed", "gone"];
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let pair = |separator| {
        name.split_once(separator)
            .is_some_and(|(a, b)| digits(a) && digits(b))
    };
    let stepped = name.split_once(':').and_then(|(range, step)| {
        range
            .split_once('-')
            .map(|(a, b)| digits(a) && digits(b) && digits(step))
    });
    if digits(name) {
        Some("an id")
    } else if pair('-') || stepped == Some(true) {
        Some("a range of ids")
    } else if pair('.') {
        Some("a run")
    } else if WORDS.contains(&name) || name.parse::<StateWord>().is_ok() {
        Some("a state word")
    } else if name.starts_with("tag:") {
        Some("a tag")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_something_else_are_noticed() {
        let table = [
            ("144", Some("an id")),
            ("124-186", Some("a range of ids")),
            ("1-9:2", Some("a range of ids")),
            ("144.2", Some("a run")),
            ("crashed", Some("a state word")),
            ("all", Some("a state word")),
            ("tag:x", Some("a tag")),
            ("lr-0.1", None),
            ("exp1", None),
            ("1-a", None),
        ];
        for (name, want) in table {
            assert_eq!(looks_like(name), want, "{name}");
        }
    }
}
