//! Ids, ranges and runs among the experiments.

use nero_expr::{Pick, Span};

use crate::catalogue::{Catalogue, first_row_from, row_of};
use crate::error::SelectorError;
use crate::pick::{PickBuilder, PickedRun};
use crate::unknown::nothing;

impl<C: Catalogue> PickBuilder<'_, C> {
    /// Picks an id, a range or a run, of one collection if one is given.
    pub fn digits(
        &mut self,
        pick: &Pick,
        collection: Option<&str>,
        span: Span,
    ) -> Result<(), SelectorError> {
        self.picked.explicit = true;
        let rows = self.digit_rows(pick, collection, span)?;
        match *pick {
            Pick::Run { id, attempt } => self.picked.runs.push(PickedRun { id, attempt, span }),
            _ => {
                for row in rows {
                    self.rows[row] = true;
                    if self.catalogue.is_gone(row) {
                        self.named_gone.push(row);
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows of an id, a range or a run's experiment. Notes gaps.
    pub fn digit_rows(
        &mut self,
        pick: &Pick,
        collection: Option<&str>,
        span: Span,
    ) -> Result<Vec<usize>, SelectorError> {
        let (first, last) = match *pick {
            Pick::Id(id) | Pick::Run { id, .. } => (id, id),
            Pick::Range { first, last, .. } => (first, last),
            Pick::All | Pick::Last | Pick::Name(_) => return Ok(Vec::new()),
        };
        let catalogue = self.catalogue;
        let wanted = |row: &usize| {
            let inside = collection.is_none_or(|name| catalogue.collection(*row) == name);
            inside && pick.has_id(catalogue.id(*row)) != Some(false)
        };
        let found: Vec<usize> = (first_row_from(catalogue, first)..catalogue.len())
            .take_while(|&row| catalogue.id(row) <= last)
            .filter(wanted)
            .collect();
        if found.is_empty() {
            return Err(self.unknown_number(pick, collection, span));
        }
        match *pick {
            Pick::Range { first, last, step } => {
                self.note_gaps((first, last, step), found.len(), collection)
            }
            Pick::Run { id, attempt } => self.check_run(id, attempt, span)?,
            Pick::Id(_) | Pick::All | Pick::Last | Pick::Name(_) => {}
        }
        Ok(found)
    }

    fn note_gaps(&mut self, range: (u64, u64, u64), found: usize, collection: Option<&str>) {
        let (first, last, step) = range;
        let numbers = u128::from((last - first) / step) + 1;
        let missing = numbers - found as u128;
        if missing > 0 {
            let stepped = if step == 1 {
                String::new()
            } else {
                format!(":{step}")
            };
            let place = collection.map_or(String::new(), |name| format!(" in `{name}`"));
            self.note(format!(
                "{first}-{last}{stepped}: {missing} of {numbers} numbers do not exist{place}"
            ));
        }
    }

    fn check_run(&self, id: u64, attempt: u32, span: Span) -> Result<(), SelectorError> {
        let newest = row_of(self.catalogue, id).map_or(0, |row| self.catalogue.newest_attempt(row));
        if attempt <= newest {
            return Ok(());
        }
        let error = nothing(span, format!("experiment {id} has no run {attempt}"));
        Err(match newest {
            0 => error.hint("it never ran"),
            newest => error.hint(format!("its newest is {id}.{newest}")),
        })
    }
}
