//! Cards (GPUs) of a node: a run asks for a half of one, or for all of it. What living processes
//! have locked is the system's; the ledger has what each start got.

use nero_model::RunToken;
use nero_node_core::cards::{Card, CardRequest, Pool, Share, WHOLE};

use super::node::{Lived, Node};
use super::world::{Clock, Due};

/// The shares of a card that a process has locked: the card, from, to.
pub(super) type Lock = (u32, u32, u32);

/// What a run asks for.
pub(super) fn request(halves: u32) -> CardRequest {
    CardRequest {
        count: u32::from(halves > 0),
        share: halves * (WHOLE / 2),
        ..CardRequest::default()
    }
}

/// Whether one process keeps another one from its lock.
pub(super) fn overlap(one: Lock, other: Lock) -> bool {
    one.0 == other.0 && one.1 < other.2 && other.1 < one.2
}

fn lock(share: &Share) -> Lock {
    let card = share.uuid.parse().expect("cards are numbered");
    (card, share.start, share.start + share.length)
}

impl Node {
    /// What shims, jobs, and launchers in place of shims have locked.
    fn locks(&self) -> impl Iterator<Item = Lock> {
        let shims = self.shims.values();
        let living = shims.filter(|shim| {
            shim.is_alive || shim.is_job_alive || self.launcher == Some(shim.launcher)
        });
        living.filter_map(|shim| shim.lock)
    }

    pub fn look_at_cards(&mut self) {
        let card = |index: u32| Card {
            uuid: index.to_string(),
            index,
            locked: (self.locks().filter(|lock| lock.0 == index))
                .map(|(_, from, to)| (from, to))
                .collect(),
            ..Card::default()
        };
        let pool = Pool::Known((0..self.cpus.min(2)).map(card).collect());
        self.agent().core.set_pool(pool);
    }

    /// Looks at the cards while a run waits for some, and again after a moment.
    pub fn see_to_cards(&mut self, clock: &mut Clock) {
        if !self.agent().core.wants_cards().0 {
            return;
        }
        self.look_at_cards();
        if !std::mem::replace(&mut self.agent().looks_at_cards, true) {
            self.later(clock, 1000 * clock.rates.slow, Due::Cards);
        }
    }

    /// Writes down what a start got, and returns what its launcher is to lock.
    pub fn give_cards(&mut self, token: RunToken, start: u32) -> Lived<Option<Lock>> {
        let run = self.agent().core.run(&token);
        let run = run.filter(|run| run.request.count > 0 && !run.cancelled);
        let Some(shares) = run.map(|run| run.shares.clone()) else {
            return Ok(None);
        };
        let given = shares.first().map(lock);
        self.rewrite(&token, |kept| kept.cards = Some((start, shares)))?;
        Ok(given)
    }

    /// Whether a launcher finds shares locked.
    pub fn is_locked(&self, wanted: Option<Lock>) -> bool {
        wanted.is_some_and(|wanted| self.locks().any(|lock| overlap(lock, wanted)))
    }
}
