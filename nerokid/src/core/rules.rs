//! The standing rules of a run: bindings, evaluation, and actions.
//!
//! A rule that holds is a record first; its action follows only when that
//! record is on disk. `abort` fires once in a run; `warn` and `notify` fire
//! again while they hold, but not before their pause is over. Records of
//! earlier watchers count as our own.

use std::collections::BTreeMap;

use nero_expr::{
    BindRecord, Bindings, Bound, Expr, FactSource, NameKind, ParseContext, Scope as _, Seen,
};
use nero_journal::v1::{RuleBound, RuleFired, RuleOff};

use super::facts::Sight;
use super::history::Fired;
use super::record::Record;
use super::series::SeriesId;

/// Pause between two firings of a rule that still holds, unless the rule has
/// its own.
const REPEAT_MS: u64 = 10 * 60 * 1000;
/// Moments before a horizon at which a change by time alone is looked for.
const PROBES: u64 = 8;

/// Action of a rule that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ends the run.
    Abort,
    /// Shows a warning.
    Warn,
    /// Sends a notification to people.
    Notify,
}

impl Action {
    /// The word in rules and records.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::Warn => "warn",
            Self::Notify => "notify",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Self::Abort, Self::Warn, Self::Notify]
            .into_iter()
            .find(|action| action.word() == word)
    }
}

/// A rule as neroman sent it.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// Id of the rule in neroman's database.
    pub id: u64,
    /// Word of its action.
    pub action: String,
    /// Condition of the rule.
    pub text: String,
    /// Author of the rule.
    pub author: String,
    /// Pause between two firings; 0 for the default.
    pub repeat_ms: u64,
}

/// A cancel request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    /// The rule that asks for it.
    pub rule: u64,
    /// Author of the rule.
    pub author: String,
}

#[derive(Debug)]
struct StandingRule {
    given: Given,
    action: Action,
    expr: Expr,
    bindings: Bindings,
    /// The series that the rule names.
    series: Vec<SeriesId>,
    clock: bool,
}

/// The rules in force.
#[derive(Debug, Default)]
pub struct Rules {
    version: u64,
    standing: Vec<StandingRule>,
    bound: Vec<RuleBound>,
    fired: BTreeMap<u64, Fired>,
    aborts: Vec<Abort>,
    /// Number of series whose names the rules have seen.
    seen: usize,
    /// The run is over: no rule can end it any more.
    moot: bool,
}

impl Rules {
    /// No rules yet, with the records of earlier watchers.
    pub fn new(bound: Vec<RuleBound>, fired: BTreeMap<u64, Fired>) -> Self {
        Self {
            bound,
            fired,
            ..Self::default()
        }
    }

    /// The version in force.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.standing.is_empty()
    }

    /// From now on `abort` has no meaning.
    pub fn run_is_over(&mut self) {
        self.moot = true;
        self.aborts.clear();
    }

    /// Replaces the rules in force, as a whole. Returns the rules that cannot
    /// apply to this run, with the reason; the others stand.
    pub fn apply(
        &mut self,
        version: u64,
        given: Vec<Given>,
        sight: &Sight<'_>,
        out: &mut Vec<Record>,
    ) -> Vec<RuleOff> {
        let mut standing = Vec::with_capacity(given.len());
        let mut off = Vec::new();
        for given in given {
            let (rule, text) = (given.id, given.text.clone());
            match self.stand(given, sight) {
                Ok(rule) => standing.push(rule),
                Err(why) => off.push(RuleOff { rule, text, why }),
            }
        }
        self.version = version;
        self.standing = standing;
        for at in 0..self.standing.len() {
            self.tell_bindings(at, out);
        }
        // Names that were recorded as open may fit now.
        self.seen = 0;
        self.see(sight, out);
        for rule in &mut self.standing {
            rule.find_series(sight);
        }
        off
    }

    /// Prepares one rule; returns the reason when it cannot apply to this run.
    fn stand(&self, given: Given, sight: &Sight<'_>) -> Result<StandingRule, String> {
        let action = Action::from_word(&given.action)
            .ok_or_else(|| format!("there is no action `{}` here", given.action))?;
        let context = ParseContext::utc(sight.now_ms()).standing();
        let expr = Expr::parse(&given.text, &context).map_err(|error| error.to_string())?;
        let records: Vec<BindRecord> = self
            .bound
            .iter()
            .filter(|bound| bound.rule == given.id)
            .map(bind_record)
            .collect();
        let fresh = expr.bind(sight).map_err(|error| error.to_string())?;
        let bindings = if records.is_empty() {
            fresh
        } else {
            Bindings::from_records(&expr, &records)
        };
        Ok(StandingRule {
            clock: expr.uses_clock(),
            series: Vec::new(),
            given,
            action,
            expr,
            bindings,
        })
    }

    /// Records the bindings of a rule's names, unless they are recorded.
    fn tell_bindings(&mut self, at: usize, out: &mut Vec<Record>) {
        let rule = &self.standing[at];
        for record in rule.bindings.records(&rule.expr) {
            let bound = rule_bound(rule.given.id, &record);
            if self.bound.contains(&bound) {
                continue;
            }
            if !bound.also.is_empty() {
                for warning in rule.bindings.warnings(&rule.expr) {
                    out.push(Record::notice(format!("rule {}: {warning}", rule.given.id)));
                }
            }
            self.bound.push(bound.clone());
            out.push(Record::RuleBound(bound));
        }
    }

    /// Takes notice of new series.
    pub fn see(&mut self, sight: &Sight<'_>, out: &mut Vec<Record>) {
        if self.seen == sight.series.len() {
            return;
        }
        let from = std::mem::replace(&mut self.seen, sight.series.len());
        let mut changed = Vec::new();
        for (at, rule) in self.standing.iter_mut().enumerate() {
            let mut news = false;
            if from == 0 {
                for param in &sight.facts.params {
                    news |= !rule.see(NameKind::Param, param.name()).is_empty();
                }
            }
            for series in sight.series.iter().skip(from) {
                news |= !rule.see(NameKind::Metric, &series.name).is_empty();
            }
            if news {
                rule.find_series(sight);
                changed.push(at);
            }
        }
        for at in changed {
            self.tell_bindings(at, out);
        }
    }

    /// Evaluates the rules that name one of these series.
    pub fn touched(&mut self, touched: &[SeriesId], sight: &Sight<'_>, out: &mut Vec<Record>) {
        self.see(sight, out);
        for at in 0..self.standing.len() {
            let named = &self.standing[at].series;
            if named.iter().any(|series| touched.contains(series)) {
                self.evaluate(at, sight, out);
            }
        }
    }

    /// Evaluates all rules.
    pub fn all(&mut self, sight: &Sight<'_>, out: &mut Vec<Record>) {
        self.see(sight, out);
        for at in 0..self.standing.len() {
            self.evaluate(at, sight, out);
        }
    }

    fn evaluate(&mut self, at: usize, sight: &Sight<'_>, out: &mut Vec<Record>) {
        let rule = &self.standing[at];
        if !self.may_fire(rule, sight) || !rule.expr.eval(&rule.bindings, sight).is_true() {
            return;
        }
        let id = rule.given.id;
        let why = rule.expr.explain(&rule.bindings, sight);
        let values: Vec<String> = why
            .values
            .iter()
            .map(|value| format!("{} = {}", value.written, value.shown))
            .collect();
        let record = RuleFired {
            rule: id,
            version: self.version,
            action: rule.action.word().to_owned(),
            text: rule.given.text.clone(),
            values: values.join(", "),
            times: self.fired.get(&id).map_or(0, |fired| fired.times) + 1,
        };
        if rule.action == Action::Abort {
            self.aborts.push(Abort {
                rule: id,
                author: rule.given.author.clone(),
            });
        }
        self.fired.insert(
            id,
            Fired {
                times: record.times,
                last_ms: sight.now.mono_ms,
                record: record.clone(),
            },
        );
        out.push(Record::RuleFired(record));
    }

    fn may_fire(&self, rule: &StandingRule, sight: &Sight<'_>) -> bool {
        if rule.action == Action::Abort {
            return !self.moot && !self.has_aborted();
        }
        let Some(fired) = self.fired.get(&rule.given.id) else {
            return true;
        };
        let repeat_ms = match rule.given.repeat_ms {
            0 => REPEAT_MS,
            given => given,
        };
        let now_ms = sight.now.mono_ms;
        // A later time is from before a restart of the machine.
        fired.last_ms > now_ms || now_ms - fired.last_ms >= repeat_ms
    }

    fn has_aborted(&self) -> bool {
        let word = Action::Abort.word();
        self.fired.values().any(|fired| fired.record.action == word)
    }

    /// Takes the recorded aborts, to be carried out. This includes, once, those
    /// of an earlier watcher, which may have died before it carried them out.
    pub fn take_aborts(&mut self) -> Vec<Abort> {
        std::mem::take(&mut self.aborts)
    }

    /// Aborts that an earlier watcher recorded.
    pub fn inherited_aborts(&self) -> Vec<Abort> {
        let word = Action::Abort.word();
        let aborts = self
            .fired
            .iter()
            .filter(|(_, fired)| fired.record.action == word);
        aborts
            .map(|(id, _)| Abort {
                rule: *id,
                author: self
                    .standing
                    .iter()
                    .find(|rule| rule.given.id == *id)
                    .map_or_else(String::new, |rule| rule.given.author.clone()),
            })
            .collect()
    }

    /// The first moment up to `horizon_ms` from now at which time alone makes a
    /// rule hold, found by a few probes.
    pub fn due_ms(&self, sight: &Sight<'_>, horizon_ms: u64) -> Option<u64> {
        self.standing
            .iter()
            .filter(|rule| rule.clock && self.may_fire(rule, sight))
            .filter_map(|rule| rule.first_true(sight, horizon_ms))
            .min()
            .map(|wait| sight.now.mono_ms + wait)
    }
}

impl StandingRule {
    fn see(&mut self, kind: NameKind, name: &str) -> Vec<Seen> {
        self.bindings.see(&self.expr, kind, name)
    }

    /// Finds out which series the rule needs, and whether it depends on time.
    fn find_series(&mut self, sight: &Sight<'_>) {
        let slots = 0..self.expr.unbound_names().len();
        self.series.clear();
        for slot in slots {
            match self.bindings.get(slot) {
                Some(Bound::Metric(name)) => self.series.extend(sight.series.id_of(name)),
                Some(Bound::Fact(fact)) => self.clock |= fact.source() == FactSource::Clock,
                Some(Bound::Param(_)) | None => {}
            }
        }
    }

    fn holds_in(&self, sight: &Sight<'_>, wait_ms: u64) -> bool {
        let then = Sight {
            now: sight.now.later(wait_ms),
            ..*sight
        };
        self.expr.eval(&self.bindings, &then).is_true()
    }

    fn first_true(&self, sight: &Sight<'_>, horizon_ms: u64) -> Option<u64> {
        let probe = |number: u64| horizon_ms * number / PROBES;
        let number = (1..=PROBES).find(|number| self.holds_in(sight, probe(*number)))?;
        let (mut not_yet, mut holds) = (probe(number - 1), probe(number));
        while holds - not_yet > 1 {
            let middle = not_yet + (holds - not_yet) / 2;
            if self.holds_in(sight, middle) {
                holds = middle;
            } else {
                not_yet = middle;
            }
        }
        Some(holds)
    }
}

fn rule_bound(rule: u64, record: &BindRecord) -> RuleBound {
    let also = record.clash.iter();
    RuleBound {
        rule,
        written: record.written.clone(),
        exact: record.name.clone(),
        kind: record.kind.clone(),
        also: also.map(|(kind, name)| format!("{kind} {name}")).collect(),
    }
}

fn bind_record(bound: &RuleBound) -> BindRecord {
    let clash = bound.also.first().and_then(|also| also.split_once(' '));
    BindRecord {
        written: bound.written.clone(),
        kind: bound.kind.clone(),
        name: bound.exact.clone(),
        clash: clash.map(|(kind, name)| (kind.to_owned(), name.to_owned())),
    }
}
