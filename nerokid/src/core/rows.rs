//! Tells the new rows of a file that its program writes anew from the start, with the
//! rows that it had and more.
//!
//! Many programs write a table of all epochs after each epoch, and add columns to its
//! earlier rows when a new metric appears. The first row tells such a file from another
//! one: it still has the values that it had.

use nero_metrics::file::FileForm;
use nero_metrics::found::LinePairs;

/// The rows of a file that give points.
#[derive(Debug)]
pub struct KnownRows {
    /// Whether the first row may have got further values.
    may_widen: bool,
    /// Whether the rows are the same whatever the first one says.
    are_same: bool,
    /// The first row; `None` before there is one.
    first: Option<Vec<(String, f64)>>,
    counts: RowCounts,
}

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    New,
    /// The file had it before it was written anew.
    Known,
    /// The file has other rows than before.
    FirstOfAnotherFile,
}

/// What the next watcher must know of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Rows of the file that have been taken.
    pub known: u64,
    /// Rows that have been read since the file was last written anew.
    pub at: u64,
    /// Hash of the first row.
    pub first: u64,
}

impl KnownRows {
    /// Goes on from a former watcher, from the start of the file.
    pub fn resumed(form: FileForm, counts: RowCounts) -> Self {
        Self {
            may_widen: matches!(form, FileForm::Columns(_)),
            are_same: false,
            first: None,
            counts: RowCounts { at: 0, ..counts },
        }
    }

    /// Goes on from a former watcher, with a program that does the same work again.
    pub fn done_again(counts: RowCounts) -> Self {
        Self {
            are_same: true,
            ..Self::resumed(FileForm::Printed, counts)
        }
    }

    /// The counts.
    pub fn counts(&self) -> RowCounts {
        self.counts
    }

    /// Takes the next row; returns what it is.
    pub fn take(&mut self, row: &LinePairs) -> RowKind {
        let mut is_another = false;
        if self.counts.at == 0 {
            if !self.is_as_before(row) {
                is_another = self.counts.known > 0;
                self.counts.known = 0;
            }
            if self.counts.known == 0 {
                let first = owned(row);
                self.counts.first = hash(&first);
                self.first = Some(first);
            }
        }
        let counts = &mut self.counts;
        counts.at += 1;
        let is_new = counts.at > counts.known;
        counts.known = counts.known.max(counts.at);
        match (is_another, is_new) {
            (true, _) => RowKind::FirstOfAnotherFile,
            (false, true) => RowKind::New,
            (false, false) => RowKind::Known,
        }
    }

    /// The file begins anew.
    pub fn begin(&mut self) {
        self.counts.at = 0;
    }

    /// Whether a row is the first one as it was.
    fn is_as_before(&self, row: &LinePairs) -> bool {
        if self.are_same {
            return self.counts.known > 0;
        }
        let Some(first) = &self.first else {
            // Of the row that a former watcher took its hash is known. New columns
            // mostly come behind the others.
            let row = owned(row);
            let shortest = if self.may_widen { 1 } else { row.len() };
            let mut lengths = shortest..=row.len();
            return lengths.any(|length| hash(&row[..length]) == self.counts.first);
        };
        let has_value = |(name, value): &(String, f64)| {
            let mut pairs = row.pairs();
            pairs.any(|(other, now)| other == name && now.to_bits() == value.to_bits())
        };
        (self.may_widen || row.len() == first.len()) && first.iter().all(has_value)
    }
}

fn owned(row: &LinePairs) -> Vec<(String, f64)> {
    row.pairs()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// FNV-1a.
fn hash(row: &[(String, f64)]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let bytes = row.iter().flat_map(|(name, value)| {
        let value = value.to_bits().to_le_bytes();
        name.bytes().chain([0]).chain(value)
    });
    for byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}
