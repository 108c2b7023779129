//! What the processors of an experiment made of a run's outputs.

use std::collections::BTreeMap;

use nero_model::RunId;
use serde::{Deserialize, Serialize};

use super::change::{Change, dispatch_changed};
use super::dispatch::Dispatch;
use super::journal::Metric;
use super::run::Run;
use super::state::State;

/// What was made of a run's outputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processed {
    /// Summaries of the series, by name. A name that the job printed, too, is the job's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, Metric>,
    /// The file of their numbers; empty: the one that has the name of the run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub numbers: String,
    /// What failed: a line, and perhaps a traceback below it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// What else there is to tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Pictures among its results that are ours.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<String>,
    /// Whether all of that is to be made anew: it was made of outputs or records that are
    /// others now. The series are gone already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// How often it was to be made anew.
    pub version: u32,
}

impl Processed {
    /// What is left when its run's outputs or records are others.
    fn outdated(self) -> Self {
        Self {
            pictures: self.pictures,
            stale: true,
            version: self.version.saturating_add(1),
            ..Self::default()
        }
    }
}

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
    pub fn processed(&self) -> Option<&Processed> {
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

/// Records what was made of a run's outputs, unless these have changed since.
pub fn record(state: &State, run: RunId, processed: &Processed) -> Option<Change> {
    let run = state.run(run)?;
    let version = run.processed().map_or(0, |made| made.version);
    if version != processed.version {
        return None;
    }
    dispatch_changed(run, |dispatch| {
        dispatch.processed = Some(Box::new(processed.clone()));
    })
}

/// Has it made anew for a run that is folded anew.
pub fn outdate(state: &State, run: RunId) -> Option<Change> {
    let run = state.run(run)?;
    let is_made = !run.made.processing.is_empty();
    dispatch_changed(run, |dispatch| dispatch.outdate_processed(is_made))
}

/// Records names of pictures as ours before the pictures are among the results: a crash in
/// between leaves no picture that looks like a person's own.
pub fn claim(state: &State, run: RunId, names: &[String]) -> Option<Change> {
    dispatch_changed(state.run(run)?, |dispatch| {
        let made = dispatch.processed.get_or_insert_with(|| {
            Box::new(Processed {
                stale: true,
                ..Processed::default()
            })
        });
        let new = names.iter().filter(|name| !made.pictures.contains(name));
        let new: Vec<String> = new.cloned().collect();
        made.pictures.extend(new);
    })
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
