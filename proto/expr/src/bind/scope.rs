//! The facts of one run or experiment, for expressions.

use crate::tree::ast::{NameKind, Pick};
use crate::tree::cohort::CohortNumber;
use crate::words::fact::Fact;
use crate::words::node::NodeFact;
use crate::words::past::Past;
use crate::words::value::Value;

/// One run, or an experiment with its newest run, for expressions.
///
/// Implementors answer from memory: every method may be called for each of
/// 100 000 experiments, or each time a sample arrives.
pub trait Scope {
    /// The present time, for ages and `now`: Unix milliseconds.
    fn now_ms(&self) -> i64;

    /// A fact; [`Value::Unknown`] if there is none (yet). Numbers in the unit of
    /// the [`Fact`], moments as [`Value::Time`].
    fn fact(&self, fact: Fact) -> Value<'_>;

    /// The parameter of exactly this name: its typed value with the text in
    /// which it was written; [`Value::Unknown`] when there is none.
    fn param(&self, name: &str) -> Value<'_>;

    /// The latest value of the metric of exactly this name. NaN is a value.
    fn metric(&self, name: &str) -> Option<f64>;

    /// What is asked of the past of the metric of exactly this name. `None` while it is
    /// unknown, and where no past is kept.
    fn past(&self, name: &str, past: Past) -> Option<f64> {
        let _ = (name, past);
        None
    }

    /// The number of an aggregate over peers, by its text ([`crate::Cohort::text`]). `None`
    /// while nobody has folded it.
    fn cohort(&self, text: &str) -> Option<CohortNumber> {
        let _ = text;
        None
    }

    /// Calls `visit` with the exact name of every parameter and metric, in any
    /// order; used to bind loosely written names, and for suggestions.
    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str));

    /// Whether source or code is newer than the newest run.
    fn changed(&self) -> Option<bool> {
        None
    }

    /// Whether it has left its source.
    fn gone(&self) -> Option<bool> {
        None
    }

    /// Whether an id, a range or the like includes this experiment. Called only
    /// for expressions parsed with [`crate::tree::expr::Expr::parse_selecting`].
    fn picked(&self, pick: &Pick) -> Option<bool> {
        let _ = pick;
        None
    }

    /// A fact of a node; known to the scope of a [`crate::Requirement`] alone.
    fn node_fact(&self, fact: NodeFact) -> Value<'_> {
        let _ = fact;
        Value::Unknown
    }

    /// The answer of a node to a probe; likewise.
    fn probe(&self, name: &str) -> Value<'_> {
        let _ = name;
        Value::Unknown
    }

    /// What a person is told behind the answer, such as ` since 14:02`.
    fn about_probe(&self, name: &str) -> String {
        let _ = name;
        String::new()
    }
}

impl<S: Scope + ?Sized> Scope for &S {
    fn now_ms(&self) -> i64 {
        (**self).now_ms()
    }
    fn fact(&self, fact: Fact) -> Value<'_> {
        (**self).fact(fact)
    }
    fn param(&self, name: &str) -> Value<'_> {
        (**self).param(name)
    }
    fn metric(&self, name: &str) -> Option<f64> {
        (**self).metric(name)
    }
    fn past(&self, name: &str, past: Past) -> Option<f64> {
        (**self).past(name, past)
    }
    fn cohort(&self, text: &str) -> Option<CohortNumber> {
        (**self).cohort(text)
    }
    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        (**self).visit_names(visit);
    }
    fn changed(&self) -> Option<bool> {
        (**self).changed()
    }
    fn gone(&self) -> Option<bool> {
        (**self).gone()
    }
    fn picked(&self, pick: &Pick) -> Option<bool> {
        (**self).picked(pick)
    }
    fn node_fact(&self, fact: NodeFact) -> Value<'_> {
        (**self).node_fact(fact)
    }
}
