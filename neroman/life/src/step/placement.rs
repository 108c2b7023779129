//! The changes from a decision about a run's node.

use super::late::{LateInput, StepResult};
use super::{deferred, refusal};
use crate::facts::reason::{NoNode, WaitReason};
use crate::facts::stage::Stage;
use crate::facts::text::bounded;
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::run::Run;

/// The change of a run whose earlier run is over.
pub(crate) fn released(run: &Run) -> StepResult {
    let Stage::Behind { node, .. } = &run.dispatch.stage else {
        return Err(LateInput);
    };
    let stage = match node.clone() {
        Some(node) => Stage::Chosen {
            node,
            sending: false,
        },
        None => Stage::Unplaced,
    };
    let change = dispatch_changed(run, |dispatch| dispatch.stage = stage);
    Ok(change.into_iter().collect())
}

/// The changes from a choice, if the run still waits for one.
pub(crate) fn decided(run: &Run, choice: &Choice, now_ms: i64) -> StepResult {
    if !run.unplaced() {
        return Err(LateInput);
    }
    let id = run.made.id;
    let event = match choice {
        Choice::On(name) => Some(Change::Event {
            experiment: id.experiment,
            run: Some(id.number),
            at_ms: now_ms,
            text: format!("{id}: placed on {name}"),
        }),
        Choice::Nowhere(_) | Choice::Never(_) | Choice::Later { .. } | Choice::Wait => None,
    };
    let change = dispatch_changed(run, |dispatch| match choice {
        Choice::On(name) => {
            dispatch.stage = Stage::Chosen {
                node: name.clone(),
                sending: false,
            };
            dispatch.why = WaitReason::Unknown;
            // It goes on there if the node has it still.
            dispatch.left_behind.retain(|other| other != name);
        }
        Choice::Later { .. } => dispatch.why = WaitReason::Said(run.made.why_later()),
        Choice::Nowhere(why) => dispatch.why = WaitReason::NoNode(why.clone()),
        Choice::Never(why) => {
            let why = bounded(&why.to_string());
            let why = refusal::with_hint(&why, &refusal::hints(&dispatch.refused));
            dispatch.never_starts(why, now_ms);
            dispatch.why = WaitReason::Unknown;
            // No node has anything of the run.
            dispatch.stage.close();
        }
        Choice::Wait => {}
    });
    Ok(change.into_iter().chain(event).collect())
}

/// The changes of a run that waits for the placer again, if its node still never got it.
pub(crate) fn unplaced(run: &Run, node: &str, why: &str, now_ms: i64) -> StepResult {
    if run.node() != Some(node) || !run.movable() {
        return Err(LateInput);
    }
    let id = run.made.id;
    let change = dispatch_changed(run, |dispatch| {
        dispatch.stage = Stage::Unplaced;
        deferred::taken(dispatch, node);
    });
    let event = Change::Event {
        experiment: id.experiment,
        run: Some(id.number),
        at_ms: now_ms,
        text: format!("{id}: recalled from {node}: {why}"),
    };
    Ok(change.into_iter().chain([event]).collect())
}

impl Choice {
    /// Whether it is synced before anything follows from it. A lock is held from the choice on.
    /// A run that was asked for by the name of its node is sent without an offer: after a power
    /// cut nothing would tell that its node may have it.
    pub fn is_synced(&self, run: &Run) -> bool {
        let has_lock = run.made.precedence.looks_at_others();
        matches!(self, Self::On(node) if has_lock || *node == run.made.node)
    }
}

/// The decision for one run.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// The run goes to this node.
    On(String),
    /// An answer that may change the choice is on its way.
    Wait,
    /// It is a retry that is not due yet.
    Later { left_ms: i64 },
    /// No node takes it now.
    Nowhere(NoNode),
    /// Every node that could take it refused it, or can never take what a retry asks for.
    Never(NoNode),
}
