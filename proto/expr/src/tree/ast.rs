//! The tree of an expression. Private but for [`Pick`] and [`NameForm`].

use nero_model::names::same_loosely;
use std::cmp::Ordering;

use super::cohort::Cohort;
use super::number::DateLiteral;
use crate::words::error::Span;
use crate::words::fact::Fact;
use crate::words::node::NodeFact;
use crate::words::past::Fold;
use crate::words::pattern::{Glob, Pattern};
use crate::words::state::State;

/// The origin of a name that is no fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NameKind {
    /// A parameter of the experiment.
    Param,
    /// A metric of the run.
    Metric,
}

impl NameKind {
    /// `param` or `metric`, as it stands before the point in `param.x`.
    pub fn as_str(self) -> &'static str {
        match self {
            NameKind::Param => "param",
            NameKind::Metric => "metric",
        }
    }
}

/// How a name was written, which limits what it may mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameForm {
    /// `x`: a parameter or metric, or loosely a fact.
    Any,
    /// `` `x` ``: a parameter or metric, never a fact or a word of the language.
    Quoted,
    /// `param.x` or `param('x')`.
    Param,
    /// `metric.x` or `metric('x')`.
    Metric,
}

impl NameForm {
    /// Whether the name may mean something of `kind`.
    pub fn allows(self, kind: NameKind) -> bool {
        match self {
            NameForm::Any | NameForm::Quoted => true,
            NameForm::Param => kind == NameKind::Param,
            NameForm::Metric => kind == NameKind::Metric,
        }
    }
}

/// A name that is no fact. An expression holds it once, however often it is
/// written.
#[derive(Clone, Debug)]
pub struct NameRef {
    /// How it was written.
    pub asked: NameForm,
    /// The name without prefix, quotes or backticks.
    pub text: Box<str>,
    /// The place of its first use.
    pub span: Span,
}

impl PartialEq for NameRef {
    fn eq(&self, other: &NameRef) -> bool {
        self.asked == other.asked && self.text == other.text
    }
}

/// A pick of experiments inside a selector's expression: `124-186 && crashed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// `144`.
    Id(u64),
    /// `1-9:2`: `first`, `first + step` … up to `last`.
    Range {
        /// Lowest number.
        first: u64,
        /// Highest number that may be meant, at least `first`.
        last: u64,
        /// Distance, at least 1.
        step: u64,
    },
    /// `144.2`: one run.
    Run {
        /// Number of the experiment.
        id: u64,
        /// The number of the run, from 1.
        attempt: u32,
    },
    /// `all`.
    All,
    /// `last`.
    Last,
    /// `` `name` ``: an experiment's name, letter for letter.
    Name(Box<str>),
}

impl Pick {
    /// Whether an id or a range includes the experiment with this number; `None`
    /// for other picks, which the number does not decide.
    pub fn has_id(&self, wanted: u64) -> Option<bool> {
        match *self {
            Pick::Id(id) => Some(id == wanted),
            Pick::Range { first, last, step } => {
                Some((first..=last).contains(&wanted) && (wanted - first).is_multiple_of(step))
            }
            Pick::Run { .. } | Pick::All | Pick::Last | Pick::Name(_) => None,
        }
    }

    /// Reads `144`, `124-186`, `1-9:2` or `144.2`: digits only, no blanks.
    ///
    /// `None` when `text` has another shape; an error, one line for a person, when
    /// it has the shape and no valid value: not ascending, step 0, too big.
    pub fn from_digits(text: &str) -> Option<Result<Pick, String>> {
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if let Some((id, attempt)) = text.split_once('.') {
            return (digits(id) && digits(attempt)).then(|| run_pick(id, attempt));
        }
        let (range, step) = match text.split_once(':') {
            Some((range, step)) => (range, Some(step)),
            None => (text, None),
        };
        match (range.split_once('-'), step) {
            (None, None) => digits(text).then(|| whole(text).map(Pick::Id)),
            (None, Some(_)) => None,
            (Some((first, last)), step) => {
                let shaped = digits(first) && digits(last) && step.is_none_or(digits);
                shaped.then(|| range_pick(first, last, step.unwrap_or("1")))
            }
        }
    }
}

fn whole(digits: &str) -> Result<u64, String> {
    digits
        .parse()
        .map_err(|_| format!("{digits} is too big for a number of an experiment"))
}

fn run_pick(id: &str, attempt: &str) -> Result<Pick, String> {
    let id = whole(id)?;
    match attempt.parse() {
        Ok(attempt) if attempt > 0 => Ok(Pick::Run { id, attempt }),
        _ => Err(format!("{id} has no run {attempt}: runs count from 1")),
    }
}

fn range_pick(first: &str, last: &str, step: &str) -> Result<Pick, String> {
    let (first, last, step) = (whole(first)?, whole(last)?, whole(step)?);
    if first > last {
        return Err(format!("a range goes upwards: {last}-{first}"));
    }
    if step == 0 {
        return Err("the step of a range is at least 1".to_owned());
    }
    Ok(Pick::Range { first, last, step })
}

/// A pick and its place.
#[derive(Clone, Debug)]
pub struct PickRef {
    pub pick: Pick,
    pub span: Span,
}

impl PartialEq for PickRef {
    fn eq(&self, other: &PickRef) -> bool {
        self.pick == other.pick
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArithOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

impl ArithOp {
    pub fn sign(self) -> &'static str {
        match self {
            ArithOp::Add => "+",
            ArithOp::Sub => "-",
            ArithOp::Mul => "*",
            ArithOp::Div => "/",
            ArithOp::Rem => "%",
        }
    }

    pub fn of(self, left: f64, right: f64) -> f64 {
        match self {
            ArithOp::Add => left + right,
            ArithOp::Sub => left - right,
            ArithOp::Mul => left * right,
            ArithOp::Div => left / right,
            ArithOp::Rem => left % right,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareOp {
    Less,
    LessEq,
    Greater,
    GreaterEq,
    Equal,
    NotEqual,
}

impl CompareOp {
    pub fn sign(self) -> &'static str {
        match self {
            CompareOp::Less => "<",
            CompareOp::LessEq => "<=",
            CompareOp::Greater => ">",
            CompareOp::GreaterEq => ">=",
            CompareOp::Equal => "==",
            CompareOp::NotEqual => "!=",
        }
    }

    /// Whether the operator holds between two values in this order.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            CompareOp::Less => order.is_lt(),
            CompareOp::LessEq => order.is_le(),
            CompareOp::Greater => order.is_gt(),
            CompareOp::GreaterEq => order.is_ge(),
            CompareOp::Equal => order.is_eq(),
            CompareOp::NotEqual => order.is_ne(),
        }
    }

    /// Whether the operator tests sameness, not order.
    pub fn is_equality(self) -> bool {
        matches!(self, CompareOp::Equal | CompareOp::NotEqual)
    }
}

/// A function of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MathFn {
    Abs,
    Sqrt,
    Log,
    Exp,
    Round,
}

impl MathFn {
    pub const ALL: [MathFn; 5] = [
        MathFn::Abs,
        MathFn::Sqrt,
        MathFn::Log,
        MathFn::Exp,
        MathFn::Round,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            MathFn::Abs => "abs",
            MathFn::Sqrt => "sqrt",
            MathFn::Log => "log",
            MathFn::Exp => "exp",
            MathFn::Round => "round",
        }
    }

    pub fn from_word(word: &str) -> Option<MathFn> {
        MathFn::ALL.into_iter().find(|one| one.as_str() == word)
    }

    pub fn of(self, number: f64) -> f64 {
        match self {
            MathFn::Abs => number.abs(),
            MathFn::Sqrt => number.sqrt(),
            MathFn::Log => number.ln(),
            MathFn::Exp => number.exp(),
            MathFn::Round => number.round(),
        }
    }
}

/// A duration with the text in which it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Duration {
    pub ms: u64,
    pub text: Box<str>,
}

impl PartialEq for DateLiteral {
    fn eq(&self, other: &Self) -> bool {
        self.ms == other.ms
    }
}

/// One node. Names and picks are indices into the tables of the expression, so
/// that they can be bound once and compared without their places.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// A number with the text in which it was written.
    Number(f64, Box<str>),
    /// `nan`, which is equal to itself here.
    Nan,
    Inf,
    Text(Box<str>),
    Bool(bool),
    Time(DateLiteral),
    Now,
    Fact(Fact),
    /// A fact of a node, in requirements.
    Place(NodeFact),
    /// The answer of a node to a probe of this name, in requirements.
    Probe(Box<str>),
    Name(u16),
    /// `mean(loss, 10m)`: of the metric with this slot.
    Over(Fold, u16, Option<Duration>),
    /// `loss@10`, with the step as it was written.
    At(u16, f64, Box<str>),
    /// `median(peers.loss)`.
    Cohort(Box<Cohort>),
    Is(State),
    Pick(u16),
    Neg(Box<Node>),
    Not(Box<Node>),
    Math(MathFn, Box<Node>),
    Arith(ArithOp, Box<[Node; 2]>),
    Compare(CompareOp, Box<[Node; 2]>),
    Glob(Box<Node>, Glob),
    Match(Box<Node>, Box<Pattern>),
    /// `x in (a, b)`: the value, then the list.
    In(Vec<Node>),
    /// `x for 10m`, with its number among those of the expression.
    For(Box<Node>, Duration, u16),
    /// `x after 2h`.
    After(Box<Node>, Duration),
    /// `&&` of two or more.
    And(Vec<Node>),
    /// `||` of two or more.
    Or(Vec<Node>),
}

impl Node {
    /// The child nodes.
    pub fn children(&self) -> &[Node] {
        match self {
            Node::Number(..)
            | Node::Text(_)
            | Node::Bool(_)
            | Node::Time(_)
            | Node::Now
            | Node::Fact(_)
            | Node::Place(_)
            | Node::Probe(_)
            | Node::Nan
            | Node::Inf
            | Node::Name(_)
            | Node::Over(..)
            | Node::At(..)
            | Node::Cohort(_)
            | Node::Is(_)
            | Node::Pick(_) => &[],
            Node::Neg(child)
            | Node::Not(child)
            | Node::Math(_, child)
            | Node::Glob(child, _)
            | Node::Match(child, _)
            | Node::For(child, ..)
            | Node::After(child, _) => std::slice::from_ref(child),
            Node::Arith(_, pair) | Node::Compare(_, pair) => &pair[..],
            Node::In(parts) | Node::And(parts) | Node::Or(parts) => parts,
        }
    }

    /// Calls `visit` with this node and all below, in the order of the text.
    pub fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Node)) {
        visit(self);
        for child in self.children() {
            child.walk(visit);
        }
    }
}

/// The number of a part without names.
pub(crate) fn constant(node: &Node) -> Option<f64> {
    match node {
        Node::Number(number, _) => Some(*number),
        Node::Inf => Some(f64::INFINITY),
        Node::Neg(inner) => constant(inner).map(|number| -number),
        Node::Math(function, inner) => constant(inner).map(|number| function.of(number)),
        Node::Arith(op, pair) => {
            let [left, right] = [constant(&pair[0])?, constant(&pair[1])?];
            Some(op.of(left, right))
        }
        _ => None,
    }
}

/// The fact that a name means loosely.
pub(crate) fn loose_fact(name: &NameRef) -> Option<Fact> {
    let is_open = name.asked == NameForm::Any;
    Fact::ALL
        .into_iter()
        .find(|fact| is_open && same_loosely(fact.as_str(), &name.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_ids_ranges_and_runs() {
        let range = |first, last, step| Some(Ok(Pick::Range { first, last, step }));
        assert_eq!(Pick::from_digits("144"), Some(Ok(Pick::Id(144))));
        assert_eq!(Pick::from_digits("124-186"), range(124, 186, 1));
        assert_eq!(Pick::from_digits("1-9:2"), range(1, 9, 2));
        assert_eq!(Pick::from_digits("5-5"), range(5, 5, 1));
        let run = Pick::Run {
            id: 144,
            attempt: 2,
        };
        assert_eq!(Pick::from_digits("144.2"), Some(Ok(run)));
    }

    #[test]
    fn other_shapes_are_left_to_others() {
        for text in [
            "",
            "a",
            "1-",
            "-1",
            "1 - 2",
            "1:2",
            "1-2-3",
            "1.2.3",
            "1-2:",
            "1e3",
            "2026-11-20",
        ] {
            assert_eq!(Pick::from_digits(text), None, "{text}");
        }
    }

    #[test]
    fn impossible_numbers_say_why() {
        for (text, why) in [
            ("186-124", "a range goes upwards: 124-186"),
            ("1-9:0", "the step of a range is at least 1"),
            ("144.0", "144 has no run 0: runs count from 1"),
            (
                "99999999999999999999",
                "99999999999999999999 is too big for a number of an experiment",
            ),
        ] {
            assert_eq!(Pick::from_digits(text), Some(Err(why.to_owned())));
        }
    }

    #[test]
    fn a_step_counts_from_the_first() {
        let pick = Pick::Range {
            first: 3,
            last: 10,
            step: 3,
        };
        let ids: Vec<u64> = (0..20)
            .filter(|&id| pick.has_id(id) == Some(true))
            .collect();
        assert_eq!(ids, [3, 6, 9]);
    }
}
