//! What people ask for and what goes wrong, planned from one seed.

use std::sync::Arc;

use nero_format::{
    Dependency, DependsUntil, FollowUp, InStage, NodeChoice, Precedence, Retry, RetryOn, RunLock,
    SharedPart,
};
use nero_model::{ExperimentId, RunId};

use super::wire::Request;
use super::world::{Dice, Event, World, note};
use crate::facts::hold::HoldCause;
use crate::fold::run::{Dispatch, Line, Run, RunDemands, RunRecord};
use crate::place::gone;
use crate::place::start::{self, Plan as Planned, StartOptions};
use crate::source::abort;
use crate::step::input::Input;
use crate::tests::lab;

/// Most experiments of a walk, and of most walks.
pub(super) const EXPERIMENTS_MAX: u64 = 60;
const FEW_MAX: u64 = 14;

/// So many experiments, one after the other, are a stage.
pub(super) const STAGE: u64 = 4;

/// The stage of an experiment.
pub(super) fn stage(experiment: u64) -> InStage {
    let name = |number: u64| format!("s{number}");
    let own = (experiment - 1) / STAGE;
    InStage {
        name: name(own),
        before: (0..own).map(name).collect(),
    }
}

/// The one lock.
pub(super) fn run_lock(everywhere: bool) -> RunLock {
    RunLock {
        name: "lock".to_owned(),
        everywhere,
    }
}

/// The word for all nodes.
pub(super) const GROUP: &str = "lab";

/// What happens at a moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Happening {
    /// Experiments are started; `at_most`: so many of them go on at once, 0: all.
    Start {
        first: u64,
        last: u64,
        at_most: u32,
        has_pilot: bool,
    },
    Restart(u64),
    /// 0: all of them.
    Abort(u64),
    /// A person pauses the runs that wait on nodes.
    Pause,
    /// A person lets all held and paused runs go on.
    Resume,
    NodeGone(usize),
    DaemonDies,
    /// Its machine is lost for good; a new one takes over the runs of all nodes.
    HeadLost,
    /// Its machine loses what was not synced.
    HeadPower,
    /// Right before its so many-th next write.
    AgentDies(usize, u32),
    LauncherDies(usize),
    ShimDies(usize, u64),
    /// The folder of a run is deleted while its job goes on.
    FolderDeleted(usize, u64),
    Reboot(usize),
    /// The network of a node is cut; the connection shows that later.
    Cut(usize, i64),
    Reached(usize),
    DaemonBack,
    /// The connection is lost, the network is fine.
    Drop(usize),
    Full(usize, bool),
    /// The files of runs that have no start, and of those that come, are damaged.
    Damaged(usize, bool),
    Calm,
}

/// An experiment of a walk.
#[derive(Clone, Debug, Default)]
pub(super) struct ExperimentPlan {
    pub cpus: u32,
    pub priority: i32,
    pub retries: u32,
    /// The node that is asked for; `None`: any.
    pub node: Option<usize>,
    /// Whether it takes the one lock, and whether on all nodes together.
    pub lock: Option<bool>,
    /// The experiment that it waits for.
    pub needs: Option<(u64, DependsUntil)>,
    /// The experiment beside whose runs it gets no node.
    pub apart: Option<u64>,
    /// Whether it waits for the stages before its own.
    pub is_staged: bool,
    /// Halves of a card that it asks for.
    pub cards: u32,
}

/// How often what happens, in a thousand times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    /// Requests are lost or late.
    pub lost: u64,
    /// Jobs crash, all with the same code.
    pub crashes: u64,
    /// Jobs take so many times longer.
    pub slow: i64,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub seed: u64,
    /// CPUs of each node.
    pub nodes: Vec<u32>,
    pub experiments: Vec<ExperimentPlan>,
    pub happenings: Vec<(i64, Happening)>,
    pub faults_ms: i64,
    pub rates: Rates,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed);
        let nodes: Vec<u32> = (0..2 + dice.below(2))
            .map(|_| 1 + dice.below(3) as u32)
            .collect();
        let is_large = dice.chance(15);
        let count = 1 + dice.below(if is_large { EXPERIMENTS_MAX } else { FEW_MAX });
        let node_count = nodes.len() as u64;
        let most = nodes.iter().max().copied().unwrap_or(1);
        let (has_locks, has_needs) = (dice.chance(300), dice.chance(250));
        let (is_apart, is_staged) = (dice.chance(150), dice.chance(100));
        let has_cards = dice.chance(150);
        let rates = Rates {
            lost: [40, 40, 300][dice.below(3) as usize],
            crashes: [50, 250, 1000][dice.below(3) as usize],
            slow: if dice.chance(30) { 30 } else { 1 },
        };
        let asked = |number: u64| {
            let node = dice.chance(250).then(|| dice.below(node_count) as usize);
            let most = node.map_or(most, |node| nodes[node]);
            ExperimentPlan {
                cpus: 1 + dice.below(most.into()) as u32,
                priority: dice.below(3) as i32,
                retries: dice.below(3) as u32,
                node,
                lock: has_locks
                    .then(|| dice.chance(500))
                    .filter(|_| dice.chance(500)),
                needs: (has_needs && number > 0 && dice.chance(500)).then(|| {
                    let until = [DependsUntil::Finished, DependsUntil::Ended];
                    (1 + dice.below(number), until[dice.below(2) as usize])
                }),
                apart: (is_apart && number > 0).then(|| 1 + dice.below(number)),
                is_staged,
                cards: if has_cards { dice.below(3) as u32 } else { 0 },
            }
        };
        let experiments: Vec<ExperimentPlan> = (0..count).map(asked).collect();
        let faults_ms = (20_000 + dice.ms(0, 40_000)) * rates.slow;
        let at_least = if dice.chance(350) { count } else { 0 };
        let mut happenings = Vec::new();
        let mut first = 1;
        while first <= count {
            let last = (first + dice.below(6).max(at_least)).min(count);
            let at_most = if dice.chance(300) {
                1 + dice.below(2) as u32
            } else {
                0
            };
            let has_pilot = at_most == 0 && dice.chance(150);
            let start = Happening::Start {
                first,
                last,
                at_most,
                has_pilot,
            };
            happenings.push((dice.ms(0, faults_ms / 3), start));
            first = last + 1;
        }
        // Each seed has few kinds of faults, and some of them often.
        let kinds: Vec<u64> = (0..1 + dice.below(4)).map(|_| dice.below(17)).collect();
        let starts: Vec<i64> = happenings.iter().map(|(at, _)| *at).collect();
        for _ in 0..dice.below(14) {
            // Most can go wrong right behind a start.
            let at = if dice.chance(500) {
                let most_ms = [300, 3000][dice.below(2) as usize];
                starts[dice.below(starts.len() as u64) as usize] + dice.ms(0, most_ms)
            } else {
                dice.ms(100, faults_ms - 1000)
            };
            let node = dice.below(node_count) as usize;
            let experiment = 1 + dice.below(count);
            let happening = match kinds[dice.below(kinds.len() as u64) as usize] {
                0 => Happening::Restart(experiment),
                1 | 12 if dice.chance(300) => Happening::Abort(0),
                1 | 12 => Happening::Abort(experiment),
                2 => Happening::Resume,
                14 => Happening::Pause,
                15 => Happening::FolderDeleted(node, dice.below(100)),
                13 | 16 => {
                    let back = Happening::Damaged(node, false);
                    happenings.push((at + dice.ms(500, 5000), back));
                    Happening::Damaged(node, true)
                }
                3 => {
                    // A person gives up a node that does not answer, mostly.
                    if dice.chance(700) {
                        happenings.push((at, Happening::Cut(node, dice.ms(1, 60_000))));
                    }
                    Happening::NodeGone(node)
                }
                4 => Happening::DaemonDies,
                5 => Happening::HeadPower,
                6 => Happening::AgentDies(node, dice.below(6) as u32),
                7 => Happening::LauncherDies(node),
                8 => Happening::ShimDies(node, dice.below(100)),
                9 => Happening::Reboot(node),
                10 if dice.chance(500) => Happening::Drop(node),
                10 => Happening::Cut(node, dice.ms(500, 60_000)),
                _ => {
                    let ms = dice.ms(500, 20_000) * rates.slow;
                    happenings.push((at + ms, Happening::Full(node, false)));
                    Happening::Full(node, true)
                }
            };
            happenings.push((at, happening));
        }
        if dice.chance(100) {
            let start = starts[dice.below(starts.len() as u64) as usize];
            let most_ms = [300, 8000][dice.below(2) as usize];
            let at = start + dice.ms(0, most_ms) * rates.slow;
            happenings.push((at, Happening::HeadLost));
        }
        happenings.sort_by_key(|(at, _)| *at);
        Self {
            seed,
            nodes,
            experiments,
            happenings,
            faults_ms,
            rates,
        }
    }

    /// So long after the end of all faults everything has come to rest.
    pub fn rest_ms(&self) -> i64 {
        let size = 1 + self.experiments.len() as i64 / 15;
        240_000 * self.rates.slow * size
    }
}

impl World {
    pub fn person(&mut self, happening: Happening) {
        use Happening as Is;
        if !matches!(happening, Is::Calm | Is::Reached(_) | Is::Resume) {
            note!(self.clock, None, "{happening:?}");
        }
        match happening {
            Happening::Start {
                first,
                last,
                at_most,
                has_pilot,
            } => {
                let ids: Vec<u64> = (first..=last).collect();
                self.starts(&ids, StartOptions::default(), at_most, has_pilot);
            }
            Happening::Restart(id) => {
                let wanted = StartOptions {
                    restart: true,
                    ..StartOptions::default()
                };
                self.starts(&[id], wanted, 0, false);
            }
            Happening::Abort(id) => self.abort(id),
            Happening::Pause => self.pauses(false),
            Happening::Resume => self.resume(),
            Happening::NodeGone(node) => self.node_gone(node),
            Happening::DaemonDies => self.daemon_dies(false),
            Happening::HeadLost => self.head_lost(),
            Happening::HeadPower => self.daemon_dies(true),
            Happening::AgentDies(node, 0) => self.nodes[node].dies(&mut self.clock),
            Happening::AgentDies(node, writes) => self.nodes[node].dies_in = Some(writes),
            Happening::LauncherDies(node) => self.nodes[node].launcher_dies(&mut self.clock),
            Happening::ShimDies(node, nth) => self.nodes[node].shim_dies(&mut self.clock, nth),
            Happening::FolderDeleted(node, nth) => {
                self.nodes[node].folder_is_deleted(&mut self.clock, nth);
            }
            Happening::Reboot(node) => self.nodes[node].reboots(&mut self.clock),
            Happening::Cut(node, ms) => {
                self.nodes[node].is_reached = false;
                let calm_ms = 1000 + self.plan.faults_ms;
                self.nodes[node].back_ms = calm_ms.min(self.clock.now + ms);
                self.drops(node, 15_000);
                let back = Event::Happens(Happening::Reached(node));
                self.clock.after(ms, back);
            }
            Happening::DaemonBack => self.daemon_back(),
            Happening::Reached(node) => self.nodes[node].is_reached = true,
            Happening::Drop(node) => self.drops(node, 2000),
            Happening::Full(node, is_full) => self.nodes[node].is_full = is_full,
            Happening::Damaged(node, is_so) => {
                self.nodes[node].is_damaged = is_so;
                let folders = self.nodes[node].disk.values_mut();
                let unstarted = folders.filter(|folder| folder.newest() == 0);
                unstarted.for_each(|folder| folder.is_damaged |= is_so);
            }
            Happening::Calm => self.calm(),
        }
    }

    /// All faults end; people let go what is held, again and again.
    fn calm(&mut self) {
        self.clock.is_calm = true;
        note!(self.clock, None, "all faults are over");
        for node in &mut self.nodes {
            node.is_reached = true;
            (node.is_full, node.is_damaged) = (false, false);
            node.dies_in = None;
        }
        for node in 0..self.nodes.len() {
            self.try_now(node);
        }
        let pause_ms = 30_000 * self.clock.rates.slow;
        for nth in 0..self.plan.rest_ms() / pause_ms {
            let resume = Event::Happens(Happening::Resume);
            self.clock.after(1 + nth * pause_ms, resume);
        }
    }

    fn starts(&mut self, ids: &[u64], wanted: StartOptions, at_most: u32, has_pilot: bool) {
        if !self.head.takes_orders() {
            return;
        }
        let picked: Vec<ExperimentId> = ids.iter().map(|id| ExperimentId(*id)).collect();
        let plans = start::plan(&self.head.state, &picked, wanted);
        let mut batch = None;
        let (mut changes, mut going) = (Vec::new(), 0);
        for (rank, plan) in plans.iter().enumerate() {
            let Planned::Run { id, after } = plan else {
                continue;
            };
            let experiment = Arc::clone(self.head.state.experiment(id.experiment).unwrap());
            if after.is_some() {
                let cancels = abort::for_restart(&experiment, "restart", self.clock.now);
                self.commit("a person starts it again", false, true, cancels);
            }
            let experiment = self.head.state.experiment(id.experiment).unwrap();
            let after = after.filter(|_| experiment.live().next().is_some());
            let first = *batch.get_or_insert(*id);
            let token = self.clock.dice.token();
            let made = RunRecord {
                token,
                ..self.made(*id, rank as u32, first, at_most)
            };
            let needs_others = made.precedence.waits_for_others();
            let is_placed = made.node != GROUP && !made.precedence.looks_at_others();
            let node = is_placed.then(|| made.node.clone());
            let mut dispatch = if has_pilot && first != *id {
                Dispatch::behind_pilot(after)
            } else {
                Dispatch::planned(node, after)
            };
            // What waits for others takes its place in the line when they have ended.
            if at_most > 0 && (needs_others || going >= at_most) {
                dispatch = dispatch.in_line();
            }
            if needs_others {
                dispatch = dispatch.behind_others();
            }
            going += u32::from(!needs_others);
            changes.push(lab::new_run(made, dispatch));
        }
        self.commit("a person starts runs", false, true, changes);
    }

    fn made(&self, id: RunId, rank: u32, batch: RunId, at_most: u32) -> RunRecord {
        let asked = self.plan.experiments[id.experiment.0 as usize - 1].clone();
        let word = asked.node.map_or(GROUP, |node| &*self.nodes[node].name);
        let retry = (asked.retries > 0).then(|| Retry {
            on: vec![RetryOn::Crashed, RetryOn::NodeFailure],
            exit: Vec::new(),
            stderr: None,
            max: asked.retries,
            memory: 1.0,
            time: 1.0,
            after_ms: 500,
            is_handler: false,
        });
        let need = |(on, until): (u64, DependsUntil)| Dependency {
            until,
            on: on.to_string(),
        };
        let experiment = self.head.state.experiment(id.experiment).unwrap();
        RunRecord {
            fingerprint: experiment.fingerprint.to_string(),
            created_ms: self.clock.now,
            created: Some(self.tick()),
            takes: RunDemands {
                cpus: asked.cpus.into(),
                ..RunDemands::default()
            },
            batch: Some(batch),
            again: SharedPart::from(FollowUp {
                retry,
                ..FollowUp::default()
            }),
            precedence: SharedPart::from(Precedence {
                needs: asked.needs.map(need).into_iter().collect(),
                lock: asked.lock.map(run_lock),
                stage: asked.is_staged.then(|| stage(id.experiment.0)),
                place: NodeChoice {
                    apart_from: asked.apart.iter().map(u64::to_string).collect(),
                    ..NodeChoice::default()
                },
                ..Precedence::default()
            }),
            priority: asked.priority,
            rank,
            line: (at_most > 0).then_some(Line { of: batch, at_most }),
            ..lab::made(id, word)
        }
    }

    fn abort(&mut self, id: u64) {
        if !self.head.takes_orders() {
            return;
        }
        let cancel = lab::cancel("me", self.clock.now);
        let all = self.head.state.experiments.iter();
        let asked = all.filter(|one| id == 0 || one.id.0 == id);
        let live = asked
            .flat_map(|one| &one.runs)
            .filter(|run| run.phase().is_live() || run.forgotten());
        let inputs: Vec<(RunId, Input)> = live
            .map(|run| (run.made.id, Input::Cancel(cancel.clone())))
            .collect();
        self.input("a person cancels", false, true, inputs);
    }

    fn resume(&mut self) {
        let runs = self.head.state.live_runs();
        let is_held = |run: &&Run| {
            let cause = run.hold_cause();
            matches!(cause, Some(HoldCause::Pilot | HoldCause::Crashes(_)))
        };
        let held = runs.filter(is_held);
        let inputs: Vec<(RunId, Input)> =
            held.map(|run| (run.made.id, Input::HoldLifted)).collect();
        if self.head.is_up {
            self.input("a person resumes it", false, true, inputs);
            self.pauses(true);
        }
    }

    /// A person pauses runs that wait on nodes, or lets the paused ones go on.
    fn pauses(&mut self, resumes: bool) {
        for node in 0..self.nodes.len() {
            let name = &*self.nodes[node].name;
            let runs = self.head.state.live_runs();
            let runs = runs.filter(|run| run.node() == Some(name));
            let runs = runs.filter(|run| run.dispatch.paused || !resumes);
            let one = |run: &Run| Some((run.made.id, run.made.token, run.placement()?));
            let runs: Vec<_> = runs.filter_map(one).collect();
            if self.head.links[node].conn > 0 && !runs.is_empty() {
                self.paused.extend(runs.iter().map(|(run, ..)| *run));
                self.send(node, Request::Pause(runs, resumes));
            }
        }
    }

    fn node_gone(&mut self, node: usize) {
        if !self.head.takes_orders() {
            return;
        }
        let name = self.nodes[node].name.clone();
        let runs = self.head.state.active().flat_map(|one| &one.runs);
        let there = runs.filter(|run| run.node() == Some(&*name) && run.open());
        self.deceived.extend(there.map(|run| run.made.id));
        let elsewhere = |word: &str| word == GROUP;
        let now = self.clock.now;
        let (_, changes) = gone::decide(&self.head.state, &name, "me", now, &elsewhere);
        self.commit("a person says: node gone", true, true, changes);
    }
}
