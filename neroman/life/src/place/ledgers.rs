//! Which ledger a node answers with. A node's `root:` or `address:` may be changed while runs wait
//! there: the ledger that then answers knows nothing of them, and the one that has them may still
//! start them. Such a run is held until its own ledger answers again, or a person gives it up.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use nero_model::RunToken;

pub use crate::facts::nodes::NodeLedger;
use crate::facts::reason::WaitReason;
use crate::facts::stage::Stage;
use crate::facts::text::bounded;
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::run::Run;
use crate::fold::state::State;

/// Whether a node answered with this ledger before.
pub fn is_known(state: &State, node: &str, ledger: &NodeLedger) -> bool {
    state
        .ledgers
        .get(node)
        .is_some_and(|known| known.id == ledger.id)
}

/// The changes when a node answers with a ledger, before anything is handed over to it.
/// `unanswered`: runs that were sent, and of which no answer came.
pub fn greeted(
    state: &State,
    node: &str,
    ledger: &NodeLedger,
    unanswered: &HashSet<RunToken>,
) -> Vec<Change> {
    if is_known(state, node, ledger) {
        return Vec::new();
    }
    let before = state.ledgers.get(node);
    let runs = state.experiments.iter().flat_map(|one| one.runs.iter());
    let here = runs.filter(|run| run.node() == Some(node) && run.dispatch.stage.is_before_start());
    let mut changes: Vec<Change> = here
        .filter_map(|run| match (run.elsewhere(), before) {
            (Some(own), _) if own.id == ledger.id => comes_back(run),
            (Some(_), _) | (None, None) => None,
            (None, Some(before)) => {
                let may_have = may_have(run, unanswered);
                may_have
                    .then(|| stays_behind(run, before, ledger))
                    .flatten()
            }
        })
        .collect();
    let mut ledgers: BTreeMap<String, NodeLedger> = (*state.ledgers).clone();
    ledgers.insert(node.to_owned(), ledger.clone());
    changes.push(Change::Ledgers(Arc::new(ledgers)));
    changes
}

/// Whether the ledger before may have a run of its node.
fn may_have(run: &Run, unanswered: &HashSet<RunToken>) -> bool {
    match &run.dispatch.stage {
        Stage::Offered { .. } | Stage::Accepted { .. } | Stage::Recalled { .. } => true,
        Stage::Chosen { .. } => unanswered.contains(&run.made.token),
        Stage::Behind { .. } | Stage::Unplaced | Stage::Begun { .. } | Stage::Over { .. } => false,
    }
}

fn comes_back(run: &Run) -> Option<Change> {
    dispatch_changed(run, |dispatch| {
        dispatch.elsewhere = None;
        dispatch.why = WaitReason::Unknown;
    })
}

fn stays_behind(run: &Run, before: &NodeLedger, now: &NodeLedger) -> Option<Change> {
    let places = if before.root == now.root {
        format!("another {} than that in which this run waits", now.root)
    } else {
        format!("{}, and this run waits in {}", now.root, before.root)
    };
    let why = format!(
        "{} answers from {places} and may still start; put `root:` (or `address:`) of the node back, or give the run up by `neroman abort`",
        run.node_word()
    );
    dispatch_changed(run, |dispatch| {
        dispatch.elsewhere = Some(Box::new(before.clone()));
        dispatch.why = WaitReason::NeedsPerson(bounded(&why));
    })
}
