//! What a neromum answers: hand-overs, requests for the end of runs, holds, and who follows it.

use std::collections::{BTreeMap, BTreeSet};

use nero_model::{RunId, RunToken};
use nero_node_core::capacity::Needs;
use nero_node_core::decide::Decision;
use nero_node_core::{CancelDecision, Stage};

use super::cards::request;
use super::folder::{Folder, Remains, SpecName};
use super::node::{Died, Entry, Follower, LedgerEntry, Lived, Node};
use super::wire::{Answer, EndedRun, Ending, FolderState, Request, SentRun};
use super::world::{Clock, DriverDue, Due, Event, note};
use crate::source::abort::Answer as Outcome;
use crate::step::hand_over;
use crate::tests::reach::node::NEVER_AGAIN;

impl Node {
    /// A request arrives.
    pub fn serves(&mut self, clock: &mut Clock, conn: u32, request: Request) {
        let at = self.at;
        let mut lived = Ok(());
        let answer = match request {
            Request::HandOver(runs) => return self.places(clock, conn, runs),
            Request::End(runs, ending) => {
                let mut outcomes = Vec::new();
                for run in runs {
                    let outcome = match ending {
                        Ending::Recall(generation) => self.recall(clock, &run, generation),
                        Ending::Cancel | Ending::LeftBehind => self.cancel(clock, &run),
                    };
                    let Ok(outcome) = outcome else {
                        lived = Err(Died);
                        break;
                    };
                    note!(clock, Some(run.id), "n{at}: asked to end it: {outcome:?}");
                    outcomes.push((run, outcome));
                }
                Answer::End(outcomes, ending)
            }
            Request::Pause(runs, resumes) => {
                let one = |(id, token, place)| (id, place, self.pause(clock, id, token, !resumes));
                Answer::Pause(runs.into_iter().map(one).collect(), resumes)
            }
            Request::Describe => Answer::Described {
                waiting: self.agent().core.waiting(),
                is_held: self.agent().core.held().is_some(),
            },
            Request::Follow(positions) => {
                lived = self.follow(clock, conn, positions);
                Answer::Follows
            }
            Request::Closed(tokens) => {
                lived = self.forget(&tokens);
                Answer::None
            }
        };
        self.answers(clock, lived, conn, answer);
    }

    /// A call ends; the process that died at it, or behind it, answers nothing.
    fn answers(&mut self, clock: &mut Clock, lived: Lived, conn: u32, answer: Answer) {
        let is_alive = lived.is_ok();
        self.lives(clock, lived);
        if is_alive && self.agent.is_some() && !matches!(answer, Answer::None) {
            clock.soon(Event::Driver(self.at, conn, DriverDue::Reply(answer)));
        }
    }

    pub fn follow(
        &mut self,
        clock: &mut Clock,
        conn: u32,
        positions: Vec<(RunId, RunToken, u32, usize)>,
    ) -> Lived {
        let all: BTreeSet<RunToken> = self.agent().entries.keys().copied().collect();
        self.agent().follower = Some(Follower {
            conn,
            told: BTreeMap::new(),
            dirty: all,
            items: Vec::new(),
            last_ms: 0,
        });
        for (id, token, generation, records) in positions {
            if !self.agent().entries.contains_key(&token) {
                self.adopt(clock, token, id)?;
            }
            let agent = self.agent();
            let Some(entry) = agent.entries.get_mut(&token) else {
                self.send_unknown(id, token, generation, "");
                self.keep_out(token, generation);
                continue;
            };
            entry.generation = entry.generation.max(generation);
            if let Some(follower) = &mut agent.follower {
                let told = follower.told.entry(token).or_default();
                told.records = records;
                follower.dirty.insert(token);
            }
        }
        Ok(())
    }

    /// Takes up a run whose folder is here and that is not in the ledger.
    pub fn adopt(&mut self, clock: &mut Clock, token: RunToken, id: RunId) -> Lived<bool> {
        let Some(folder) = self.disk.get(&id).cloned() else {
            return Ok(false);
        };
        if folder.token != token || folder.spec != SpecName::Spec {
            return Ok(false);
        }
        if self.is_kept_out(&token, folder.generation) && !folder.is_claimed() {
            return Ok(false);
        }
        if folder.cancels == 0 && self.left(id) == Remains::Nothing {
            self.give_back(clock, token, id)?;
            return Ok(false);
        }
        note!(clock, Some(id), "{}: its folder is taken up", self.name);
        let kept = self.accepted(token, id, folder.cancels)?;
        self.restore_run(clock, token, &kept)?;
        let start = self.entry(&token).map_or(0, |one| one.incarnation);
        if start > 0 && self.agent().link.is_some() {
            self.look_and_decide(clock, token, start, None)?;
        }
        self.report(token);
        Ok(true)
    }

    /// Writes an accepted run into the ledger.
    pub fn accepted(&mut self, token: RunToken, id: RunId, cancels: u32) -> Lived<LedgerEntry> {
        self.write()?;
        let kept = LedgerEntry {
            id,
            order: self.next_order,
            cancels,
            is_taken_away: false,
            exited: None,
            cards: None,
        };
        self.next_order += 1;
        self.ledger.insert(token, kept.clone());
        Ok(kept)
    }

    pub fn keep_out(&mut self, token: RunToken, generation: u32) {
        let known = self.agent().recalled.entry(token).or_default();
        *known = generation.max(*known);
    }

    pub fn is_kept_out(&self, token: &RunToken, generation: u32) -> bool {
        let recalled = self.agent.as_ref().and_then(|one| one.recalled.get(token));
        recalled.is_some_and(|up_to| generation <= *up_to)
    }

    pub fn forget(&mut self, tokens: &[RunToken]) -> Lived {
        for token in tokens {
            if self.agent().core.closed(*token) {
                self.drop_entry(token);
                self.write()?;
                self.ledger.remove(token);
            }
        }
        Ok(())
    }

    pub fn drop_entry(&mut self, token: &RunToken) {
        let agent = self.agent();
        agent.entries.remove(token);
        if let Some(follower) = &mut agent.follower {
            follower.told.remove(token);
        }
    }

    /// Makes the next folder of a hand-over, beside the agent, which accepts the runs behind the
    /// last one, whether or not their caller is there still.
    pub fn places(&mut self, clock: &mut Clock, conn: u32, mut runs: Vec<SentRun>) {
        let count = runs.len() as i64;
        let Some(next) = runs.iter_mut().find(|run| run.folder.is_none()) else {
            return self.accepts(clock, conn, runs);
        };
        next.folder = Some(self.lies(next));
        // The disk is slow now and then.
        let most = [80, 5000][usize::from(clock.fails(clock.rates.lost))];
        let ms = clock.dice.ms(0, most / count);
        self.later(clock, ms, Due::HandOver(conn, runs));
    }

    /// What lay there when a run came; its folder is made where nothing did.
    fn lies(&mut self, run: &SentRun) -> FolderState {
        let folder = self.disk.get(&run.id);
        let is_others = |one: &&Folder| one.spec == SpecName::Spec && one.token != run.token;
        if folder.filter(is_others).is_some() {
            return FolderState::Refused;
        }
        match folder.map(|folder| (folder, folder.spec)) {
            Some((folder, SpecName::Spec)) if folder.generation < run.generation => {
                let may_start = folder.is_prepared || folder.newest() > 0 || folder.cancels > 0;
                match (folder.is_claimed(), may_start) {
                    (true, _) => FolderState::Old,
                    (false, true) => FolderState::Refused,
                    (false, false) => FolderState::Leftover,
                }
            }
            Some((_, SpecName::Spec)) => FolderState::Old,
            Some((_, SpecName::Recalled)) => FolderState::Refused,
            None if run.is_again => FolderState::Unknown,
            None if run.cpus > self.cpus => FolderState::Refused,
            None if self.is_full => FolderState::Full,
            None => {
                let new = Folder {
                    token: run.token,
                    spec: SpecName::Spec,
                    generation: run.generation,
                    boot: self.boot,
                    cpus: run.cpus,
                    cards: run.cards,
                    turn: run.turn,
                    cancels: 0,
                    pauses: 0,
                    is_prepared: false,
                    is_damaged: self.is_damaged,
                    claims: BTreeMap::new(),
                    closed_gates: BTreeSet::new(),
                    passed_gates: BTreeSet::new(),
                    records: Vec::new(),
                };
                self.disk.insert(run.id, new);
                FolderState::New
            }
        }
    }

    /// The agent accepts runs whose folders were made.
    pub fn accepts(&mut self, clock: &mut Clock, conn: u32, placed: Vec<SentRun>) {
        let (at, mut answers) = (self.at, Vec::new());
        let lived = placed.into_iter().try_for_each(|run| {
            let answer = self.accept(clock, &run)?;
            let taken = matches!(answer, hand_over::Answer::Accepted { .. });
            if !taken && run.folder == Some(FolderState::New) && !self.has(&run.token) {
                self.unmake_up_to(run.id, run.generation);
            }
            let generation = run.generation;
            note!(
                clock,
                Some(run.id),
                "n{at}: generation {generation}: {answer:?}"
            );
            answers.push((run.id, generation, answer));
            Ok(())
        });
        self.answers(clock, lived, conn, Answer::HandOver(answers));
    }

    /// Removes the folder of a hand-over that is not taken, unless a later one made it anew.
    fn unmake_up_to(&mut self, id: RunId, generation: u32) {
        let is_later = |one: &Folder| one.generation > generation;
        if !self.disk.get(&id).is_some_and(is_later) {
            self.disk.remove(&id);
        }
    }

    pub fn has(&self, token: &RunToken) -> bool {
        let agent = self.agent.as_ref();
        let entry = agent.and_then(|agent| agent.entries.get(token));
        entry.is_some_and(|entry| !entry.is_recalled)
    }

    fn accept(&mut self, clock: &mut Clock, run: &SentRun) -> Lived<hand_over::Answer> {
        use hand_over::Answer as Is;
        let (token, id, generation) = (run.token, run.id, run.generation);
        let refused = || Is::Refused {
            why: "refused".to_owned(),
            lacks: None,
            hint: String::new(),
            only_here: true,
        };
        let later = Is::Later {
            why: "later".to_owned(),
            lacks: None,
            hint: String::new(),
        };
        let accepted = Is::Accepted { rules_version: 1 };
        match run.folder {
            Some(FolderState::Refused | FolderState::Full | FolderState::Unknown)
                if self.has(&token) =>
            {
                return Ok(accepted);
            }
            Some(FolderState::Refused) => {
                self.keep_out(token, NEVER_AGAIN);
                return Ok(refused());
            }
            Some(FolderState::Full) => return Ok(later),
            Some(FolderState::Unknown) => {
                self.keep_out(token, generation);
                return Ok(Is::Unknown);
            }
            Some(FolderState::New | FolderState::Old | FolderState::Leftover) | None => {}
        }
        let refused_before = |node: &mut Self| {
            if node.agent().recalled.get(&token) == Some(&NEVER_AGAIN) {
                refused()
            } else {
                Is::Unknown
            }
        };
        if let Some(known) = self.entry(&token) {
            if known.is_recalled {
                return Ok(refused());
            }
            let holds_again = known.generation < generation;
            known.generation = known.generation.max(generation);
            if holds_again {
                self.report(token);
            }
            return Ok(accepted);
        }
        if run.folder == Some(FolderState::Old) {
            let is_out = self.is_kept_out(&token, generation);
            if self.adopt(clock, token, id)? {
                if let Some(entry) = self.entry(&token) {
                    entry.generation = entry.generation.max(generation);
                }
                return Ok(accepted);
            }
            return Ok(if is_out { refused_before(self) } else { later });
        }
        if self.is_kept_out(&token, generation) {
            return Ok(refused_before(self));
        }
        if run.folder == Some(FolderState::Leftover) {
            self.keep_out(token, generation.saturating_sub(1));
            self.write()?;
            self.unmake_up_to(id, generation.saturating_sub(1));
            return Ok(later);
        }
        if run.is_again {
            self.keep_out(token, generation);
            return Ok(Is::Unknown);
        }
        let kept = self.accepted(token, id, 0)?;
        let agent = self.agent();
        agent.recalled.remove(&token);
        let mut entry = Entry::new(id);
        entry.generation = generation;
        entry.is_fresh = true;
        agent.entries.insert(token, entry);
        let needs = Needs::of(run.cpus.into(), 0);
        if agent.core.accept(token, id, kept.order, needs).is_err() {
            return Ok(refused());
        }
        agent.core.set_cards(token, request(run.cards), Vec::new());
        agent.core.set_turn(token, run.turn);
        Ok(accepted)
    }

    pub fn stage(&mut self, token: &RunToken) -> Option<Stage> {
        self.agent().core.run(token).map(|run| run.stage.clone())
    }

    /// Whether a refused run had an earlier start with a claim.
    pub fn is_refused_after_a_claim(&mut self, token: &RunToken) -> bool {
        let is_refused = self.stage(token) == Some(Stage::Refused);
        let began = |one: &mut Entry| one.incarnation > 1 || one.facts.claimed;
        is_refused && self.entry(token).is_some_and(began)
    }

    pub fn cancel(&mut self, clock: &mut Clock, run: &EndedRun) -> Lived<Outcome> {
        let (token, id) = (run.token, run.id);
        if self.stage(&token).is_none() && !self.adopt(clock, token, id)? {
            let has_spec = |one: &Folder| one.spec == SpecName::Spec;
            if self.disk.get(&id).is_some_and(has_spec) {
                self.write()?;
                self.disk.remove(&id);
            }
            self.keep_out(token, NEVER_AGAIN);
            return Ok(Outcome::Unknown);
        }
        if self.is_refused_after_a_claim(&token) {
            return Ok(Outcome::Ended);
        }
        let stage = self.stage(&token);
        let unmade = stage == Some(Stage::TakenAway)
            && self.disk.get(&id).is_some_and(|folder| folder.cancels == 0);
        let is_unstarted = stage.is_some_and(|stage| stage.is_unstarted());
        let is_made = is_unstarted || unmade;
        if is_made {
            self.write_cancel(token)?;
            if !unmade {
                self.began(clock, token)?;
            }
        }
        Ok(match self.agent().core.cancel(token) {
            None => Outcome::Unknown,
            Some(CancelDecision::NeverStarts) => Outcome::NeverStarted,
            Some(CancelDecision::Ended) => Outcome::Ended,
            Some(CancelDecision::Ask) => {
                if !is_made {
                    self.write_cancel(token)?;
                }
                self.ring(clock, id);
                Outcome::Asked
            }
        })
    }

    /// Whether a run without a start of ours was claimed all the same.
    pub fn began(&mut self, clock: &mut Clock, token: RunToken) -> Lived<bool> {
        let start = self.entry(&token).map_or(1, |one| one.incarnation.max(1));
        self.look(token, start);
        let is_taken_away = self.stage(&token) == Some(Stage::TakenAway);
        let Some(facts) = self.entry(&token).map(|one| one.facts) else {
            return Ok(false);
        };
        let found_the_cancel = is_taken_away && facts.not_started && !facts.started;
        if !facts.claimed || found_the_cancel {
            return Ok(false);
        }
        self.agent().core.began_after_all(token, start);
        self.agent().core.found(token, start, Decision::Follow);
        self.look_and_decide(clock, token, start, None)?;
        Ok(true)
    }

    pub fn recall(&mut self, clock: &mut Clock, run: &EndedRun, generation: u32) -> Lived<Outcome> {
        let (token, id) = (run.token, run.id);
        if self.stage(&token).is_none() && !self.adopt(clock, token, id)? {
            self.keep_out(token, generation);
            let was_recalled = |one: &Folder| one.spec == SpecName::Recalled;
            return Ok(match self.disk.get(&id).is_some_and(was_recalled) {
                true => Outcome::NeverStarted,
                false => Outcome::Unknown,
            });
        }
        match self.stage(&token) {
            Some(
                Stage::Starting { .. }
                | Stage::Submitted { .. }
                | Stage::Running { .. }
                | Stage::Held { .. },
            )
            | None => return Ok(Outcome::GoesOn),
            Some(Stage::Ended { .. } | Stage::Settled { .. }) => return Ok(Outcome::Ended),
            Some(Stage::Waiting | Stage::Refused | Stage::TakenAway) => {}
        }
        if self.is_refused_after_a_claim(&token) {
            return Ok(Outcome::Ended);
        }
        if self.is_never_launched(&token) {
            self.write()?;
            if let Some(folder) = self.folder(id) {
                folder.spec = SpecName::Recalled;
            }
            self.write()?;
            self.ledger.remove(&token);
            self.agent().core.left(token);
            self.drop_entry(&token);
            self.write()?;
            self.disk.remove(&id);
            self.keep_out(token, generation);
            return Ok(Outcome::Unknown);
        }
        self.never_start(clock, token, id)
    }

    pub fn is_never_launched(&mut self, token: &RunToken) -> bool {
        let agent = self.agent.as_ref().expect("a neromum is at work");
        let (Some(run), Some(entry)) = (agent.core.run(token), agent.entries.get(token)) else {
            return false;
        };
        let waits = run.stage == Stage::Waiting && !run.cancelled && !self.is_cancelled(token);
        let sent = entry.is_launched || entry.incarnation > 0;
        let folder = self.disk.get(&entry.id);
        let begun = folder.is_none_or(|one| one.is_prepared || one.newest() > 0);
        entry.is_fresh && waits && !sent && !begun
    }

    pub fn never_start(&mut self, clock: &mut Clock, token: RunToken, id: RunId) -> Lived<Outcome> {
        let is_recalled = self.entry(&token).is_some_and(|one| one.is_recalled);
        let is_cancelled = self.disk.get(&id).is_some_and(|folder| folder.cancels > 0);
        if !(is_recalled && is_cancelled) {
            if self.began(clock, token)? {
                return Ok(Outcome::GoesOn);
            }
            if !is_cancelled {
                self.write_cancel(token)?;
                if self.began(clock, token)? {
                    self.ring(clock, id);
                    return Ok(Outcome::Asked);
                }
            }
            self.agent().core.cancel(token);
            self.keep_out(token, NEVER_AGAIN);
        }
        if let Some(entry) = self.entry(&token) {
            entry.is_recalled = true;
        }
        self.write()?;
        if let Some(folder) = self.folder(id) {
            folder.spec = SpecName::Recalled;
        }
        Ok(Outcome::NeverStarted)
    }

    /// Holds a run that waits, or lets it go on.
    pub fn pause(
        &mut self,
        clock: &mut Clock,
        id: RunId,
        token: RunToken,
        holds: bool,
    ) -> Option<bool> {
        match self.stage(&token)? {
            Stage::Ended { .. } | Stage::Settled { .. } | Stage::TakenAway | Stage::Refused => {
                return Some(false);
            }
            Stage::Starting { .. } | Stage::Running { .. } | Stage::Held { .. } if holds => {
                return Some(false);
            }
            _ => {}
        }
        if let Some(folder) = self.folder(id)
            && (folder.pauses % 2 == 1) != holds
        {
            folder.pauses += 1;
        }
        note!(clock, Some(id), "{}: holds it: {holds}", self.name);
        self.agent().core.set_paused(token, holds);
        Some(true)
    }
}
