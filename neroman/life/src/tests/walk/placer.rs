//! The placer: which node a run gets, and which run leaves its node for one with room. The
//! decisions are `choose` and `balance`; what stands here is `link/src/node/placer`.

use std::collections::BTreeMap;

use nero_model::RunId;

use super::head::About;
use super::people::GROUP;
use super::world::{Event, World};
use crate::facts::now::PresentTime;
use crate::fold::run::{Run, Turn};
use crate::place::balance::{self, Job, Member, Starts};
use crate::place::choose::{choose, choose_but, count};
use crate::place::fit::{Candidate, NodeAvailability};
use crate::place::judge::Figures;
use crate::place::locks::Locks;
use crate::step::input::Input;
use crate::step::placement::Choice;

/// How long a node's description counts, and an answer is awaited.
const FRESH_MS: i64 = 30_000;
const PATIENCE_MS: i64 = 5000;
/// A node may be out of reach, or have no room, for so long before its runs go elsewhere.
const AWAY_MS: i64 = 20_000;
/// The pause between two looks while runs wait.
const EVERY_MS: i64 = 2000;

/// What the placer remembers.
#[derive(Debug, Default)]
pub(super) struct Placer {
    /// When runs were recalled for a node with room.
    recalled: BTreeMap<RunId, i64>,
    due_ms: i64,
    /// Whether a look comes soon.
    pub is_rung: bool,
}

impl World {
    /// Places what waits, and takes back what nodes out of reach never got.
    pub fn place(&mut self) {
        self.head.placer.is_rung = false;
        if !self.head.is_up {
            return;
        }
        self.leave();
        if self.head.state.deferred > 0 {
            self.recall_deferred();
        }
        if self.head.state.unplaced > 0 {
            self.choose_nodes();
        }
        self.balance();
        let state = &self.head.state;
        if state.live > 0 && self.clock.now >= self.head.placer.due_ms {
            // Looks that take longer come less often.
            let pause_ms = EVERY_MS * (self.clock.rates.slow / 10).max(1);
            self.head.placer.due_ms = self.clock.now + pause_ms;
            self.clock.after(pause_ms, Event::Placer);
        }
    }

    /// Chooses nodes for the runs that wait for one.
    fn choose_nodes(&mut self) {
        let tick = self.tick();
        let unplaced = self.head.state.live_runs().filter(|run| run.unplaced());
        let mut waiting: Vec<Turn> = unplaced.map(Run::turn).collect();
        waiting.sort_unstable();
        let mut words: BTreeMap<String, Vec<Candidate>> = BTreeMap::new();
        for (.., id) in &waiting {
            let word = self.head.state.run(*id).map(|run| run.made.node.clone());
            let word = word.unwrap_or_default();
            let entry = words.entry(word);
            entry.or_insert_with_key(|word| self.candidates(word));
        }
        let (mut inputs, mut durable) = (Vec::new(), false);
        let now = self.known_now();
        let mut locks = Locks::of(&self.head.state, &now);
        for (.., id) in waiting {
            let run = self.head.state.run(id).expect("it waits");
            let looks = run.made.precedence.looks_at_others();
            let candidates = words.get_mut(&run.made.node).expect("they were asked");
            let choice = if looks {
                choose(run, &mut locks.without_taken(run, candidates), &tick)
            } else {
                choose(run, candidates, &tick)
            };
            if let Choice::On(name) = &choice {
                let cores = run.made.takes.cores();
                let word = &run.made.node;
                for (_, others) in words.iter_mut().filter(|(one, _)| looks || *one != word) {
                    count(others, name, cores);
                }
                if looks {
                    locks.take(run, name, &now);
                }
            }
            durable |= choice.is_synced(run);
            if choice != Choice::Wait {
                inputs.push((id, Input::Choice(choice)));
            }
        }
        self.input("the placer chooses", false, durable, inputs);
    }

    fn known_now(&self) -> PresentTime {
        PresentTime::at(&self.moment())
    }

    fn candidates(&mut self, word: &str) -> Vec<Candidate> {
        let names: Vec<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        let meant = names
            .into_iter()
            .filter(|name| word == GROUP || word == name);
        let candidate = |name: String| Candidate {
            standing: self.standing(&name),
            name,
        };
        meant.map(candidate).collect()
    }

    fn standing(&mut self, name: &str) -> NodeAvailability {
        let (now, node) = (self.clock.now, self.head.at(name));
        let link = &self.head.links[node];
        let is_connected = link.conn > 0;
        let fresh = link
            .about
            .filter(|about| is_connected && now - about.at_ms <= FRESH_MS);
        if fresh.is_some() {
            let there = &self.nodes[node];
            return NodeAvailability::Known(Box::new(Figures {
                cpus: there.cpus.into(),
                memory_bytes: u64::MAX,
                disk_free_bytes: u64::MAX,
                cores: self.head.state.on_node(name).cores,
                ..Figures::default()
            }));
        }
        if !is_connected {
            let is_away = link.away_ms.is_some();
            self.want(node);
            return if is_away {
                NodeAvailability::Away("no contact".to_owned())
            } else {
                NodeAvailability::Asked
            };
        }
        match link.asked_ms {
            None => {
                self.describe(node);
                NodeAvailability::Asked
            }
            Some(at_ms) if now - at_ms < PATIENCE_MS => NodeAvailability::Asked,
            Some(_) => NodeAvailability::Late,
        }
    }

    /// Takes back runs that a node out of reach never got.
    fn leave(&mut self) {
        let mut inputs = Vec::new();
        for node in 0..self.nodes.len() {
            let name = self.nodes[node].name.clone();
            let link = &self.head.links[node];
            let is_gone = |at_ms: i64| self.clock.now - at_ms >= AWAY_MS;
            if link.conn > 0 || !link.away_ms.is_some_and(is_gone) {
                continue;
            }
            let runs = self.head.state.live_runs();
            let movable = runs.filter(|run| {
                run.node() == Some(&*name) && run.movable() && run.made.node == GROUP
            });
            inputs.extend(movable.map(|run| {
                let (node, why) = (name.clone(), "no contact".to_owned());
                (run.made.id, Input::NodeAway { node, why })
            }));
        }
        self.input("its node is out of reach", false, false, inputs);
    }

    /// Moves runs that their node could not take for long.
    fn recall_deferred(&mut self) {
        let tick = self.tick();
        let due = self.head.state.live_runs().filter(|run| {
            let since = run.deferred().map(|said| tick.since(said.since.as_ref()));
            since.is_some_and(|ms| ms >= AWAY_MS)
        });
        let due: Vec<RunId> = due.map(|run| run.made.id).collect();
        for id in due {
            let mut candidates = self.candidates(GROUP);
            let run = self.head.state.run(id).expect("it is live");
            let cores = run.made.takes.cores();
            let own = run.node().unwrap_or_default().to_owned();
            let has_room = |one: &Candidate| match &one.standing {
                NodeAvailability::Known(figures) => figures.cores + cores <= figures.cpus,
                _ => false,
            };
            let free = candidates.iter().filter(|one| has_room(one));
            let free: Vec<String> = free.map(|one| one.name.clone()).collect();
            let no = |name: &str| {
                name == own || run.passes_over(name, &tick) || !free.iter().any(|one| one == name)
            };
            if run.made.precedence.looks_at_others() {
                let now = self.known_now();
                candidates = Locks::of(&self.head.state, &now).without_taken(run, &candidates);
            }
            if let Choice::On(_) = choose_but(run, &mut candidates, &no) {
                let input = Input::RecallDeferred { tick: tick.clone() };
                self.input("another node has room", false, false, vec![(id, input)]);
            }
        }
    }

    /// Recalls runs that wait on a full node, so that another node can start them now.
    fn balance(&mut self) {
        let (tick, now) = (self.tick(), self.clock.now);
        let about = |node: usize| self.head.links[node].about;
        let is_full = |about: About| about.waiting > 0 || about.is_held;
        let mut nodes = 0..self.nodes.len();
        if !nodes.any(|node| about(node).is_some_and(is_full)) {
            return;
        }
        let candidates = self.candidates(GROUP);
        self.head
            .placer
            .recalled
            .retain(|_, at| now - *at < balance::STAYS_MS);
        let mut members = Vec::new();
        for one in &candidates {
            let mut jobs: Vec<(Turn, Job)> = Vec::new();
            let runs = self.head.state.live_runs();
            for run in runs.filter(|run| run.node() == Some(&*one.name)) {
                let mut job = Job::of(run, None, &tick);
                let id = run.made.id;
                if run.made.node != GROUP || self.head.placer.recalled.contains_key(&id) {
                    job.stays();
                }
                jobs.push((run.turn(), job));
            }
            jobs.sort_by_key(|(turn, _)| *turn);
            let is_held = self.head.links[self.head.at(&one.name)].about;
            let is_held = is_held.is_some_and(|about| about.is_held);
            let (cpus, starts) = match &one.standing {
                NodeAvailability::Known(figures) if is_held => (figures.cpus, Starts::Held),
                NodeAvailability::Known(figures) => (figures.cpus, Starts::Yes),
                _ => (0.0, Starts::Silent),
            };
            members.push(Member {
                name: one.name.clone(),
                cpus,
                memory_bytes: u64::MAX,
                starts,
                quiet_ms: 0,
                jobs: jobs.into_iter().map(|(_, job)| job).collect(),
            });
        }
        let may = |id: RunId, to: &str| {
            let run = self.head.state.run(id).expect("it is live");
            let one = candidates.iter().find(|one| one.name == to);
            let Some(one) = one.filter(|_| !balance::left(run, to)) else {
                return false;
            };
            let choice = choose_but(run, &mut [one.clone()], &|_| false);
            choice == Choice::On(to.to_owned())
        };
        for moved in balance::decide(&members, &may) {
            self.head.placer.recalled.insert(moved.run, now);
            let left = (moved.run, moved.from.clone());
            self.head.moved_from.insert(left);
            if self
                .head
                .moved_from
                .contains(&(moved.run, moved.to.clone()))
            {
                self.clock.breaks(
                    "no run is moved back to a node that it left",
                    Some(moved.run),
                );
            }
            let (from, to, tick) = (moved.from, moved.to, tick.clone());
            let inputs = vec![(moved.run, Input::Balance { from, to, tick })];
            self.input("another node could start it now", false, false, inputs);
        }
    }
}
