//! A project in the words of `neronet.yaml`: `tasks.py` is the command, `parameters.yml` the matrix.

use std::fmt::Write as _;

use nero_format::{ImportedText, put_block, scalar};
use nero_model::safe::{Safe, quoted};
use nero_yaml::Mark;

use crate::{Parameter, ParameterValue, Task, TaskCommand, Tasks, Values};

/// The project of this name. `hosts`: what the file tells of its hosts. The files are called
/// `tasks_file` and `parameters_file`.
pub fn imported(
    name: &str,
    hosts: ImportedText,
    (parameters_file, parameters): (&str, &[Parameter]),
    (tasks_file, tasks): (&str, &Tasks),
) -> ImportedText {
    let mut file = ImportedText {
        text: head(name) + &hosts.text,
        warnings: hosts.warnings,
    };
    put_parameters(&mut file, parameters_file, parameters);
    for (function, Mark { line, .. }) in &tasks.in_python {
        let function = quoted(function);
        file.lost(format!(
            "{function} ({tasks_file}:{line}): it is Python alone"
        ));
    }
    for task in &tasks.tasks {
        put_task(&mut file.text, task);
    }
    file
}

/// What the file begins with.
fn head(name: &str) -> String {
    format!(
        "# The project {} of mlframework, by `neroman import`.\n\
         collection: {}\n\
         files: [{}]\n\
         lock: worker                      # one task at a time on each host, as there\n\
         resources: {{gpus: unmanaged}}      # a task sees all GPUs, as there\n",
        Safe::line(name),
        yaml_text(name),
        yaml_text(&format!("{name}/")),
    )
}

fn put_parameters(file: &mut ImportedText, from: &str, parameters: &[Parameter]) {
    let mut rows = String::new();
    for Parameter {
        name,
        place,
        values,
    } in parameters
    {
        let values = match values {
            Values::One(one) => value(one),
            Values::List(all) => {
                let all: Vec<String> = all.iter().map(value).collect();
                format!("[{}]", all.join(", "))
            }
            Values::Range(ends) => format!("{{range: [{}]}}", ends.join(", ")),
            Values::Flag(is_set) => is_set.to_string(),
            Values::Nothing | Values::Map => {
                let why = match values {
                    Values::Map => "a map is no parameter",
                    _ => "it has no value",
                };
                let at = place.line;
                file.lost(format!("{} ({from}:{at}): {why}", quoted(name)));
                continue;
            }
        };
        let _ = writeln!(rows, "  {}: {values}", yaml_text(name));
    }
    if !rows.is_empty() {
        let _ = write!(file.text, "parameters:\n{rows}");
    }
}

fn put_task(text: &mut String, task: &Task) {
    let _ = writeln!(text, "\n+{}:", task.name);
    let words = match (&task.command, task.before.as_slice()) {
        (TaskCommand::Words(words), []) => Some(words.clone()),
        (TaskCommand::Shell(line), []) => without_shell(line),
        (_, [_, ..]) => None,
    };
    match words {
        Some(words) => {
            let words: Vec<String> = words.iter().map(|one| yaml_text(&in_braces(one))).collect();
            let _ = writeln!(text, "  command: [{}]", words.join(", "));
        }
        None => {
            text.push_str("  command:\n    - sh\n    - -c\n");
            put_block(text, "    - ", &in_braces(&script(task)));
            text.push_str("    - sh\n");
        }
    }
    if task.takes_parameters {
        text.push_str("  parameters_style: flags\n");
    }
}

/// The words of a line that means the same without a shell.
fn without_shell(line: &str) -> Option<Vec<String>> {
    let fits = |c: char| c.is_alphanumeric() || " _./:,@%+-=".contains(c);
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let sets_variable = words.first().is_some_and(|first| first.contains('='));
    (line.chars().all(fits) && !sets_variable)
        .then(|| words.into_iter().map(str::to_owned).collect())
}

/// All commands of a task as lines of `sh`, which gets the parameters. How those before the last
/// one end is of no account, as there.
fn script(task: &Task) -> String {
    let line = |command: &TaskCommand| match command {
        TaskCommand::Shell(line) => line.clone(),
        TaskCommand::Words(words) => {
            let words = words.iter().map(String::as_str);
            shlex::try_join(words).unwrap_or_default()
        }
    };
    let mut script = String::new();
    for command in &task.before {
        let _ = writeln!(script, "(\n{}\n)", line(command));
    }
    let exec = match &task.command {
        TaskCommand::Words(_) => "exec ",
        TaskCommand::Shell(_) => "",
    };
    let rest = if task.takes_parameters { " \"$@\"" } else { "" };
    let _ = writeln!(script, "{exec}{}{rest}", line(&task.command));
    script
}

/// A text in which `{` begins no place of a parameter.
fn in_braces(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

fn value(one: &ParameterValue) -> String {
    if one.is_number {
        one.text.clone()
    } else {
        yaml_text(&one.text)
    }
}

/// A text as a value of YAML, without quotes where these change nothing.
pub fn yaml_text(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_./+-=".contains(c);
    let is_plain = text.chars().all(fits)
        && text.contains(|c: char| c.is_ascii_alphabetic())
        && !text.starts_with('=')
        && nero_yaml::number(text).is_none()
        && nero_yaml::boolean(text).is_none()
        && !nero_yaml::is_null_text(text);
    if is_plain {
        text.to_owned()
    } else {
        scalar(text)
    }
}
