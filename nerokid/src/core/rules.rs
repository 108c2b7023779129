//! The standing rules of a run: bindings, evaluation, and actions.
//!
//! A rule that holds is a record first; its action follows only when that
//! record is on disk. What ends the run fires once in it; the others fire
//! again while they hold, but not before their pause is over. Records of
//! earlier watchers count as our own.

use std::collections::BTreeMap;

use nero_expr::{
    BindRecord, BindingChange, Bindings, Bound, Expr, FactSource, NameKind, ParseContext, Past,
    RulePlace, Scope as _,
};
use nero_journal::v1::{RuleBound, RuleFired, RuleHeld, RuleOff};

use super::facts::Sight;
use super::history::FiringHistory;
use super::record::Record;
use super::series::SeriesId;

/// Pause between two firings of a rule that still holds, unless the rule has
/// its own.
const REPEAT_MS: u64 = 10 * 60 * 1000;
/// Moments before a horizon at which a change by time alone is looked for.
const PROBES: u64 = 8;
/// The word of the action that runs a command beside the job, which stands behind it in records.
const RUN: &str = "run";

/// Action of a rule that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ends the run.
    Abort,
    /// Shows a warning.
    Warn,
    /// Sends a notification to people.
    Notify,
    /// Stops its processes until a person lets them go on.
    Pause,
    /// Ends the run; neroman makes a new one on the same node.
    Restart,
    /// Ends the run; neroman makes a new one on a node that it chooses anew.
    Requeue,
    /// Sends the job's processes the signal of this number.
    Signal(u8),
    /// Runs a command beside the job.
    Run,
    /// Has neroman run a command on its machine, which follows from the record.
    RunLocal,
}

impl Action {
    /// The word in rules, which begins that in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Signal(_) => "signal",
            Self::Abort => "abort",
            Self::Warn => "warn",
            Self::Notify => "notify",
            Self::Pause => "pause",
            Self::Restart => "restart",
            Self::Requeue => "requeue",
            Self::Run => RUN,
            Self::RunLocal => "run_local",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        let all = [
            Self::Abort,
            Self::Warn,
            Self::Notify,
            Self::Pause,
            Self::Restart,
            Self::Requeue,
            Self::Run,
            Self::RunLocal,
        ];
        all.into_iter().find(|action| action.as_str() == word)
    }

    /// The action of a rule; the reason when there is none of it here.
    fn of(given: &SentRule) -> Result<Self, String> {
        let (word, argument) = (&given.action, &given.argument);
        match nero_expr::sendable_signal(argument) {
            Some(number) if word == "signal" => Ok(Self::Signal(number)),
            None if word == "signal" => Err(format!("there is no signal `{argument}` here")),
            _ => Self::from_word(word).ok_or_else(|| format!("there is no action `{word}` here")),
        }
    }

    /// Whether it ends the run.
    const fn ends(self) -> bool {
        match self {
            Self::Abort | Self::Restart | Self::Requeue => true,
            Self::Warn
            | Self::Notify
            | Self::Pause
            | Self::Signal(_)
            | Self::Run
            | Self::RunLocal => false,
        }
    }
}

/// A rule as neroman sent it.
#[derive(Clone, Debug, PartialEq)]
pub struct SentRule {
    /// Id of the rule in neroman's database.
    pub id: u64,
    /// Word of its action.
    pub action: String,
    /// What the action sends or runs; empty for most.
    pub argument: String,
    /// Condition of the rule.
    pub text: String,
    /// Author of the rule.
    pub author: String,
    /// Pause between two firings; 0 for the default.
    pub repeat_ms: u64,
}

/// What is done to a run because a rule fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Its supervisor is asked to end it.
    End,
    /// Its supervisor is asked to pause it.
    Pause,
    /// The job's processes get a signal.
    Signal(u8),
    /// A command is run beside the job, by the record of the firing.
    Run(RuleFired),
}

impl Effect {
    /// Whether a command is run, which is done of a run that is over, too.
    pub const fn is_command(&self) -> bool {
        matches!(self, Self::Run(_))
    }
}

/// What a rule that fired asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedEffect {
    /// The rule that asks for it.
    pub rule: u64,
    /// Author of the rule.
    pub author: String,
    /// What it asks for.
    pub effect: Effect,
}

#[derive(Debug)]
struct StandingRule {
    given: SentRule,
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
    fired: BTreeMap<u64, FiringHistory>,
    /// The newest firing of each rule whose command came to its end.
    ran: BTreeMap<u64, u32>,
    /// What the journal has of conditions that hold, by rule.
    held: BTreeMap<u64, Vec<Option<f64>>>,
    /// What the rules ask of the past of series, until it is taken.
    wants: Vec<(SeriesId, Past)>,
    asked: Vec<RequestedEffect>,
    /// Number of series whose names the rules have seen.
    seen: usize,
    /// The run is over: no rule can end it any more.
    moot: bool,
}

impl Rules {
    /// No rules yet, with the records of earlier watchers.
    pub fn new(
        bound: Vec<RuleBound>,
        fired: BTreeMap<u64, FiringHistory>,
        ran: BTreeMap<u64, u32>,
        held: BTreeMap<u64, Vec<Option<f64>>>,
    ) -> Self {
        Self {
            bound,
            fired,
            ran,
            held,
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

    /// From now on no rule can end or pause the run.
    pub fn run_is_over(&mut self) {
        self.moot = true;
        self.asked.retain(|asked| asked.effect.is_command());
    }

    /// Replaces the rules in force, as a whole. Returns the rules that cannot
    /// apply to this run, with the reason; the others stand.
    pub fn apply(
        &mut self,
        version: u64,
        given: Vec<SentRule>,
        sight: &Sight<'_>,
        out: &mut Vec<Record>,
    ) -> Vec<RuleOff> {
        let mut standing = Vec::with_capacity(given.len());
        let mut off = Vec::new();
        for given in given {
            let (rule, text) = (given.id, given.text.clone());
            match self.stand(given, sight) {
                Ok(rule) => standing.extend(rule),
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
            rule.find_series(sight, &mut self.wants);
        }
        off
    }

    /// Prepares one rule; returns the reason when it cannot apply to this run, and nothing
    /// for a rule that neroman evaluates: it is here for a neroman that takes over.
    fn stand(&self, given: SentRule, sight: &Sight<'_>) -> Result<Option<StandingRule>, String> {
        let context = ParseContext::utc(sight.now_ms()).standing();
        let expr = Expr::parse(&given.text, &context).map_err(|error| error.to_string())?;
        if expr.rule_place() == RulePlace::Daemon {
            return Ok(None);
        }
        let action = Action::of(&given)?;
        let records: Vec<BindRecord> = self
            .bound
            .iter()
            .filter(|bound| bound.rule == given.id)
            .map(bind_record)
            .collect();
        let fresh = expr.bind(sight).map_err(|error| error.to_string())?;
        let mut bindings = if records.is_empty() {
            fresh
        } else {
            Bindings::from_records(&expr, &records)
        };
        if let Some(held) = self.held.get(&given.id) {
            bindings.hold(held.clone());
        }
        Ok(Some(StandingRule {
            clock: expr.uses_clock(),
            series: Vec::new(),
            given,
            action,
            expr,
            bindings,
        }))
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
                rule.find_series(sight, &mut self.wants);
                changed.push(at);
            }
        }
        for at in changed {
            self.tell_bindings(at, out);
        }
    }

    /// Takes what the rules newly ask of the past of series.
    pub fn take_wants(&mut self) -> Vec<(SeriesId, Past)> {
        std::mem::take(&mut self.wants)
    }

    /// Records since when conditions hold, as far as that changed since the last call. These
    /// come before the records of the points that were read meanwhile: a watcher that reads
    /// points again finds conditions that hold too late, never too early.
    pub fn tell_held(&mut self, out: &mut Vec<Record>) {
        let mut told = Vec::new();
        for rule in self.standing.iter().filter(|rule| rule.expr.holds()) {
            let (id, held) = (rule.given.id, rule.bindings.held());
            let known = self.held.get(&id);
            let is_known = match known {
                Some(known) => known == held,
                None => held.iter().all(Option::is_none),
            };
            if !is_known {
                self.held.insert(id, held.to_vec());
                let since = held.iter().map(|since_s| since_s.unwrap_or(f64::NAN));
                told.push(Record::RuleHeld(RuleHeld {
                    rule: id,
                    since_s: since.collect(),
                }));
            }
        }
        let is_first = |record: &Record| matches!(record, Record::Started(_));
        let at = usize::from(out.first().is_some_and(is_first));
        out.splice(at..at, told);
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
        let rule = &mut self.standing[at];
        if rule.expr.holds() {
            rule.expr.note_held(&mut rule.bindings, sight);
        }
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
            action: match rule.action {
                Action::Signal(_) | Action::Run => {
                    format!("{} {}", rule.action.as_str(), rule.given.argument)
                }
                action => action.as_str().to_owned(),
            },
            text: rule.given.text.clone(),
            values: values.join(", "),
            times: self.fired.get(&id).map_or(0, |fired| fired.times) + 1,
        };
        let effect = match rule.action {
            Action::Abort | Action::Restart | Action::Requeue => Some(Effect::End),
            Action::Pause => Some(Effect::Pause),
            Action::Signal(number) => Some(Effect::Signal(number)),
            Action::Run => Some(Effect::Run(record.clone())),
            Action::Warn | Action::Notify | Action::RunLocal => None,
        };
        self.asked.extend(effect.map(|effect| RequestedEffect {
            rule: id,
            author: rule.given.author.clone(),
            effect,
        }));
        self.fired.insert(
            id,
            FiringHistory {
                times: record.times,
                last_ms: sight.now.mono_ms,
                record: record.clone(),
            },
        );
        out.push(Record::RuleFired(record));
    }

    fn may_fire(&self, rule: &StandingRule, sight: &Sight<'_>) -> bool {
        if rule.action.ends() {
            return !self.moot && !self.has_ended_it();
        }
        let is_pause = rule.action == Action::Pause;
        let needs_job = is_pause || matches!(rule.action, Action::Signal(_));
        if needs_job && (self.moot || self.has_ended_it() || sight.facts.paused_since.is_some()) {
            return false;
        }
        let Some(fired) = self.fired.get(&rule.given.id) else {
            return true;
        };
        // One command of a rule is at work at a time.
        if self.is_at_work(fired) {
            return false;
        }
        let repeat_ms = match rule.given.repeat_ms {
            0 => REPEAT_MS,
            given => given,
        };
        // A person who lets the run go on has that long before a rule pauses it again.
        let last_ms = if is_pause {
            fired.last_ms.max(sight.facts.resumed_ms)
        } else {
            fired.last_ms
        };
        let now_ms = sight.now.mono_ms;
        // A later time is from before a restart of the machine.
        last_ms > now_ms || now_ms - last_ms >= repeat_ms
    }

    /// Whether a command follows from a firing that has not come to its end.
    fn is_at_work(&self, fired: &FiringHistory) -> bool {
        let ran = self.ran.get(&fired.record.rule);
        command(&fired.record).is_some() && ran.is_none_or(|ran| *ran < fired.times)
    }

    /// The command of a firing came to its end.
    pub fn ran(&mut self, rule: u64, times: u32) {
        self.ran.insert(rule, times);
    }

    fn has_ended_it(&self) -> bool {
        self.fired.values().any(ends)
    }

    /// Takes what the recorded firings ask for, to be carried out.
    pub fn take_asked(&mut self) -> Vec<RequestedEffect> {
        std::mem::take(&mut self.asked)
    }

    /// The ends that an earlier watcher recorded and may not have asked for, and the commands
    /// that have not come to their ends: the folder of each tells whether it was begun. A pause
    /// is not repeated: the run may have been let go on since. Nor is a signal: the job may
    /// have it.
    pub fn inherited(&self) -> Vec<RequestedEffect> {
        let asked = self.fired.iter().filter_map(|(id, fired)| {
            let effect = match (ends(fired), self.is_at_work(fired)) {
                (true, _) => Effect::End,
                (false, true) => Effect::Run(RuleFired {
                    times: fired.times,
                    ..fired.record.clone()
                }),
                (false, false) => return None,
            };
            let rule = self.standing.iter().find(|rule| rule.given.id == *id);
            Some(RequestedEffect {
                rule: *id,
                author: rule.map_or_else(String::new, |rule| rule.given.author.clone()),
                effect,
            })
        });
        asked.collect()
    }

    /// The first moment up to `horizon_ms` from now at which time alone makes a
    /// rule, or the condition of its `for`, hold, found by a few probes.
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
    fn see(&mut self, kind: NameKind, name: &str) -> Vec<BindingChange> {
        self.bindings.see(&self.expr, kind, name)
    }

    /// Finds out which series the rule needs, and whether it depends on time.
    fn find_series(&mut self, sight: &Sight<'_>, wants: &mut Vec<(SeriesId, Past)>) {
        let slots = 0..self.expr.unbound_names().len();
        self.series.clear();
        for slot in slots {
            match self.bindings.get(slot) {
                Some(Bound::Metric(name)) => self.series.extend(sight.series.id_of(name)),
                Some(Bound::Fact(fact)) => self.clock |= fact.source() == FactSource::Clock,
                Some(Bound::Param(_)) | None => {}
            }
        }
        for (slot, past) in self.expr.pasts() {
            if let Some(Bound::Metric(name)) = self.bindings.get(slot) {
                wants.extend(sight.series.id_of(name).map(|series| (series, past)));
            }
        }
    }

    fn holds_in(&self, sight: &Sight<'_>, wait_ms: u64) -> bool {
        let then = Sight {
            now: sight.now.later(wait_ms),
            ..*sight
        };
        self.expr.eval(&self.bindings, &then).is_true()
            || self.expr.begins_to_hold(&self.bindings, &then)
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

/// The command that a firing runs beside the job.
pub fn command(fired: &RuleFired) -> Option<&str> {
    fired.action.strip_prefix(RUN)?.strip_prefix(' ')
}

/// Whether a firing ends the run.
fn ends(fired: &FiringHistory) -> bool {
    Action::from_word(&fired.record.action).is_some_and(Action::ends)
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
