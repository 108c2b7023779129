//! The command of a block, before its parameters have values (see `fill`).
//!
//! `command` is split first and filled then, so that one value is one argument
//! whatever blanks or quotes are in it. The original's `parameters_format` is filled
//! first and split then, since its files rely on that. No shell sees either.

use crate::block::{Given, Scope};
use crate::fields::{Field, nearest};
use crate::params::Axis;
use crate::problem::quoted;
use crate::pyformat::{NameKind, Template, TemplateError};
use crate::reader::Reader;
use crate::source::Mark;
use crate::tree::{Kind, Node};
use crate::words;
use std::rc::Rc;

/// A command before its places are filled.
#[derive(Debug)]
pub(crate) enum Command {
    /// Each word is one argument.
    Words(Vec<Word>),
    /// Prefix and main file, then a line that is split after filling.
    Original {
        head: Vec<String>,
        format: Option<Word>,
    },
    /// There is none: a mistake, or another field's matter that is not built.
    Missing,
}

/// A template, where it stands, and at which byte of its node.
#[derive(Debug)]
pub(crate) struct Word {
    pub(crate) template: Template,
    pub(crate) node: Rc<Node>,
    pub(crate) offset: usize,
}

/// Words that a shell would act on; we hand them over as arguments.
const SHELL_WORDS: &[&str] = &["|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1", "2>"];

/// Reads the command that holds in a block: the nearest block that gives one decides
/// between the two forms.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    scope: &Scope,
    axes: &[Axis],
    main: Option<&str>,
    block: Mark,
) -> Command {
    let native = scope.get(Field::Command);
    let prefix = scope.get(Field::RunCommandPrefix);
    let is_original = prefix.is_some() || scope.get(Field::MainCodeFile).is_some();
    let replaces = |command: &Given| prefix.is_some_and(|p| p.depth > command.depth);
    match native {
        Some(command) if replaces(command) => from_original(reader, scope, axes, main, block),
        Some(command) => {
            if let Some(prefix) = prefix.filter(|p| p.depth == command.depth) {
                reader.wrong(
                    prefix.key_mark,
                    "`command` and `run_command_prefix` exclude each other",
                    "write the whole command line into `command`",
                );
            }
            if let Some(format) = scope.get(Field::ParametersFormat)
                && format.depth >= command.depth
            {
                reader.wrong(
                    format.key_mark,
                    format!("`{}` goes with `run_command_prefix`", format.key),
                    "put the places into `command`: python3 main.py {x} {y}",
                );
            }
            from_command(reader, scope, axes, command)
        }
        None if is_original => from_original(reader, scope, axes, main, block),
        None => {
            if scope.get(Field::Later("script")).is_none() {
                reader.wrong(
                    block,
                    "the experiment has no command",
                    "give `command: python3 main.py {x}`, or `run_command_prefix` and `main_code_file`",
                );
            }
            Command::Missing
        }
    }
}

fn from_command(reader: &mut Reader<'_>, scope: &Scope, axes: &[Axis], given: &Given) -> Command {
    let before = reader.problems.count();
    let mut result = Vec::new();
    match &given.value.kind {
        Kind::List(items) => {
            for item in items {
                if let Some(text) = reader.single(&given.key, item) {
                    result.extend(template(reader, scope, axes, text, item, 0));
                }
            }
        }
        Kind::Scalar { .. } => {
            let node = &given.value;
            let Some(line) = reader.single(&given.key, node) else {
                return Command::Missing;
            };
            for word in split(reader, line, node) {
                if word.after_break {
                    reader.wrong(
                        node.mark,
                        "the command has several lines",
                        "write it in one line, or with `>-`, which folds lines into one",
                    );
                    return Command::Missing;
                }
                note_shell_word(reader, line, node, &word);
                // Behind quotes and escapes only the word's own beginning is sure.
                let literal = line[word.offset..].starts_with(&word.text);
                let built = template(reader, scope, axes, &word.text, node, word.offset);
                result.extend(built.map(|mut w| {
                    if !literal {
                        w.offset = word.offset;
                    }
                    w
                }));
            }
        }
        Kind::Map(_) => {
            let example = "command: python3 main.py {x}";
            reader.wrong(
                given.value.mark,
                "`command` takes a line or a list of arguments, not a map",
                format!("for example `{example}`; quote it if it begins with a brace"),
            );
            return Command::Missing;
        }
    }
    if result.is_empty() && reader.problems.count() == before {
        reader.wrong(given.value.mark, "the command is empty", "");
    }
    Command::Words(result)
}

fn note_shell_word(reader: &mut Reader<'_>, line: &str, node: &Node, word: &words::Word) {
    if SHELL_WORDS.contains(&word.text.as_str()) && line[word.offset..].starts_with(&word.text) {
        let mark = node.mark_inside(reader.text, word.offset);
        reader.note(
            Some(mark),
            format!(
                "{} is handed over as an argument: no shell runs the command",
                quoted(&word.text)
            ),
        );
    }
}

fn split(reader: &mut Reader<'_>, line: &str, node: &Node) -> Vec<words::Word> {
    match words::split(line) {
        Ok(words) => words,
        Err(open) => {
            let mark = node.mark_inside(reader.text, open.offset);
            reader.wrong(
                mark,
                format!("the `{}` is not closed", open.quote),
                "close it, or give the command as a list, in which nothing is split",
            );
            Vec::new()
        }
    }
}

fn from_original(
    reader: &mut Reader<'_>,
    scope: &Scope,
    axes: &[Axis],
    main: Option<&str>,
    block: Mark,
) -> Command {
    let mut head = Vec::new();
    match scope.get(Field::RunCommandPrefix) {
        None => reader.wrong(
            block,
            "`run_command_prefix` is missing",
            "for example `run_command_prefix: python3`; empty quotes run the file itself",
        ),
        Some(given) => {
            if let Some(line) = reader.single(&given.key, &given.value) {
                let words = split(reader, line, &given.value);
                head.extend(words.into_iter().map(|word| word.text));
            }
        }
    }
    match main {
        Some(main) if head.is_empty() => head.push(format!("./{main}")),
        Some(main) => head.push(main.to_owned()),
        None if scope.get(Field::MainCodeFile).is_none() => reader.wrong(
            block,
            "`main_code_file` is missing",
            "name the program's file, or give the whole line as `command`",
        ),
        None => {}
    }
    let format = original_format(reader, scope, axes);
    Command::Original { head, format }
}

fn original_format(reader: &mut Reader<'_>, scope: &Scope, axes: &[Axis]) -> Option<Word> {
    let Some(given) = scope.get(Field::ParametersFormat) else {
        let placed_otherwise = ["parameters_style", "render"]
            .into_iter()
            .any(|word| scope.get(Field::Later(word)).is_some());
        if let Some(first) = axes.first().filter(|_| !placed_otherwise) {
            let places: Vec<String> = axes
                .iter()
                .map(|axis| format!("{{{}}}", axis.name))
                .collect();
            reader.wrong(
                first.mark,
                "there are parameters and no `parameters_format` that places them",
                format!(
                    "for example `parameters_format: '{}'`",
                    crate::problem::printable(&places.join(" "))
                ),
            );
        }
        return None;
    };
    let text = reader.single(&given.key, &given.value)?;
    template(reader, scope, axes, text, &given.value, 0)
}

/// Parses a template and reports what is wrong in it at its place.
fn template(
    reader: &mut Reader<'_>,
    scope: &Scope,
    axes: &[Axis],
    text: &str,
    node: &Rc<Node>,
    offset: usize,
) -> Option<Word> {
    let kind = |name: &str| name_kind(scope, axes, name);
    let hint = |name: &str| unknown_hint(axes, name);
    match Template::parse(text, &kind, &hint) {
        Ok(template) => Some(Word {
            template,
            node: Rc::clone(node),
            offset,
        }),
        Err(errors) => {
            for error in errors {
                report(reader, node, offset, error);
            }
            None
        }
    }
}

/// Reports a mistake of a template at its place.
pub(crate) fn report(reader: &mut Reader<'_>, node: &Node, offset: usize, error: TemplateError) {
    let mark = node.mark_inside(reader.text, offset + error.offset);
    reader.wrong(mark, error.message, error.hint);
}

fn name_kind(scope: &Scope, axes: &[Axis], name: &str) -> NameKind {
    if axes.iter().any(|axis| axis.name == name) {
        return NameKind::Parameter;
    }
    let filled_by = match name {
        "repeat" | "seed" => "repeat",
        "params_file" => "parameters_style",
        name if name.starts_with("data.") => "data",
        _ => return NameKind::Unknown,
    };
    match scope.get(Field::Later(filled_by)) {
        Some(_) => NameKind::Later,
        None => NameKind::Unknown,
    }
}

fn unknown_hint(axes: &[Axis], name: &str) -> String {
    const SHOWN: usize = 8;
    if let Some(near) = nearest(name, axes.iter().map(|axis| axis.name.as_str())) {
        return format!("did you mean {}?", quoted(near));
    }
    if axes.is_empty() {
        return format!(
            "give it a value: `parameters: {{{}: 1}}`",
            crate::problem::printable(name)
        );
    }
    let mut known: Vec<String> = axes
        .iter()
        .take(SHOWN)
        .map(|axis| quoted(&axis.name))
        .collect();
    if axes.len() > SHOWN {
        known.push("…".into());
    }
    format!("the parameters are {}", known.join(", "))
}

/// Says which parameters the command does not use.
pub(crate) fn report_unused(
    reader: &mut Reader<'_>,
    scope: &Scope,
    command: &Command,
    axes: &[Axis],
    name: &str,
) {
    let used_otherwise = ["script", "parameters_style", "render", "setup"]
        .into_iter()
        .any(|word| scope.get(Field::Later(word)).is_some());
    let words: Vec<&Word> = match command {
        Command::Missing => return,
        Command::Words(words) => words.iter().collect(),
        Command::Original { format, .. } => format.iter().collect(),
    };
    if used_otherwise {
        return;
    }
    for axis in axes {
        let used = words
            .iter()
            .any(|word| word.template.names().any(|n| n == axis.name));
        if !used {
            reader.note(
                Some(axis.mark),
                format!(
                    "the command of {} does not use {}; the job sees it in its environment only",
                    quoted(name),
                    quoted(&axis.name)
                ),
            );
        }
    }
}
