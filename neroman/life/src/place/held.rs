//! Why a run is held, for people.

use std::fmt;

use nero_model::RunId;

use super::batch::FIRST_ENDS;
use super::precedence::{AwaitedExperiment, Precedents};
use crate::facts::hold::HoldCause;
use crate::facts::text::bounded;
use crate::fold::run::Run;
use crate::fold::state::State;

/// Why a run is held, as it is shown.
#[derive(Clone, Copy, Debug)]
pub enum HoldReason<'a> {
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

impl<'a> HoldReason<'a> {
    /// Why a live run is held, if it is.
    pub fn of(state: &'a State, run: &'a Run) -> Option<Self> {
        if run.waits_for_others() {
            Self::among(&Precedents::of(state), state, run)
        } else {
            Self::of_its_batch(state, run)
        }
    }

    /// The same, with what runs wait for.
    pub fn among(precedents: &Precedents<'a>, state: &'a State, run: &'a Run) -> Option<Self> {
        if run.waits_for_others() && run.hold_cause() == Some(HoldCause::Others) {
            precedents.awaited(run).map(Self::Others)
        } else {
            Self::of_its_batch(state, run)
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

impl fmt::Display for HoldReason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PilotLives(pilot) => write!(f, "its pilot {pilot}, which runs first"),
            Self::PilotFailed(pilot) => {
                let (id, phase) = (pilot.made.id, pilot.phase().as_str());
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

/// The text that the first runs of a batch crashed as this one did.
pub(super) struct AlikeCrashes<'a>(pub(super) &'a Run);

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
