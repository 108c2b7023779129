//! Aggregates over the peers of a run: `quantile(peers.loss@9, 1/3)`.
//!
//! neroman knows the peers. It computes a number of each of them ([`Cohort::of_each`]),
//! folds these to one ([`Cohort::fold`]), and sends that to the run's watcher, which finds
//! it by the text of the aggregate ([`Scope::cohort`](crate::Scope::cohort)).

use super::ast::{Node, constant};
use super::expr::Expr;

/// How the numbers of peers become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Count,
    Min,
    Max,
    Mean,
    Median,
    Quantile,
}

impl Aggregate {
    pub const ALL: [Aggregate; 6] = [
        Aggregate::Count,
        Aggregate::Min,
        Aggregate::Max,
        Aggregate::Mean,
        Aggregate::Median,
        Aggregate::Quantile,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Aggregate::Count => "count",
            Aggregate::Min => "min",
            Aggregate::Max => "max",
            Aggregate::Mean => "mean",
            Aggregate::Median => "median",
            Aggregate::Quantile => "quantile",
        }
    }

    pub fn from_word(word: &str) -> Option<Aggregate> {
        Aggregate::ALL.into_iter().find(|one| one.as_str() == word)
    }

    /// Whether it aggregates nothing but peers.
    pub fn is_of_peers_alone(self) -> bool {
        matches!(self, Aggregate::Median | Aggregate::Quantile)
    }
}

/// One aggregate over peers.
#[derive(Clone, Debug)]
pub struct Cohort {
    pub(crate) aggregate: Aggregate,
    /// The number of one peer. Its names are those of the peer.
    pub(crate) of_each: Expr,
    /// Of a quantile: the share of the peers below it.
    pub(crate) share: f64,
    /// Its canonical text.
    pub(crate) text: Box<str>,
}

/// The text has every part of it.
impl PartialEq for Cohort {
    fn eq(&self, other: &Cohort) -> bool {
        self.text == other.text
    }
}

/// An aggregate over peers, as neroman folded it last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CohortNumber {
    /// The number; `None` while no peer has a value.
    pub value: Option<f64>,
    /// Number of peers that have a value.
    pub peers: u64,
    /// When it was folded: Unix milliseconds.
    pub at_ms: i64,
}

impl Cohort {
    /// The aggregate as it is written, by which [`Scope::cohort`](crate::Scope::cohort) finds its number.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The expression with the number of one peer.
    pub fn of_each(&self) -> &Expr {
        &self.of_each
    }

    /// Folds the numbers of peers, which are in ascending order and no NaN. `own` is one of
    /// them that does not count: that of the run which asks. Returns the number, and how
    /// many it is of.
    pub fn fold(&self, sorted: &[f64], own: Option<f64>) -> (Option<f64>, u64) {
        let own = own.map(|own| sorted.partition_point(|number| *number < own));
        let own = own.filter(|own| *own < sorted.len());
        let count = sorted.len() - usize::from(own.is_some());
        let at = |index: usize| sorted[index + usize::from(own.is_some_and(|own| own <= index))];
        let number = match (self.aggregate, count.checked_sub(1)) {
            (Aggregate::Count, _) => Some(count as f64),
            (_, None) => None,
            (Aggregate::Min, _) => Some(at(0)),
            (Aggregate::Max, Some(last)) => Some(at(last)),
            (Aggregate::Mean, _) => Some((0..count).map(at).sum::<f64>() / count as f64),
            (Aggregate::Median, Some(last)) => Some(between(at, 0.5, last)),
            (Aggregate::Quantile, Some(last)) => Some(between(at, self.share, last)),
        };
        (number.filter(|number| !number.is_nan()), count as u64)
    }
}

/// The value below which `share` of the values lie; between two of them in proportion.
fn between(at: impl Fn(usize) -> f64, share: f64, last: usize) -> f64 {
    let place = share * last as f64;
    let below = at(place.floor() as usize);
    let above = at((place.ceil() as usize).min(last));
    if below == above {
        return below;
    }
    below + (above - below) * place.fract()
}

/// The share of a quantile, from 0 to 1.
pub(crate) fn share(node: &Node) -> Option<f64> {
    constant(node).filter(|share| (0.0..=1.0).contains(share))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parse::context::ParseContext;

    fn fold(text: &str, sorted: &[f64], own: Option<f64>) -> (Option<f64>, u64) {
        let rule = format!("{text} > 0");
        let rule = Expr::parse(&rule, &ParseContext::utc(0).standing()).unwrap();
        rule.cohorts()[0].fold(sorted, own)
    }

    #[test]
    fn aggregates_are_of_the_others() {
        let sorted = [1.0, 2.0, 2.0, 5.0, 9.0];
        for (text, all, others) in [
            ("count(peers.x)", 5.0, 4.0),
            ("min(peers.x)", 1.0, 1.0),
            ("max(peers.x)", 9.0, 9.0),
            ("mean(peers.x)", 3.8, 4.25),
            ("median(peers.x)", 2.0, 3.5),
            ("quantile(peers.x, 25%)", 2.0, 1.75),
            ("quantile(peers.x, 0)", 1.0, 1.0),
            ("quantile(peers.x, 1)", 9.0, 9.0),
        ] {
            assert_eq!(fold(text, &sorted, None), (Some(all), 5), "{text}");
            assert_eq!(fold(text, &sorted, Some(2.0)), (Some(others), 4), "{text}");
        }
        assert_eq!(fold("min(peers.x)", &[1.0], Some(1.0)), (None, 0));
        assert_eq!(fold("count(peers.x)", &[], None), (Some(0.0), 0));
        assert_eq!(fold("median(peers.x)", &[], None), (None, 0));
        let far = [f64::NEG_INFINITY, f64::INFINITY];
        assert_eq!(fold("mean(peers.x)", &far, None).0, None, "there is none");
    }

    proptest! {
        #[test]
        fn leaving_one_out_is_folding_the_rest(
            values in proptest::collection::vec(-4i8..4, 1..30),
            chosen in any::<prop::sample::Index>(),
            share in 0u8..=10,
        ) {
            let mut sorted: Vec<f64> = values.iter().map(|value| f64::from(*value) / 2.0).collect();
            sorted.sort_by(f64::total_cmp);
            let mut rest = sorted.clone();
            let own = rest.remove(chosen.index(sorted.len()));
            for text in ["count(peers.x)", "min(peers.x)", "max(peers.x)", "mean(peers.x)",
                "median(peers.x)", &format!("quantile(peers.x, {share} / 10)")] {
                prop_assert_eq!(fold(text, &sorted, Some(own)), fold(text, &rest, None), "{}", text);
            }
        }
    }
}
