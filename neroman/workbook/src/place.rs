//! Places of cells: `C7`, `A1:B2`.

pub(crate) use nero_table::{COLUMNS_MAX, ROWS_MAX, column_name};

/// Row and column, both from 0.
pub(crate) type Spot = (u32, u32);

/// A rectangle of cells, both corners within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rect {
    pub rows: (u32, u32),
    pub columns: (u32, u32),
}

impl Rect {
    pub fn has(&self, (row, column): Spot) -> bool {
        (self.rows.0..=self.rows.1).contains(&row)
            && (self.columns.0..=self.columns.1).contains(&column)
    }

    pub fn single(place: Spot) -> Self {
        Self {
            rows: (place.0, place.0),
            columns: (place.1, place.1),
        }
    }

    pub fn meets(&self, other: &Self) -> bool {
        let overlap = |a: (u32, u32), b: (u32, u32)| a.0 <= b.1 && b.0 <= a.1;
        overlap(self.rows, other.rows) && overlap(self.columns, other.columns)
    }

    /// The rectangle grown until it holds the cell.
    pub fn with(&self, (row, column): Spot) -> Self {
        Self {
            rows: (self.rows.0.min(row), self.rows.1.max(row)),
            columns: (self.columns.0.min(column), self.columns.1.max(column)),
        }
    }

    /// `A1:B2`, or `A1` for one cell.
    pub fn read(text: &str) -> Option<Self> {
        let (from, to) = text.split_once(':').unwrap_or((text, text));
        let (from, to) = (spot(from)?, spot(to)?);
        Some(Self {
            rows: (from.0.min(to.0), from.0.max(to.0)),
            columns: (from.1.min(to.1), from.1.max(to.1)),
        })
    }

    pub fn text(&self) -> String {
        let from = name((self.rows.0, self.columns.0));
        let to = name((self.rows.1, self.columns.1));
        if from == to {
            from
        } else {
            format!("{from}:{to}")
        }
    }
}

/// The place that `C7` names; with `$` too.
pub(crate) fn spot(text: &str) -> Option<Spot> {
    let text = text.strip_prefix('$').unwrap_or(text);
    let letters = text.find(|c: char| !c.is_ascii_alphabetic())?;
    let digits = &text[letters..];
    let row = row(digits.strip_prefix('$').unwrap_or(digits))?;
    Some((row, column(&text[..letters])?))
}

/// The column that `AB` names.
pub(crate) fn column(letters: &str) -> Option<u32> {
    if letters.is_empty() || letters.len() > 3 {
        return None;
    }
    let number = letters.bytes().try_fold(0, |number, letter| {
        let letter = letter.to_ascii_uppercase();
        letter
            .is_ascii_uppercase()
            .then(|| number * 26 + u32::from(letter - b'A') + 1)
    })?;
    (number <= COLUMNS_MAX).then(|| number - 1)
}

/// The row that `7` names.
pub(crate) fn row(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
    let number: u32 = is_number.then(|| digits.parse().ok())??;
    (1..=ROWS_MAX).contains(&number).then(|| number - 1)
}

/// `C7`.
pub(crate) fn name((row, column): Spot) -> String {
    format!("{}{}", column_name(column + 1), row + 1)
}

#[cfg(test)]
mod tests {
    use super::{Rect, name, spot};

    #[test]
    fn places_are_read_as_they_are_written() {
        for (text, place) in [
            ("A1", (0, 0)),
            ("Z9", (8, 25)),
            ("AA10", (9, 26)),
            ("XFD1048576", (1_048_575, 16_383)),
        ] {
            assert_eq!(spot(text), Some(place));
            assert_eq!(name(place), text);
        }
        assert_eq!(spot("$b$2"), Some((1, 1)));
        for wrong in [
            "", "A", "1", "A0", "XFE1", "A1048577", "AAAA1", "A-1", "A1B",
        ] {
            assert_eq!(spot(wrong), None, "{wrong}");
        }
        assert_eq!(Rect::read("B2:A1").unwrap().text(), "A1:B2");
    }
}
