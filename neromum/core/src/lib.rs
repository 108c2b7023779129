//! What a node decides about its runs: which starts when, what follows from the records
//! on disk, the effect of a cancel, which files a pattern means, and who leads where hosts
//! share a root. Takes state and input, returns effects; no clock, file, wire type or await.
//! The agent carries the effects out, in order.

pub mod capacity;
pub mod cards;
pub mod decide;
pub mod facts;
pub mod glob;
pub mod lease;
mod run;
mod start;
mod submit;
#[cfg(test)]
mod tests;
pub mod turn;
#[cfg(test)]
mod turn_tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use nero_model::{RunId, RunToken};

use capacity::{Capacity, Needs};
use decide::Decision;
pub use run::{AcceptError, CancelDecision, Effect, PauseState, Run, Stage};
use turn::{Place, Turn};

/// Why a paused run waits.
const PAUSED: &str = "paused";

/// All runs that neroman has not closed.
#[derive(Debug)]
pub struct Core {
    capacity: Capacity,
    used: Needs,
    runs: HashMap<RunToken, Run>,
    queue: BTreeMap<Place, RunToken>,
    /// Whether all runs behind the first that waits know that they wait for CPUs.
    rest_told: bool,
    hold: Option<String>,
    /// The node's cards; `None`: a scheduler gives them.
    pool: Option<cards::Pool>,
    /// Whether a run ever asked for some.
    has_card_runs: bool,
    /// Runs that went on after a pause while others had their CPUs.
    shares_cpus: HashSet<RunToken>,
    /// Runs that hold a slot.
    holding: HashSet<RunToken>,
    far: usize,
    effects: Vec<Effect>,
}

impl Core {
    /// For a node that gives `capacity`.
    pub fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            used: Needs::default(),
            runs: HashMap::new(),
            queue: BTreeMap::new(),
            rest_told: false,
            hold: None,
            pool: None,
            has_card_runs: false,
            shares_cpus: HashSet::new(),
            holding: HashSet::new(),
            far: 0,
            effects: Vec::new(),
        }
    }

    /// One run.
    pub fn run(&self, token: &RunToken) -> Option<&Run> {
        self.runs.get(token)
    }

    /// All runs.
    pub fn runs(&self) -> impl Iterator<Item = (&RunToken, &Run)> {
        self.runs.iter()
    }

    /// Runs that hold a slot.
    pub fn live(&self) -> usize {
        self.holding.len()
    }

    /// Number of runs that go on on other hosts of this root.
    pub fn far(&self) -> usize {
        self.far
    }

    pub(crate) fn holding(&self) -> impl Iterator<Item = (RunToken, &Run)> {
        let run = |token: &RunToken| (*token, &self.runs[token]);
        self.holding.iter().map(run)
    }

    /// Runs that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Whether there are no runs.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Resources that the node gives.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Resources that runs hold.
    pub fn used(&self) -> Needs {
        self.used
    }

    /// Reason why nothing new starts.
    pub fn held(&self) -> Option<&str> {
        self.hold.as_deref()
    }

    /// The effects since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Takes a run into the queue.
    ///
    /// # Errors
    /// When the run is known, or can never start.
    pub fn accept(
        &mut self,
        token: RunToken,
        id: RunId,
        order: u64,
        needs: Needs,
    ) -> Result<(), AcceptError> {
        if self.runs.contains_key(&token) {
            return Err(AcceptError::Known);
        }
        self.capacity.could_ever(needs)?;
        self.insert(token, id, order, needs, Stage::Waiting);
        self.enqueue(token);
        self.effects.push(Effect::Report { token });
        Ok(())
    }

    /// Takes a run in as a restart found it: waiting when it was never claimed,
    /// else at `incarnation` until [`Core::found`] is called.
    pub fn restore(
        &mut self,
        token: RunToken,
        id: RunId,
        order: u64,
        needs: Needs,
        incarnation: u32,
    ) {
        if incarnation > 0 {
            self.insert(token, id, order, needs, Stage::running(incarnation));
            return;
        }
        self.insert(token, id, order, needs, Stage::Waiting);
        self.enqueue(token);
        if let Err(never) = self.capacity.could_ever(needs) {
            self.refuse(token, &format!("{never}; {}", never.hint()));
        }
    }

    /// Takes in a run that was cancelled, before the restart, while it waited; at which
    /// scheduler, where it was not cancelled by us.
    pub fn restore_taken_away(&mut self, token: RunToken, id: RunId, order: u64, at: &str) {
        self.insert(token, id, order, Needs::default(), Stage::TakenAway);
        self.set_why(token, at);
    }

    pub(crate) fn insert(
        &mut self,
        token: RunToken,
        id: RunId,
        order: u64,
        needs: Needs,
        stage: Stage,
    ) {
        if stage.holds_slot() {
            self.used = self.used.plus(needs);
            self.holding.insert(token);
        }
        let run = Run {
            id,
            order,
            needs,
            stage,
            cancelled: false,
            paused: false,
            cards: Vec::new(),
            request: cards::CardRequest::default(),
            shares: Vec::new(),
            turn: Turn::default(),
            began_ms: None,
            was_paused: false,
            next: 1,
            vain: 0,
            why: String::new(),
            needs_person: false,
            waits_again: false,
        };
        self.runs.insert(token, run);
    }

    /// Takes the decision of [`decide::decide`] from the records on disk.
    /// `incarnation` is the newest that has a folder, at least 1.
    pub fn found(&mut self, token: RunToken, incarnation: u32, decision: Decision) {
        let Some(run) = self.runs.get(&token) else {
            return;
        };
        // A refusal gives way to a claim that is there all the same.
        let refused = run.stage == Stage::Refused;
        if (run.stage.is_final() && !refused) || matches!(run.stage, Stage::Ended { .. }) {
            return;
        }
        let waiting = matches!(run.stage, Stage::Waiting);
        match decision {
            Decision::Follow => self.goes_on(token, Stage::running(incarnation)),
            Decision::Guard => {
                self.goes_on(token, Stage::running(incarnation));
                self.effects.push(Effect::Guard { token, incarnation });
            }
            Decision::CannotSee => {
                let stage = Stage::Running {
                    incarnation,
                    unsupervised: true,
                    elsewhere: false,
                };
                self.goes_on(token, stage);
            }
            Decision::Elsewhere => {
                let stage = Stage::Running {
                    incarnation,
                    unsupervised: false,
                    elsewhere: true,
                };
                self.goes_on(token, stage);
            }
            Decision::Ended => {
                self.leave_queue(token);
                self.set_stage(token, Stage::Ended { incarnation });
                self.effects.push(Effect::KeepEnd { token, incarnation });
            }
            Decision::SayCodeUnknown | Decision::SayRebooted => {
                self.effects.push(Effect::SayLost {
                    token,
                    incarnation,
                    rebooted: decision == Decision::SayRebooted,
                });
            }
            Decision::SayGateClosed => {
                self.effects
                    .push(Effect::SayGateClosed { token, incarnation });
            }
            Decision::AtScheduler | Decision::Vanished | Decision::SayTaskOver if refused => {}
            Decision::AtScheduler => self.at_scheduler(token, incarnation),
            Decision::Vanished if run.cancelled => self.take_away(token),
            Decision::Vanished => {
                self.at_scheduler(token, incarnation);
                self.effects.push(Effect::Vanished { token });
            }
            Decision::SayTaskOver => {
                self.effects
                    .push(Effect::SayTaskOver { token, incarnation });
            }
            // `schedule` starts a waiting run; a refused run is not started.
            Decision::Launch if waiting => {}
            Decision::Launch | Decision::LaunchNext if refused => {}
            Decision::Launch => self.start_again(token, incarnation),
            Decision::LaunchNext if run.cancelled => {
                self.effects
                    .push(Effect::SayCancelled { token, incarnation });
            }
            Decision::LaunchNext => self.start_again(token, incarnation + 1),
        }
    }

    /// Holds a run with a file that cannot be used: nothing is done about it
    /// until [`Core::found`] or [`Core::wait_again`] is called.
    pub fn hold_run(&mut self, token: RunToken, incarnation: u32) {
        let Some(run) = self.runs.get(&token) else {
            return;
        };
        if run.stage.is_final() || matches!(run.stage, Stage::Ended { .. }) {
            return;
        }
        self.leave_queue(token);
        self.set_stage(token, Stage::Held { incarnation });
    }

    /// What a run needs is known by now. A held run that was never started waits
    /// for its turn.
    pub fn wait_again(&mut self, token: RunToken, needs: Needs) {
        let Some(run) = self.runs.get_mut(&token) else {
            return;
        };
        if run.stage.holds_slot() {
            let before = run.holds();
            run.needs = needs;
            self.used = self.used.minus(before).plus(run.holds());
            return;
        }
        if run.stage != (Stage::Held { incarnation: 0 }) {
            return;
        }
        run.needs = needs;
        self.set_stage(token, Stage::Waiting);
        self.enqueue(token);
    }

    /// Notes whether a running job lacks a supervisor of ours.
    pub fn set_unsupervised(&mut self, token: RunToken, unsupervised: bool) {
        let Some(run) = self.runs.get_mut(&token) else {
            return;
        };
        if let Stage::Running {
            unsupervised: known,
            ..
        } = &mut run.stage
            && *known != unsupervised
        {
            *known = unsupervised;
            self.effects.push(Effect::Report { token });
        }
    }

    fn goes_on(&mut self, token: RunToken, stage: Stage) {
        self.leave_queue(token);
        let plain = stage == Stage::running(stage.incarnation());
        if let Some(run) = self.runs.get_mut(&token) {
            let same = matches!(run.stage, Stage::Running { .. })
                && run.stage.incarnation() == stage.incarnation()
                && !run.stage.is_elsewhere();
            // A run without our supervision stays so, whichever launcher looks
            // after it now.
            if plain && same {
                return;
            }
            run.vain = 0;
        }
        self.set_stage(token, stage);
    }

    /// A shim that did not find the cancel request has claimed a run that counted
    /// as taken away.
    pub fn began_after_all(&mut self, token: RunToken, incarnation: u32) {
        if self.runs.get(&token).map(|run| &run.stage) == Some(&Stage::TakenAway) {
            self.set_stage(token, Stage::running(incarnation));
        }
    }

    /// Handles a request for a run's end; `None` when the run is not known.
    pub fn cancel(&mut self, token: RunToken) -> Option<CancelDecision> {
        let run = self.runs.get_mut(&token)?;
        run.cancelled = true;
        Some(match run.stage {
            // Refused, it stays so only as long as this process remembers.
            Stage::Waiting | Stage::Refused => {
                self.take_away(token);
                CancelDecision::NeverStarts
            }
            // Taken away as soon as its preparation reports.
            Stage::Starting {
                launched: false,
                incarnation: 1,
            } => CancelDecision::NeverStarts,
            Stage::Starting { .. }
            | Stage::Submitted { .. }
            | Stage::Running { .. }
            | Stage::Held { .. } => CancelDecision::Ask,
            Stage::TakenAway => CancelDecision::NeverStarts,
            Stage::Ended { .. } | Stage::Settled { .. } => CancelDecision::Ended,
        })
    }

    /// Notes that a run is paused, or goes on. What waits leaves the queue, and takes its
    /// old place in it again.
    pub fn set_paused(&mut self, token: RunToken, paused: bool) {
        let Some(run) = self.runs.get_mut(&token) else {
            return;
        };
        run.was_paused |= run.stage != Stage::Waiting;
        if run.paused == paused {
            return;
        }
        let before = run.holds();
        run.paused = paused;
        self.used = self.used.minus(before).plus(run.holds());
        let waits = run.stage == Stage::Waiting;
        self.effects.push(Effect::Report { token });
        match (waits, paused) {
            (true, true) => {
                self.leave_queue(token);
                self.set_why(token, PAUSED);
            }
            (true, false) => {
                self.set_why(token, "");
                self.enqueue(token);
            }
            (false, true) => {
                if self.shares_cpus.remove(&token) {
                    self.set_why(token, "");
                }
            }
            (false, false) => self.note_shared_cpus(token),
        }
    }

    /// Notes after a restart that a started run was cancelled before.
    pub fn restore_cancelled(&mut self, token: RunToken) {
        if let Some(run) = self.runs.get_mut(&token) {
            run.cancelled = true;
        }
    }

    /// Every record of an ended run is there, or no more can be had.
    pub fn settled(&mut self, token: RunToken) {
        if let Some(Stage::Ended { incarnation }) =
            self.runs.get(&token).map(|run| run.stage.clone())
        {
            self.set_stage(token, Stage::Settled { incarnation });
        }
    }

    /// neroman has every record: forgets the run. False when the run is not
    /// settled yet.
    pub fn closed(&mut self, token: RunToken) -> bool {
        if !self
            .runs
            .get(&token)
            .is_some_and(|run| run.stage.is_final())
        {
            return false;
        }
        self.runs.remove(&token);
        true
    }

    /// Forgets a run that waits, since another node gets it.
    pub fn left(&mut self, token: RunToken) {
        self.leave_queue(token);
        self.runs.remove(&token);
    }

    pub(crate) fn take_away(&mut self, token: RunToken) {
        self.leave_queue(token);
        self.set_stage(token, Stage::TakenAway);
        self.effects.push(Effect::TakeAway { token });
    }

    pub(crate) fn refuse(&mut self, token: RunToken, why: &str) {
        self.leave_queue(token);
        if let Some(run) = self.runs.get_mut(&token) {
            why.clone_into(&mut run.why);
        }
        self.set_stage(token, Stage::Refused);
    }

    /// Puts a waiting run into the queue; it waits for the reason that holds all
    /// starts.
    pub(crate) fn enqueue(&mut self, token: RunToken) {
        let Some(run) = self.runs.get(&token) else {
            return;
        };
        if run.paused {
            self.set_why(token, PAUSED);
            return;
        }
        let place = run.place();
        self.put_in_queue(place, token);
        if let Some(why) = self.hold.clone() {
            self.set_why(token, &why);
        }
    }

    /// Puts a run into the queue. Behind all others it waits for what they wait for.
    fn put_in_queue(&mut self, place: Place, token: RunToken) {
        let is_last = (self.queue.last_key_value()).is_some_and(|(last, _)| *last < place);
        self.queue.insert(place, token);
        self.rest_told &= is_last;
        if self.rest_told {
            self.set_why(token, capacity::Lack::Cpus.wait_text());
        }
    }

    pub(crate) fn leave_queue(&mut self, token: RunToken) {
        if let Some(run) = self.runs.get(&token) {
            self.queue.remove(&run.place());
        }
    }

    pub(crate) fn set_why(&mut self, token: RunToken, why: &str) {
        self.set_why_of(token, why, false);
    }

    pub(crate) fn set_why_of(&mut self, token: RunToken, why: &str, needs_person: bool) {
        let Some(run) = self.runs.get_mut(&token) else {
            return;
        };
        if run.why != why || run.needs_person != needs_person {
            why.clone_into(&mut run.why);
            run.needs_person = needs_person;
            self.effects.push(Effect::Report { token });
        }
    }

    pub(crate) fn set_stage(&mut self, token: RunToken, stage: Stage) {
        let Some(run) = self.runs.get_mut(&token) else {
            return;
        };
        if run.stage == stage {
            return;
        }
        self.far += usize::from(stage.is_elsewhere());
        self.far -= usize::from(run.stage.is_elsewhere());
        if stage != Stage::Refused {
            run.why.clear();
        }
        run.needs_person = false;
        run.waits_again = false;
        let before = run.holds();
        run.stage = stage;
        self.used = self.used.minus(before).plus(run.holds());
        if run.stage.holds_slot() {
            self.holding.insert(token)
        } else {
            self.holding.remove(&token)
        };
        self.effects.push(Effect::Report { token });
    }

    /// Checks what must always hold; for tests.
    #[cfg(test)]
    pub fn check_invariants(&self) {
        let holding = || self.runs.values().filter(|run| run.stage.holds_slot());
        let used = holding().fold(Needs::default(), |sum, run| sum.plus(run.holds()));
        assert_eq!(used, self.used, "what is taken is what holds slots");
        assert_eq!(holding().count(), self.holding.len());
        let far = self.runs.values().filter(|run| run.stage.is_elsewhere());
        assert_eq!(far.count(), self.far);
        let waiting = self
            .runs
            .values()
            .filter(|run| run.stage == Stage::Waiting && !run.paused)
            .count();
        assert_eq!(waiting, self.queue.len(), "the queue holds what waits");
        for (place, token) in &self.queue {
            assert_eq!(self.runs[token].place(), *place);
            assert_eq!(self.runs[token].stage, Stage::Waiting);
        }
    }
}
