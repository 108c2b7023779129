//! The course of a chaos: faults and their ends, then peace, then the check.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::check;
use super::client::{Answer, Client};
use super::clock::WallClock;
use super::fault::{Mend, Undo};
use super::history::History;
use super::plan::{self, Fate, Planned};
use super::random::Random;
use super::step::{self, Reading, Scope, Step};
use super::world::World;
use crate::cluster::Scheduler;

/// Pause between two looks at due work.
const LOOK: Duration = Duration::from_millis(10);

/// Limit of commands at a time; more would only wait for each other.
const CLIENTS_MAX: usize = 8;

/// Settings of a chaos.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of everything random.
    pub seed: u64,
    /// Time for which faults happen.
    pub duration: Duration,
    /// How many hosts are nodes, beside `local`.
    pub hosts: usize,
    /// The scheduler that starts the runs of `local`.
    pub scheduler: Option<Scheduler>,
    /// The runtime of containers that executes all runs; empty: none.
    pub containers: String,
    /// Whether clocks are set, calls held, shims stopped for good, supervisors killed together and
    /// inodes taken, too.
    pub harsh: bool,
}

/// Result of a chaos.
#[derive(Debug)]
pub struct Outcome {
    /// One line of counts.
    pub summary: String,
    /// Broken promises; empty when there are none.
    pub broken: Vec<String>,
    /// Folder with all files, kept when a promise was broken.
    pub kept: Option<PathBuf>,
}

/// Purpose of a command.
#[derive(Debug)]
pub(super) enum Why {
    /// To start the experiments from here up to there.
    Start(usize, usize),
    /// To start this one anew.
    Restart(usize),
    /// To read what this one prints until it ends.
    Follow(usize),
    /// To see the states of all.
    Status,
    /// To let all runs go on that are paused.
    Resume,
    /// For nothing that has to be remembered.
    Other,
}

/// A running chaos.
#[derive(Debug)]
pub struct Chaos {
    options: Options,
    pub(super) world: World,
    pub(super) history: History,
    pub(super) planned: Vec<Planned>,
    pub(super) broken: Vec<String>,
    /// Hosts that crashed.
    pub(super) crashed: BTreeSet<String>,
    /// Nodes where shims and launchers were killed together.
    pub(super) unsupervised: BTreeSet<String>,
    /// Faults of the cluster after which a run may start once more.
    pub(super) reruns: usize,
    /// Runs of which something that belongs to their container was killed.
    pub(super) hurt: BTreeSet<String>,
    /// How often the runtime of containers was killed.
    pub(super) lost_daemons: usize,
    /// Number of agents in allocations that were killed.
    pub(super) dead_tasks: usize,
    /// Runs whose jobs lived when the controller died: its state may be from before their start.
    pub(super) unsaved: BTreeSet<String>,
    /// How often rules over peers fired.
    pub(super) compared: u64,
    /// When hosts of the cluster were told to take jobs again.
    pub(super) resumed: Option<Instant>,
    /// When paused runs were last told to go on.
    pub(super) resumed_runs: Instant,
    /// Processes that delay system calls.
    pub(super) holders: Vec<Child>,
    pub(super) clock: Option<WallClock>,
    /// Complete output of `logs --follow`, with its experiment.
    pub(super) followed: Vec<(usize, Vec<u8>)>,
    /// Ends of runs that a reply has shown.
    pub(super) ends: BTreeMap<String, String>,
    clients: Vec<Client<Why>>,
    pub(super) undo: Vec<Undo>,
    commands: usize,
    starts: usize,
    pub(super) faults: BTreeMap<String, usize>,
    pub(super) states: BTreeMap<String, usize>,
}

impl Chaos {
    /// Brings everything up.
    ///
    /// # Errors
    /// When a part of the world cannot be made.
    pub fn begin(options: Options) -> std::io::Result<Self> {
        let clock = if options.harsh {
            WallClock::make()?
        } else {
            None
        };
        let world = World::make(&options)?;
        let history = History::begin(&world.home.path().join("history"))?;
        fs::create_dir(world.home.path().join("said"))?;
        Ok(Self {
            options,
            world,
            history,
            planned: Vec::new(),
            broken: Vec::new(),
            crashed: BTreeSet::new(),
            unsupervised: BTreeSet::new(),
            reruns: 0,
            hurt: BTreeSet::new(),
            lost_daemons: 0,
            dead_tasks: 0,
            unsaved: BTreeSet::new(),
            compared: 0,
            resumed: None,
            resumed_runs: Instant::now(),
            holders: Vec::new(),
            clock,
            followed: Vec::new(),
            ends: BTreeMap::new(),
            clients: Vec::new(),
            undo: Vec::new(),
            commands: 0,
            starts: 0,
            faults: BTreeMap::new(),
            states: BTreeMap::new(),
        })
    }

    /// Lets faults happen, then checks the result.
    pub fn run(mut self) -> Outcome {
        let mut random = Random::new(self.options.seed);
        let contained = self.world.containers.is_some();
        let scope = Scope {
            hosts: self.options.hosts,
            // A job that finds no room for its first record ends, and a person is asked; a client
            // of a container that finds none ends before its job.
            small_home: self.world.small_home() && self.options.scheduler.is_none() && !contained,
            isolated: crate::hosts::isolates(),
            harsh: self.options.harsh,
            scheduler: self.options.scheduler.is_some(),
            containers: contained,
        };
        // Of their own, so that a seed keeps its steps.
        let mut pauses = Random::new(!self.options.seed);
        let mut next_at = Instant::now();
        let (_, mut step) = step::next(&mut random, scope);
        while self.history.elapsed() < self.options.duration && self.broken.is_empty() {
            self.look_after();
            if Instant::now() >= next_at {
                self.act(&step);
                let (pick, ms) = (pauses.bits(), pauses.between(100, 4000));
                if pauses.percent(12) && self.options.scheduler.is_none() {
                    self.touch_not(pick, "pause");
                    self.later(ms, Mend::Resume);
                }
                let (pause_ms, next) = step::next(&mut random, scope);
                next_at = Instant::now() + Duration::from_millis(pause_ms);
                step = next;
            }
            thread::sleep(LOOK);
        }
        self.peace();
        check::all(&mut self);
        self.outcome()
    }

    fn outcome(mut self) -> Outcome {
        let summary = format!(
            "{} experiments, {} commands in {:.0} s; runs: {}; moved to a node with room: {}; fired over peers: {}; faults: {}",
            self.planned.len(),
            self.commands,
            self.history.elapsed().as_secs_f64(),
            counts(&self.states),
            self.world.home.count_logged(RECALLED),
            self.compared,
            counts(&self.faults),
        );
        self.history.add(&summary);
        for broken in &self.broken {
            self.history.add(format!("BROKEN {broken}"));
        }
        let kept = (!self.broken.is_empty()).then(|| self.world.keep());
        Outcome {
            summary,
            broken: std::mem::take(&mut self.broken),
            kept,
        }
    }

    /// Collects replies and ends faults whose time is over.
    fn look_after(&mut self) {
        for client in std::mem::take(&mut self.clients) {
            match client.look() {
                Ok(Err(running)) => self.clients.push(running),
                Ok(Ok(answer)) => self.take(&answer),
                Err(late) => self.broken.push(late),
            }
        }
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.undo)
            .into_iter()
            .partition(|undo| undo.at <= now);
        self.undo = later;
        for undo in due {
            self.mend(undo.what);
        }
        self.watch_containers();
    }

    fn take(&mut self, answer: &Answer<Why>) {
        let said = answer.err.lines().next().unwrap_or_default();
        self.history.add(format!(
            "answer {:?} after {:.1} s: {} | {said}",
            answer.code,
            answer.took.as_secs_f64(),
            answer.words.join(" ")
        ));
        if answer.code == Some(70) || answer.err.contains("panicked") {
            let words = answer.words.join(" ");
            self.broken.push(format!("neroman {words}: {}", answer.err));
        }
        let sure = answer.code == Some(0);
        match answer.why {
            Why::Start(from, to) => {
                for planned in &mut self.planned[from..to] {
                    planned.unsure += usize::from(!sure);
                }
                self.told(&answer.json());
            }
            Why::Restart(which) => {
                self.planned[which].unsure += usize::from(!sure);
                self.told(&answer.json());
            }
            Why::Follow(which) if sure => self.followed.push((which, answer.out.clone())),
            Why::Status if sure => self.seen_to_end(&answer.json()),
            // Its node may have been out of reach, or the command was killed.
            Why::Resume if has_failed(&answer.json()) => self.later(5000, Mend::Resume),
            Why::Follow(_) | Why::Status | Why::Resume | Why::Other => {}
        }
    }

    /// Remembers the ends of runs in replies: an end never changes.
    fn seen_to_end(&mut self, reply: &Value) {
        for one in reply["experiments"].as_array().into_iter().flatten() {
            let phase = one["phase"].as_str().unwrap_or_default();
            if let Some(run) = one["run"].as_str()
                && ["finished", "crashed", "aborted", "timeout"].contains(&phase)
            {
                let known = self
                    .ends
                    .entry(run.to_owned())
                    .or_insert_with(|| phase.to_owned());
                if known != phase {
                    self.broken
                        .push(format!("{run} was {known} and is {phase}"));
                }
            }
        }
    }

    /// Remembers the runs that a reply named.
    fn told(&mut self, reply: &Value) {
        for one in reply["experiments"].as_array().into_iter().flatten() {
            let Some(run) = one["run"].as_str().filter(|_| one["skipped"].is_null()) else {
                continue;
            };
            let planned = self
                .planned
                .iter_mut()
                .find(|planned| one["name"] == *planned.name);
            if let Some(planned) = planned {
                self.history.add(format!("told {run} {}", planned.name));
                planned.told.push(run.to_owned());
            }
        }
    }

    pub(super) fn command(&mut self, words: &[&str], why: Why) {
        let command = self.world.home.command(words);
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        self.history.add(format!("neroman {}", words.join(" ")));
        let folder = self.world.home.path().join("said");
        self.commands += 1;
        let patience = self.agree() + Duration::from_secs(30);
        match Client::start(command, &folder, self.commands, words, why, patience) {
            Ok(client) => self.clients.push(client),
            Err(error) => self
                .broken
                .push(format!("neroman cannot be started: {error}")),
        }
    }

    fn act(&mut self, step: &Step) {
        self.history.add(format!("{step:?}"));
        match step {
            Step::Start { seed, count } => self.start(*seed, *count),
            Step::Abort { pick } => self.touch(*pick, &["abort"], &[]),
            Step::Rule { pick } => self.touch(*pick, &["rule", "add"], &["abort: loss >= 0"]),
            Step::Restart { pick } => self.restart(*pick),
            Step::Read { pick, which } => self.read(*pick, *which),
            Step::KillClient => {
                if let Some(client) = self.clients.first_mut() {
                    client.kill();
                }
            }
            Step::Kill { place, part, pick } => self.kill(*place, *part, *pick),
            Step::Freeze {
                place,
                part,
                pick,
                ms,
            } => self.freeze(*place, *part, *pick, *ms),
            Step::StopDaemon => self.command(&["daemon", "stop"], Why::Other),
            Step::Upgrade => {
                self.command(&["daemon", "stop"], Why::Other);
                let build = self.world.upgrade();
                self.history.add(format!("build {build}"));
            }
            Step::FillHome { ms } => self.fill_home(*ms),
            Step::KillSupervisors { place } => {
                let all = self.world.places();
                self.kill_supervisors(&all[(*place % all.len() as u64) as usize]);
            }
            Step::HoldCall {
                place,
                part,
                pick,
                call,
                ms,
                kill,
            } => {
                let held = self.hold_call(*place, *part, *pick, call, *ms);
                if let (Some(place), true) = (held, *kill) {
                    self.later(*ms / 2, Mend::KillSupervisors(place));
                }
            }
            Step::StopShim { place, pick } => self.stop_shim(*place, *pick),
            Step::FillInodes { ms } => self.fill_inodes(*ms),
            Step::SetClock { offset_s } => {
                self.set_clock(*offset_s);
                // No run has taken so long, whatever a clock shows.
                self.command(&["abort", "runtime > 6h", "--yes", "--json"], Why::Other);
            }
            Step::Host { host, fault } => self.break_host(*host, *fault),
            Step::Cluster { pick, fault } => self.break_cluster(*pick, *fault),
            Step::Container { pick, fault } => self.break_container(*pick, *fault),
        }
    }

    fn start(&mut self, seed: u64, count: u64) {
        if self.clients.len() >= CLIENTS_MAX {
            return;
        }
        let collection = format!("c{}", self.commands);
        let folder = self.world.home.path().join("x").join(&collection);
        let from = self.planned.len();
        let jobs = self.world.jobs();
        // A container takes most of a second to begin.
        let count = match self.world.containers {
            Some(_) => 1 + count / 3,
            None => count,
        };
        let written = plan::write(&folder, &collection, seed, count, &jobs);
        match written {
            Ok(all) => self.planned.extend(all),
            Err(error) => return self.broken.push(format!("{}: {error}", folder.display())),
        }
        // Not drawn, so that a seed keeps its steps.
        self.world.regroup(self.starts % 3 == 2);
        self.starts += 1;
        let path = folder.display().to_string();
        let to = self.planned.len();
        self.command(&["start", &path, "--json"], Why::Start(from, to));
    }

    /// Sends a command that may end an experiment's run early.
    fn touch(&mut self, pick: u64, before: &[&str], after: &[&str]) {
        let Some(which) = self.one(pick) else { return };
        self.planned[which].touched = true;
        let name = self.planned[which].name.clone();
        let words = [before, &[name.as_str()], after, &["--json"]].concat();
        self.command(&words, Why::Other);
    }

    /// Sends a command that does not end an experiment's run.
    fn touch_not(&mut self, pick: u64, verb: &str) {
        let Some(which) = self.one(pick) else { return };
        self.happened(verb, "");
        let name = self.planned[which].name.clone();
        self.command(&[verb, &name, "--yes", "--json"], Why::Other);
    }

    fn restart(&mut self, pick: u64) {
        let Some(which) = self.one(pick) else { return };
        self.planned[which].touched = true;
        let name = self.planned[which].name.clone();
        self.command(&["restart", &name, "--yes", "--json"], Why::Restart(which));
    }

    fn read(&mut self, pick: u64, which: Reading) {
        if self.clients.len() >= CLIENTS_MAX {
            return;
        }
        let Some(one) = self.one(pick) else { return };
        let name = self.planned[one].name.clone();
        match which {
            Reading::Status => self.command(&["status", "all", "--json"], Why::Status),
            Reading::Nodes => self.command(&["node", "list", "--json"], Why::Other),
            Reading::Fetch => self.command(&["fetch", &name], Why::Other),
            Reading::Metrics => self.command(&["metrics", &name, "--json"], Why::Other),
            // Neither returns while the run lives, which may be for ever.
            Reading::Follow | Reading::Wait if self.planned[one].fate == Fate::Person => {}
            Reading::Follow => self.command(&["logs", "--follow", &name], Why::Follow(one)),
            Reading::Wait => self.command(&["wait", &name], Why::Other),
        }
    }

    /// One of the last experiments, as those may be live.
    fn one(&self, pick: u64) -> Option<usize> {
        let count = self.planned.len();
        let recent = count.min(30) as u64;
        (count > 0).then(|| count - 1 - (pick % recent) as usize)
    }

    /// Ends all faults, lets the remaining runs go on, and waits for their ends.
    fn peace(&mut self) {
        self.history.add("peace");
        for undo in std::mem::take(&mut self.undo) {
            self.mend(undo.what);
        }
        for mut holder in std::mem::take(&mut self.holders) {
            // Its own time limit ends it.
            let _ = holder.wait();
        }
        self.world.regroup(true);
        // A client may wait for a run that is queued behind these.
        self.abort_held();
        while !self.clients.is_empty() {
            self.resume_paused();
            self.look_after();
            self.resume_cluster();
            thread::sleep(LOOK);
        }
    }
}

/// Whether there was no reply, or a run could not be reached.
fn has_failed(reply: &Value) -> bool {
    let mut each = reply["experiments"].as_array().into_iter().flatten();
    reply.is_null() || each.any(|one| one["outcome"] == "failed")
}

/// What the daemon logs for each run that goes to a node with room.
const RECALLED: &str = "recalled: another node has room";

fn counts(all: &BTreeMap<String, usize>) -> String {
    let each: Vec<String> = all
        .iter()
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    each.join(", ")
}
