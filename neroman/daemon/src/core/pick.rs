//! The state as selectors see it.

use nero_expr::NameKind;
use nero_selector::Catalogue;

use super::experiment::Experiment;
use super::scope::Sight;
use super::state::State;

/// All experiments at one moment.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    state: &'a State,
    rows: Vec<&'a Experiment>,
    now_ms: i64,
}

impl<'a> Rows<'a> {
    /// Of a state.
    pub(crate) fn of(state: &'a State, now_ms: i64) -> Self {
        Self {
            state,
            rows: state.experiments.iter().map(|arc| &**arc).collect(),
            now_ms,
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
        self.rows[row].id.0
    }

    fn name(&self, row: usize) -> &str {
        &self.rows[row].definition.name
    }

    fn collection(&self, row: usize) -> &str {
        self.rows[row].definition.collection()
    }

    fn state(&self, row: usize) -> &str {
        self.rows[row].state().word()
    }

    fn scope(&self, row: usize) -> Sight<'a> {
        Sight::current(self.rows[row], self.now_ms)
    }

    fn is_changed(&self, row: usize) -> Option<bool> {
        Some(self.rows[row].changed())
    }

    fn is_last(&self, row: usize) -> bool {
        self.state.last.binary_search(&self.rows[row].id).is_ok()
    }

    fn newest_attempt(&self, row: usize) -> u32 {
        u32::try_from(self.rows[row].runs.len()).unwrap_or(u32::MAX)
    }

    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        for (kind, name) in self.state.known_names.iter() {
            visit(*kind, name);
        }
    }
}
