//! The experiments that a selector picks from.

use nero_expr::{NameKind, Scope};

/// All experiments of one neroman, in rows `0..len()` by ascending number.
///
/// Every method is called for each of perhaps 100 000 rows, so it answers from
/// memory and copies nothing.
pub trait Catalogue {
    /// The view that an expression has of one experiment and its newest run. Its `id`,
    /// `name`, `collection`, `state`, `changed` and `gone` are not used; the catalogue's
    /// methods return these.
    type Row<'c>: Scope
    where
        Self: 'c;

    /// How many experiments there are.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of the experiment in `row`. Strictly ascending in `row`.
    fn id(&self, row: usize) -> u64;

    /// Name of the experiment.
    fn name(&self, row: usize) -> &str;

    /// The rows of this name, ascending.
    fn named(&self, name: &str) -> Vec<usize> {
        (0..self.len())
            .filter(|row| self.name(*row) == name)
            .collect()
    }

    /// Collection of the experiment; empty when it has none.
    fn collection(&self, row: usize) -> &str;

    /// The state that is shown, as a word: `defined`, `running` ….
    fn state(&self, row: usize) -> &str;

    /// The experiment as expressions see it.
    fn scope(&self, row: usize) -> Self::Row<'_>;

    /// Whether source or code is newer than the newest run; `None` when unknown.
    fn is_changed(&self, row: usize) -> Option<bool>;

    /// Whether the experiment is no longer in its source: only ids, names and `gone` pick
    /// it.
    fn is_gone(&self, row: usize) -> bool;

    /// The `+block` of its source that made the experiment; empty when unknown. The name
    /// of a block picks all experiments of the block.
    fn block(&self, row: usize) -> &str;

    /// Whether the latest `add`, `start` or `restart` of this user touched the
    /// experiment.
    fn is_last(&self, row: usize) -> bool;

    /// Number of the experiment's newest run, 0 when it never ran. Runs count from 1
    /// without gaps.
    fn newest_attempt(&self, row: usize) -> u32;

    /// Calls `visit` with every name of a parameter or metric that any experiment
    /// has. Each distinct name once is best; repeats only cost time.
    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str));
}

/// The row of the experiment with this number.
pub(crate) fn row_of(catalogue: &impl Catalogue, id: u64) -> Option<usize> {
    let row = first_row_from(catalogue, id);
    (row < catalogue.len() && catalogue.id(row) == id).then_some(row)
}

/// The first row whose number is at least `id`; `len()` when there is none.
pub(crate) fn first_row_from(catalogue: &impl Catalogue, id: u64) -> usize {
    let (mut low, mut high) = (0, catalogue.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if catalogue.id(middle) < id {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
