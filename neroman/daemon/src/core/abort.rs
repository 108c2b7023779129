//! Wishes that runs end, and what they release.

use nero_model::RunId;

use super::change::Change;
use super::experiment::Experiment;
use super::gone;
use super::run::{Run, Wish, Word};
use super::state::State;

/// What a wish amounts to now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wished {
    /// It is written down; the node is told.
    Asked,
    /// It was never sent anywhere: it is over.
    TakenAway,
    /// Its node does not know it any more: nothing is waited for.
    GivenUp,
    /// There is nothing to end.
    Skipped(String),
}

/// Writes down that a run is to end.
pub(crate) fn wish(run: &Run, wish: &Wish) -> (Wished, Vec<Change>) {
    if run.forgotten() {
        return (
            Wished::GivenUp,
            gone::given_up(run, &wish.author, wish.asked_ms),
        );
    }
    if run.phase().is_end() {
        return (Wished::Skipped(run.phase().word().to_owned()), Vec::new());
    }
    let mut desk = run.desk.clone();
    let outcome = if desk.after.is_some() || run.unplaced() || run.movable() {
        // No node has heard of it: it is offered only as it is written down then.
        desk.after = None;
        desk.closed = true;
        desk.word = Some(Word::TakenAway {
            who: wish.author.clone(),
            at_ms: wish.asked_ms,
        });
        Wished::TakenAway
    } else {
        desk.wish = Some(wish.clone());
        Wished::Asked
    };
    let change = Change::Desk {
        run: run.made.id,
        desk: Box::new(desk),
        rules: None,
    };
    (outcome, vec![change])
}

/// The wish that a run ends since its experiment is started again.
pub(crate) fn for_restart(experiment: &Experiment, author: &str, now_ms: i64) -> Vec<Change> {
    let asked = Wish {
        asked_ms: now_ms,
        author: author.to_owned(),
        grace_ms: 0,
        signal: 0,
        delivered: false,
    };
    experiment
        .runs
        .iter()
        .filter(|run| run.phase().is_live() && run.desk.wish.is_none())
        .flat_map(|run| wish(run, &asked).1)
        .collect()
}

/// The run that was waiting for the end of another one of its experiment, now
/// that all earlier ones have ended.
pub(crate) fn released(state: &State, ended: RunId) -> Option<(RunId, Change)> {
    let experiment = state.experiment(ended.experiment)?;
    let newest = experiment.newest()?;
    newest.desk.after?;
    let others = &experiment.runs[..experiment.runs.len() - 1];
    let before = others.iter().rev().find(|run| run.desk.word.is_none());
    let in_doubt = before.is_some_and(Run::in_doubt);
    if newest.phase().is_end() || in_doubt || others.iter().any(|run| run.phase().is_live()) {
        return None;
    }
    let mut desk = newest.desk.clone();
    desk.after = None;
    let change = Change::Desk {
        run: newest.made.id,
        desk: Box::new(desk),
        rules: None,
    };
    Some((newest.made.id, change))
}
