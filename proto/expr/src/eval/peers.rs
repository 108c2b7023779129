//! The number of one peer in an aggregate.

use crate::bind::Bindings;
use crate::bind::scope::Scope;
use crate::tree::cohort::Cohort;
use crate::words::value::Value;

impl Cohort {
    /// The number of one peer; `None` when it has none, or NaN.
    pub fn number_of(&self, peer: &impl Scope) -> Option<f64> {
        let bindings = self.of_each.bind(peer).ok()?;
        self.bound_number_of(&bindings, peer)
    }

    /// The same with bindings of [`Cohort::of_each`] for this peer.
    pub fn bound_number_of(&self, bindings: &Bindings, peer: &impl Scope) -> Option<f64> {
        match self.of_each.value(bindings, peer) {
            Value::Number(number, _) if !number.is_nan() => Some(number),
            Value::Number(..)
            | Value::Unknown
            | Value::Text(_)
            | Value::Bool(..)
            | Value::Time(_) => None,
        }
    }
}
