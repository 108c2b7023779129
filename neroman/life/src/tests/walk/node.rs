//! A node: its disk, its machine and its neromum. The decisions are those of `nero-node-core`;
//! what stands here is the part of `neromum/node/src/agent` that reads, writes and answers.

use std::collections::{BTreeMap, BTreeSet};

use nero_model::{RunId, RunToken};
use nero_node_core::capacity::{Capacity, Needs};
use nero_node_core::cards::Share;
use nero_node_core::decide::{Decision, TrackingState};
use nero_node_core::facts::Facts;
use nero_node_core::{Core, Stage};

use super::cards::{Lock, request};
use super::folder::{Folder, Remains, SpecName};
use super::wire::Item;
use super::world::{Clock, DriverDue, Due, Event, News, note};
use crate::step::report::{Report, ReportedStage};
use crate::tests::reach::node::Rec;

/// Why a run is given back.
const DAMAGED: &str = "its files are damaged";

/// The process died at a write.
#[derive(Debug)]
pub(super) struct Died;

pub(super) type Lived<T = ()> = Result<T, Died>;

/// A run in the ledger.
#[derive(Clone, Debug)]
pub(super) struct LedgerEntry {
    pub id: RunId,
    pub order: u64,
    pub cancels: u32,
    pub is_taken_away: bool,
    pub exited: Option<u32>,
    /// A start, and its shares of cards.
    pub cards: Option<(u32, Vec<Share>)>,
}

/// A shim of a start on the machine. A start may have several: one of them makes its claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shim {
    pub id: RunId,
    pub start: u32,
    pub has_claim: bool,
    pub is_alive: bool,
    pub is_job_alive: bool,
    pub is_stopping: bool,
    /// The launcher that looks after it.
    pub launcher: u32,
    /// Its place among the jobs of the world.
    pub job: Option<usize>,
    pub lock: Option<Lock>,
}

#[derive(Debug, Default)]
pub(super) struct Node {
    pub at: usize,
    pub name: String,
    pub cpus: u32,
    pub is_reached: bool,
    /// When it is reached again.
    pub back_ms: i64,
    pub is_full: bool,
    /// Whether the files of runs that come are damaged.
    pub is_damaged: bool,
    pub boot: u32,
    pub disk: BTreeMap<RunId, Folder>,
    pub ledger: BTreeMap<RunToken, LedgerEntry>,
    pub next_order: u64,
    pub agent: Option<Agent>,
    /// The first connection of its owner.
    pub first_conn: u32,
    pub processes: u32,
    pub launcher: Option<u32>,
    pub launchers: u32,
    /// By their numbers, which no other shim gets again.
    pub shims: BTreeMap<u32, Shim>,
    pub next_shim: u32,
    /// The process dies at so many writes from now.
    pub dies_in: Option<u32>,
}

/// The memory of a neromum.
#[derive(Debug)]
pub(super) struct Agent {
    pub process: u32,
    pub core: Core,
    pub entries: BTreeMap<RunToken, Entry>,
    /// Runs that are kept out, up to a generation.
    pub recalled: BTreeMap<RunToken, u32>,
    /// The newest connection.
    pub conn: u32,
    pub link: Option<u32>,
    /// Whether a look at the cards is due.
    pub looks_at_cards: bool,
    pub follower: Option<Follower>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub id: RunId,
    pub generation: u32,
    pub incarnation: u32,
    pub facts: Facts,
    pub is_tracked: bool,
    pub is_launched: bool,
    pub is_recalled: bool,
    pub is_fresh: bool,
    pub version: u32,
}

impl Entry {
    pub fn new(id: RunId) -> Self {
        Self {
            id,
            generation: 0,
            incarnation: 0,
            facts: Facts::default(),
            is_tracked: false,
            is_launched: false,
            is_recalled: false,
            is_fresh: false,
            version: 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct Follower {
    pub conn: u32,
    pub told: BTreeMap<RunToken, Told>,
    pub dirty: BTreeSet<RunToken>,
    pub items: Vec<Item>,
    pub last_ms: i64,
}

#[derive(Debug, Default)]
pub(super) struct Told {
    pub records: usize,
    pub version: Option<u32>,
}

impl Node {
    pub fn new(at: usize, cpus: u32) -> Self {
        Self {
            at,
            name: format!("n{at}"),
            cpus,
            is_reached: true,
            boot: 1,
            next_order: 1,
            ..Self::default()
        }
    }

    /// A write of neromum: a kill may come right before it.
    pub fn write(&mut self) -> Lived {
        match &mut self.dies_in {
            Some(0) => {
                self.dies_in = None;
                Err(Died)
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub fn is_cancelled(&self, token: &RunToken) -> bool {
        self.ledger.get(token).is_some_and(|kept| kept.cancels > 0)
    }

    /// Changes what the ledger has of a run.
    pub fn rewrite(&mut self, token: &RunToken, change: impl FnOnce(&mut LedgerEntry)) -> Lived {
        self.write()?;
        self.ledger.get_mut(token).map(change);
        Ok(())
    }

    /// Lets something of this neromum be due after so many milliseconds.
    pub fn later(&mut self, clock: &mut Clock, ms: i64, due: Due) {
        let event = Event::Agent(self.at, self.agent().process, due);
        clock.after(ms, event);
    }

    pub fn agent(&mut self) -> &mut Agent {
        self.agent.as_mut().expect("a neromum is at work")
    }

    /// What the neromum that is at work knows of a run.
    pub fn entry(&mut self, token: &RunToken) -> Option<&mut Entry> {
        self.agent.as_mut()?.entries.get_mut(token)
    }

    /// Whether this neromum is at work.
    pub fn is_process(&self, process: u32) -> bool {
        let own = self.agent.as_ref().map(|one| one.process);
        own == Some(process)
    }

    pub fn folder(&mut self, id: RunId) -> Option<&mut Folder> {
        self.disk.get_mut(&id)
    }

    /// neromum ends; its connections show that soon.
    pub fn dies(&mut self, clock: &mut Clock) {
        let Some(agent) = self.agent.take() else {
            return;
        };
        self.dies_in = None;
        note!(clock, None, "{}: its neromum is killed", self.name);
        clock.soon(Event::Driver(self.at, agent.conn, DriverDue::Lost));
    }

    pub fn lives(&mut self, clock: &mut Clock, lived: Lived) {
        match lived {
            Ok(()) => self.turn_ends(clock),
            Err(Died) => self.dies(clock),
        }
    }

    /// What every turn of the agent ends with.
    pub fn turn_ends(&mut self, clock: &mut Clock) {
        if self.agent.is_none() {
            return;
        }
        match self.carry_out(clock) {
            Ok(()) => self.pump(clock),
            Err(Died) => self.dies(clock),
        }
    }

    /// A dialler starts neromum where none is.
    pub fn wakes(&mut self, clock: &mut Clock) {
        if self.agent.is_some() {
            return;
        }
        self.processes += 1;
        let process = self.processes;
        self.agent = Some(Agent {
            process,
            core: Core::new(Capacity::new(self.cpus.into(), None)),
            entries: BTreeMap::new(),
            recalled: BTreeMap::new(),
            conn: 0,
            link: None,
            looks_at_cards: false,
            follower: None,
        });
        self.look_at_cards();
        let mut runs: Vec<(RunToken, LedgerEntry)> =
            self.ledger.iter().map(|(t, k)| (*t, k.clone())).collect();
        runs.sort_by_key(|(_, kept)| kept.order);
        let restored = runs.into_iter().try_for_each(|(token, kept)| {
            let began = kept.exited.is_some() || kept.is_taken_away || kept.cancels > 0;
            if !began && self.left(kept.id) == Remains::Nothing {
                return self.give_back(clock, token, kept.id);
            }
            self.restore_run(clock, token, &kept)
        });
        self.later(clock, 50, Due::Launcher);
        self.lives(clock, restored);
    }

    pub fn left(&self, id: RunId) -> Remains {
        let folder = self.disk.get(&id);
        folder.map_or(Remains::NoCut, |folder| folder.left_by_a_cut(self.boot))
    }

    /// Leaves it to neroman whether a run of an earlier boot is started.
    pub fn give_back(&mut self, clock: &mut Clock, token: RunToken, id: RunId) -> Lived {
        note!(clock, Some(id), "{}: given back", self.name);
        let generation = self.disk.get(&id).map_or(0, |folder| folder.generation);
        self.write()?;
        self.ledger.remove(&token);
        self.keep_out(token, generation);
        self.write()?;
        self.disk.remove(&id);
        Ok(())
    }

    /// Gives back an accepted run that has damaged files, so that they are sent again; false if
    /// it may have begun.
    pub fn gives_back(&mut self, clock: &mut Clock, token: RunToken, id: RunId) -> Lived<bool> {
        let Some(folder) = self.disk.get(&id) else {
            return Ok(false);
        };
        let (generation, has_start) = (folder.generation, folder.newest() > 0);
        let was_cancelled = self.is_cancelled(&token);
        let agent = self.agent();
        let is_cancelled = agent.core.run(&token).is_none_or(|run| run.cancelled);
        let entry = &agent.entries[&token];
        let may_have_begun = entry.is_launched || entry.incarnation > 0 || has_start;
        if is_cancelled || was_cancelled || may_have_begun {
            return Ok(false);
        }
        self.give_back(clock, token, id)?;
        let core = &mut self.agent().core;
        core.not_prepared(token, DAMAGED, false);
        core.closed(token);
        self.drop_entry(&token);
        self.send_unknown(id, token, generation, DAMAGED);
        Ok(true)
    }

    pub fn restore_run(&mut self, clock: &mut Clock, token: RunToken, kept: &LedgerEntry) -> Lived {
        let id = kept.id;
        let mut entry = Entry::new(id);
        let folder = self.disk.get(&id);
        let was_recalled = folder.is_some_and(|folder| folder.spec == SpecName::Recalled);
        if kept.is_taken_away || was_recalled {
            entry.is_recalled = was_recalled;
            let agent = self.agent();
            agent.entries.insert(token, entry);
            agent.core.restore_taken_away(token, id, kept.order, "");
            return Ok(());
        }
        let Some(folder) = folder.cloned() else {
            clock.breaks("a run of the ledger has its folder", Some(id));
            return Ok(());
        };
        entry.generation = folder.generation;
        let newest = folder.newest();
        let facts = folder.facts(newest);
        entry.incarnation = newest;
        entry.facts = facts;
        let has_start = newest > 1 || facts.claimed;
        let start = if has_start { newest } else { 0 };
        let is_paused = folder.pauses % 2 == 1;
        let agent = self.agent();
        agent.entries.insert(token, entry);
        if kept.cancels > 0 && start == 0 {
            agent.core.restore_taken_away(token, id, kept.order, "");
            return Ok(());
        }
        let needs = Needs::of(folder.cpus.into(), 0);
        agent.core.restore(token, id, kept.order, needs, start);
        let shares = kept.cards.clone().filter(|(of, _)| *of == start);
        let shares = shares.map(|(_, shares)| shares).unwrap_or_default();
        agent.core.set_cards(token, request(folder.cards), shares);
        agent.core.set_turn(token, folder.turn);
        if kept.cancels > 0 {
            agent.core.restore_cancelled(token);
            self.ring(clock, id);
        }
        let agent = self.agent();
        if kept.exited.is_some() || facts.ended() {
            agent.core.found(token, start.max(1), Decision::Ended);
        }
        if folder.pauses > 0 {
            agent.core.set_paused(token, is_paused);
        }
        if start == 0 && folder.left_by_a_cut(self.boot) == Remains::Something {
            self.write()?;
            if let Some(folder) = self.folder(id) {
                folder.record(1, Rec::Rebooted, None);
            }
            self.look(token, 1);
            self.agent().core.found(token, 1, Decision::Ended);
        }
        Ok(())
    }

    /// Something of this neromum is due.
    pub fn due(&mut self, clock: &mut Clock, process: u32, due: Due) {
        if !self.is_process(process) {
            return;
        }
        let done = match due {
            Due::Launcher => self.launcher_up(clock),
            Due::HandOver(conn, runs) => return self.places(clock, conn, runs),
            Due::Prepared(token, start) => self.prepared(clock, token, start),
            Due::Settled(token) => {
                self.agent().core.settled(token);
                Ok(())
            }
            Due::Cards => {
                self.agent().looks_at_cards = false;
                Ok(())
            }
            Due::Release => {
                self.agent().core.release();
                Ok(())
            }
        };
        self.lives(clock, done);
    }

    pub fn launcher_up(&mut self, clock: &mut Clock) -> Lived {
        if self.launcher.is_none() {
            self.launchers += 1;
            self.launcher = Some(self.launchers);
        }
        let launcher = self.launcher.unwrap_or_default();
        let tracked = self.shims.iter();
        let tracked = tracked.filter(|(_, shim)| shim.is_alive && shim.launcher == launcher);
        let tracked: Vec<RunId> = tracked.map(|(_, shim)| shim.id).collect();
        let agent = self.agent();
        agent.link = Some(launcher);
        agent.core.release();
        for entry in agent.entries.values_mut() {
            entry.is_tracked = tracked.contains(&entry.id);
        }
        let started = |stage: &Stage| match stage {
            Stage::Starting { launched, .. } => *launched,
            other => matches!(other, Stage::Running { .. } | Stage::Held { .. }),
        };
        let open = agent.entries.iter().filter(|(token, entry)| {
            let run = agent.core.run(token);
            let follows = tracked.contains(&entry.id);
            follows || run.is_some_and(|run| started(&run.stage))
        });
        let open: Vec<(RunToken, u32)> = open
            .map(|(token, entry)| (*token, entry.incarnation.max(1)))
            .collect();
        for (token, start) in open {
            self.look_and_decide(clock, token, start, None)?;
        }
        Ok(())
    }

    /// The launcher of this machine dies: its starts go on.
    pub fn launcher_dies(&mut self, clock: &mut Clock) {
        note!(clock, None, "{}: its launcher is killed", self.name);
        self.launcher = None;
        let Some(agent) = &mut self.agent else { return };
        agent.link = None;
        for entry in agent.entries.values_mut() {
            entry.is_tracked = false;
        }
        self.later(clock, 500, Due::Launcher);
    }

    /// A launcher's news of a start.
    pub fn told(
        &mut self,
        clock: &mut Clock,
        launcher: u32,
        token: RunToken,
        start: u32,
        news: News,
    ) {
        let Some(agent) = &mut self.agent else { return };
        let Some(entry) = agent.entries.get_mut(&token) else {
            return;
        };
        if agent.link != Some(launcher) || start < entry.incarnation {
            return;
        }
        entry.is_tracked = news == News::Begun;
        let id = entry.id;
        if news == News::Begun && self.is_cancelled(&token) {
            self.ring(clock, id);
        }
        if news == News::Locked {
            self.look(token, start);
            if !self.agent().entries[&token].facts.claimed {
                self.look_at_cards();
                self.agent().core.cards_taken(token);
                return self.turn_ends(clock);
            }
        }
        let tracking = match news {
            News::Ended | News::NoClaim | News::Locked => Some(TrackingState::Over),
            News::Begun | News::Superseded => None,
        };
        let done = self.look_and_decide(clock, token, start, tracking);
        self.lives(clock, done);
    }

    pub fn report(&mut self, token: RunToken) {
        if let Some(entry) = self.entry(&token) {
            entry.version += 1;
        }
        self.mark(token);
    }

    pub fn mark(&mut self, token: RunToken) {
        if let Some(follower) = self.agent.as_mut().and_then(|one| one.follower.as_mut()) {
            follower.dirty.insert(token);
        }
    }

    /// Sends what the follower lacks.
    pub fn pump(&mut self, clock: &mut Clock) {
        let (at, agent) = (self.at, self.agent.as_mut());
        let Some(agent) = agent else { return };
        let Some(follower) = &mut agent.follower else {
            return;
        };
        for token in std::mem::take(&mut follower.dirty) {
            let (Some(entry), Some(run)) = (agent.entries.get(&token), agent.core.run(&token))
            else {
                continue;
            };
            let told = follower.told.entry(token).or_default();
            let records = self.disk.get(&entry.id).map(|folder| &folder.records);
            let records = records.filter(|_| !entry.is_recalled);
            if let Some(records) = records.filter(|all| told.records < all.len()) {
                let new = records[told.records..].to_vec();
                follower.items.push(Item::Part(entry.id, told.records, new));
                told.records = records.len();
            }
            if told.version == Some(entry.version) {
                continue;
            }
            let report = Report {
                standing: standing(&run.stage),
                why: run.why.clone(),
                needs_person: run.needs_person,
                paused: run.paused,
                generation: entry.generation,
                ..Report::unknown()
            };
            told.version = Some(entry.version);
            follower.items.push(Item::State(entry.id, token, report));
        }
        if follower.items.is_empty() {
            return;
        }
        let items = std::mem::take(&mut follower.items);
        let is_late = clock.fails(clock.rates.lost);
        let most = if is_late { 5000 } else { 40 };
        let ms = clock.dice.ms(1, most);
        follower.last_ms = follower.last_ms.max(clock.now + ms);
        let ms = follower.last_ms - clock.now;
        let due = DriverDue::Stream(items);
        clock.after(ms, Event::Driver(at, follower.conn, due));
    }

    pub fn send_unknown(&mut self, id: RunId, token: RunToken, generation: u32, why: &str) {
        if let Some(follower) = &mut self.agent().follower {
            let report = Report {
                generation,
                why: why.to_owned(),
                ..Report::unknown()
            };
            follower.items.push(Item::State(id, token, report));
        }
    }
}

fn standing(stage: &Stage) -> ReportedStage {
    match stage {
        Stage::Waiting => ReportedStage::Waiting,
        Stage::Starting { .. } | Stage::Submitted { .. } => ReportedStage::Starting,
        Stage::Running { .. } => ReportedStage::Running,
        Stage::Held { .. } => ReportedStage::Held,
        Stage::Ended { .. } => ReportedStage::Ended,
        Stage::Settled { .. } => ReportedStage::Settled,
        Stage::TakenAway => ReportedStage::TakenAway,
        Stage::Refused => ReportedStage::Refused,
    }
}
