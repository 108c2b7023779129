//! Commands that the daemon has run for runs: of rules (`run_local`), `local` steps, and
//! responses by `on_error` on their nodes.
//!
//! Nothing says that a command is to be run but the record of its firing, or of the wait of its
//! job, while its end is not in [`Acted`] or [`StepEnd`]. So a firing and what follows from it
//! cannot be torn apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use nero_model::RunId;
use serde::{Deserialize, Serialize};

use super::change::{Change, Rule, dispatch_changed};
use super::journal::{AskedStep, Ran};
use super::run::Run;
use super::state::State;

/// The action that this machine carries out.
const RUN_LOCAL: &str = "run_local";

/// Every rule by its number.
pub(crate) type AllRules = BTreeMap<u64, Arc<Rule>>;

/// A command that the daemon has run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalCommand {
    pub run: RunId,
    /// When it was asked for.
    pub asked_ms: i64,
    pub of: CommandOf,
}

/// What a command belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandOf {
    /// A firing of a rule.
    Rule {
        rule: u64,
        /// How often the rule had fired.
        times: u32,
        command: String,
        /// The condition of the rule.
        text: String,
        /// The names of the rule with their values.
        values: String,
    },
    /// A step of the run's job; its command is in the run's spec.
    Step { incarnation: u32, step: u32 },
    /// A handler of `on_error`, for this start of the run; its node runs it.
    Response { incarnation: u32, command: String },
}

/// The end of the command of a rule's newest firing that this machine ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Acted {
    pub times: u32,
    pub ran: Ran,
}

/// The end of a step that this machine executed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepEnd {
    /// The start whose job asked, and the number of the step.
    pub of: (u32, u32),
    pub ran: Ran,
    /// Whether the node has it.
    pub delivered: bool,
}

/// The end of the command of a handler of `on_error`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Responded {
    pub incarnation: u32,
    pub ran: Ran,
}

/// The commands of a run that have not come to their ends. Of several firings of a rule that came
/// while none of its commands ended, the newest counts.
pub fn commands(state: &State, id: RunId) -> Vec<LocalCommand> {
    let Some(run) = state.run(id) else {
        return Vec::new();
    };
    let lacking = run.unacted(&state.rules).filter_map(|(rule, times)| {
        let known = state.rules.get(&rule)?;
        let (fired_ms, values) = match run.dispatch.fired.get(&rule) {
            Some(firing) => (firing.at_ms, &firing.values),
            None => {
                let facts = run.journal.rules.get(&rule)?;
                (facts.last_fired_ms, &facts.last_values)
            }
        };
        Some(LocalCommand {
            run: id,
            asked_ms: fired_ms,
            of: CommandOf::Rule {
                rule,
                times,
                command: known.argument.clone(),
                text: known.text.clone(),
                values: values.clone(),
            },
        })
    });
    let step = run.awaited_step().map(|asked| LocalCommand {
        run: id,
        asked_ms: asked.at_ms,
        of: CommandOf::Step {
            incarnation: asked.of.0,
            step: asked.of.1,
        },
    });
    let response = run
        .awaited_response()
        .map(|(incarnation, command)| LocalCommand {
            run: id,
            asked_ms: 0,
            of: CommandOf::Response {
                incarnation,
                command,
            },
        });
    lacking.chain(step).chain(response).collect()
}

/// Records the end of a command.
pub fn acted(state: &State, command: &LocalCommand, ran: &Ran) -> Vec<Change> {
    let id = command.run;
    let Some(run) = state.run(id) else {
        return Vec::new();
    };
    let is_late = |of| (run.dispatch.stepped.as_ref()).is_some_and(|newer| newer.of >= of);
    if let CommandOf::Step { incarnation, step } = command.of
        && is_late((incarnation, step))
    {
        // It was ended because a later start asks for steps, whose ends count.
        return Vec::new();
    }
    let mut event = None;
    let line = |what: String| Change::Event {
        experiment: id.experiment,
        run: Some(id.number),
        at_ms: ran.at_ms,
        text: format!("{id}: {what}: {}", ran.line()),
    };
    let change = dispatch_changed(run, |dispatch| match command.of {
        CommandOf::Rule { rule, times, .. } => {
            let ran = ran.clone();
            dispatch.acted.insert(rule, Acted { times, ran });
        }
        CommandOf::Step { incarnation, step } => {
            event = Some(line(format!("local step {step}")));
            dispatch.stepped = Some(StepEnd {
                of: (incarnation, step),
                ran: ran.clone(),
                delivered: false,
            });
        }
        CommandOf::Response { incarnation, .. } => {
            event = Some(line("response by `on_error`".to_owned()));
            let ran = ran.clone();
            dispatch.responded = Some(Responded { incarnation, ran });
        }
    });
    change.into_iter().chain(event).collect()
}

/// Records that the node has the end of this step.
pub fn answered(state: &State, id: RunId, of: (u32, u32)) -> Option<Change> {
    dispatch_changed(state.run(id)?, |dispatch| {
        if let Some(stepped) = dispatch.stepped.as_mut().filter(|one| one.of == of) {
            stepped.delivered = true;
        }
    })
}

impl Run {
    /// The ends of commands that this machine ran, by id of the rule.
    pub fn acted(&self) -> &BTreeMap<u64, Acted> {
        &self.dispatch.acted
    }

    /// The step that its job waits for and that this machine has not executed to its end. What
    /// makes it unwanted never passes: then its command is ended, and not begun again. The steps
    /// of a run that was taken over come from its node, and are not executed.
    pub fn awaited_step(&self) -> Option<AskedStep> {
        let asked = self
            .journal
            .step
            .filter(|_| !self.made.fingerprint.is_empty())?;
        let (newest, _) = self.journal.newest()?;
        let is_over = self.phase().is_end() && !self.in_doubt();
        let is_wanted = asked.of.0 == newest && self.cancel().is_none() && !is_over;
        let ended = self.dispatch.stepped.as_ref().map(|one| one.of);
        (is_wanted && ended < Some(asked.of)).then_some(asked)
    }

    /// The `local` step that its job waits for, for people.
    pub fn waits_for_step(&self) -> Option<String> {
        let (newest, _) = self.journal.newest()?;
        let asked = self.journal.step.filter(|asked| asked.of.0 == newest)?;
        let step = format!("local step {}", asked.of.1);
        if self.made.fingerprint.is_empty() {
            // The former neroman may have executed it; the node does not say.
            return Some(format!(
                "{step}, unless it was executed before the run was taken over"
            ));
        }
        match self.dispatch.stepped.as_ref() {
            Some(ended) if ended.of == asked.of && ended.delivered => None,
            Some(ended) if ended.of == asked.of => {
                Some(format!("its node, to be told the end of {step}"))
            }
            Some(_) | None => Some(step),
        }
    }

    /// The end of a step that its node is to be told.
    pub fn step_to_tell(&self) -> Option<&StepEnd> {
        let stepped = self.dispatch.stepped.as_ref();
        stepped.filter(|stepped| !stepped.delivered)
    }

    /// Whether commands of it are to be run, or run, at the daemon's word.
    pub(crate) fn has_commands_here(&self, rules: &AllRules) -> bool {
        self.awaited_step().is_some()
            || self.awaited_response().is_some()
            || self.unacted(rules).next().is_some()
    }

    /// Rules of which a firing has this machine run a command that has not come to its end, and
    /// how often each fired. Only rules that were given here count, whatever a node says: none
    /// of a run that was taken over, whose rules come from its node.
    pub(crate) fn unacted(&self, rules: &AllRules) -> impl Iterator<Item = (u64, u32)> {
        let is_own = !self.made.fingerprint.is_empty();
        let own = self.rules.iter().filter(move |_| is_own);
        own.filter_map(|id| {
            rules.get(id).filter(|rule| rule.action == RUN_LOCAL)?;
            let watched = self.journal.rules.get(id).map_or(0, |facts| facts.fired);
            let decided = self.dispatch.fired.get(id).map_or(0, |firing| firing.times);
            let acted = self.dispatch.acted.get(id).map_or(0, |acted| acted.times);
            let times = watched.max(decided);
            (times > acted).then_some((*id, times))
        })
    }
}

/// Keeps commands of a rule from being run: those of firings that have not come to an end. The
/// end of one that is at work takes the place of this.
pub fn forget(state: &State, run: &Run, rule: u64, why: &str, now_ms: i64) -> Option<Change> {
    let (_, times) = run.unacted(&state.rules).find(|(id, _)| *id == rule)?;
    let ran = Ran {
        at_ms: now_ms,
        how: why.to_owned(),
        output: String::new(),
    };
    dispatch_changed(run, |dispatch| {
        dispatch.acted.insert(rule, Acted { times, ran });
    })
}
