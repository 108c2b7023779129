//! `lock`, `settle` and `place`: runs that a node does not get beside others, or only there.
//!
//! A lock is no record of its own: the run that has one holds it from the choice of its node,
//! which is synced, until there is evidence of its end. A lost run that may still run keeps it
//! until a person has the experiment begun anew beside it.

use std::collections::{HashMap, HashSet};

use nero_model::RunId;

use super::experiment::Experiment;
use super::now::Now;
use super::place::{Candidate, Standing};
use super::precedence::{Precedents, is_present};
use super::reason::Obstacle;
use super::run::Run;
use super::state::State;

/// What runs with nodes keep others from.
#[derive(Debug)]
pub struct Locks<'a> {
    state: &'a State,
    held: Vec<HeldLock>,
    settling: Vec<Settling>,
    /// The experiments that `place` names.
    precedents: Precedents<'a>,
    /// The nodes of the runs that were placed since.
    taken: HashMap<RunId, String>,
}

#[derive(Debug)]
struct HeldLock {
    name: String,
    everywhere: bool,
    node: String,
    by: RunId,
    /// Whether it is not known that the run ended.
    is_lost: bool,
}

#[derive(Debug)]
struct Settling {
    node: String,
    after: RunId,
    /// Time until the next start; `None`: it has not started.
    left_ms: Option<i64>,
}

impl<'a> Locks<'a> {
    /// Those of all runs.
    pub fn of(state: &'a State, now: &Now) -> Self {
        let mut sources = HashSet::new();
        let mut locks = Self {
            state,
            held: Vec::new(),
            settling: Vec::new(),
            precedents: Precedents::within(state, &sources),
            taken: HashMap::new(),
        };
        for experiment in state.experiments.iter() {
            let mut live = experiment.live();
            if live.any(|run| run.unplaced() && !run.made.precedence.place.is_free()) {
                sources.insert(experiment.source);
            }
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
        locks.precedents = Precedents::within(state, &sources);
        locks
    }

    /// A run goes to this node.
    pub fn take(&mut self, run: &Run, node: &str, now: &Now) {
        self.add(run, node, now);
        self.taken.insert(run.made.id, node.to_owned());
    }

    fn add(&mut self, run: &Run, node: &str, now: &Now) {
        let precedence = &run.made.precedence;
        let is_lost = run.in_doubt();
        let may_run = run.phase().is_live() || is_lost;
        if let Some(lock) = precedence.lock.as_ref().filter(|_| may_run) {
            self.held.push(HeldLock {
                name: lock.name.clone(),
                everywhere: lock.everywhere,
                node: node.to_owned(),
                by: run.made.id,
                is_lost,
            });
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
                self.settling.push(Settling {
                    node: node.to_owned(),
                    after: run.made.id,
                    left_ms,
                });
            }
        }
    }

    /// The candidates for a run, without the nodes that it has to wait for.
    pub fn without_taken(&self, run: &Run, candidates: &[Candidate]) -> Vec<Candidate> {
        let standing = |one: &Candidate| match self.obstacle(run, &one.name) {
            Some(obstacle) => Standing::Taken(obstacle),
            None => one.standing.clone(),
        };
        let all = candidates.iter().map(|one| Candidate {
            name: one.name.clone(),
            standing: standing(one),
        });
        all.collect()
    }

    fn obstacle(&self, run: &Run, node: &str) -> Option<Obstacle> {
        let precedence = &run.made.precedence;
        let of_lock = precedence.lock.as_ref().and_then(|lock| {
            let others = self.held.iter().filter(|one| one.by != run.made.id);
            let mut held = others.filter(|one| one.name == lock.name);
            held.find(|one| one.everywhere || lock.everywhere || one.node == node)
        });
        if let Some(held) = of_lock {
            return Some(Obstacle::Locked {
                lock: held.name.clone(),
                by: held.by,
                is_lost: held.is_lost,
            });
        }
        let others = self.settling.iter().filter(|one| one.after != run.made.id);
        let mut settling = others.filter(|one| one.node == node);
        let settling = settling.next().filter(|_| precedence.settle_ms > 0);
        if let Some(settling) = settling {
            return Some(Obstacle::Settling {
                after: settling.after,
                has_started: settling.left_ms.is_some(),
            });
        }
        (self.is_elsewhere(run, node)).or_else(|| self.is_beside(run, node))
    }

    /// `same_as`: the run whose node is another one.
    fn is_elsewhere(&self, run: &Run, node: &str) -> Option<Obstacle> {
        let same_as = run.made.precedence.place.same_as.as_ref()?;
        let others = self.named(run, &same_as.on).into_iter();
        let others = others.filter(|one| one.id != run.made.id.experiment);
        let runs: Vec<&Run> = others.filter_map(Experiment::current).collect();
        let placed = (runs.iter()).filter_map(|run| Some((run.made.id, self.node_of(run)?)));
        let placed: Vec<(RunId, &str)> = placed.collect();
        let Some((of, there)) = placed.first() else {
            // Where none is to come either, a person let this one go on.
            let of = runs.iter().find(|run| run.phase().is_live())?.made.id;
            return Some(Obstacle::SameAs { of, there: None });
        };
        let is_there = placed.iter().any(|(_, there)| *there == node);
        (!is_there).then(|| Obstacle::SameAs {
            of: *of,
            there: Some((*there).to_owned()),
        })
    }

    /// `apart_from`: the run that is on the node, or may be.
    fn is_beside(&self, run: &Run, node: &str) -> Option<Obstacle> {
        let names = run.made.precedence.place.apart_from.iter();
        let others = names.flat_map(|on| self.named(run, on));
        let runs = others.flat_map(|one| {
            let newest = one.newest().map(|run| run.made.id);
            let may_run = move |run: &&Run| {
                run.phase().is_live() || (run.in_doubt() && newest == Some(run.made.id))
            };
            one.runs.iter().filter(may_run)
        });
        let mut runs = runs.filter(|other| other.made.id != run.made.id);
        let beside = runs.find(|other| self.node_of(other) == Some(node))?;
        Some(Obstacle::ApartFrom {
            beside: beside.made.id,
            is_lost: beside.in_doubt(),
        })
    }

    /// The experiments that a run's `place` names.
    fn named(&self, run: &Run, on: &str) -> Vec<&'a Experiment> {
        let own = self.state.experiment(run.made.id.experiment);
        let all = own.map_or_else(Vec::new, |own| self.precedents.named(own.source, on));
        all.into_iter().filter(|one| is_present(one)).collect()
    }

    fn node_of<'s>(&'s self, run: &'s Run) -> Option<&'s str> {
        let taken = self.taken.get(&run.made.id).map(String::as_str);
        taken.or_else(|| run.placed_on())
    }

    /// Time until a node that settles may get the next run.
    pub fn settled_in_ms(&self) -> Option<i64> {
        self.settling.iter().filter_map(|one| one.left_ms).min()
    }
}

/// Whether a change of a run may free a node for others. `apart`: runs wait for nodes without
/// certain others.
pub fn may_free(before: Option<&Run>, after: Option<&Run>, apart: bool) -> bool {
    let so_far = |run: &Run| {
        let started = run.started_ms().is_some();
        let node = run.placed_on().map(str::to_owned);
        (run.phase(), started, run.in_doubt(), node)
    };
    let Some(after) = after else { return false };
    let frees = apart || after.made.precedence.is_alone_on_node();
    frees && before.map(so_far) != Some(so_far(after))
}
