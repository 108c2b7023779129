//! A project of mlframework in the words of `neronet.yaml`: `tasks.py` is the command, `parameters.yml`
//! the matrix. Commands begin in the framework's folder, in which the project's folder lies, and
//! there the file has its place.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use nero_config::MlframeworkHosts;
use nero_mlframework::{Parameter, ParameterValue, Task, TaskCommand, Values, tasks};
use nero_model::safe::{Safe, quoted};
use nero_yaml::Mark;

use super::{ImportedText, put_block, scalar};
use crate::fault::{Fault, Stop};
use crate::verb::noodles::{contents, refused};

const TASKS: &str = "tasks.py";
const PARAMETERS: &str = "parameters.yml";
/// Files of the framework's folder that name hosts: the second is made of the first.
const HOSTS: [&str; 2] = ["config.sh", "infra.csv"];

/// A project's folder.
pub(super) struct Project {
    /// The folder in which commands begin.
    pub(super) framework: PathBuf,
    /// The name of the project's Python package, which is its folder's name in mlframework.
    name: String,
    hosts: Option<MlframeworkHosts>,
    /// The file that names these.
    hosts_file: &'static str,
}

impl Project {
    /// The project of a folder that has a `tasks.py`, or whose `config.sh` or `infra.csv` names the
    /// folder that does.
    ///
    /// # Errors
    /// When it is none, or with every mistake in the files that name the hosts.
    pub(super) fn find(folder: &Path) -> Result<Self, Fault> {
        let no_project =
            || Fault::usage(format!("{} is no project of mlframework", folder.display()));
        let whole = fs::canonicalize(folder).map_err(|error| no_project().because(&error))?;
        let is_project = whole.join(TASKS).is_file();
        let framework = match whole.parent() {
            Some(parent) if is_project => parent,
            _ => &whole,
        };
        let is_there = |file: &&str| framework.join(file).is_file();
        let hosts_file = HOSTS.into_iter().find(is_there).unwrap_or(HOSTS[0]);
        let hosts = if is_there(&hosts_file) {
            let read = MlframeworkHosts::read(&framework.join(hosts_file));
            let what = "cannot read the hosts of the project";
            Some(read.map_err(|error| Fault::failed(what).because(&error))?)
        } else {
            None
        };
        let own = whole.file_name().filter(|_| is_project).map(Path::new);
        let named = hosts.as_ref().and_then(|hosts| hosts.folder.as_deref());
        let named = named.map(Path::new);
        let name = own.or(named).and_then(Path::to_str);
        match name.filter(|name| framework.join(name).join(TASKS).is_file()) {
            Some(name) => Ok(Self {
                framework: framework.to_owned(),
                name: name.trim_matches('/').to_owned(),
                hosts,
                hosts_file,
            }),
            None => {
                let fault = no_project().cause(format!("it has no {TASKS}"));
                Err(fault.hint("name the project's folder, or the file of a spec"))
            }
        }
    }

    /// The project in our words.
    ///
    /// # Errors
    /// All mistakes of a file, each with its place.
    pub(super) fn imported(&self) -> Result<ImportedText, Stop> {
        let read = |name: &str| {
            let path = self.framework.join(&self.name).join(name);
            let path = path.display().to_string();
            contents(&path).map(|text| (path, text))
        };
        let (path, text) = read(TASKS)?;
        let tasks = tasks(&text).map_err(|mistakes| refused(&path, &mistakes))?;
        let mut parameters = Vec::new();
        if self.framework.join(&self.name).join(PARAMETERS).exists() {
            let (path, text) = read(PARAMETERS)?;
            parameters = nero_mlframework::parameters(&text)
                .map_err(|mistakes| refused(&path, &mistakes))?;
        }
        let mut file = ImportedText {
            text: head(&self.name),
            warnings: Vec::new(),
        };
        self.put_hosts(&mut file);
        put_parameters(&mut file, &parameters);
        for (function, Mark { line, .. }) in &tasks.in_python {
            let function = quoted(function);
            file.lost(format!("{function} ({TASKS}:{line}): it is Python alone"));
        }
        for task in &tasks.tasks {
            put_task(&mut file.text, task);
        }
        Ok(file)
    }

    /// Where the runs go: the workers are a group.
    fn put_hosts(&self, file: &mut ImportedText) {
        let Some(hosts) = &self.hosts else {
            return;
        };
        let (name, from) = (&self.name, self.hosts_file);
        let node = match hosts.workers.as_slice() {
            [] => return,
            [0] => "local".to_owned(),
            _ => {
                let _ = writeln!(
                    file.text,
                    "# Its workers: neroman infra up {} -f {from}",
                    Safe::line(name)
                );
                yaml_text(name)
            }
        };
        let _ = writeln!(file.text, "node: {node}");
        if hosts.names_master {
            file.lost(format!(
                "the master and the broker of {from}: none is needed"
            ));
        }
    }
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
fn yaml_text(text: &str) -> String {
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
