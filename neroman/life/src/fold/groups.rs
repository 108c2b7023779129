//! Which experiments are waited for, and how far each has come: those of a dependency or a stage.

use nero_format::{Dependency, DependsUntil, Precedence, experiment_number, is_named};
use nero_model::{EndReason, Phase};

use super::experiment::Experiment;
use super::run::Run;
use super::state::State;

/// What experiments are waited for: those of one dependency, or of one stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AwaitedGroup<'a> {
    Need(&'a Dependency),
    Stage(&'a str),
}

/// What an experiment needs, and the stages before its own.
pub(crate) fn groups(precedence: &Precedence) -> impl Iterator<Item = AwaitedGroup<'_>> {
    let needs = precedence.dependencies().map(AwaitedGroup::Need);
    let before = precedence.stage.iter().flat_map(|stage| &stage.before);
    needs.chain(before.map(|stage| AwaitedGroup::Stage(stage)))
}

/// The words that name other experiments.
pub(crate) fn names(precedence: &Precedence) -> impl Iterator<Item = &str> {
    let needs = precedence.dependencies().map(|need| &*need.on);
    needs.chain(precedence.place.apart_from.iter().map(String::as_str))
}

/// Whether an experiment is named by its number.
pub(crate) fn names_a_number(precedence: &Precedence) -> bool {
    names(precedence).any(|name| experiment_number(name).is_some())
}

/// The experiments of a group.
pub(crate) fn members<'a, 'g>(
    state: &'a State,
    source: u64,
    group: AwaitedGroup<'g>,
) -> impl DoubleEndedIterator<Item = &'a Experiment> + use<'a, 'g> {
    let ids = match group {
        AwaitedGroup::Need(need) => state.members().named(&state.experiments, source, &need.on),
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
    let ids = state.members().named(&state.experiments, source, on);
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
