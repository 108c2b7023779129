//! Small maps of settings: `resources`, `monitor`, `metrics`.

use crate::block::Scope;
use crate::definition::{Monitor, NotBuilt, Resources, Strays};
use crate::fields::{Field, RESOURCES, RESOURCES_LATER, word_hint};
use crate::problem::printable;
use crate::reader::Reader;
use crate::scalar::typed;
use nero_model::safe::quoted;
use nero_yaml::{Entry, Kind, Node};

/// More processors than any machine has.
const CPUS_MAX: f64 = 1e6;

/// `resources: {cpus: 2, memory: 4G, time: 2h}`.
pub(crate) fn resources(
    reader: &mut Reader<'_>,
    node: &Node,
    not_built: &mut Vec<NotBuilt>,
) -> Resources {
    let mut resources = Resources::default();
    for Entry {
        key,
        key_mark,
        value,
        ..
    } in reader.map("resources", node, "resources: {cpus: 2, memory: 4G}")
    {
        let known = RESOURCES.contains(&key.as_str());
        let per_node = known && matches!(value.kind, Kind::Map(_));
        if value.is_null() {
            if known || RESOURCES_LATER.contains(&key.as_str()) {
                continue;
            }
        } else if per_node {
            reader.not_built(not_built, &format!("resources.{key} per node"), *key_mark);
            continue;
        }
        match key.as_str() {
            "cpus" => resources.cpus = cpus(reader, value).unwrap_or(resources.cpus),
            "memory" => resources.memory_bytes = reader.size_bytes("memory", value),
            "time" => resources.time_ms = reader.duration_ms("time", value),
            "disk" => resources.disk_bytes = reader.size_bytes("disk", value),
            later if RESOURCES_LATER.contains(&later) => {
                reader.not_built(not_built, &format!("resources.{later}"), *key_mark);
            }
            other => {
                let known = [RESOURCES, RESOURCES_LATER].concat();
                let message = format!("{} is no resource", quoted(other));
                reader.wrong(*key_mark, message, word_hint(other, &known));
            }
        }
    }
    resources
}

fn cpus(reader: &mut Reader<'_>, node: &Node) -> Option<f64> {
    let number = node.scalar().and_then(|text| typed(text, true).number());
    let fits = number.filter(|n| *n > 0.0 && *n <= CPUS_MAX);
    if fits.is_none() {
        reader.wrong(
            node.mark,
            "`cpus` takes a number above zero",
            "for example 4, or 0.5 for two runs on one processor",
        );
    }
    fits
}

/// `monitor: {interval: 10s, grace: 30s, strays: kill}`.
pub(crate) fn monitor(reader: &mut Reader<'_>, node: &Node) -> Monitor {
    const KEYS: &[&str] = &["interval", "grace", "strays"];
    let mut monitor = Monitor::default();
    for Entry {
        key,
        key_mark,
        value,
        ..
    } in reader.map("monitor", node, "monitor: {interval: 10s, grace: 30s}")
    {
        if value.is_null() && KEYS.contains(&key.as_str()) {
            continue;
        }
        match key.as_str() {
            "interval" => {
                let interval = reader.duration_ms("interval", value);
                monitor.interval_ms = interval.unwrap_or(monitor.interval_ms);
            }
            "grace" => monitor.grace_ms = grace(reader, value).unwrap_or(monitor.grace_ms),
            "strays" => match reader.single("strays", value) {
                Some("kill") => monitor.strays = Strays::Kill,
                Some("wait") => monitor.strays = Strays::Wait,
                Some("leave") => monitor.strays = Strays::Leave,
                Some(other) => {
                    let message = format!("{} is no way to treat strays", quoted(other));
                    reader.wrong(value.mark, message, "known are kill, wait, leave");
                }
                None => {}
            },
            other => {
                let message = format!("{} is no part of `monitor`", quoted(other));
                reader.wrong(*key_mark, message, word_hint(other, KEYS));
            }
        }
    }
    monitor
}

/// A grace of zero is honest: the final signal at once.
fn grace(reader: &mut Reader<'_>, node: &Node) -> Option<u64> {
    match node.scalar().map(nero_model::units::parse_duration_ms) {
        Some(Ok(0)) => Some(0),
        _ => reader.duration_ms("grace", node),
    }
}

/// The patterns of `metrics`; other sources are kept.
pub(crate) fn metrics(
    reader: &mut Reader<'_>,
    scope: &Scope,
    not_built: &mut Vec<NotBuilt>,
) -> Vec<String> {
    let Some(given) = scope.get(Field::Metrics) else {
        return Vec::new();
    };
    let items = match &given.value.kind {
        Kind::List(items) => items.iter().map(|item| &**item).collect(),
        Kind::Map(_) | Kind::Scalar { .. } => vec![&*given.value],
    };
    let mut patterns = Vec::new();
    for item in items {
        let example = r"- match: 'loss = (?<loss>\S+)'";
        for Entry {
            key,
            key_mark,
            value,
            ..
        } in reader.map("metrics", item, example)
        {
            match key.as_str() {
                "match" => {
                    if let Some(pattern) = reader.single("match", value)
                        && compiles(reader, pattern, value)
                    {
                        patterns.push(pattern.to_owned());
                    }
                }
                "file" | "command" => {
                    reader.not_built(not_built, &format!("metrics.{key}"), *key_mark);
                }
                other => {
                    let message = format!("{} is no source of metrics", quoted(other));
                    reader.wrong(
                        *key_mark,
                        message,
                        word_hint(other, &["match", "file", "command"]),
                    );
                }
            }
        }
    }
    patterns
}

/// Whether a pattern compiles and names what it finds. The same inherited pattern is
/// compiled once for all blocks.
fn compiles(reader: &mut Reader<'_>, pattern: &str, node: &Node) -> bool {
    let wrong = match reader.patterns.get(pattern) {
        Some(known) => known.clone(),
        None => {
            let wrong = pattern_problem(pattern);
            reader.patterns.insert(pattern.to_owned(), wrong.clone());
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

fn pattern_problem(pattern: &str) -> Option<String> {
    let built = regex::bytes::RegexBuilder::new(pattern)
        .unicode(false)
        .build();
    match built {
        Ok(regex) if regex.capture_names().flatten().next().is_some() => None,
        Ok(_) => Some("it has no named group".to_owned()),
        Err(regex::Error::CompiledTooBig(_)) => Some("it is too big".to_owned()),
        Err(error) => {
            // The library draws the pattern over several lines; its last one says why.
            let text = error.to_string();
            let last = text.lines().last().unwrap_or("").trim();
            Some(printable(last.strip_prefix("error: ").unwrap_or(last)))
        }
    }
}
