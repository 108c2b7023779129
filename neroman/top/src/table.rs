//! The rows that are there, the cursor and the marks.

use std::collections::{BTreeSet, HashMap};

use nero_views::columns::{self, telling};
use nero_views::{Column, text};
use nero_wire::v1::{ExperimentView, WatchEvent};

/// The order of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sort {
    /// The heading of its column.
    pub title: String,
    /// Its expression.
    pub expression: String,
    pub descending: bool,
}

/// The table: a window of all picked experiments.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowTable {
    views: HashMap<u64, ExperimentView>,
    ids: Vec<u64>,
    /// The place of the first row that is there.
    offset: u64,
    total: u64,
    /// The place of the row below the cursor, among all.
    cursor: u64,
    /// The experiment below the cursor, once it is known.
    id: Option<u64>,
    /// The place of the first row on the screen.
    top: u64,
    marks: BTreeSet<u64>,
    /// Where a range of marks begins.
    range: Option<u64>,
    columns: Vec<Column>,
    /// Columns that were chosen by name; empty: those that tell most.
    chosen: Vec<String>,
    pub sort: Option<Sort>,
}

impl RowTable {
    /// Takes rows; those of another query replace all.
    pub fn take(&mut self, event: WatchEvent, is_new: bool) {
        let window = event.window.unwrap_or_default();
        if is_new {
            self.views.clear();
        }
        self.views
            .extend(event.experiments.into_iter().map(|view| (view.id, view)));
        (self.ids, self.offset, self.total) = (window.ids, window.offset, window.total);
        let ids: BTreeSet<u64> = self.ids.iter().copied().collect();
        self.views.retain(|id, _| ids.contains(id));
        let place = self
            .id
            .and_then(|id| self.ids.iter().position(|one| *one == id));
        self.cursor = match place {
            Some(place) => self.offset + place as u64,
            None => self.cursor.min(self.total.saturating_sub(1)),
        };
        self.id = self.id_at(self.cursor);
        self.choose_columns();
    }

    /// Shows the columns of these names; without one those that tell most.
    pub fn choose(&mut self, names: Vec<String>) {
        self.chosen = names;
        self.choose_columns();
    }

    pub fn chosen(&self) -> &[String] {
        &self.chosen
    }

    fn choose_columns(&mut self) {
        let rows: Vec<ExperimentView> = self.loaded().cloned().collect();
        if rows.is_empty() && !self.columns.is_empty() {
            return;
        }
        let named = self
            .chosen
            .iter()
            .filter_map(|name| columns::named(name, &rows).ok());
        self.columns = named.collect();
        if self.columns.is_empty() {
            self.columns = telling(&rows);
        }
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The rows that are there, in their order.
    pub fn loaded(&self) -> impl Iterator<Item = &ExperimentView> {
        self.ids.iter().filter_map(|id| self.views.get(id))
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn view(&self, id: u64) -> Option<&ExperimentView> {
        self.views.get(&id)
    }

    /// The experiment below the cursor.
    pub fn current(&self) -> Option<&ExperimentView> {
        self.views.get(&self.id?)
    }

    fn id_at(&self, place: u64) -> Option<u64> {
        let at = place.checked_sub(self.offset)?;
        self.ids.get(usize::try_from(at).ok()?).copied()
    }

    /// The rows of a screen of this height, with their places.
    pub fn rows(&self, height: u64) -> impl Iterator<Item = (u64, Option<&ExperimentView>)> {
        let end = self.total.min(self.top + height);
        (self.top..end).map(|place| {
            let id = self.id_at(place);
            (place, id.and_then(|id| self.views.get(&id)))
        })
    }

    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Moves the cursor by so many rows.
    pub fn step(&mut self, rows: i64) {
        self.go(self.cursor.saturating_add_signed(rows));
    }

    /// Puts the cursor on a row.
    pub fn go(&mut self, place: u64) {
        self.cursor = place.min(self.total.saturating_sub(1));
        self.id = self.id_at(self.cursor);
        if let Some(from) = self.range {
            let (first, last) = (from.min(self.cursor), from.max(self.cursor));
            let ids = (first..=last).filter_map(|place| self.id_at(place));
            self.marks.extend(ids.collect::<Vec<_>>());
        }
    }

    /// Puts the cursor on a line of the screen.
    pub fn go_to_line(&mut self, line: u64) {
        self.go(self.top + line);
    }

    /// Moves the screen so that the cursor is on it; returns the part of the rows that is wanted.
    pub fn scroll(&mut self, height: u64) -> (u64, u32) {
        let height = height.max(1);
        let top = self
            .top
            .clamp(self.cursor.saturating_sub(height - 1), self.cursor);
        self.top = top.min(self.total.saturating_sub(height));
        let is_there = self.offset <= self.top
            && self.top + height.min(self.total - self.top) <= self.offset + self.ids.len() as u64;
        let offset = if is_there && self.total > 0 {
            self.offset
        } else {
            self.top.saturating_sub(height)
        };
        (
            offset,
            u32::try_from(height.saturating_mul(3)).unwrap_or(u32::MAX),
        )
    }

    /// Marks the row below the cursor, or takes its mark away.
    pub fn mark(&mut self) {
        if let Some(id) = self.id
            && !self.marks.remove(&id)
        {
            self.marks.insert(id);
        }
    }

    /// Begins or ends a range of marks.
    pub fn mark_range(&mut self) {
        self.range = match self.range {
            Some(_) => None,
            None => {
                self.marks.extend(self.id);
                Some(self.cursor)
            }
        };
    }

    pub fn is_range(&self) -> bool {
        self.range.is_some()
    }

    pub fn is_marked(&self, id: u64) -> bool {
        self.marks.contains(&id)
    }

    pub fn marked(&self) -> usize {
        self.marks.len()
    }

    /// Takes all marks away.
    pub fn unmark(&mut self) {
        self.marks.clear();
        self.range = None;
    }

    /// What an action is for: the marked experiments, else the one below the cursor.
    pub fn targets(&self) -> Vec<u64> {
        if self.marks.is_empty() {
            self.id.into_iter().collect()
        } else {
            self.marks.iter().copied().collect()
        }
    }

    /// The same as it is typed: `12,14-16`.
    pub fn typed_targets(&self) -> String {
        text::ids(&self.targets())
    }

    /// Sorts by the column beside the present one, to the right or to the left.
    pub fn sort_beside(&mut self, right: bool) {
        let sortable: Vec<(String, String)> = self
            .columns
            .iter()
            .filter_map(|column| Some((column.heading(&self.columns), column.expression()?)))
            .collect();
        if sortable.is_empty() {
            return;
        }
        let now = self.sort.as_ref().and_then(|sort| {
            sortable
                .iter()
                .position(|(_, expression)| *expression == sort.expression)
        });
        let count = sortable.len();
        let next = match now {
            None => 0,
            Some(at) if right => (at + 1) % count,
            Some(at) => (at + count - 1) % count,
        };
        let (title, expression) = sortable[next].clone();
        self.sort = Some(Sort {
            title,
            expression,
            descending: false,
        });
    }

    /// Whether this row is the best by the metric that sorts: the first one, if it has a value.
    pub fn is_best(&self, place: u64, view: &ExperimentView) -> bool {
        let sort = self.sort.as_ref().map(|sort| &sort.expression);
        let by_metric = |column: &&Column| {
            matches!(column, Column::Metric(_)) && column.expression().as_ref() == sort
        };
        let column = self.columns.iter().find(by_metric);
        place == 0 && column.is_some_and(|column| column.value(view).is_number())
    }

    /// Turns the order round; without one by falling numbers.
    pub fn turn_sort(&mut self) {
        match &mut self.sort {
            Some(sort) => sort.descending = !sort.descending,
            None => {
                self.sort = Some(Sort {
                    title: "id".to_owned(),
                    expression: "id".to_owned(),
                    descending: true,
                });
            }
        }
    }
}
