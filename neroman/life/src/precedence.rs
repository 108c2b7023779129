//! Runs that wait for other experiments: `depends_on` and `stages`.
//!
//! A run that has such a word is made with a mark and without a node. The transaction in
//! which the last of these experiments comes so far takes the mark away (`waits.rs`), so that
//! no death of the daemon loses or repeats it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use nero_format::{
    Definition, Dependency, DependsUntil, EditMistake, Precedence, experiment_number, is_named,
};
use nero_model::{EndReason, ExperimentId, Phase, RunId};

use super::batch::Held;
use super::change::{Change, Described, dispatch_changed};
use super::experiment::Experiment;
use super::late::{Late, Stepped};
use super::run::Run;
use super::state::State;

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

/// What experiments are waited for: those of one dependency, or of one stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AwaitedGroup<'a> {
    Need(&'a Dependency),
    Stage(&'a str),
}

/// The groups that are being looked at, one for the sake of the other.
type OpenGroups<'a> = Vec<(u64, AwaitedGroup<'a>)>;

/// What an experiment needs, and the stages before its own.
pub(crate) fn groups(precedence: &Precedence) -> impl Iterator<Item = AwaitedGroup<'_>> {
    let needs = precedence.dependencies().map(AwaitedGroup::Need);
    let before = precedence.stage.iter().flat_map(|stage| &stage.before);
    needs.chain(before.map(|stage| AwaitedGroup::Stage(stage)))
}

/// The words that name other experiments.
fn names(precedence: &Precedence) -> impl Iterator<Item = &str> {
    let needs = precedence.dependencies().map(|need| &*need.on);
    needs.chain(precedence.place.apart_from.iter().map(String::as_str))
}

/// The experiments of a group that are not far enough.
#[derive(Clone, Default)]
struct Lacking<'a> {
    /// The first ones, those before that need a person.
    first: Vec<(Option<&'a Experiment>, Lack)>,
    count: usize,
}

/// The experiments that runs wait for, each group looked at once.
pub struct Precedents<'a> {
    state: &'a State,
    lacking: Mutex<HashMap<(u64, AwaitedGroup<'a>), Lacking<'a>>>,
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
    ) -> Lacking<'a> {
        let key = (source, group);
        let known = || self.lacking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lacking) = known().get(&key) {
            return lacking.clone();
        }
        // In a circle no run is the one that a person has to act on: none counts as stuck.
        if open.contains(&key) || open.len() >= DEPTH_MAX {
            return Lacking::default();
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
        let lacking = Lacking { first: all, count };
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
        Some(match self.is_stuck(run, open) {
            true => Lack::Stuck(run.made.id),
            false => Lack::Live(run.made.id),
        })
    }

    /// Whether a live run waits until a person acts.
    fn is_stuck(&self, run: &'a Run, open: &mut OpenGroups<'a>) -> bool {
        match run.waits_for_others() {
            true => {
                let awaited = self.awaited_within(run, open);
                awaited.is_some_and(|awaited| awaited.needs_person())
            }
            false => Held::of_its_batch(self.state, run).is_some_and(|held| held.needs_person()),
        }
    }
}

/// The experiments of a group.
pub(crate) fn members<'a, 'g>(
    state: &'a State,
    source: u64,
    group: AwaitedGroup<'g>,
) -> impl DoubleEndedIterator<Item = &'a Experiment> + use<'a, 'g> {
    let ids = match group {
        AwaitedGroup::Need(need) => state.members().named(state, source, &need.on),
        AwaitedGroup::Stage(stage) => state.members().in_stage(source, stage),
    };
    let all = (0..ids.len()).filter_map(move |at| Some(&**state.experiment(ids[at])?));
    all.filter(move |one| match group {
        AwaitedGroup::Need(need) => is_meant(one, &need.on),
        AwaitedGroup::Stage(_) => one.by_hand.copy_of.is_none(),
    })
}

/// Whether an experiment is one of a group of its source.
pub(crate) fn is_member(own: &Experiment, group: AwaitedGroup<'_>) -> bool {
    let definition = &own.definition;
    match group {
        AwaitedGroup::Need(need) => {
            let is_named = match experiment_number(&need.on) {
                Some(number) => number == own.id.0,
                None => is_named(&need.on, definition),
            };
            is_named && is_meant(own, &need.on)
        }
        AwaitedGroup::Stage(name) => {
            let stage = definition.precedence.stage.as_ref();
            stage.is_some_and(|stage| stage.name == name) && own.by_hand.copy_of.is_none()
        }
    }
}

/// Whether a word that names an experiment means it: one that a person copied is meant by its own
/// name or number alone.
pub(crate) fn is_meant(one: &Experiment, on: &str) -> bool {
    one.by_hand.copy_of.is_none() || one.definition.name == on || experiment_number(on).is_some()
}

/// The experiments that a word of a source names.
pub(crate) fn named<'a>(
    state: &'a State,
    source: u64,
    on: &str,
) -> impl Iterator<Item = &'a Experiment> + use<'a> {
    let ids = state.members().named(state, source, on);
    (0..ids.len()).filter_map(move |at| Some(&**state.experiment(ids[at])?))
}

/// Whether an experiment is as far as those of a group are needed.
pub(crate) fn is_far_enough(one: &Experiment, group: AwaitedGroup<'_>) -> bool {
    let Some(run) = one.current() else {
        return false;
    };
    match group {
        // In a stage a run that one of its own rules ended has done what it could.
        AwaitedGroup::Stage(_) => {
            run.phase() == Phase::Finished || matches!(run.reason(), Some(EndReason::ByRule { .. }))
        }
        AwaitedGroup::Need(need) => match need.until {
            DependsUntil::Finished => run.phase() == Phase::Finished,
            // What is lost may still run.
            DependsUntil::Ended => run.phase().is_end() && !run.in_doubt(),
            DependsUntil::Started => run.started_ms().is_some(),
            DependsUntil::Placed => run.placed_on().is_some(),
        },
    }
}

pub(crate) fn is_present(one: &Experiment) -> bool {
    one.hidden_ms.is_none() && !one.is_gone()
}

/// Whether a change of a run may end the wait of others.
pub fn concerns_others(before: Option<&Run>, after: Option<&Run>) -> bool {
    let so_far = |run: &Run| {
        let is_placed = run.placed_on().is_some();
        let has_started = run.started_ms().is_some();
        (run.phase(), has_started, run.in_doubt(), is_placed)
    };
    before.map(so_far) != after.map(so_far)
}

/// Records that a run needs no other experiment now.
pub(crate) fn met(run: &Run, now_ms: i64) -> Stepped {
    if !run.waits_for_others() {
        return Err(Late);
    }
    let id = run.made.id;
    let event = Change::Event {
        experiment: id.experiment,
        run: Some(id.number),
        at_ms: now_ms,
        text: format!("{id}: what it depends on is done"),
    };
    let change = dispatch_changed(run, |dispatch| dispatch.waits_for_others = false);
    Ok(change.into_iter().chain([event]).collect())
}

/// The dependencies that cannot be, of the experiments that these changes describe: on an
/// experiment that does not exist, on itself, on one that waits for it. Names that stand in a
/// source were looked at when it was read; those that a value makes which a person set were not.
pub(crate) fn impossible(state: &State, changes: &[Change]) -> Vec<(String, EditMistake)> {
    let by_number = |definition: &Definition| {
        let mut names = names(&definition.precedence);
        names.any(|name| experiment_number(name).is_some())
    };
    let needs = |definition: &Definition| {
        let precedence = &definition.precedence;
        groups(precedence).next().is_some() || names(precedence).next().is_some()
    };
    let described = changes.iter().filter_map(|change| match change {
        Change::Experiment(one) if needs(&one.definition) => Some(one),
        _ => None,
    });
    let described: Vec<_> = described.collect();
    let mut found = Vec::new();
    // Where all is by name, each source has been looked at by itself. A circle over several has a
    // number in it, and any of its members may close it.
    let has_number = described.iter().any(|one| by_number(&one.definition))
        || !described.is_empty()
            && (state.experiments.iter()).any(|one| by_number(&one.definition));
    let set_now = |one: &Described| {
        let before = state.experiment(one.id);
        let known = before.map_or(&[][..], |before| &before.by_hand.overrides);
        let precedence = before.map(|before| &before.definition.precedence);
        one.by_hand.overrides != known && precedence != Some(&one.definition.precedence)
    };
    let is_looked_at = |one: &&Arc<Described>| has_number || set_now(one);
    let described = described.into_iter().filter(is_looked_at);
    let described: Vec<(ExperimentId, bool)> =
        described.map(|one| (one.id, set_now(one))).collect();
    if described.is_empty() {
        return found;
    }
    let mut prospect = state.clone();
    for change in changes {
        prospect.apply(change);
    }
    let state = &prospect;
    let precedents = Precedents::of(state);
    for (id, is_set) in described {
        let Some(one) = state.experiment(id) else {
            continue;
        };
        let mut refuse = |message: String, hint: &str| {
            let hint = hint.to_owned();
            let mistake = EditMistake { message, hint };
            found.push((one.definition.place.to_string(), mistake));
        };
        let name = &one.definition.name;
        let apart = &one.definition.precedence.place.apart_from;
        for other in names(&one.definition.precedence) {
            match experiment_number(other) {
                Some(number) if number == one.id.0 && !apart.iter().any(|one| one == other) => {
                    refuse(format!("`{name}` depends on itself ({number})"), "");
                }
                Some(number) if state.experiment(ExperimentId(number)).is_none() => refuse(
                    format!("`{name}` depends on experiment {number}, which does not exist"),
                    "`neroman status` shows the numbers",
                ),
                None if is_set && !names_another(state, one, other) => refuse(
                    format!("`{name}` depends on `{other}`, which is no experiment of its source"),
                    "`depends_on` and `place` name experiments with the value that was set",
                ),
                Some(_) | None => {}
            }
        }
        if found.is_empty()
            && let Some(between) = precedents.leads_back(one)
        {
            let message = format!("`{name}` depends on `{between}`, which waits for it");
            found.push((
                one.definition.place.to_string(),
                EditMistake {
                    message,
                    hint: "none of them could ever start".to_owned(),
                },
            ));
        }
    }
    found
}

/// Whether a word of an experiment means another one, or for `apart_from` itself.
fn names_another(state: &State, one: &Experiment, word: &str) -> bool {
    let apart = &one.definition.precedence.place.apart_from;
    let mut all = named(state, one.source, word).filter(|other| is_present(other));
    match apart.iter().any(|apart| apart == word) {
        true => all.next().is_some(),
        false => all.any(|other| other.id != one.id && is_meant(other, word)),
    }
}

impl<'a> Precedents<'a> {
    /// The name of an experiment that this one depends on and that depends on it.
    fn leads_back(&self, from: &'a Experiment) -> Option<&'a str> {
        let mut seen = HashSet::from([from.id]);
        let mut looked = HashSet::new();
        let mut open = vec![from];
        while let Some(one) = open.pop() {
            for group in groups(&one.definition.precedence) {
                // The first one's own group may be a glob that means itself.
                if one.id != from.id && !looked.insert((one.source, group)) {
                    continue;
                }
                let members = self.members(one.source, group).into_iter();
                for next in members.filter(|next| is_present(next)) {
                    if next.id == from.id && one.id != from.id {
                        return Some(&one.definition.name);
                    }
                    if seen.insert(next.id) {
                        open.push(next);
                    }
                }
            }
        }
        None
    }
}
