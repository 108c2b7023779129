//! Small maps of settings: `resources`, `monitor`, `metrics`.

use std::collections::BTreeSet;

use super::scheduling::on_nodes;
use super::scheduling::values::{WHOLE_GPU, count, gpus, name};
use crate::definition::problem::printable;
use crate::definition::{MetricReading, Monitor, NotBuilt, Resources, SchedulerOptions, Strays};
use crate::read::block::{Scope, Setting};
use crate::read::command;
use crate::read::fields::{self, Field, RESOURCES};
use crate::read::reader::Reader;
use nero_expr::{ErrorKind, Expr, ExprError};
use nero_metrics::recipe::{self, RECIPES};
use nero_model::paths::run::{METRIC_FILES_MAX, METRIC_READERS_MAX};
use nero_model::safe::quoted;
use nero_yaml::{Entry, Kind, Node, Zero};

/// `resources: {cpus: 2, memory: 4G, time: 2h}`.
pub(crate) fn resources(
    reader: &mut Reader<'_>,
    node: &Node,
    scheduling: &mut SchedulerOptions,
) -> Resources {
    let mut resources = Resources::default();
    let mut are_gpus_given = false;
    let entries = reader.map("resources", node, "resources: {cpus: 2, memory: 4G}");
    for entry in entries {
        let (key, value) = (&entry.key, &entry.value);
        if value.is_null() && RESOURCES.contains(&key.as_str()) {
            continue;
        }
        match key.as_str() {
            "cpus" => {
                let mut cpus = on_nodes(reader, key, value, |r, k, v| r.cpus(k, v));
                resources.cpus = cpus.take_default().unwrap_or(resources.cpus);
                resources.on_nodes.cpus = cpus;
            }
            "memory" => {
                let mut bytes = on_nodes(reader, key, value, memory);
                resources.memory_bytes = bytes.take_default();
                resources.on_nodes.memory_bytes = bytes;
            }
            "time" => {
                let mut time = on_nodes(reader, key, value, time);
                resources.time_ms = time.take_default();
                resources.on_nodes.time_ms = time;
            }
            "disk" => {
                let mut bytes = on_nodes(reader, key, value, size);
                resources.disk_bytes = bytes.take_default();
                resources.on_nodes.disk_bytes = bytes;
            }
            "gpus" => {
                let asked = on_nodes(reader, key, value, |r, k, v| gpus(r, k, v));
                scheduling.gpus = asked.each(|asked| asked.count);
                // A mistake in `gpus` is told already.
                are_gpus_given = asked.is_empty() || asked.0.iter().any(|one| one.value.share > 0);
                if asked.0.iter().any(|one| one.value.share != WHOLE_GPU) {
                    scheduling.gpu_share = asked.each(|asked| asked.share);
                }
            }
            "gpumem" => scheduling.gpumem = on_nodes(reader, key, value, size),
            "gpu_type" => {
                scheduling.gpu_type = on_nodes(reader, key, value, |r, k, v| name(r, k, v))
            }
            "exclusive" => {
                scheduling.exclusive = on_nodes(reader, key, value, |r, k, v| r.boolean(k, v));
            }
            "nodes" => scheduling.nodes = on_nodes(reader, key, value, |r, k, v| count(r, k, v)),
            "processes" => {
                scheduling.processes = on_nodes(reader, key, value, |r, k, v| count(r, k, v));
            }
            key if fields::field(key).is_some() => reader.wrong(
                entry.key_mark,
                format!("`{key}` is no part of `resources`"),
                format!("write `{key}` beside `resources`, at the same indentation"),
            ),
            _ => reader.unknown(entry, "is no resource", RESOURCES, &[]),
        }
    }
    if !are_gpus_given {
        refuse_choices_of_gpus(reader, entries);
    }
    resources
}

fn refuse_choices_of_gpus(reader: &mut Reader<'_>, entries: &[Entry]) {
    let is_choice = |entry: &&Entry| matches!(entry.key.as_str(), "gpumem" | "gpu_type");
    let entries = entries.iter().filter(is_choice);
    for entry in entries.filter(|entry| !entry.value.is_null()) {
        let message = format!(
            "`{}` chooses among GPUs, and the run is given none",
            entry.key
        );
        reader.wrong(entry.key_mark, message, "add `gpus: 1`");
    }
}

fn time(reader: &mut Reader<'_>, key: &str, value: &Node) -> Option<u64> {
    reader.duration_ms(key, value, Zero::Refused)
}

fn size(reader: &mut Reader<'_>, key: &str, value: &Node) -> Option<u64> {
    reader.size_bytes(key, value, Zero::Refused)
}

/// Memory that a program can have: `memory: 4` lacks its unit.
fn memory(reader: &mut Reader<'_>, key: &str, value: &Node) -> Option<u64> {
    let bytes = size(reader, key, value)?;
    if bytes >= MEMORY_MIN_BYTES {
        return Some(bytes);
    }
    reader.wrong(
        value.mark,
        format!("`{key}` of {bytes} bytes holds no program"),
        format!("with its unit, as in `{key}: 4G`"),
    );
    None
}

/// `monitor: {interval: 10s, grace: 30s, strays: kill}`.
pub(crate) fn monitor(reader: &mut Reader<'_>, node: &Node) -> Monitor {
    const KEYS: &[&str] = &["interval", "grace", "strays"];
    let mut monitor = Monitor::default();
    for entry in reader.map("monitor", node, "monitor: {interval: 10s, grace: 30s}") {
        let (key, value) = (&entry.key, &entry.value);
        if value.is_null() && KEYS.contains(&key.as_str()) {
            continue;
        }
        match key.as_str() {
            "interval" => {
                let interval = reader.duration_ms("interval", value, Zero::Refused);
                monitor.interval_ms = interval.unwrap_or(monitor.interval_ms);
            }
            // A grace of zero is honest: the final signal at once.
            "grace" => {
                let grace = reader.duration_ms("grace", value, Zero::Allowed);
                monitor.grace_ms = grace.unwrap_or(monitor.grace_ms);
            }
            "strays" => {
                let known = [
                    ("kill", Strays::Kill),
                    ("wait", Strays::Wait),
                    ("leave", Strays::Leave),
                ];
                let strays = reader.choice("strays", value, &known);
                monitor.strays = strays.unwrap_or(monitor.strays);
            }
            _ => reader.unknown(entry, "is no part of `monitor`", KEYS, &[]),
        }
    }
    monitor
}

/// `priority: 10`.
pub(crate) fn priority(reader: &mut Reader<'_>, scope: &Scope) -> Option<i32> {
    let given = scope.get(Field::Priority)?;
    let text = reader.single(&given.key, &given.value)?;
    let number = text.parse::<i32>().ok();
    if number.is_none() {
        let message = format!("`priority` takes a whole number, not {}", quoted(text));
        let hint = "for example 10; 0 is usual, and higher ones go first";
        reader.wrong(given.value.mark, message, hint);
    }
    number
}

/// `tags: [paper, baseline]`.
pub(crate) fn tags(reader: &mut Reader<'_>, scope: &Scope) -> Vec<String> {
    let Some(given) = scope.get(Field::Tags) else {
        return Vec::new();
    };
    let mut tags = Vec::new();
    for (tag, node) in reader.several(&given.key, &given.value) {
        if nero_expr::is_tag(tag) {
            tags.push(tag.to_owned());
            continue;
        }
        let message = format!("{} is no tag", quoted(tag));
        let hint = "a tag has letters, digits and `_ - . /`; several are a list: `tags: [a, b]`";
        reader.wrong(node.mark, message, hint);
    }
    tags.sort();
    tags.dedup();
    tags
}

/// `progress: epoch / 50`, in its canonical form.
pub(crate) fn progress(
    reader: &mut Reader<'_>,
    scope: &Scope,
    not_built: &mut Vec<NotBuilt>,
) -> Option<String> {
    let given = scope.get(Field::Progress)?;
    let text = reader.single(&given.key, &given.value)?;
    match Expr::parse_progress(text, reader.context) {
        Ok(expr) => Some(expr.canonical()),
        Err(error) => {
            refused(reader, given, error, not_built);
            None
        }
    }
}

/// Reports a mistake in the expression of a field; what is not built yet is none.
pub(crate) fn refused(
    reader: &mut Reader<'_>,
    given: &Setting,
    error: ExprError,
    not_built: &mut Vec<NotBuilt>,
) {
    let node = &given.value;
    let mark = reader.text.mark_inside(node, error.span.start);
    if error.kind == ErrorKind::NotBuilt {
        let text = node.scalar().unwrap_or_default();
        let word = format!("{}: {}", given.key, error.span.of(text));
        reader.not_built(not_built, &word, mark);
    } else {
        reader.wrong(mark, error.message, error.hint.unwrap_or_default());
    }
}

/// The patterns of `metrics` and how lines are read; other sources are kept.
pub(crate) fn metrics(reader: &mut Reader<'_>, scope: &Scope) -> (Vec<String>, MetricReading) {
    let mut patterns = Vec::new();
    let mut reading = MetricReading::default();
    let Some(given) = scope.get(Field::Metrics) else {
        return (patterns, reading);
    };
    let items = match &given.value.kind {
        Kind::List(items) => items.iter().map(|item| &**item).collect(),
        Kind::Map(_) | Kind::Scalar { .. } => vec![&*given.value],
    };
    for item in items {
        if let Kind::Scalar { text, .. } = &item.kind {
            patterns.extend(recipe(reader, text, item));
            continue;
        }
        let example = r"- match: 'loss = (?<loss>\S+)'";
        for entry in reader.map("metrics", item, example) {
            patterns.extend(metric_source(reader, entry, &mut reading));
        }
    }
    let mut seen = BTreeSet::new();
    reading.files.retain(|file| seen.insert(file.clone()));
    let (files, commands) = (reading.files.len(), reading.readers.len());
    for (count, most, what, does) in [
        (files, METRIC_FILES_MAX, "files", "read"),
        (commands, METRIC_READERS_MAX, "commands", "started"),
    ] {
        if count > most {
            reader.wrong(
                given.value.mark,
                format!("`metrics` names {count} {what}"),
                format!("at most {most} are {does}"),
            );
        }
    }
    (patterns, reading)
}

/// Reads one source of metrics; returns the pattern of `match`.
fn metric_source(
    reader: &mut Reader<'_>,
    entry: &Entry,
    reading: &mut MetricReading,
) -> Option<String> {
    let (key, value) = (&entry.key, &entry.value);
    match key.as_str() {
        "match" => {
            if let Some(pattern) = reader.single("match", value)
                && compiles(reader, pattern, value, Groups::Named)
            {
                return Some(pattern.to_owned());
            }
        }
        "only" | "skip" => {
            if let Some(pattern) = reader.single(key, value)
                && compiles(reader, pattern, value, Groups::Any)
            {
                let lines = match key.as_str() {
                    "only" => &mut reading.only,
                    _ => &mut reading.skip,
                };
                lines.push(pattern.to_owned());
            }
        }
        "decimal" => match reader.single("decimal", value) {
            Some(",") => reading.decimal_comma = true,
            Some(".") => reading.decimal_comma = false,
            Some(_) => reader.wrong(
                value.mark,
                "`decimal` is a comma or a point".to_owned(),
                "decimal: ','",
            ),
            None => {}
        },
        "table" => {
            if let Some(is_read) = reader.boolean("table", value) {
                reading.no_tables = !is_read;
            }
        }
        "file" => {
            let path = reader.single("file", value);
            let path = path.and_then(|path| reader.inside("file", path, value.mark));
            reading.files.extend(path);
        }
        "command" => reading.readers.extend(command::of_reader(reader, value)),
        _ => {
            let known = &[
                "match", "only", "skip", "decimal", "table", "file", "command",
            ];
            reader.unknown(entry, "is no source of metrics", known, &[]);
        }
    }
    None
}

/// Less memory than any program has.
const MEMORY_MIN_BYTES: u64 = 64 * 1024;

/// The patterns that the name of a program stands for.
fn recipe(reader: &mut Reader<'_>, name: &str, node: &Node) -> Vec<String> {
    let Some(patterns) = recipe::patterns(name) else {
        let names: Vec<&str> = RECIPES.iter().map(|recipe| recipe.name).collect();
        let hint = nero_model::names::word_hint(name, &names, &[]);
        reader.wrong(
            node.mark,
            format!("{} is no recipe for metrics", quoted(name)),
            hint,
        );
        return Vec::new();
    };
    patterns.iter().map(|one| (*one).to_owned()).collect()
}

/// What groups a pattern must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Groups {
    Any,
    /// Those that name what it finds.
    Named,
}

/// Whether a pattern compiles and has the groups. The same inherited pattern is
/// compiled once for all blocks.
fn compiles(reader: &mut Reader<'_>, pattern: &str, node: &Node, groups: Groups) -> bool {
    let key = (pattern.to_owned(), groups == Groups::Named);
    let wrong = match reader.patterns.get(&key) {
        Some(known) => known.clone(),
        None => {
            let wrong = pattern_problem(pattern, groups);
            reader.patterns.insert(key, wrong.clone());
            wrong
        }
    };
    let Some(wrong) = wrong else {
        return true;
    };
    reader.wrong(
        node.mark,
        format!("the pattern {}: {wrong}", quoted(pattern)),
        r"groups name the metrics: 'epoch (?<step>\d+): loss = (?<loss>\S+)'",
    );
    false
}

fn pattern_problem(pattern: &str, groups: Groups) -> Option<String> {
    let built = regex::bytes::RegexBuilder::new(pattern)
        .unicode(false)
        .build();
    match built {
        Ok(_) if groups == Groups::Any => None,
        Ok(regex) if regex.capture_names().flatten().next().is_some() => None,
        Ok(_) => Some("it has no named group".to_owned()),
        Err(regex::Error::CompiledTooBig(_)) => Some("it is too big".to_owned()),
        Err(error) => {
            // The library draws the pattern over several lines; its last one holds the reason.
            let text = error.to_string();
            let last = text.lines().last().unwrap_or("").trim();
            Some(printable(last.strip_prefix("error: ").unwrap_or(last)))
        }
    }
}
