//! The series of a run, and what is made of its outputs.

use super::run::Run;
use crate::facts::dispatch::Dispatch;
use crate::facts::journal::Metric;
use crate::facts::processed::ProcessedOutputs;

impl Run {
    /// Every series: those that its job printed, and those that were made of its outputs.
    pub fn metrics(&self) -> impl Iterator<Item = (&String, &Metric)> {
        let printed = &self.journal.metrics;
        let made = self.processed().into_iter().flat_map(|made| &made.metrics);
        printed
            .iter()
            .chain(made.filter(|(name, _)| !printed.contains_key(*name)))
    }

    /// The series of exactly this name.
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        let printed = self.journal.metrics.get(name);
        printed.or_else(|| self.processed()?.metrics.get(name))
    }

    /// What was made of its outputs; none: nothing yet, or nothing is to be made.
    pub fn processed(&self) -> Option<&ProcessedOutputs> {
        self.dispatch.processed.as_deref()
    }

    /// Whether all is made of its outputs that is to be made.
    pub fn is_processed(&self) -> bool {
        let has_made = || self.processed().is_some_and(|made| !made.stale);
        let has_no_outputs = || self.results().settled() && self.results().folder().is_empty();
        self.made.processing.is_empty() || has_made() || has_no_outputs()
    }

    /// Whether its outputs are home and wait for what is made of them.
    pub fn awaits_processing(&self) -> bool {
        !self.made.processing.is_empty()
            && self.processed().is_none_or(|made| made.stale)
            && self.has_ended()
            && self.results().settled()
            && !self.results().folder().is_empty()
    }
}

impl Dispatch {
    /// Has what was made of its outputs made anew. `is_made`: something is to be made of them;
    /// an answer of functions that run at this moment is then outdated, too.
    pub(crate) fn outdate_processed(&mut self, is_made: bool) {
        let made = self.processed.take();
        let made = made.or_else(|| is_made.then(Box::default));
        self.processed = made.map(|made| Box::new(made.outdated()));
    }
}
