//! The agent in an allocation of a scheduler: the runs of one task, from the plan
//! of a submission. Nothing is handed over and nobody follows; the news are names
//! in the submission's folder. See `docs/design/schedulers.md`.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nero_cluster::submission::{Files, News, StartId, TaskRun};
use nero_journal::v1::{Granted, JobExited, JobNotStarted, Notice, ledger_exited::Copy};
use nero_model::paths::run as names;
use nero_model::{DeploymentId, RunId, RunToken};
use nero_node::agent::driver::Rest;
use nero_node::agent::handle::TaskMessage;
use nero_node::agent::{Agent, AgentHandle, Driver, Entry, Mailboxes, Setup};
use nero_node::ledger::{Ledger, LedgerRun};
use nero_node::runs::control::{is_paused, newest_cancel};
use nero_node::runs::{own, segments, spec};
use nero_node_core::capacity::Capacity;
use nero_node_core::decide::Origin;
use nero_node_core::{Run, Stage};

use super::helpers::Help;
use super::setup_output::SetupOutput;

/// Exit code of a shell for a program that cannot be executed, or is not there.
const CANNOT_EXECUTE: i32 = 126;
const NOT_FOUND: i32 = 127;
/// Variables in which schedulers and drivers list the cards that a program may use.
const CARD_LISTS: [&str; 5] = [
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ZE_AFFINITY_MASK",
];

/// What the agent knows of its allocation.
#[derive(Debug)]
pub struct Allocation {
    /// The submission.
    pub files: Files,
    /// This start of the task.
    pub start: StartId,
    /// What the scheduler gave it.
    pub granted: Granted,
    /// What the lines of `setup` printed.
    pub setup: SetupOutput,
    /// Helpers on its hosts.
    pub help: Option<Help>,
    /// Incarnations that earlier starts of the task were about to launch, with
    /// the proof that the start is over.
    pub earlier: HashMap<(RunId, u32), String>,
    /// Incarnations that this start launched.
    own: HashSet<(RunId, u32)>,
    told: HashSet<News>,
}

/// Results of work beside the agent's task.
#[derive(Debug)]
pub enum AllocationResult {
    /// The claim of a start was synced.
    ClaimSynced(io::Result<()>),
    /// The requests about waiting runs.
    WaitingLooked(Vec<Requests>),
}

/// What a person or rule asks of a run that waits for its turn.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    token: RunToken,
    is_cancelled: bool,
    is_paused: bool,
}

/// A run of the task when its start leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRun {
    /// Token of the run.
    pub token: RunToken,
    /// Newest incarnation; 0 when there is none.
    pub incarnation: u32,
    /// How far it has come.
    pub how: RunStatus,
    /// Text for people; empty when there is nothing to add.
    pub why: String,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// It ended, with this exit code; 128 + n for signal n.
    Ended(i32),
    /// The scheduler wanted the end; a later start goes on.
    Stopped(i32),
    /// No user code ran here, and none can.
    NotStarted,
    /// The task was to end before this run's turn.
    Waiting,
    /// It is paused, and no other run of the task was left to do.
    Paused,
    /// The disk had no room for its start, and no other run of the task was left to do.
    NoRoom,
    /// Another process may have it.
    Elsewhere,
    /// A file of it cannot be used.
    Undecided,
}

impl Allocation {
    /// For one start of a task.
    pub fn new(files: Files, start: StartId) -> Self {
        Self {
            files,
            start,
            granted: Granted::default(),
            setup: SetupOutput::default(),
            help: None,
            earlier: HashMap::new(),
            own: HashSet::new(),
            told: HashSet::new(),
        }
    }

    /// Makes known, before anything else, that this start launches; false when the
    /// leader gave the task up before, and nothing must be launched.
    pub(crate) fn launches(&mut self, id: RunId, incarnation: u32) -> io::Result<bool> {
        let news = News::Launches(id, incarnation, self.start);
        match self.files.note(news, true) {
            // The leader has forgotten the submission, whose plan this start has read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            noted => noted?,
        }
        if self.files.is_closed(self.start.task)? {
            return Ok(false);
        }
        self.own.insert((id, incarnation));
        Ok(true)
    }

    /// Puts what the lines of `setup` printed into the output of a start, before it is launched.
    fn note_setup(&self, run_dir: &Path, incarnation: u32) {
        if self.setup.is_empty() {
            return;
        }
        let folder = segments::folder(run_dir, incarnation);
        if let Err(error) = self.setup.print_into(&folder.join(names::STDERR)) {
            // The lines are in the submission's folder, too.
            tracing::warn!(folder = %folder.display(), %error, "cannot note what setup printed");
        }
    }

    /// The leader looks at a run's folder when it sees this name. A name that
    /// cannot be made is tried again with the next change.
    fn tell(&mut self, news: News) {
        if self.told.contains(&news) {
            return;
        }
        match self.files.note(news, false) {
            Ok(()) => drop(self.told.insert(news)),
            Err(error) => tracing::error!(%news, %error, "the news cannot be told"),
        }
    }
}

impl Driver for Allocation {
    type Result = AllocationResult;

    const TAKES_LAUNCHERS_ALONG: bool = true;
    /// An allocation does not wait for it.
    const SHOWN_LATE: Duration = Duration::ZERO;

    fn done(agent: &mut Agent<Self>, result: AllocationResult) {
        match result {
            AllocationResult::ClaimSynced(Ok(())) => {}
            AllocationResult::ClaimSynced(Err(error)) => {
                tracing::error!(%error, "a claim cannot be synced");
            }
            AllocationResult::WaitingLooked(requests) => Self::heed(agent, &requests),
        }
    }

    fn hear(agent: &mut Agent<Self>, message: TaskMessage) {
        match message {
            TaskMessage::EndAll => Self::end_all(agent),
            TaskMessage::RingAll => Self::ring_all(agent),
            TaskMessage::LookForRequests => Self::look_for_requests(agent),
        }
    }

    fn rest(agent: &Agent<Self>) -> Rest {
        match (Self::is_task_done(agent), Self::holds_a_run(agent)) {
            (true, false) => Rest::Over,
            (true, true) => Rest::Idle,
            (false, _) => Rest::Busy,
        }
    }

    fn origin(&self, _: &RunToken, entry: &Entry) -> Option<(Origin, Option<String>)> {
        let incarnation = entry.incarnation.max(1);
        let origin = if !entry.facts.claimed || self.own.contains(&(entry.id, incarnation)) {
            Origin::Here
        } else if self.earlier.contains_key(&(entry.id, incarnation)) {
            Origin::Earlier
        } else {
            Origin::Elsewhere
        };
        Some((origin, None))
    }

    fn may_launch(agent: &mut Agent<Self>, token: RunToken, incarnation: u32) -> bool {
        let Some(entry) = agent.entries.get(&token) else {
            return true;
        };
        let why = match agent.driver.launches(entry.id, incarnation) {
            Ok(true) => return true,
            Ok(false) => {
                Self::start_no_more(agent);
                "the leader gave this task up".to_owned()
            }
            Err(error) => format!("a launch cannot be made known: {error}"),
        };
        agent.core.not_launched(token, &why);
        false
    }

    /// Lets a job see the cards of its run alone, of those that its environment lists. A
    /// list of its own stays.
    fn give_cards(agent: &Agent<Self>, token: RunToken, env: &mut [Vec<u8>]) {
        let Some(run) = agent.core.run(&token) else {
            return;
        };
        let all = agent.driver.granted.gpus.len();
        if run.cards.is_empty() {
            return;
        }
        for name in CARD_LISTS {
            let Some(given) = agent.setup.orders.base.value(name.as_bytes()) else {
                continue;
            };
            let whole = [name.as_bytes(), b"=", given].concat();
            let each: Vec<&[u8]> = given.split(|byte| *byte == b',').collect();
            let own = env.iter_mut().find(|var| **var == whole);
            let Some(own) = own.filter(|_| each.len() == all) else {
                continue;
            };
            let cards = run
                .cards
                .iter()
                .filter_map(|card| each.get(*card as usize).copied());
            let cards: Vec<&[u8]> = cards.collect();
            *own = [name.as_bytes(), b"=", &cards.join(&b',')].concat();
        }
    }

    /// Notes in a start what the scheduler gave, before the start is launched. Returns
    /// whether it gets helpers.
    fn note_granted(agent: &Agent<Self>, token: RunToken, incarnation: u32) -> bool {
        let allocation = &agent.driver;
        let Some(entry) = agent.entries.get(&token) else {
            return false;
        };
        let run_dir = agent.run_dir(entry.id);
        let mut granted = allocation.granted.clone();
        if let Some(run) = agent.core.run(&token).filter(|run| !run.cards.is_empty()) {
            let all = std::mem::take(&mut granted.gpus);
            let cards = run.cards.iter().filter_map(|card| all.get(*card as usize));
            granted.gpus = cards.cloned().collect();
        }
        let spec = spec::read(&agent.setup.paths, entry.id, token);
        let spec = match &spec {
            Ok(spec) => Some(spec),
            Err(error) => {
                // The folder was built from it a moment ago.
                tracing::warn!(run = %entry.id, file = %error.file, "the run gets no helpers");
                None
            }
        };
        let help = allocation.help.as_ref();
        let text = run_dir.display().to_string();
        let wanted = help.zip(spec);
        let wanted = wanted.and_then(|(help, spec)| help.of(spec, &text, incarnation));
        if let Some(wanted) = &wanted {
            granted.helped = wanted.hosts();
        }
        allocation.note_setup(&run_dir, incarnation);
        if let Err(error) = own::write(&run_dir, token, incarnation, &granted) {
            // It is for people: the run starts without it.
            tracing::warn!(run = %entry.id, %error, "cannot note what was granted");
        }
        let asks = spec.and_then(|spec| spec.scheduler.as_ref());
        let asked = asks.map_or(0, |asks| asks.nodes);
        let given = help.and_then(Help::hosts);
        if let Some(given) = given.filter(|given| asked > 1 && *given != asked) {
            let text = format!(
                "`nodes: {asked}` was asked for, and {} gave {given}: {}",
                granted.scheduler,
                granted.hosts.join(", ")
            );
            if let Err(error) = own::write(&run_dir, token, incarnation, &Notice::of(text)) {
                tracing::warn!(run = %entry.id, %error, "cannot note what was granted");
            }
        }
        if let (Some(help), Some(wanted)) = (help, wanted) {
            help.start(wanted);
            return true;
        }
        false
    }

    /// Notes in a start that it is given up, before the next is made.
    fn note_given_up(agent: &Agent<Self>, token: RunToken, incarnation: u32) {
        let allocation = &agent.driver;
        let Some(entry) = agent.entries.get(&token) else {
            return;
        };
        let why = allocation.earlier.get(&(entry.id, incarnation));
        let why = why.map_or("its gate is closed", String::as_str);
        tracing::info!(run = %entry.id, incarnation, why, "a start is given up; the next one is made");
        let text = format!("this start is over ({why}): the run is started again");
        let run_dir = agent.run_dir(entry.id);
        if let Err(error) = own::write(&run_dir, token, incarnation, &Notice::of(text)) {
            tracing::error!(run = %entry.id, %error, "cannot note that a start is given up");
        }
    }

    /// Syncs a claim, off the reactor: a later start on another host sees it only
    /// then for sure.
    fn claimed(agent: &Agent<Self>, token: RunToken, incarnation: u32) {
        let Some(entry) = agent.entries.get(&token) else {
            return;
        };
        let folder = segments::folder(&agent.run_dir(entry.id), incarnation);
        let lost = io::Error::other("the thread that syncs it panicked");
        agent.off_reactor_for_driver(AllocationResult::ClaimSynced(Err(lost)), move || {
            AllocationResult::ClaimSynced(own::sync(&[folder]))
        });
    }

    /// Starts helpers for a start that goes on: those of an earlier `neromum job` ended with
    /// it.
    fn goes_on(agent: &mut Agent<Self>, token: RunToken, incarnation: u32) {
        let allocation = &agent.driver;
        let Some(entry) = agent.entries.get_mut(&token) else {
            return;
        };
        if matches!(entry.helpers, Some((of, _)) if of == incarnation) {
            return;
        }
        let Ok(spec) = spec::read(&agent.setup.paths, entry.id, token) else {
            return;
        };
        let run_dir = agent.setup.paths.run(entry.id).display().to_string();
        let help = allocation.help.as_ref();
        let wanted = help.and_then(|help| Some((help, help.of(&spec, &run_dir, incarnation)?)));
        entry.helpers = Some((incarnation, wanted.is_some()));
        if let Some((help, wanted)) = wanted {
            tracing::info!(run = %entry.id, incarnation, "its hosts get helpers again");
            help.start(wanted);
        }
    }

    /// Tells the leader of an end that is synced.
    fn changed(agent: &mut Agent<Self>, token: RunToken) {
        let (Some(entry), Some(run)) = (agent.entries.get(&token), agent.core.run(&token)) else {
            return;
        };
        let (id, is_settled) = (entry.id, matches!(run.stage, Stage::Settled { .. }));
        if let Stage::Ended { incarnation } | Stage::Settled { incarnation } = run.stage
            && !entry.unsynced
        {
            agent.driver.tell(News::Ended(id, incarnation));
            if is_settled {
                agent.driver.tell(News::Settled(id, incarnation));
            }
        }
    }
}

impl Allocation {
    /// An agent for these runs of a task, which gets no other ones. It keeps no
    /// ledger: the folders of the runs hold everything.
    pub fn of_task(
        setup: Setup,
        allocation: Self,
        capacity: Capacity,
        runs: &[TaskRun],
        deployment: DeploymentId,
    ) -> (Agent<Self>, AgentHandle, Mailboxes<AllocationResult>) {
        let ledger = Ledger::nowhere(deployment);
        let (mut agent, handle, mailboxes) = Agent::empty(setup, allocation, capacity, ledger);
        Self::take_in(&mut agent, runs);
        (agent, handle, mailboxes)
    }

    /// Takes in the runs of the task, in the plan's order.
    fn take_in(agent: &mut Agent<Self>, runs: &[TaskRun]) {
        for (run, order) in runs.iter().zip(1..) {
            if segments::is_gone(&agent.run_dir(run.id)) {
                tracing::warn!(run = %run.id, "its folder is gone: it is not started");
                agent.entries.insert(run.token, Entry::new(run.id));
                agent.core.restore_taken_away(run.token, run.id, order, "");
                continue;
            }
            let kept = LedgerRun {
                id: run.id,
                order,
                taken_away: None,
                refused: None,
                cancel: 0,
                exited: None,
                cards: None,
            };
            agent.restore_run(run.token, kept);
            let waits = |run: &Run| run.stage == Stage::Waiting;
            if agent.core.run(&run.token).is_some_and(waits) && is_paused(&agent.run_dir(run.id)) {
                agent.core.set_paused(run.token, true);
            }
        }
    }

    /// The scheduler wants the end of the allocation: every start ends, and none
    /// is made any more.
    fn end_all(agent: &mut Agent<Self>) {
        tracing::info!("the allocation ends: every start is stopped");
        agent.ending = true;
        agent.core.hold("the scheduler ends the allocation");
        agent.end_launches();
    }

    /// The leader gave the task up: what runs goes on, and nothing is started any more.
    fn start_no_more(agent: &mut Agent<Self>) {
        tracing::warn!("the leader gave this task up: nothing is started any more");
        agent.ending = true;
        agent.core.hold("the leader gave this task up");
    }

    /// Something may lie in the control folders.
    fn ring_all(agent: &mut Agent<Self>) {
        let live = agent.core.runs().filter(|(_, run)| run.stage.holds_slot());
        let live: Vec<RunToken> = live.map(|(token, _)| *token).collect();
        for token in live {
            agent.ring(token);
        }
        Self::look_for_requests(agent);
    }

    /// Looks for requests about the runs that wait for their turn, off the reactor.
    fn look_for_requests(agent: &Agent<Self>) {
        let runs = agent.core.runs();
        let waiting = runs.filter(|(_, run)| run.stage == Stage::Waiting);
        let waiting: Vec<(RunToken, PathBuf)> = waiting
            .map(|(token, run)| (*token, agent.run_dir(run.id)))
            .collect();
        if waiting.is_empty() {
            return;
        }
        agent.off_reactor_for_driver(AllocationResult::WaitingLooked(Vec::new()), move || {
            let of = |(token, run_dir): (RunToken, PathBuf)| Requests {
                token,
                is_cancelled: newest_cancel(&run_dir) > 0,
                is_paused: is_paused(&run_dir),
            };
            AllocationResult::WaitingLooked(waiting.into_iter().map(of).collect())
        });
    }

    /// Starts waiting runs that have a cancel request, before their turn: their shims
    /// record that no job is started, and no later start of a task begins them. Paused
    /// ones lose their turn.
    fn heed(agent: &mut Agent<Self>, requests: &[Requests]) {
        for one in requests {
            let waits = |run: &&Run| run.stage == Stage::Waiting;
            let Some(run) = agent.core.run(&one.token).filter(waits) else {
                // Its shim finds them.
                continue;
            };
            if one.is_cancelled {
                agent.core.start_before_its_turn(one.token);
            } else if run.paused != one.is_paused {
                tracing::info!(run = %run.id, paused = one.is_paused, "it waits for its turn");
                agent.core.set_paused(one.token, one.is_paused);
            }
        }
    }

    /// Whether nothing is left to do for the task.
    fn is_task_done(agent: &Agent<Self>) -> bool {
        !agent.is_syncing()
            && agent.core.runs().all(|(_, run)| match run.stage {
                // It keeps no allocation that nothing else needs.
                Stage::Waiting => agent.ending || run.paused || agent.core.held().is_some(),
                Stage::Starting { .. } | Stage::Submitted { .. } | Stage::Ended { .. } => false,
                Stage::Running { elsewhere, .. } => elsewhere,
                Stage::Held { .. } | Stage::Settled { .. } | Stage::TakenAway | Stage::Refused => {
                    true
                }
            })
    }

    /// Whether a file of a run may be usable in a moment, or the disk have room for a start.
    fn holds_a_run(agent: &Agent<Self>) -> bool {
        let mut runs = agent.core.runs();
        let no_room = agent.core.held().is_some() && !agent.ending;
        runs.any(|(_, run)| {
            let has_no_room = run.stage == Stage::Waiting && no_room && !run.paused;
            has_no_room || matches!(run.stage, Stage::Held { .. })
        })
    }

    /// The runs of the task, in the plan's order.
    pub fn last_runs(agent: &Agent<Self>) -> Vec<LastRun> {
        let mut runs: Vec<_> = agent.core.runs().collect();
        runs.sort_by_key(|(_, run)| run.order);
        let last = runs.into_iter().filter_map(|(token, run)| {
            let entry = agent.entries.get(token)?;
            let how = match run.stage {
                Stage::Waiting if run.paused && !agent.ending => RunStatus::Paused,
                Stage::Waiting if agent.core.held().is_some() && !agent.ending => RunStatus::NoRoom,
                Stage::Waiting | Stage::Starting { .. } | Stage::Submitted { .. } => {
                    RunStatus::Waiting
                }
                Stage::Running { .. } => RunStatus::Elsewhere,
                Stage::Held { .. } => RunStatus::Undecided,
                Stage::Ended { .. } | Stage::Settled { .. } => {
                    let code = exit_code(entry);
                    if entry.facts.stopped_by_scheduler {
                        RunStatus::Stopped(code)
                    } else {
                        RunStatus::Ended(code)
                    }
                }
                Stage::TakenAway | Stage::Refused => RunStatus::NotStarted,
            };
            let unreadable = entry.unreadable.values().flatten();
            let unreadable: Vec<String> = unreadable.map(ToString::to_string).collect();
            Some(LastRun {
                token: *token,
                incarnation: run.stage.incarnation(),
                how,
                why: match how {
                    RunStatus::Undecided => unreadable.join("; "),
                    RunStatus::Elsewhere => "another process may have it".to_owned(),
                    RunStatus::Ended(_)
                    | RunStatus::Stopped(_)
                    | RunStatus::NotStarted
                    | RunStatus::Waiting
                    | RunStatus::NoRoom
                    | RunStatus::Paused => run.why.clone(),
                },
            })
        });
        last.collect()
    }
}

/// The exit code of an ended run, as a shell shows it; 1 when it is unknown.
fn exit_code(entry: &Entry) -> i32 {
    let last = |is_wanted: fn(&Copy) -> bool| entry.ends.iter().rev().find(|copy| is_wanted(copy));
    if let Some(exited) = last(Copy::is::<JobExited>) {
        let exited: JobExited = prost::Message::decode(&*exited.payload).unwrap_or_default();
        return match exited {
            exited if exited.code_unknown => 1,
            exited if exited.signal != 0 => 128 + exited.signal,
            exited => exited.code,
        };
    }
    match last(Copy::is::<JobNotStarted>) {
        Some(failed) => {
            let failed: JobNotStarted =
                prost::Message::decode(&*failed.payload).unwrap_or_default();
            if failed.errno == rustix::io::Errno::NOENT.raw_os_error() {
                NOT_FOUND
            } else {
                CANNOT_EXECUTE
            }
        }
        None => 1,
    }
}
