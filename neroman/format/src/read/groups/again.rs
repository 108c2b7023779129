//! What follows the end of a run by itself: `retry`, `on_error` and `on_timeout`.

use crate::definition::{AfterError, ErrorHandler, FollowUp, Resources, Retry, RetryOn};
use crate::read::block::{Scope, Setting};
use crate::read::fields::Field;
use crate::read::reader::Reader;
use nero_expr::Pattern;
use nero_model::safe::quoted;
use nero_yaml::{Kind, Mark, Node, Zero};

/// Most items of a list.
const RETRIES_MAX: usize = 32;
/// Most runs that `retry` makes after one.
const MAX: u32 = 100;
/// Largest text of the commands of a handler.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Largest factor.
const FACTOR_MAX: f64 = 100.0;

/// Reads the three fields. They refer to `resources` and `checkpoint`, which are read before.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    scope: &Scope,
    resources: &Resources,
    has_checkpoint: bool,
) -> FollowUp {
    let given = scope.get(Field::Retry);
    let mut retries = given.map_or_else(Vec::new, |given| {
        let retries = retries(reader, given);
        for retry in &retries {
            check_factors(reader, given, retry, resources);
        }
        retries
    });
    // A handler that fits an error decides before `retry` is asked.
    let on_error = scope.get(Field::OnError).map(|given| {
        let (handlers, items) = handlers(reader, given);
        retries.splice(0..0, items);
        handlers
    });
    // In a list an item with `max: 0` keeps the later ones from its ends.
    if retries.iter().all(|one| one.max == 0) {
        retries.clear();
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
    FollowUp {
        retry: retries.pop(),
        more,
        requeues_timeout,
        on_error,
    }
}

/// The handlers of `on_error`, and as items of `retry` those that a run does not finish by.
fn handlers(reader: &mut Reader<'_>, given: &Setting) -> (Vec<ErrorHandler>, Vec<Retry>) {
    let items: Vec<&Node> = match &given.value.kind {
        Kind::List(items) => items.iter().map(|item| &**item).collect(),
        Kind::Map(_) | Kind::Scalar { .. } => vec![&given.value],
    };
    if items.len() > RETRIES_MAX {
        let message = format!("`on_error` has more than {RETRIES_MAX} items");
        reader.wrong(given.value.mark, message, "");
    }
    let (mut handlers, mut retries) = (Vec::<ErrorHandler>::new(), Vec::new());
    for item in items.into_iter().take(RETRIES_MAX) {
        let takes_all = |one: &ErrorHandler| one.exit.is_empty() && one.stderr.is_none();
        if handlers.iter().any(takes_all) {
            reader.wrong(
                item.mark,
                "this item of `on_error` is never asked: one before takes every error",
                "put the one with `exit` or `stderr` first",
            );
        }
        let Some((handler, retry)) = handler(reader, item) else {
            continue;
        };
        retries.extend((handler.then != AfterError::Continue).then_some(retry));
        handlers.push(handler);
    }
    (handlers, retries)
}

/// `{exit: 0, stderr: '^Cloning ', then: continue}`.
fn handler(reader: &mut Reader<'_>, value: &Node) -> Option<(ErrorHandler, Retry)> {
    const KEYS: &[&str] = &["exit", "stderr", "then", "max", "after", "run"];
    const THEN: &[(&str, AfterError)] = &[
        ("continue", AfterError::Continue),
        ("retry", AfterError::Retry),
        ("abort", AfterError::Abort),
    ];
    let example = "on_error: [{exit: 0, stderr: '^Cloning ', then: continue}]";
    let mut retry = Retry {
        on: vec![RetryOn::Crashed],
        is_handler: true,
        ..Retry::default()
    };
    let (mut then, mut of_retry) = (None, None);
    let mut run = Vec::new();
    let mistakes = reader.count();
    for entry in reader.map("on_error", value, example) {
        let (key, value) = (&entry.key, &entry.value);
        if value.is_null() && KEYS.contains(&key.as_str()) {
            continue;
        }
        match key.as_str() {
            "exit" => retry.exit = codes(reader, "on_error.exit", value),
            "stderr" => retry.stderr = pattern(reader, "on_error.stderr", value),
            "then" => then = reader.choice("on_error.then", value, THEN),
            "max" => {
                of_retry = of_retry.or(Some(entry));
                retry.max = max(reader, "on_error.max", value).unwrap_or(retry.max);
            }
            "after" => {
                of_retry = of_retry.or(Some(entry));
                let after = reader.duration_ms("on_error.after", value, Zero::Allowed);
                retry.after_ms = after.unwrap_or(0);
            }
            "run" => run = response(reader, value),
            _ => reader.unknown(entry, "is no part of `on_error`", KEYS, &[]),
        }
    }
    let Some(then) = then else {
        if reader.count() == mistakes {
            let message = "an item of `on_error` does not tell what follows";
            reader.wrong(value.mark, message, "`then` is continue, retry or abort");
        }
        return None;
    };
    match then {
        AfterError::Retry => {}
        AfterError::Continue | AfterError::Abort => {
            if let Some(entry) = of_retry {
                let message = format!("`on_error.{}` goes with `then: retry`", entry.key);
                reader.wrong(entry.key_mark, message, "leave it out");
            }
            retry.max = 0;
        }
    }
    let handler = ErrorHandler {
        exit: retry.exit.clone(),
        stderr: retry.stderr.clone(),
        run,
        then,
    };
    Some((handler, retry))
}

/// `date`, or `[date, ./clean.sh]`: lines for `sh`.
fn response(reader: &mut Reader<'_>, value: &Node) -> Vec<String> {
    let lines = reader.several("on_error.run", value);
    let lines: Vec<String> = lines.iter().map(|(line, _)| (*line).to_owned()).collect();
    let bytes: usize = lines.iter().map(String::len).sum();
    if bytes > RESPONSE_BYTES_MAX || lines.iter().all(|line| line.trim().is_empty()) {
        let message = match bytes {
            0..=RESPONSE_BYTES_MAX => "`on_error.run` is empty",
            _ => "`on_error.run` is longer than 64 KiB",
        };
        reader.wrong(value.mark, message, "for example [date, './clean.sh all']");
    }
    lines
}

/// One item, or a list of them.
fn retries(reader: &mut Reader<'_>, given: &Setting) -> Vec<Retry> {
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
fn retry(reader: &mut Reader<'_>, given: &Setting, value: &Node) -> Retry {
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
            "exit" => retry.exit = codes(reader, "retry.exit", value),
            "stderr" => retry.stderr = pattern(reader, "retry.stderr", value),
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
        let on = on.as_str();
        let message = format!("after `{on}` no `{word}` of the job is known: this never counts");
        let hint = format!("give it an item of its own: `retry: [{{{word}: …}}, {{on: {on}}}]`");
        reader.wrong(mark, message, hint);
    }
}

/// Exit codes: for `retry` those of failures, while `on_error` finds errors behind code 0, too.
fn codes(reader: &mut Reader<'_>, key: &str, value: &Node) -> Vec<i32> {
    let mut codes = Vec::new();
    let least = u8::from(key == "retry.exit");
    if matches!(&value.kind, Kind::List(items) if items.is_empty()) {
        reader.wrong(
            value.mark,
            format!("`{key}` names no code"),
            "for example 255, or [75, 255]",
        );
    }
    for (text, node) in reader.several(key, value) {
        match text.parse::<u8>().ok().filter(|code| *code >= least) {
            Some(code) => codes.push(i32::from(code)),
            None => {
                let message = format!(
                    "`{key}` takes a code from {least} to 255, not {}",
                    quoted(text)
                );
                reader.wrong(node.mark, message, "for example 255, or [75, 255]");
            }
        }
    }
    codes
}

fn pattern(reader: &mut Reader<'_>, key: &str, value: &Node) -> Option<String> {
    let text = reader.single(key, value)?;
    if text.is_empty() {
        reader.wrong(
            value.mark,
            format!("`{key}` is empty"),
            "for example '^ssh: .*'",
        );
        return None;
    }
    match Pattern::new(text) {
        Ok(_) => Some(text.to_owned()),
        Err(why) => {
            let message = format!("`{key}` is no regular expression: {why}");
            reader.wrong(value.mark, message, "for example '^ssh: .*'");
            None
        }
    }
}

fn reasons(reader: &mut Reader<'_>, value: &Node) -> Vec<RetryOn> {
    let known = RetryOn::ALL.map(|on| (on.as_str(), on));
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
fn check_factors(reader: &mut Reader<'_>, given: &Setting, retry: &Retry, resources: &Resources) {
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
            let word = on.as_str();
            let message = format!("`retry.{key}` counts after `{word}`, which `on` does not name");
            reader.wrong(given.key_mark, message, format!("add {word} to `on`"));
        } else if !is_given {
            let message = format!("`retry.{key}` multiplies `resources.{key}`, which is not given");
            let hint = format!("for example `resources: {{{key}: {example}}}`");
            reader.wrong(given.key_mark, message, hint);
        }
    }
}
