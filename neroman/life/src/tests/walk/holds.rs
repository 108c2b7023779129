//! What holds after each event, and at the end of all faults.

use std::collections::BTreeSet;

use nero_model::{Phase, RunId};
use nero_node_core::Stage;

use super::node::Node;
use super::people::GROUP;
use super::wire::Request;
use super::world::{Event, World};
use crate::facts::hold::HoldCause;
use crate::fold::run::Run;
use crate::tests::promises::{self, Observation, Presence};

impl Node {
    /// Whether the run waits or goes on here, or may come to do so by itself.
    fn may_start(&self, run: &Run) -> bool {
        let (id, token) = (run.made.id, run.made.token);
        let Some(folder) = self.disk.get(&id).filter(|one| one.token == token) else {
            return false;
        };
        let known = self.agent.as_ref().and_then(|one| one.core.run(&token));
        let goes_on = match (known, self.ledger.get(&token)) {
            (Some(known), _) => match known.stage {
                Stage::Waiting | Stage::Starting { .. } | Stage::Running { .. } => true,
                Stage::Held { .. }
                | Stage::Submitted { .. }
                | Stage::Ended { .. }
                | Stage::Settled { .. }
                | Stage::TakenAway
                | Stage::Refused => false,
            },
            (None, Some(kept)) => !kept.is_taken_away && kept.exited.is_none(),
            (None, None) => false,
        };
        goes_on && folder.cancels == 0
    }

    fn keeps(&self, run: &Run) -> bool {
        self.ledger.contains_key(&run.made.token)
    }
}

impl World {
    /// Whether a hand-over is on its way that this node would take.
    fn comes(&self, node: &Node, run: &Run) -> bool {
        let token = run.made.token;
        let agent = node.agent.as_ref();
        let Some(agent) = agent.filter(|_| !node.keeps(run)) else {
            return false;
        };
        let fence = agent.recalled.get(&token).copied().unwrap_or(0);
        let is_run = |sent: &super::wire::SentRun| {
            let is_new = sent.token == token && !sent.is_again;
            is_new && sent.generation > fence
        };
        self.clock.heap.values().any(|event| match event {
            Event::ToNode {
                node: to,
                process,
                request: Request::HandOver(runs),
                ..
            } => *to == node.at && *process == agent.process && runs.iter().any(is_run),
            Event::Accept {
                node: to,
                process,
                placed,
                ..
            } => *to == node.at && *process == agent.process && placed.iter().any(is_run),
            _ => false,
        })
    }

    /// Judges a step of a run by the list of promises.
    pub fn judge(
        &mut self,
        before: &Run,
        label: &str,
        heard: bool,
        word: bool,
        there: Option<Presence>,
    ) {
        let id = before.made.id;
        let Some(after) = self.head.state.run(id) else {
            return;
        };
        let may = |node: &&Node| node.may_start(after) || self.comes(node, after);
        let jobs = self.clock.jobs.iter().filter(|job| job.run == id);
        let ran: BTreeSet<usize> = jobs.map(|job| job.node).collect();
        let at = before.node().map(|name| &self.nodes[self.head.at(name)]);
        let presence = |node: &Node| {
            let may_start = may(&node);
            Presence {
                had: node.keeps(before),
                could_start: may_start,
                may_start,
                is_same: true,
                is_new: false,
                is_left_behind: after.is_left_on(&node.name),
            }
        };
        let held = |node: &Node| {
            let folder = node.disk.get(&id);
            node.may_start(after) && folder.is_some_and(|folder| folder.pauses % 2 == 1)
        };
        let now = after.node().map(|name| &self.nodes[self.head.at(name)]);
        let promise = promises::broken(&Observation {
            before,
            after,
            label,
            heard,
            word,
            deceived: self.deceived.contains(&id),
            may_start: self.nodes.iter().filter(may).count(),
            ran: ran.len(),
            there: there.or_else(|| at.map(presence)),
            is_held_there: now.is_some_and(held) && ran.is_empty(),
            ran_held: false,
        });
        if let Some(promise) = promise {
            self.clock.breaks(promise, Some(id));
        }
    }

    /// What holds after each event.
    pub fn check(&mut self) {
        let mut alive: BTreeSet<(u64, usize)> = BTreeSet::new();
        let mut used = vec![0; self.nodes.len()];
        let mut broken = None;
        let mut runs: BTreeSet<RunId> = BTreeSet::new();
        for job in &self.clock.jobs {
            if !runs.insert(job.run) && !self.deceived.contains(&job.run) {
                broken = Some(("a run is started once", job.run));
            }
            if !job.is_alive {
                continue;
            }
            used[job.node] += job.cpus;
            let has_ended = self.head.state.run(job.run).is_some_and(Run::has_ended);
            if has_ended && !self.deceived.contains(&job.run) {
                broken = Some(("what has ended has no job", job.run));
            }
            let experiment = job.run.experiment.0;
            let others = alive.iter().any(|(one, _)| *one == experiment);
            let is_told = |id: &RunId| id.experiment.0 == experiment;
            if others && !self.deceived.iter().any(is_told) {
                broken = Some(("an experiment has one live job", job.run));
            }
            alive.insert((experiment, job.node));
            let lock = |experiment: u64| self.plan.experiments[experiment as usize - 1].lock;
            let shares = |(other, node): &(u64, usize)| {
                let both = lock(*other).zip(lock(experiment));
                let is_own = *other == experiment;
                !is_own && both.is_some_and(|(one, own)| one || own || *node == job.node)
            };
            if alive.iter().any(shares) && self.deceived.is_empty() {
                broken = Some(("a lock has one holder", job.run));
            }
            if used[job.node] > self.nodes[job.node].cpus {
                broken = Some(("a node gives what it has", job.run));
            }
        }
        if let Some((promise, run)) = broken {
            self.clock.breaks(promise, Some(run));
        }
        self.check_at_most();
    }

    /// Of the runs of a start no more go on at once than was asked for.
    fn check_at_most(&mut self) {
        let mut going = std::collections::BTreeMap::new();
        for job in self.clock.jobs.iter().filter(|job| job.is_alive) {
            let run = self.head.state.run(job.run);
            if let Some(line) = run.and_then(|run| run.made.line) {
                *going.entry((line.of, line.at_most)).or_insert(0) += 1;
            }
        }
        let more = going.into_iter().find(|((_, most), count)| count > most);
        if let Some(((of, _), _)) = more.filter(|_| self.deceived.is_empty()) {
            self.clock
                .breaks("at most so many runs of a start go on", Some(of));
        }
    }

    /// Whether no node can ever take a run that waits for one, or it waits for such a run or for
    /// a lost one.
    fn waits_rightly(&self, run: &Run) -> bool {
        let can = |node: &&Node| {
            let is_meant = run.made.node == GROUP || run.made.node == node.name;
            let fits = f64::from(node.cpus) >= run.made.takes.cpus;
            is_meant && fits && !run.excluded().contains(&node.name)
        };
        if run.unplaced() && run.made.precedence.looks_at_others() {
            let all = self.head.state.experiments.iter();
            let mut all = all.flat_map(|one| &one.runs);
            if all.any(|one| one.made.id != run.made.id && one.in_doubt()) {
                return true;
            }
        }
        if run.unplaced() {
            return !self.nodes.iter().any(|node| can(&node));
        }
        let others = self.head.state.live_runs();
        let mut others = others.filter(|other| other.made.id != run.made.id);
        match run.hold_cause() {
            Some(HoldCause::AtMost) => others.any(|other| {
                let same = other.made.line.zip(run.made.line);
                same.is_some_and(|(one, own)| one.of == own.of) && other.unplaced()
            }),
            // It waits for a person, unless its pilot finished.
            Some(HoldCause::Pilot) => {
                let batch = run.made.batch;
                let pilot = batch.and_then(|one| self.head.state.experiment(one.experiment));
                let mut pilots = pilot.into_iter().flat_map(|one| &one.runs);
                !pilots.any(|one| one.made.batch == batch && one.phase() == Phase::Finished)
            }
            Some(HoldCause::Crashes(_)) => true,
            Some(HoldCause::Others) => false,
            None => run.after().is_some_and(|_| {
                let own = self.head.state.experiment(run.made.id.experiment);
                let mut earlier = own.into_iter().flat_map(|one| &one.runs);
                earlier.any(|one| one.in_doubt() || one.unplaced())
            }),
        }
    }

    /// What holds when all has come to rest.
    pub fn check_rest(&mut self) {
        if !self.head.is_up {
            return self.clock.breaks("the daemon comes back", None);
        }
        let mut broken = None;
        let experiments = self.head.state.experiments.iter();
        for run in experiments.flat_map(|one| &one.runs) {
            let id = run.made.id;
            let asked = &self.plan.experiments[id.experiment.0 as usize - 1];
            let retries = run.made.follows.as_ref().map_or(0, |one| one.retries);
            if retries > asked.retries {
                broken = Some(("no more retries than asked for".to_owned(), Some(id)));
            }
            if run.phase().is_live() && self.waits_rightly(run) {
            } else if run.phase().is_live() {
                let why = format!("what can end has ended: {:?} {:?}", run.phase(), run.why());
                broken = Some((why, Some(id)));
            } else if run.open() && !run.in_doubt() {
                let why = format!("what ended needs nothing more: {}", run.phase().word());
                broken = Some((why, Some(id)));
            }
        }
        for node in &self.nodes {
            for kept in node.ledger.values() {
                let run = self.head.state.run(kept.id);
                let is_told = !self.deceived.contains(&kept.id);
                if is_told && run.is_none_or(Run::is_closed) {
                    let why = format!("{} forgets what is closed", node.name);
                    broken = Some((why, Some(kept.id)));
                }
            }
        }
        let left = self.clock.jobs.iter().find(|job| job.is_alive);
        if let Some(job) = left {
            broken = Some(("no job is left".to_owned(), Some(job.run)));
        }
        if let Some((why, run)) = broken {
            self.clock.breaks(&why, run);
        }
    }
}
