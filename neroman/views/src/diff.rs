//! What differs between two runs: parameters, command, environment, metrics, code.

use std::collections::BTreeMap;
use std::time::Duration;

use indexmap::IndexMap;
use nero_wire::v1::{CodePart, ExperimentView, ShowReply, TreeEntry};
use serde_json::Value;
use similar::TextDiff;

use crate::object;
use crate::text::{self, variable};
use crate::{columns, json as forms};

/// Longest file whose lines are compared.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Time for the lines of one file: after it the difference is right, and longer than necessary.
const FILE_TIME: Duration = Duration::from_secs(2);

/// Lines around a change.
const CONTEXT: usize = 3;

/// A value of the first and of the second run; `None` where one has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// What has it.
    pub name: String,
    /// The values.
    pub values: [Option<String>; 2],
}

/// The latest values of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricPair {
    /// The metric.
    pub name: String,
    /// The values.
    pub values: [Option<f64>; 2],
}

impl MetricPair {
    /// How much more the second run has.
    pub fn difference(&self) -> Option<f64> {
        match self.values {
            [Some(one), Some(other)] => Some(other - one),
            _ => None,
        }
    }
}

/// A file that is not the same in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePair {
    /// Its path.
    pub path: String,
    /// `added`, `removed`, `changed`.
    pub change: &'static str,
    /// A unified diff; `None` where `why` tells the reason.
    pub lines: Option<String>,
    /// Why no lines are compared.
    pub why: String,
}

/// All that differs.
#[derive(Debug)]
pub struct Diff {
    /// The runs.
    pub runs: [ExperimentView; 2],
    /// Parameters, as they were typed.
    pub parameters: Vec<Pair>,
    /// The words of the commands, if they differ.
    pub command: Option<[Vec<String>; 2]>,
    /// Variables, and what was recorded of the machine.
    pub environment: Vec<Pair>,
    /// Metrics.
    pub metrics: Vec<MetricPair>,
    /// Files.
    pub code: Vec<FilePair>,
}

impl Diff {
    /// Compares two runs; `code` are the files that differ.
    pub fn of(one: &ShowReply, other: &ShowReply, code: &[CodePart]) -> Self {
        let both = [one, other];
        let runs = both.map(|reply| reply.experiment.clone().unwrap_or_default());
        let command = both.map(|reply| reply.argv.clone());
        Self {
            parameters: pairs(runs.each_ref().map(|view| {
                let all = view.params.iter();
                all.map(|param| (param.name.clone(), param.text.clone()))
                    .collect()
            })),
            command: (command[0] != command[1]).then_some(command),
            environment: if have_run(&both) {
                pairs(both.map(environment))
            } else {
                Vec::new()
            },
            metrics: if have_run(&both) {
                metrics(&runs)
            } else {
                Vec::new()
            },
            code: files(code),
            runs,
        }
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty()
            && self.command.is_none()
            && self.environment.is_empty()
            && self.metrics.is_empty()
            && self.code.is_empty()
    }

    /// The fields of `diff --json`.
    pub fn json(&self) -> Value {
        object!(self =>
            runs: [view => id, run: forms::run_id(view.id, view.run), name, collection, state],
            parameters: [pair => name, values],
            command,
            environment: [pair => name, values],
            metrics: [pair =>
                name, values: pair.values.map(|value| value.map(forms::number)),
                difference: pair.difference().map(forms::number),
            ],
            code: [file => path, change, diff: file.lines, why?],
        )
    }
}

/// Whether there is something of both but their definitions.
fn have_run(both: &[&ShowReply; 2]) -> bool {
    both.iter().all(|reply| reply.run.is_some())
}

/// The names whose values differ, in the order in which they come.
fn pairs(both: [Vec<(String, String)>; 2]) -> Vec<Pair> {
    let mut all: IndexMap<String, [Option<String>; 2]> = IndexMap::new();
    for (at, values) in both.into_iter().enumerate() {
        for (name, value) in values {
            let known = &mut all.entry(name).or_default()[at];
            // A machine has several cards of one name.
            *known = Some(match known.take() {
                Some(before) => format!("{before}, {value}"),
                None => value,
            });
        }
    }
    let differing = all.into_iter().filter(|(_, values)| values[0] != values[1]);
    differing
        .map(|(name, values)| Pair { name, values })
        .collect()
}

fn environment(reply: &ShowReply) -> Vec<(String, String)> {
    let view = reply.experiment.as_ref();
    let node = view.map(|view| view.node.clone()).unwrap_or_default();
    let resources = reply.resources.unwrap_or_default();
    let mut all = Vec::new();
    let mut say = |name: &str, value: String| {
        if !value.is_empty() {
            all.push((name.to_owned(), value));
        }
    };
    say("node", node);
    if resources.cpus > 0.0 {
        say("resources.cpus", text::number(resources.cpus));
    }
    if resources.memory_bytes > 0 {
        say("resources.memory", text::bytes(resources.memory_bytes));
    }
    if resources.time_ms > 0 {
        let time = nero_model::units::print_duration_ms(resources.time_ms);
        say("resources.time", time);
    }
    say("git", reply.git.clone());
    for fact in &reply.facts {
        let (name, value) = fact.split_once(": ").unwrap_or((fact, ""));
        say(name, value.to_owned());
    }
    for var in &reply.env {
        let value = if var.unset { "unset" } else { variable(var) };
        all.push((var.name.clone(), value.to_owned()));
    }
    all
}

fn metrics(runs: &[ExperimentView; 2]) -> Vec<MetricPair> {
    let names = columns::metrics(runs);
    let pair = |name: String| {
        let values = runs
            .each_ref()
            .map(|view| columns::metric(view, &name).map(|metric| metric.last));
        MetricPair { name, values }
    };
    let is_same = |pair: &MetricPair| match pair.values {
        [Some(one), Some(other)] => one == other || (one.is_nan() && other.is_nan()),
        _ => false,
    };
    let all = names.into_iter().map(pair);
    all.filter(|pair| !is_same(pair)).collect()
}

/// A frozen file with what came of its content.
#[derive(Debug, Default)]
struct FileContent {
    entry: TreeEntry,
    content: Vec<u8>,
    why: String,
}

/// The differing files of both runs by path, their lines compared.
fn files(parts: &[CodePart]) -> Vec<FilePair> {
    let mut all: BTreeMap<String, [Option<FileContent>; 2]> = BTreeMap::new();
    let mut at: Option<(String, usize)> = None;
    for part in parts {
        let of = usize::from(part.of > 0);
        if let Some(entry) = &part.file {
            at = Some((entry.path.clone(), of));
            let frozen = FileContent {
                entry: entry.clone(),
                ..FileContent::default()
            };
            all.entry(entry.path.clone()).or_default()[of] = Some(frozen);
        }
        let Some(frozen) = at
            .as_ref()
            .and_then(|(path, of)| all.get_mut(path)?[*of].as_mut())
        else {
            continue;
        };
        frozen.content.extend_from_slice(&part.data);
        if part.too_long {
            frozen.why = format!("{} long", text::bytes(frozen.entry.size));
        }
        if !part.problem.is_empty() {
            frozen.why.clone_from(&part.problem);
        }
    }
    let pairs = all.into_iter();
    pairs.map(|(path, both)| file(path, &both)).collect()
}

fn file(path: String, both: &[Option<FileContent>; 2]) -> FilePair {
    let change = match both {
        [None, _] => "added",
        [_, None] => "removed",
        [Some(_), Some(_)] => "changed",
    };
    let mut texts = [String::new(), String::new()];
    let mut why = String::new();
    for (text, frozen) in texts.iter_mut().zip(both) {
        let Some(frozen) = frozen else { continue };
        match (frozen.why.as_str(), as_text(frozen)) {
            ("", Some(lines)) => *text = lines,
            ("", None) => why = "binary".to_owned(),
            (told, _) => why = told.to_owned(),
        }
    }
    let lines = why.is_empty().then(|| unified(&path, both, &texts));
    FilePair {
        path,
        change,
        lines,
        why,
    }
}

fn as_text(frozen: &FileContent) -> Option<String> {
    if !frozen.entry.link.is_empty() {
        return Some(format!("link to {}\n", frozen.entry.link));
    }
    let text = String::from_utf8(frozen.content.clone()).ok()?;
    (!text.contains('\0')).then_some(text)
}

fn unified(path: &str, both: &[Option<FileContent>; 2], texts: &[String; 2]) -> String {
    let header = |side: &str, frozen: &Option<FileContent>| match frozen {
        Some(_) => format!("{side}/{path}"),
        None => "/dev/null".to_owned(),
    };
    let mut diff = TextDiff::configure();
    let diff = diff.timeout(FILE_TIME);
    let mut text = diff
        .diff_lines(&texts[0], &texts[1])
        .unified_diff()
        .context_radius(CONTEXT)
        .header(&header("a", &both[0]), &header("b", &both[1]))
        .to_string();
    if let [Some(one), Some(other)] = both
        && one.entry.executable != other.entry.executable
    {
        let mode = |frozen: &FileContent| {
            if frozen.entry.executable {
                "executable"
            } else {
                "not executable"
            }
        };
        text.push_str(&format!("{path}: {} → {}\n", mode(one), mode(other)));
    }
    text
}

#[cfg(test)]
mod tests {
    use nero_wire::v1::{EnvVar, MetricSummary, Param, Resources, RunView};

    use super::*;

    fn shown(run: u32, lr: &str, loss: f64) -> ShowReply {
        ShowReply {
            run: Some(RunView::default()),
            experiment: Some(ExperimentView {
                id: 1,
                run,
                name: "n".into(),
                node: "alpha".into(),
                params: vec![Param {
                    name: "lr".into(),
                    text: lr.into(),
                    json: String::new(),
                }],
                metrics: vec![MetricSummary {
                    name: "loss".into(),
                    last: loss,
                    ..MetricSummary::default()
                }],
                ..ExperimentView::default()
            }),
            argv: ["train", lr].map(str::to_owned).to_vec(),
            resources: Some(Resources {
                cpus: 1.0,
                ..Resources::default()
            }),
            env: vec![EnvVar {
                name: "API_TOKEN".into(),
                value: lr.into(),
                ..EnvVar::default()
            }],
            facts: vec!["gpu: a".into(), format!("gpu: {run}")],
            ..ShowReply::default()
        }
    }

    fn part(of: u32, path: &str, data: &[u8]) -> CodePart {
        CodePart {
            of,
            file: Some(TreeEntry {
                path: path.into(),
                ..TreeEntry::default()
            }),
            data: data.to_vec(),
            ..CodePart::default()
        }
    }

    #[test]
    fn only_what_differs_is_told_and_no_secret() {
        let same = shown(1, "0.1", f64::NAN);
        assert!(Diff::of(&same, &same, &[]).is_empty());
        let diff = Diff::of(&same, &shown(2, "0.10", 0.5), &[]);
        assert_eq!(
            diff.parameters[0].values,
            ["0.1", "0.10"].map(|value| Some(value.to_owned()))
        );
        assert!(diff.command.is_some());
        let names: Vec<&str> = diff.environment.iter().map(|pair| &*pair.name).collect();
        assert_eq!(
            names,
            ["gpu"],
            "values that look secret are masked, hence equal"
        );
        assert_eq!(diff.metrics[0].values[1], Some(0.5));
    }

    #[test]
    fn code_is_a_unified_diff_that_patch_applies() {
        let second = CodePart {
            of: 0,
            data: b"b\n".to_vec(),
            ..CodePart::default()
        };
        let parts = [
            part(0, "a.py", b"a\n"),
            second,
            part(0, "gone.bin", b"\0"),
            part(1, "a.py", b"a\nc\n"),
            part(1, "new.py", b"x"),
        ];
        let found = files(&parts);
        assert_eq!(
            found[0].lines.as_deref(),
            Some("--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n")
        );
        assert_eq!((found[1].change, &*found[1].why), ("removed", "binary"));
        let new = found[2].lines.as_deref().unwrap();
        assert!(new.starts_with("--- /dev/null\n+++ b/new.py\n"), "{new}");
        assert!(new.contains("No newline at end of file"), "{new}");
    }
}
