//! Batches: the runs that one `start` or `restart` made. The first ends of a batch may
//! hold back its other runs, or let them go.
//!
//! A hold is decided in the transaction of the end that causes it, so that no death of
//! the daemon loses or repeats it. It stands until the pilot finishes or a person lifts it.

use std::collections::BTreeMap;

use nero_model::{EndReason, Phase, RunId};

use super::held::AlikeCrashes;
use crate::facts::hold::HoldCause;
use crate::fold::change::Change;
use crate::fold::run::Run;
use crate::fold::state::State;
use crate::step::hold::may_be_held;
use crate::step::input::Input;
use crate::step::{fits, step};

/// Smaller batches are never held for runs that crash alike.
pub const RUNS_MIN: u32 = 10;
/// So many first ends of a batch are compared.
pub const FIRST_ENDS: u32 = 5;
/// An exit code or signal after a longer run time is no sign of a common cause, in
/// milliseconds.
const EARLY_MS: u64 = 60_000;

/// The changes of other runs that follow when these runs changed between the two states.
pub fn follow(
    before: &State,
    after: &State,
    changed: impl IntoIterator<Item = RunId>,
    now_ms: i64,
) -> Vec<Change> {
    let mut finished_pilots = Vec::new();
    let mut with_ends = Vec::new();
    for id in changed {
        let Some(run) = after.run(id).filter(|run| run.has_ended()) else {
            continue;
        };
        let had_ended = before.run(id).is_some_and(Run::has_ended);
        let Some(batch) = run.made.batch.filter(|_| !had_ended) else {
            continue;
        };
        let is_pilot = batch.experiment == id.experiment && after.batch(batch).runs > 1;
        if is_pilot && run.phase() == Phase::Finished {
            finished_pilots.push(batch);
        }
        with_ends.push(batch);
    }
    with_ends.sort_unstable();
    with_ends.dedup();
    let mut changes = Vec::new();
    for batch in finished_pilots {
        let held = after
            .batch_runs(batch)
            .filter(|run| run.hold_cause() == Some(HoldCause::Pilot));
        changes.extend(held.flat_map(|run| fits(step(run, &Input::HoldLifted, now_ms))));
    }
    for batch in with_ends {
        // The count passes this number once, since ends are final.
        let comes_now = before.batch(batch).ended < FIRST_ENDS;
        let count = after.batch(batch);
        if comes_now && count.ended >= FIRST_ENDS && count.runs >= RUNS_MIN {
            changes.extend(hold_if_alike(after, batch, now_ms));
        }
    }
    changes
}

/// Lets the next runs of a start go on, of which only some do so at once, when others of
/// them ended or were let go meanwhile.
pub fn next_in_line(
    before: &State,
    after: &State,
    changed: impl IntoIterator<Item = RunId>,
    now_ms: i64,
) -> Vec<Change> {
    let place = |run: &Run| (goes_on(run), run.hold_cause());
    let lines = changed.into_iter().filter_map(|id| {
        let run = after.run(id)?;
        let line = run.made.line?;
        (before.run(id).map(place) != Some(place(run))).then_some((line.of, line.at_most))
    });
    let lines: BTreeMap<RunId, u32> = lines.collect();
    let mut changes = Vec::new();
    for (of, at_most) in lines {
        let runs = after.experiments.iter().flat_map(|one| one.runs.iter());
        let runs = runs.filter(|run| run.made.line.is_some_and(|line| line.of == of));
        let (mut going, mut waiting) = (0, Vec::new());
        for run in runs {
            going += u32::from(goes_on(run));
            if run.phase().is_live() && run.hold_cause() == Some(HoldCause::AtMost) {
                waiting.push(run);
            }
        }
        waiting.sort_unstable_by_key(|run| (run.made.rank, run.made.id));
        let next = waiting
            .into_iter()
            .take(at_most.saturating_sub(going) as usize);
        changes.extend(next.flat_map(|run| fits(step(run, &Input::HoldLifted, now_ms))));
    }
    changes
}

/// Whether it counts among the runs that go on.
fn goes_on(run: &Run) -> bool {
    run.phase().is_live() && !run.dispatch.in_line && !run.waits_for_others()
}

/// Holds the runs of a batch that have not begun, if its first ends are equal crashes and
/// no live run has reported a metric after a longer time than each of them ran.
fn hold_if_alike(state: &State, batch: RunId, now_ms: i64) -> Vec<Change> {
    let counts = |run: &Run| run.made.counts_in().is_some();
    let ended = state.batch_runs(batch);
    let mut ended: Vec<&Run> = ended.filter(|run| run.has_ended() && counts(run)).collect();
    ended.sort_by_key(|run| (run.outcome.ended_ms, run.made.id));
    ended.truncate(FIRST_ENDS as usize);
    let Some((first, others)) = ended.split_first() else {
        return Vec::new();
    };
    let crash = EarlyCrash::of(first);
    if crash.is_none() || others.iter().any(|run| EarlyCrash::of(run) != crash) {
        return Vec::new();
    }
    let ran_ms = ended.iter().filter_map(|run| Some(run.exit()?.run_ms));
    let latest_ms = ran_ms.max().unwrap_or(0);
    let outlives_them = |run: &Run| {
        let reported_ms = run.journal.reported_after_ms();
        run.phase().is_live() && reported_ms.is_some_and(|ms| ms > latest_ms)
    };
    if state.batch_runs(batch).any(outlives_them) {
        return Vec::new();
    }
    let like = first.made.id;
    let hold = Input::Hold(HoldCause::Crashes(like));
    let held = state
        .batch_runs(batch)
        .filter(|run| counts(run) && may_be_held(run));
    let mut changes: Vec<Change> = held
        .flat_map(|run| fits(step(run, &hold, now_ms)))
        .collect();
    if !changes.is_empty() {
        let runs = changes.len();
        changes.push(Change::Event {
            experiment: like.experiment,
            run: Some(like.number),
            at_ms: now_ms,
            text: format!("{}: {runs} are held", AlikeCrashes(first)),
        });
    }
    changes
}

/// The sign of a common cause of crashes.
#[derive(PartialEq, Eq)]
enum EarlyCrash {
    Exit(i32),
    Signal(i32),
    Other(String),
}

impl EarlyCrash {
    fn of(run: &Run) -> Option<Self> {
        if run.phase() != Phase::Crashed {
            return None;
        }
        let is_early = run.exit().is_some_and(|exit| exit.run_ms < EARLY_MS);
        match run.reason()? {
            EndReason::Exited { code } => is_early.then_some(Self::Exit(*code)),
            EndReason::Signalled { signal, .. } => is_early.then_some(Self::Signal(*signal)),
            other => Some(Self::Other(other.to_string())),
        }
    }
}
