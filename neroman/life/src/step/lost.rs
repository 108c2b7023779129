//! What becomes of a run whose node will never answer again, and the copies of runs that
//! other nodes may still have.

use std::fmt;
use std::sync::Arc;

use super::late::{LateInput, StepResult};
use super::needs;
use crate::facts::dispatch::Dispatch;
use crate::facts::results::Results;
use crate::facts::stage::Verdict;
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::run::Run;

/// What becomes of a run whose node a person declared gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossOutcome {
    /// It was never started and goes to another node.
    Moved,
    /// It was being cancelled, and was never started.
    TakenAway,
    /// The end of the run will never be known.
    Lost,
    /// It had ended; its results that had not come home are lost.
    ResultsLost,
}

impl fmt::Display for LossOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Moved => "moved",
            Self::TakenAway => "taken away",
            Self::Lost => "lost",
            Self::ResultsLost => "results lost",
        })
    }
}

/// Gives up a run that its node does not know any more, by a person's decision.
/// If the node reports it again, it is ended there.
pub(crate) fn given_up(run: &Run, who: &str, now_ms: i64) -> Vec<Change> {
    let (id, node) = (run.made.id, run.node_word());
    let mut dispatch = run.dispatch.clone();
    lose(&mut dispatch, run, node, who, now_ms);
    let event = Change::Event {
        experiment: id.experiment,
        run: Some(id.number),
        at_ms: now_ms,
        text: match run.elsewhere() {
            Some(ledger) => format!(
                "{id}: given up, it may still start in {} of node {node}",
                ledger.root
            ),
            None => format!("{id}: given up, node {node} does not know it any more"),
        },
    };
    become_so(run, dispatch).chain([event]).collect()
}

/// Records that a node may still have a run that is no longer its own: the node
/// will be told to end it.
pub(crate) fn left_behind(run: &Run, node: &str) -> Option<Change> {
    dispatch_changed(run, |dispatch| {
        if !dispatch.left_behind.iter().any(|other| other == node) {
            dispatch.left_behind.push(node.to_owned());
        }
    })
}

/// Records that a node was told to end its copy of a run.
pub(crate) fn ended_there(run: &Run, node: &str) -> Option<Change> {
    dispatch_changed(run, |dispatch| {
        dispatch.left_behind.retain(|other| other != node)
    })
}

/// Records that a run needs nothing more of its node, and forgets its positions.
pub(crate) fn closed(run: &Run) -> StepResult {
    if !needs::of(run).close {
        return Err(LateInput);
    }
    let dispatch = dispatch_changed(run, |dispatch| dispatch.stage.close());
    let changes = dispatch.into_iter().chain([forgets_positions(run)]);
    Ok(changes.collect())
}

/// A run whose positions are forgotten.
fn forgets_positions(run: &Run) -> Change {
    let mut journal = (*run.journal).clone();
    journal.compact();
    Change::Journal {
        run: run.made.id,
        journal: Arc::new(journal),
    }
}

/// The dispatch as a change; a closed run also forgets its positions.
fn become_so(run: &Run, dispatch: Dispatch) -> impl Iterator<Item = Change> + use<> {
    let id = run.made.id;
    let journal = dispatch.stage.is_closed().then(|| forgets_positions(run));
    let dispatch = Change::Dispatch {
        run: id,
        dispatch: Box::new(dispatch),
        rules: None,
    };
    journal.into_iter().chain([dispatch])
}

/// Marks the run as awaiting nothing more.
fn lose(dispatch: &mut Dispatch, run: &Run, node: &str, who: &str, now_ms: i64) {
    dispatch.stage.end(Verdict::NodeGone {
        who: who.to_owned(),
        at_ms: now_ms,
    });
    dispatch.stage.close();
    if !run.journal.incarnations.is_empty() && !dispatch.results.settled() {
        dispatch.results = lost_results(dispatch, node);
    }
}

/// What becomes of a run whose node is gone; `None`: it had ended, and all of it
/// is home. `others`: whether the word that was asked for has other nodes, too.
pub(crate) fn comes_to(run: &Run, others: bool) -> Option<LossOutcome> {
    if !run.phase().is_live() && !run.in_doubt() {
        let lost = !run.dispatch.results.settled() && run.has_results();
        return lost.then_some(LossOutcome::ResultsLost);
    }
    if run.in_doubt() || !run.dispatch.stage.is_before_start() {
        return Some(LossOutcome::Lost);
    }
    Some(match run.dispatch.cancel {
        Some(_) => LossOutcome::TakenAway,
        None if run.made.placing && others => LossOutcome::Moved,
        None => LossOutcome::Lost,
    })
}

/// The changes of a run whose node is gone.
pub(crate) fn gone(run: &Run, node: &str, who: &str, others: bool, now_ms: i64) -> StepResult {
    if run.node() != Some(node) {
        return Err(LateInput);
    }
    let mut dispatch = run.dispatch.clone();
    // If the node comes back after all, it is told to end the run.
    if dispatch.stage.may_be_there() {
        dispatch.left_behind.push(node.to_owned());
        dispatch.excluded.push(node.to_owned());
    }
    let outcome = comes_to(run, others);
    match outcome {
        None => dispatch.stage.close(),
        Some(LossOutcome::ResultsLost) => {
            dispatch.stage.close();
            dispatch.results = lost_results(&dispatch, node);
        }
        Some(LossOutcome::Lost) => lose(&mut dispatch, run, node, who, now_ms),
        Some(LossOutcome::TakenAway) => {
            dispatch.take_away(now_ms);
            dispatch.stage.close();
        }
        Some(LossOutcome::Moved) => dispatch.leave_node(),
    }
    let id = run.made.id;
    let event = outcome.map(|outcome| Change::Event {
        experiment: id.experiment,
        run: Some(id.number),
        at_ms: now_ms,
        text: format!("{id}: node {node} is gone, {outcome}"),
    });
    Ok(become_so(run, dispatch).chain(event).collect())
}

fn lost_results(dispatch: &Dispatch, node: &str) -> Results {
    Results::Failed {
        folder: dispatch.results.folder().to_owned(),
        why: format!("node {node} is gone"),
    }
}
