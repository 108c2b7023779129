//! Which node a run gets, of those that what it asks for means: without the nodes
//! that it must not have, or had lately.

use super::fit::{self, Candidate, NodeAvailability};
use super::judge;
use crate::facts::leaving::Refusal;
use crate::facts::now::Tick;
use crate::fold::run::Run;
use crate::step::placement::Choice;

/// Chooses a node for one run. A node that the run left lately because it could
/// not take the run is chosen only if no other can have it.
pub fn choose(run: &Run, candidates: &mut [Candidate], now: &Tick) -> Choice {
    let left_ms = run.made.pause_left_ms(now);
    if left_ms > 0 {
        return Choice::Later { left_ms };
    }
    let left = |name: &str| run.passes_over(name, now);
    if !candidates.iter().any(|one| left(&one.name)) {
        return choose_but(run, candidates, &|_| false);
    }
    match choose_but(run, candidates, &left) {
        choice @ (Choice::On(_) | Choice::Wait | Choice::Later { .. }) => choice,
        Choice::Nowhere(_) | Choice::Never(_) => choose_but(run, candidates, &|_| false),
    }
}

/// Whether no node for one run means the same for the other, decided with the same candidates. A
/// run that had a node before is none like another.
pub fn is_alike(one: &Run, other: &Run) -> bool {
    let is_fresh = |run: &Run| {
        let dispatch = &run.dispatch;
        dispatch.excluded.is_empty() && dispatch.deferred.is_empty() && run.made.follows.is_none()
    };
    let (made, others) = (&one.made, &other.made);
    let (precedence, other_precedence) = (&made.precedence, &others.precedence);
    is_fresh(one)
        && is_fresh(other)
        && made.node == others.node
        && made.takes == others.takes
        && precedence.lock == other_precedence.lock
        && precedence.settle_ms == other_precedence.settle_ms
        && precedence.place == other_precedence.place
        // Names mean experiments of a source, and `same_as` others than the experiment itself.
        && !precedence.place.names_others()
}

/// The same without some nodes. Nodes that were given up are left out; nodes
/// that refused the run are reported with their reasons.
pub fn choose_but(run: &Run, candidates: &mut [Candidate], but: &dyn Fn(&str) -> bool) -> Choice {
    if run.excluded().is_empty() && !candidates.iter().any(|one| but(&one.name)) {
        return fit::choose(&run.made.takes, candidates, &judge::judge);
    }
    let mut others: Vec<Candidate> = candidates
        .iter()
        .filter(|candidate| !but(&candidate.name))
        .filter_map(|candidate| {
            let refused = |refusal: &&Refusal| refusal.node == candidate.name;
            match run.refusals().iter().find(refused) {
                Some(refusal) => Some(Candidate {
                    name: candidate.name.clone(),
                    standing: NodeAvailability::Refused(refusal.why.clone()),
                }),
                None if run.excluded().contains(&candidate.name) => None,
                None => Some(candidate.clone()),
            }
        })
        .collect();
    let choice = fit::choose(&run.made.takes, &mut others, &judge::judge);
    if let Choice::On(name) = &choice {
        count(candidates, name, run.made.takes.on(name).cores());
    }
    choice
}

/// Counts one more run of so many processors on a node.
pub fn count(candidates: &mut [Candidate], name: &str, cores: f64) {
    for candidate in candidates.iter_mut().filter(|one| one.name == name) {
        if let NodeAvailability::Known(figures) = &mut candidate.standing {
            figures.cores += cores;
        }
    }
}
