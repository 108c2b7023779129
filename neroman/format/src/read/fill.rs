//! The arguments of a command for given parameters.

use super::command::{Command, TemplateAt, report, steps, words};
use super::define::Draft;
use super::reader::{PathKind, Reader};
use crate::definition::Param;
use nero_model::safe::quoted;

/// The arguments for given parameters, or `None` when a mistake was reported.
pub(crate) fn argv(
    reader: &mut Reader<'_>,
    draft: &Draft,
    params: &[Param],
) -> Option<Vec<String>> {
    let command = &draft.command;
    let mut argv = match command {
        Command::Missing => return Some(Vec::new()),
        Command::Script(script) => script.argv(reader, params)?,
        Command::Steps(all) => steps::argv(reader, all, params)?,
        Command::Words(words) => {
            let mut argv = Vec::with_capacity(words.len());
            for word in words {
                argv.push(fill_word(reader, word, params)?);
            }
            argv
        }
        Command::Original { head, format } => {
            let mut argv = head.clone();
            if let Some(word) = format {
                let line = fill_word(reader, word, params)?;
                match words::split(&line) {
                    Ok(words) => argv.extend(words.into_iter().map(|w| w.text)),
                    Err(open) => {
                        reader.wrong(
                            word.node.mark,
                            format!("in {} the `{}` is not closed", quoted(&line), open.quote),
                            "quote the place, or use `command`, in which a value is one argument",
                        );
                        return None;
                    }
                }
            }
            argv
        }
    };
    if let (
        Command::Original {
            format: Some(word), ..
        },
        true,
    ) = (command, argv.is_empty())
    {
        reader.wrong(word.node.mark, "the command is empty", "");
        return None;
    }
    check_program(reader, command, &argv);
    if let Some(style) = &draft.style {
        argv.extend(style.arguments(&draft.axes, params, &draft.placed));
    }
    Some(argv)
}

fn fill_word(reader: &mut Reader<'_>, word: &TemplateAt, params: &[Param]) -> Option<String> {
    match word.template.fill(params) {
        Ok(text) => Some(text),
        Err(error) => {
            report(reader, &word.node, word.at, error);
            None
        }
    }
}

/// A program named by a path of the folder must be there.
fn check_program(reader: &mut Reader<'_>, command: &Command, argv: &[String]) {
    let (Command::Words(words), Some(program)) = (command, argv.first()) else {
        return;
    };
    let Some(word) = words.first() else {
        return;
    };
    if program.is_empty() {
        reader.wrong(word.node.mark, "the program's name is empty", "");
        return;
    }
    let elsewhere = program.starts_with(['/', '~', '$']) || nero_model::data::has_mark(program);
    if !program.contains('/') || elsewhere {
        return;
    }
    let mark = reader.text.mark_inside(&word.node, word.at.start());
    match reader.path_kind(program) {
        PathKind::File { executable: true } => {}
        PathKind::File { executable: false } => reader.note(
            Some(mark),
            format!("{} is not executable: `chmod +x` it", quoted(program)),
        ),
        PathKind::Folder => reader.wrong(
            mark,
            format!("{} is a folder", quoted(program)),
            "name a program",
        ),
        PathKind::Nothing => {
            let folder =
                crate::definition::problem::printable(&reader.folder.display().to_string());
            reader.wrong(
                mark,
                format!("the program {} does not exist", quoted(program)),
                format!("it is looked for in {folder}; without a `/` it is looked for on the node's PATH"),
            );
        }
    }
}
