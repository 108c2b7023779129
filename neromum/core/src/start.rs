//! Starts: the choice of the next run, and the result of a try.

use std::ops::Bound;

use nero_model::RunToken;

use super::capacity::Lack;
use super::turn::{CardGrant, First, Place};
use super::{Core, Effect, Stage};

/// Number of failed starts in a row from which on the run gets pauses.
const VAIN_STARTS_MAX: u32 = 3;
/// Most runs that are looked at behind the first.
const PASSED_MAX: usize = 1000;

impl Core {
    /// Starts the runs that have their turn: in order, and behind the first that has to wait
    /// those that cannot delay it. Notes why the others wait. A run whose GPUs are not known,
    /// or are too few for it, keeps nothing from others.
    pub fn schedule(&mut self, now_ms: u64) {
        self.forget_shared_cpus();
        let mut first = None;
        // Whether runs behind the first had a look of their own.
        let mut is_passed = false;
        let mut from = Bound::Unbounded;
        for _ in 0..=PASSED_MAX {
            if self.hold.is_some() {
                return;
            }
            let mut rest = self.queue.range((from, Bound::Unbounded));
            let Some((&place, &token)) = rest.next() else {
                return;
            };
            if self.keeps_all_behind(first.as_ref(), place) {
                self.tell_rest(place);
                self.rest_told = !is_passed;
                return;
            }
            is_passed |= first.is_some();
            self.rest_told &= !is_passed;
            from = Bound::Excluded(place);
            match self.turn_of(token, first.as_mut(), now_ms) {
                Ok(granted) => self.start(token, granted, now_ms),
                Err(waits) => {
                    self.set_why(token, &waits.why);
                    first = first.or(waits.first);
                }
            }
        }
    }

    /// Whether nothing is free of what the run at this place and all behind it need.
    fn keeps_all_behind(&self, first: Option<&First>, place: Place) -> bool {
        let is_full = self.used.micro_cpus >= self.capacity.micro_cpus;
        first.is_some() && is_full && place.takes_cpus
    }

    /// Tells the runs from this place on that they wait for CPUs. They know it until something
    /// is free, or the order changes; who enters the queue behind them is told then.
    fn tell_rest(&mut self, from: Place) {
        if self.rest_told {
            return;
        }
        let rest = self.queue.range(from..).take(PASSED_MAX);
        let rest: Vec<RunToken> = rest.map(|(_, token)| *token).collect();
        for token in rest {
            self.set_why(token, Lack::Cpus.wait_text());
        }
    }

    fn start(&mut self, token: RunToken, granted: CardGrant, now_ms: u64) {
        self.leave_queue(token);
        let Some(run) = self.runs.get_mut(&token) else {
            return;
        };
        run.cards = granted.cards;
        run.shares = granted.shares;
        // Until the record of its job's start is there.
        run.began_ms = Some(now_ms);
        run.was_paused = false;
        let incarnation = run.next;
        self.prepare(token, incarnation);
    }

    fn prepare(&mut self, token: RunToken, incarnation: u32) {
        let stage = Stage::Starting {
            incarnation,
            launched: false,
        };
        self.set_stage(token, stage);
        self.effects.push(Effect::Prepare { token, incarnation });
    }

    /// The first of the cards that no run has; `None`: they are too few, or a run has some
    /// of which it is not known which.
    pub(super) fn free_cards(&self, count: u32) -> Option<Vec<u32>> {
        let Some(all) = self.capacity.cards.filter(|_| count > 0) else {
            return Some(Vec::new());
        };
        let mut taken = Vec::new();
        for (_, run) in self.holding().filter(|(_, run)| run.holds().cards > 0) {
            if run.cards.is_empty() {
                return None;
            }
            taken.extend(&run.cards);
        }
        let free = (0..all).filter(|card| !taken.contains(card));
        let free: Vec<u32> = free.take(count as usize).collect();
        (free.len() == count as usize).then_some(free)
    }

    /// Starts a run that waits, whatever other runs hold. Only for runs whose shim
    /// starts no job, since a cancel request is on the disk.
    pub fn start_before_its_turn(&mut self, token: RunToken) {
        let waits = |run: &&super::Run| run.stage == Stage::Waiting;
        let Some(run) = self.runs.get(&token).filter(waits) else {
            return;
        };
        let incarnation = run.next;
        self.leave_queue(token);
        self.prepare(token, incarnation);
    }

    /// Whether a run would be started now if there were no hold.
    pub fn wants_to_start(&self, now_ms: u64) -> bool {
        let mut first = None;
        for (place, token) in self.queue.iter().take(PASSED_MAX + 1) {
            if self.keeps_all_behind(first.as_ref(), *place) {
                return false;
            }
            match self.turn_of(*token, first.as_mut(), now_ms) {
                Ok(_) => return true,
                Err(waits) => first = first.or(waits.first),
            }
        }
        false
    }

    /// Starts nothing new until [`Core::release`].
    pub fn hold(&mut self, why: &str) {
        if self.hold.as_deref() == Some(why) {
            return;
        }
        self.hold = Some(why.to_owned());
        self.tell_waiting(why);
    }

    /// Starts runs again.
    pub fn release(&mut self) {
        if self.hold.take().is_some() {
            self.tell_waiting("");
        }
    }

    fn tell_waiting(&mut self, why: &str) {
        self.rest_told = false;
        let waiting: Vec<_> = self.queue.values().copied().collect();
        for token in waiting {
            self.set_why(token, why);
        }
    }

    /// A run's folder is ready: launches it, unless it was cancelled meanwhile.
    pub fn prepared(&mut self, token: RunToken, incarnation: u32) {
        let Some(run) = self.runs.get_mut(&token) else {
            return;
        };
        let expected = Stage::Starting {
            incarnation,
            launched: false,
        };
        if run.stage != expected {
            return;
        }
        if run.cancelled && incarnation == 1 {
            self.take_away(token);
            return;
        }
        run.stage = Stage::Starting {
            incarnation,
            launched: true,
        };
        self.effects.push(Effect::Launch { token, incarnation });
    }

    /// Notes that a run's folder cannot be built. With `again`, the missing
    /// resource may come back, and the run waits at the head of the queue.
    pub fn not_prepared(&mut self, token: RunToken, why: &str, again: bool) {
        if !self.runs.get(&token).is_some_and(|run| {
            matches!(
                run.stage,
                Stage::Starting {
                    launched: false,
                    ..
                }
            )
        }) {
            return;
        }
        if again {
            self.back_to_queue(token);
            self.effects.push(Effect::HoldStarts {
                why: why.to_owned(),
            });
        } else {
            self.refuse(token, why);
        }
    }

    /// Notes that the launcher was gone before it got this run, or reported
    /// that it could not start it: the run waits again, first in the queue.
    pub fn not_launched(&mut self, token: RunToken, why: &str) {
        self.back_to_queue(token);
        self.effects.push(Effect::HoldStarts {
            why: why.to_owned(),
        });
    }

    /// Notes that the launcher can never start this run.
    pub fn cannot_launch(&mut self, token: RunToken, why: &str) {
        if self
            .runs
            .get(&token)
            .is_some_and(|run| matches!(run.stage, Stage::Starting { .. }))
        {
            self.refuse(token, why);
        }
    }

    pub(super) fn back_to_queue(&mut self, token: RunToken) {
        let run = self.runs.get(&token);
        if run.is_some_and(|run| matches!(run.stage, Stage::Starting { .. })) {
            self.enqueue_again(token);
        }
    }

    /// Puts a run that began nothing back into its place in the queue, or takes it
    /// away if it was cancelled meanwhile.
    pub(super) fn enqueue_again(&mut self, token: RunToken) {
        let Some(run) = self.runs.get(&token) else {
            return;
        };
        if run.cancelled {
            self.take_away(token);
            return;
        }
        self.set_stage(token, Stage::Waiting);
        self.enqueue(token);
    }

    pub(super) fn start_again(&mut self, token: RunToken, incarnation: u32) {
        let Some(run) = self.runs.get_mut(&token) else {
            return;
        };
        run.vain += 1;
        run.next = incarnation;
        run.began_ms = None;
        let vain = run.vain;
        if self.runs[&token].cancelled && incarnation == 1 {
            self.take_away(token);
            return;
        }
        let run = &self.runs[&token];
        let lacks_cards = run.needs.cards > 0 && run.cards.is_empty();
        let lacks_shares = run.request.count > 0 && run.shares.is_empty();
        let lacks = (lacks_cards && self.capacity.cards.is_some()) || lacks_shares;
        if lacks && !run.cancelled {
            // An earlier process started it.
            self.leave_queue(token);
            self.enqueue_again(token);
            return;
        }
        self.leave_queue(token);
        self.set_stage(
            token,
            Stage::Starting {
                incarnation,
                launched: false,
            },
        );
        self.effects.push(if vain < VAIN_STARTS_MAX {
            Effect::Prepare { token, incarnation }
        } else {
            Effect::PrepareLater {
                token,
                incarnation,
                vain,
            }
        });
    }
}
