//! Which formulas depend on changed cells, over any number of steps.

use std::collections::{BTreeMap, BTreeSet};

use crate::formula::Reads;
use crate::place::{Rect, Spot};

/// Passes over all formulas. A chain that runs against their order takes one for each link;
/// what is left then counts as dependent.
const PASSES_MAX: usize = 32;

/// A formula and the cells that show its result.
#[derive(Debug)]
pub(crate) struct Formula {
    pub sheet: usize,
    pub shows: Rect,
    pub reads: Reads,
}

/// Cells of all sheets.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    /// Single cells, by sheet and column.
    rows: BTreeMap<(usize, u32), BTreeSet<u32>>,
    /// What array formulas fill, by sheet. A hostile one fills 2^34 cells.
    areas: BTreeMap<usize, Vec<Rect>>,
}

impl Cells {
    pub fn add(&mut self, sheet: usize, (row, column): Spot) {
        self.rows.entry((sheet, column)).or_default().insert(row);
    }

    fn add_area(&mut self, sheet: usize, area: Rect) {
        if area.rows.0 == area.rows.1 && area.columns.0 == area.columns.1 {
            self.add(sheet, (area.rows.0, area.columns.0))
        } else {
            self.areas.entry(sheet).or_default().push(area)
        }
    }

    pub fn has(&self, sheet: usize, (row, column): Spot) -> bool {
        let rows = self.rows.get(&(sheet, column));
        let mut areas = self.areas.get(&sheet).into_iter().flatten();
        rows.is_some_and(|rows| rows.contains(&row)) || areas.any(|area| area.has((row, column)))
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.areas.is_empty()
    }

    /// Whether the sheet has one of the cells.
    pub fn touches(&self, sheet: usize) -> bool {
        let mut columns = self.rows.range((sheet, 0)..=(sheet, u32::MAX));
        columns.next().is_some() || self.areas.contains_key(&sheet)
    }

    fn meets(&self, sheet: usize, rect: &Rect) -> bool {
        let columns = (sheet, rect.columns.0)..=(sheet, rect.columns.1);
        let mut areas = self.areas.get(&sheet).into_iter().flatten();
        let mut columns = self.rows.range(columns);
        columns.any(|(_, rows)| rows.range(rect.rows.0..=rect.rows.1).next().is_some())
            || areas.any(|area| area.meets(rect))
    }
}

/// The cells whose shown values are no longer right once the `changed` ones are.
pub(crate) fn dependents(changed: Cells, mut formulas: Vec<Formula>) -> Cells {
    let mut stale = Cells::default();
    if changed.is_empty() {
        return stale;
    }
    let mut seen = changed;
    for pass in 0..=PASSES_MAX {
        let before = formulas.len();
        formulas.retain(|formula| {
            let depends = match &formula.reads {
                Reads::Anything => true,
                Reads::Cells(_) if pass == PASSES_MAX => true,
                Reads::Cells(references) => references
                    .iter()
                    .any(|one| seen.meets(one.sheet, &one.rect())),
            };
            if depends {
                seen.add_area(formula.sheet, formula.shows);
                stale.add_area(formula.sheet, formula.shows);
            }
            !depends
        });
        if formulas.len() == before {
            break;
        }
    }
    stale
}
