//! When the node tells people of ends by itself: an order is there, neroman has not followed for
//! long enough, and a run of the order has ended.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use nero_model::RunToken;
use nero_node_core::Stage;
use nero_wire::v1::{RelayClaims, RelayOrder};
use tokio::time::Instant;

use super::calls::OrderAnswer;
use super::{Agent, CallRefusal, Driver, WorkResult};
use crate::letters::{EndedRun, LetterDesk, NotifiedEnds};
use crate::runs::{segments, spec};

/// Runs that end within this time are in one letter.
const GATHER: Duration = Duration::from_secs(10);
/// A neroman that follows gives its order within this time, if it has one.
const ORDER_WITHIN: Duration = Duration::from_secs(60);
/// Letters that cannot be sent are given up after so many tries.
const TRIES_MAX: u32 = 20;

/// Whether a neroman follows, and since when.
#[derive(Clone, Copy, Debug)]
enum Presence {
    Here(Instant),
    Away(Instant),
}

/// The order, and how far it was carried out.
#[derive(Debug)]
pub(super) struct Letters {
    desk: LetterDesk,
    order: Option<Arc<RelayOrder>>,
    presence: Presence,
    /// When an order came last.
    ordered: Option<Instant>,
    /// Runs of the order of which everybody was told.
    done: HashSet<RunToken>,
    /// Whether a round or an order is being worked at.
    is_busy: bool,
    orders: VecDeque<(RelayOrder, OrderAnswer)>,
    /// No letter before.
    not_before: Option<Instant>,
    /// When the runs that ended since the last letter are told.
    gathered: Option<Instant>,
    failures: u32,
}

impl Letters {
    pub fn new(desk: LetterDesk) -> Self {
        Self {
            order: None,
            desk,
            presence: Presence::Away(Instant::now()),
            ordered: None,
            done: HashSet::new(),
            is_busy: false,
            orders: VecDeque::new(),
            not_before: None,
            gathered: None,
            failures: 0,
        }
    }

    /// Takes up what an earlier neromum was ordered.
    pub(super) fn recover(&mut self) {
        self.order = self.desk.order().map(Arc::new);
    }

    fn follows_now(&mut self, somebody: bool) {
        let now = Instant::now();
        match self.presence {
            Presence::Away(_) if somebody => self.presence = Presence::Here(now),
            Presence::Here(since) if !somebody => {
                self.presence = Presence::Away(now);
                let is_old = |ordered: Instant| ordered + ORDER_WITHIN < since;
                // Another node has the order by now, or none has.
                let is_stale = since.elapsed() > ORDER_WITHIN && self.ordered.is_none_or(is_old);
                if is_stale && self.order.take().is_some() {
                    self.desk.forget_order();
                }
            }
            Presence::Away(_) | Presence::Here(_) => {}
        }
    }
}

impl<D: Driver> Agent<D> {
    /// An order of neroman. It is answered when letters without an outcome have one.
    pub(super) fn order_letters(&mut self, order: RelayOrder, answer: OrderAnswer) {
        self.letters.ordered = Some(Instant::now());
        self.letters.orders.push_back((order, answer));
    }

    /// Works at an order, or sends letters, if that is to be done now.
    pub(super) fn see_to_letters(&mut self) {
        self.timers.letters = None;
        self.letters.follows_now(self.is_followed());
        if self.letters.is_busy {
            return;
        }
        let desk = self.letters.desk.clone();
        if let Some((order, answer)) = self.letters.orders.pop_front() {
            self.letters.is_busy = true;
            self.off_reactor(WorkResult::Ordered(None), move || {
                let settled = desk.settle(&order);
                let claims = settled.map(|claims| RelayClaims { claims });
                let claims = claims.map_err(|error| CallRefusal::Disk(error.to_string()));
                let is_kept = claims.is_ok();
                // A caller that has left asks again.
                let _ = answer.send(claims);
                WorkResult::Ordered(is_kept.then(|| Box::new(order)))
            });
            return;
        }
        let (Some(order), Presence::Away(away_since)) =
            (self.letters.order.clone(), self.letters.presence)
        else {
            return;
        };
        let ended: Vec<RunToken> = (self.open_letters(&order))
            .filter(|token| self.has_ended(token))
            .collect();
        if ended.is_empty() {
            self.letters.gathered = None;
            return;
        }
        let now = Instant::now();
        let after = Duration::from_millis(order.after_ms);
        let gathered = now + GATHER.min(after);
        let gathered = *self.letters.gathered.get_or_insert(gathered);
        let due = (self.letters.not_before.into_iter())
            .chain([away_since + after, gathered])
            .max();
        if let Some(due) = due.filter(|due| *due > now) {
            self.timers.letters = Some(due);
            return;
        }
        self.letters.is_busy = true;
        let setup = self.setup.clone();
        let ids = ended.iter().filter_map(|token| {
            let entry = self.entries.get(token)?;
            Some((*token, entry.id, entry.incarnation))
        });
        let runs: Vec<_> = ids.collect();
        self.off_reactor(WorkResult::Told(NotifiedEnds::default()), move || {
            let read = |(token, id, incarnation): &(RunToken, _, u32)| {
                let spec = spec::read(&setup.paths, *id, *token).ok();
                let start = segments::folder(&setup.paths.run(*id), *incarnation);
                EndedRun::read(*id, *token, spec.as_ref(), &start)
            };
            let ended: Vec<EndedRun> = runs.iter().map(read).collect();
            WorkResult::Told(desk.tell(&order, &ended, away_since.elapsed()))
        });
    }

    pub(super) fn ordered(&mut self, order: Option<Box<RelayOrder>>) {
        self.letters.is_busy = false;
        if let Some(order) = order {
            let is_empty = order.tokens.is_empty();
            self.letters.order = (!is_empty).then(|| Arc::from(order));
            self.letters.done.clear();
            self.letters.failures = 0;
        }
    }

    pub(super) fn record_notified_ends(&mut self, told: NotifiedEnds) {
        let letters = &mut self.letters;
        letters.is_busy = false;
        letters.gathered = None;
        let after_ms = letters.order.as_ref().map_or(0, |order| order.after_ms);
        letters.not_before = Some(Instant::now() + Duration::from_millis(after_ms));
        letters.done.extend(told.done);
        letters.failures = if told.has_failed {
            letters.failures + 1
        } else {
            0
        };
        if letters.failures >= TRIES_MAX {
            tracing::error!("letters are given up: neroman tells these ends when it is back");
            letters.order = None;
        }
    }

    /// Whether somebody waits for the end of a run, or for a letter.
    pub(super) fn has_letters(&self) -> bool {
        let order = self.letters.order.as_ref();
        self.letters.is_busy || order.is_some_and(|order| self.open_letters(order).next().is_some())
    }

    fn open_letters<'a>(&'a self, order: &'a RelayOrder) -> impl Iterator<Item = RunToken> + 'a {
        let tokens = order.tokens.iter();
        let tokens = tokens.filter_map(|token| RunToken::from_slice(token));
        tokens.filter(|token| {
            let stage = self.core.run(token).map(|run| &run.stage);
            let is_here = !matches!(stage, None | Some(Stage::TakenAway | Stage::Refused));
            is_here && !self.letters.done.contains(token)
        })
    }

    fn has_ended(&self, token: &RunToken) -> bool {
        let stage = self.core.run(token).map(|run| &run.stage);
        let is_synced = self.entries.get(token).is_some_and(|entry| !entry.unsynced);
        is_synced && matches!(stage, Some(Stage::Ended { .. } | Stage::Settled { .. }))
    }
}
