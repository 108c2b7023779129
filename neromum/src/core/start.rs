//! Starts: the choice of the next run, and the result of a try.

use nero_model::RunToken;

use super::capacity::Needs;
use super::{Core, Effect, Stage};

/// Number of failed starts in a row from which on the run gets pauses.
const VAIN_STARTS_MAX: u32 = 3;
/// Most runs that are looked at behind one that waits for the node's GPUs.
const PASSED_MAX: usize = 1000;

impl Core {
    /// Starts runs that fit, in order: the first that does not fit stops the
    /// rest. A run that waits for the node's own GPUs lets those pass that ask for
    /// none, as long as they leave the CPUs and the memory that it needs. While the
    /// GPUs are not known, or are too few for it, nothing is kept for it.
    pub fn schedule(&mut self) {
        let mut kept = Needs::default();
        let mut is_card_kept = false;
        let mut from = 0;
        let mut passed = 0;
        while self.hold.is_none() {
            let Some((&order, &token)) = self.queue.range(from..).next() else {
                return;
            };
            let run = &self.runs[&token];
            let (needs, incarnation) = (run.needs, run.next);
            passed += usize::from(from > 0);
            if passed > PASSED_MAX {
                return;
            }
            if is_card_kept && run.request.count > 0 {
                from = order + 1;
                self.set_why(token, "waits for GPUs: other runs are before it");
                continue;
            }
            let lack = self.capacity.lacks(self.used.plus(kept), needs);
            let cards = self.free_cards(needs.cards);
            let (None, Some(cards)) = (lack, cards) else {
                self.set_why(token, lack.unwrap_or("waits for GPUs"));
                return;
            };
            let shares = match self.pick_cards(token) {
                Ok(shares) => shares,
                Err(no) => {
                    self.set_why(token, &no.why);
                    from = order + 1;
                    if no.is_next {
                        kept = kept.plus(needs);
                        is_card_kept = true;
                    }
                    continue;
                }
            };
            if let Some(run) = self.runs.get_mut(&token) {
                run.cards = cards;
                run.shares = shares;
            }
            self.queue.remove(&order);
            self.set_stage(
                token,
                Stage::Starting {
                    incarnation,
                    launched: false,
                },
            );
            self.effects.push(Effect::Prepare { token, incarnation });
        }
    }

    /// The first of the cards that no run has; `None`: they are too few, or a run has some
    /// of which it is not known which.
    fn free_cards(&self, count: u32) -> Option<Vec<u32>> {
        let Some(all) = self.capacity.cards.filter(|_| count > 0) else {
            return Some(Vec::new());
        };
        let mut taken = Vec::new();
        for run in self.runs.values().filter(|run| run.holds().cards > 0) {
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
        let stage = Stage::Starting {
            incarnation,
            launched: false,
        };
        self.set_stage(token, stage);
        self.effects.push(Effect::Prepare { token, incarnation });
    }

    /// Whether a run would be started now if there were no hold.
    pub fn wants_to_start(&self) -> bool {
        let mut kept = Needs::default();
        let mut is_card_kept = false;
        for token in self.queue.values().take(PASSED_MAX + 1) {
            let run = &self.runs[token];
            if is_card_kept && run.request.count > 0 {
                continue;
            }
            let lack = self.capacity.lacks(self.used.plus(kept), run.needs);
            if lack.is_some() || self.free_cards(run.needs.cards).is_none() {
                return false;
            }
            match self.pick_cards(*token) {
                Ok(_) => return true,
                Err(no) if no.is_next => {
                    kept = kept.plus(run.needs);
                    is_card_kept = true;
                }
                Err(_) => {}
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
        let order = run.order;
        if run.cancelled {
            self.take_away(token);
            return;
        }
        self.set_stage(token, Stage::Waiting);
        self.enqueue(order, token);
    }

    pub(super) fn start_again(&mut self, token: RunToken, incarnation: u32) {
        let Some(run) = self.runs.get_mut(&token) else {
            return;
        };
        run.vain += 1;
        run.next = incarnation;
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
