//! The commands and steps that a run waits for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::change::Rule;
use super::run::Run;
use crate::facts::actions::{ActionEnd, StepEnd};
use crate::facts::journal::AskedStep;

impl Run {
    /// The ends of commands that this machine ran, by id of the rule.
    pub fn acted(&self) -> &BTreeMap<u64, ActionEnd> {
        &self.dispatch.acted
    }

    /// The step that its job waits for and that this machine has not executed to its end. What
    /// makes it unwanted never passes: then its command is ended, and not begun again. The steps
    /// of a run that was taken over come from its node, and are not executed.
    pub fn awaited_step(&self) -> Option<AskedStep> {
        let asked = self.journal.step;
        let asked = asked.filter(|_| !self.made.fingerprint.is_empty())?;
        let (newest, _) = self.journal.newest()?;
        let is_over = self.phase().is_end() && !self.in_doubt();
        let is_wanted = asked.of.0 == newest && self.cancel().is_none() && !is_over;
        let ended = self.dispatch.stepped.as_deref().map(|one| one.of);
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
        match self.dispatch.stepped.as_deref() {
            Some(ended) if ended.of == asked.of && ended.delivered => None,
            Some(ended) if ended.of == asked.of => {
                Some(format!("its node, to be told the end of {step}"))
            }
            Some(_) | None => Some(step),
        }
    }

    /// The end of a step that its node is to be told.
    pub fn step_to_tell(&self) -> Option<&StepEnd> {
        let stepped = self.dispatch.stepped.as_deref();
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

/// The action that this machine carries out.
const RUN_LOCAL: &str = "run_local";

/// Every rule by its number.
pub(crate) type AllRules = BTreeMap<u64, Arc<Rule>>;
