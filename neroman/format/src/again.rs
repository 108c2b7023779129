//! What follows the end of a run by itself: `retry` and `on_timeout`.

use crate::block::{Given, Scope};
use crate::definition::{Again, Resources, Retry, RetryOn};
use crate::fields::Field;
use crate::reader::Reader;
use nero_expr::Pattern;
use nero_model::safe::quoted;
use nero_yaml::{Kind, Mark, Node, Zero};

/// Most items of a list.
const RETRIES_MAX: usize = 32;
/// Most runs that `retry` makes after one.
const MAX: u32 = 100;
/// Largest factor.
const FACTOR_MAX: f64 = 100.0;

/// Reads `retry` and `on_timeout`. Both refer to `resources` and `checkpoint`, which are read before.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    scope: &Scope,
    resources: &Resources,
    has_checkpoint: bool,
) -> Again {
    let given = scope.get(Field::Retry);
    let mut retries = given.map_or_else(Vec::new, |given| {
        let retries = retries(reader, given);
        for retry in &retries {
            check_factors(reader, given, retry, resources);
        }
        retries
    });
    // In a list an item with `max: 0` keeps the later ones from its ends.
    if let [only] = retries.as_slice() {
        retries.truncate(usize::from(only.max > 0));
    }
    let more = retries.split_off(retries.len().min(1));
    let requeues_timeout = scope.get(Field::OnTimeout).is_some_and(|given| {
        let (key, value) = (&given.key, &given.value);
        let choice = reader.choice(key, value, &[("end", false), ("requeue", true)]);
        let requeues = choice.unwrap_or(false);
        if requeues && !has_checkpoint {
            reader.wrong(
                given.key_mark,
                "`on_timeout: requeue` goes on from `checkpoint:`, which is not given",
                "for example `checkpoint: 'ckpt/*.pt'`",
            );
        }
        requeues
    });
    Again {
        retry: retries.pop(),
        more,
        requeues_timeout,
    }
}

/// One item, or a list of them.
fn retries(reader: &mut Reader<'_>, given: &Given) -> Vec<Retry> {
    match &given.value.kind {
        Kind::List(items) => {
            if items.len() > RETRIES_MAX {
                let message = format!("`retry` has more than {RETRIES_MAX} items");
                reader.wrong(given.value.mark, message, "");
            }
            let mut all: Vec<Retry> = Vec::new();
            for item in items.iter().take(RETRIES_MAX) {
                let one = retry(reader, given, item);
                let takes_all = |before: &Retry| {
                    let any_end = before.exit.is_empty() && before.stderr.is_none();
                    any_end && one.on.iter().all(|on| before.on.contains(on))
                };
                if !one.on.is_empty() && all.iter().any(takes_all) {
                    let message =
                        "this item of `retry` is never asked: one before takes every such end";
                    reader.wrong(
                        item.mark,
                        message,
                        "put the one with `exit` or `stderr` first",
                    );
                }
                all.push(one);
            }
            all
        }
        Kind::Map(_) | Kind::Scalar { .. } => vec![retry(reader, given, &given.value)],
    }
}

/// `retry: {on: [node_failure, out_of_memory], max: 2, memory: x2}`, or `retry: 2`.
fn retry(reader: &mut Reader<'_>, given: &Given, value: &Node) -> Retry {
    const KEYS: &[&str] = &["on", "exit", "stderr", "max", "memory", "time", "after"];
    let mut retry = Retry::default();
    if let Kind::Scalar { .. } = value.kind {
        retry.max = max(reader, &given.key, value).unwrap_or(retry.max);
        return retry;
    }
    let mut has_on = false;
    let example = "retry: {on: [node_failure, out_of_memory], max: 2, memory: x2}";
    for entry in reader.map("retry", value, example) {
        let (key, value) = (&entry.key, &entry.value);
        if value.is_null() && KEYS.contains(&key.as_str()) {
            continue;
        }
        match key.as_str() {
            "on" => {
                has_on = true;
                retry.on = reasons(reader, value);
            }
            "exit" => retry.exit = codes(reader, value),
            "stderr" => retry.stderr = pattern(reader, value),
            "max" => retry.max = max(reader, "retry.max", value).unwrap_or(retry.max),
            "memory" => retry.memory = factor(reader, "retry.memory", value).unwrap_or(1.0),
            "time" => retry.time = factor(reader, "retry.time", value).unwrap_or(1.0),
            "after" => {
                let after = reader.duration_ms("retry.after", value, Zero::Allowed);
                retry.after_ms = after.unwrap_or(0);
            }
            _ => reader.unknown(entry, "is no part of `retry`", KEYS, &[]),
        }
    }
    if !has_on && (!retry.exit.is_empty() || retry.stderr.is_some()) {
        retry.on = vec![RetryOn::Crashed];
    }
    check_end(reader, value.mark, &retry);
    retry
}

/// Refuses reasons after which `exit` and `stderr` are never known.
fn check_end(reader: &mut Reader<'_>, mark: Mark, retry: &Retry) {
    let has_exit = !retry.exit.is_empty();
    let has_stderr = retry.stderr.is_some();
    for on in &retry.on {
        let word = match on {
            RetryOn::NodeFailure if has_exit => "exit",
            RetryOn::NodeFailure | RetryOn::Timeout | RetryOn::Preempted if has_stderr => "stderr",
            RetryOn::NodeFailure
            | RetryOn::Timeout
            | RetryOn::Preempted
            | RetryOn::OutOfMemory
            | RetryOn::Crashed => continue,
        };
        let on = on.word();
        let message = format!("after `{on}` no `{word}` of the job is known: this never counts");
        let hint = format!("give it an item of its own: `retry: [{{{word}: …}}, {{on: {on}}}]`");
        reader.wrong(mark, message, hint);
    }
}

/// Exit codes of failures.
fn codes(reader: &mut Reader<'_>, value: &Node) -> Vec<i32> {
    let mut codes = Vec::new();
    if matches!(&value.kind, Kind::List(items) if items.is_empty()) {
        reader.wrong(
            value.mark,
            "`retry.exit` names no code",
            "for example 255, or [75, 255]",
        );
    }
    for (text, node) in reader.several("retry.exit", value) {
        match text.parse::<u8>().ok().filter(|code| *code > 0) {
            Some(code) => codes.push(i32::from(code)),
            None => {
                let message = format!(
                    "`retry.exit` takes a code from 1 to 255, not {}",
                    quoted(text)
                );
                reader.wrong(node.mark, message, "for example 255, or [75, 255]");
            }
        }
    }
    codes
}

fn pattern(reader: &mut Reader<'_>, value: &Node) -> Option<String> {
    let text = reader.single("retry.stderr", value)?;
    if text.is_empty() {
        reader.wrong(
            value.mark,
            "`retry.stderr` is empty",
            "for example '^ssh: .*'",
        );
        return None;
    }
    match Pattern::new(text) {
        Ok(_) => Some(text.to_owned()),
        Err(why) => {
            let message = format!("`retry.stderr` is no regular expression: {why}");
            reader.wrong(value.mark, message, "for example '^ssh: .*'");
            None
        }
    }
}

fn reasons(reader: &mut Reader<'_>, value: &Node) -> Vec<RetryOn> {
    let known = RetryOn::ALL.map(|on| (on.word(), on));
    let items = match &value.kind {
        Kind::List(items) => items.iter().map(|item| &**item).collect(),
        Kind::Map(_) | Kind::Scalar { .. } => vec![value],
    };
    let mut on = Vec::new();
    for item in items {
        if let Some(one) = reader.choice("retry.on", item, &known)
            && !on.contains(&one)
        {
            on.push(one);
        }
    }
    on
}

fn max(reader: &mut Reader<'_>, key: &str, value: &Node) -> Option<u32> {
    let text = reader.single(key, value)?;
    let number = text.parse::<u32>().ok().filter(|number| *number <= MAX);
    if number.is_none() {
        let message = format!(
            "`{key}` takes a whole number up to {MAX}, not {}",
            quoted(text)
        );
        reader.wrong(value.mark, message, "for example 2");
    }
    number
}

/// `x2`, `x1.5`.
fn factor(reader: &mut Reader<'_>, key: &str, value: &Node) -> Option<f64> {
    let text = reader.single(key, value)?;
    let number = text
        .strip_prefix('x')
        .and_then(|text| text.parse::<f64>().ok());
    let factor = number.filter(|number| (1.0..=FACTOR_MAX).contains(number));
    if factor.is_none() {
        let message = format!("`{key}` takes a factor, not {}", quoted(text));
        let hint = "for example x2: each retry asks for twice as much";
        reader.wrong(value.mark, message, hint);
    }
    factor
}

/// Refuses a factor without effect.
fn check_factors(reader: &mut Reader<'_>, given: &Given, retry: &Retry, resources: &Resources) {
    let factors = [
        (
            "memory",
            retry.memory,
            RetryOn::OutOfMemory,
            resources.memory_bytes.is_some() || !resources.on_nodes.memory_bytes.is_empty(),
            "4G",
        ),
        (
            "time",
            retry.time,
            RetryOn::Timeout,
            resources.time_ms.is_some() || !resources.on_nodes.time_ms.is_empty(),
            "2h",
        ),
    ];
    for (key, factor, on, is_given, example) in factors {
        if factor <= 1.0 {
            continue;
        }
        if !retry.on.contains(&on) {
            let word = on.word();
            let message = format!("`retry.{key}` counts after `{word}`, which `on` does not name");
            reader.wrong(given.key_mark, message, format!("add {word} to `on`"));
        } else if !is_given {
            let message = format!("`retry.{key}` multiplies `resources.{key}`, which is not given");
            let hint = format!("for example `resources: {{{key}: {example}}}`");
            reader.wrong(given.key_mark, message, hint);
        }
    }
}
