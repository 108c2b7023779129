//! Runs that wait on one node of a group although another one could start them now.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use nero_config::Config;
use nero_model::{Phase, RunId};
use tokio::time::Instant;

use super::Placer;
use nero_home::ledger::LatePolicy;
use nero_life::balance::{self, Job, Member, Move, Starts};
use nero_life::choose::choose_but;
use nero_life::input::Input;
use nero_life::now::{PresentTime, Tick};
use nero_life::place::{Candidate, Choice, NodeAvailability};
use nero_life::run::{Run, Turn};
use nero_life::state::State;

/// Between two looks while runs wait on a node: a run that ends elsewhere makes room
/// without a word to the placer.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a run that was recalled is not recalled again: its node may keep it.
const STAYS: Duration = Duration::from_millis(balance::STAYS_MS.unsigned_abs());

/// A look goes through every run: so many times as long as it took no other one follows.
const REST: u32 = 50;
/// Longest pause between two looks. One look that took long, on a machine that stood still,
/// would put off the next one for hours.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The pause from a look to the next one.
fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(REST).clamp(LOOK_EVERY, PAUSE_MAX)
}

impl Placer {
    /// Recalls waiting runs for nodes that could start them. Returns how soon there
    /// may be more.
    pub(super) async fn balance(&mut self, state: &State, now: &Tick) -> Option<Duration> {
        let config = self.nodes.usable_config();
        let full = self.full_nodes(state, &config);
        self.balancing = !full.is_empty();
        if full.is_empty() {
            return None;
        }
        let began = Instant::now();
        if let Some(due) = self.balance_due.filter(|due| *due > began) {
            return Some(due - began);
        }
        let moves = self.moves(state, &config, &full, now);
        let pause = pause_after(began.elapsed());
        self.balance_due = Some(began + pause);
        if !moves.is_empty() {
            self.recall(moves, now).await;
        }
        Some(pause)
    }

    /// The runs to be recalled from these nodes.
    fn moves(
        &mut self,
        state: &State,
        config: &Config,
        full: &BTreeSet<String>,
        now: &Tick,
    ) -> Vec<Move> {
        let free = |run: &Run| {
            let node = run.node().filter(|node| full.contains(*node));
            balance::waits_freely(run)
                && node.is_some_and(|node| config.balances(&run.made.node, node))
        };
        let runs = state.live_runs();
        let words = runs.filter(|run| free(run)).map(|run| &*run.made.node);
        let words: BTreeSet<&str> = words.collect();
        let targets = words
            .into_iter()
            .filter_map(|word| config.resolve(word).ok());
        let names: BTreeSet<String> = targets.flat_map(|one| one.nodes().to_vec()).collect();
        let candidate = |name: String| {
            let standing = self.standing_of_reached(state, &name);
            (name.clone(), Candidate { name, standing })
        };
        let candidates: BTreeMap<String, Candidate> = names.into_iter().map(candidate).collect();
        if candidates.is_empty() {
            return Vec::new();
        }
        self.recalled.retain(|_, at| at.elapsed() < STAYS);
        let known = CollectionHistory::of(state, &self.nodes.known().now(self.nodes.clock()));
        let members = self.members(state, config, &candidates, &known, now);
        let may = |id: RunId, to: &str| {
            !known.refused.contains(&(collections(state, id), to))
                && state
                    .run(id)
                    .is_some_and(|run| may_go(run, to, config, &candidates))
        };
        known.first_alone(state, balance::decide(&members, &may))
    }

    /// The standing of a node. A node out of reach is not tried once more: runs may
    /// wait for hours, and its tries keep their pauses.
    fn standing_of_reached(&mut self, state: &State, name: &str) -> NodeAvailability {
        match self.nodes.node(name) {
            Some(node) if node.now().out_of_reach() => {
                self.asked.remove(name);
                node.inbox.want_link_in_turn();
                NodeAvailability::Away("out of reach".to_owned())
            }
            Some(_) | None => self.standing(state, name),
        }
    }

    /// The nodes on which runs wait, as far as their last description shows.
    fn full_nodes(&self, state: &State, config: &Config) -> BTreeSet<String> {
        let full = |name: &&String| {
            let on_node = state.on_node(name);
            let about = self.nodes.node(name).and_then(|node| node.now().about);
            let about = about.filter(|_| on_node.live > 0);
            about.is_some_and(|about| {
                let about = &about.description;
                about.waiting > 0 || !about.hold.is_empty() || on_node.cores > about.cpus
            })
        };
        match config.nodes.len() {
            0 | 1 => BTreeSet::new(),
            _ => config.nodes.keys().filter(full).cloned().collect(),
        }
    }

    fn members(
        &self,
        state: &State,
        config: &Config,
        candidates: &BTreeMap<String, Candidate>,
        known: &CollectionHistory<'_>,
        now: &Tick,
    ) -> Vec<Member> {
        let usual = known.usual_ms();
        let supports_recall = |name: &&String| {
            let node = self.nodes.node(name);
            node.is_some_and(|node| node.now().supports_recall())
        };
        let supporting = candidates.keys().filter(supports_recall);
        let supporting = supporting.map(String::as_str);
        let supporting: BTreeSet<&str> = supporting.collect();
        let mut jobs: BTreeMap<&str, Vec<(Turn, Job)>> = BTreeMap::new();
        for experiment in state.active() {
            for run in experiment.live() {
                let Some(node) = run.node().filter(|node| candidates.contains_key(*node)) else {
                    continue;
                };
                let usual_ms = usual
                    .get(experiment.definition.collections.as_slice())
                    .copied();
                let mut job = Job::of(run, usual_ms, now);
                let goes = config.balances(&run.made.node, node)
                    && !run.made.precedence.place.names_others()
                    && supporting.contains(node)
                    && !self.recalled.contains_key(&run.made.id);
                if !goes {
                    job.stays();
                }
                jobs.entry(node).or_default().push((run.turn(), job));
            }
        }
        let member = |(name, candidate): (&String, &Candidate)| {
            let node = self.nodes.node(name);
            let about = node.and_then(|node| node.now().about);
            let holds = about.is_some_and(|about| !about.description.hold.is_empty());
            let (figures, starts) = match &candidate.standing {
                NodeAvailability::Known(figures) if holds => (Some(figures), Starts::Held),
                NodeAvailability::Known(figures) => (Some(figures), Starts::Yes),
                NodeAvailability::Asked
                | NodeAvailability::Late
                | NodeAvailability::Away(_)
                | NodeAvailability::Refused(_)
                | NodeAvailability::Taken(_) => (None, Starts::Silent),
            };
            let mut jobs = jobs.remove(name.as_str()).unwrap_or_default();
            jobs.sort_by_key(|(turn, _)| *turn);
            Member {
                name: name.clone(),
                cpus: figures.map_or(0.0, |figures| figures.cpus),
                memory_bytes: figures.map_or(0, |figures| figures.memory_bytes),
                starts,
                quiet_ms: known.quiet_ms.get(&**name).copied().unwrap_or(0),
                jobs: jobs.into_iter().map(|(_, job)| job).collect(),
            }
        };
        candidates.iter().map(member).collect()
    }

    async fn recall(&mut self, moves: Vec<Move>, now: &Tick) {
        for one in &moves {
            tracing::info!(run = %one.run, from = one.from, to = one.to, "recalled: another node has room");
        }
        let at = Instant::now();
        self.recalled.extend(moves.iter().map(|one| (one.run, at)));
        let input = |Move { run, from, to }| {
            let tick = now.clone();
            (run, Input::Balance { from, to, tick })
        };
        let inputs = moves.into_iter().map(input).collect();
        let late = LatePolicy::Passes("it was started, cancelled or moved meanwhile");
        let ledger = self.nodes.ledger();
        let written = ledger.happened(false, inputs, late).await;
        if let Err(failure) = written {
            tracing::warn!(%failure, "runs not recalled for a node with room");
        }
    }
}

/// Whether a run may go to a node, and fits there.
fn may_go(run: &Run, to: &str, config: &Config, all: &BTreeMap<String, Candidate>) -> bool {
    let target = config.resolve(&run.made.node);
    let asked = target.is_ok_and(|target| target.nodes().iter().any(|node| node == to));
    let Some(candidate) = all.get(to).filter(|_| asked && !balance::left(run, to)) else {
        return false;
    };
    let mut one = [candidate.clone()];
    choose_but(run, &mut one, &|_| false) == Choice::On(to.to_owned())
}

/// Finished runs of a collection that are enough to know its usual run time.
const ENOUGH: usize = 200;

/// What earlier runs show of their collections.
#[derive(Default)]
struct CollectionHistory<'a> {
    /// Run times of finished runs, in milliseconds.
    took_ms: HashMap<&'a [String], Vec<u64>>,
    /// The nodes on which runs began.
    begun: HashSet<(&'a [String], &'a str)>,
    /// How long nodes have started no run, in milliseconds.
    quiet_ms: HashMap<&'a str, u64>,
    /// The nodes that refused runs.
    refused: HashSet<(&'a [String], &'a str)>,
}

impl<'a> CollectionHistory<'a> {
    fn of(state: &'a State, now: &PresentTime) -> Self {
        let mut known = Self::default();
        for experiment in state.experiments.iter() {
            let Some(run) = experiment.runs.last() else {
                continue;
            };
            let of = experiment.definition.collections.as_slice();
            let refused = run.refusals().iter().map(|refusal| (of, &*refusal.node));
            known.refused.extend(refused);
            let Some((_, newest)) = run.journal.newest() else {
                continue;
            };
            known.begun.extend(run.node().map(|node| (of, node)));
            if let (Some(node), Some(ms)) = (run.node(), newest.started_ms) {
                let ago_ms = now.since(newest.started.as_ref(), ms).unsigned_abs();
                let quiet_ms = known.quiet_ms.entry(node).or_insert(ago_ms);
                *quiet_ms = ago_ms.min(*quiet_ms);
            }
            let exit = run.exit().filter(|_| run.phase() == Phase::Finished);
            if let Some(exit) = exit {
                let took_ms = known.took_ms.entry(of).or_default();
                took_ms.extend((took_ms.len() < ENOUGH).then_some(exit.run_ms));
            }
        }
        known
    }

    /// The median run time of each collection, in milliseconds.
    fn usual_ms(&self) -> HashMap<&'a [String], u64> {
        let median = |(of, took_ms): (&&'a [String], &Vec<u64>)| {
            let mut took_ms = took_ms.clone();
            took_ms.sort_unstable();
            Some((*of, *took_ms.get(took_ms.len() / 2)?))
        };
        self.took_ms.iter().filter_map(median).collect()
    }

    /// Leaves one move of each collection to a node on which no run of it began yet:
    /// a run that the node refuses can seldom go back.
    fn first_alone(&self, state: &'a State, mut moves: Vec<Move>) -> Vec<Move> {
        let mut first = HashSet::new();
        moves.retain(|one| {
            let of = collections(state, one.run);
            self.begun.contains(&(of, &*one.to)) || first.insert((of, one.to.clone()))
        });
        moves
    }
}

/// The collections of a run's experiment.
fn collections(state: &State, run: RunId) -> &[String] {
    let experiment = state.experiment(run.experiment);
    experiment.map_or(&[], |experiment| &experiment.definition.collections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_for_runs_to_move_take_at_most_a_fiftieth_of_the_time() {
        assert_eq!(pause_after(Duration::from_millis(3)), LOOK_EVERY);
        let long = Duration::from_millis(300);
        assert_eq!(pause_after(long), long * 50);
    }

    #[test]
    fn one_look_that_took_long_puts_the_next_off_for_a_minute_at_most() {
        for took in [
            Duration::from_secs(3),
            Duration::from_secs(3600),
            Duration::MAX,
        ] {
            assert_eq!(pause_after(took), PAUSE_MAX);
        }
    }
}
