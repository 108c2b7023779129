//! What the labels of a line came to, for the next line of its form: most lines differ from an
//! earlier one in their numbers alone.

use crate::found::{LinePairs, NameList, PairMark, Place};
use crate::labels::label::Labels;

/// Digits of a number that may be another one in a line of the same form.
const DIGITS_MAX: usize = 9;

/// What stands for them; no text has it.
const DIGITS: u8 = 0xff;

/// A form of lines, and the names of its pairs with their labels.
#[derive(Debug, Default)]
pub struct Memo {
    /// The names as they were read.
    read: NameList,
    pairs: Vec<Shape>,
    /// What stands between the pairs, where it may hold a label, and what stands behind them, as
    /// [`form`] gives it.
    texts: Vec<u8>,
    /// Whether lines of this form tell a set.
    pub tells_set: bool,
    /// The labels of the lines above, and the names that were written below them; none where
    /// they stayed.
    written: Option<(Labels, NameList)>,
}

/// What the label of a pair depends on, beside its name and the text before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Whether the text is long enough for a label.
    may_hold_label: bool,
    counts: bool,
    has_place: bool,
    is_quoted: bool,
}

impl Memo {
    /// Whether a line has this form.
    pub fn is_of(&self, line: &[u8], found: &LinePairs) -> bool {
        if self.pairs.len() != found.len() || !found.has_names(&self.read) {
            return false;
        }
        let mut texts = self.texts.as_slice();
        let mut pairs = self.pairs.iter();
        let mut is_next = |text: &[u8]| {
            let rest = texts.strip_prefix(text);
            // Most texts have no digit.
            if let Some([b'\n', rest @ ..]) = rest {
                texts = rest;
                return true;
            }
            form(text).all(|byte| texts.split_off_first() == Some(&byte))
        };
        let end = each(line, found, |shape, text| {
            pairs.next() == Some(&shape) && (!shape.may_hold_label || is_next(text))
        });
        let behind = end.map(|end| line.get(end..).unwrap_or_default());
        behind.is_some_and(is_next) && texts.is_empty()
    }

    /// Takes the form of a line whose labels depend on no number of it.
    pub fn take(&mut self, line: &[u8], found: &LinePairs, tells_set: bool) {
        self.pairs.clear();
        self.texts.clear();
        self.written = None;
        self.tells_set = tells_set;
        found.copy_names(&mut self.read);
        let (pairs, texts) = (&mut self.pairs, &mut self.texts);
        let end = each(line, found, |shape, text| {
            pairs.push(shape);
            if shape.may_hold_label {
                texts.extend(form(text));
            }
            true
        });
        let behind = end.and_then(|end| line.get(end..));
        texts.extend(form(behind.unwrap_or_default()));
    }

    /// Gives the pairs of a line of this form their names, if those below such labels are known.
    pub fn write(&self, found: &mut LinePairs, above: &Labels) -> bool {
        let names = self.written.as_ref().filter(|(known, _)| known == above);
        names.map(|(_, names)| found.set_names(names)).is_some()
    }

    /// Takes the names that were written for the line.
    pub fn written(&mut self, found: &LinePairs, above: Labels) {
        let (known, names) = self.written.get_or_insert_default();
        *known = above;
        found.copy_names(names);
        if *names == self.read {
            names.clear();
        }
    }
}

/// Goes through the pairs of a line with the texts before them while `is_next` holds; returns
/// the end of the last pair.
fn each(
    line: &[u8],
    found: &LinePairs,
    mut is_next: impl FnMut(Shape, &[u8]) -> bool,
) -> Option<usize> {
    let mut at = 0;
    for PairMark { place, counts } in found.marks() {
        let text = line.get(at..place.from as usize).unwrap_or_default();
        at = at.max(place.to as usize);
        let shape = Shape {
            may_hold_label: text.len() > 3,
            counts,
            has_place: place.to > 0,
            is_quoted: is_quoted(line, place),
        };
        if !is_next(shape, text) {
            return None;
        }
    }
    Some(at)
}

/// A text with [`DIGITS`] for each number of a usual length, and an end of line behind it.
fn form(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut digits = 0;
    let short = text.iter().filter_map(move |byte| {
        digits = if byte.is_ascii_digit() {
            digits % DIGITS_MAX + 1
        } else {
            0
        };
        match digits {
            0 => Some(*byte),
            1 => Some(DIGITS),
            _ => None,
        }
    });
    short.chain(std::iter::once(b'\n'))
}

/// Whether a pair begins behind a quote.
pub fn is_quoted(line: &[u8], place: Place) -> bool {
    let before = (place.from as usize).checked_sub(1);
    before.is_some_and(|at| matches!(line.get(at), Some(b'\'' | b'"')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::label::Label;

    /// The pairs of a line, as they are before they get labels.
    fn pairs(line: &str) -> LinePairs {
        let mut found = LinePairs::default();
        crate::text::pairs::find(line.as_bytes(), &mut found);
        found
    }

    fn taken(line: &str) -> Memo {
        let mut memo = Memo::default();
        memo.take(line.as_bytes(), &pairs(line), false);
        memo
    }

    fn is_of(memo: &Memo, line: &str) -> bool {
        memo.is_of(line.as_bytes(), &pairs(line))
    }

    #[test]
    fn lines_of_one_form_differ_in_their_numbers_alone() {
        let memo = taken("12:30:45 Test: loss = 0.5, acc = 0.25 [7 s]");
        for same in [
            "12:30:45 Test: loss = 0.5, acc = 0.25 [7 s]",
            "08:01:59 Test: loss = 1e-7, acc = 12 [123 s]",
        ] {
            assert!(is_of(&memo, same), "{same}");
        }
        for other in [
            "12:30:45 Val: loss = 0.5, acc = 0.25 [7 s]",
            "12:30:45 Test: loss = 0.5, top = 0.25 [7 s]",
            "12:30:45 Test: loss = 0.5 [7 s]",
            "12:30:45 Test: loss = 0.5, acc = 0.25 [val]",
            "12:30:45 Test: loss = 0.5, in all acc = 0.25 [7 s]",
            "12:30:45 Test: 'loss' = 0.5, acc = 0.25 [7 s]",
        ] {
            assert!(!is_of(&memo, other), "{other}");
        }
        assert!(!is_of(&Memo::default(), "loss = 0.5"));
    }

    #[test]
    fn a_name_is_given_again_below_the_labels_that_it_was_written_below() {
        let line = "loss = 0.5, acc = 0.25";
        let below = |set: &[u8]| Labels {
            set: Label::new(set),
            ..Labels::default()
        };
        let names = |found: &LinePairs| -> Vec<String> {
            found.pairs().map(|(name, _)| name.to_owned()).collect()
        };
        let mut memo = taken(line);
        assert!(!memo.write(&mut pairs(line), &below(b"val")));
        let mut labelled = pairs(line);
        labelled.rename(|_, name, new| new.push_str(&format!("val {name}")));
        memo.written(&labelled, below(b"val"));
        let mut next = pairs("loss = 0.4, acc = 0.5");
        assert!(memo.write(&mut next, &below(b"val")));
        assert_eq!(names(&next), ["val loss", "val acc"]);
        assert!(!memo.write(&mut pairs(line), &below(b"test")));
        // Names that stayed are not changed.
        memo.written(&pairs(line), Labels::default());
        let mut plain = pairs(line);
        assert!(memo.write(&mut plain, &Labels::default()));
        assert_eq!(names(&plain), ["loss", "acc"]);
        // Another form forgets them.
        memo.take(b"lr = 1", &pairs("lr = 1"), false);
        assert!(!memo.write(&mut pairs("lr = 1"), &Labels::default()));
    }
}
