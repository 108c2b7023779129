//! The place of many experiments in an order by the value of an expression.

use std::cmp::Ordering;

use nero_expr::{Candidates, Expr, ExprError, NameKind, Value};
use nero_life::scope::Sight;

/// An expression that many experiments are sorted by. The names that exist anywhere are searched
/// once, not in each experiment.
pub(in crate::service) struct SortOrder<'e> {
    expr: &'e Expr,
    names: Candidates,
}

/// A value among others: numbers, moments and truth in front of text, missing ones last.
#[derive(Clone, Debug)]
pub(in crate::service) enum Rank {
    Number(f64),
    Text(String),
    Missing,
}

impl<'e> SortOrder<'e> {
    /// `visit_names` calls its argument with each name that exists; `is_open`: whether a name that
    /// exists nowhere yet may still be printed.
    ///
    /// # Errors
    /// A name that exists nowhere.
    pub fn new(
        expr: &'e Expr,
        is_open: bool,
        visit_names: impl Fn(&mut dyn FnMut(NameKind, &str)),
    ) -> Result<Self, ExprError> {
        let names = expr.candidates(is_open, visit_names)?;
        Ok(Self { expr, names })
    }

    /// The place of an experiment. A name that it does not have, or with two meanings, is missing.
    pub fn rank(&self, sight: &Sight<'_>) -> Rank {
        Rank::of(self.expr.value_among(&self.names, sight))
    }
}

impl Rank {
    pub fn of(value: Value<'_>) -> Self {
        match value {
            Value::Unknown => Self::Missing,
            Value::Number(number, _) if number.is_nan() => Self::Missing,
            Value::Number(number, _) => Self::Number(number),
            Value::Bool(truth, _) => Self::Number(f64::from(u8::from(truth))),
            Value::Time(ms) => Self::Number(ms as f64),
            Value::Text(text) => Self::Text(text.to_owned()),
        }
    }

    /// Without a value it comes last in both directions.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Number(_) => 0,
            Self::Text(_) => 1,
            Self::Missing => 2,
        }
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one.total_cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (one, other) => one.kind().cmp(&other.kind()),
        }
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Rank {}
