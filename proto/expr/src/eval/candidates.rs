//! The possible meanings of written names over many experiments at once.
//!
//! A selector looks at 100 000 experiments, each with its own parameters and
//! metrics. The names that exist anywhere are searched once; each experiment is
//! asked only for the few that fit.

use std::cell::Cell;

use super::doubt::{fact_as_condition, no_condition};
use super::{NameResolver, value_of};
use crate::bind::scope::Scope;
use crate::bind::{Bound, NameMatches, is_next_part};
use crate::tree::ast::{NameKind, loose_fact};
use crate::tree::expr::Expr;
use crate::words::error::{ErrorKind, ExprError};
use crate::words::past::Past;
use crate::words::value::{Truth, Value};

/// For each name of an expression its possible meanings, over all experiments.
#[derive(Clone, Debug)]
pub struct Candidates {
    slots: Vec<NameMatches>,
    unprinted: Vec<Box<str>>,
    conflict: Cell<Option<u16>>,
    /// By slot as a bit: conditions that were true or false somewhere, and those that were
    /// something else.
    truths: Cell<u64>,
    others: Cell<u64>,
}

/// A name that means two things in one experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Index of the name in [`Expr::unbound_names`].
    pub slot: usize,
    /// The error to show, without the experiment.
    pub error: ExprError,
}

impl Expr {
    /// Whether the condition holds for one of many experiments.
    ///
    /// A name that means two things in the experiment is unknown, and
    /// [`Candidates::take_conflict`] returns it.
    pub fn eval_among(&self, candidates: &Candidates, scope: &impl Scope) -> Truth {
        self.evaluator(candidates, scope).truth(&self.root)
    }

    /// The value for one of many experiments; of a condition true, false or unknown.
    pub fn value_among<'s, S: Scope>(&'s self, candidates: &Candidates, scope: &'s S) -> Value<'s> {
        self.evaluator(candidates, scope).value(&self.root)
    }

    /// Looks through all names that exist anywhere: `visit_names` calls its
    /// argument with each, repeats allowed.
    ///
    /// Errors: a name that exists nowhere, with a suggestion. With `is_open` a name that a live
    /// run may still print is unknown instead: [`Candidates::unprinted`].
    pub fn candidates(
        &self,
        is_open: bool,
        visit_names: impl Fn(&mut dyn FnMut(NameKind, &str)),
    ) -> Result<Candidates, ExprError> {
        let mut unprinted = Vec::new();
        let mut slots = vec![NameMatches::default(); self.names.len()];
        if !slots.is_empty() {
            visit_names(&mut |kind, exact| {
                for (name, found) in self.names.iter().zip(&mut slots) {
                    found.add(name, kind, exact);
                }
            });
        }
        for (name, found) in self.names.iter().zip(&mut slots) {
            found.loose.extend(loose_fact(name).map(Bound::Fact));
            if found.is_empty() {
                if !(is_open && self.may_be_printed(name, &visit_names)) {
                    return Err(self.missing(name, visit_names));
                }
                unprinted.push(name.text.clone());
            }
            found.sort();
        }
        for slot in self.condition_slots() {
            let (Some(name), Some(found)) = (self.names.get(slot), slots.get(slot)) else {
                continue;
            };
            let list = found.best();
            // A parameter is true or false in some experiments and something else in others.
            if list.iter().any(|bound| matches!(bound, Bound::Param(_))) {
                continue;
            }
            return Err(match list.first() {
                None if is_open => continue,
                Some(Bound::Fact(fact)) => fact_as_condition(name, *fact),
                Some(Bound::Param(_) | Bound::Metric(_)) | None => no_condition(name, "a number"),
            });
        }
        Ok(Candidates {
            slots,
            unprinted,
            conflict: Cell::new(None),
            truths: Cell::new(0),
            others: Cell::new(0),
        })
    }
}

impl Candidates {
    /// The names that no run has printed yet; they are unknown.
    pub fn unprinted(&self) -> &[Box<str>] {
        &self.unprinted
    }

    /// The name that had two meanings in an evaluation since the last call, if
    /// any; it was unknown there.
    pub fn take_conflict(&self, expr: &Expr) -> Option<Conflict> {
        let slot = usize::from(self.conflict.take()?);
        let name = expr.names.get(slot)?;
        let found = self.slots.get(slot)?;
        let loose = found.loose.iter().chain(&found.of_set);
        let listed: Vec<String> = loose
            .map(|bound| format!("`{}`", bound.written()))
            .collect();
        let message = format!("`{}` has more than one meaning", name.text);
        let error = ExprError::new(ErrorKind::Name, name.span, message);
        let error = error.hint(format!("write {}", listed.join(" or ")));
        Some(Conflict { slot, error })
    }

    /// The error for a name that stands for a condition and was true or false in none of the
    /// experiments evaluated so far.
    pub fn no_condition(&self, expr: &Expr) -> Option<ExprError> {
        let never = self.others.get() & !self.truths.get();
        let slot = never.trailing_zeros() as usize;
        let name = expr.names.get(slot).filter(|_| never != 0)?;
        Some(no_condition(name, ""))
    }

    /// The value of the last entry of `list` that this experiment has.
    fn newest<'s, S: Scope>(list: &[Bound], scope: &'s S) -> Option<Value<'s>> {
        let mut values = list.iter().rev().map(|bound| value_of(bound, scope));
        values.find(Value::is_known)
    }

    /// The value of the only entry of `list` that this experiment has. Two
    /// entries with the same number are no conflict: a program that prints its
    /// own arguments has both.
    fn only<'s, S: Scope>(&self, slot: u16, list: &[Bound], scope: &'s S) -> Option<Value<'s>> {
        let mut only = None;
        for bound in list {
            let value = value_of(bound, scope);
            match (only, value) {
                (_, Value::Unknown) => {}
                (None, value) => only = Some(value),
                (Some(Value::Number(first, _)), Value::Number(second, _)) if first == second => {}
                (Some(_), _) => {
                    self.conflict.set(Some(slot));
                    return Some(Value::Unknown);
                }
            }
        }
        only
    }
}

impl Candidates {
    /// The value of the only set that this experiment has, of its newest numbered part.
    fn of_set<'s, S: Scope>(&self, slot: u16, list: &[Bound], scope: &'s S) -> Option<Value<'s>> {
        let known = |bound: &&Bound| value_of(bound, scope).is_known();
        let newest = list.iter().rev().find(known)?;
        let mut others = list.iter().filter(known);
        if others.any(|other| !is_next_part(other.name(), newest.name())) {
            self.conflict.set(Some(slot));
            return Some(Value::Unknown);
        }
        Some(value_of(newest, scope))
    }
}

impl NameResolver for Candidates {
    fn value<'s, S: Scope>(&self, slot: u16, scope: &'s S) -> Value<'s> {
        let Some(found) = self.slots.get(usize::from(slot)) else {
            return Value::Unknown;
        };
        let mut exact = found.exact.iter().map(|bound| value_of(bound, scope));
        exact
            .find(|value| value.is_known())
            .or_else(|| self.only(slot, &found.loose, scope))
            .or_else(|| Self::newest(&found.training, scope))
            .or_else(|| self.of_set(slot, &found.of_set, scope))
            .unwrap_or_default()
    }

    fn past<S: Scope>(&self, slot: u16, past: Past, scope: &S) -> Option<f64> {
        let found = self.slots.get(usize::from(slot))?;
        let names = |list: &'_ [Bound]| -> Vec<Box<str>> {
            let metrics = list.iter().filter_map(|bound| match bound {
                Bound::Metric(name) if scope.metric(name).is_some() => Some(name.clone()),
                Bound::Metric(_) | Bound::Fact(_) | Bound::Param(_) => None,
            });
            metrics.collect()
        };
        if let Some(exact) = names(&found.exact).first() {
            return scope.past(exact, past);
        }
        match names(&found.loose).as_slice() {
            [] => {}
            [only] => return scope.past(only, past),
            [..] => {
                self.conflict.set(Some(slot));
                return None;
            }
        }
        if let Some(newest) = names(&found.training).last() {
            return scope.past(newest, past);
        }
        match names(&found.of_set).as_slice() {
            // A metric that this experiment did not print.
            [] => scope.past(found.best().first()?.name(), past),
            [first, .., last] if !is_next_part(first, last) => {
                self.conflict.set(Some(slot));
                None
            }
            [.., last] => scope.past(last, past),
        }
    }

    fn note_condition(&self, slot: u16, is_truth: bool) {
        let bit = 1_u64.checked_shl(u32::from(slot)).unwrap_or(0);
        let noted = if is_truth { &self.truths } else { &self.others };
        noted.set(noted.get() | bit);
    }

    /// A selector has no `for`.
    fn held_since(&self, _: u16) -> Option<f64> {
        None
    }
}
