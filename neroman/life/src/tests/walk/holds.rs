//! What holds after each event, and at the end of all faults.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use nero_format::DependsUntil;
use nero_model::{ExperimentId, Phase, RunId, RunToken};
use nero_node_core::Stage;

use super::cards::overlap;
use super::folder::SpecName;
use super::node::Node;
use super::people::{ExperimentPlan, GROUP, STAGE};
use super::wire::Request;
use super::world::{Clock, Due, Event, Job, World};
use crate::facts::hold::HoldCause;
use crate::fold::run::Run;
use crate::fold::state::State;
use crate::place::batch::{FIRST_ENDS, RUNS_MIN};
use crate::step::hold::may_be_held;
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
            (Some(known), _) => matches!(
                known.stage,
                Stage::Waiting | Stage::Starting { .. } | Stage::Running { .. }
            ),
            (None, Some(kept)) => !kept.is_taken_away && kept.exited.is_none(),
            (None, None) => false,
        };
        goes_on && folder.cancels == 0
    }

    /// Breaks the promise of order where a node starts a run while an earlier run of its queue
    /// waits.
    pub fn check_turn(&mut self, clock: &mut Clock, token: &RunToken, start: u32) {
        let Some(agent) = self.agent.as_ref().filter(|_| start == 1) else {
            return;
        };
        let place = |token: &RunToken| {
            let entry = agent.entries.get(token)?;
            let turn = self.disk.get(&entry.id)?.turn;
            let order = self.ledger.get(token)?.order;
            Some((Reverse(turn.priority), turn.since_ms, turn.rank, order))
        };
        let id = agent.entries.get(token).map(|entry| entry.id);
        let folder = id.and_then(|id| self.disk.get(&id));
        if folder.is_some_and(|one| one.pauses % 2 == 1 && one.cancels == 0) {
            clock.breaks("a run that its node holds does not start there", id);
        }
        let is_again = |id: RunId| self.disk.get(&id).is_some_and(|one| one.is_prepared);
        if id.is_some_and(is_again) {
            return;
        }
        // Runs that ask for no cards pass those that wait for some.
        let asks = |run: &nero_node_core::Run| run.request.count > 0;
        let has_cards = agent.core.run(token).is_some_and(asks);
        let waits = |run: &nero_node_core::Run| {
            run.stage == Stage::Waiting && !run.paused && (has_cards || !asks(run))
        };
        let mut waiting = agent.core.runs().filter(|(_, run)| waits(run));
        let own = place(token);
        if waiting.any(|(other, run)| !run.cancelled && place(other) < own) {
            clock.breaks("no run starts before one that waits before it", id);
        }
    }

    fn keeps(&self, run: &Run) -> bool {
        self.ledger.contains_key(&run.made.token)
    }
}

impl World {
    /// By node, whether a hand-over is on its way that the node would take.
    fn coming(&self, run: &Run) -> Vec<bool> {
        let token = run.made.token;
        let mut coming = vec![false; self.nodes.len()];
        if self.clock.hand_overs == 0 {
            return coming;
        }
        for event in self.clock.heap.values() {
            let (to, process, runs) = match event {
                Event::ToNode(to, _, process, Request::HandOver(runs))
                | Event::Agent(to, process, Due::HandOver(_, runs)) => (*to, *process, runs),
                _ => continue,
            };
            let node = &self.nodes[to];
            let agent = node.agent.as_ref().filter(|one| one.process == process);
            let Some(agent) = agent.filter(|_| !node.keeps(run)) else {
                continue;
            };
            let fence = agent.recalled.get(&token).copied().unwrap_or(0);
            let mut new = runs.iter().filter(|sent| sent.token == token);
            coming[to] |= new.any(|sent| !sent.is_again && sent.generation > fence);
        }
        coming
    }

    /// Judges a step of a run by the list of promises.
    pub fn judge(&mut self, before: &Run, label: &str, heard: bool, word: bool) {
        let id = before.made.id;
        let Some(after) = self.head.state.run(id) else {
            return;
        };
        let coming = self.coming(after);
        let may = |node: &&Node| node.may_start(after) || coming[node.at];
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
            there: at.map(presence),
            is_held_there: now.is_some_and(held) && ran.is_empty() && !self.paused.contains(&id),
            ran_held: false,
        });
        if let Some(promise) = promise {
            self.clock.breaks(promise, Some(id));
        }
    }

    /// What holds after each event.
    pub fn check(&mut self) {
        let mut alive: Vec<&Job> = Vec::new();
        let mut used = vec![0; self.nodes.len()];
        let mut broken = None;
        let is_told = |run: &RunId| !self.deceived.contains(run);
        let lock = |job: &Job| self.plan.experiments[job.run.experiment.0 as usize - 1].lock;
        for (at, job) in self.clock.jobs.iter().enumerate().skip(self.jobs_checked) {
            let mut earlier = self.clock.jobs[..at].iter();
            if is_told(&job.run) && earlier.any(|other| other.token == job.token) {
                broken = Some(("a run is started once", job.run));
            }
        }
        for job in self.clock.jobs.iter().filter(|job| job.is_alive) {
            // It keeps its lock.
            if job.is_lost {
                alive.push(job);
                continue;
            }
            used[job.node] += job.cpus;
            let run = self.head.state.run(job.run);
            let run = run.filter(|run| run.made.token == job.token);
            if is_told(&job.run) && run.is_some_and(Run::has_ended) {
                broken = Some(("what has ended has no job", job.run));
            }
            let is_own = |other: &&&Job| other.run.experiment == job.run.experiment;
            let own = alive.iter().find(is_own);
            if own.is_some_and(|own| is_told(&own.run) && is_told(&job.run)) {
                broken = Some(("an experiment has one live job", job.run));
            }
            let shares = |other: &&Job| {
                let both = lock(other).zip(lock(job));
                let is_same = both.is_some_and(|(one, own)| one || own || other.node == job.node);
                is_same && !is_own(&other) && is_told(&other.run)
            };
            if is_told(&job.run) && alive.iter().any(shares) {
                broken = Some(("a lock has one holder", job.run));
            }
            alive.push(job);
            if used[job.node] > self.nodes[job.node].cpus {
                broken = Some(("a node gives what it has", job.run));
            }
            let shares_card = |other: &&&Job| {
                let both = other.lock.zip(job.lock);
                other.node == job.node && both.is_some_and(|(one, own)| overlap(one, own))
            };
            if alive.iter().filter(shares_card).count() > 1 {
                broken = Some(("shares of a card have one holder", job.run));
            }
        }
        if let Some((promise, run)) = broken {
            self.clock.breaks(promise, Some(run));
        }
        self.jobs_checked = self.clock.jobs.len();
        self.check_at_most();
    }

    /// Whether the experiments that a run waits for came so far, in the words of their runs.
    fn has_what_it_needs(&self, run: &Run) -> bool {
        let asked = self.asked(run);
        let phase = |on: u64| {
            let on = self.head.state.experiment(ExperimentId(on));
            let run = on.and_then(|one| one.current());
            run.filter(|run| !run.in_doubt()).map(Run::phase)
        };
        let own = (run.made.id.experiment.0 - 1) / STAGE;
        let mut staged = 1..=if asked.is_staged { own * STAGE } else { 0 };
        let needs = asked.needs.is_none_or(|(on, until)| match until {
            DependsUntil::Finished => phase(on) == Some(Phase::Finished),
            _ => phase(on).is_some_and(Phase::is_end),
        });
        needs && staged.all(|on| phase(on) == Some(Phase::Finished))
    }

    fn asked(&self, run: &Run) -> &ExperimentPlan {
        &self.plan.experiments[run.made.id.experiment.0 as usize - 1]
    }

    /// The runs that a run gets no node beside, with their nodes in a state.
    fn apart<'a>(&self, state: &'a State, run: &Run) -> Vec<(RunId, &'a str)> {
        let of = self.asked(run).apart.map(ExperimentId);
        let runs = of.and_then(|of| state.experiment(of)).into_iter();
        let live = runs.flat_map(|one| one.live());
        live.filter_map(|run| Some((run.made.id, run.placed_on()?)))
            .collect()
    }

    /// What holds of the runs that a commit lets go on.
    pub fn check_released(&mut self, before: &State, touched: &BTreeSet<RunId>, label: &str) {
        let state = &self.head.state;
        let mut broken = None;
        for run in touched.iter().filter_map(|id| state.run(*id)) {
            let id = run.made.id;
            let waited = before
                .run(id)
                .map_or(run.made.follows.is_none(), Run::waits_for_others);
            let goes_on = run.phase().is_live() && !run.waits_for_others();
            if waited && goes_on && !self.has_what_it_needs(run) {
                broken = Some(("a run begins behind those that it needs", id));
            }
            let pilot = Some(HoldCause::Pilot);
            let was_behind = before.run(id).and_then(Run::hold_cause) == pilot;
            let is_let_go = was_behind && goes_on && run.hold_cause() != pilot;
            if is_let_go && label != "a person resumes it" && !self.has_finished_pilot(run) {
                broken = Some(("a run goes on when its pilot finished", id));
            }
            let had = before.run(id).and_then(Run::placed_on);
            let beside = self.apart(before, run);
            let beside = beside.iter().filter(|(_, on)| run.placed_on() == Some(*on));
            let mut beside = beside.filter(|one| self.apart(state, run).contains(one));
            if had != run.placed_on() && run.phase().is_live() && beside.next().is_some() {
                broken = Some(("a run gets no node beside those that it is apart from", id));
            }
            let Some(batch) = run.made.counts_in() else {
                continue;
            };
            let (ended, runs) = (state.batch(batch).ended, state.batch(batch).runs);
            if before.batch(batch).ended >= FIRST_ENDS || ended < FIRST_ENDS || runs < RUNS_MIN {
                continue;
            }
            let counted = state
                .batch_runs(batch)
                .filter(|run| run.made.counts_in().is_some());
            let (ends, others): (Vec<&Run>, Vec<&Run>) = counted.partition(|run| run.has_ended());
            let crashed = |run: &&Run| run.exit().is_some_and(|exit| exit.code == 1);
            let goes_on = |run: &&Run| may_be_held(run) && run.hold_cause().is_none();
            if ends.iter().all(crashed) && others.iter().any(goes_on) {
                broken = Some(("no run of a batch begins behind five equal crashes", id));
            }
        }
        if let Some((promise, run)) = broken {
            self.clock.breaks(promise, Some(run));
        }
    }

    fn has_finished_pilot(&self, run: &Run) -> bool {
        let batch = run.made.batch;
        let pilot = batch.and_then(|one| self.head.state.experiment(one.experiment));
        let mut pilots = pilot.into_iter().flat_map(|one| &one.runs);
        pilots.any(|one| one.made.batch == batch && one.phase() == Phase::Finished)
    }

    /// Of the runs of a start no more go on at once than was asked for.
    fn check_at_most(&mut self) {
        let mut going = std::collections::BTreeMap::new();
        let jobs = self.clock.jobs.iter();
        for job in jobs.filter(|job| job.is_alive && !job.is_lost) {
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
            if all.any(|one| one.made.id != run.made.id && one.in_doubt())
                || !self.apart(&self.head.state, run).is_empty()
            {
                return true;
            }
        }
        if run.unplaced() {
            return !self.nodes.iter().any(|node| can(&node));
        }
        let others = self.head.state.live_runs();
        let others = others.filter(|other| other.made.id != run.made.id);
        match run.hold_cause() {
            Some(HoldCause::AtMost) => {
                let of = |run: &Run| run.made.line.map(|line| line.of);
                let goes_on = |other: &&Run| of(other) == of(run) && other.hold_cause().is_none();
                let most = run.made.line.map_or(0, |line| line.at_most as usize);
                others.filter(goes_on).count() >= most
            }
            // It waits for a person, unless its pilot finished.
            Some(HoldCause::Pilot) => !self.has_finished_pilot(run),
            Some(HoldCause::Crashes(_)) => true,
            Some(HoldCause::Others) => !self.has_what_it_needs(run),
            None => run.after().is_some_and(|_| {
                let own = self.head.state.experiment(run.made.id.experiment);
                let mut earlier = own.into_iter().flat_map(|one| &one.runs);
                earlier.any(|one| {
                    one.made.id < run.made.id && (one.in_doubt() || one.phase().is_live())
                })
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
            let retries = run.made.follows.as_ref().map_or(0, |one| one.retries);
            if retries > self.asked(run).retries {
                broken = Some(("no more retries than asked for".to_owned(), Some(id)));
            }
            if run.phase().is_live() && self.waits_rightly(run) {
            } else if run.phase().is_live() {
                let why = format!("what can end has ended: {:?} {:?}", run.phase(), run.why());
                broken = Some((why, Some(id)));
            } else if run.open() && !run.in_doubt() {
                let why = format!("what ended needs nothing more: {}", run.phase().as_str());
                broken = Some((why, Some(id)));
            }
        }
        for node in &self.nodes {
            for (id, folder) in &node.disk {
                let known = self.head.state.run(*id).map(|run| run.made.token);
                if folder.spec == SpecName::Spec && known != Some(folder.token) {
                    let why = format!("{} has no run that is known nowhere", node.name);
                    broken = Some((why, Some(*id)));
                }
            }
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
