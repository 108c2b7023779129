//! Evaluation of a tree, with bindings and a scope, to a truth or value.
//!
//! Takes no memory but the scratch that a regular expression keeps after its first
//! use, and stops at the first part that decides.

pub(crate) mod candidates;
pub(crate) mod doubt;
pub(crate) mod explain;
pub(crate) mod peers;
pub(crate) mod place;
pub(crate) mod requirement;

use std::cmp::Ordering;

use jiff::tz::{Offset, TimeZone};
use nero_model::whole;

use crate::bind::scope::Scope;
use crate::bind::{Bindings, Bound};
use crate::tree::ast::{ArithOp, CompareOp, Duration, Node, PickRef};
use crate::tree::cohort::CohortNumber;
use crate::tree::expr::Expr;
use crate::tree::number::{ScannedNumber, date_of, scan_number};
use crate::words::fact::{Fact, FactKind};
use crate::words::node::compare_versions;
use crate::words::past::Past;
use crate::words::state::State;
use crate::words::value::{Truth, Value};

/// Knows the meaning of an expression's names.
pub(crate) trait NameResolver {
    /// The value of the name number `slot`.
    fn value<'s, S: Scope>(&self, slot: u16, scope: &'s S) -> Value<'s>;

    /// What is asked of the past of the metric number `slot`.
    fn past<S: Scope>(&self, slot: u16, past: Past, scope: &S) -> Option<f64>;

    /// Since which run time, in seconds, the condition of the `for` number `index`
    /// holds.
    fn held_since(&self, index: u16) -> Option<f64>;

    /// Notes that the name number `slot` stands for a condition and has a value that is, or
    /// is not, true or false.
    fn note_condition(&self, slot: u16, is_truth: bool) {
        let _ = (slot, is_truth);
    }
}

impl NameResolver for Bindings {
    fn value<'s, S: Scope>(&self, slot: u16, scope: &'s S) -> Value<'s> {
        self.get(usize::from(slot))
            .map_or(Value::Unknown, |bound| value_of(bound, scope))
    }

    fn past<S: Scope>(&self, slot: u16, past: Past, scope: &S) -> Option<f64> {
        match self.get(usize::from(slot)) {
            Some(Bound::Metric(name)) => scope.past(name, past),
            // What has not been printed was printed no times.
            None if past.is_count() && self.is_open(usize::from(slot)) => Some(0.0),
            Some(Bound::Fact(_) | Bound::Param(_)) | None => None,
        }
    }

    fn held_since(&self, index: u16) -> Option<f64> {
        self.held.get(usize::from(index)).copied().flatten()
    }
}

impl Expr {
    /// Whether the condition holds for `scope`.
    pub fn eval(&self, bindings: &Bindings, scope: &impl Scope) -> Truth {
        self.evaluator(bindings, scope).truth(&self.root)
    }

    /// The value for `scope`; of a condition true, false or unknown.
    pub fn value<'s, S: Scope>(&'s self, bindings: &Bindings, scope: &'s S) -> Value<'s> {
        self.evaluator(bindings, scope).value(&self.root)
    }

    /// Notes since when the condition of each `for` holds.
    pub fn note_held(&self, bindings: &mut Bindings, scope: &impl Scope) {
        let mut parts: Vec<(usize, &Node)> = Vec::new();
        self.root.walk(&mut |node| {
            if let Node::For(inner, _, index) = node {
                parts.push((usize::from(*index), inner));
            }
        });
        let ran_s = match scope.fact(Fact::Runtime) {
            Value::Number(ran_s, _) => Some(ran_s),
            Value::Unknown | Value::Text(_) | Value::Bool(..) | Value::Time(_) => None,
        };
        bindings.held.resize(usize::from(self.holds), None);
        // Inner ones first: an outer one looks at them.
        for (index, inner) in parts.into_iter().rev() {
            let holds = self.evaluator(bindings, scope).truth(inner).is_true();
            let Some(since) = bindings.held.get_mut(index) else {
                continue;
            };
            *since = if holds { since.or(ran_s) } else { None };
        }
    }

    /// Whether the condition of a `for` would begin to hold.
    pub fn begins_to_hold(&self, bindings: &Bindings, scope: &impl Scope) -> bool {
        let mut begins = false;
        self.root.walk(&mut |node| {
            if let Node::For(inner, _, index) = node {
                let is_open = bindings.held.get(usize::from(*index)) == Some(&None);
                begins |= is_open && self.evaluator(bindings, scope).truth(inner).is_true();
            }
        });
        begins
    }

    pub(crate) fn evaluator<'r, 's, S: Scope, R: NameResolver>(
        &'r self,
        resolve: &'r R,
        scope: &'s S,
    ) -> Evaluator<'r, 's, S, R> {
        Evaluator {
            picks: &self.picks,
            resolve,
            scope,
        }
    }
}

/// The value of a name's meaning; unknown if this experiment has none.
pub(crate) fn value_of<'s, S: Scope>(bound: &Bound, scope: &'s S) -> Value<'s> {
    match bound {
        Bound::Fact(fact) => scope.fact(*fact),
        Bound::Param(name) => scope.param(name),
        Bound::Metric(name) => Value::number_or_unknown(scope.metric(name)),
    }
}

pub(crate) struct Evaluator<'r, 's, S, R> {
    picks: &'r [PickRef],
    resolve: &'r R,
    scope: &'s S,
}

impl<'s, S: Scope, R: NameResolver> Evaluator<'_, 's, S, R> {
    pub fn truth(&self, node: &Node) -> Truth {
        match node {
            Node::Bool(truth) => Truth::from_option(Some(*truth)),
            Node::Is(state) => self.is_in(*state),
            Node::Pick(slot) => {
                let pick = self.picks.get(usize::from(*slot));
                Truth::from_option(pick.and_then(|pick| self.scope.picked(&pick.pick)))
            }
            Node::Name(slot) => match self.value(node) {
                Value::Bool(truth, _) => {
                    self.resolve.note_condition(*slot, true);
                    Truth::from_option(Some(truth))
                }
                Value::Unknown => Truth::Unknown,
                Value::Number(..) | Value::Text(_) | Value::Time(_) => {
                    self.resolve.note_condition(*slot, false);
                    Truth::Unknown
                }
            },
            Node::Not(inner) => self.truth(inner).negated(),
            Node::And(parts) => self.joined(parts, Truth::False),
            Node::Or(parts) => self.joined(parts, Truth::True),
            Node::Compare(op, pair) => self.compare_nodes(*op, &pair[0], &pair[1]),
            Node::Glob(left, glob) => self.fits(left, |text| glob.fits(text)),
            Node::Match(left, pattern) => self.fits(left, |text| pattern.fits(text)),
            Node::In(parts) => self.is_listed(&parts[0], &parts[1..]),
            Node::For(inner, duration, index) => self.has_held(inner, duration, *index),
            Node::After(inner, duration) => {
                let is_late = |ran_s| ran_s * 1000.0 >= duration.ms as f64;
                match self.ran_s().map(is_late) {
                    Some(true) => self.truth(inner),
                    Some(false) => Truth::False,
                    None if self.truth(inner) == Truth::False => Truth::False,
                    None => Truth::Unknown,
                }
            }
            // The parser lets none of these be a condition.
            Node::Number(..)
            | Node::Nan
            | Node::Inf
            | Node::Over(..)
            | Node::At(..)
            | Node::Cohort(_)
            | Node::Math(..)
            | Node::Text(_)
            | Node::Time(_)
            | Node::Now
            | Node::Fact(_)
            | Node::Place(_)
            | Node::Probe(_)
            | Node::Neg(_)
            | Node::Arith(..) => Truth::Unknown,
        }
    }

    /// The number of an aggregate over peers.
    pub fn cohort(&self, text: &str) -> Option<CohortNumber> {
        self.scope.cohort(text)
    }

    /// The run time so far.
    pub fn ran_s(&self) -> Option<f64> {
        match self.scope.fact(Fact::Runtime) {
            Value::Number(ran_s, _) => Some(ran_s),
            Value::Unknown | Value::Text(_) | Value::Bool(..) | Value::Time(_) => None,
        }
    }

    /// Whether the value is equal to one of the list.
    fn is_listed(&self, left: &Node, list: &[Node]) -> Truth {
        let mut any = Truth::False;
        for item in list {
            match self.compare_nodes(CompareOp::Equal, left, item) {
                Truth::True => return Truth::True,
                Truth::Unknown => any = Truth::Unknown,
                Truth::False => {}
            }
        }
        any
    }

    /// Whether a condition holds now and has held for so long.
    fn has_held(&self, inner: &Node, duration: &Duration, index: u16) -> Truth {
        let now = self.truth(inner);
        let since = self.resolve.held_since(index);
        match (now, since, self.ran_s()) {
            (Truth::True, Some(since), Some(ran_s)) => {
                // In whole milliseconds, so that the last one counts.
                let held_ms = ((ran_s - since) * 1000.0).round();
                Truth::from_option(Some(held_ms >= duration.ms as f64))
            }
            (Truth::True, ..) => Truth::False,
            (other, ..) => other,
        }
    }

    /// `&&` with `decides` false, `||` with `decides` true.
    fn joined(&self, parts: &[Node], decides: Truth) -> Truth {
        let mut outcome = decides.negated();
        for part in parts {
            match self.truth(part) {
                truth if truth == decides => return decides,
                Truth::Unknown => outcome = Truth::Unknown,
                Truth::True | Truth::False => {}
            }
        }
        outcome
    }

    fn is_in(&self, state: State) -> Truth {
        if state == State::Changed {
            return Truth::from_option(self.scope.changed());
        }
        if state == State::Gone {
            return Truth::from_option(self.scope.gone());
        }
        if state == State::Started {
            let is_known = self.scope.fact(Fact::Tstart) != Value::Unknown;
            return Truth::from_option(Some(is_known));
        }
        match self.scope.fact(Fact::State) {
            Value::Text(shown) => Truth::from_option(state.covers(shown)),
            Value::Unknown | Value::Number(..) | Value::Bool(..) | Value::Time(_) => Truth::Unknown,
        }
    }

    pub fn value<'v>(&self, node: &'v Node) -> Value<'v>
    where
        's: 'v,
    {
        match node {
            Node::Number(value, text) => Value::Number(*value, Some(text)),
            Node::Nan => Value::number(f64::NAN),
            Node::Inf => Value::number(f64::INFINITY),
            Node::Text(text) => Value::Text(text),
            Node::Time(moment) => Value::Time(moment.ms),
            Node::Now => Value::Time(self.scope.now_ms()),
            Node::Fact(fact) => self.scope.fact(*fact),
            Node::Place(fact) => self.scope.node_fact(*fact),
            Node::Probe(name) => self.scope.probe(name),
            Node::Name(slot) => typed(self.resolve.value(*slot, self.scope)),
            Node::Over(fold, slot, window) => {
                let window_ms = window.as_ref().map(|window| window.ms);
                let past = Past::Over {
                    fold: *fold,
                    window_ms,
                };
                Value::number_or_unknown(self.resolve.past(*slot, past, self.scope))
            }
            Node::At(slot, step, _) => {
                Value::number_or_unknown(self.resolve.past(*slot, Past::At(*step), self.scope))
            }
            Node::Cohort(cohort) => {
                let folded = self.scope.cohort(&cohort.text);
                Value::number_or_unknown(folded.and_then(|folded| folded.value))
            }
            Node::Math(function, inner) => match self.value(inner) {
                Value::Number(number, _) => Value::number(function.of(number)),
                Value::Unknown | Value::Text(_) | Value::Bool(..) | Value::Time(_) => {
                    Value::Unknown
                }
            },
            Node::Neg(inner) => match self.value(inner) {
                Value::Number(number, _) => Value::number(-number),
                Value::Unknown | Value::Text(_) | Value::Bool(..) | Value::Time(_) => {
                    Value::Unknown
                }
            },
            Node::Arith(op, pair) => arith(*op, self.value(&pair[0]), self.value(&pair[1])),
            Node::Bool(_)
            | Node::Is(_)
            | Node::Pick(_)
            | Node::Not(_)
            | Node::Compare(..)
            | Node::Glob(..)
            | Node::Match(..)
            | Node::In(_)
            | Node::For(..)
            | Node::After(..)
            | Node::And(_)
            | Node::Or(_) => match self.truth(node) {
                Truth::True => Value::Bool(true, None),
                Truth::False => Value::Bool(false, None),
                Truth::Unknown => Value::Unknown,
            },
        }
    }

    /// Whether `fits` holds for a text, or for one of several words.
    fn fits(&self, left: &Node, fits: impl Fn(&str) -> bool) -> Truth {
        let any = |text: &str| match fact_kind(left) {
            Some(FactKind::Words) => text.split_whitespace().any(&fits),
            _ => fits(text),
        };
        Truth::from_option(self.value(left).with_text(any))
    }

    /// A comparison in which versions and lists of words are compared as such.
    fn compare_nodes(&self, op: CompareOp, left: &Node, right: &Node) -> Truth {
        // Only beside the word `nan` a NaN is equal to something.
        let beside_nan = match (left, right) {
            (Node::Nan, other) | (other, Node::Nan) => Some(other),
            _ => None,
        };
        if let Some(other) = beside_nan {
            let is_nan = match self.value(other) {
                Value::Unknown => return Truth::Unknown,
                Value::Number(number, _) => number.is_nan(),
                Value::Text(_) | Value::Bool(..) | Value::Time(_) => false,
            };
            return Truth::from_option(Some(is_nan == (op == CompareOp::Equal)));
        }
        let (a, b) = (self.value(left), self.value(right));
        let kinds = [fact_kind(left), fact_kind(right)];
        if kinds.contains(&Some(FactKind::Version)) {
            let order = a
                .with_text(|a| b.with_text(|b| compare_versions(a, b)))
                .flatten()
                .flatten();
            return Truth::from_option(order.map(|order| op.holds(order)));
        }
        match (kinds, a, b) {
            ([Some(FactKind::Words), _], Value::Text(words), one)
            | ([_, Some(FactKind::Words)], one, Value::Text(words)) => {
                self.compare_words(op, words, one)
            }
            _ => match (moment_of(a, right), moment_of(b, left)) {
                (Some(a), _) => self.compare(op, Value::Time(a), b),
                (_, Some(b)) => self.compare(op, a, Value::Time(b)),
                (None, None) => self.compare(op, a, b),
            },
        }
    }

    /// `group == gpus` holds if one of the words is equal; `!=` if none is.
    fn compare_words(&self, op: CompareOp, words: &str, one: Value<'_>) -> Truth {
        let asked = match op {
            CompareOp::NotEqual => CompareOp::Equal,
            other => other,
        };
        let mut any = Truth::False;
        for word in words.split_whitespace() {
            match self.compare(asked, Value::Text(word), one) {
                Truth::True => any = Truth::True,
                Truth::Unknown if any == Truth::False => any = Truth::Unknown,
                Truth::Unknown | Truth::False => {}
            }
        }
        match op {
            CompareOp::NotEqual => any.negated(),
            _ => any,
        }
    }

    fn compare(&self, op: CompareOp, left: Value<'_>, right: Value<'_>) -> Truth {
        if !left.is_known() || !right.is_known() {
            return Truth::Unknown;
        }
        let holds = if op.is_equality() {
            self.same(left, right)
                .map(|same| same == (op == CompareOp::Equal))
        } else {
            self.order(left, right)
                .map(|order| order.is_some_and(|order| op.holds(order)))
        };
        Truth::from_option(holds)
    }

    /// Numbers as numbers, else text exactly; `None` when there is no text.
    fn same(&self, left: Value<'_>, right: Value<'_>) -> Option<bool> {
        match (left, right) {
            (Value::Number(a, left), Value::Number(b, right)) => {
                Some(a == b && whole_order(a, left, right) == Ordering::Equal)
            }
            // A text that is no date.
            (Value::Time(_), Value::Text(_)) | (Value::Text(_), Value::Time(_)) => Some(false),
            (Value::Bool(left, _), Value::Bool(right, _)) => Some(left == right),
            (Value::Time(left), Value::Time(right)) => Some(left == right),
            (Value::Time(moment), Value::Number(seconds, _))
            | (Value::Number(seconds, _), Value::Time(moment)) => {
                Some(self.age_s(moment) == seconds)
            }
            _ => left
                .with_text(|left| right.with_text(|right| left == right))
                .flatten(),
        }
    }

    /// The order of two values. The inner `None` means that one of them is NaN,
    /// the outer `None` that their kinds have no order.
    fn order(&self, left: Value<'_>, right: Value<'_>) -> Option<Option<Ordering>> {
        match (left, right) {
            (Value::Number(a, left), Value::Number(b, right)) => {
                let order = a.partial_cmp(&b);
                Some(order.map(|order| order.then_with(|| whole_order(a, left, right))))
            }
            (Value::Time(left), Value::Time(right)) => Some(Some(left.cmp(&right))),
            (Value::Time(moment), Value::Number(seconds, _)) => {
                Some(self.age_s(moment).partial_cmp(&seconds))
            }
            (Value::Number(seconds, _), Value::Time(moment)) => {
                Some(seconds.partial_cmp(&self.age_s(moment)))
            }
            (Value::Text(left), Value::Text(right)) => Some(Some(left.cmp(right))),
            _ => None,
        }
    }

    /// Seconds since `moment`; negative for one to come.
    pub fn age_s(&self, moment: i64) -> f64 {
        self.scope.now_ms().saturating_sub(moment) as f64 / 1000.0
    }
}

/// The value of a parameter: a text such as `90min`, `4G` or `007` is the number that it would
/// be in an expression, and still this text.
pub(crate) fn typed(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Text(text) => match number_of(text) {
            Some(number) => Value::Number(number, Some(text)),
            None => value,
        },
        Value::Unknown | Value::Number(..) | Value::Bool(..) | Value::Time(_) => value,
    }
}

fn number_of(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    match scan_number(unsigned) {
        Some(ScannedNumber::Number { value, len }) if len == unsigned.len() => {
            Some(if unsigned.len() < text.len() {
                -value
            } else {
                value
            })
        }
        Some(_) | None => None,
    }
}

/// The instant of a text that is a date and stands beside a moment. Without a zone of its own it
/// is read by the clocks of the moment's writer, else by those of this machine.
pub(crate) fn moment_of(text: Value<'_>, beside: &Node) -> Option<i64> {
    let Value::Text(text) = text else { return None };
    let zone = match beside {
        Node::Time(moment) => TimeZone::fixed(Offset::from_seconds(moment.offset_s).ok()?),
        Node::Now => TimeZone::system(),
        Node::Fact(fact) if fact.kind() == FactKind::Time => TimeZone::system(),
        _ => return None,
    };
    date_of(text, &zone)
}

/// The order of two numbers that are equal as floating-point numbers: of long whole ones all
/// digits count.
fn whole_order(number: f64, left: Option<&str>, right: Option<&str>) -> Ordering {
    const EXACT_MAX: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
    if number.abs() < EXACT_MAX {
        return Ordering::Equal;
    }
    let order = left
        .zip(right)
        .and_then(|(left, right)| whole::order(left, right));
    order.unwrap_or(Ordering::Equal)
}

/// The kind of the fact in a node of the tree; `None` if the node is no fact.
fn fact_kind(node: &Node) -> Option<FactKind> {
    match node {
        Node::Fact(fact) => Some(fact.kind()),
        Node::Place(fact) => Some(fact.kind()),
        _ => None,
    }
}

fn arith<'v>(op: ArithOp, left: Value<'_>, right: Value<'_>) -> Value<'v> {
    match (left, right) {
        (Value::Number(left, _), Value::Number(right, _)) => Value::number(op.of(left, right)),
        (Value::Time(left), Value::Time(right)) if op == ArithOp::Sub => {
            Value::number(left.saturating_sub(right) as f64 / 1000.0)
        }
        (Value::Time(moment), Value::Number(seconds, _)) => match op {
            ArithOp::Add => shifted(moment, seconds),
            ArithOp::Sub => shifted(moment, -seconds),
            ArithOp::Mul | ArithOp::Div | ArithOp::Rem => Value::Unknown,
        },
        (Value::Number(seconds, _), Value::Time(moment)) if op == ArithOp::Add => {
            shifted(moment, seconds)
        }
        _ => Value::Unknown,
    }
}

fn shifted<'v>(moment: i64, seconds: f64) -> Value<'v> {
    if seconds.is_nan() {
        return Value::Unknown;
    }
    // A cast from a float saturates, and so does the sum: far away stays far away.
    Value::Time(moment.saturating_add((seconds * 1000.0).round() as i64))
}
