//! `lock`, `settle` and `place`: runs that a node does not get beside others, or only there.
//!
//! A lock is no record of its own: the run that has one holds it from the choice of its node,
//! which is synced, until there is evidence of its end. A lost run that may still run keeps it
//! until a person has the experiment begun anew beside it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use nero_format::{experiment_number, is_named};
use nero_model::{ExperimentId, RunId};

use super::fit::{Candidate, NodeAvailability};
use crate::facts::now::PresentTime;
use crate::facts::reason::{NoNode, Obstacle, WaitReason};
use crate::fold::experiment::Experiment;
use crate::fold::groups::{AwaitedGroup, is_meant, is_present, members, named};
use crate::fold::run::Run;
use crate::fold::state::State;

/// What runs with nodes keep others from.
#[derive(Debug)]
pub struct Locks<'a> {
    state: &'a State,
    /// By the lock's name.
    held: HashMap<String, Vec<HeldLock>>,
    /// By node.
    settling: HashMap<String, Vec<SettlePause>>,
    /// Where the experiments are that `place` names, by source and word.
    whereabouts: Mutex<HashMap<(u64, String), Whereabouts>>,
    /// The nodes of the runs that were placed since.
    taken: HashMap<RunId, String>,
}

#[derive(Debug)]
struct HeldLock {
    everywhere: bool,
    node: String,
    by: RunId,
    /// Whether it is not known that the run ended.
    is_lost: bool,
}

#[derive(Debug)]
struct SettlePause {
    after: RunId,
    /// Time until the next start; `None`: it has not started.
    left_ms: Option<i64>,
}

/// Where the runs of experiments are that share a name.
#[derive(Debug, Default)]
struct Whereabouts {
    /// A current run with a node, of each of the first two experiments.
    placed: Vec<(RunId, String)>,
    /// The nodes of all current runs.
    nodes: HashSet<String>,
    /// A current live run without a node, of each of the first two experiments.
    coming: Vec<RunId>,
    /// A run that is on a node or may be, and whether it is lost.
    beside: HashMap<String, (RunId, bool)>,
}

impl Whereabouts {
    fn of<'r>(
        on: &str,
        experiments: impl Iterator<Item = &'r Experiment>,
        node_of: impl Fn(&Run) -> Option<String>,
    ) -> Self {
        let mut all = Self::default();
        for one in experiments.filter(|one| is_present(one)) {
            if let Some(run) = one.current().filter(|_| is_meant(one, on)) {
                match node_of(run) {
                    Some(node) => all.place(run.made.id, node),
                    None if run.phase().is_live() && all.coming.len() < 2 => {
                        all.coming.push(run.made.id);
                    }
                    None => {}
                }
            }
            let newest = one.newest().map(|run| run.made.id);
            for run in &one.runs {
                let is_lost = run.in_doubt();
                if (run.phase().is_live() || is_lost && newest == Some(run.made.id))
                    && let Some(node) = node_of(run)
                {
                    all.beside.entry(node).or_insert((run.made.id, is_lost));
                }
            }
        }
        all
    }

    /// A current run has this node.
    fn place(&mut self, run: RunId, node: String) {
        if self.placed.len() < 2 {
            self.placed.push((run, node.clone()));
        }
        self.nodes.insert(node);
    }
}

/// The first that is none of an experiment itself.
fn first_other<T>(all: &[T], own: ExperimentId, of: impl Fn(&T) -> RunId) -> Option<&T> {
    all.iter().find(|one| of(one).experiment != own)
}

impl<'a> Locks<'a> {
    /// Those of all runs.
    pub fn of(state: &'a State, now: &PresentTime) -> Self {
        let mut locks = Self {
            state,
            held: HashMap::new(),
            settling: HashMap::new(),
            whereabouts: Mutex::default(),
            taken: HashMap::new(),
        };
        for experiment in state.experiments.iter() {
            let newest = experiment.newest().map(|run| run.made.id);
            let alone = experiment.runs.iter();
            for run in alone.filter(|run| run.made.precedence.is_alone_on_node()) {
                // `restart --abandon` is the person's word that it does not run.
                let is_abandoned = run.in_doubt() && newest != Some(run.made.id);
                if let Some(node) = run.placed_on().filter(|_| !is_abandoned) {
                    locks.add(run, node, now);
                }
            }
        }
        locks
    }

    /// A run goes to this node.
    pub fn take(&mut self, run: &Run, node: &str, now: &PresentTime) {
        self.add(run, node, now);
        self.taken.insert(run.made.id, node.to_owned());
        let Some(own) = self.state.experiment(run.made.id.experiment) else {
            return;
        };
        let known = self.whereabouts.get_mut();
        for ((source, on), there) in known.unwrap_or_else(PoisonError::into_inner) {
            let names_it = match experiment_number(on) {
                Some(number) => number == own.id.0,
                None => *source == own.source && is_named(on, &own.definition),
            };
            if names_it && is_present(own) {
                if is_meant(own, on) {
                    there.place(run.made.id, node.to_owned());
                }
                let beside = there.beside.entry(node.to_owned());
                beside.or_insert((run.made.id, false));
            }
        }
    }

    /// Keeps the lock of a node, and its settling, for a run that may get them in a moment.
    pub fn reserve(&mut self, run: &Run, node: &str, now: &PresentTime) {
        self.add(run, node, now);
    }

    fn add(&mut self, run: &Run, node: &str, now: &PresentTime) {
        let precedence = &run.made.precedence;
        let is_lost = run.in_doubt();
        let may_run = run.phase().is_live() || is_lost;
        if let Some(lock) = precedence.lock.as_ref().filter(|_| may_run) {
            let held = HeldLock {
                everywhere: lock.everywhere,
                node: node.to_owned(),
                by: run.made.id,
                is_lost,
            };
            self.held.entry(lock.name.clone()).or_default().push(held);
        }
        if precedence.settle_ms > 0 {
            let settle_ms = i64::try_from(precedence.settle_ms).unwrap_or(i64::MAX);
            let started = run.journal.newest().map(|(_, one)| one);
            let started = started.and_then(|one| Some((one.started.as_ref(), one.started_ms?)));
            let left_ms = started.map(|(tick, ms)| settle_ms - run.ran_for_ms(tick, ms, now));
            let is_over = match left_ms {
                Some(left_ms) => left_ms <= 0,
                None => !may_run,
            };
            if !is_over {
                let after = run.made.id;
                let those = self.settling.entry(node.to_owned()).or_default();
                those.push(SettlePause { after, left_ms });
            }
        }
    }

    /// The candidates for a run, without the nodes that it has to wait for.
    pub fn without_taken(&self, run: &Run, candidates: &[Candidate]) -> Vec<Candidate> {
        let standing = |one: &Candidate| match self.obstacle(run, &one.name) {
            Some(obstacle) => NodeAvailability::Taken(obstacle.lasting()),
            None => one.standing.clone(),
        };
        let all = candidates.iter().map(|one| Candidate {
            name: one.name.clone(),
            standing: standing(one),
        });
        all.collect()
    }

    /// Why a run has no node, with the runs that keep it from them now.
    pub fn why(&self, run: &Run) -> WaitReason {
        let WaitReason::NoNode(NoNode::Each(nodes)) = run.why() else {
            return run.why().clone();
        };
        let each = nodes.iter().map(|(node, stored)| {
            let now = stored.passes().then(|| self.obstacle(run, node)).flatten();
            (node.clone(), now.unwrap_or_else(|| stored.clone()))
        });
        WaitReason::NoNode(NoNode::Each(each.collect()))
    }

    fn obstacle(&self, run: &Run, node: &str) -> Option<Obstacle> {
        let precedence = &run.made.precedence;
        let of_lock = precedence.lock.as_ref().and_then(|lock| {
            let held = self.held.get(&lock.name).into_iter().flatten();
            let mut others = held.filter(|one| one.by != run.made.id);
            let held = others.find(|one| one.everywhere || lock.everywhere || one.node == node);
            let Some(held) = held else {
                let untold = self.state.restored.nodes.first();
                let untold = untold.filter(|_| lock.everywhere)?;
                return Some(Obstacle::Away(format!(
                    "a run on {untold} may hold the lock {}: this home was restored from a backup; \
                     `neroman node gone {untold}` where it never tells",
                    lock.name
                )));
            };
            Some(Obstacle::Locked {
                lock: lock.name.clone(),
                by: Some(held.by),
                is_lost: held.is_lost,
            })
        });
        let of_settle = || {
            let settling = self.settling.get(node);
            let settling = settling.filter(|_| precedence.settle_ms > 0)?;
            let settling = settling.iter().find(|one| one.after != run.made.id)?;
            Some(Obstacle::Settling {
                after: Some(settling.after),
                has_started: settling.left_ms.is_some(),
            })
        };
        of_lock
            .or_else(of_settle)
            .or_else(|| self.is_elsewhere(run, node))
            .or_else(|| self.is_beside(run, node))
    }

    /// `same_as`: the run whose node is another one.
    fn is_elsewhere(&self, run: &Run, node: &str) -> Option<Obstacle> {
        let same_as = run.made.precedence.place.same_as.as_ref()?;
        let own = run.made.id.experiment;
        self.look_at(run, &same_as.on, |those| {
            let Some((of, there)) = first_other(&those.placed, own, |(run, _)| *run) else {
                // Where none is to come either, a person let this one go on.
                let of = *first_other(&those.coming, own, |run| *run)?;
                return Some(Obstacle::SameAs { of, there: None });
            };
            (!those.nodes.contains(node)).then(|| Obstacle::SameAs {
                of: *of,
                there: Some(there.clone()),
            })
        })
    }

    /// `apart_from`: the run that is on the node, or may be.
    fn is_beside(&self, run: &Run, node: &str) -> Option<Obstacle> {
        let mut names = run.made.precedence.place.apart_from.iter();
        let beside = |on: &String| {
            let find = |those: &Whereabouts| those.beside.get(node).copied();
            self.look_at(run, on, find)
        };
        let (beside, is_lost) = names.find_map(beside)?;
        Some(Obstacle::ApartFrom {
            beside: Some(beside),
            is_lost,
        })
    }

    /// Looks at the experiments that a run's `place` names.
    fn look_at<T>(
        &self,
        run: &Run,
        on: &str,
        look: impl FnOnce(&Whereabouts) -> Option<T>,
    ) -> Option<T> {
        let source = self.state.experiment(run.made.id.experiment)?.source;
        let mut known = self
            .whereabouts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let key = (source, on.to_owned());
        let there = known.entry(key).or_insert_with(|| {
            let node_of = |run: &Run| {
                let taken = self.taken.get(&run.made.id).map(String::as_str);
                taken.or_else(|| run.placed_on()).map(str::to_owned)
            };
            Whereabouts::of(on, named(self.state, source, on), node_of)
        });
        look(there)
    }

    /// Time until a node that settles may get the next run.
    pub fn settled_in_ms(&self) -> Option<i64> {
        let all = self.settling.values().flatten();
        all.filter_map(|one| one.left_ms).min()
    }
}

/// The runs of the experiments whose node an experiment's next run has to be on: those that have
/// a node, or are to get one.
pub fn companions(state: &State, own: ExperimentId) -> Vec<&Run> {
    let Some(own) = state.experiment(own) else {
        return Vec::new();
    };
    let same_as = own.definition.precedence.place.same_as.iter();
    let all = same_as.flat_map(|on| members(state, own.source, AwaitedGroup::Need(on)));
    let others = all.filter(|one| one.id != own.id && is_present(one));
    let runs = others.filter_map(Experiment::current);
    runs.filter(|run| run.placed_on().is_some() || run.phase().is_live())
        .collect()
}

/// Whether a change of a run may free a node for others. `apart`: runs wait for nodes without
/// certain others.
pub fn may_free(before: Option<&Run>, after: Option<&Run>, apart: bool) -> bool {
    let (Some(before), Some(after)) = (before, after) else {
        return false;
    };
    let precedence = &after.made.precedence;
    let node = |run: &Run| {
        let is_there = run.phase().is_live() || run.in_doubt();
        run.placed_on().filter(|_| is_there).map(str::to_owned)
    };
    let leaves = || node(before).is_some() && node(before) != node(after);
    let begins = before.started_ms().is_none() && after.started_ms().is_some();
    (apart || precedence.is_alone_on_node()) && leaves() || precedence.settle_ms > 0 && begins
}
