//! Runs that their nodes cannot take for now, while other nodes can.

use std::collections::BTreeMap;
use std::time::Duration;

use nero_model::RunId;
use tokio::time::Instant;

use super::super::now::NodeNow;
use super::{EVERY, LEAVE_EVERY, Placer, RUNS_MAX};
use nero_home::ledger::LatePolicy;
use nero_life::choose::choose_but;
use nero_life::input::Input;
use nero_life::locks::Locks;
use nero_life::now::Tick;
use nero_life::place::{Candidate, Choice, NodeAvailability};
use nero_life::state::State;

impl Placer {
    /// Moves runs that their node could not take for as long as a node may be
    /// out of reach. Returns how soon there may be more.
    pub(super) async fn recall_deferred(&mut self, state: &State, now: &Tick) -> Option<Duration> {
        if state.deferred == 0 {
            self.looked_for_later = None;
            return None;
        }
        let looked = self.looked_for_later;
        if let Some(at) = looked.filter(|at| at.elapsed() < LEAVE_EVERY) {
            return Some(LEAVE_EVERY.saturating_sub(at.elapsed()));
        }
        self.looked_for_later = Some(Instant::now());
        let patience = self.nodes.away();
        let mut pause = EVERY;
        let mut words: BTreeMap<String, Vec<Candidate>> = BTreeMap::new();
        let mut leave: Vec<RunId> = Vec::new();
        let runs = state.active().flat_map(|experiment| &experiment.runs);
        let runs = runs.filter_map(|run| Some((run, run.deferred()?)));
        let mut looked_at = 0;
        for (run, said) in runs {
            let since = Duration::from_millis(now.since(said.since.as_ref()).unsigned_abs());
            if since < patience {
                pause = pause.min(patience - since);
                continue;
            }
            looked_at += 1;
            if looked_at > RUNS_MAX {
                break;
            }
            let word = &run.made.node;
            let candidates = words.entry(word.clone());
            let candidates = candidates.or_insert_with(|| self.candidates(state, word));
            let starts_at_once: Vec<String> = candidates
                .iter()
                .filter(|one| self.starts_now(one, run.made.takes.on(&one.name).cores()))
                .map(|one| one.name.clone())
                .collect();
            let no = |name: &str| {
                name == said.node
                    || run.passes_over(name, now)
                    || !starts_at_once.iter().any(|other| other == name)
            };
            let choice = if run.made.precedence.looks_at_others() {
                let known = self.nodes.known().now(self.nodes.clock());
                let mut free = Locks::of(state, &known).without_taken(run, candidates);
                choose_but(run, &mut free, &no)
            } else {
                choose_but(run, candidates, &no)
            };
            match choice {
                Choice::On(_) => leave.push(run.made.id),
                Choice::Wait => pause = pause.min(Duration::from_secs(1)),
                Choice::Later { .. } | Choice::Nowhere(_) | Choice::Never(_) => {}
            }
        }
        if leave.is_empty() {
            return Some(pause);
        }
        tracing::info!(
            runs = leave.len(),
            "sent on from nodes that cannot take them"
        );
        let tick = self.nodes.clock().moment().tick;
        let recall = Input::RecallDeferred { tick };
        let inputs = leave.into_iter().map(|id| (id, recall.clone())).collect();
        let late = LatePolicy::Passes("its node took or refused it meanwhile");
        let written = self.nodes.ledger().happened(false, inputs, late);
        if let Err(failure) = written.await {
            tracing::warn!(%failure, "runs not recalled");
        }
        Some(pause)
    }

    /// Whether the run would start on the candidate instead of waiting again:
    /// the node has `cores` processors free, and starts runs. A node that is
    /// being asked counts.
    fn starts_now(&self, candidate: &Candidate, cores: f64) -> bool {
        let NodeAvailability::Known(figures) = &candidate.standing else {
            return true;
        };
        let holds = |now: NodeNow| {
            now.about
                .is_some_and(|about| !about.description.hold.is_empty())
        };
        let node = self.nodes.node(&candidate.name);
        figures.cores + cores <= figures.cpus && !node.is_some_and(|node| holds(node.now()))
    }
}
