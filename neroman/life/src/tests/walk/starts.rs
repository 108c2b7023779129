//! How a node decides about a start, and carries the decision out.

use nero_model::process::Life;
use nero_model::{RunId, RunToken};
use nero_node_core::decide::{Decision, Origin, ProcessLives, TrackingState, decide};
use nero_node_core::facts::Facts;
use nero_node_core::{Effect, Stage};

use super::folder::{Folder, SpecName};
use super::node::{Entry, Lived, Node};
use super::world::{Clock, Due, Event, Go, News, note};
use crate::tests::reach::node::Rec;

impl Node {
    /// Reads what is on the disk of a start.
    pub fn look(&mut self, token: RunToken, start: u32) {
        let Some(entry) = self.agent.as_mut().and_then(|a| a.entries.get_mut(&token)) else {
            return;
        };
        let Some(folder) = self.disk.get(&entry.id) else {
            return;
        };
        if start < entry.incarnation {
            return;
        }
        entry.incarnation = start;
        entry.facts = folder.facts(start);
        self.mark(token);
    }

    pub fn look_and_decide(
        &mut self,
        clock: &mut Clock,
        token: RunToken,
        start: u32,
        tracking: Option<TrackingState>,
    ) -> Lived {
        let boot = self.boot;
        let Some(&mut Entry { id, is_tracked, .. }) = self.entry(&token) else {
            return Ok(());
        };
        let tracking = tracking.unwrap_or(match is_tracked {
            true => TrackingState::Tracked,
            false => TrackingState::Nobody,
        });
        let shim = self.shim_of(id, start).map(|(_, shim)| shim);
        self.look(token, start);
        let entry = &self.agent().entries[&token];
        let (facts, start) = (entry.facts, entry.incarnation.max(1));
        let claim = self.disk.get(&id).and_then(|one| one.claims.get(&start));
        let claimed_in = claim.copied().flatten();
        let is_over = claimed_in.is_some_and(|of| of != boot);
        let life = |is_alive: bool| match (is_over, is_alive) {
            (true, _) => Life::Rebooted,
            (false, true) => Life::Alive,
            (false, false) => Life::Dead,
        };
        let lives = match (tracking, claimed_in) {
            (TrackingState::Nobody, Some(_)) => ProcessLives {
                shim: Some(life(shim.is_some_and(|shim| shim.is_alive))),
                job: facts
                    .started
                    .then(|| life(shim.is_some_and(|shim| shim.is_job_alive))),
            },
            _ => ProcessLives::UNKNOWN,
        };
        let origin = if is_over { Origin::Over } else { Origin::Here };
        let decision = decide(&facts, lives, tracking, origin);
        let is_proven = matches!(
            decision,
            Decision::Ended | Decision::SayRebooted | Decision::Elsewhere
        );
        if tracking == TrackingState::Nobody && self.agent().link.is_none() && !is_proven {
            return Ok(());
        }
        self.agent().core.found(token, start, decision);
        self.carry_out(clock)
    }

    /// Carries out what the core wants, until nothing is left.
    pub fn carry_out(&mut self, clock: &mut Clock) -> Lived {
        loop {
            self.start_what_fits(clock);
            let effects = self.agent().core.take_effects();
            if effects.is_empty() {
                return Ok(());
            }
            for effect in effects {
                self.effect(clock, effect)?;
            }
        }
    }

    pub fn start_what_fits(&mut self, clock: &mut Clock) {
        let (is_full, now) = (self.is_full, clock.now.unsigned_abs());
        self.see_to_cards(clock);
        let agent = self.agent();
        if agent.link.is_none() || agent.core.held().is_some() {
            return;
        }
        if is_full && agent.core.wants_to_start(now) {
            agent.core.hold("disk full");
            return self.later(clock, 5000, Due::Release);
        }
        agent.core.schedule(now);
    }

    pub fn effect(&mut self, clock: &mut Clock, effect: Effect) -> Lived {
        match effect {
            Effect::Prepare { token, incarnation }
            | Effect::PrepareLater {
                token, incarnation, ..
            } => {
                self.check_turn(clock, &token, incarnation);
                self.prepare(clock, token, incarnation)?;
            }
            Effect::SayCancelled { token, incarnation } => {
                self.say(clock, token, incarnation, Rec::NotStartedCancelled)?;
            }
            Effect::Launch { .. } => {}
            Effect::Guard { token, incarnation } => self.guard(clock, token, incarnation)?,
            Effect::SayGateClosed { token, incarnation } => {
                let id = self.agent().entries[&token].id;
                self.write()?;
                let folder = self.folder(id).expect("a claimed run has a folder");
                if folder.passed_gates.contains(&incarnation) {
                    return self.look_and_decide(clock, token, incarnation, None);
                }
                folder.closed_gates.insert(incarnation);
                self.say(clock, token, incarnation, Rec::GateClosed)?;
            }
            Effect::SayLost {
                token, incarnation, ..
            } => self.say(clock, token, incarnation, Rec::Rebooted)?,
            Effect::KeepEnd { token, incarnation } => {
                self.rewrite(&token, |kept| kept.exited = Some(incarnation))?;
                if let Some(entry) = self.entry(&token) {
                    entry.is_tracked = false;
                }
                let ms = clock.dice.ms(20, 300);
                self.later(clock, ms, Due::Settled(token));
            }
            Effect::TakeAway { token } => {
                self.rewrite(&token, |kept| kept.is_taken_away = true)?;
                let id = self.entry(&token).map(|entry| entry.id);
                let folder = id.and_then(|id| self.disk.get(&id));
                let has_start = folder.is_some_and(|folder| folder.newest() > 0);
                if has_start && !self.is_cancelled(&token) {
                    self.write_cancel(token)?;
                }
            }
            Effect::Report { token } => self.report(token),
            Effect::HoldStarts { why } => {
                self.agent().core.hold(&why);
                self.later(clock, 500, Due::Release);
            }
            Effect::Vanished { .. } | Effect::SayTaskOver { .. } => {
                clock.breaks("a node without a scheduler has no tasks", None);
            }
        }
        Ok(())
    }

    /// Appends a record that no other process can, and looks at the run anew.
    pub fn say(&mut self, clock: &mut Clock, token: RunToken, start: u32, record: Rec) -> Lived {
        let id = self.agent().entries[&token].id;
        self.write()?;
        let folder = self.folder(id).expect("a run that began has a folder");
        folder.record(start, record, None);
        note!(clock, Some(id), "n{}: start {start}: {record:?}", self.at);
        self.look_and_decide(clock, token, start, None)
    }

    pub fn prepare(&mut self, clock: &mut Clock, token: RunToken, start: u32) -> Lived {
        let Some(&mut Entry { id, .. }) = self.entry(&token) else {
            return Ok(());
        };
        self.write()?;
        match self.folder(id) {
            Some(folder) if folder.spec == SpecName::Spec && folder.is_damaged => {
                if !self.gives_back(clock, token, id)? {
                    self.agent().core.not_prepared(token, "damaged", false);
                }
            }
            Some(folder) if folder.spec == SpecName::Spec => {
                folder.is_prepared = true;
                folder.claims.entry(start).or_insert(None);
                let ms = clock.dice.ms(0, 60);
                self.later(clock, ms, Due::Prepared(token, start));
            }
            _ => clock.breaks("a run that starts has its spec", Some(id)),
        }
        Ok(())
    }

    pub fn prepared(&mut self, clock: &mut Clock, token: RunToken, start: u32) -> Lived {
        let launched = Stage::Starting {
            incarnation: start,
            launched: true,
        };
        let agent = self.agent();
        let Some(launcher) = agent.link else {
            agent
                .core
                .not_launched(token, "the launcher does not answer");
            return Ok(());
        };
        let lock = self.give_cards(token, start)?;
        let agent = self.agent();
        agent.core.prepared(token, start);
        let run = agent.core.run(&token);
        if run.is_none_or(|run| run.stage != launched) {
            return Ok(());
        }
        let Some(entry) = agent.entries.get_mut(&token) else {
            return Ok(());
        };
        entry.incarnation = start;
        entry.facts = Facts::default();
        entry.is_launched = true;
        entry.is_tracked = true;
        let id = entry.id;
        self.look(token, start);
        // A launch that is on its way to a launcher that dies is lost.
        if self.launcher == Some(launcher) && self.is_locked(lock) {
            clock.soon(Event::Told(self.at, launcher, token, start, News::Locked));
        } else if self.launcher == Some(launcher) {
            let shim = self.new_shim(id, start, launcher, lock);
            clock.soon(Event::Start(self.at, shim, Go::Claim));
        }
        Ok(())
    }

    /// Asks the launcher to look after a run that goes on, or to record its end.
    pub fn guard(&mut self, clock: &mut Clock, token: RunToken, start: u32) -> Lived {
        let at = self.at;
        let agent = self.agent();
        let Some(launcher) = agent.link else {
            return Ok(());
        };
        let Some(entry) = agent.entries.get_mut(&token) else {
            return Ok(());
        };
        entry.is_tracked = true;
        let id = entry.id;
        if self.launcher != Some(launcher) {
            return Ok(());
        }
        note!(clock, Some(id), "n{at}: the launcher looks after it");
        if let Some((number, shim)) = self.shim_of(id, start)
            && (shim.is_alive || shim.is_job_alive)
        {
            self.shims.get_mut(&number).expect("it is there").launcher = launcher;
            clock.soon(Event::Told(at, launcher, token, start, News::Begun));
        } else {
            // It sweeps what is left; no process saw the exit code.
            let number = self.new_shim(id, start, launcher, None);
            let shim = self.shims.get_mut(&number).expect("it is there");
            (shim.is_alive, shim.has_claim) = (false, true);
            let ms = clock.dice.ms(5, 200);
            clock.after(ms, Event::Start(at, number, Go::End));
        }
        Ok(())
    }

    pub fn ring(&mut self, clock: &mut Clock, id: RunId) {
        let newest = self.disk.get(&id).map_or(0, Folder::newest);
        if let Some((shim, _)) = self.shim_of(id, newest) {
            clock.soon(Event::Start(self.at, shim, Go::Ring));
        }
    }

    /// Makes the next cancel request.
    pub fn write_cancel(&mut self, token: RunToken) -> Lived {
        let id = self.agent().entries[&token].id;
        let number = self.disk.get(&id).map_or(0, |folder| folder.cancels) + 1;
        self.rewrite(&token, |kept| kept.cancels = number)?;
        self.write()?;
        if let Some(folder) = self.folder(id) {
            folder.cancels = number;
        }
        Ok(())
    }
}
