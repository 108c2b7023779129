//! Batches: the runs that one `start` or `restart` made. The first ends of a batch may
//! hold back its other runs, or let them go.
//!
//! A hold is decided in the transaction of the end that causes it, so that no death of
//! the daemon loses or repeats it. It stands until the pilot finishes or a person lifts it.

use std::collections::BTreeMap;
use std::fmt;

use nero_model::{EndReason, Phase, RunId};
use serde::{Deserialize, Serialize};

use super::change::{Change, dispatch_changed};
use super::input::Input;
use super::late::{Late, Stepped};
use super::precedence::{AwaitedExperiment, Precedents};
use super::run::Run;
use super::state::State;
use super::step::{fits, step};
use super::text::bounded;

/// Smaller batches are never held for runs that crash alike.
pub const RUNS_MIN: u32 = 10;
/// So many first ends of a batch are compared.
pub const FIRST_ENDS: u32 = 5;
/// An exit code or signal after a longer run time is no sign of a common cause, in
/// milliseconds.
const EARLY_MS: u64 = 60_000;

/// Why runs of a batch are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldCause {
    /// The first run of the batch has not finished.
    Pilot,
    /// The first ends of the batch were equal crashes; this run is the first of them.
    Crashes(RunId),
    /// It needs other experiments. Never stored: see
    /// [`Dispatch::behind_others`](super::dispatch::Dispatch::behind_others).
    Others,
    /// As many runs of its start as may go on at once do. Never stored: see
    /// [`Dispatch::in_line`](super::dispatch::Dispatch::in_line).
    AtMost,
}

/// A run that has not begun is not started.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hold {
    /// It is held. `told`: its node answered that it holds the run, too.
    On { cause: HoldCause, told: bool },
    /// The hold was lifted, and its node may not know that yet.
    Lifted,
}

/// The number of runs of a batch, and how many of them have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchCount {
    pub runs: u32,
    pub ended: u32,
}

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
        let held = members(after, batch).filter(|run| run.hold_cause() == Some(HoldCause::Pilot));
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

/// The runs of a batch, by experiment.
pub fn members(state: &State, batch: RunId) -> impl Iterator<Item = &Run> {
    let runs = state.experiments.iter().flat_map(|one| one.runs.iter());
    runs.filter(move |run| run.made.batch == Some(batch))
}

/// Holds the runs of a batch that have not begun, if its first ends are equal crashes and
/// no live run has reported a metric after a longer time than each of them ran.
fn hold_if_alike(state: &State, batch: RunId, now_ms: i64) -> Vec<Change> {
    let counts = |run: &Run| run.made.counts_in().is_some();
    let mut ended: Vec<&Run> = members(state, batch)
        .filter(|run| run.has_ended() && counts(run))
        .collect();
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
    if members(state, batch).any(outlives_them) {
        return Vec::new();
    }
    let like = first.made.id;
    let hold = Input::Hold(HoldCause::Crashes(like));
    let held = members(state, batch).filter(|run| counts(run) && may_be_held(run));
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

fn may_be_held(run: &Run) -> bool {
    let waits = run.phase().is_live() && run.dispatch.stage.is_before_start();
    waits && run.dispatch.hold.is_none() && run.dispatch.cancel.is_none()
}

/// Holds a run.
pub(crate) fn hold(run: &Run, cause: HoldCause) -> Stepped {
    if !may_be_held(run) {
        return Err(Late);
    }
    let told = false;
    let change = dispatch_changed(run, |dispatch| {
        dispatch.hold = Some(Hold::On { cause, told });
    });
    Ok(change.into_iter().collect())
}

/// Lifts the hold of a run. A node that has accepted the run may hold it, and is told.
pub(crate) fn lifted(run: &Run) -> Stepped {
    let cause = run.hold_cause();
    if cause.is_none() && !run.awaits_nodes() {
        return Err(Late);
    }
    let may_be_told = run.dispatch.stage.is_accepted();
    let change = dispatch_changed(run, |dispatch| match cause {
        // It still waits for what the nodes of a restored home know.
        Some(HoldCause::Others) => dispatch.waits_for_others = false,
        Some(HoldCause::AtMost) => dispatch.in_line = false,
        Some(HoldCause::Pilot | HoldCause::Crashes(_)) => {
            dispatch.restored = false;
            dispatch.hold = may_be_told.then_some(Hold::Lifted);
        }
        None => dispatch.restored = false,
    });
    Ok(change.into_iter().collect())
}

/// Records a node's answer to a hold or to its end: whether it holds the run now.
pub(crate) fn answered(run: &Run, holds: bool) -> Stepped {
    let change = dispatch_changed(run, |dispatch| match &mut dispatch.hold {
        Some(Hold::On { told, .. }) if holds => *told = true,
        // The run has begun or ended there.
        Some(Hold::On { .. }) => dispatch.hold = None,
        Some(Hold::Lifted) if holds => {}
        Some(Hold::Lifted) | None => dispatch.hold = None,
    });
    Ok(change.into_iter().collect())
}

/// Why a run is held, as it is shown.
#[derive(Clone, Copy, Debug)]
pub enum Held<'a> {
    /// Its pilot has not ended.
    PilotLives(RunId),
    /// Its pilot ended, and did not finish.
    PilotFailed(&'a Run),
    /// Its pilot was removed.
    PilotUnknown(RunId),
    /// The first runs of its batch crashed alike; this is one of them.
    CrashedAlike(&'a Run),
    /// The same, and that run was removed.
    CrashesUnknown(RunId),
    /// It needs other experiments.
    Others(AwaitedExperiment<'a>),
    /// So many runs of its start go on at once, and others are before it.
    AtMost(u32),
}

impl<'a> Held<'a> {
    /// Why a live run is held, if it is.
    pub fn of(state: &'a State, run: &'a Run) -> Option<Self> {
        match run.waits_for_others() {
            true => Self::among(&Precedents::of(state), state, run),
            false => Self::of_its_batch(state, run),
        }
    }

    /// The same, with what runs wait for.
    pub fn among(precedents: &Precedents<'a>, state: &'a State, run: &'a Run) -> Option<Self> {
        match run.waits_for_others() && run.hold_cause() == Some(HoldCause::Others) {
            true => precedents.awaited(run).map(Self::Others),
            false => Self::of_its_batch(state, run),
        }
    }

    /// The same, because of other runs of its batch.
    pub(crate) fn of_its_batch(state: &'a State, run: &Run) -> Option<Self> {
        let cause = run.hold_cause().filter(|_| run.phase().is_live())?;
        Some(match cause {
            HoldCause::Others => return None,
            HoldCause::Pilot => {
                let batch = run.made.batch?;
                match pilot(state, batch) {
                    Some(pilot) if pilot.phase().is_live() => Self::PilotLives(pilot.made.id),
                    Some(pilot) => Self::PilotFailed(pilot),
                    None => Self::PilotUnknown(batch),
                }
            }
            HoldCause::Crashes(like) => match state.run(like) {
                Some(like) => Self::CrashedAlike(like),
                None => Self::CrashesUnknown(like),
            },
            HoldCause::AtMost => Self::AtMost(run.made.line?.at_most),
        })
    }

    /// Whether the run waits until a person acts.
    pub fn needs_person(&self) -> bool {
        match self {
            Self::PilotLives(_) | Self::AtMost(_) => false,
            Self::Others(awaited) => awaited.needs_person(),
            Self::PilotFailed(_)
            | Self::PilotUnknown(_)
            | Self::CrashedAlike(_)
            | Self::CrashesUnknown(_) => true,
        }
    }
}

/// The newest run of the batch's first experiment that belongs to the batch.
fn pilot(state: &State, batch: RunId) -> Option<&Run> {
    let mut runs = state.experiment(batch.experiment)?.runs.iter().rev();
    runs.find(|run| run.made.batch == Some(batch))
}

impl fmt::Display for Held<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PilotLives(pilot) => write!(f, "its pilot {pilot}, which runs first"),
            Self::PilotFailed(pilot) => {
                let (id, phase) = (pilot.made.id, pilot.phase().word());
                write!(f, "its pilot {id} {phase}")?;
                because(pilot, f)
            }
            Self::PilotUnknown(id) => write!(f, "its pilot {id} was removed"),
            Self::CrashedAlike(like) => AlikeCrashes(like).fmt(f),
            Self::CrashesUnknown(id) => {
                write!(f, "the first {FIRST_ENDS} of its start crashed as {id} did")
            }
            Self::Others(awaited) => awaited.fmt(f),
            Self::AtMost(runs) => {
                write!(f, "its turn: at most {runs} of its start run at once")
            }
        }
    }
}

struct AlikeCrashes<'a>(&'a Run);

impl fmt::Display for AlikeCrashes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0.made.id;
        write!(f, "the first {FIRST_ENDS} of its start crashed as {id} did")?;
        because(self.0, f)
    }
}

/// The reason of an end, and the last line on standard error if it is home.
fn because(run: &Run, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(reason) = run.reason() else {
        return Ok(());
    };
    write!(f, ": {reason}")?;
    match run.stderr_line() {
        "" => Ok(()),
        line => write!(f, ", {}", bounded(line)),
    }
}
