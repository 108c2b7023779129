//! Batch scripts of SLURM and Grid Engine as sources: `#SBATCH` and `#$` lines become
//! the fields of an experiment whose command is the script itself.
//!
//! The result is the tree that a YAML file of the same meaning would have; its marks lie
//! in the script, so that a mistake is shown at the option that it comes from.

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use nero_yaml::{Entry, Kind, Mark, Node};

use crate::definition::problem::Problem;
use crate::read::directives::{
    Dialect, ScriptRequest, ScriptValue, TASKS_MAX, directives, engine, slurm,
};
use crate::read::text::Text;

/// Endings of files that are read as batch scripts.
pub(crate) const ENDINGS: [&str; 5] = ["slurm", "sbatch", "sge", "job", "sh"];
/// The parameter that an array's index becomes.
const TASK: &str = "task";

/// Whether a file is read as a batch script.
pub(crate) fn is_script(file: &Path) -> bool {
    let ending = file.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

impl Dialect {
    /// The variable that has the index of an array's task.
    fn task_variable(self) -> &'static str {
        match self {
            Self::Slurm => "SLURM_ARRAY_TASK_ID",
            Self::GridEngine => "SGE_TASK_ID",
        }
    }

    /// The variables that tell a task about the array of its script. Programs cut their data by
    /// them, and the array of a submission may be another one.
    fn describe(self, tasks: &[u64], step: u64) -> Vec<(&'static str, String)> {
        let first = tasks.iter().min().copied().unwrap_or_default();
        let last = tasks.iter().max().copied().unwrap_or_default();
        match self {
            Self::Slurm => {
                let count: BTreeSet<&u64> = tasks.iter().collect();
                vec![
                    ("SLURM_ARRAY_TASK_COUNT", count.len().to_string()),
                    ("SLURM_ARRAY_TASK_MIN", first.to_string()),
                    ("SLURM_ARRAY_TASK_MAX", last.to_string()),
                    ("SLURM_ARRAY_TASK_STEP", step.to_string()),
                ]
            }
            Self::GridEngine => vec![
                ("SGE_TASK_FIRST", first.to_string()),
                ("SGE_TASK_LAST", last.to_string()),
                ("SGE_TASK_STEPSIZE", step.to_string()),
            ],
        }
    }

    /// The variable that names the folder of the submission.
    fn folder_variable(self) -> &'static str {
        match self {
            Self::Slurm => "SLURM_SUBMIT_DIR",
            Self::GridEngine => "SGE_O_WORKDIR",
        }
    }
}

/// The tree of a script, and notes about what is left out of it.
///
/// # Errors
/// When it has no line of a scheduler, or asks for more tasks than an experiment has.
pub(crate) fn read(text: &Text, file: &Path) -> Result<(Node, Vec<(Mark, String)>), Problem> {
    let (dialect, lines) = [Dialect::Slurm, Dialect::GridEngine]
        .into_iter()
        .map(|dialect| (dialect, directives(&text.text, dialect)))
        .find(|(_, lines)| !lines.is_empty())
        .ok_or_else(|| without_options(text))?;
    let wanted = match dialect {
        Dialect::Slurm => slurm::wanted(&lines),
        Dialect::GridEngine => engine::wanted(&lines),
    };
    if let Some(at) = text.text.find("\r\n") {
        let line = text.text[..at].matches('\n').count() + 1;
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        let mark = Mark { line, column: 1 };
        let message = "this line ends with a carriage return, which no scheduler takes";
        return Err(text.problem(
            mark,
            message,
            "save the script with line ends of UNIX: dos2unix",
        ));
    }
    let parts = ["hetjob", "packjob"];
    if let Some(part) = lines.iter().find(|one| parts.contains(&one.name.as_str())) {
        let message = "a heterogeneous job is several jobs, and an experiment is one";
        return Err(text.problem(part.mark, message, "write each part as a script of its own"));
    }
    if let Some(tasks) = &wanted.tasks
        && tasks.value.len() as u64 > TASKS_MAX
    {
        let message = format!("an array of more than {TASKS_MAX} tasks");
        return Err(text.problem(tasks.mark, message, "split it into several files"));
    }
    Ok(tree(text, file, dialect, wanted))
}

fn without_options(text: &Text) -> Problem {
    Problem::of_file(
        format!("{} has no line that begins with #SBATCH or #$", text.file),
        "describe it in a neronet.yaml, as `command: bash script.sh`, or start it with \
         `neroman run`",
    )
}

fn tree(
    text: &Text,
    file: &Path,
    dialect: Dialect,
    wanted: ScriptRequest,
) -> (Node, Vec<(Mark, String)>) {
    let top = Mark { line: 1, column: 1 };
    let mut entries = Vec::new();
    let mut notes = wanted.notes;
    let mut command = if wanted.tasks.is_some() {
        vec![
            "env".to_owned(),
            format!("{}={{{TASK}}}", dialect.task_variable()),
        ]
    } else {
        Vec::new()
    };
    command.extend(interpreter(text, wanted.shell, &mut notes));
    let name = file.file_name().and_then(|name| name.to_str());
    command.push(literal(name.unwrap_or_default()));
    let words = command.into_iter().map(|word| scalar(word, top));
    entries.push(Entry::made("command", top, list(words.collect(), top)));
    let folder = scalar(".".to_owned(), top);
    let mut variables = vec![Entry::made(dialect.folder_variable(), top, folder)];
    if let Some(tasks) = &wanted.tasks {
        let described = dialect.describe(&tasks.value, wanted.step);
        let described = described.into_iter();
        variables.extend(
            described.map(|(name, value)| Entry::made(name, tasks.mark, scalar(value, tasks.mark))),
        );
    }
    entries.push(Entry::made("env", top, map(variables, top)));
    if let Some(tasks) = wanted.tasks {
        let each = tasks.value.iter();
        let each = each.map(|index| scalar(index.to_string(), tasks.mark));
        let tasks_list = list(each.collect(), tasks.mark);
        let parameters = vec![Entry::made(TASK, tasks.mark, tasks_list)];
        let parameters = map(parameters, tasks.mark);
        entries.push(Entry::made("parameters", tasks.mark, parameters));
    }
    if let Some((_, first)) = wanted.resources.first() {
        let mark = first.mark;
        let resources = of_words(wanted.resources);
        entries.push(Entry::made("resources", mark, map(resources, mark)));
    }
    entries.extend(of_words(wanted.fields));
    if let Some(first) = wanted.passed.first() {
        let mark = first.mark;
        let options = wanted.passed.iter();
        let options = options.map(|said| scalar(said.value.clone(), said.mark));
        let word = match dialect {
            Dialect::Slurm => "sbatch_args",
            Dialect::GridEngine => "qsub_args",
        };
        entries.push(Entry::made(word, mark, list(options.collect(), mark)));
    }
    (map(entries, top), notes)
}

fn of_words(words: Vec<(&'static str, ScriptValue<String>)>) -> Vec<Entry> {
    let words = words.into_iter();
    words
        .map(|(word, said)| Entry::made(word, said.mark, scalar(said.value, said.mark)))
        .collect()
}

/// The words that execute the script: its own interpreter.
fn interpreter(text: &Text, shell: Option<String>, notes: &mut Vec<(Mark, String)>) -> Vec<String> {
    let first = text.line(1).strip_prefix("#!").map(str::to_owned);
    let line = shell.or(first).unwrap_or_default();
    let mut words: Vec<String> = line.split_whitespace().map(literal).collect();
    if words.is_empty() {
        words.push("/bin/sh".to_owned());
    }
    let is_bash = words.iter().any(|word| word.ends_with("bash"));
    if is_bash && let Some(mark) = module_line(&text.text) {
        // `module` is a function of the login shell.
        words.push("-l".to_owned());
        notes.push((
            mark,
            "executed by a login shell, which knows `module`".to_owned(),
        ));
    }
    words
}

/// A text in which braces are no places to be filled.
fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// The first line that needs a function of the login shell.
fn module_line(text: &str) -> Option<Mark> {
    const FUNCTIONS: [&str; 4] = ["module", "ml", "conda", "spack"];
    let needs = |line: &str| {
        let word = line.split_whitespace().next();
        word.is_some_and(|word| FUNCTIONS.contains(&word))
    };
    let line = text.lines().position(needs)?;
    Some(Mark {
        line: u32::try_from(line + 1).ok()?,
        column: 1,
    })
}

fn scalar(text: String, mark: Mark) -> Rc<Node> {
    Rc::new(Node::made(Kind::Scalar { text, plain: false }, mark))
}

fn list(items: Vec<Rc<Node>>, mark: Mark) -> Rc<Node> {
    Rc::new(Node::made(Kind::List(items), mark))
}

fn map(entries: Vec<Entry>, mark: Mark) -> Node {
    Node::made(Kind::Map(entries), mark)
}
