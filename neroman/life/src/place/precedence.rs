//! Runs that wait for other experiments: `depends_on` and `stages`.
//!
//! A run that has such a word is made with a mark and without a node. The transaction in
//! which the last of these experiments comes so far takes the mark away (`waits.rs`), so that
//! no death of the daemon loses or repeats it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use nero_format::{DependsUntil, Precedence};
use nero_model::{ExperimentId, Phase, RunId};

use super::held::HoldReason;
use crate::fold::experiment::Experiment;
use crate::fold::groups::{AwaitedGroup, groups, is_far_enough, is_member, is_present, members};
use crate::fold::run::Run;
use crate::fold::state::State;

/// Experiments that wait for each other in turn are looked at to this depth.
const DEPTH_MAX: usize = 64;
/// So many experiments that are not far enough are kept of those of one name.
const LACKING_MAX: usize = 3;

/// Why an experiment is not as far as another one needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Its run goes on, or waits.
    Live(RunId),
    /// The same, and it waits until a person acts.
    Stuck(RunId),
    /// Its newest run ended in another way.
    Ended(Phase),
    /// It has no run.
    NotStarted,
    /// It is not in its source any more, or a person removed it.
    Removed,
    /// There is no such experiment.
    Unknown,
}

/// What a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwaitedExperiment<'a> {
    pub lack: Lack,
    /// The name of the experiment, else what is written in `depends_on`.
    pub name: &'a str,
    pub id: Option<ExperimentId>,
    /// Its stage, where that is what it is needed for.
    stage: Option<&'a str>,
    until: DependsUntil,
    is_running: bool,
    /// How many more experiments are not far enough.
    more: usize,
}

impl AwaitedExperiment<'_> {
    /// Whether the run waits until a person acts.
    pub fn needs_person(&self) -> bool {
        !matches!(self.lack, Lack::Live(_))
    }

    /// What a person may type for the experiment.
    pub fn remedy(&self) -> Option<String> {
        let id = self.id?;
        match self.lack {
            Lack::Ended(Phase::Lost) => Some(format!("neroman restart {id} --abandon")),
            Lack::Ended(_) => Some(format!("neroman restart {id}")),
            Lack::NotStarted => Some(format!("neroman start {id}")),
            Lack::Live(_) | Lack::Stuck(_) | Lack::Removed | Lack::Unknown => None,
        }
    }
}

impl fmt::Display for AwaitedExperiment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "needs {}", self.name)?;
        if let Some(stage) = self.stage {
            write!(f, " of stage {stage}")?;
        }
        let which = match self.lack {
            Lack::Live(_) if self.is_running => "runs",
            Lack::Live(_) if self.until == DependsUntil::Started => "has not started",
            Lack::Live(_) if self.until == DependsUntil::Placed => "has no node yet",
            Lack::Live(_) => "waits",
            Lack::Stuck(_) => "is held",
            Lack::Ended(Phase::Crashed) => "crashed",
            Lack::Ended(Phase::Aborted) => "was aborted",
            Lack::Ended(Phase::Timeout) => "ended by its time limit",
            Lack::Ended(Phase::Lost) => "is lost",
            Lack::Ended(_) => "ended before it started",
            Lack::NotStarted => "was not started",
            Lack::Removed => "was removed",
            Lack::Unknown => "does not exist",
        };
        write!(f, ", which {which}")?;
        match self.more {
            0 => Ok(()),
            1 => f.write_str(", and 1 other"),
            more => write!(f, ", and {more} others"),
        }
    }
}

/// The groups that are being looked at, one for the sake of the other.
type OpenGroups<'a> = Vec<(u64, AwaitedGroup<'a>)>;

/// The experiments of a group that are not far enough.
#[derive(Clone, Default)]
struct UnmetGroup<'a> {
    /// The first ones, those before that need a person.
    first: Vec<(Option<&'a Experiment>, Lack)>,
    count: usize,
}

/// The experiments that runs wait for, each group looked at once.
pub struct Precedents<'a> {
    state: &'a State,
    lacking: Mutex<HashMap<(u64, AwaitedGroup<'a>), UnmetGroup<'a>>>,
}

impl fmt::Debug for Precedents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Precedents").finish_non_exhaustive()
    }
}

impl<'a> Precedents<'a> {
    /// Those of all runs.
    pub fn of(state: &'a State) -> Self {
        Self {
            state,
            lacking: Mutex::default(),
        }
    }

    /// The first of these that needs nothing now and none of the others, which are to start with it.
    pub fn first_ready(state: &'a State, starting: &[ExperimentId]) -> Option<ExperimentId> {
        let those = || starting.iter().filter_map(|id| state.experiment(*id));
        let precedents = Self::of(state);
        let starting: HashSet<ExperimentId> = starting.iter().copied().collect();
        let is_ready = |one: &&'a Arc<Experiment>| {
            let precedence = &one.definition.precedence;
            let others = groups(precedence).flat_map(|group| precedents.members(one.source, group));
            let mut others = others.filter(|other| other.id != one.id);
            !others.any(|other| starting.contains(&other.id))
                && precedents
                    .awaited_by(one, precedence, &mut Vec::new())
                    .is_none()
        };
        those().find(is_ready).map(|one| one.id)
    }

    /// What a run waits for, if it has to.
    pub fn awaited(&self, run: &'a Run) -> Option<AwaitedExperiment<'a>> {
        self.awaited_within(run, &mut Vec::new())
    }

    fn awaited_within(
        &self,
        run: &'a Run,
        open: &mut OpenGroups<'a>,
    ) -> Option<AwaitedExperiment<'a>> {
        let own = self.state.experiment(run.made.id.experiment)?;
        self.awaited_by(own, &run.made.precedence, open)
    }

    fn awaited_by(
        &self,
        own: &Experiment,
        precedence: &'a Precedence,
        open: &mut OpenGroups<'a>,
    ) -> Option<AwaitedExperiment<'a>> {
        let mut worst: Option<AwaitedExperiment<'a>> = None;
        let (mut count, mut seen) = (0, HashSet::new());
        for group in groups(precedence) {
            let lacking = self.lacking(own.source, group, open);
            let others =
                |(one, _): &&(Option<&Experiment>, Lack)| one.is_none_or(|one| one.id != own.id);
            let is_own = is_member(own, group) && is_present(own) && !is_far_enough(own, group);
            let firsts = lacking.first.iter().filter(others);
            // A dependency may be of a stage before, too.
            let again = firsts.filter(|(one, _)| one.is_some_and(|one| !seen.insert(one.id)));
            let known = usize::from(is_own) + again.count();
            count += lacking.count.saturating_sub(known);
            let Some((one, lack)) = lacking.first.iter().find(others) else {
                continue;
            };
            let (stage, until, text) = match group {
                AwaitedGroup::Need(need) => (None, need.until, need.on.as_str()),
                AwaitedGroup::Stage(stage) => (Some(stage), DependsUntil::Finished, stage),
            };
            let awaited = AwaitedExperiment {
                lack: *lack,
                name: one.map_or(text, |one| &one.definition.name),
                id: one.map(|one| one.id),
                stage,
                until,
                is_running: one.is_some_and(|one| {
                    let run = one.current();
                    run.is_some_and(|run| run.started_ms().is_some())
                }),
                more: 0,
            };
            let is_worse = awaited.needs_person() && worst.is_none_or(|one| !one.needs_person());
            if worst.is_none() || is_worse {
                worst = Some(awaited);
            }
        }
        worst.map(|one| AwaitedExperiment {
            more: count.saturating_sub(1),
            ..one
        })
    }

    fn lacking(
        &self,
        source: u64,
        group: AwaitedGroup<'a>,
        open: &mut OpenGroups<'a>,
    ) -> UnmetGroup<'a> {
        let key = (source, group);
        let known = || self.lacking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lacking) = known().get(&key) {
            return lacking.clone();
        }
        // In a circle no run is the one that a person has to act on: none counts as stuck.
        if open.contains(&key) || open.len() >= DEPTH_MAX {
            return UnmetGroup::default();
        }
        open.push(key);
        let mut all: Vec<(Option<&Experiment>, Lack)> = Vec::new();
        let (present, absent): (Vec<_>, Vec<_>) =
            (self.members(source, group).into_iter()).partition(|one| is_present(one));
        let mut lack = |one: &'a Experiment| self.lack(one, group, open);
        match group {
            AwaitedGroup::Need(_) if present.is_empty() && absent.is_empty() => {
                all.push((None, Lack::Unknown));
            }
            AwaitedGroup::Need(_) if present.is_empty() => {
                let removed = absent.into_iter().filter(|one| lack(one).is_some());
                all.extend(removed.map(|one| (Some(one), Lack::Removed)));
            }
            AwaitedGroup::Need(_) | AwaitedGroup::Stage(_) => {
                let lacks = present.into_iter().map(|one| (Some(one), lack(one)));
                all.extend(lacks.filter_map(|(one, lack)| Some((one, lack?))));
            }
        }
        open.pop();
        let count = all.len();
        all.sort_by_key(|(_, lack)| matches!(lack, Lack::Live(_)));
        all.truncate(LACKING_MAX);
        let lacking = UnmetGroup { first: all, count };
        known().insert(key, lacking.clone());
        lacking
    }

    /// The experiments of a group.
    fn members(&self, source: u64, group: AwaitedGroup<'_>) -> Vec<&'a Experiment> {
        members(self.state, source, group).collect()
    }

    /// Why an experiment is not so far.
    fn lack(
        &self,
        one: &'a Experiment,
        group: AwaitedGroup<'_>,
        open: &mut OpenGroups<'a>,
    ) -> Option<Lack> {
        if is_far_enough(one, group) {
            return None;
        }
        let Some(run) = one.current() else {
            return Some(Lack::NotStarted);
        };
        if !run.phase().is_live() {
            return Some(Lack::Ended(run.phase()));
        }
        Some(if self.is_stuck(run, open) {
            Lack::Stuck(run.made.id)
        } else {
            Lack::Live(run.made.id)
        })
    }

    /// Whether a live run waits until a person acts.
    fn is_stuck(&self, run: &'a Run, open: &mut OpenGroups<'a>) -> bool {
        if run.waits_for_others() {
            let awaited = self.awaited_within(run, open);
            awaited.is_some_and(|awaited| awaited.needs_person())
        } else {
            HoldReason::of_its_batch(self.state, run).is_some_and(|held| held.needs_person())
        }
    }
}
