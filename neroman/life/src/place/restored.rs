//! A home that was restored from a backup. Its nodes may know more than it does: a run that
//! waited when the backup was made may have been started since, and on another node. Until
//! every node that may have such a run told what it knows, the run is not placed and not handed
//! over, and no run follows an end by itself.

use std::sync::Arc;

use nero_model::{RunId, RunToken};

pub use crate::facts::nodes::RestoreState;
use crate::facts::stage::Stage;
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::run::Run;
use crate::fold::state::State;

/// Why no run follows the end of a run that was live in the backup: another neroman may have
/// made that run already.
const NO_RETRY: &str = "no run follows it by itself: the home was restored from a backup";

/// A run that a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnNode {
    pub token: RunToken,
    /// Number of the hand-over that brought it there.
    pub generation: u32,
}

/// The changes that begin it.
pub fn begin(state: &State, restored: RestoreState) -> Vec<Change> {
    let live = runs(state).filter(|run| run.phase().is_live());
    let mut changes: Vec<Change> = live
        .filter_map(|run| {
            let may_be_followed =
                run.made.again != nero_format::FollowUp::default() || !run.rules.is_empty();
            dispatch_changed(run, |dispatch| {
                dispatch.restored = true;
                if may_be_followed && dispatch.no_retry.is_empty() {
                    NO_RETRY.clone_into(&mut dispatch.no_retry);
                }
            })
        })
        .collect();
    changes.push(Change::Restored(Arc::new(restored)));
    // `local` may be another machine's, and each node is asked what it knows, whatever its ledger.
    changes.push(Change::Ledgers(Arc::default()));
    changes
}

/// The changes after a node told which runs it has. A run that waits here and lies there is
/// that node's. A node that cannot read all its runs (`is_whole`) has not told all.
pub fn reconcile(state: &State, node: &str, there: &[OnNode], is_whole: bool) -> Vec<Change> {
    let mut changes = Vec::new();
    for one in there {
        let run = state
            .by_token(&one.token)
            .and_then(|id| state.run(id))
            .filter(|run| run.awaits_nodes() && run.phase().is_live());
        let Some(run) = run else { continue };
        let is_known = run.dispatch.stage.is_accepted() && run.node() == Some(node);
        if is_known {
            continue;
        }
        changes.extend(dispatch_changed(run, |dispatch| {
            dispatch.stage = Stage::Accepted {
                node: node.to_owned(),
                queued: false,
            };
            // Reports of earlier hand-overs do not count.
            dispatch.came_back = one.generation.saturating_sub(1).max(dispatch.came_back);
            dispatch.rules_delivered = 0;
            dispatch.elsewhere = None;
        }));
    }
    let mut left = (*state.restored).clone();
    if is_whole {
        left.nodes.remove(node);
    }
    if left != *state.restored {
        changes.push(Change::Restored(Arc::new(left)));
    }
    changes
}

/// The change when nothing more will be heard of a node.
pub fn never_tells(state: &State, node: &str) -> Option<Change> {
    let mut left = (*state.restored).clone();
    let was_awaited = left.nodes.remove(node);
    was_awaited.then(|| Change::Restored(Arc::new(left)))
}

/// The changes of runs whose nodes have all told what they know. `nodes` returns those that a
/// word stands for.
pub fn release(state: &State, nodes: impl Fn(&str) -> Vec<String>) -> Vec<Change> {
    let waiting = runs(state).filter(|run| run.awaits_nodes());
    let released = waiting.filter(|run| {
        let lock = run.made.precedence.lock.as_ref();
        if lock.is_some_and(|lock| lock.everywhere) && !state.restored.nodes.is_empty() {
            // Any of them may have a run that got the lock since.
            return false;
        }
        let asked = nodes(&run.made.node);
        let mut all = asked.iter().map(String::as_str).chain(run.node());
        all.all(|node| state.restored.has_told(node))
    });
    released.filter_map(released_by_word).collect()
}

/// Lets a run go on, at a person's or its nodes' word.
fn released_by_word(run: &Run) -> Option<Change> {
    dispatch_changed(run, |dispatch| dispatch.restored = false)
}

/// The runs that wait for what nodes know.
pub fn waiting(state: &State) -> Vec<RunId> {
    let waiting = runs(state).filter(|run| run.awaits_nodes());
    waiting.map(|run| run.made.id).collect()
}

/// What a run waits for.
pub fn awaited(state: &State, run: &Run) -> Option<String> {
    if !run.awaits_nodes() || !run.phase().is_live() {
        return None;
    }
    let restored = &state.restored;
    let id = run.made.id.experiment;
    let nodes: Vec<&str> = restored.nodes.iter().map(String::as_str).collect();
    Some(match (restored.other_host.as_str(), nodes.as_slice()) {
        ("", []) => "its node's word, since this home was restored from a backup".to_owned(),
        ("", nodes) => format!(
            "what {} knows: this home was restored from a backup; `neroman resume {id}` goes on without",
            nodes.join(", ")
        ),
        (host, _) => format!(
            "you: it may have been started on {host}, whose backup this is; `neroman resume {id}` starts it here"
        ),
    })
}

fn runs(state: &State) -> impl Iterator<Item = &Run> {
    state.experiments.iter().flat_map(|one| one.runs.iter())
}
