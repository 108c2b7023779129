//! Which runs go on when others have come so far.
//!
//! Each group of experiments that is waited for has one witness: a member that is not far enough.
//! Only a change of the witness has the group looked at again, and only the end of its wait the runs
//! that wait for it. So a change costs what it touches, however many runs wait.

use std::collections::{BTreeSet, HashMap, HashSet};

use nero_format::Dependency;
use nero_model::{ExperimentId, RunId};

use crate::fold::change::Change;
use crate::fold::experiment::Experiment;
use crate::fold::groups::{AwaitedGroup, groups, is_far_enough, is_member, is_present, members};
use crate::fold::state::State;
use crate::step::input::Input;
use crate::step::{fits, step};

/// An index of the groups that waiting runs wait for. Derived from the state alone.
#[derive(Clone, Debug, Default)]
pub struct WaitIndex {
    /// Whether all waiting runs were looked at.
    is_whole: bool,
    /// The groups by their witnesses.
    witnesses: HashMap<ExperimentId, Vec<GroupKey>>,
    /// The runs that wait for a group.
    waiting: HashMap<GroupKey, BTreeSet<RunId>>,
}

/// A group of experiments that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct GroupKey {
    source: u64,
    of: GroupName,
    /// The member that waits for the others.
    but: Option<ExperimentId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GroupName {
    Need(Dependency),
    Stage(String),
}

/// How far a group has come.
enum GroupStanding {
    FarEnough,
    /// This one is not.
    Lacks(ExperimentId),
    /// It has no experiment.
    Empty,
}

impl GroupKey {
    fn new(own: &Experiment, of: AwaitedGroup<'_>) -> Self {
        Self {
            source: own.source,
            of: match of {
                AwaitedGroup::Need(need) => GroupName::Need(need.clone()),
                AwaitedGroup::Stage(stage) => GroupName::Stage(stage.to_owned()),
            },
            but: is_member(own, of).then_some(own.id),
        }
    }

    fn standing(&self, state: &State) -> GroupStanding {
        let group = match &self.of {
            GroupName::Need(need) => AwaitedGroup::Need(need),
            GroupName::Stage(stage) => AwaitedGroup::Stage(stage),
        };
        let all = || members(state, self.source, group);
        let is_need = matches!(group, AwaitedGroup::Need(_));
        // What left its source counts where nothing else has the name.
        let counts_removed = is_need && !all().any(is_present);
        if counts_removed && all().next().is_none() {
            return GroupStanding::Empty;
        }
        let lacks = |one: &&Experiment| {
            Some(one.id) != self.but
                && (counts_removed || is_present(one))
                && !is_far_enough(one, group)
        };
        // The last one is mostly the last to end: it stays the witness for long.
        match all().rev().find(lacks) {
            Some(one) => GroupStanding::Lacks(one.id),
            None => GroupStanding::FarEnough,
        }
    }
}

impl WaitIndex {
    /// Forgets what was found: the next look is at all.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Lets the runs go on that need no other experiment any more, after these runs came farther.
    /// `described`: experiments were made or changed, too.
    pub fn release(
        &mut self,
        state: &State,
        changed: &[RunId],
        described: bool,
        now_ms: i64,
    ) -> Vec<Change> {
        if state.waiting.is_empty() {
            self.forget();
            return Vec::new();
        }
        let mut look: BTreeSet<RunId> = BTreeSet::new();
        if described || !self.is_whole {
            self.forget();
            self.is_whole = true;
            look.clone_from(&state.waiting);
        } else {
            for run in changed {
                look.extend(state.waiting.get(run));
                self.look_again(state, run.experiment, &mut look);
            }
        }
        let mut far_enough = HashSet::new();
        let runs = look.iter().filter_map(|id| state.run(*id));
        let free = runs.filter(|run| {
            let own = state.experiment(run.made.id.experiment);
            let waits = run.waits_for_others();
            own.is_some_and(|own| {
                let mut groups =
                    groups(&run.made.precedence).map(|group| GroupKey::new(own, group));
                waits && groups.all(|group| self.passes(state, run.made.id, group, &mut far_enough))
            })
        });
        free.flat_map(|run| fits(step(run, &Input::NeedsMet, now_ms)))
            .collect()
    }

    /// Finds other witnesses for the groups of one, and the runs of those that have none.
    fn look_again(&mut self, state: &State, witness: ExperimentId, look: &mut BTreeSet<RunId>) {
        for group in self.witnesses.remove(&witness).unwrap_or_default() {
            match group.standing(state) {
                GroupStanding::Lacks(other) => self.witnesses.entry(other).or_default().push(group),
                GroupStanding::FarEnough | GroupStanding::Empty => {
                    look.extend(self.waiting.remove(&group).unwrap_or_default());
                }
            }
        }
    }

    /// Whether a run does not wait for a group; else it is found when it does not any more.
    fn passes(
        &mut self,
        state: &State,
        run: RunId,
        group: GroupKey,
        far_enough: &mut HashSet<GroupKey>,
    ) -> bool {
        if far_enough.contains(&group) {
            return true;
        }
        if let Some(runs) = self.waiting.get_mut(&group) {
            runs.insert(run);
            return false;
        }
        match group.standing(state) {
            GroupStanding::FarEnough => {
                far_enough.insert(group);
                return true;
            }
            GroupStanding::Lacks(one) => {
                let groups = self.witnesses.entry(one).or_default();
                groups.push(group.clone());
            }
            // Only a description can change that.
            GroupStanding::Empty => {}
        }
        self.waiting.insert(group, BTreeSet::from([run]));
        false
    }
}
