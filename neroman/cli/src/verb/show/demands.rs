//! What a run asks of its node and of the node's scheduler, for people and for programs.

use nero_views::{json, text};
use nero_wire::v1::{Container, SchedulerRequest, ShowReply};
use serde_json::{Map, Value, json};

/// The GPUs that are asked for: `2 a100 GPUs`, `0.5 GPU`.
pub(super) fn gpus(asked: &SchedulerRequest) -> Option<String> {
    let count = count(asked);
    let unit = if count > 1.0 { "GPUs" } else { "GPU" };
    let words = [text::number(count), asked.gpu_type.clone(), unit.to_owned()];
    let words = words.into_iter().filter(|word| !word.is_empty());
    (count > 0.0).then(|| text::join(words, " "))
}

fn count(asked: &SchedulerRequest) -> f64 {
    match asked.gpu_micro {
        0 => f64::from(asked.gpus),
        micro => f64::from(micro) / 1e6,
    }
}

/// What a scheduler is asked for beside: each field of `neronet.yaml` with its value.
pub(super) fn words(asked: &SchedulerRequest) -> Vec<(&'static str, String)> {
    let number = |number: u32| match number {
        0 => String::new(),
        number => number.to_string(),
    };
    let container = asked.container.as_ref();
    let words = [
        ("container", container.map(in_words).unwrap_or_default()),
        ("nodes", number(asked.nodes)),
        ("processes", number(asked.processes)),
        ("partition", asked.partition.clone()),
        ("account", asked.account.clone()),
        ("qos", asked.qos.clone()),
        ("constraint", asked.constraint.clone()),
        ("queue", asked.queue.clone()),
        ("parallel_env", asked.parallel_env.clone()),
        ("sbatch_args", asked.sbatch_args.join(" ")),
        ("qsub_args", asked.qsub_args.join(" ")),
    ];
    let words = words.into_iter();
    words.filter(|(_, word)| !word.is_empty()).collect()
}

fn in_words(container: &Container) -> String {
    if container.runtime.is_empty() {
        container.image.clone()
    } else {
        format!("{} ({})", container.image, container.runtime)
    }
}

/// Resources in JSON; null where nothing is asked for.
pub(super) fn as_json(reply: &ShowReply) -> Value {
    let resources = reply.resources.unwrap_or_default();
    let scheduler = reply.scheduler.clone().unwrap_or_default();
    let gpus = count(&scheduler);
    let words = words(&scheduler).into_iter();
    json!({
        "cpus": (resources.cpus > 0.0).then(|| json::number(resources.cpus)),
        "memory_bytes": (resources.memory_bytes != 0).then_some(resources.memory_bytes),
        "time_s": (resources.time_ms != 0).then(|| resources.time_ms as f64 / 1000.0),
        "gpus": (gpus > 0.0).then(|| json::number(gpus)),
        "gpu_type": json::some(&scheduler.gpu_type),
        "scheduler": words.map(|(name, word)| (name.to_owned(), word.into())).collect::<Map<_, _>>(),
    })
}
