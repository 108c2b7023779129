//! What tells the set, or the numbered part of the run, that the pairs of a line belong to.
//!
//! It stands in front of the pairs, at the head of the line or of a part of it that a mark cuts
//! off (`Test:`, `[train]`, `| valid |`, `Fold 1:`), as the first word of a pair's name (`train
//! loss: 0.5 acc: 0.9`), behind all pairs in brackets, or as the value of a key (`'split':
//! 'train'`). The pairs behind it carry it until another one comes. A set that the next pair
//! changes at once is told for its pair alone: `train loss 0.5, val loss 0.6, lr 0.1`.

use std::ops::Range;

use nero_model::sets;

use crate::found::LinePairs;
use crate::tokens::step;
pub use crate::tokens::words::is_sum;
use crate::tokens::words::{is_companion, is_key, is_link, is_quantity, may_begin_label};

/// Limit of the words of a label's part of a line.
const WORDS_MAX: usize = 6;
/// Limit of a label, in bytes.
const LABEL_BYTES_MAX: usize = 24;
/// Bytes in which the mark behind a label at the head of a line is looked for.
const LEAD_BYTES_MAX: usize = 80;

/// A set or a numbered part, as it was printed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Label {
    bytes: [u8; LABEL_BYTES_MAX],
    length: u8,
}

impl Label {
    /// The label of a text; none where it is empty, too long or no text.
    pub fn new(text: &[u8]) -> Self {
        let mut label = Self::default();
        if let Some(bytes) = label.bytes.get_mut(..text.len())
            && std::str::from_utf8(text).is_ok()
        {
            bytes.copy_from_slice(text);
            label.length = text.len() as u8;
        }
        label
    }

    /// Both words with a blank between them.
    pub fn joined(self, other: &[u8]) -> Self {
        if self.is_none() {
            Self::new(other)
        } else {
            Self::new(&[self.as_bytes(), b" ", other].concat())
        }
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    pub fn is_none(&self) -> bool {
        self.length == 0
    }

    /// Writes it with `joint` behind, if there is any.
    pub fn write(&self, joint: char, new: &mut String) {
        if !self.is_none() {
            new.push_str(self.as_str());
            new.push(joint);
        }
    }

    /// This label, or the other one if there is none.
    pub fn or<'a>(&'a self, other: &'a Self) -> &'a Self {
        if self.is_none() { other } else { self }
    }

    /// Whether it is of a block that sums up.
    pub fn is_sum(&self) -> bool {
        let mut words = self.as_bytes().split(|byte| *byte == b' ');
        words.any(is_sum)
    }
}

impl std::fmt::Debug for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}

/// The labels in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// `Fold 1`.
    pub group: Label,
    /// `train`.
    pub set: Label,
}

impl Labels {
    /// Writes a name with the labels in front, and `joint` behind each of them.
    pub fn write(&self, name: &str, joint: char, new: &mut String) {
        self.group.write(joint, new);
        self.set.write(joint, new);
        new.push_str(name);
    }

    /// The same for a name that may tell its set itself, which has a label of sums alone.
    fn for_name(mut self, name: &str) -> Self {
        if !self.set.is_none() && own_set(name.as_bytes()) != OwnSet::None && !self.set.is_sum() {
            self.set = Label::default();
        }
        self
    }

    /// The same without a rank, if the pairs have no step: `rank: 16, alpha: 32` is something
    /// else.
    pub fn without_mere_rank(mut self, found: &LinePairs) -> Self {
        let is_rank = self.group.as_bytes().get(..4).is_some_and(is_rank);
        if is_rank && found.counts().next().is_none() {
            self.group = Label::default();
        }
        self
    }

    /// Whether there is neither.
    pub fn are_none(&self) -> bool {
        self.group.is_none() && self.set.is_none()
    }
}

/// Names the pairs of a row or object by their labels; steps and the numbers of parts keep
/// their names.
pub fn write_all(found: &mut LinePairs, labels: Labels, joint: char) {
    if labels.are_none() {
        return;
    }
    let mut labels = [labels];
    let rank = rank_of(&mut labels);
    found.rename(|_, name, new| {
        let is_plain = step::rank(name.as_bytes()).is_none() && !sets::is_group(name.as_bytes());
        if is_plain {
            labels[0].for_name(name).write(name, joint, new)
        } else {
            new.push_str(name)
        }
    });
    if let Some(rank) = rank {
        found.of_rank(rank);
    }
}

/// Whether a column or key tells the set, or the numbered part, of the others beside it.
pub fn is_told_by(column: &[u8]) -> bool {
    is_key(column) || sets::is_group(column)
}

/// Notes the label that the cell of such a column tells.
pub fn note_cell(column: &[u8], cell: &[u8], labels: &mut Labels) {
    if is_key(column) && set_at_start(cell).is_some() {
        labels.set = Label::new(cell);
    } else if sets::is_group(column) && !cell.is_empty() && cell.iter().all(u8::is_ascii_digit) {
        labels.group = Label::new(column).joined(cell);
    }
}

/// How a name tells its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnSet {
    None,
    /// As its first word: `train loss`. The bytes of that word.
    Word(usize),
    /// Within a word, or at its end: `val_loss`, `loss(train)`.
    Part,
}

/// How a name tells its set.
#[inline]
pub fn own_set(name: &[u8]) -> OwnSet {
    let is_joint = |byte: &u8| JOINTS[usize::from(*byte)];
    let first = name.iter().position(is_joint).unwrap_or(name.len());
    if sets::is_set(&name[..first]) {
        return match name.get(first) {
            Some(b' ') => OwnSet::Word(first),
            _ => OwnSet::Part,
        };
    }
    if first == name.len() {
        return OwnSet::None;
    }
    let text = name.strip_suffix(b")").unwrap_or(name);
    let last = text.iter().rposition(is_joint).map_or(0, |at| at + 1);
    if sets::is_set(&text[last..]) {
        OwnSet::Part
    } else {
        OwnSet::None
    }
}
/// Takes the rank out of the labels: `rank 1` is told behind the name.
pub fn rank_of(labels: &mut [Labels]) -> Option<u32> {
    let mut rank = None;
    for labels in labels {
        let (word, number) = labels.group.as_str().split_once(' ').unwrap_or_default();
        if word.eq_ignore_ascii_case("rank") {
            rank = number.parse().ok().filter(|rank| *rank > 0);
            labels.group = Label::default();
        }
    }
    rank
}

/// Whether a pair tells the number of a part: `fold=1`.
#[inline]
pub fn is_group_pair(name: &[u8], value: f64) -> bool {
    sets::is_group(name) && value.fract() == 0.0 && value >= 0.0
}

pub fn is_rank(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"rank")
}
/// The letters with which a text begins.
pub fn letters(text: &[u8]) -> &[u8] {
    let length = text.iter().take_while(|byte| byte.is_ascii_alphabetic());
    &text[..length.count()]
}

/// Whether a byte may stand around a label.
pub fn is_between(byte: &u8) -> bool {
    matches!(byte, b' ' | b'-' | b'=' | b'*' | b'.')
}

/// A part without the blanks and dashes around it.
pub fn trimmed(text: &[u8]) -> &[u8] {
    let from = text
        .iter()
        .position(|b| !is_between(b))
        .unwrap_or(text.len());
    let to = text
        .iter()
        .rposition(|b| !is_between(b))
        .map_or(from, |to| to + 1);
    &text[from..to]
}

/// Whether a byte cuts a line into parts.
#[inline]
pub fn is_mark(byte: u8) -> bool {
    MARKS[usize::from(byte)]
}

/// The bytes of [`is_mark`].
const MARKS: [bool; 256] = table(b":|,;\t[](){}<>\"'");
/// The bytes between the words of a name.
const JOINTS: [bool; 256] = table(b" _-/.('");

const fn table(bytes: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] = true;
        at += 1;
    }
    table
}

/// The set with which a part of a line begins, where all of the part is about it: `Test net
/// output #0`; a set alone may be a part of its word: `train_inner`.
pub fn set_at_start(text: &[u8]) -> Option<Range<usize>> {
    let mut words = text
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty());
    let first = words.next()?;
    if sets::is_set(first) || is_sum(first) {
        let mut count = 1;
        // The last word is that which most often is another one: a value.
        let are_known = words.rev().all(|word| {
            count += 1;
            match word[0] {
                b'0'..=b'9' | b'#' => is_number(word),
                _ => is_companion(word) || is_link(word) || is_quantity(word) || sets::is_set(word),
            }
        });
        return (are_known && count <= WORDS_MAX).then_some(0..first.len());
    }
    let stem = first.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    let is_alone = first.len() == text.len() && stem < text.len();
    let has_joint = is_alone && matches!(text[stem], b'_' | b'-' | b'0'..=b'9');
    (has_joint && sets::is_set(&text[..stem])).then_some(0..text.len())
}

fn is_number(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"#").unwrap_or(word);
    !digits.is_empty() && digits.iter().all(|b| b.is_ascii_digit() || *b == b'/')
}

/// Bytes of a numbered part at the start of a text: `Fold 1/5`.
pub fn group_at_start(text: &[u8]) -> Option<usize> {
    let word = text.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    if !sets::is_group(&text[..word]) {
        return None;
    }
    let between = text[word..]
        .iter()
        .take_while(|b| matches!(b, b' ' | b'#' | b'_' | b'='));
    let from = word + between.count();
    let digits = text[from..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    let to = from + digits;
    let ends = !matches!(text.get(to), Some(b'.' | b'_' | b'-'))
        && !text.get(to).is_some_and(u8::is_ascii_alphanumeric);
    let total = match text.get(to) {
        Some(b'/') => {
            1 + text[to + 1..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count()
        }
        _ => 0,
    };
    (digits > 0 && ends).then_some(to + total)
}

/// `Fold 1` of `Fold #1/5`.
pub fn group_label(text: &[u8]) -> Label {
    let word = text.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    let from = text
        .iter()
        .position(u8::is_ascii_digit)
        .unwrap_or(text.len());
    let digits = text[from..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    Label::new(&text[..word]).joined(&text[from..from + digits])
}

/// Bytes of a label at the start of a text, up to its mark: `Train`, `Fold 1`, `(val)`.
pub fn lead(text: &[u8]) -> usize {
    if let [open @ (b'(' | b'['), inside @ ..] = text {
        let close = if *open == b'(' { b')' } else { b']' };
        let length = inside
            .iter()
            .take(LABEL_BYTES_MAX)
            .position(|byte| *byte == close);
        let Some(length) = length else { return 0 };
        let inside = &inside[..length];
        let is_label = set_at_start(inside).is_some() || group_at_start(inside).is_some();
        return if is_label { length + 2 } else { 0 };
    }
    if !text.first().is_some_and(|first| may_begin_label(*first)) {
        return 0;
    }
    if let Some(length) = group_at_start(text) {
        return length;
    }
    let word = text
        .iter()
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count();
    if !sets::is_set(&text[..word]) && !is_sum(&text[..word]) {
        return 0;
    }
    let near = &text[..text.len().min(LEAD_BYTES_MAX)];
    let is_dash = |at: usize| near[at] == b'-' && at > 0 && near[at - 1] == b' ';
    let end = (0..near.len()).find(|at| is_mark(near[*at]) || is_dash(*at));
    match end {
        Some(end) if set_at_start(trimmed(&text[..end])).is_some() => end,
        _ => 0,
    }
}
