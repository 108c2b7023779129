//! The runs of a node that will never answer again, by a person's decision.

use nero_model::RunId;

use super::restored;
use crate::fold::change::Change;
use crate::fold::state::State;
use crate::step::input::Input;
pub use crate::step::lost::LossOutcome;
use crate::step::lost::comes_to;
use crate::step::{fits, step};

/// Decides about every run of a node. `elsewhere` returns whether the word that
/// was asked for has other nodes, too.
pub fn decide(
    state: &State,
    node: &str,
    who: &str,
    now_ms: i64,
    elsewhere: &dyn Fn(&str) -> bool,
) -> (Vec<(RunId, LossOutcome)>, Vec<Change>) {
    let mut told = Vec::new();
    let mut changes = Vec::new();
    let there = state
        .active()
        .flat_map(|experiment| experiment.runs.iter())
        .filter(|run| run.open() && !run.is_closed() && run.node() == Some(node));
    for run in there {
        let others = elsewhere(&run.made.node);
        told.extend(comes_to(run, others).map(|gone| (run.made.id, gone)));
        let input = Input::NodeGone {
            node: node.to_owned(),
            who: who.to_owned(),
            others,
        };
        changes.extend(fits(step(run, &input, now_ms)));
    }
    changes.extend(restored::never_tells(state, node));
    (told, changes)
}
