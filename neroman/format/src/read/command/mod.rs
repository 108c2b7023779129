//! The command of a block, before its parameters have values (see `fill`).
//!
//! `command` is split first and filled then, so that one value is one argument
//! whatever blanks or quotes are in it. The original's `parameters_format` is filled
//! first and split then, since its files rely on that. No shell sees either.

mod hydra;
pub(crate) mod pyformat;
pub(crate) mod render;
pub(crate) mod script;
pub(crate) mod spec;
pub(crate) mod steps;
pub(crate) mod style;
pub(crate) mod words;

use self::pyformat::{Template, TemplateError};
use self::script::Script;
use self::steps::StepScript;
use self::style::Style;
use crate::read::block::{Scope, Setting};
use crate::read::fields::Field;
use crate::read::names::Names;
use crate::read::params::Axis;
use crate::read::reader::Reader;
use nero_model::names::variable;
use nero_model::safe::quoted;
use nero_yaml::{Kind, Mark, Node};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// A command before its places are filled.
#[derive(Debug)]
pub(crate) enum Command {
    /// Each word is one argument.
    Words(Vec<TemplateAt>),
    /// Prefix and main file, then a line that is split after filling.
    Original {
        head: Vec<String>,
        format: Option<TemplateAt>,
    },
    /// Lines that bash executes.
    Script(Script),
    Steps(Vec<StepScript>),
    /// There is none: a mistake.
    Missing,
}

/// A template, where it stands, and at which byte of its node.
#[derive(Debug)]
pub(crate) struct TemplateAt {
    pub(crate) template: Template,
    pub(crate) node: Rc<Node>,
    pub(crate) at: At,
}

/// The byte of its node at which a template begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At {
    /// All of it stands there letter for letter.
    Exactly(usize),
    /// It was quoted or escaped.
    About(usize),
}

impl At {
    pub(crate) fn start(self) -> usize {
        match self {
            At::Exactly(start) | At::About(start) => start,
        }
    }
}

/// Words that a shell would act on; we hand them over as arguments.
const SHELL_WORDS: &[&str] = &["|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1", "2>"];

/// Reads the command that holds in a block: the nearest block that gives one decides
/// between the two forms.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    scope: &Scope,
    names: &Names<'_>,
    style: Option<&Style>,
    main: Option<&str>,
    block: Mark,
) -> Command {
    let native = scope.get(Field::Command);
    let prefix = scope.get(Field::RunCommandPrefix);
    let is_original = prefix.is_some() || scope.get(Field::MainCodeFile).is_some();
    let replaces = |command: &Setting| prefix.is_some_and(|p| p.depth > command.depth);
    if let Some(command) = whole_command(reader, scope, names) {
        return command;
    }
    let original =
        |reader: &mut Reader<'_>| from_original(reader, scope, names, style.is_some(), main, block);
    match native {
        Some(command) if replaces(command) => original(reader),
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
            let splits = scope.get(Field::Split);
            let splits = splits.and_then(|given| reader.boolean(&given.key, &given.value));
            from_command(reader, names, command, splits == Some(true))
        }
        None if is_original => original(reader),
        None => {
            reader.wrong(
                block,
                "the experiment has no command",
                "give `command: python3 main.py {x}`, or `run_command_prefix` and `main_code_file`",
            );
            Command::Missing
        }
    }
}

/// `script` or `steps`, where one of them is the command of a block.
fn whole_command(reader: &mut Reader<'_>, scope: &Scope, names: &Names<'_>) -> Option<Command> {
    for field in [Field::Script, Field::Steps] {
        let Some(given) = scope.get(field) else {
            continue;
        };
        let others = [
            Field::Script,
            Field::Steps,
            Field::Command,
            Field::RunCommandPrefix,
            Field::MainCodeFile,
        ];
        let others = others.into_iter().filter(|other| *other != field);
        let others = others.filter_map(|field| scope.get(field));
        match others.max_by_key(|other| other.depth) {
            Some(other) if other.depth > given.depth => {}
            Some(other) if other.depth == given.depth => {
                reader.wrong(
                    given.key_mark.max(other.key_mark),
                    format!("`{}` and `{}` exclude each other", given.key, other.key),
                    format!("`{}` is the whole command", given.key),
                );
                return Some(Command::Missing);
            }
            Some(_) | None if field == Field::Script => {
                let script = script::read(reader, names, given);
                return Some(script.map_or(Command::Missing, Command::Script));
            }
            Some(_) | None => {
                let steps = steps::read(reader, names, given);
                return Some(steps.map_or(Command::Missing, Command::Steps));
            }
        }
    }
    None
}

/// Reads `command`. With `split: true` it is filled first and split then, as the
/// original's `parameters_format` is: a value may hold several arguments.
fn from_command(
    reader: &mut Reader<'_>,
    names: &Names<'_>,
    given: &Setting,
    splits: bool,
) -> Command {
    let before = reader.count();
    let mut result = Vec::new();
    match &given.value.kind {
        Kind::Scalar { .. } if splits => {
            let node = &given.value;
            let line = reader.single(&given.key, node);
            let format = line.and_then(|line| template(reader, names, line, node, At::Exactly(0)));
            return match format {
                Some(format) => Command::Original {
                    head: Vec::new(),
                    format: Some(format),
                },
                None => Command::Missing,
            };
        }
        Kind::List(items) => {
            if splits {
                reader.wrong(
                    given.value.mark,
                    "`split` splits a command of one line, and this one is a list",
                    "write the command as one line, or leave `split` out",
                );
            }
            for item in items {
                if let Some(text) = reader.single(&given.key, item) {
                    result.extend(template(reader, names, text, item, At::Exactly(0)));
                }
            }
        }
        Kind::Scalar { .. } => {
            let node = &given.value;
            let Some(line) = reader.single(&given.key, node) else {
                return Command::Missing;
            };
            match words_of_line(reader, names, line, node) {
                Some(words) => result = words,
                None => return Command::Missing,
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
    if result.is_empty() && reader.count() == before {
        reader.wrong(given.value.mark, "the command is empty", "");
    }
    Command::Words(result)
}

/// The words of a command in one line; `None` if it has several.
fn words_of_line(
    reader: &mut Reader<'_>,
    names: &Names<'_>,
    line: &str,
    node: &Rc<Node>,
) -> Option<Vec<TemplateAt>> {
    let mut result = Vec::new();
    let mut shell_words = 0;
    for word in split(reader, line, node) {
        if word.after_break {
            reader.wrong(
                node.mark,
                "the command has several lines",
                "write it in one line, or with `>-`, which folds lines into one",
            );
            return None;
        }
        if shell_words < 3 && note_shell_word(reader, line, node, &word, result.is_empty()) {
            shell_words += 1;
        }
        // Behind quotes and escapes only the word's own beginning is sure.
        let at = if line[word.offset..].starts_with(&word.text) {
            At::Exactly(word.offset)
        } else {
            At::About(word.offset)
        };
        result.extend(template(reader, names, &word.text, node, at));
    }
    Some(result)
}

/// The command of a reader of metrics: a line that is split, or a list. Nothing is filled
/// in, so that `awk '{…}'` is what it looks like.
pub(crate) fn of_reader(reader: &mut Reader<'_>, node: &Node) -> Option<Vec<String>> {
    let before = reader.count();
    let argv: Vec<String> = match &node.kind {
        Kind::List(items) => {
            let words = items.iter();
            let words = words.filter_map(|item| reader.single("command", item));
            words.map(str::to_owned).collect()
        }
        Kind::Scalar { .. } | Kind::Map(_) => {
            let line = reader.single("command", node)?;
            let words = split(reader, line, node);
            for (index, word) in words.iter().enumerate() {
                note_shell_word(reader, line, node, word, index == 0);
            }
            words.into_iter().map(|word| word.text).collect()
        }
    };
    if reader.count() > before {
        return None;
    }
    if argv.first().is_none_or(String::is_empty) {
        reader.wrong(node.mark, "the command is empty", "command: ./reader.py");
        return None;
    }
    Some(argv)
}

/// Says of a word that a shell would act on that we do not. Answers whether it is one.
fn note_shell_word(
    reader: &mut Reader<'_>,
    line: &str,
    node: &Node,
    word: &words::SplitWord,
    is_first: bool,
) -> bool {
    // What was quoted or escaped is meant as it stands.
    if !line[word.offset..].starts_with(&word.text) {
        return false;
    }
    let Some(told) = for_a_shell(&word.text, is_first) else {
        return false;
    };
    let mark = reader.text.mark_inside(node, word.offset);
    reader.note(Some(mark), format!("{} {told}", quoted(&word.text)));
    true
}

/// What becomes of a word that a shell would act on; none: a shell would hand it
/// over as it stands, too.
fn for_a_shell(word: &str, is_first: bool) -> Option<String> {
    const NO_SHELL: &str = "no shell runs the command";
    if SHELL_WORDS.contains(&word) {
        return Some(format!("is handed over as an argument: {NO_SHELL}"));
    }
    let assigned = word.split_once('=').filter(|(name, _)| is_variable(name));
    if let Some((name, value)) = assigned.filter(|_| is_first) {
        return Some(format!(
            "is taken for the program: {NO_SHELL}; write `env: {{{name}: {value}}}`"
        ));
    }
    if word == "~" || word.starts_with("~/") {
        return Some(format!(
            "is handed over as it stands: {NO_SHELL}; write the whole path"
        ));
    }
    let behind = word.split('$').skip(1);
    if behind
        .map(|rest| rest.chars().next())
        .any(|c| c.is_some_and(|c| c == '_' || c.is_ascii_alphabetic()))
    {
        return Some(format!(
            "is handed over as it stands: {NO_SHELL}; `env:` knows $NAME, and the job's program can look there"
        ));
    }
    (word.contains('*') && !word.starts_with('-')).then(|| {
        format!("is handed over as it stands: {NO_SHELL}, which would put names of files there")
    })
}

/// Whether a text can be the name of a variable.
fn is_variable(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && chars.all(|c| c == '_' || c.is_ascii_alphanumeric())
}

fn split(reader: &mut Reader<'_>, line: &str, node: &Node) -> Vec<words::SplitWord> {
    match words::split(line) {
        Ok(words) => words,
        Err(open) => {
            let mark = reader.text.mark_inside(node, open.offset);
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
    names: &Names<'_>,
    has_style: bool,
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
    let format = original_format(reader, scope, names, has_style);
    Command::Original { head, format }
}

fn original_format(
    reader: &mut Reader<'_>,
    scope: &Scope,
    names: &Names<'_>,
    has_style: bool,
) -> Option<TemplateAt> {
    let Some(given) = scope.get(Field::ParametersFormat) else {
        let placed_otherwise = has_style || scope.get(Field::Render).is_some();
        if let Some(first) = names
            .axes()
            .iter()
            .find(|axis| axis.is_written() && !placed_otherwise)
        {
            let places = names.axes().iter().filter(|axis| axis.is_written()).take(8);
            let places: Vec<String> = places.map(|axis| format!("{{{}}}", axis.name)).collect();
            reader.wrong(
                first.mark,
                "there are parameters and no `parameters_format` that places them",
                format!(
                    "for example `parameters_format: '{}'`",
                    crate::definition::problem::printable(&places.join(" "))
                ),
            );
        }
        return None;
    };
    let text = reader.single(&given.key, &given.value)?;
    template(reader, names, text, &given.value, At::Exactly(0))
}

/// Parses a template and reports what is wrong in it at its place.
fn template(
    reader: &mut Reader<'_>,
    names: &Names<'_>,
    text: &str,
    node: &Rc<Node>,
    at: At,
) -> Option<TemplateAt> {
    if reader.full() {
        return None;
    }
    match Template::parse(text, &|name| names.kind(name), &|name| names.hint(name)) {
        Ok(template) => Some(TemplateAt {
            template,
            node: Rc::clone(node),
            at,
        }),
        Err(errors) => {
            for error in errors {
                report(reader, node, at, error);
            }
            None
        }
    }
}

/// Reports a mistake of a template at its place.
pub(crate) fn report(reader: &mut Reader<'_>, node: &Node, at: At, error: TemplateError) {
    let offset = match at {
        At::Exactly(start) => start + error.offset,
        At::About(start) => start,
    };
    let mark = reader.text.mark_inside(node, offset);
    reader.wrong(mark, error.message, error.hint);
}

/// The positions of the parameters with a place in the command.
pub(crate) fn placed(command: &Command) -> HashSet<usize> {
    let words: Vec<&TemplateAt> = match command {
        Command::Missing => Vec::new(),
        Command::Script(script) => return script.params().collect(),
        Command::Steps(steps) => {
            let scripts = steps.iter().map(|step| &step.script);
            return scripts.flat_map(Script::params).collect();
        }
        Command::Words(words) => words.iter().collect(),
        Command::Original { format, .. } => format.iter().collect(),
    };
    words.iter().flat_map(|w| w.template.params()).collect()
}

/// Says which parameters neither the command nor a template uses.
pub(crate) fn report_unused(
    reader: &mut Reader<'_>,
    scope: &Scope,
    command: &Command,
    used: &HashSet<usize>,
    axes: &[Axis],
    name: &str,
) {
    let reads_variables = match command {
        Command::Missing => return,
        Command::Script(script) => script.reads_variables(),
        Command::Steps(steps) => steps.iter().any(|step| step.script.reads_variables()),
        Command::Words(_) | Command::Original { .. } => false,
    };
    let mut used_otherwise = [Field::ParametersStyle, Field::Setup].into_iter();
    let used_otherwise = used_otherwise.any(|field| scope.get(field).is_some());
    if used_otherwise || reads_variables {
        return;
    }
    if reader.is_table {
        // A command without a place is a row's own; its columns are for people.
        let unused = axes
            .iter()
            .enumerate()
            .filter(|(index, _)| !used.contains(index) && !used.is_empty());
        reader
            .unused
            .extend(unused.map(|(_, axis)| axis.name.clone()));
        return;
    }
    // Of parameters that make one variable the last one has it.
    let variable = |axis: &Axis| variable("NERO_PARAM_", &axis.name);
    let last: HashMap<String, usize> = axes.iter().map(variable).zip(0..).collect();
    for (index, axis) in axes.iter().enumerate() {
        if !used.contains(&index) && axis.is_written() {
            let place = if last.get(&variable(axis)) == Some(&index) {
                "its environment"
            } else {
                "`NERO_PARAMS`"
            };
            reader.note_once(
                axis.mark,
                "unused",
                format!(
                    "the command of {} does not use {}; the job sees it in {place} only",
                    quoted(name),
                    quoted(&axis.name)
                ),
            );
        }
    }
}
