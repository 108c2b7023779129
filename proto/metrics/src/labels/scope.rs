//! What the lines above tell of the set that the next line belongs to: headings such as
//! `Validation:`, `=== Fold 2 ===` and `A V E R A G E S`.
//!
//! A numbered part holds until the next one. A set holds until the next heading, or until the
//! steps go on: a line that begins with a larger step than the last one above the heading (or
//! with any, where the heading itself begins with a step) is back in the set to train with, if
//! a heading told one, else in none.

use nero_model::sets;

use crate::labels::label::{self, Label, Labels, letters};
use crate::tokens::names::is_level;
use crate::tokens::step;
use crate::tokens::words::{is_beginning, is_companion, is_key, is_known, is_link};

/// Longest line that is a heading.
const HEADING_BYTES_MAX: usize = 80;
/// Most words of a heading.
const WORDS_MAX: usize = 9;

/// How a set ends by the steps of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SetEnd {
    /// The first line with numbers below the heading decides.
    #[default]
    Open,
    /// At the next line that begins with a step.
    AtStep,
    /// At a step above this one.
    Above(f64),
    /// At no step.
    Never,
}

/// What the lines above tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scope {
    /// In force.
    pub labels: Labels,
    /// The set to which steps lead back.
    pub home: Label,
    pub end: SetEnd,
    /// The largest steps that lines begin with: their rank, and the newest.
    pub counted: Option<(u8, f64)>,
    /// Whether the last line with numbers was one of a part of its set: `Test: [ 10/196]`.
    pub is_behind_parts: bool,
    /// Whether a launcher puts the rank in front of each line: `0: loss 0.3`.
    pub has_ranks_in_front: bool,
}

/// The words of a heading.
#[derive(Debug, Default)]
pub struct Heading {
    group: Label,
    set: Label,
    is_training: bool,
    /// A remark that something begins.
    is_beginning: bool,
    /// A row that is the title of those below: `| eval/  |   |`.
    is_section: bool,
}

impl Scope {
    /// Takes a heading; `is_step` tells whether it begins with a step.
    pub fn enter(&mut self, heading: &Heading, is_step: bool) {
        if heading.is_section {
            self.labels.set = heading.set;
            self.home = heading.set;
            return;
        }
        if !heading.group.is_none() {
            self.labels.group = heading.group;
            self.labels.set = self.home;
            self.counted = None;
        }
        if heading.set.is_none() {
            return;
        }
        if heading.set.is_sum() && heading.group.is_none() {
            self.labels.group = Label::default();
        }
        let set = if heading.is_beginning && heading.is_training {
            Label::default()
        } else {
            heading.set
        };
        if heading.is_training {
            self.home = set;
        }
        self.labels.set = set;
        self.end = match (is_step, self.counted) {
            (true, _) => SetEnd::AtStep,
            (false, Some((_, step))) => SetEnd::Above(step),
            (false, None) => SetEnd::Open,
        };
    }

    /// Takes the step with which a line begins that tells no set itself.
    pub fn step(&mut self, rank: u8, step: f64) {
        let is_inside = self.labels.set != self.home;
        if is_inside {
            let is_larger = |(known, _): (u8, f64)| rank > known;
            let is_over = match self.end {
                SetEnd::Open => {
                    self.end = SetEnd::Never;
                    false
                }
                SetEnd::AtStep => true,
                SetEnd::Above(last) => {
                    let is_same = self.counted.is_some_and(|(known, _)| rank == known);
                    self.counted.is_some_and(is_larger) || is_same && step > last
                }
                SetEnd::Never => false,
            };
            if !is_over {
                return;
            }
            self.labels.set = self.home;
        }
        if self.counted.is_none_or(|(known, _)| rank >= known) {
            self.counted = Some((rank, step));
        }
    }

    /// Takes a line with numbers that does not begin with a step.
    pub fn numbers(&mut self) {
        if self.end == SetEnd::Open {
            self.end = SetEnd::AtStep;
        }
    }
}

/// The heading that a line without numbers of its own is, if it is one.
pub fn heading(line: &[u8]) -> Option<Heading> {
    if line.len() > HEADING_BYTES_MAX || begins_otherwise(line) {
        return None;
    }
    let line = &line[crate::tokens::heading::length(line)..];
    if let Some(section) = section(line) {
        return Some(section);
    }
    let ends_with = |mark: &[u8]| line.trim_ascii_end().ends_with(mark);
    let (is_told_below, has_dots) = (ends_with(b":"), ends_with(b"..."));
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'/');
    if let Some(joined) = without_spacing(line) {
        return heading(&joined);
    }
    let mut heading = Heading::default();
    let mut count = 0;
    let mut at = 0;
    // `epoch loss val` are the names of a table.
    let (mut has_quantity, mut has_link, mut sets_told) = (false, false, 0);
    while let Some(start) = line[at..].iter().position(is_word) {
        at += start;
        let word = line[at..].iter().take_while(|byte| is_word(byte)).count();
        let text = &line[at..];
        let name = &text[..word];
        count += 1;
        if count > WORDS_MAX || name[0].is_ascii_alphabetic() && !is_known(letters(name)) {
            return None;
        }
        at += if let Some(length) = label::group_at_start(text) {
            heading.group = label::group_label(&text[..length]);
            length
        } else if sets::is_set(name) || label::is_sum(name) {
            let is_best = name.eq_ignore_ascii_case(b"best");
            if is_best && !is_told_below {
                return None;
            }
            if has_quantity && !has_link && sets::is_set(name) {
                return None;
            }
            sets_told += u32::from(sets::is_set(name));
            heading.is_training = sets::is_training(name) && heading.set.is_none();
            heading.set = heading.set.joined(name);
            word
        } else if let Some(phrase) = step::phrase(text) {
            phrase.length
        } else if is_beginning(name) {
            heading.is_beginning = true;
            word
        } else if is_link(name) {
            has_link = true;
            word
        } else if is_companion(name) {
            // `Phase: val` names its set behind a key.
            has_quantity |= !is_key(name);
            word
        } else if name.iter().all(|b| b.is_ascii_digit() || *b == b'/') {
            word
        } else {
            return None;
        };
    }
    heading.is_beginning |= has_dots;
    let is_rank = heading
        .group
        .as_bytes()
        .get(..4)
        .is_some_and(|w| w.eq_ignore_ascii_case(b"rank"));
    let tells = !heading.set.is_none() || !heading.group.is_none();
    (tells && !is_rank && sets_told < 2).then_some(heading)
}

/// Whether a line begins with a word that no heading has, which most texts do.
fn begins_otherwise(line: &[u8]) -> bool {
    let word = letters(line);
    let is_log = is_level(word) || word.len() == 1;
    !word.is_empty() && !is_log && !is_known(word)
}

/// The title of rows in a frame: `train/             |           |`. One that is no set ends
/// the set before.
fn section(line: &[u8]) -> Option<Heading> {
    let slash = memchr::memchr(b'/', line)?;
    let is_frame = |byte: &u8| matches!(byte, b' ' | b'|');
    let behind = &line[slash + 1..];
    let is_word = slash > 0
        && line[..slash]
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let is_section = is_word && behind.contains(&b'|') && behind.iter().all(is_frame);
    is_section.then(|| Heading {
        set: if sets::is_set(&line[..slash]) {
            Label::new(&line[..slash])
        } else {
            Label::default()
        },
        is_section,
        ..Heading::default()
    })
}

/// `A V E R A G E S   O V E R` as `AVERAGES   OVER`, if the first word is written so.
fn without_spacing(line: &[u8]) -> Option<Vec<u8>> {
    let first = line.iter().position(u8::is_ascii_alphabetic)?;
    let is_letter = |at: usize| line.get(at).is_some_and(u8::is_ascii_alphabetic);
    let is_single =
        |at: usize| is_letter(at) && !is_letter(at + 1) && (at == 0 || !is_letter(at - 1));
    let is_spaced = |at: usize| is_single(at) && line.get(at + 1) == Some(&b' ');
    if !(is_spaced(first) && is_spaced(first + 2) && is_single(first + 4)) {
        return None;
    }
    let joined = line.iter().enumerate().filter(|(at, byte)| {
        let is_between = **byte == b' ' && *at > 0 && is_single(at - 1) && is_single(at + 1);
        !is_between
    });
    Some(joined.map(|(_, byte)| *byte).collect())
}
