//! The original's `output_line_processor`, `output_file_processor` and `plot`: functions of Python
//! modules that read what a run has written and draw it. Called with what comes home; nothing here
//! runs them.

use ignore::gitignore::GitignoreBuilder;
use nero_model::safe::quoted;
use nero_yaml::{Entry, Mark, Node};

use crate::definition::{
    Output, OutputPlot, OutputProcessing, ProcessedOutput, ProcessedUnit, PythonCall, Stream,
};
use crate::read::block::Scope;
use crate::read::command::words;
use crate::read::fields::{self, Field};
use crate::read::reader::{PathKind, Reader};

/// The module whose functions neroman brings along.
const BUILT_IN: &str = "example";
/// What the functions of that module are called.
const BUILT_IN_FUNCTIONS: &[&str] = &["line_reader", "file_reader", "plot"];

/// Reads the three fields. A log that they read joins `outputs`, so that it comes home whole.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    scope: &Scope,
    outputs: &mut Vec<Output>,
) -> OutputProcessing {
    let mut processing = OutputProcessing::default();
    let kinds = [
        (Field::OutputFileProcessor, ProcessedUnit::File),
        (Field::OutputLineProcessor, ProcessedUnit::Line),
    ];
    for (field, unit) in kinds {
        let Some(given) = scope.get(field) else {
            continue;
        };
        let word = fields::field_name(field);
        let example = format!("{word}: {{stdout.log: 'module function args'}}");
        for Entry {
            key,
            key_mark: mark,
            value,
            ..
        } in reader.map(word, &given.value, &example)
        {
            let Some(file) = file(reader, word, key, *mark, outputs) else {
                continue;
            };
            let Some(call) = call(reader, &format!("{word}.{key}"), value, 0) else {
                continue;
            };
            if processing.outputs.iter().any(|known| known.file == file) {
                // As in the original: a processor of the whole file is preferred.
                let file = quoted(&file);
                reader.note(
                    Some(*mark),
                    format!("{file} has a processor already; this one is not used"),
                );
                continue;
            }
            processing.outputs.push(ProcessedOutput {
                file,
                unit,
                call: call.0,
            });
        }
    }
    processing.plots = plots(reader, scope, &processing.outputs);
    if !outputs.is_empty() {
        for (name, stream) in [
            ("stdout.log", Stream::Stdout),
            ("stderr.log", Stream::Stderr),
        ] {
            let is_read = processing.outputs.iter().any(|one| one.file == name);
            if is_read && !outputs.iter().any(|output| output.path == name) {
                outputs.push(Output {
                    path: name.to_owned(),
                    stream: Some(stream),
                    fetch: crate::definition::Fetch::default(),
                    max_bytes: None,
                });
            }
        }
    }
    processing
}

/// The file that a processor reads: one that comes home.
fn file(
    reader: &mut Reader<'_>,
    word: &str,
    written: &str,
    mark: Mark,
    outputs: &[Output],
) -> Option<String> {
    let name = as_file(written);
    if let "stdout.log" | "stderr.log" = name {
        return Some(name.to_owned());
    }
    let path = reader.inside("outputs", name, mark)?;
    let mut globs = GitignoreBuilder::new("/");
    for output in outputs.iter().filter(|output| output.stream.is_none()) {
        // A glob with a mistake was reported where it stands. From the folder down, as the node
        // reads them.
        let _ = globs.add_line(None, &format!("/{}", output.path.trim_start_matches('/')));
    }
    let comes_home = globs
        .build()
        .is_ok_and(|globs| globs.matched_path_or_any_parents(&path, false).is_ignore());
    if outputs.is_empty() || comes_home {
        return Some(path);
    }
    let hint = format!("{word} reads what comes home: name the file in `outputs`");
    reader.wrong(
        mark,
        format!("{} is not among `outputs`", quoted(written)),
        hint,
    );
    None
}

/// The file that a log's name stands for.
fn as_file(written: &str) -> &str {
    match written {
        "stdout" => "stdout.log",
        "stderr" => "stderr.log",
        other => other,
    }
}

fn plots(reader: &mut Reader<'_>, scope: &Scope, outputs: &[ProcessedOutput]) -> Vec<OutputPlot> {
    let Some(given) = scope.get(Field::Plot) else {
        return Vec::new();
    };
    let example = "plot: {loss.svg: 'example plot stdout.log loss step'}";
    let mut plots: Vec<OutputPlot> = Vec::new();
    for Entry {
        key,
        key_mark: mark,
        value,
        ..
    } in reader.map("plot", &given.value, example)
    {
        let is_name = !key.is_empty()
            && !key.starts_with('.')
            && !key.contains(['/', '\\'])
            && !key.contains(char::is_control)
            && outputs.iter().all(|output| output.file != *key);
        if !is_name {
            reader.wrong(
                *mark,
                format!("{} is no name for a picture", quoted(key)),
                "it becomes a file beside the results, for example `loss.svg`",
            );
            continue;
        }
        let Some((call, Some(file))) = call(reader, &format!("plot.{key}"), value, 1) else {
            continue;
        };
        let file = as_file(&file).to_owned();
        if outputs.iter().all(|output| output.file != file) {
            let hint =
                format!("for example `output_line_processor: {{{file}: 'module function'}}`");
            reader.wrong(
                value.mark,
                format!(
                    "{} has no processor whose values could be drawn",
                    quoted(&file)
                ),
                hint,
            );
            continue;
        }
        plots.push(OutputPlot {
            name: key.clone(),
            file,
            call,
        });
    }
    plots
}

/// `module function args…`, or `module function file args…` of a plot.
fn call(
    reader: &mut Reader<'_>,
    what: &str,
    node: &Node,
    files: usize,
) -> Option<(PythonCall, Option<String>)> {
    let line = reader.single(what, node)?;
    let shape = match files {
        0 => "module function arguments",
        _ => "module function file arguments",
    };
    let words = words::split_command(line);
    let Some(words) = words else {
        reader.wrong(
            node.mark,
            format!("`{what}` has a quote that is not closed"),
            "",
        );
        return None;
    };
    let mut words = words.into_iter();
    let (Some(module), Some(function)) = (words.next(), words.next()) else {
        reader.wrong(
            node.mark,
            format!("`{what}` takes `{shape}`, not {}", quoted(line)),
            "a function of a Python module in this folder, or of `example`",
        );
        return None;
    };
    let file = (files > 0).then(|| words.next());
    if file == Some(None) {
        reader.wrong(
            node.mark,
            format!("`{what}` takes `{shape}`, not {}", quoted(line)),
            "the file is the one whose values are drawn: `stdout.log`",
        );
        return None;
    }
    let is_word = |name: &str| {
        name.starts_with(|c: char| c == '_' || c.is_alphabetic())
            && name.chars().all(|c| c == '_' || c.is_alphanumeric())
    };
    if !module.split('.').all(is_word) || !is_word(&function) {
        reader.wrong(
            node.mark,
            format!(
                "{} is no function of a Python module",
                quoted(&format!("{module} {function}"))
            ),
            "the module is written as in `import`: `curves`, not `curves.py`",
        );
        return None;
    }
    check_there(reader, &module, &function, node.mark)?;
    let call = PythonCall {
        module,
        function,
        arguments: words.collect(),
    };
    Some((call, file.flatten()))
}

/// Whether the module can be there: in the folder, or among those of `python3`.
fn check_there(reader: &mut Reader<'_>, module: &str, function: &str, mark: Mark) -> Option<()> {
    let path = module.replace('.', "/");
    let mut is_there = |path: String| !matches!(reader.path_kind(&path), PathKind::Nothing);
    if is_there(format!("{path}.py")) || is_there(path) {
        return Some(());
    }
    if module != BUILT_IN {
        let text = format!(
            "there is no {} in the folder; `python3` is asked for the module",
            quoted(&format!("{}.py", module.replace('.', "/")))
        );
        reader.note_once(mark, "module", text);
    } else if !BUILT_IN_FUNCTIONS.contains(&function) {
        let known = BUILT_IN_FUNCTIONS.join(", ");
        reader.wrong(
            mark,
            format!("`{BUILT_IN}` has no function {}", quoted(function)),
            format!("it has {known}"),
        );
        return None;
    }
    Some(())
}
