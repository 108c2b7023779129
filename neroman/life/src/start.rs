//! Decides which experiments get a new run, and why others do not.

use nero_format::RuleAction;
use nero_model::{ExperimentId, Phase, RunId};

use super::change::Rule;
use super::experiment::Experiment;
use super::run::Run;
use super::state::State;
use super::taken_over;

/// The options of a start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// A new run for each picked experiment.
    pub restart: bool,
    /// A new run even beside a lost one.
    pub abandon: bool,
    /// The new run begins with the checkpoints of the run before.
    pub resume: bool,
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
    Skip { id: ExperimentId, why: String },
}

/// Decides about the picked experiments, in their order.
pub fn plan(state: &State, picked: &[ExperimentId], wanted: Wanted) -> Vec<Plan> {
    picked
        .iter()
        .filter_map(|id| state.experiment(*id))
        .map(
            |experiment| match refusal(experiment, wanted).or_else(|| sourceless(experiment)) {
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
            },
        )
        .collect()
}

/// The run whose checkpoints a new one begins with: the newest whose job was
/// started.
pub fn earlier(experiment: &Experiment) -> Option<&Run> {
    let mut runs = experiment.runs.iter().rev();
    runs.find(|run| run.started_ms().is_some())
}

/// The refusal for an experiment that was taken over without its code.
fn sourceless(experiment: &Experiment) -> Option<String> {
    taken_over::without_source(&experiment.definition).then(|| {
        "taken over, and its code is not here: first add its source again, `neroman add FOLDER`"
            .to_owned()
    })
}

fn refusal(experiment: &Experiment, wanted: Wanted) -> Option<String> {
    if let Some(word) = experiment.definition.not_built.first() {
        let more = experiment.definition.not_built.len() - 1;
        let also = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        return Some(format!(
            "not built yet: {} ({}){also}",
            word.word, word.place
        ));
    }
    if experiment.definition.argv.is_empty() {
        return Some("it has no command".to_owned());
    }
    if wanted.resume {
        if experiment.definition.checkpoint.is_empty() {
            return Some("it names no `checkpoint` to go on from".to_owned());
        }
        if earlier(experiment).is_none() {
            return Some("no run of it was ever started: nothing to go on from".to_owned());
        }
    }
    if let (Some(live), false) = (experiment.live().next(), wanted.restart) {
        return Some(still_live(experiment, live));
    }
    let newest = experiment.newest()?;
    match newest.phase() {
        Phase::Finished | Phase::Lost if !wanted.restart => {
            return Some(newest.phase().word().to_owned());
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
fn still_live(experiment: &Experiment, live: &Run) -> String {
    let word = live.phase().word();
    let newest = experiment.newest().map(|run| run.made.id);
    if newest == Some(live.made.id) {
        return word.to_owned();
    }
    format!("{word}: {} has not ended yet", live.made.id)
}

/// The refusal beside a lost run; a run that is certainly over does not matter.
fn lost(run: &Run, abandon: bool) -> Option<String> {
    if abandon || !run.in_doubt() {
        return None;
    }
    Some(format!(
        "lost: {} may still run on {} beside a new one; --abandon goes on",
        run.made.id,
        run.node_word()
    ))
}

/// The rules of a new run: those of its definition, then those added by hand.
/// New rules get ids from `next` on and are returned, too.
pub fn rules(state: &State, experiment: &Experiment, fresh: &mut Vec<Rule>) -> Vec<u64> {
    let mut ids: Vec<u64> = experiment
        .definition
        .rules
        .iter()
        .map(|rule| {
            let action = match rule.action {
                RuleAction::Abort => "abort",
                RuleAction::Warn => "warn",
                RuleAction::Notify => "notify",
            };
            identify(
                state,
                fresh,
                action,
                &rule.text,
                "",
                &rule.place.to_string(),
            )
        })
        .collect();
    ids.extend(experiment.extra_rules.iter().copied());
    let mut seen = std::collections::HashSet::new();
    ids.retain(|id| seen.insert(*id));
    ids
}

/// The id of a rule; a new one if there is none like it.
pub fn identify(
    state: &State,
    fresh: &mut Vec<Rule>,
    action: &str,
    text: &str,
    author: &str,
    origin: &str,
) -> u64 {
    let like = |rule: &Rule| {
        rule.action == action && rule.text == text && rule.author == author && rule.origin == origin
    };
    if let Some(rule) = state.rules.values().find(|rule| like(rule)) {
        return rule.id;
    }
    if let Some(rule) = fresh.iter().find(|rule| like(rule)) {
        return rule.id;
    }
    let highest = state.rules.last_key_value().map_or(0, |(id, _)| *id);
    let id = highest + 1 + fresh.len() as u64;
    fresh.push(Rule {
        id,
        action: action.to_owned(),
        text: text.to_owned(),
        author: author.to_owned(),
        origin: origin.to_owned(),
    });
    id
}
