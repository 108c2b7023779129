//! What a run asks of a scheduler: `partition`, `account`, `setup`, options of
//! `sbatch` and `qsub`, GPUs. Each value holds for all nodes, or is given per node:
//! `partition: {triton: gpu, default: batch}`.

use crate::block::{Given, Scope};
use crate::definition::{OnNode, OnNodes, Scheduling};
use crate::fields::Field;
use crate::reader::Reader;
use nero_model::safe::quoted;
use nero_warden::{OptionError, Word};
use nero_yaml::{Kind, Node};

/// The key of a value that holds for every other node.
const DEFAULT: &str = "default";
const NAME: &str = "letters, digits and _ . + - @, beginning with a letter or digit";

/// Reads the fields of a block; those in `resources` are read with it.
pub(crate) fn read(reader: &mut Reader<'_>, scope: &Scope) -> Scheduling {
    Scheduling {
        partition: word(reader, scope, Field::Partition),
        account: word(reader, scope, Field::Account),
        qos: word(reader, scope, Field::Qos),
        constraint: field(reader, scope, Field::Constraint, constraint),
        queue: word(reader, scope, Field::Queue),
        parallel_env: word(reader, scope, Field::ParallelEnv),
        setup: field(reader, scope, Field::Setup, setup),
        sbatch_args: field(reader, scope, Field::SbatchArgs, |reader, key, value| {
            options(reader, key, value, true, nero_warden::slurm::check_options)
        }),
        qsub_args: field(reader, scope, Field::QsubArgs, |reader, key, value| {
            options(reader, key, value, false, nero_warden::oge::check_options)
        }),
        ..Scheduling::default()
    }
}

fn word(reader: &mut Reader<'_>, scope: &Scope, of: Field) -> OnNodes<String> {
    field(reader, scope, of, name)
}

/// A field that does nothing on a node without a scheduler, which a note says.
fn field<T>(
    reader: &mut Reader<'_>,
    scope: &Scope,
    of: Field,
    read: impl Fn(&mut Reader<'_>, &str, &Node) -> Option<T>,
) -> OnNodes<T> {
    let Some(given) = scope.get(of) else {
        return OnNodes::default();
    };
    let Given {
        key,
        key_mark,
        value,
        ..
    } = given;
    if of != Field::Setup {
        let text = format!("`{key}` is for nodes with a scheduler; elsewhere it does nothing");
        reader.note(Some(*key_mark), text);
    }
    on_nodes(reader, key, value, read)
}

/// One value for all nodes, or one for each.
pub(crate) fn on_nodes<T>(
    reader: &mut Reader<'_>,
    key: &str,
    value: &Node,
    read: impl Fn(&mut Reader<'_>, &str, &Node) -> Option<T>,
) -> OnNodes<T> {
    let mut each = Vec::new();
    match &value.kind {
        Kind::Map(entries) => {
            for entry in entries {
                let node = (entry.key != DEFAULT).then(|| entry.key.clone());
                if entry.value.is_null() {
                    continue;
                }
                if let Some(value) = read(reader, &format!("{key}.{}", entry.key), &entry.value) {
                    each.push(OnNode { node, value });
                }
            }
        }
        Kind::Scalar { .. } | Kind::List(_) if value.is_null() => {}
        Kind::Scalar { .. } | Kind::List(_) => {
            let value = read(reader, key, value);
            each.extend(value.map(|value| OnNode { node: None, value }));
        }
    }
    OnNodes(each)
}

/// A name of the site.
pub(crate) fn name(reader: &mut Reader<'_>, key: &str, value: &Node) -> Option<String> {
    let text = reader.single(key, value)?;
    if Word::new(text).is_ok() {
        return Some(text.to_owned());
    }
    let message = format!("{} of `{key}` is no name of a scheduler", quoted(text));
    reader.wrong(value.mark, message, format!("a name has {NAME}"));
    None
}

fn constraint(reader: &mut Reader<'_>, key: &str, value: &Node) -> Option<String> {
    let text = reader.single(key, value)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-&|*[]()".contains(c);
    if !text.is_empty() && text.chars().all(fits) {
        return Some(text.to_owned());
    }
    let message = format!("{} of `{key}` is no constraint of SLURM", quoted(text));
    reader.wrong(
        value.mark,
        message,
        "for example `ib&avx2` or `[rack1|rack2]`",
    );
    None
}

/// A whole number of GPUs.
pub(crate) fn gpus(reader: &mut Reader<'_>, key: &str, value: &Node) -> Option<u32> {
    let text = reader.single(key, value)?;
    let number = text.parse::<u32>().ok().filter(|number| *number <= 10_000);
    if number.is_none() {
        let message = format!("`{key}` takes a whole number, not {}", quoted(text));
        reader.wrong(
            value.mark,
            message,
            "for example 1; parts of a GPU are not built yet",
        );
    }
    number
}

/// Lines of the shell.
fn setup(reader: &mut Reader<'_>, key: &str, value: &Node) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    for (text, node) in reader.several(key, value) {
        if text.contains(['\0', '\r']) {
            let message = format!("a line of `{key}` contains a control character");
            reader.wrong(node.mark, message, "for example `module load cuda`");
            return None;
        }
        lines.extend(text.lines().map(str::to_owned));
    }
    Some(lines)
}

/// Options of a scheduler. In a list each is checked here; the original's single
/// text is read as well when it has options that are ours, which a node with a
/// scheduler then refuses.
fn options(
    reader: &mut Reader<'_>,
    key: &str,
    value: &Node,
    sticks: bool,
    check: impl Fn(&[String]) -> Result<(), OptionError>,
) -> Option<Vec<String>> {
    let is_text = matches!(value.kind, Kind::Scalar { .. });
    let mut options = Vec::new();
    for (text, node) in reader.several(key, value) {
        let Some(words) = joined(text, sticks) else {
            reader.wrong(
                node.mark,
                format!("`{key}` has a quote that does not end"),
                "",
            );
            return None;
        };
        match check(&words) {
            Ok(()) => {}
            Err(error @ OptionError::Ours { .. }) if is_text => reader.note(
                Some(node.mark),
                format!("`{key}`: {error}; a node with a scheduler refuses the run"),
            ),
            Err(error) => reader.wrong(node.mark, format!("`{key}`: {error}"), ""),
        }
        options.extend(words);
    }
    Some(options)
}

/// The options of a text, each with its value in one word: `--x y` is `--x=y`.
/// `sticks`: an option of one letter has its value behind it, `-p a` is `-pa`.
/// `None`: a quote does not end.
fn joined(text: &str, sticks: bool) -> Option<Vec<String>> {
    let mut options: Vec<String> = Vec::new();
    for word in shlex::split(text)? {
        match options.last_mut() {
            Some(option) if !word.starts_with('-') && !option.contains('=') => {
                if !sticks || option.len() > 2 {
                    option.push('=');
                }
                option.push_str(&word);
            }
            Some(_) | None => options.push(word),
        }
    }
    Some(options)
}
