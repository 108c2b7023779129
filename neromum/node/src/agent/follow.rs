//! Replication upward: every follower is sent the bytes that it lacks of every
//! segment, in order per segment, and then the run's state. For a slow follower
//! only a set of runs waits, never their bytes: these are read from disk when
//! there is room again.

mod follower;
mod pace;
mod stream;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use nero_model::{ExperimentId, RunId, RunToken};
use nero_wire::v1::follow_event::Event;
use nero_wire::v1::{CaughtUp, FollowRequest, RunPosition, RunRef};
use tokio::sync::{mpsc, oneshot};

use super::recover::PowerCutTrace;
use super::{Agent, AgentHandle, Driver, Setup, WorkResult};
use crate::config;
use crate::ledger::LedgerRun;
use crate::runs::control::newest_cancel;
use crate::runs::{segments, spec, tombstone};
use follower::{Follower, SendOutcome};
use pace::NewsPace;
use stream::Flow;
pub use stream::FollowStream;

/// All followers.
#[derive(Debug, Default)]
pub struct Followers {
    pub(super) handle: Option<AgentHandle>,
    list: Vec<Follower>,
    next: u64,
    /// Runs whose bytes in memory can be dropped after this turn.
    fresh: Vec<RunToken>,
    /// Runs with a file that cannot be read now.
    unread: HashSet<RunToken>,
    /// Whether a look at runs that cannot be taken up is under way.
    looks: bool,
    pace: NewsPace,
}

/// Result of taking up a run that is not in the ledger.
#[derive(Debug)]
pub enum AdoptionResult {
    /// The run is known now.
    Known,
    /// The run never was here.
    Unknown,
    /// The disk does not answer, or refuses, just now; the reason.
    NotNow(String),
}

impl Followers {
    /// Tells every follower that this generation of a run is not here any more.
    pub(super) fn unknown(&self, token: RunToken, generation: u32, why: &str) {
        for follower in &self.list {
            follower.send_unknown(token, generation, why);
        }
    }

    /// A follower has room again; the pump at the end of the turn fills it.
    pub fn room(&mut self, id: u64) {
        self.pace = NewsPace::default();
        if let Some(follower) = self.list.iter().find(|follower| follower.id == id) {
            follower.flow.set_starved(false);
        }
    }

    /// A follower left.
    pub fn gone(&mut self, id: u64) {
        self.list.retain(|follower| follower.id != id);
    }

    /// Marks the runs whose files could not be read once more.
    fn mark_unread(&mut self) {
        for token in std::mem::take(&mut self.unread) {
            self.mark(token);
        }
    }

    fn mark(&mut self, token: RunToken) {
        for follower in &mut self.list {
            follower.mark(token);
        }
    }

    /// Whether there is something to send.
    fn have_changes(&self) -> bool {
        let mut list = self.list.iter();
        list.any(|follower| !follower.dirty.is_empty() || !follower.caught_up)
    }
}

fn in_full(error: &dyn std::error::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

pub(super) fn run_id(run: &RunRef) -> RunId {
    RunId {
        experiment: ExperimentId(run.experiment),
        number: run.number,
    }
}

/// Whether the disk shows now what there is of a run.
fn answers(setup: &Setup, id: RunId, token: RunToken) -> bool {
    match spec::read(&setup.paths, id, token) {
        Ok(_) => true,
        Err(error) if error.may_pass => false,
        Err(_) => {
            !matches!(tombstone::read(&setup.paths, id, token), Err(error) if spec::may_pass(&error))
        }
    }
}

impl<D: Driver> Agent<D> {
    /// Whether a neroman follows the runs.
    pub fn is_followed(&self) -> bool {
        !self.followers.list.is_empty()
    }

    /// A run's state changed.
    pub(super) fn report(&mut self, token: RunToken) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.version = entry.version.wrapping_add(1);
        }
        D::changed(self, token);
        self.followers.pace.state_changed = true;
        self.mark(token);
    }

    /// Marks a run that may have something to send.
    pub(super) fn mark(&mut self, token: RunToken) {
        self.followers.mark(token);
        self.followers.fresh.push(token);
    }

    pub(super) fn follow(&mut self, request: FollowRequest, answer: oneshot::Sender<FollowStream>) {
        let Some(handle) = self.followers.handle.clone() else {
            return;
        };
        self.followers.next += 1;
        let id = self.followers.next;
        #[expect(
            clippy::disallowed_methods,
            reason = "`Flow` bounds the bytes and events in it"
        )]
        let (events, receiver) = mpsc::unbounded_channel();
        let flow = Arc::new(Flow::default());
        let stream = FollowStream::new(id, receiver, flow.clone(), handle);
        if answer.send(stream).is_err() {
            return;
        }
        self.followers.list.push(Follower {
            id,
            events,
            flow,
            told: HashMap::new(),
            waiting: HashMap::new(),
            dirty: VecDeque::new(),
            marked: HashSet::new(),
            caught_up: false,
        });
        self.follow_more(id, request);
        let mut known: Vec<(u64, RunToken)> = self
            .core
            .runs()
            .map(|(token, run)| (run.order, *token))
            .collect();
        known.sort_unstable();
        if let Some(follower) = self.followers.list.iter_mut().find(|one| one.id == id) {
            for (_, token) in known {
                follower.mark(token);
            }
        }
    }

    pub(super) fn follow_more(&mut self, id: u64, request: FollowRequest) {
        self.followers.pace.state_changed = true;
        self.close(&request.closed);
        for position in request.positions {
            self.position(id, position);
        }
    }

    fn position(&mut self, id: u64, position: RunPosition) {
        let Some(run) = &position.run else { return };
        let Some(token) = RunToken::from_slice(&run.token) else {
            return;
        };
        let mut not_now = None;
        if !self.entries.contains_key(&token) {
            let run = run_id(run);
            if let AdoptionResult::NotNow(why) = self.adopt(token, run) {
                not_now = Some((run, why));
            }
        }
        let Some(follower) = self.followers.list.iter_mut().find(|one| one.id == id) else {
            return;
        };
        if let Some((run, why)) = not_now {
            // If it were reported as unknown, another node could get it.
            if follower.waits(token, position, &why) {
                tracing::error!(%run, why, "a run that lies here cannot be taken up now; it is tried again");
            }
            let again = tokio::time::Instant::now() + config::UNREAD_RETRY;
            self.timers.unread.get_or_insert(again);
            return;
        }
        follower.waiting.remove(&token);
        let Some(entry) = self.entries.get_mut(&token) else {
            follower.send_unknown(token, position.generation, "");
            // A hand-over of an earlier connection may come in late.
            self.admission.left(token, position.generation);
            return;
        };
        entry.generation = entry.generation.max(position.generation);
        follower.stands(token, position);
        follower.mark(token);
    }

    /// Sends once more the files that could not be read, and looks whether runs
    /// can be taken up by now: off the reactor, since a disk that is away may not
    /// answer.
    pub(super) fn try_unread(&mut self) {
        self.followers.mark_unread();
        let waiting = self.followers.list.iter().flat_map(|one| &one.waiting);
        let waiting: HashMap<RunToken, RunId> = waiting
            .filter_map(|(token, position)| Some((*token, run_id(position.run.as_ref()?))))
            .collect();
        if waiting.is_empty() || std::mem::replace(&mut self.followers.looks, true) {
            return;
        }
        let setup = self.setup.clone();
        self.off_reactor(WorkResult::Looked(HashSet::new()), move || {
            let answers = |(token, id): &(RunToken, RunId)| answers(&setup, *id, *token);
            let found = waiting.into_iter().filter(answers);
            WorkResult::Looked(found.map(|(token, _)| token).collect())
        });
    }

    /// Takes up the runs whose files can be read again.
    pub(super) fn looked_again(&mut self, found: &HashSet<RunToken>) {
        self.followers.looks = false;
        let mut waiting = Vec::new();
        for follower in &self.followers.list {
            let positions = follower.waiting.iter();
            let found = positions.filter(|(token, _)| found.contains(token));
            waiting.extend(found.map(|(_, position)| (follower.id, position.clone())));
        }
        for (id, position) in waiting {
            self.position(id, position);
        }
        if self
            .followers
            .list
            .iter()
            .any(|one| !one.waiting.is_empty())
        {
            let again = tokio::time::Instant::now() + config::UNREAD_RETRY;
            self.timers.unread.get_or_insert(again);
        }
    }

    /// Takes up a run whose folder is here and that is not, or no longer, in the
    /// ledger: it was closed, or a power cut took the record.
    pub(super) fn adopt(&mut self, token: RunToken, id: RunId) -> AdoptionResult {
        if id.experiment.0 == 0 || self.admission.is_cleaning(&token) {
            return AdoptionResult::Unknown;
        }
        match spec::read(&self.setup.paths, id, token) {
            // The folder of this generation was undone, or is about to be. A claim there
            // is older: the folder was away while neroman asked for the run.
            Ok(spec) if self.admission.was_recalled(&token, spec.generation) => {
                match segments::is_claimed(&self.setup.paths.run(id)) {
                    Ok(true) => {}
                    Ok(false) => return AdoptionResult::Unknown,
                    Err(error) => {
                        return AdoptionResult::NotNow(format!(
                            "cannot look for its claim: {error}"
                        ));
                    }
                }
            }
            Ok(_) => {}
            Err(error) if error.may_pass => return AdoptionResult::NotNow(error.file.to_string()),
            Err(_) => match self.raise(token, id) {
                AdoptionResult::Known => {}
                other => return other,
            },
        }
        let submitted = self.driver.has(&token);
        let cancelled = newest_cancel(&self.setup.paths.run(id)) > 0;
        let to_start = !submitted && !cancelled;
        if to_start && self.left_by_a_cut(token, id) == PowerCutTrace::Nothing {
            return match self.give_back_at_start(token, id) {
                Ok(()) => AdoptionResult::Unknown,
                Err(error) => AdoptionResult::NotNow(in_full(&error)),
            };
        }
        let order = self.admission.next_order();
        if let Err(error) = self.ledger.accepted(token, id, order) {
            return AdoptionResult::NotNow(in_full(&error));
        }
        self.admission.admitted(&token, false);
        let kept = LedgerRun {
            id,
            order,
            taken_away: None,
            refused: None,
            // Only this file remembers that the run must not be started.
            cancel: newest_cancel(&self.setup.paths.run(id)),
            exited: None,
            cards: None,
        };
        self.restore_run(token, kept);
        if self.launchers.ready()
            && let Some(entry) = self.entries.get(&token)
            && entry.incarnation > 0
        {
            let incarnation = entry.incarnation;
            self.look_and_decide(token, incarnation);
        }
        self.report(token);
        AdoptionResult::Known
    }

    fn close(&mut self, closed: &[Vec<u8>]) {
        let tokens = closed.iter();
        let tokens: Vec<_> = tokens
            .filter_map(|token| RunToken::from_slice(token))
            .collect();
        self.forget(&tokens);
        for follower in &mut self.followers.list {
            for token in &tokens {
                follower.waiting.remove(token);
            }
        }
        self.compact_when_worth();
    }

    /// Forgets those of these runs that are over.
    pub(super) fn forget(&mut self, tokens: &[RunToken]) {
        let mut gone = Vec::new();
        for &token in tokens {
            if self.core.closed(token) {
                self.drop_entry(token);
                gone.push(token);
            }
        }
        D::forgot(self);
        for tokens in gone.chunks(config::HAND_OVER_MAX) {
            // If this fails, neroman closes the run again when it is told of it.
            if let Err(error) = self.ledger.closed(tokens) {
                tracing::error!(?error, "the ledger does not take that runs are closed");
            }
        }
    }

    pub(super) fn drop_entry(&mut self, token: RunToken) {
        self.entries.remove(&token);
        for follower in &mut self.followers.list {
            follower.told.remove(&token);
        }
    }

    /// Sends followers what they lack, as far as there is room.
    pub(super) fn pump(&mut self) {
        if self.followers.fresh.is_empty() && !self.followers.have_changes() {
            return;
        }
        let now = tokio::time::Instant::now();
        let runs_wait = self.core.waiting() > 0;
        self.timers.reports = self.followers.pace.gather_until(now, runs_wait);
        if self.timers.reports.is_some() {
            return;
        }
        let mut again = false;
        for follower in &mut self.followers.list {
            let mut budget = config::PUMP_RUNS_MAX;
            while budget > 0 && !follower.dirty.is_empty() {
                if !follower.flow.open() {
                    follower.flow.set_starved(true);
                    // A stream that took events before that did not see the mark.
                    if !follower.flow.half_empty() {
                        break;
                    }
                    follower.flow.set_starved(false);
                }
                budget -= 1;
                let Some(token) = follower.dirty.pop_front() else {
                    break;
                };
                follower.marked.remove(&token);
                let (Some(entry), Some(run)) = (self.entries.get(&token), self.core.run(&token))
                else {
                    continue;
                };
                if let Some(position) = follower.waiting.remove(&token) {
                    // The run was taken up for another follower.
                    follower.stands(token, position);
                }
                let run_dir = self.setup.paths.run(entry.id);
                match follower.send_run(&run_dir, token, entry, run) {
                    SendOutcome::All => {}
                    SendOutcome::NoRoom => {
                        follower.marked.insert(token);
                        follower.dirty.push_front(token);
                    }
                    SendOutcome::Unread => {
                        self.followers.unread.insert(token);
                        let again = tokio::time::Instant::now() + config::UNREAD_RETRY;
                        self.timers.unread.get_or_insert(again);
                    }
                }
            }
            again |= budget == 0 && !follower.dirty.is_empty();
            if follower.dirty.is_empty() && !follower.caught_up {
                follower.caught_up = true;
                follower.send(Event::CaughtUp(CaughtUp {}));
            }
        }
        if again {
            // The next turn goes on; others get their turn in between.
            let _ = self.done.send(WorkResult::FollowRoom);
        }
        for token in std::mem::take(&mut self.followers.fresh) {
            let Some(entry) = self.entries.get_mut(&token) else {
                continue;
            };
            if !entry.unsynced {
                entry.segments.iter_mut().for_each(|seg| seg.fresh = None);
            }
        }
    }
}
