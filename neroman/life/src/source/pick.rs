//! The state as rows for selectors.

use std::borrow::Cow;
use std::collections::HashSet;

use nero_expr::NameKind;
use nero_model::ExperimentId;
use nero_selector::Catalogue;

use crate::facts::now::PresentTime;
use crate::fold::experiment::Experiment;
use crate::fold::run::Run;
use crate::fold::scope::Sight;
use crate::fold::state::State;

/// All experiments at one moment, or all that are hidden by `rm`.
#[derive(Debug)]
pub struct Rows<'a> {
    state: &'a State,
    rows: Cow<'a, [ExperimentId]>,
    removed: bool,
    other_code: Option<&'a HashSet<ExperimentId>>,
    now: &'a PresentTime,
}

impl<'a> Rows<'a> {
    /// The experiments that are not hidden.
    pub fn of(state: &'a State, now: &'a PresentTime) -> Self {
        Self {
            state,
            rows: Cow::Borrowed(state.listed()),
            removed: false,
            other_code: None,
            now,
        }
    }

    /// The hidden experiments.
    pub fn removed(state: &'a State, now: &'a PresentTime) -> Self {
        let all = state.experiments.iter();
        let hidden = all.filter(|one| one.hidden_ms.is_some());
        Self {
            rows: hidden.map(|one| one.id).collect(),
            removed: true,
            ..Self::of(state, now)
        }
    }

    fn at(&self, row: usize) -> &'a Experiment {
        &self.state.experiments[self.rows[row].0]
    }

    /// The current runs of these rows.
    pub fn runs(&self, rows: &[usize]) -> impl Iterator<Item = &'a Run> {
        rows.iter().filter_map(|row| self.at(*row).current())
    }

    /// The rows with the experiments whose code differs from that of their
    /// newest run.
    pub fn with_code(self, changed: &'a HashSet<ExperimentId>) -> Self {
        Self {
            other_code: Some(changed),
            ..self
        }
    }
}

impl<'a> Catalogue for Rows<'a> {
    type Row<'c>
        = Sight<'a>
    where
        Self: 'c;

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn id(&self, row: usize) -> u64 {
        self.rows[row].0
    }

    fn name(&self, row: usize) -> &str {
        &self.at(row).definition.name
    }

    fn named(&self, name: &str) -> Vec<usize> {
        let named = self.state.named(name);
        named
            .filter_map(|one| self.rows.binary_search(&one.id).ok())
            .collect()
    }

    fn collection(&self, row: usize) -> &str {
        self.at(row).definition.collection()
    }

    fn state(&self, row: usize) -> &str {
        self.at(row).state().as_str()
    }

    fn scope(&self, row: usize) -> Sight<'a> {
        Sight::current(self.at(row), self.now)
    }

    fn is_changed(&self, row: usize) -> Option<bool> {
        let experiment = self.at(row);
        let other_code = self
            .other_code
            .is_some_and(|those| those.contains(&experiment.id));
        Some(other_code || experiment.changed())
    }

    fn is_gone(&self, row: usize) -> bool {
        let experiment = self.at(row);
        // `abort all` must not miss a running experiment.
        !self.removed && experiment.is_gone() && !experiment.is_live()
    }

    fn block(&self, row: usize) -> &str {
        &self.at(row).definition.block
    }

    fn is_last(&self, row: usize) -> bool {
        self.state.last.binary_search(&self.rows[row]).is_ok()
    }

    fn newest_attempt(&self, row: usize) -> u32 {
        u32::try_from(self.at(row).runs.len()).unwrap_or(u32::MAX)
    }

    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        for (kind, name) in self.state.known_names.iter() {
            visit(*kind, name);
        }
    }
}
