//! Turns: the order in which runs wait, and which of them may pass the first one.
//!
//! A run passes only if that cannot delay the first: it ends before the first can start by
//! the time limits of what runs, or takes nothing that the first needs.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt::Write as _;

use nero_model::units::short_bytes;
use nero_model::{RunId, RunToken};

use super::capacity::{Capacity, Lack, Needs, cpus};
use super::cards::Share;
use super::run::Run;
use super::{Core, Stage};

/// Most holders of a resource that are named.
const HOLDERS_NAMED_MAX: usize = 3;

/// What decides when a run has its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Runs of a higher one go first.
    pub priority: i32,
    /// When it was asked for, by the clock of its neroman; 0: not stated.
    pub since_ms: u64,
    /// Its place among the runs that were asked for together.
    pub rank: u32,
    /// So long after the start of its job nothing of it is alive; 0: not known.
    pub lasts_ms: u64,
}

/// The order of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Those that take no processors wait for nobody.
    pub(super) takes_cpus: bool,
    priority: Reverse<i32>,
    since_ms: u64,
    rank: u32,
    order: u64,
}

impl Run {
    pub(super) fn place(&self) -> Place {
        let turn = self.turn;
        Place {
            takes_cpus: self.needs.micro_cpus > 0,
            priority: Reverse(turn.priority),
            since_ms: turn.since_ms,
            rank: turn.rank,
            order: self.order,
        }
    }

    /// The moment at which it has ended at the latest. A pause stops its time limit.
    fn ends_by_ms(&self) -> Option<u64> {
        let lasts_ms = Some(self.turn.lasts_ms).filter(|ms| *ms > 0 && !self.was_paused)?;
        Some(self.began_ms?.saturating_add(lasts_ms))
    }
}

/// The first run that waits, and what the others must leave to it.
pub(super) struct First {
    id: RunId,
    needs: Needs,
    asks_cards: bool,
    /// When it starts at the latest, and what runs hold beyond that; `None`: not known.
    start: Option<(u64, Needs)>,
}

impl First {
    /// Whether a run may start before it, whose resources are free now. Counts that run in.
    fn lets_pass(&mut self, run: &Run, used: Needs, capacity: Capacity, now_ms: u64) -> bool {
        let lasts_ms = run.turn.lasts_ms;
        if let Some((start_ms, _)) = self.start
            && lasts_ms > 0
            && !run.was_paused
            && now_ms.saturating_add(lasts_ms) <= start_ms
        {
            return true;
        }
        if self.asks_cards && run.request.count > 0 {
            return false;
        }
        let leaves_room = |held: Needs| capacity.lacks(held.plus(self.needs), run.needs).is_none();
        let later = self.start.is_some_and(|(_, held)| leaves_room(held));
        if !later && !leaves_room(used) {
            return false;
        }
        if let Some((_, held)) = &mut self.start {
            *held = held.plus(run.needs);
        }
        true
    }
}

/// What a start gets of the cards.
pub(super) struct CardGrant {
    pub(super) cards: Vec<u32>,
    pub(super) shares: Vec<Share>,
}

/// Why a run does not start now.
pub(super) struct WaitCause {
    pub(super) why: Cow<'static, str>,
    /// It is the first that waits.
    pub(super) first: Option<First>,
}

impl WaitCause {
    fn behind(why: impl Into<Cow<'static, str>>) -> Self {
        Self {
            why: why.into(),
            first: None,
        }
    }
}

impl Core {
    /// Notes when a run has its turn.
    pub fn set_turn(&mut self, token: RunToken, turn: Turn) {
        let Some(run) = self.runs.get_mut(&token) else {
            return;
        };
        let before = run.place();
        run.turn = turn;
        let after = run.place();
        if self.queue.remove(&before).is_some() {
            self.put_in_queue(after, token);
        }
    }

    /// Notes when the job of a run's newest start began, by the boot clock.
    pub fn set_began(&mut self, token: RunToken, began_ms: u64) {
        if let Some(run) = self.runs.get_mut(&token) {
            run.began_ms = Some(began_ms);
        }
    }

    /// Whether a run that waits has its turn, when `first` waits before it.
    pub(super) fn turn_of(
        &self,
        token: RunToken,
        first: Option<&mut First>,
        now_ms: u64,
    ) -> Result<CardGrant, WaitCause> {
        let run = &self.runs[&token];
        if run.needs.is_nothing() && run.request.count == 0 {
            return Ok(CardGrant {
                cards: Vec::new(),
                shares: Vec::new(),
            });
        }
        let lack = self.capacity.lacks(self.used, run.needs);
        let Some(first) = first else {
            let cards = self.free_cards(run.needs.cards);
            let lack = lack.or_else(|| cards.is_none().then_some(Lack::Cards));
            let (None, Some(cards)) = (lack, cards) else {
                return Err(WaitCause {
                    why: self
                        .lack_in_words(lack.unwrap_or(Lack::Cards), run.needs)
                        .into(),
                    first: Some(self.reserve(token)),
                });
            };
            return match self.pick_cards(token) {
                Ok(shares) => Ok(CardGrant { cards, shares }),
                Err(no) => Err(WaitCause {
                    first: no.is_next.then(|| self.reserve(token)),
                    why: no.why.into(),
                }),
            };
        };
        if let Some(lack) = lack {
            return Err(WaitCause::behind(lack.wait_text()));
        }
        if first.asks_cards && first.start.is_none() && run.request.count > 0 {
            return Err(WaitCause::behind(
                "waits for GPUs: other runs are before it",
            ));
        }
        let Some(cards) = self.free_cards(run.needs.cards) else {
            return Err(WaitCause::behind(Lack::Cards.wait_text()));
        };
        let shares = self
            .pick_cards(token)
            .map_err(|no| WaitCause::behind(no.why))?;
        if first.lets_pass(run, self.used, self.capacity, now_ms) {
            Ok(CardGrant { cards, shares })
        } else {
            let why = format!("waits for its turn: it would delay {}", first.id);
            Err(WaitCause::behind(why))
        }
    }

    /// When a run that cannot start now does so at the latest, by the time limits of those
    /// that run.
    fn reserve(&self, token: RunToken) -> First {
        let run = &self.runs[&token];
        let ends = self.holding();
        let ends = ends.filter_map(|(token, run)| Some((run.ends_by_ms()?, token)));
        let mut ends: Vec<(u64, RunToken)> = ends.collect();

        ends.sort_unstable_by_key(|(ends_ms, token)| (*ends_ms, *token.as_bytes()));
        let mut held = self.used;
        let mut ended = Vec::with_capacity(ends.len());
        let mut start = None;
        for (ends_ms, other) in ends {
            held = held.minus(self.runs[&other].holds());
            ended.push(other);
            let fits = self.capacity.lacks(held, run.needs).is_none();
            if fits && self.has_cards_after(token, &ended) {
                start = Some((ends_ms, held));
                break;
            }
        }
        First {
            id: run.id,
            needs: run.needs,
            asks_cards: run.request.count > 0,
            start,
        }
    }

    /// The first run that waits and keeps something from others, and when it starts at the
    /// latest; for tests.
    #[cfg(test)]
    pub(super) fn first_waiting(&self) -> Option<(RunToken, Option<u64>)> {
        let mut waiting = self.queue.values();
        waiting.find_map(|token| {
            let waits = self.turn_of(*token, None, 0).err()?;
            Some((*token, waits.first?.start.map(|(start_ms, _)| start_ms)))
        })
    }

    /// The runs behind the first that keeps something from others, while no CPU is free; for tests.
    #[cfg(test)]
    pub(super) fn rest_without_cpus(&self) -> Vec<RunToken> {
        let is_full = self.used.micro_cpus >= self.capacity.micro_cpus;
        let first = self.first_waiting().filter(|_| is_full);
        let waiting = self.queue.iter();
        let rest = waiting.skip_while(|(_, token)| Some(**token) != first.map(|(token, _)| token));
        let rest = rest.skip(1).filter(|(place, _)| place.takes_cpus);
        rest.map(|(_, token)| *token).collect()
    }

    /// What the first run that waits lacks, and which runs have it.
    fn lack_in_words(&self, lack: Lack, needs: Needs) -> String {
        let (used, has) = (self.used, self.capacity);
        let left = |has: u64, used: u64| has.saturating_sub(used);
        let (asks, free, all) = match lack {
            Lack::Cpus => (
                cpus(needs.micro_cpus).to_string(),
                cpus(left(has.micro_cpus, used.micro_cpus)).to_string(),
                cpus(has.micro_cpus).to_string(),
            ),
            Lack::Memory => {
                let all = has.memory_bytes.unwrap_or_default();
                let free = left(all, used.memory_bytes);
                let words = [needs.memory_bytes, free, all].map(short_bytes);
                let [asks, free, all] = words;
                (asks, free, all)
            }
            Lack::Cards => {
                let all = has.cards.unwrap_or_default();
                let free = all.saturating_sub(used.cards);
                (needs.cards.to_string(), free.to_string(), all.to_string())
            }
        };
        let mut words = format!(
            "{}: asks for {asks}, {free} of {all} free",
            lack.wait_text()
        );
        let holders = self.holding().map(|(_, run)| run);
        let holders = holders.filter(|run| lack.of(run.holds()) > 0);
        let mut holders: Vec<&Run> = holders.collect();

        holders.sort_unstable_by_key(|run| run.id);
        for (at, run) in holders.iter().take(HOLDERS_NAMED_MAX).enumerate() {
            let before = if at == 0 { "; taken by" } else { "," };
            let _ = write!(words, "{before} {}", run.id);
            if run.paused {
                words.push_str(" (paused)");
            }
        }
        if holders.len() > HOLDERS_NAMED_MAX {
            let _ = write!(words, " and {} more", holders.len() - HOLDERS_NAMED_MAX);
        }
        words
    }

    /// Notes of a run that goes on after a pause that others have its CPUs by now.
    pub(super) fn note_shared_cpus(&mut self, token: RunToken) {
        let is_over = self.used.micro_cpus > self.capacity.micro_cpus;
        let runs = |run: &Run| matches!(run.stage, Stage::Running { .. });
        if is_over && self.runs.get(&token).is_some_and(runs) {
            let why = format!(
                "{} CPUs are given to runs and the node has {}: others started while it was paused",
                cpus(self.used.micro_cpus),
                cpus(self.capacity.micro_cpus)
            );
            self.shares_cpus.insert(token);
            self.set_why(token, &why);
        }
    }

    /// Takes these notes back when the CPUs are enough again.
    pub(super) fn forget_shared_cpus(&mut self) {
        if self.shares_cpus.is_empty() || self.used.micro_cpus > self.capacity.micro_cpus {
            return;
        }
        for token in std::mem::take(&mut self.shares_cpus) {
            let runs = |run: &Run| matches!(run.stage, Stage::Running { .. });
            if self.runs.get(&token).is_some_and(runs) {
                self.set_why(token, "");
            }
        }
    }
}
