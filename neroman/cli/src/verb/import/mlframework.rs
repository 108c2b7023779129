//! A project of mlframework in the words of `neronet.yaml`: `tasks.py` is the command, `parameters.yml`
//! the matrix. Commands begin in the framework's folder, in which the project's folder lies, and
//! there the file has its place.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use nero_mlframework::{
    Parameter, ParameterValue, Task, TaskCommand, Tasks, Values, parameters, tasks,
};
use nero_model::safe::{Safe, quoted};

use super::{ImportedText, put_block, scalar};
use crate::fault::{Fault, Stop};
use crate::verb::noodles::{contents, refused};

const TASKS: &str = "tasks.py";
const PARAMETERS: &str = "parameters.yml";

/// A project's folder.
pub(super) struct Project {
    /// The folder in which commands begin.
    pub(super) framework: PathBuf,
    /// Its name in there, which is that of its Python package.
    name: String,
}

impl Project {
    /// The project of a folder: it has a `tasks.py`.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn find(folder: &Path) -> Result<Self, Fault> {
        let shown = folder.display();
        let no_project = || Fault::usage(format!("{shown} is no project of mlframework"));
        let whole = fs::canonicalize(folder).map_err(|error| no_project().because(&error))?;
        if !whole.join(TASKS).is_file() {
            let fault = no_project().cause(format!("it has no {TASKS}"));
            return Err(fault.hint("name the project's folder, or the file of a spec"));
        }
        let name = whole.file_name().and_then(|name| name.to_str());
        let (Some(framework), Some(name)) = (whole.parent(), name) else {
            return Err(no_project().cause("a project lies in the framework's folder"));
        };
        Ok(Self {
            framework: framework.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The project in our words.
    ///
    /// # Errors
    /// All mistakes of a file, each with its place.
    pub(super) fn imported(&self) -> Result<ImportedText, Stop> {
        let folder = self.framework.join(&self.name);
        let read = |name: &str| {
            let path = folder.join(name).display().to_string();
            contents(&path).map(|text| (path, text))
        };
        let (path, text) = read(TASKS)?;
        let tasks = tasks(&text).map_err(|mistakes| refused(&path, &mistakes))?;
        let parameters = if folder.join(PARAMETERS).exists() {
            let (path, text) = read(PARAMETERS)?;
            parameters(&text).map_err(|mistakes| refused(&path, &mistakes))?
        } else {
            Vec::new()
        };
        Ok(written(&self.name, &tasks, &parameters))
    }
}

/// The file.
fn written(name: &str, tasks: &Tasks, parameters: &[Parameter]) -> ImportedText {
    let mut file = ImportedText::default();
    let text = &mut file.text;
    let _ = writeln!(
        text,
        "# The project {} of mlframework, by `neroman import`.\n\
         collection: {}\n\
         files: [{}]\n\
         lock: worker                      # one task at a time on each host, as there\n\
         resources: {{gpus: unmanaged}}      # a task sees all GPUs, as there",
        Safe::line(name),
        word(name),
        word(&format!("{name}/")),
    );
    put_parameters(&mut file, parameters);
    for (task, place) in &tasks.in_python {
        let line = place.line;
        let what = format!(
            "the task {} ({TASKS}:{line}): it is Python alone",
            quoted(task)
        );
        file.lost(what);
    }
    for task in &tasks.tasks {
        put_task(&mut file.text, task);
    }
    file
}

fn put_parameters(file: &mut ImportedText, parameters: &[Parameter]) {
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
                file.lost(format!("{} ({PARAMETERS}:{at}): {why}", quoted(name)));
                continue;
            }
        };
        let _ = writeln!(rows, "  {}: {values}", word(name));
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
            let words: Vec<String> = words.iter().map(|one| word(&in_braces(one))).collect();
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
        word(&one.text)
    }
}

/// A text as a value of YAML, without quotes where these change nothing.
fn word(text: &str) -> String {
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
