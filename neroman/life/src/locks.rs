//! `lock` and `settle`: runs that a node does not get beside others.
//!
//! A lock is no record of its own: the run that has one holds it from the choice of its node,
//! which is synced, until there is evidence of its end. A lost run that may still run keeps it
//! until a person has the experiment begun anew beside it.

use nero_model::RunId;

use super::now::Now;
use super::place::{Candidate, Standing};
use super::reason::Obstacle;
use super::run::Run;
use super::stage::Stage;
use super::state::State;

/// What runs with nodes keep others from.
#[derive(Debug, Default)]
pub struct Locks {
    held: Vec<HeldLock>,
    settling: Vec<Settling>,
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

impl Locks {
    /// Those of all runs.
    pub fn of(state: &State, now: &Now) -> Self {
        let mut locks = Self::default();
        for experiment in state.experiments.iter() {
            let newest = experiment.newest().map(|run| run.made.id);
            let alone = experiment.runs.iter();
            for run in alone.filter(|run| run.made.precedence.is_alone_on_node()) {
                // `restart --abandon` is the person's word that it does not run.
                let is_abandoned = run.in_doubt() && newest != Some(run.made.id);
                if let Some(node) = placed_on(run).filter(|_| !is_abandoned) {
                    locks.add(run, node, now);
                }
            }
        }
        locks
    }

    /// A run goes to this node.
    pub fn take(&mut self, run: &Run, node: &str, now: &Now) {
        self.add(run, node, now);
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
            let mut held = self.held.iter().filter(|one| one.name == lock.name);
            held.find(|one| one.everywhere || lock.everywhere || one.node == node)
        });
        if let Some(held) = of_lock {
            return Some(Obstacle::Locked {
                lock: held.name.clone(),
                by: held.by,
                is_lost: held.is_lost,
            });
        }
        let mut settling = self.settling.iter().filter(|one| one.node == node);
        let settling = settling.next().filter(|_| precedence.settle_ms > 0)?;
        Some(Obstacle::Settling {
            after: settling.after,
            has_started: settling.left_ms.is_some(),
        })
    }

    /// Time until a node that settles may get the next run.
    pub fn settled_in_ms(&self) -> Option<i64> {
        self.settling.iter().filter_map(|one| one.left_ms).min()
    }
}

/// The node of a run that was placed.
fn placed_on(run: &Run) -> Option<&str> {
    match run.dispatch.stage {
        Stage::Behind { .. } | Stage::Unplaced => None,
        Stage::Chosen { .. }
        | Stage::Offered { .. }
        | Stage::Accepted { .. }
        | Stage::Recalled { .. }
        | Stage::Begun { .. }
        | Stage::Over { .. } => run.node(),
    }
}

/// Whether a change of a run may free a node for others.
pub fn may_free(before: Option<&Run>, after: Option<&Run>) -> bool {
    let so_far = |run: &Run| {
        let started = run.started_ms().is_some();
        let node = placed_on(run).map(str::to_owned);
        (run.phase(), started, run.in_doubt(), node)
    };
    let Some(after) = after else { return false };
    after.made.precedence.is_alone_on_node() && before.map(so_far) != Some(so_far(after))
}
