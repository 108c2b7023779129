//! Series of metrics that expressions ask for, with the points that are stored.

use std::collections::HashMap;

use nero_expr::{Past, SeriesPast};
use nero_model::RunId;

/// Series by run and name, fed with the points that are stored.
#[derive(Clone, Debug, Default)]
pub struct Pasts(pub(crate) HashMap<RunId, HashMap<String, SeriesPast>>);

impl Pasts {
    /// From now on the points of this series are needed.
    pub(crate) fn want(&mut self, run: RunId, metric: &str, past: Past) {
        let series = self.0.entry(run).or_default();
        series.entry(metric.to_owned()).or_default().want(past);
    }

    /// Whether no points are needed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The runs whose points are needed.
    pub fn runs(&self) -> impl Iterator<Item = RunId> {
        self.0.keys().copied()
    }

    /// Whether the points of this series are needed.
    pub fn has(&self, run: RunId, metric: &str) -> bool {
        let series = self.0.get(&run);
        series.is_some_and(|series| series.contains_key(metric))
    }
}
