//! The part of the picked experiments that a view shows: sorted by the value of an expression, and
//! cut.

use std::cmp::Reverse;

use nero_expr::{Expr, Fact, ParseContext};
use nero_life::now::PresentTime;
use nero_life::scope::Sight;
use nero_life::state::State;
use nero_wire::v1;

use super::super::curve::bad;
use super::rank::{Rank, SortOrder};
use crate::service::select::ChosenRun;
use nero_home::failure::Failure;

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
        now: &PresentTime,
        mut chosen: Vec<ChosenRun>,
    ) -> Vec<ChosenRun> {
        if let Some(sort) = &self.sort {
            let ranking = sort.key.ranking(state);
            let rank = |one: &ChosenRun| sort.key.rank(ranking.as_ref(), state, now, one);
            if sort.is_backwards {
                chosen.sort_by_cached_key(|one| {
                    let rank = rank(one);
                    (rank.is_missing(), Reverse(rank))
                });
            } else {
                chosen.sort_by_cached_key(rank);
            }
        }
        let rows = chosen.into_iter().skip(self.offset);
        rows.take(self.count).collect()
    }
}

impl SortKey {
    /// `None` for a fact, and where a name of the expression exists nowhere.
    fn ranking(&self, state: &State) -> Option<SortOrder<'_>> {
        match self {
            Self::Fact(_) => None,
            Self::Expr(expr) => SortOrder::new(expr, true, |visit| {
                for (kind, name) in state.known_names.iter() {
                    visit(*kind, name);
                }
            })
            .ok(),
        }
    }

    fn rank(
        &self,
        ranking: Option<&SortOrder<'_>>,
        state: &State,
        now: &PresentTime,
        chosen: &ChosenRun,
    ) -> Rank {
        let Some(experiment) = state.experiment(chosen.id) else {
            return Rank::Missing;
        };
        let sight = Sight {
            experiment,
            run: chosen.of(experiment),
            now,
        };
        match self {
            Self::Fact(fact) => Rank::of(nero_expr::Scope::fact(&sight, *fact)),
            Self::Expr(_) => ranking.map_or(Rank::Missing, |ranking| ranking.rank(&sight)),
        }
    }
}
