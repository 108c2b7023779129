//! Decides which experiments get a new run, and why others do not.

use std::fmt;

use nero_format::NotBuilt;
use nero_model::{ExperimentId, Phase, RunId};

use super::held::HoldReason;
use super::precedence::Precedents;
use crate::fold::experiment::Experiment;
use crate::fold::run::Run;
use crate::fold::state::State;
use crate::fold::taken_over;
pub use crate::step::in_force::rules;

/// The options of a start.
#[derive(Clone, Copy, Debug, Default)]
pub struct StartOptions {
    /// A new run for each picked experiment.
    pub restart: bool,
    /// A new run even beside a lost one.
    pub abandon: bool,
    /// The new run begins with the checkpoints of the run before.
    pub resume: bool,
    /// The new run is made of what the newest one was made of.
    pub same_code: bool,
}

/// The decision for one experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The experiment gets this run.
    Run {
        id: RunId,
        /// A live run that is ended first.
        after: Option<u32>,
    },
    /// The experiment is skipped.
    Skip { id: ExperimentId, why: Skip },
}

/// Why an experiment gets no run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// It uses words that are not built yet: the first, and how many more.
    NotBuilt {
        word: NotBuilt,
        more: usize,
    },
    NoCommand,
    /// It names no files to go on from.
    NoCheckpoint,
    /// There is no run to go on from.
    NeverStarted,
    /// A run of it is live; `earlier`: which, if that is not the newest one.
    Live {
        phase: Phase,
        earlier: Option<RunId>,
    },
    /// It has ended so, and only a restart gives it another run.
    Ended {
        phase: Phase,
        /// Its definition is newer than its run.
        is_edited: bool,
    },
    /// A lost run may still run on its node beside a new one.
    InDoubt {
        run: RunId,
        node: String,
    },
    /// It was taken over without its code.
    NoSource,
}

impl Skip {
    /// The reason in a word or two, by which experiments are counted.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotBuilt { .. } => "not built yet",
            Self::NoCommand => "it has no command",
            Self::NoCheckpoint => "without `checkpoint`",
            Self::NeverStarted => "never started",
            Self::Live { phase, .. } | Self::Ended { phase, .. } => phase.as_str(),
            Self::InDoubt { .. } => Phase::Lost.as_str(),
            Self::NoSource => "without its code",
        }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt { word, more } => {
                write!(f, "not built yet: {} ({})", word.word, word.place)?;
                match more {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::NoCommand => f.write_str("it has no command"),
            Self::NoCheckpoint => f.write_str("it names no `checkpoint` to go on from"),
            Self::NeverStarted => {
                f.write_str("no run of it was ever started: nothing to go on from")
            }
            Self::Live { phase, earlier } => match earlier {
                None => f.write_str(phase.as_str()),
                Some(run) => write!(f, "{}: {run} has not ended yet", phase.as_str()),
            },
            Self::Ended { phase, is_edited } => {
                f.write_str(phase.as_str())?;
                let hint = " before its definition changed: `neroman restart changed` runs it anew";
                f.write_str(if *is_edited { hint } else { "" })
            }
            Self::InDoubt { run, node } => write!(
                f,
                "lost: {run} may still run on {node} beside a new one; --abandon goes on"
            ),
            Self::NoSource => f.write_str(
                "taken over, and its code is not here: first add its source again, `neroman add FOLDER`",
            ),
        }
    }
}

/// Decides about the picked experiments, in their order.
pub fn plan(state: &State, picked: &[ExperimentId], wanted: StartOptions) -> Vec<Plan> {
    let precedents = Precedents::of(state);
    picked
        .iter()
        .filter_map(|id| state.experiment(*id))
        .map(|experiment| {
            match refusal(&precedents, state, experiment, wanted).or_else(|| sourceless(experiment))
            {
                Some(why) => Plan::Skip {
                    id: experiment.id,
                    why,
                },
                None => Plan::Run {
                    id: RunId {
                        experiment: experiment.id,
                        number: u32::try_from(experiment.runs.len() + 1).unwrap_or(u32::MAX),
                    },
                    after: experiment.live().next().map(|run| run.made.id.number),
                },
            }
        })
        .collect()
}

/// The refusal for an experiment that was taken over without its code.
fn sourceless(experiment: &Experiment) -> Option<Skip> {
    taken_over::without_source(&experiment.definition).then_some(Skip::NoSource)
}

fn refusal<'a>(
    precedents: &Precedents<'a>,
    state: &'a State,
    experiment: &'a Experiment,
    wanted: StartOptions,
) -> Option<Skip> {
    if let [word, rest @ ..] = experiment.definition.not_built.as_slice() {
        return Some(Skip::NotBuilt {
            word: word.clone(),
            more: rest.len(),
        });
    }
    if experiment.definition.argv.is_empty() {
        return Some(Skip::NoCommand);
    }
    if wanted.same_code && experiment.newest().is_none() {
        return Some(Skip::NeverStarted);
    }
    if wanted.resume {
        if experiment.definition.checkpoint.is_empty() {
            return Some(Skip::NoCheckpoint);
        }
        if experiment.newest_started().is_none() {
            return Some(Skip::NeverStarted);
        }
    }
    // A new run takes the place of a held one, which has not begun.
    let waits_for_person = |run: &'a Run| {
        let held = HoldReason::among(precedents, state, run);
        run.started_ms().is_none() && held.is_some_and(|held| held.needs_person())
    };
    let live = experiment.live().find(|run| !waits_for_person(run));
    if let (Some(live), false) = (live, wanted.restart) {
        return Some(still_live(experiment, live));
    }
    let newest = experiment.newest()?;
    match newest.phase() {
        Phase::Finished | Phase::Lost if !wanted.restart => {
            return Some(Skip::Ended {
                phase: newest.phase(),
                is_edited: experiment.is_edited_since(newest),
            });
        }
        Phase::Finished
        | Phase::Lost
        | Phase::Crashed
        | Phase::Aborted
        | Phase::Timeout
        | Phase::Queued
        | Phase::Staging
        | Phase::Submitted
        | Phase::Pending
        | Phase::Running
        | Phase::Ending => {}
    }
    // A run that waits for a lost one, or that was cancelled while it waited,
    // reached no node: the job of the lost run may still be alive.
    let mut sent = experiment.runs.iter().rev();
    sent.find(|run| run.after().is_none() && run.dispatch.stage.verdict().is_none())
        .and_then(|run| lost(run, wanted.abandon))
}

/// Names the live run where it is not the newest one.
fn still_live(experiment: &Experiment, live: &Run) -> Skip {
    let newest = experiment.newest().map(|run| run.made.id);
    Skip::Live {
        phase: live.phase(),
        earlier: Some(live.made.id).filter(|id| newest != Some(*id)),
    }
}

/// The refusal beside a lost run; a run that is certainly over does not matter.
fn lost(run: &Run, abandon: bool) -> Option<Skip> {
    (!abandon && run.in_doubt()).then(|| Skip::InDoubt {
        run: run.made.id,
        node: run.node_word().to_owned(),
    })
}
