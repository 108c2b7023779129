//! The words of a node with a scheduler: what its runs ask where their experiments ask
//! nothing else, and how much it is given.

use nero_format::{NODE_SCHEDULING, node_scheduling};
use nero_model::safe::quoted;
use nero_yaml::Fields;

use crate::config::{Node, Warden};

/// How much a scheduler is given at once.
const AMOUNTS: &[&str] = &["max_queued", "max_running"];
/// More jobs than any scheduler keeps.
const JOBS_MAX: u32 = 1_000_000_000;

/// Words of one scheduler, and what another one has in their place.
const OF_ONE: &[(&str, Warden, &str)] = &[
    (
        "partition",
        Warden::Slurm,
        "Grid Engine has queues: `queue:`",
    ),
    ("qos", Warden::Slurm, ""),
    ("constraint", Warden::Slurm, ""),
    (
        "sbatch_args",
        Warden::Slurm,
        "options of Grid Engine stand in `qsub_args:`",
    ),
    ("queue", Warden::Oge, "SLURM has partitions: `partition:`"),
    ("parallel_env", Warden::Oge, "SLURM gives CPUs without it"),
    (
        "qsub_args",
        Warden::Oge,
        "options of SLURM stand in `sbatch_args:`",
    ),
];

/// Words that a described scheduler does not take: the lines of its `header` stand for them.
const IN_HEADER: &[&str] = &["sbatch_args", "qsub_args"];

/// Whether a word of a node is for its scheduler.
pub(crate) fn is_word(word: &str) -> bool {
    AMOUNTS.contains(&word) || NODE_SCHEDULING.contains(&word)
}

/// Every such word.
pub(crate) fn words() -> impl Iterator<Item = &'static str> {
    AMOUNTS.iter().chain(NODE_SCHEDULING).copied()
}

/// Reads one of [`words`].
pub(crate) fn read(
    fields: &mut Fields,
    word: &str,
    full: &str,
    value: &nero_yaml::Node,
    node: &mut Node,
) {
    match word {
        "max_queued" => node.max_queued = number(fields, full, value).map(u64::from),
        "max_running" => node.max_running = number(fields, full, value),
        _ => node_scheduling(fields, word, full, value, &mut node.asks),
    }
}

/// A number of jobs, never none.
fn number(fields: &mut Fields, full: &str, value: &nero_yaml::Node) -> Option<u32> {
    let text = fields.single(full, value)?;
    let number = text.parse::<u32>().ok();
    let number = number.filter(|number| (1..=JOBS_MAX).contains(number));
    if number.is_none() {
        let message = format!(
            "`{full}` takes a whole number above zero, not {}",
            quoted(text)
        );
        fields.wrong(value.mark, message, "for example 100");
    }
    number
}

/// Reports words that the node's scheduler does not have.
pub(crate) fn check(fields: &mut Fields, name: &str, node: &Node) {
    let given = node.fields.iter().filter(|(word, _)| is_word(word));
    for (word, place) in given {
        let full = format!("nodes.{name}.{word}");
        if node.warden == Warden::None && ["setup", "container"].contains(word) {
            continue;
        }
        if node.warden == Warden::None {
            let message = format!("`{full}` is for a node with a scheduler");
            let hint = "its `warden:` is slurm, oge or generic; without one it starts runs itself";
            fields.wrong(*place, message, hint);
            continue;
        }
        let of_one = OF_ONE.iter().find(|(known, _, _)| known == word);
        if let Some((_, of, hint)) = of_one
            && is_other(node.warden, *of)
        {
            let here = node.warden.as_str();
            let message = format!("`{full}` is no word of `warden: {here}`");
            fields.wrong(*place, message, *hint);
        }
        if node.warden == Warden::Generic && IN_HEADER.contains(word) {
            let message = format!("`{full}` is no word of `warden: generic`");
            let hint = "a line in `header:` of `scheduler:` gives it to every job";
            fields.wrong(*place, message, hint);
        }
    }
}

/// Whether a scheduler is not the one of a word.
fn is_other(warden: Warden, of: Warden) -> bool {
    matches!(
        (warden, of),
        (Warden::Slurm, Warden::Oge) | (Warden::Oge, Warden::Slurm)
    )
}

/// Every such word that is set, as it is shown.
pub(crate) fn shown(node: &Node) -> Vec<(&'static str, String)> {
    let asks = &node.asks;
    let text = |value: &nero_format::OnNodes<String>| value.on("").cloned();
    let list = |value: &nero_format::OnNodes<Vec<String>>| {
        value.on("").map(|lines| format!("[{}]", lines.join(", ")))
    };
    let all = [
        ("max_queued", node.max_queued.map(|max| max.to_string())),
        ("max_running", node.max_running.map(|max| max.to_string())),
        ("partition", text(&asks.partition)),
        ("account", text(&asks.account)),
        ("qos", text(&asks.qos)),
        ("constraint", text(&asks.constraint)),
        ("queue", text(&asks.queue)),
        ("parallel_env", text(&asks.parallel_env)),
        ("gpu_type", text(&asks.gpu_type)),
        ("launcher", text(&asks.launcher)),
        ("exclusive", asks.exclusive.on("").map(bool::to_string)),
        ("setup", list(&asks.setup)),
        (
            "container",
            asks.container.on("").map(|one| one.image.clone()),
        ),
        ("sbatch_args", list(&asks.sbatch_args)),
        ("qsub_args", list(&asks.qsub_args)),
    ];
    let set = all.into_iter();
    set.filter_map(|(word, value)| Some((word, value?)))
        .collect()
}
