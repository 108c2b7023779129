//! What a rule would have done to past runs: replays the points that they printed, line by
//! line, as a watcher would have seen them.
//!
//! A rule over peers is replayed over all runs together, by the times of their points; a run
//! that the rule ends prints nothing after that, to its peers neither.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::cohort::CohortKey;
use crate::fold::pasts;
use crate::fold::run::Run;
use crate::fold::scope::Sight;
use nero_expr::{
    Bindings, Bound, Cohort, CohortNumber, Expr, ExprError, Fact, NameKind, Past, PastPoint, Scope,
    SeriesPast, Value,
};

/// Facts that the replay knows. Measurements of the past are not kept.
const KNOWN: [Fact; 11] = [
    Fact::Id,
    Fact::Name,
    Fact::Collection,
    Fact::Node,
    Fact::State,
    Fact::Attempt,
    Fact::Runtime,
    Fact::Timeleft,
    Fact::Command,
    Fact::Params,
    Fact::Tstart,
];

/// A past run.
#[derive(Debug)]
pub struct PastRun<'a> {
    pub sight: Sight<'a>,
    /// When its newest start began, on the wall clock.
    pub started_ms: i64,
    pub ran_ms: u64,
    /// Its time limit; 0: it had none.
    pub limit_ms: u64,
    /// Time between two looks without output.
    pub sample_ms: u64,
    pub series: Vec<PastSeries<'a>>,
}

/// One metric of it.
#[derive(Clone, Copy, Debug)]
pub struct PastSeries<'a> {
    pub name: &'a str,
    pub points: &'a Points,
}

/// The points of one metric, by time.
#[derive(Debug, Default)]
pub struct Points {
    /// Those of earlier starts of the job.
    pub earlier: Vec<PastPoint>,
    /// Those of the newest start; their times count from there.
    pub since_start: Vec<PastPoint>,
}

/// The points of a metric of this run, in the order in which they came, with their times on
/// its node's clock.
pub fn points(run: &Run, points: impl Iterator<Item = (PastPoint, i64)>) -> Points {
    let mut sorted = Points::default();
    let mut last_ms = 0;
    for (mut point, time_ms) in points {
        if pasts::is_of_earlier_start(run, &point) {
            sorted.earlier.push(point);
            continue;
        }
        // A clock that was set back makes no point earlier than the one before it.
        last_ms = pasts::since_start_ms(run, time_ms).max(last_ms);
        point.at_ms = last_ms;
        sorted.since_start.push(point);
    }
    sorted
}

/// The first time that the rule would have held.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstFiring {
    /// Since the start.
    pub ran_ms: u64,
    /// The step of the last line until then.
    pub step: Option<f64>,
    /// What it was about: `loss = 7 …`.
    pub values: String,
}

/// The first named fact that the replay does not know.
pub fn unknown_fact(rule: &Expr) -> Option<Fact> {
    rule.facts().iter().find(|fact| !KNOWN.contains(fact))
}

/// Whether points of this metric may matter to the rule.
pub fn needs(rule: &Expr, metric: &str) -> bool {
    let cohorts = rule.cohorts();
    let of_peers = cohorts.iter().flat_map(|one| one.of_each().unbound_names());
    let mut names = rule.unbound_names().iter().chain(of_peers);
    names.any(|name| pasts::means(name, metric))
}

/// When the rule would have held first in each of these runs; an error where it cannot
/// apply.
pub fn replay(rule: &Expr, runs: &[PastRun<'_>]) -> Vec<Result<Option<FirstFiring>, ExprError>> {
    let players = runs.iter().map(|run| Player::new(rule, run));
    if rule.cohorts().is_empty() {
        let alone = |player: Result<Player<'_>, ExprError>| player.map(Player::alone);
        return players.map(alone).collect();
    }
    together(rule, runs, players.collect())
}

/// Replays all runs by the times of their events.
fn together<'a>(
    rule: &'a Expr,
    runs: &[PastRun<'_>],
    mut players: Vec<Result<Player<'a>, ExprError>>,
) -> Vec<Result<Option<FirstFiring>, ExprError>> {
    let aggregates = rule.cohorts();
    let mut groups: BTreeMap<CohortKey<'_>, Vec<Vec<f64>>> = BTreeMap::new();
    let mut outcomes: Vec<Option<FirstFiring>> = vec![None; runs.len()];
    let mut queue = BinaryHeap::new();
    let next = |at: usize, player: &Player<'_>| {
        let wall_ms = |ran_ms: u64| runs[at].started_ms.saturating_add_unsigned(ran_ms);
        player
            .next_ms()
            .map(|ran_ms| Reverse((wall_ms(ran_ms), at)))
    };
    for (at, player) in players.iter().enumerate() {
        queue.extend(player.as_ref().ok().and_then(|player| next(at, player)));
    }
    while let Some(Reverse((wall_ms, at))) = queue.pop() {
        let Ok(player) = &mut players[at] else {
            continue;
        };
        let group = groups
            .entry(CohortKey::of(runs[at].sight.experiment))
            .or_insert_with(|| vec![Vec::new(); aggregates.len()]);
        let (until_ms, is_line) = player.next_event();
        player.scope.cohort.clear();
        for ((aggregate, sorted), own) in aggregates.iter().zip(&*group).zip(&player.as_peer) {
            let (value, peers) = aggregate.fold(sorted, *own);
            let number = CohortNumber {
                value,
                peers,
                at_ms: wall_ms,
            };
            player.scope.cohort.push((aggregate.text(), number));
        }
        let mut fired = player.pass_until(before(until_ms, is_line));
        if fired.is_none() && is_line {
            player.take_line(until_ms);
            for (number, sorted) in group.iter_mut().enumerate() {
                player.tell_peers(number, aggregates[number], sorted);
            }
            fired = player.evaluate();
        }
        match fired {
            Some(fired) => outcomes[at] = Some(fired),
            None => queue.extend(next(at, player)),
        }
    }
    let outcome = |(player, outcome): (Result<Player<'_>, _>, _)| player.map(|_| outcome);
    players.into_iter().zip(outcomes).map(outcome).collect()
}

/// The end of the time that passes before an event: what is printed at a moment counts there.
fn before(until_ms: u64, is_line: bool) -> u64 {
    until_ms.saturating_sub(u64::from(is_line))
}

/// The run at one moment.
#[derive(Debug)]
struct Moment<'a> {
    run: &'a PastRun<'a>,
    at_ms: u64,
    latest: Vec<Option<f64>>,
    pasts: Vec<SeriesPast>,
    cohort: Vec<(&'a str, CohortNumber)>,
}

/// One run as the replay goes on.
#[derive(Debug)]
struct Player<'a> {
    rule: &'a Expr,
    bindings: Bindings,
    scope: Moment<'a>,
    /// By series: the next point.
    next: Vec<usize>,
    step: Option<f64>,
    has_begun: bool,
    uses_clock: bool,
    /// By aggregate: its own number, as its peers see it.
    as_peer: Vec<Option<f64>>,
    /// By aggregate: the bindings of the expression of each peer.
    of_peers: Vec<Option<Bindings>>,
}

impl<'a> Player<'a> {
    fn new(rule: &'a Expr, run: &'a PastRun<'a>) -> Result<Self, ExprError> {
        let aggregates = rule.cohorts();
        let asked: Vec<Past> = rule.pasts().map(|(_, past)| past).collect();
        let of_peers = aggregates.iter().flat_map(|one| one.of_each().pasts());
        let asked: Vec<Past> = of_peers.map(|(_, past)| past).chain(asked).collect();
        let pasts = run.series.iter().map(|series| {
            let mut past = SeriesPast::default();
            for asked in &asked {
                past.want(*asked);
            }
            for point in &series.points.earlier {
                past.add_of_earlier_start(point);
            }
            past
        });
        let earlier = |series: &PastSeries<'_>| {
            let last = series.points.earlier.last();
            last.map(|point| point.value)
        };
        let scope = Moment {
            at_ms: 0,
            latest: run.series.iter().map(earlier).collect(),
            pasts: pasts.collect(),
            cohort: Vec::new(),
            run,
        };
        let bindings = rule.bind(&scope)?;
        let mut player = Self {
            uses_clock: rule.uses_clock() || rule.holds() || rule.facts().contains(Fact::Runtime),
            bindings,
            next: vec![0; run.series.len()],
            step: None,
            has_begun: false,
            as_peer: vec![None; aggregates.len()],
            of_peers: vec![None; aggregates.len()],
            scope,
            rule,
        };
        player.find_clock();
        Ok(player)
    }

    /// Whether a loosely written name means what time changes.
    fn find_clock(&mut self) {
        let bound = (0..self.rule.unbound_names().len()).filter_map(|slot| self.bindings.get(slot));
        let moves = |bound: &Bound| matches!(bound, Bound::Fact(Fact::Runtime | Fact::Timeleft));
        self.uses_clock |= bound.into_iter().any(moves);
    }

    fn alone(mut self) -> Option<FirstFiring> {
        while self.next_ms().is_some() {
            let (until_ms, is_line) = self.next_event();
            let fired = self.pass_until(before(until_ms, is_line)).or_else(|| {
                if !is_line {
                    return None;
                }
                self.take_line(until_ms);
                self.evaluate()
            });
            if fired.is_some() {
                return fired;
            }
        }
        None
    }

    /// Time and step of the next line.
    fn next_line(&self) -> Option<(u64, f64)> {
        let series = self.scope.run.series.iter().zip(&self.next);
        let heads = series.filter_map(|(series, next)| series.points.since_start.get(*next));
        heads
            .map(|point| (point.at_ms, point.step))
            .min_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)))
    }

    /// Time of the next event; `None` after the last.
    fn next_ms(&self) -> Option<u64> {
        if !self.has_begun {
            return Some(0);
        }
        let line = self.next_line().map(|(at_ms, _)| at_ms);
        let ran_ms = self.scope.run.ran_ms;
        let goes_on = self.uses_clock && self.scope.at_ms < ran_ms;
        let sample_ms = self.scope.run.sample_ms.max(1);
        let look = goes_on.then(|| ((self.scope.at_ms / sample_ms + 1) * sample_ms).min(ran_ms));
        match (line, look) {
            (Some(line), Some(look)) => Some(line.min(look)),
            (line, look) => line.or(look),
        }
    }

    /// The next event, and whether it is a line.
    fn next_event(&self) -> (u64, bool) {
        let until_ms = self.next_ms().unwrap_or(self.scope.at_ms);
        let line = self.next_line().is_some_and(|(at_ms, _)| at_ms == until_ms);
        (until_ms, line)
    }

    /// Lets time pass, and finds the first moment at which that alone makes the rule hold.
    fn pass_until(&mut self, until_ms: u64) -> Option<FirstFiring> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        while self.uses_clock && self.scope.at_ms < until_ms && self.holds_at(until_ms) {
            let (mut not_yet, mut holds) = (self.scope.at_ms, until_ms);
            while holds - not_yet > 1 {
                let middle = not_yet + (holds - not_yet) / 2;
                if self.holds_at(middle) {
                    holds = middle
                } else {
                    not_yet = middle
                }
            }
            self.scope.at_ms = holds;
            let fired = self.evaluate();
            if fired.is_some() {
                return fired;
            }
        }
        self.scope.at_ms = self.scope.at_ms.max(until_ms);
        // A `for` whose condition time ended holds no more.
        if is_first || self.rule.holds() {
            self.evaluate()
        } else {
            None
        }
    }

    fn holds_at(&mut self, at_ms: u64) -> bool {
        let now_ms = std::mem::replace(&mut self.scope.at_ms, at_ms);
        let holds = self.rule.eval(&self.bindings, &self.scope).is_true()
            || self.rule.begins_to_hold(&self.bindings, &self.scope);
        self.scope.at_ms = now_ms;
        holds
    }

    /// Takes the points of the next line.
    fn take_line(&mut self, at_ms: u64) {
        let Some((_, step)) = self.next_line() else {
            return;
        };
        self.scope.at_ms = at_ms;
        self.step = Some(step);
        for (at, series) in self.scope.run.series.iter().enumerate() {
            let next = &mut self.next[at];
            let Some(point) = series.points.since_start.get(*next) else {
                continue;
            };
            if point.at_ms != at_ms || point.step.total_cmp(&step).is_ne() {
                continue;
            }
            *next += 1;
            self.scope.pasts[at].add(point);
            if self.scope.latest[at].replace(point.value).is_none() {
                self.bindings.see(self.rule, NameKind::Metric, series.name);
                self.of_peers.fill(None);
            }
        }
    }

    /// Puts its number as a peer in place of the last one.
    fn tell_peers(&mut self, number: usize, aggregate: &Cohort, sorted: &mut Vec<f64>) {
        let known = &mut self.of_peers[number];
        if known.is_none() {
            *known = aggregate.of_each().bind(&self.scope).ok();
        }
        let bindings = known.as_ref();
        let value = bindings.and_then(|known| aggregate.bound_number_of(known, &self.scope));
        let before = std::mem::replace(&mut self.as_peer[number], value);
        if before == value {
            return;
        }
        let place = |sorted: &[f64], value: f64| sorted.partition_point(|one| *one < value);
        if let Some(before) = before {
            sorted.remove(place(sorted, before));
        }
        if let Some(value) = value {
            sorted.insert(place(sorted, value), value);
        }
    }

    /// Evaluates the rule now.
    fn evaluate(&mut self) -> Option<FirstFiring> {
        if self.rule.holds() {
            self.rule.note_held(&mut self.bindings, &self.scope);
        }
        if !self.rule.eval(&self.bindings, &self.scope).is_true() {
            return None;
        }
        let why = self.rule.explain(&self.bindings, &self.scope);
        let values = why.values.iter();
        let values: Vec<String> = values
            .map(|value| format!("{} = {}", value.written, value.shown))
            .collect();
        Some(FirstFiring {
            ran_ms: self.scope.at_ms,
            step: self.step,
            values: values.join(", "),
        })
    }
}

impl Moment<'_> {
    fn series(&self, name: &str) -> Option<usize> {
        self.run
            .series
            .iter()
            .position(|series| series.name == name)
    }
}

impl Scope for Moment<'_> {
    fn now_ms(&self) -> i64 {
        self.run.started_ms.saturating_add_unsigned(self.at_ms)
    }

    fn fact(&self, fact: Fact) -> Value<'_> {
        match fact {
            Fact::State => Value::Text("running"),
            Fact::Runtime => Value::number(self.at_ms as f64 / 1000.0),
            Fact::Tstart => Value::Time(self.run.started_ms),
            Fact::Timeleft => Value::number_or_unknown(
                (self.run.limit_ms > 0)
                    .then(|| (self.run.limit_ms.saturating_sub(self.at_ms)) as f64 / 1000.0),
            ),
            known if KNOWN.contains(&known) => self.run.sight.fact(known),
            _ => Value::Unknown,
        }
    }

    fn param(&self, name: &str) -> Value<'_> {
        self.run.sight.param(name)
    }

    fn metric(&self, name: &str) -> Option<f64> {
        self.latest[self.series(name)?]
    }

    fn past(&self, name: &str, past: Past) -> Option<f64> {
        self.pasts[self.series(name)?].value(past, self.at_ms)
    }

    fn cohort(&self, text: &str) -> Option<CohortNumber> {
        let known = self.cohort.iter().find(|(known, _)| *known == text)?;
        Some(known.1)
    }

    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        for param in &self.run.sight.experiment.definition.params {
            visit(NameKind::Param, &param.name);
        }
        let known = self.run.series.iter().zip(&self.latest);
        for (series, _) in known.filter(|(_, latest)| latest.is_some()) {
            visit(NameKind::Metric, series.name);
        }
    }
}

/// The best value of a run, and when it came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestValue {
    pub value: f64,
    pub at_ms: u64,
}

/// The best of these points.
pub fn best(points: &[PastPoint], more_is_better: bool) -> Option<BestValue> {
    let mut best: Option<BestValue> = None;
    for point in points.iter().filter(|point| !point.value.is_nan()) {
        let is_better = best.is_none_or(|best| {
            if more_is_better {
                point.value > best.value
            } else {
                point.value < best.value
            }
        });
        if is_better {
            let (value, at_ms) = (point.value, point.at_ms);
            best = Some(BestValue { value, at_ms });
        }
    }
    best
}

/// Which of these runs are good: their best value is in the best third.
pub fn good(bests: &[Option<BestValue>], more_is_better: bool) -> Vec<bool> {
    let mut known: Vec<f64> = bests.iter().flatten().map(|best| best.value).collect();
    known.sort_unstable_by(f64::total_cmp);
    if more_is_better {
        known.reverse();
    }
    let third = known
        .get((known.len().div_ceil(3)).wrapping_sub(1))
        .copied();
    let is_good = |best: &Option<BestValue>| {
        best.zip(third).is_some_and(|(best, third)| {
            if more_is_better {
                best.value >= third
            } else {
                best.value <= third
            }
        })
    };
    bests.iter().map(is_good).collect()
}

#[cfg(test)]
mod tests;
