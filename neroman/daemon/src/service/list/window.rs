//! The part of the picked experiments that a view shows: sorted by the value of an expression, and
//! cut.

use std::cmp::Ordering;
use std::cmp::Reverse;

use nero_expr::{Expr, Fact, ParseContext, Value};
use nero_life::now::Now;
use nero_life::scope;
use nero_life::state::State;
use nero_wire::v1;

use super::super::curve::bad;
use super::super::select::ChosenRun;
use crate::failure::Failure;

/// Which rows are shown.
#[derive(Clone, Debug)]
pub(in crate::service) struct Window {
    sort: Option<Sort>,
    offset: usize,
    count: usize,
}

#[derive(Clone, Debug)]
struct Sort {
    key: SortKey,
    is_backwards: bool,
}

#[derive(Clone, Debug)]
enum SortKey {
    Fact(Fact),
    Expr(Box<Expr>),
}

/// A value among others: numbers before text, missing ones last.
#[derive(Clone, Debug)]
enum Rank {
    Number(f64),
    Text(String),
    Missing,
}

impl Window {
    /// Reads what was asked for. `is_name`: whether an experiment has a parameter or a metric of
    /// this name, which then need not be an expression.
    ///
    /// # Errors
    /// When the sort key is no expression.
    pub(in crate::service) fn read(
        asked: &v1::Window,
        context: &ParseContext,
        is_name: impl Fn(&str) -> bool,
    ) -> Result<Self, Failure> {
        let (is_backwards, text) = match asked.sort.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, asked.sort.as_str()),
        };
        let key = match (text, Fact::from_word(text)) {
            ("", _) => None,
            (_, Some(fact)) => Some(SortKey::Fact(fact)),
            (text, None) => {
                let read = Expr::parse_value(text, context);
                let read = match read {
                    Err(_) if is_name(text) => Expr::parse_value(&format!("`{text}`"), context),
                    read => read,
                };
                Some(SortKey::Expr(Box::new(
                    read.map_err(|error| bad(text, &error))?,
                )))
            }
        };
        let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Self {
            sort: key.map(|key| Sort { key, is_backwards }),
            offset: whole(asked.offset),
            count: whole(asked.count),
        })
    }

    /// The expression by which rows are sorted.
    pub(in crate::service) fn expr(&self) -> Option<&Expr> {
        match &self.sort.as_ref()?.key {
            SortKey::Fact(_) => None,
            SortKey::Expr(expr) => Some(expr),
        }
    }

    /// The rows that are shown. Equal ones keep their order.
    pub(in crate::service) fn cut(
        &self,
        state: &State,
        now: &Now,
        mut chosen: Vec<ChosenRun>,
    ) -> Vec<ChosenRun> {
        match &self.sort {
            None => {}
            Some(Sort {
                key,
                is_backwards: false,
            }) => {
                chosen.sort_by_cached_key(|one| key.rank(state, now, one));
            }
            Some(Sort {
                key,
                is_backwards: true,
            }) => {
                chosen.sort_by_cached_key(|one| {
                    let rank = key.rank(state, now, one);
                    (rank.is_missing(), Reverse(rank))
                });
            }
        }
        let rows = chosen.into_iter().skip(self.offset);
        rows.take(self.count).collect()
    }
}

impl SortKey {
    fn rank(&self, state: &State, now: &Now, chosen: &ChosenRun) -> Rank {
        let Some(experiment) = state.experiment(chosen.id) else {
            return Rank::Missing;
        };
        let scope = scope::Sight {
            experiment,
            run: chosen.of(experiment),
            now,
        };
        let value = match self {
            Self::Fact(fact) => nero_expr::Scope::fact(&scope, *fact),
            Self::Expr(expr) => match expr.bind(&scope) {
                Ok(bindings) => return Rank::of(expr.value(&bindings, &scope)),
                // The name means nothing there.
                Err(_) => Value::Unknown,
            },
        };
        Rank::of(value)
    }
}

impl Rank {
    fn of(value: Value<'_>) -> Self {
        match value {
            Value::Unknown => Self::Missing,
            Value::Bool(truth, _) => Self::Text(truth.to_string()),
            Value::Number(number, _) => Self::Number(number),
            Value::Text(text) => Self::Text(text.to_owned()),
            Value::Time(ms) => Self::Number(ms as f64),
        }
    }

    /// Without a value it comes last in both directions.
    fn is_missing(&self) -> bool {
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
