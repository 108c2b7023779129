//! Options of `qsub` of Grid Engine as fields of an experiment.

use nero_warden::OptionError;

use super::options::{Directive, indexes, step};
use super::{ScriptRequest, ScriptValue, left_out};

/// What the options ask for.
pub(crate) fn wanted(options: &[Directive]) -> ScriptRequest {
    let mut wanted = ScriptRequest::default();
    let mut slots = 1;
    let mut per_slot: Option<ScriptValue<String>> = None;
    for one in options {
        match one.name.as_str() {
            "-pe" => slots = environment(one, &mut wanted),
            "-l" => resources(one, &mut wanted, &mut per_slot),
            "-q" => wanted.field("queue", one.mark, &*one.value),
            "-P" => wanted.field("account", one.mark, &*one.value),
            "-S" => wanted.shell = Some(one.value.clone()),
            "-t" => array(one, &mut wanted),
            "-tc" => wanted.field("at_once", one.mark, &*one.value),
            _ => other(one, &mut wanted),
        }
    }
    if let Some(said) = per_slot {
        memory(&said, slots, &mut wanted);
    }
    wanted
}

/// `-pe smp 4`; of a range the least counts.
fn environment(one: &Directive, wanted: &mut ScriptRequest) -> u64 {
    let (name, slots) = one.value.split_once(' ').unwrap_or((&one.value, "1"));
    let least = slots.split('-').next().unwrap_or_default();
    if least != slots {
        let text = format!("of {slots} slots {least} are asked for");
        wanted.note(one.mark, text);
    }
    wanted.field("parallel_env", one.mark, name);
    wanted.resource("cpus", one.mark, least);
    least.parse().unwrap_or(1)
}

/// `-l h_rt=1:00:00,h_vmem=2G,gpu=1`; other resources are passed on.
fn resources(
    one: &Directive,
    wanted: &mut ScriptRequest,
    per_slot: &mut Option<ScriptValue<String>>,
) {
    let mut others = Vec::new();
    for part in one.value.split(',') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name {
            "h_rt" => match seconds(value) {
                Some(seconds) => wanted.resource("time", one.mark, format!("{seconds}s")),
                None => wanted.note(one.mark, left_out(one, "its time is not understood")),
            },
            // `mem_free` and `virtual_free` only choose hosts and stay options: `memory` would
            // be the limit `h_vmem`.
            "h_vmem" => {
                *per_slot = Some(ScriptValue {
                    value: value.to_owned(),
                    mark: one.mark,
                });
            }
            "gpu" | "gpus" => wanted.resource("gpus", one.mark, value),
            "exclusive" if !["false", "0"].contains(&value) => {
                wanted.resource("exclusive", one.mark, "true");
            }
            "exclusive" => {}
            _ => others.push(part),
        }
    }
    if !others.is_empty() {
        wanted.passed.push(ScriptValue {
            value: format!("-l={}", others.join(",")),
            mark: one.mark,
        });
    }
}

/// `3600` and `1:00:00`.
fn seconds(text: &str) -> Option<u64> {
    let parts = text.split(':');
    let parts = parts.map(|part| part.parse::<u32>().ok().map(u64::from));
    let parts: Vec<u64> = parts.collect::<Option<_>>()?;
    match parts.as_slice() {
        [seconds] => Some(*seconds),
        [hours, minutes, seconds] => Some(hours * 3600 + minutes * 60 + seconds),
        _ => None,
    }
    .filter(|seconds| *seconds > 0)
}

/// Grid Engine counts memory for each slot.
fn memory(said: &ScriptValue<String>, slots: u64, wanted: &mut ScriptRequest) {
    let size = nero_model::units::parse_bytes(&said.value);
    let size = size.map(|bytes| nero_model::units::print_bytes(bytes.saturating_mul(slots)));
    // A size that is none is reported by the reader.
    let size = size.unwrap_or_else(|_| said.value.clone());
    wanted.resource("memory", said.mark, size);
}

fn array(one: &Directive, wanted: &mut ScriptRequest) {
    match indexes(&one.value) {
        Some((tasks, _)) => {
            wanted.step = step(&one.value);
            wanted.tasks = Some(ScriptValue {
                value: tasks,
                mark: one.mark,
            });
        }
        None => wanted.note(one.mark, left_out(one, "its indexes are not understood")),
    }
}

/// An option that is no field: it is passed on, unless it is ours.
fn other(one: &Directive, wanted: &mut ScriptRequest) {
    let word = if one.value.is_empty() {
        one.name.clone()
    } else {
        format!("{}={}", one.name, one.value)
    };
    match nero_warden::oge::check_options(std::slice::from_ref(&word)) {
        Err(OptionError::Ours { instead, .. }) => wanted.note(one.mark, left_out(one, instead)),
        // A word that cannot be an option is reported by the reader.
        Ok(()) | Err(OptionError::Odd(_)) => wanted.passed.push(ScriptValue {
            value: word,
            mark: one.mark,
        }),
    }
}
