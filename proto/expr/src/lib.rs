//! The expression language of rules, selectors, placement and export.
//!
//! This crate contains the grammar, its canonical print, the names that an expression
//! needs and their bindings, and evaluation with three-valued logic. neroman
//! (selectors, adding rules) and the watcher beside each job (standing rules) call it.
//! It never reads a clock, a file or a database: all of that comes through [`Scope`]
//! and [`ParseContext`].
//!
//! An expression is parsed once ([`Expr::parse`]), bound once per run
//! ([`Expr::bind`]) and evaluated often ([`Expr::eval`], which allocates nothing of its own):
//!
//! ```
//! # use nero_expr::*;
//! # struct Run;
//! # impl Scope for Run {
//! #     fn now_ms(&self) -> i64 { 0 }
//! #     fn fact(&self, fact: Fact) -> Value<'_> {
//! #         if fact == Fact::Runtime { Value::number(7300.0) } else { Value::Unknown }
//! #     }
//! #     fn param(&self, _: &str) -> Value<'_> { Value::Unknown }
//! #     fn metric(&self, name: &str) -> Option<f64> { (name == "error_rate").then_some(0.45) }
//! #     fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
//! #         visit(NameKind::Metric, "error_rate");
//! #     }
//! # }
//! let context = ParseContext::utc(1_795_000_000_000);
//! let rule = Expr::parse("runtime>7200&&errorrate>40%", &context)?;
//! assert_eq!(rule.canonical(), "(runtime > 7200) && (errorrate > 40%)");
//! let run = Run;
//! let bindings = rule.bind(&run)?;
//! assert!(rule.eval(&bindings, &run).is_true());
//! let why = rule.explain(&bindings, &run);
//! assert_eq!(why.text, "runtime = 7300s > 7200 && errorrate = 0.45 > 40%");
//! # Ok::<(), ExprError>(())
//! ```
//!
//! Numbers are `f64`. A comparison with NaN is false, but `!=` is true, so
//! `loss != loss` finds NaN; NaN is a known value. `/` and `%` follow `f64` too
//! (`1 / 0` is infinite, the remainder has the sign of the left side).
//!
//! The condition on a node for a run to go there is a [`Requirement`]: the same
//! language over the facts of nodes.
//!
//! Not built in this version, and refused by name: the facts of [`NOT_BUILT`].

mod ast;
mod bind;
mod candidates;
mod cohort;
mod direction;
mod doubt;
mod error;
mod eval;
mod explain;
mod fact;
mod kind;
mod lex;
mod node;
mod number;
mod parse;
mod past;
mod pattern;
mod place;
mod print;
mod requirement;
mod scope;
mod slips;
mod state;
mod value;

use jiff::tz::TimeZone;

pub use ast::{Asked, NameKind, NameRef, Pick, PickRef};
pub use bind::{BindRecord, Bindings, Bound, Seen};
pub use candidates::{Candidates, Conflict};
pub use cohort::{Cohort, CohortNumber};
pub use direction::more_is_better;
pub use doubt::Doubt;
pub use error::{ErrorKind, ExprError, Span, point_at, render};
pub use explain::{ExplainedPart, Explanation, NamedValue};
pub use fact::{Fact, FactKind, FactSet, FactSource, NOT_BUILT, sendable_signal, signal_number};
pub use lex::{TAG_BYTES_MAX, is_name_char, is_tag};
pub use node::NodeFact;
pub use parse::MISSING_OPERATOR;
pub use past::{BUCKETS, Fold, Past, PastPoint, SeriesPast};
pub use pattern::{Glob, Pattern};
pub use place::{KnownTo, RulePlace};
pub use requirement::{NodeScope, Requirement, Unmet};
pub use scope::Scope;
pub use slips::ACTIONS;
pub use state::State;
pub use value::{NumberText, Truth, Value};

use ast::Node;
use parse::{Parsed, Wanted};
use print::Printer;

/// The longest expression, and the longest canonical form of one, in bytes.
pub const TEXT_BYTES_MAX: usize = 8 * 1024;

/// The most levels that a tree may have. A chain of one `&&` or `||` is one level.
pub const HEIGHT_MAX: usize = 64;

/// The context that the meaning of a text depends on.
#[derive(Clone, Debug)]
pub struct ParseContext {
    /// The moment for `today` and `yesterday`: Unix milliseconds.
    pub now_ms: i64,
    /// The zone of the person who typed the text; dates are read in it.
    pub zone: TimeZone,
    /// Whether the expression is a standing one. Then `today`, `yesterday` and
    /// `changed` are refused, and a name not seen yet is unknown instead of a mistake.
    pub standing: bool,
    /// Names of probes, which a requirement may use beside the facts of nodes.
    pub probes: Vec<String>,
}

impl ParseContext {
    /// For an expression that is used at once.
    pub fn new(now_ms: i64, zone: TimeZone) -> ParseContext {
        ParseContext {
            now_ms,
            zone,
            standing: false,
            probes: Vec::new(),
        }
    }

    /// The same, with dates read as UTC; right for canonical texts, whose dates
    /// name their zone.
    pub fn utc(now_ms: i64) -> ParseContext {
        ParseContext::new(now_ms, TimeZone::UTC)
    }

    /// With these names of probes, for a requirement.
    #[must_use]
    pub fn with_probes<'n>(mut self, names: impl Iterator<Item = &'n str>) -> ParseContext {
        self.probes = names.map(str::to_owned).collect();
        self
    }

    /// For a standing rule.
    #[must_use]
    pub fn standing(mut self) -> ParseContext {
        self.standing = true;
        self
    }
}

/// A parsed expression. Immutable; equal when the meaning is written equally,
/// whatever the blanks and parentheses.
#[derive(Clone, Debug)]
pub struct Expr {
    root: Node,
    names: Vec<NameRef>,
    picks: Vec<PickRef>,
    facts: FactSet,
    standing: bool,
    /// Number of `for`.
    holds: u16,
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        self.root == other.root && self.names == other.names && self.picks == other.picks
    }
}

impl Expr {
    /// Parses a condition.
    /// Errors: not an expression; a number, text or time where a condition is needed;
    /// kinds that do not go together; words not built yet; too long or too deep.
    /// [`Expr::bind`] checks that names exist.
    pub fn parse(text: &str, context: &ParseContext) -> Result<Expr, ExprError> {
        Expr::parse_as(text, context, Wanted::Condition)
    }

    /// Parses a condition of a selector, in which ids and ranges, `all`, `last`
    /// and names in backticks may be operands of `&& || !` ([`Pick`]).
    ///
    /// Errors as [`Expr::parse`]; a run (`144.2`) as operand too.
    pub fn parse_selecting(text: &str, context: &ParseContext) -> Result<Expr, ExprError> {
        Expr::parse_as(text, context, Wanted::Selection)
    }

    /// Parses an expression with a value, such as `epoch / 50`, for [`Expr::value`]. A
    /// condition is a value too.
    ///
    /// Errors as [`Expr::parse`].
    pub fn parse_value(text: &str, context: &ParseContext) -> Result<Expr, ExprError> {
        Expr::parse_as(text, context, Wanted::Value)
    }

    /// Parses what tells the progress of a run, from 0 to 1, such as `epoch / 50`, for
    /// [`Expr::value`].
    ///
    /// Errors as [`Expr::parse`]; what is no number, and `progress` and `eta` too.
    pub fn parse_progress(text: &str, context: &ParseContext) -> Result<Expr, ExprError> {
        Expr::parse_as(text, context, Wanted::Progress)
    }

    pub(crate) fn parse_as(
        text: &str,
        context: &ParseContext,
        wanted: Wanted,
    ) -> Result<Expr, ExprError> {
        let Parsed {
            root,
            names,
            picks,
            holds,
        } = parse::parse(text, context, wanted)?;
        let mut facts = FactSet::default();
        root.walk(&mut |node| match node {
            Node::Fact(fact) => facts.insert(*fact),
            Node::Is(_) => facts.insert(Fact::State),
            Node::For(..) | Node::After(..) => facts.insert(Fact::Runtime),
            _ => {}
        });
        let expr = Expr {
            root,
            names,
            picks,
            facts,
            standing: context.standing,
            holds,
        };
        // A stored text must be readable again, and the canonical print may be longer
        // than the source.
        if expr.canonical().len() > TEXT_BYTES_MAX {
            let message = format!("with all parentheses this has more than {TEXT_BYTES_MAX} bytes");
            return Err(ExprError::new(ErrorKind::Limit, Span::new(0, 0), message));
        }
        Ok(expr)
    }

    /// The expression with all parentheses, dates in UTC, text in quotes:
    /// parsing it again gives an equal expression whatever the time and zone.
    pub fn canonical(&self) -> String {
        self.printer().text(&self.root)
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    fn printer(&self) -> Printer<'_> {
        Printer {
            names: &self.names,
            picks: &self.picks,
            of_peers: false,
        }
    }

    /// The names to bind: parameters and metrics, each once, in the order of the text.
    pub fn unbound_names(&self) -> &[NameRef] {
        &self.names
    }

    /// The named facts; a state word names [`Fact::State`]. A loosely written fact is
    /// among the bindings instead.
    pub fn facts(&self) -> FactSet {
        self.facts
    }

    /// The ids, ranges and the like of a selector's expression, with places.
    pub fn picks(&self) -> &[PickRef] {
        &self.picks
    }

    /// Whether `fact` is named, or may be meant by a loosely written name, which may
    /// turn out to be a parameter or metric instead.
    pub fn may_use(&self, fact: Fact) -> bool {
        self.facts.contains(fact)
            || (self.names.iter()).any(|name| bind::loose_fact(name) == Some(fact))
    }

    /// Its comparisons of a name alone with a number: of `loss > 5 && runtime > 1h` the name
    /// `loss` with 5.
    pub fn thresholds(&self) -> Vec<(&NameRef, f64)> {
        let number = |node: &Node| match node {
            Node::Number(number, _) => Some(*number),
            Node::Neg(child) => match &**child {
                Node::Number(number, _) => Some(-number),
                _ => None,
            },
            _ => None,
        };
        let mut found = Vec::new();
        self.root.walk(&mut |node| {
            let Node::Compare(_, pair) = node else { return };
            let (name, number) = match &**pair {
                [Node::Name(name), other] | [other, Node::Name(name)] => (name, number(other)),
                _ => return,
            };
            let name = self.names.get(usize::from(*name));
            found.extend(name.zip(number));
        });
        found
    }

    /// What it asks of the past of metrics, with the index of each name in
    /// [`Expr::unbound_names`].
    pub fn pasts(&self) -> impl Iterator<Item = (usize, Past)> {
        let mut found = Vec::new();
        self.root.walk(&mut |node| {
            let (slot, past) = match node {
                Node::Over(fold, slot, window) => {
                    let window_ms = window.as_ref().map(|window| window.ms);
                    let fold = *fold;
                    (slot, Past::Over { fold, window_ms })
                }
                Node::At(slot, step, _) => (slot, Past::At(*step)),
                _ => return,
            };
            found.push((usize::from(*slot), past));
        });
        found.into_iter()
    }

    /// The metrics of whose past it asks, as they are written, and what it asks.
    pub fn named_pasts(&self) -> impl Iterator<Item = (&NameRef, Past)> {
        let pasts = self.pasts();
        pasts.filter_map(|(slot, past)| Some((self.names.get(slot)?, past)))
    }

    /// Its aggregates over peers, in the order of the text.
    pub fn cohorts(&self) -> Vec<&Cohort> {
        let mut found = Vec::new();
        self.root.walk(&mut |node| {
            if let Node::Cohort(cohort) = node {
                found.push(&**cohort);
            }
        });
        found
    }

    /// Whether a `for` is in it, so that [`Expr::note_held`] is needed at every look.
    pub fn holds(&self) -> bool {
        self.holds > 0
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
            *since = match holds {
                true => since.or(ran_s),
                false => None,
            };
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

    /// Whether the expression contains the state word `state`.
    pub fn uses_state(&self, state: State) -> bool {
        let mut uses = false;
        (self.root).walk(&mut |node| uses |= *node == Node::Is(state));
        uses
    }

    /// Whether time alone can change the outcome: ages, `now`, `runtime` ….
    pub fn uses_clock(&self) -> bool {
        let mut uses = self.pasts().any(|(_, past)| past.uses_clock());
        self.root.walk(&mut |node| uses |= *node == Node::Now);
        let moves =
            |fact: Fact| fact.source() == FactSource::Clock || fact.kind() == FactKind::Time;
        uses || Fact::ALL
            .into_iter()
            .any(|fact| moves(fact) && self.may_use(fact))
    }

    /// Whether the outcome may depend on samples of the job (`cpu mem disk`).
    pub fn uses_samples(&self) -> bool {
        let sampled = |fact: &Fact| fact.source() == FactSource::Sample;
        Fact::ALL
            .into_iter()
            .filter(sampled)
            .any(|fact| self.may_use(fact))
    }
}

impl std::fmt::Display for Expr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.canonical())
    }
}
