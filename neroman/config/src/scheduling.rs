//! The words of a node with a scheduler: what its runs ask where their experiments ask
//! nothing else, and how much it is given.

use nero_format::{node_scheduling, shown_scheduling};
use nero_model::safe::quoted;
use nero_warden::{Kind, NodeWord};
use nero_yaml::Fields;

use crate::config::Node;

/// How much a scheduler is given at once.
const AMOUNTS: &[&str] = &["max_queued", "max_running"];
/// More jobs than any scheduler keeps.
const JOBS_MAX: u32 = 1_000_000_000;

/// Whether a word of a node is for its scheduler.
pub(crate) fn is_word(word: &str) -> bool {
    AMOUNTS.contains(&word) || NodeWord::from_word(word).is_some()
}

/// Every such word.
pub(crate) fn words() -> impl Iterator<Item = &'static str> {
    let asks = NodeWord::ALL.into_iter().map(NodeWord::as_str);
    AMOUNTS.iter().copied().chain(asks)
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
        _ => {
            if let Some(word) = NodeWord::from_word(word) {
                node_scheduling(fields, word, full, value, &mut node.asks);
            }
        }
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
        let of_bare = NodeWord::from_word(word).is_some_and(NodeWord::is_for_any_node);
        if node.warden == Kind::None && of_bare {
            continue;
        }
        if node.warden == Kind::None {
            let message = format!("`{full}` is for a node with a scheduler");
            let hint = "its `warden:` is slurm, oge or generic; without one it starts runs itself";
            fields.wrong(*place, message, hint);
            continue;
        }
        let refused = NodeWord::from_word(word).and_then(|word| word.check(node.warden).err());
        if let Some(hint) = refused {
            let message = format!("`{full}` is no word of `warden: {}`", node.warden);
            fields.wrong(*place, message, hint);
        }
    }
}

/// Every such word that is set, as it is shown.
pub(crate) fn display_settings(node: &Node) -> Vec<(&'static str, String)> {
    let amounts = [
        ("max_queued", node.max_queued.map(|max| max.to_string())),
        ("max_running", node.max_running.map(|max| max.to_string())),
    ];
    let asks = NodeWord::ALL.map(|word| (word.as_str(), shown_scheduling(word, &node.asks)));
    let set = amounts.into_iter().chain(asks);
    set.filter_map(|(word, value)| Some((word, value?)))
        .collect()
}
