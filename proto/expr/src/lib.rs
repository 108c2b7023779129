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
//! Rooms, each of which imports only those before it: `words` (facts, states, values), `tree` (an
//! expression with its print), `parse` and `bind` beside each other, `eval`.
//!
//! Not built in this version, and refused by name: the facts of [`NOT_BUILT`].

mod bind;
mod eval;
mod parse;
mod tree;
mod words;

pub use bind::scope::Scope;
pub use bind::{BindRecord, BindingChange, Bindings, Bound};
pub use eval::candidates::{Candidates, Conflict};
pub use eval::doubt::Doubt;
pub use eval::explain::{ExplainedPart, Explanation, NamedValue};
pub use eval::requirement::{NodeScope, Requirement, UnmetRequirement};
pub use parse::context::ParseContext;
pub use parse::{HEIGHT_MAX, MISSING_OPERATOR, TEXT_BYTES_MAX};
pub use tree::ast::{NameForm, NameKind, NameRef, Pick, PickRef};
pub use tree::cohort::{Cohort, CohortNumber};
pub use tree::expr::Expr;
pub use tree::lex::{TAG_BYTES_MAX, is_name_char, is_tag};
pub use words::direction::more_is_better;
pub use words::error::{ErrorKind, ExprError, Span, point_at, render};
pub use words::fact::{
    Fact, FactKind, FactSet, FactSource, NOT_BUILT, sendable_signal, signal_number,
};
pub use words::known::{KnowledgeHolder, RulePlace};
pub use words::node::NodeFact;
pub use words::past::{BUCKETS, Fold, Past, PastPoint, SeriesPast};
pub use words::pattern::{Glob, Pattern};
pub use words::slips::ACTIONS;
pub use words::state::State;
pub use words::value::{NumberText, Truth, Value};
