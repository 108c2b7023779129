//! Commands that rules have this machine run (`run_local`).
//!
//! Nothing says that a command is to be run but the record of its firing, whose command did not
//! come to an end by [`Acted`]. So a firing and what follows from it cannot be torn apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use nero_model::RunId;
use serde::{Deserialize, Serialize};

use super::change::{Change, Rule, dispatch_changed};
use super::journal::Ran;
use super::run::Run;
use super::state::State;

/// The action that this machine carries out.
const RUN_LOCAL: &str = "run_local";

/// Every rule by its number.
pub(crate) type AllRules = BTreeMap<u64, Arc<Rule>>;

/// A command to run on this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalCommand {
    pub run: RunId,
    pub rule: u64,
    /// How often the rule had fired.
    pub times: u32,
    /// When it fired.
    pub fired_ms: i64,
    pub command: String,
    /// The condition of the rule.
    pub text: String,
    /// The names of the rule with their values.
    pub values: String,
}

/// The end of the command of a rule's newest firing that this machine ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Acted {
    pub times: u32,
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
            rule,
            times,
            fired_ms,
            command: known.argument.clone(),
            text: known.text.clone(),
            values: values.clone(),
        })
    });
    lacking.collect()
}

/// Records the end of a command.
pub fn acted(state: &State, command: &LocalCommand, ran: &Ran) -> Option<Change> {
    dispatch_changed(state.run(command.run)?, |dispatch| {
        let acted = Acted {
            times: command.times,
            ran: ran.clone(),
        };
        dispatch.acted.insert(command.rule, acted);
    })
}

impl Run {
    /// The ends of commands that this machine ran, by id of the rule.
    pub fn acted(&self) -> &BTreeMap<u64, Acted> {
        &self.dispatch.acted
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
