//! Cancel requests for the runs of an experiment, and the runs that they release.

use nero_model::{ExperimentId, RunId};

use crate::facts::dispatch::Cancel;
use crate::fold::change::Change;
use crate::fold::experiment::Experiment;
use crate::fold::run::Run;
use crate::fold::state::State;
pub use crate::step::cancel::{Answer, CancelOutcome, comes_to};
use crate::step::input::Input;
use crate::step::{LateInputError, fits, step, steps};

/// The result of a cancel request for a run, or for an experiment that has none to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelResult {
    pub experiment: ExperimentId,
    pub name: String,
    /// 0: the experiment has no run.
    pub run: u32,
    pub outcome: CancelOutcome,
}

/// Cancels the live runs of experiments, of each the one with this number or all. `late` gets
/// inputs that do not fit, which are mistakes of ours.
pub fn cancel(
    state: &State,
    chosen: impl IntoIterator<Item = (ExperimentId, Option<u32>)>,
    cancel: &Cancel,
    mut late: impl FnMut(LateInputError),
) -> (Vec<CancelResult>, Vec<Change>) {
    let mut results = Vec::new();
    let mut changes = Vec::new();
    for (id, number) in chosen {
        let Some(experiment) = state.experiment(id) else {
            continue;
        };
        let mut add = |run: u32, outcome: CancelOutcome| {
            results.push(CancelResult {
                experiment: id,
                name: experiment.definition.name.clone(),
                run,
                outcome,
            });
        };
        let one = match number {
            Some(number) => experiment.run(number),
            None => experiment.current(),
        };
        let Some(one) = one else {
            add(0, CancelOutcome::Skipped("defined".to_owned()));
            continue;
        };
        // A run that is being ended for a restart and the run that waits for
        // its end are both live. A run that its node forgot counts as live
        // until a person gives it up.
        let live: Vec<_> = experiment
            .runs
            .iter()
            .filter(|run| number.is_none_or(|number| run.made.id.number == number))
            .filter(|run| run.phase().is_live() || run.forgotten())
            .collect();
        if live.is_empty() {
            let word = one.phase().as_str().to_owned();
            add(one.made.id.number, CancelOutcome::Skipped(word));
        }
        for run in live {
            let input = Input::Cancel(cancel.clone());
            let inputs = [(run.made.id, &input)];
            changes.extend(steps(state, inputs, cancel.asked_ms, &mut late));
            add(run.made.id.number, comes_to(run));
        }
    }
    (results, changes)
}

/// Cancels the live runs of an experiment that is started again.
pub fn for_restart(experiment: &Experiment, author: &str, now_ms: i64) -> Vec<Change> {
    let asked = Cancel {
        asked_ms: now_ms,
        author: author.to_owned(),
        grace_ms: 0,
        signal: 0,
        delivered: false,
        rule: None,
    };
    experiment
        .runs
        .iter()
        .filter(|run| run.phase().is_live() && run.dispatch.cancel.is_none())
        // It may still start: a person gives it up by an abort.
        .filter(|run| run.elsewhere().is_none())
        .flat_map(|run| fits(step(run, &Input::Cancel(asked.clone()), now_ms)))
        .collect()
}

/// The run that goes on because this one ended between the two states, or turned
/// out not to be in doubt any more, and its changes.
pub fn released_by(
    before: &State,
    after: &State,
    run: RunId,
    now_ms: i64,
) -> Option<(RunId, Vec<Change>)> {
    let ended = |state: &State| state.run(run).is_some_and(|run| run.phase().is_end());
    let doubt = |state: &State| state.run(run).is_some_and(Run::in_doubt);
    let clear = doubt(before) && !doubt(after);
    if !ended(after) || (ended(before) && !clear) {
        return None;
    }
    released(after, run, now_ms)
}

/// The run that waited for another one of its experiment, now that all earlier
/// ones have ended, and its changes.
pub fn released(state: &State, ended: RunId, now_ms: i64) -> Option<(RunId, Vec<Change>)> {
    let experiment = state.experiment(ended.experiment)?;
    let newest = experiment.newest()?;
    newest.after()?;
    let others = &experiment.runs[..experiment.runs.len() - 1];
    let mut before = others.iter().rev();
    let before = before.find(|run| run.dispatch.stage.verdict().is_none());
    let in_doubt = before.is_some_and(Run::in_doubt);
    let waits = in_doubt || others.iter().any(|run| run.phase().is_live());
    if newest.phase().is_end() || waits {
        return None;
    }
    Some((newest.made.id, fits(step(newest, &Input::Released, now_ms))))
}
