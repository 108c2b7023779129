//! What a line gave, and what its labels came to, for the next line of its form: most lines differ
//! from an earlier one in their numbers alone.

use std::ops::Range;

use crate::found::{LinePairs, NameList, PairMark, Place};
use crate::label::Labels;
use crate::step::EPOCH;
use crate::{number, pairs};

/// Lines that are remembered.
const LINES: usize = 32;
/// Longest line that is remembered.
const LINE_BYTES_MAX: usize = 512;
/// Longest number that may be another one.
const NUMBER_BYTES_MAX: usize = 40;
/// Digits before a colon from which on not every number may be a rank.
const RANK_DIGITS_MAX: usize = 6;

/// Reads the pairs of lines of text, and remembers lines.
#[derive(Debug, Default)]
pub struct KnownLines {
    lines: [KnownLine; LINES],
}

impl KnownLines {
    /// Finds the pairs of a trimmed line and its step, as [`pairs::find`] does.
    pub fn find(&mut self, line: &[u8], found: &mut LinePairs) {
        let known = &mut self.lines[place(line)];
        if !known.read(line, found) {
            pairs::find(line, found);
            known.take(line, found);
        }
    }
}

/// The place of a line among those that are remembered, by its length and by what its first byte
/// is: another digit there changes nothing.
fn place(line: &[u8]) -> usize {
    let first = line.first().map_or(0, |first| first >> 4);
    (line.len() + usize::from(first)) % LINES
}

/// A line and what it gave. A line that differs from it in digits alone gives the same but for the
/// values: the reader decides by words, by places, and by what a byte is, and to it one digit
/// is as good as another. Names keep their digits. Where the reader does compare numbers, the
/// line is not kept.
#[derive(Debug, Default)]
struct KnownLine {
    /// Length and bytes of the names of the last line that was read here: the second one in a
    /// row is kept.
    last: (usize, usize),
    text: Vec<u8>,
    /// For each byte 1 if it is a digit that may be another one.
    free: Vec<u8>,
    values: Vec<KnownValue>,
    found: LinePairs,
}

/// A number of a line that may be another one.
#[derive(Debug)]
struct KnownValue {
    pair: usize,
    from: usize,
    /// Whether the unit behind it counts.
    is_measured: bool,
    is_step: bool,
    is_of_phrase: bool,
}

impl KnownLine {
    /// Reads a line of the same form; returns whether it is one.
    #[inline]
    fn read(&self, line: &[u8], found: &mut LinePairs) -> bool {
        if self.text.len() != line.len() || self.values.is_empty() {
            return false;
        }
        // Without an exit from the loop many bytes are compared at once.
        let mut other = 0;
        for ((byte, known), free) in line.iter().zip(&self.text).zip(&self.free) {
            let is_digit = u8::from(byte.wrapping_sub(b'0') < 10);
            other |= (byte ^ known) & (free & is_digit).wrapping_sub(1);
        }
        if other > 0 {
            return false;
        }
        found.copy(&self.found);
        for known in &self.values {
            let Some(value) = value(&line[known.from..], known.is_measured) else {
                found.clear();
                return false;
            };
            found.set_value(known.pair, value);
            if known.is_step {
                found.step = Some(value);
            }
            if known.is_of_phrase
                && let Some((_, phrase)) = &mut found.phrase
            {
                phrase.step = value;
            }
        }
        true
    }

    /// Takes a line that was read, if it is like the one before.
    fn take(&mut self, line: &[u8], found: &LinePairs) {
        let last = (line.len(), found.names_length());
        if std::mem::replace(&mut self.last, last) != last {
            return;
        }
        self.values.clear();
        let has_step = |place: Place| place.number > 0 && place.number == found.step_number;
        let is_step_known = found.step.is_none() || found.places().any(has_step);
        let is_other = found.is_empty() || found.has_compared_values || !is_step_known;
        if is_other || line.len() > LINE_BYTES_MAX {
            return;
        }
        self.text.clear();
        self.text.extend_from_slice(line);
        self.found.copy(found);
        self.free_digits(line, found);
        let pairs = found.values().zip(found.kinds()).zip(found.marks());
        for (pair, ((value, kind), mark)) in pairs.enumerate() {
            let from = mark.place.number as usize;
            let Some((length, is_measured)) = free_number(line, from, value) else {
                continue;
            };
            // Whether `8.0` is a step depends on its last digit.
            let is_counted = kind.rank.is_some_and(|rank| rank != EPOCH);
            if is_counted && line[from..from + length].contains(&b'.') {
                continue;
            }
            let phrase = found
                .phrase
                .filter(|(start, phrase)| start + phrase.number == from);
            let is_step_here = found.step_number as usize == from;
            let is_step = is_step_here && found.step == Some(value);
            let is_of_phrase = phrase.is_some_and(|(_, phrase)| phrase.step == value);
            if is_step != is_step_here || is_of_phrase != phrase.is_some() {
                self.values.clear();
                return;
            }
            // Behind its number a pair has no more than the mean so far; a phrase has its total.
            let to = (mark.place.to as usize).max(from + length);
            let to = if is_of_phrase { from + length } else { to };
            self.set_free(line, from..to, true);
            self.values.push(KnownValue {
                pair,
                from,
                is_measured,
                is_step,
                is_of_phrase,
            });
        }
    }

    /// Frees the digits of a line but for those of its pairs, and of what may be a rank
    /// (`100000: `).
    fn free_digits(&mut self, line: &[u8], found: &LinePairs) {
        self.free.clear();
        self.free.resize(line.len(), 0);
        let are_in_line = found.pairs().zip(found.places()).all(|((name, _), place)| {
            place.to == 0 || line[place.from as usize..].starts_with(name.as_bytes())
        });
        if !are_in_line {
            return;
        }
        self.set_free(line, 0..line.len(), true);
        for at in memchr::memchr_iter(b':', line) {
            let digits = line[..at]
                .iter()
                .rev()
                .take_while(|b| b.is_ascii_digit())
                .count();
            if digits >= RANK_DIGITS_MAX {
                self.set_free(line, at - digits..at, false);
            }
        }
        for place in found.places() {
            let from = if place.to > 0 {
                place.from
            } else {
                place.number
            };
            let length = number::prefix(&line[place.number as usize..]).map_or(0, |one| one.length);
            let to = (place.to as usize).max(place.number as usize + length);
            self.set_free(line, from as usize..to, false);
        }
        if let Some((start, phrase)) = found.phrase {
            self.set_free(line, start..start + phrase.length, false);
        }
    }

    /// Frees the digits of a part of the line, or keeps them.
    fn set_free(&mut self, line: &[u8], part: Range<usize>, is_free: bool) {
        for (free, byte) in self.free[part.clone()].iter_mut().zip(&line[part]) {
            *free = u8::from(is_free && byte.is_ascii_digit());
        }
    }
}

/// The bytes of a number that other digits may stand in for, and whether the unit behind it
/// counts; `None` where it could mean another thing with others, or is not read by its digits.
fn free_number(line: &[u8], from: usize, value: f64) -> Option<(usize, bool)> {
    let text = line.get(from..).filter(|_| from > 0)?;
    let length = number::prefix(text)?.length;
    let is_exponent = |byte: &u8| matches!(byte, b'e' | b'E');
    let mut parts = text[..length].split(is_exponent);
    let is_plain = |byte: &u8| byte.is_ascii_digit() || b"+-.%".contains(byte);
    let are_plain = parts.next()?.iter().all(is_plain);
    // With two digits no exponent makes it infinite.
    let is_finite = parts
        .next()
        .is_none_or(|part| part.len() <= 3 && part.iter().all(is_plain));
    // Zero tells no unit.
    if value == 0.0 || length > NUMBER_BYTES_MAX || !are_plain || !is_finite {
        return None;
    }
    let is_measured = [false, true]
        .into_iter()
        .find(|is_measured| self::value(text, *is_measured) == Some(value))?;
    Some((length, is_measured))
}

/// The number at the start of a text, with the unit behind it if that counts.
fn value(text: &[u8], is_measured: bool) -> Option<f64> {
    let number = number::prefix(text)?;
    if is_measured {
        return Some(number::with_unit(text, number)?.value);
    }
    Some(number.value)
}

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
    use crate::label::Label;
    use proptest::prelude::*;

    /// The pairs of a line, as they are before they get labels.
    fn pairs(line: &str) -> LinePairs {
        let mut found = LinePairs::default();
        crate::pairs::find(line.as_bytes(), &mut found);
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

    /// All that is read of a line.
    fn outcome(found: &LinePairs) -> String {
        let pairs = found.pairs().zip(found.kinds()).zip(found.marks());
        let step = (found.step, found.step_rank, found.step_number);
        let others = (found.phrase, found.is_heading, found.is_counted);
        let pairs: Vec<_> = pairs.collect();
        format!("{pairs:?} {step:?} {others:?} {}", found.left_out)
    }

    /// A line with other digits, in turn; one above 9 leaves a digit as it is.
    fn with_digits(line: &str, digits: &[u8]) -> String {
        let mut digits = digits.iter().cycle();
        let mut other = |byte: char| match digits.next() {
            Some(digit @ 0..=9) => char::from(b'0' + digit),
            Some(_) | None => byte,
        };
        let digit_or = |byte: char| {
            if byte.is_ascii_digit() {
                other(byte)
            } else {
                byte
            }
        };
        line.chars().map(digit_or).collect()
    }

    /// Reads lines as known and as new ones; returns how many were known.
    fn read_both_ways<'a>(lines: impl Iterator<Item = &'a str>) -> usize {
        let mut lines_known = KnownLines::default();
        let (mut known, mut new) = (LinePairs::default(), LinePairs::default());
        let mut count = 0;
        for line in lines {
            let line = line.trim().as_bytes();
            count += usize::from(lines_known.lines[place(line)].read(line, &mut known));
            known.clear();
            lines_known.find(line, &mut known);
            new.clear();
            pairs::find(line, &mut new);
            assert_eq!(
                outcome(&known),
                outcome(&new),
                "{:?}",
                String::from_utf8_lossy(line)
            );
        }
        count
    }

    #[test]
    fn a_line_with_other_digits_is_known() {
        let known = |first: &str, other: &str| read_both_ways([first, first, other].into_iter());
        for line in [
            "step 10: loss = 0.5, acc = 0.25",
            "step 10: train loss 0.51, time 142.5ms, mfu 38.1%",
            "epoch 3 loss 0.7 val loss 0.8",
            "Epoch 1/50",
            "12:30:45 - INFO - loss: 0.31",
            "Time = 0.005",
            "{'loss': 0.6931, 'lr': 5e-05, 'epoch': 0.25}",
            "Epoch: [1][ 10/5005] Time 0.5 (1.3) Loss 6.91e+00 (6.95e+00)",
        ] {
            let other = line.replacen('1', "2", 1).replacen('3', "4", 1);
            assert_eq!(known(line, &other.replace("0.0", "0.5")), 1, "{line}");
        }
        for (line, other) in [
            ("loss1 = 0.5", "loss2 = 0.5"),
            ("epoch 3, last epoch = 4", "epoch 4, last epoch = 4"),
            ("step = 3.0, loss = 2", "step = 3.5, loss = 2"),
            ("Epoch 1/50", "Epoch 1/60"),
            ("x = np.float64(0.5)", "x = np.float32(0.5)"),
            ("loss = 5", "loss = -"),
            ("epoch 3: 099999: loss 0.5", "epoch 3: 100000: loss 0.5"),
        ] {
            assert_eq!(known(line, other), 0, "{other}");
        }
    }

    /// Every line of the logs that the tests of the crate read.
    fn logs() -> Vec<String> {
        let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let folders =
            ["corpus", "logs", "outputs", "quiet", "recipes"].map(|name| tests.join(name));
        let files = folders
            .iter()
            .flat_map(|folder| std::fs::read_dir(folder).unwrap());
        let texts = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
        let texts: Vec<String> = texts
            .map(|text| String::from_utf8_lossy(&text).into())
            .collect();
        let lines = texts.iter().flat_map(|text| text.split(['\n', '\r']));
        lines.map(str::to_owned).collect()
    }

    /// Texts of which lines are made, cut at `~`.
    const TEXTS: &str = "step~epoch~Epoch~iter~loss~val~train~last_step~acc1~Time = ~eta~fold~time\
        ~INFO~total~rank~x~_~ ~ ~ ~  ~: ~:~ = ~=~, ~,~|~ | ~\t~/~[~]~(~)~-~+~%~ %~ms~ s~GB~'~\"~#~;\
        ~.~0~0.0~7~12~0.50~1e5~3.25~99999~100000~np.float64(~2026-11-20 14:00:02,123 ~nan";

    /// A line of a log, or one that is made of [`TEXTS`].
    fn line() -> impl Strategy<Value = String> {
        let texts: Vec<&str> = TEXTS.split('~').collect();
        let text = proptest::sample::select(texts);
        let made = proptest::collection::vec(text, 1..14).prop_map(|texts| texts.concat());
        prop_oneof![proptest::sample::select(logs()), made]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn a_line_with_other_digits_gives_what_a_new_line_gives(
            line in line(),
            digits in proptest::collection::vec(proptest::collection::vec(0..14_u8, 1..24), 1..5),
        ) {
            let others: Vec<String> = digits.iter().map(|digits| with_digits(&line, digits)).collect();
            read_both_ways([&line, &line].into_iter().chain(&others).map(String::as_str));
        }
    }
}
