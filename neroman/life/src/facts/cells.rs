//! What was ever written into a cell of the owner's table, and so whether it is ours.

use std::sync::Arc;

use nero_format::CellValue;
use nero_model::ExperimentId;
use serde::{Deserialize, Serialize};

/// Values of one row of the database. A metric that is written all day fills many rows.
const VALUES_MAX: usize = 32;

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

    /// The value of ours that shows as this text. Programs keep 15 digits of a number.
    pub fn shown_as(&self, shows: &str) -> Option<&CellValue> {
        self.values.iter().find(|value| is_shown_as(value, shows))
    }
}

fn is_shown_as(value: &CellValue, shows: &str) -> bool {
    if let CellValue::Bool(truth) = value {
        return shows.eq_ignore_ascii_case(if *truth { "true" } else { "false" });
    }
    // Texts of some countries have decimal commas.
    let shown = shows
        .parse()
        .or_else(|_| shows.replacen(',', ".", 1).parse());
    let numbers = (value.text().parse::<f64>(), shown);
    match (value, numbers) {
        (CellValue::Number(_), (Ok(ours), Ok(shown))) => {
            let shown: f64 = shown;
            ours == shown || (ours - shown).abs() <= 1e-14 * ours.abs().max(shown.abs())
        }
        _ => value.text() == shows,
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
    fn a_value_is_known_as_programs_show_it() {
        let cell = WrittenCell {
            values: vec![
                number(0.1 + 0.2),
                CellValue::Text("running".to_owned()),
                CellValue::Bool(true),
            ],
            ..WrittenCell::default()
        };
        for shown in ["0.3", "0,3", "3e-1", "running", "TRUE"] {
            assert!(cell.shown_as(shown).is_some(), "{shown}");
        }
        for other in ["0.30001", "Running", "", "1"] {
            assert!(cell.shown_as(other).is_none(), "{other}");
        }
    }
}
