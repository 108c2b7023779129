//! Reads the fields of one block into a draft: everything but the values that its
//! parameters take. Each group of fields has its own module; here is the order.

mod variables;

use crate::definition::{Definition, NotBuilt, OutputBuffering, RenderDef, Resources, SharedPart};
use crate::read::block::{Scope, Setting};
use crate::read::command::style::{self, Style};
use crate::read::command::{self, Command, render};
use crate::read::directives::one_text;
use crate::read::fields::Field;
use crate::read::groups::outputs::TravelEntry;
use crate::read::groups::{
    again, outputs, placing, precedence, processing, rules, scheduling, settings,
};
use crate::read::names::Names;
use crate::read::params::combine::{self, Combine};
use crate::read::params::{self, Axis};
use crate::read::reader::{PathKind, Reader};
use nero_model::safe::quoted;
use nero_yaml::{Kind, Mark, Zero};
use std::collections::HashSet;

/// A block before its parameters get values.
#[derive(Debug)]
pub(crate) struct Draft {
    /// All that does not depend on values; name, command and parameters are empty.
    pub(crate) common: Definition,
    pub(crate) command: Command,
    pub(crate) style: Option<Style>,
    /// The positions of the parameters with a place in the command.
    pub(crate) placed: HashSet<usize>,
    pub(crate) axes: Vec<Axis>,
    pub(crate) combine: Combine,
    /// Where its dependencies are written.
    pub(crate) needs_marks: std::rc::Rc<[Mark]>,
}

/// Reads all fields that hold in a block.
pub(crate) fn draft(reader: &mut Reader<'_>, scope: &Scope, name: &str, mark: Mark) -> Draft {
    let spread = one_text::spread(reader, scope);
    let mut draft = read_fields(reader, spread.as_ref().unwrap_or(scope), name, mark);
    let written = scope.get(Field::SbatchArgs);
    let written = written.and_then(|given| given.value.scalar());
    draft.common.sbatch_args = written.map(str::to_owned).into();
    draft
}

fn read_fields(reader: &mut Reader<'_>, scope: &Scope, name: &str, mark: Mark) -> Draft {
    let mut not_built = Vec::new();
    let mut program = program(reader, scope, name, mark, &mut not_built);
    let rules = rules::read(reader, scope, &mut not_built);
    let (metric_patterns, metric_reading) = settings::metrics(reader, scope);
    let mut files = scope
        .get(Field::Files)
        .map(|given| outputs::files(reader, &given.value));
    let mut scheduling = scheduling::read(reader, scope);
    let images = scheduling::images(&scheduling);
    program.required_files.extend(images.iter().cloned());
    share_images(&mut files, &images);
    let resources = match scope.get(Field::Resources) {
        Some(given) => settings::resources(reader, &given.value, &mut scheduling),
        None => Resources::default(),
    };
    let checkpoint = placing::checkpoint(reader, scope);
    let (requires, probes) = placing::requires(reader, scope, &mut not_built);
    let (precedence, needs_marks) = precedence::read(reader, scope);
    let again = again::read(reader, scope, &resources, !checkpoint.is_empty());
    let outputs = scope.get(Field::Outputs);
    let mut outputs = outputs.map_or_else(Vec::new, |given| outputs::read(reader, &given.value));
    let processing = processing::read(reader, scope, &mut outputs);
    let mut common = Definition {
        name: String::new(),
        number: None,
        block: name.to_owned().into(),
        cohort: text(reader, scope, Field::Cohort).into(),
        varied: program
            .axes
            .iter()
            .filter(|axis| axis.count() > 1 && !axis.is_seed())
            .map(|axis| axis.name.clone())
            .collect(),
        collections: collections(reader, scope).into(),
        folder: reader.folder.to_path_buf().into(),
        place: reader.text.place(mark).into(),
        argv: Vec::new(),
        command_text: String::new(),
        params: Vec::new(),
        env: env(reader, scope).into(),
        data: placing::data(reader, scope).into(),
        resources: resources.into(),
        linked_files: files
            .iter()
            .flatten()
            .filter(|file| file.linked)
            .map(|file| file.glob.clone())
            .chain(images)
            .collect(),
        files: files
            .map(|files| files.into_iter().map(|file| file.glob).collect())
            .into(),
        required_files: program.required_files.into(),
        main_file: program.main_file.into(),
        render: program.render.into(),
        params_file: program.params_file.into(),
        outputs: outputs.into(),
        processing: processing.into(),
        checkpoint: checkpoint.into(),
        node: placing::node(reader, scope).into(),
        requires: requires.into(),
        probes: probes.into(),
        rules: rules.into(),
        metric_patterns: metric_patterns.into(),
        metric_reading: metric_reading.into(),
        progress: settings::progress(reader, scope, &mut not_built).into(),
        monitor: match scope.get(Field::Monitor) {
            Some(given) => settings::monitor(reader, &given.value).into(),
            None => SharedPart::default(),
        },
        buffering: buffering(reader, scope),
        results_dir: text(reader, scope, Field::ResultsDir).into(),
        results_max_bytes: scope
            .get(Field::ResultsMax)
            .and_then(|given| reader.size_bytes(&given.key, &given.value, Zero::Refused)),
        keep_ms: scope
            .get(Field::Keep)
            .and_then(|given| reader.duration_ms(&given.key, &given.value, Zero::Allowed)),
        custom_msg: text(reader, scope, Field::CustomMsg).into(),
        sbatch_args: SharedPart::default(),
        scheduling: scheduling.into(),
        again: again.into(),
        priority: settings::priority(reader, scope).unwrap_or_default(),
        precedence: precedence.into(),
        tags: settings::tags(reader, scope).into(),
        not_built: not_built.into(),
        notes: SharedPart::default(),
    };
    common.not_built.sort_by(|a, b| a.place.cmp(&b.place));
    Draft {
        common,
        command: program.command,
        style: program.style,
        placed: program.placed,
        axes: program.axes,
        combine: program.combine,
        needs_marks,
    }
}

/// What a block runs, and with which parameters.
struct Program {
    axes: Vec<Axis>,
    combine: Combine,
    style: Option<Style>,
    params_file: Option<String>,
    command: Command,
    placed: HashSet<usize>,
    render: Vec<RenderDef>,
    main_file: Option<String>,
    required_files: Vec<String>,
}

/// Reads parameters, the command with its places, and the files that the command needs.
fn program(
    reader: &mut Reader<'_>,
    scope: &Scope,
    name: &str,
    mark: Mark,
    not_built: &mut Vec<NotBuilt>,
) -> Program {
    let mut axes = params::axes(reader, scope);
    let combine = combine::read(reader, scope, &mut axes);
    let main_file = main_file(reader, scope);
    let style = style::read(reader, scope, &axes);
    let names = Names::new(scope, &axes, style.as_ref(), &reader.grouped);
    let main = main_file.as_deref();
    let command = command::read(reader, scope, &names, style.as_ref(), main, mark);
    variables::check(reader, scope, &axes, style.as_ref());
    let placed = command::placed(&command);
    let (render, mut used) = render::read(reader, scope, &names);
    used.extend(&placed);
    later(reader, scope, not_built);
    command::report_unused(reader, scope, &command, &used, &axes, name);
    let mut required_files = required_files(reader, scope);
    for one in &render {
        if !required_files.contains(&one.template) {
            required_files.push(one.template.clone());
        }
    }
    Program {
        axes,
        combine,
        params_file: match &style {
            Some(Style::File(path)) => Some(path.clone()),
            Some(_) | None => None,
        },
        style,
        command,
        placed,
        render,
        main_file,
        required_files,
    }
}

fn text(reader: &mut Reader<'_>, scope: &Scope, field: Field) -> Option<String> {
    let given = scope.get(field)?;
    reader.single(&given.key, &given.value).map(str::to_owned)
}

/// Lets images of containers travel as files that runs share.
fn share_images(files: &mut Option<Vec<TravelEntry>>, images: &[String]) {
    let shared = images.iter().map(|image| TravelEntry {
        glob: image.clone(),
        linked: true,
    });
    if let Some(files) = files {
        files.extend(shared);
    }
}

/// The original's main file, which must be there.
fn main_file(reader: &mut Reader<'_>, scope: &Scope) -> Option<String> {
    let given = scope.get(Field::MainCodeFile)?;
    let written = reader.single(&given.key, &given.value)?;
    let path = reader.inside(&given.key, written, given.value.mark)?;
    must_exist(reader, given, &path, given.value.mark, true);
    Some(path)
}

fn required_files(reader: &mut Reader<'_>, scope: &Scope) -> Vec<String> {
    let Some(given) = scope.get(Field::RequiredFiles) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for (written, node) in reader.several(&given.key, &given.value) {
        if let Some(path) = reader.inside(&given.key, written, node.mark) {
            must_exist(reader, given, &path, node.mark, false);
            paths.push(path);
        }
    }
    paths
}

fn must_exist(reader: &mut Reader<'_>, given: &Setting, path: &str, mark: Mark, as_file: bool) {
    match reader.path_kind(path) {
        PathKind::File { .. } => {}
        PathKind::Folder if !as_file => {}
        PathKind::Folder => reader.wrong(
            mark,
            format!("{} is a folder", quoted(path)),
            format!("`{}` names a file", given.key),
        ),
        PathKind::Nothing => {
            let folder =
                crate::definition::problem::printable(&reader.folder.display().to_string());
            reader.wrong(
                mark,
                format!("{} of `{}` does not exist", quoted(path), given.key),
                format!("it is looked for in {folder}"),
            );
        }
    }
}

/// The collections; without any, the folder's name.
fn collections(reader: &mut Reader<'_>, scope: &Scope) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    if let Some(given) = scope.get(Field::Collection) {
        for (name, node) in reader.several(&given.key, &given.value) {
            // The original's manual writes `collection: None`.
            if node.is_null() || name == "None" || names.iter().any(|n| n == name) {
                continue;
            }
            if name.is_empty() {
                reader.wrong(node.mark, "a collection has no name", "leave the field out");
            }
            names.push(name.to_owned());
        }
    }
    if names.is_empty() {
        let folder = reader.folder.file_name().and_then(|name| name.to_str());
        names.push(folder.unwrap_or("experiments").to_owned());
    }
    names
}

fn env(reader: &mut Reader<'_>, scope: &Scope) -> Vec<(String, Option<String>)> {
    let mut variables = Vec::new();
    for named in &scope.env {
        let name = &named.name;
        if name.is_empty() || name.contains(['=', '\0']) || nero_model::data::has_mark(name) {
            reader.wrong(
                named.key_mark,
                format!("{} is no name of a variable", quoted(name)),
                "a name has no `=` and is not empty",
            );
            continue;
        }
        if named.value.is_null() {
            variables.push((name.clone(), None));
        } else if let Some(value) = reader.single(name, &named.value)
            && let Some(value) = placing::env_value(reader, scope, value, &named.value)
        {
            let text = named.value.scalar().unwrap_or_default();
            let known = |name: &str| {
                let mut set = variables.iter();
                set.any(|(known, value): &(String, Option<String>)| {
                    known == name && value.is_some()
                })
            };
            let at = |reader: &Reader<'_>, at| reader.text.mark_inside(&named.value, at);
            variables::note_unset(reader, text, at, known);
            variables.push((name.clone(), Some(value)));
        }
    }
    variables
}

fn buffering(reader: &mut Reader<'_>, scope: &Scope) -> OutputBuffering {
    let mut truth = |field| {
        let given = scope.get(field)?;
        let truth = reader.boolean(&given.key, &given.value)?;
        truth.then_some(given)
    };
    let line = truth(Field::LineBuffered);
    let untouched = truth(Field::Buffered);
    match (line, untouched) {
        (Some(line), Some(untouched)) if line.depth == untouched.depth => {
            reader.wrong(
                line.key_mark.max(untouched.key_mark),
                "`buffered` and `line_buffered` exclude each other",
                "leave one of them out",
            );
            OutputBuffering::default()
        }
        (Some(line), Some(untouched)) if line.depth > untouched.depth => OutputBuffering::Line,
        (_, Some(_)) => OutputBuffering::Untouched,
        (Some(_), None) => OutputBuffering::Line,
        (None, None) => OutputBuffering::Unbuffered,
    }
}

/// Fields that are understood and not built, in the order of the file. Those
/// without which a run would be another one keep it from starting.
fn later(reader: &mut Reader<'_>, scope: &Scope, not_built: &mut Vec<NotBuilt>) {
    let mut found: Vec<(Field, &Setting)> = scope.fields.iter().map(|(f, g)| (*f, g)).collect();
    found.sort_by_key(|(_, given)| given.key_mark);
    for (field, given) in found {
        match field {
            Field::Later(word) => reader.not_built(not_built, word, given.key_mark),
            Field::LogOutput => match &given.value.kind {
                Kind::Scalar { text, .. } if matches!(text.as_str(), "stdout" | "stdout.log") => {}
                _ => {
                    reader.single(&given.key, &given.value);
                    reader.not_built(not_built, &given.key, given.key_mark);
                }
            },
            _ => {}
        }
    }
}
