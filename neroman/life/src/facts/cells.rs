//! What was ever written into a cell of the owner's table, and so whether it is ours.

use std::collections::HashSet;
use std::sync::Arc;

use nero_format::CellValue;
use nero_model::ExperimentId;
use serde::{Deserialize, Serialize};

/// Values of one row of the database. A metric that is written all day fills many rows.
const VALUES_MAX: usize = 32;
/// The relative error of a number with six digits, rounded up.
const ROUNDING_MAX: f64 = 1e-5;

/// The newest values that were written into one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WrittenCell {
    /// Counts up; earlier parts hold earlier values.
    #[serde(skip)]
    pub part: u32,
    /// The newest last.
    pub values: Vec<CellValue>,
    /// Why it was left as it is, as its owner was told; empty: it was not left.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub left: String,
    /// What it held when it was found to be its owner's; empty: it is not. It stays hers while it
    /// holds this, also after the same value was written into another row.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner_text: String,
}

/// A cell by its experiment and the heading of its column.
#[derive(Clone, Debug, PartialEq)]
pub struct CellRecord {
    pub experiment: ExperimentId,
    pub heading: Arc<str>,
    pub cell: WrittenCell,
}

impl WrittenCell {
    /// The record with a value that is about to be written and was written or told before
    /// otherwise; `None` if nothing changes.
    pub fn with(&self, value: Option<&CellValue>) -> Option<Self> {
        let mut next = self.clone();
        next.left.clear();
        next.owner_text.clear();
        let is_new = |value: &&CellValue| !self.values.contains(value);
        if let Some(value) = value.filter(is_new) {
            if next.values.len() >= VALUES_MAX {
                // What the file holds now stays at hand.
                next.part += 1;
                next.values.drain(..VALUES_MAX - 1);
            }
            next.values.push(value.clone());
        }
        (next != *self).then_some(next)
    }

    /// The record of a cell that is left as it is; `None` if its owner knows.
    pub fn left(&self, why: &str) -> Option<Self> {
        let told = Self {
            left: why.to_owned(),
            ..self.clone()
        };
        (told != *self).then_some(told)
    }

    /// The record of a cell that holds this text of its owner; `None` if that is on record.
    pub fn owned(&self, shows: &str) -> Option<Self> {
        let owned = Self {
            owner_text: shows.to_owned(),
            ..self.clone()
        };
        (owned != *self).then_some(owned)
    }
}

/// All values that were ever written into the cells of one column, whichever row they were in.
///
/// Rows are copied, renumbered and sorted, also in part, so a value is ours in each row.
#[derive(Debug, Default)]
pub struct WrittenColumn {
    texts: HashSet<String>,
    /// In rising order.
    numbers: Vec<f64>,
}

impl WrittenColumn {
    /// The values of these cells.
    pub fn of<'a>(cells: impl Iterator<Item = &'a WrittenCell>) -> Self {
        let mut column = Self::default();
        for value in cells.flat_map(|cell| &cell.values) {
            match (value, value.text().parse::<f64>()) {
                (CellValue::Number(_), Ok(number)) => column.numbers.push(number),
                _ => {
                    column.texts.insert(value.text().to_owned());
                }
            }
        }
        column.numbers.sort_by(f64::total_cmp);
        column
    }

    /// The written value that a cell with this text most likely holds. Tables as text hold as few
    /// as six digits, so the process that reads the file decides whether it is the same number.
    pub fn nearest(&self, shows: &str) -> Option<CellValue> {
        // A table as text has an apostrophe before what a spreadsheet would run.
        let text = [shows, shows.strip_prefix('\'').unwrap_or(shows)];
        if let Some(text) = text.into_iter().find(|text| self.texts.contains(*text)) {
            return Some(CellValue::Text(text.to_owned()));
        }
        let truth = shows.to_ascii_lowercase();
        if matches!(truth.as_str(), "true" | "false") && self.texts.contains(&truth) {
            return Some(CellValue::Bool(truth == "true"));
        }
        // Texts of some countries have decimal commas.
        let shown: f64 = shows.replacen(',', ".", 1).parse().ok()?;
        let above = self.numbers.partition_point(|number| *number < shown);
        let beside = self.numbers[above.saturating_sub(1)..].iter().take(2);
        let nearest = beside.min_by(|a, b| (*a - shown).abs().total_cmp(&(*b - shown).abs()))?;
        let is_near = (nearest - shown).abs() <= ROUNDING_MAX * nearest.abs();
        is_near.then(|| CellValue::Number(nearest.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: f64) -> CellValue {
        CellValue::Number(value.to_string())
    }

    #[test]
    fn each_value_is_recorded_once_and_the_last_one_stays_at_hand_in_a_new_part() {
        let mut cell = WrittenCell::default();
        for step in 0..100 {
            let value = number(f64::from(step));
            let next = cell.with(Some(&value)).unwrap();
            assert_eq!(next.with(Some(&value)), None);
            if let Some(before) = cell.values.last() {
                assert!(next.values.contains(before), "{step}: {next:?}");
            }
            assert!(next.values.len() <= VALUES_MAX);
            assert_eq!(next.values.last(), Some(&value));
            cell = next;
        }
        assert_eq!(cell.part, 3);
        // An emptied cell needs no record: it is ours while it is empty.
        assert_eq!(cell.with(None), None);
    }

    #[test]
    fn an_owner_is_told_once_until_the_cell_is_ours_again() {
        let cell = WrittenCell::default();
        let left = cell.left("holds `0.3`").unwrap();
        assert_eq!(left.left("holds `0.3`"), None);
        assert!(left.left("holds `0.4`").is_some());
        let again = left.with(Some(&number(0.3))).unwrap();
        assert_eq!(again.left, "");
        assert!(again.left("holds `0.3`").is_some());
    }

    #[test]
    fn a_cell_stays_its_owners_until_something_is_written_into_it() {
        let cell = WrittenCell::default().owned("TODO").unwrap();
        assert_eq!(cell.owned("TODO"), None);
        assert_eq!(cell.left("holds `TODO`").unwrap().owner_text, "TODO");
        assert_eq!(cell.with(Some(&number(0.3))).unwrap().owner_text, "");
    }

    #[test]
    fn a_value_of_any_row_is_known_as_programs_show_it() {
        let cell = |values: &[CellValue]| WrittenCell {
            values: values.to_vec(),
            ..WrittenCell::default()
        };
        let cells = [
            cell(&[number(0.1 + 0.2), number(1.0), number(-5.0)]),
            cell(&[CellValue::Text("running".to_owned()), CellValue::Bool(true)]),
            cell(&[CellValue::Text("-inf".to_owned()), number(1.0 / 3.0)]),
        ];
        let column = WrittenColumn::of(cells.iter());
        let shown = [
            "0.3", "0,3", "3e-1", "0.333333", "1", "-5", "running", "TRUE", "'-inf",
        ];
        for shown in shown {
            assert!(column.nearest(shown).is_some(), "{shown}");
        }
        for other in ["0.30001", "0.334", "Running", "", "2", "5", "false"] {
            assert!(column.nearest(other).is_none(), "{other}");
        }
    }
}
