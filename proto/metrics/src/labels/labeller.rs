//! The labels of the pairs of a line: which of them each pair carries.

use crate::found::{LinePairs, Place};
use crate::labels::label::{
    Label, Labels, OwnSet, group_at_start, group_label, is_between, is_group_pair, is_mark,
    is_rank, letters, own_set, rank_of, set_at_start, trimmed,
};
use crate::labels::memo::{Memo, is_quoted};
use crate::tokens::step;
use crate::tokens::words::{is_sum, may_begin_label};
use nero_model::sets;

/// Limit of the labels that a line tells.
const TOLD_MAX: usize = 250;
/// Pairs of a line that are compared with one another.
const COMPARED_MAX: usize = 64;

/// Forms of lines that are remembered, each at the place that the bytes of its names tell.
const MEMOS: usize = 8;

/// One pair of the line on its way to a label.
#[derive(Clone, Copy, Debug)]
struct Item {
    place: Place,
    own: OwnSet,
    is_step: bool,
}

/// Finds the labels of the pairs of a line; keeps its memory from line to line.
#[derive(Debug, Default)]
pub struct Labeller {
    items: Vec<Item>,
    /// The labels that marks tell, each with the number of the first pair behind it.
    marks: Vec<(usize, Labels)>,
    /// The labels that the line tells.
    told: Vec<Labels>,
    /// For each pair the number of its labels in `told`; empty where no pair has any.
    labels: Vec<u8>,
    /// Forms of earlier lines.
    memos: [Memo; MEMOS],
    /// The number of that of this line, if it has one.
    memo: Option<usize>,
    /// Whether what is above is that of this line, and not of an earlier one of its form.
    is_read: bool,
}

impl Labeller {
    /// Looks for the labels in a line; returns whether it tells a set.
    pub fn read(&mut self, line: &[u8], found: &LinePairs) -> bool {
        let at = found.names_length() % MEMOS;
        self.memo = Some(at);
        self.is_read = !self.memos[at].is_of(line, found);
        if !self.is_read {
            return self.memos[at].tells_set;
        }
        let tells_set = self.read_anew(line, found);
        // The numbers of parts are themselves labels.
        let has_digit = |label: &Label| label.as_bytes().iter().any(u8::is_ascii_digit);
        let mut told = self.told.iter();
        let has_number = found.kinds().any(|kind| kind.is_group)
            || told.any(|labels| has_digit(&labels.group) || has_digit(&labels.set));
        if has_number {
            self.memo = None
        } else {
            self.memos[at].take(line, found, tells_set)
        }
        tells_set
    }

    fn read_anew(&mut self, line: &[u8], found: &LinePairs) -> bool {
        self.items.clear();
        self.labels.clear();
        self.told.clear();
        if !may_tell(line, found) {
            return false;
        }
        self.collect(line, found) && self.decide(line, found)
    }

    /// Names the pairs of the line that was read by its labels, and by those of the lines above.
    pub fn write(&mut self, line: &[u8], found: &mut LinePairs, above: Labels) {
        let Some(at) = self.memo else {
            return self.write_anew(line, found, above);
        };
        if !self.memos[at].write(found, &above) {
            if !self.is_read {
                self.read_anew(line, found);
            }
            self.write_anew(line, found, above);
            self.memos[at].written(found, above);
        }
    }

    fn write_anew(&mut self, line: &[u8], found: &mut LinePairs, above: Labels) {
        let is_plain = self.labels.is_empty() && above.are_none();
        if is_plain && !found.has_repeats() {
            return;
        }
        if self.items.is_empty() {
            self.collect(line, found);
        }
        let rank = self.take_rank();
        let tells_set = self.told.iter().any(|labels| !labels.set.is_none())
            || self.items.iter().any(|item| item.own != OwnSet::None);
        let is_quoted = self.items.iter().any(|item| is_quoted(line, item.place));
        let is_sum = above.set.is_sum();
        if self.told.iter().any(|labels| !labels.are_none()) || !above.are_none() {
            let none = Labels::default();
            let (items, labels, told) = (&self.items, &self.labels, &self.told);
            found.rename(|at, name, new| {
                let item = items.get(at).filter(|item| is_sum || !item.is_step);
                let Some(item) = item else {
                    return new.push_str(name);
                };
                let own = labels
                    .get(at)
                    .and_then(|number| told.get(usize::from(*number)));
                let own = own.unwrap_or(&none);
                let is_open = !tells_set && !is_quoted && item.own == OwnSet::None || is_sum;
                let above_set = if is_open { &above.set } else { &none.set };
                own.group.or(&above.group).write(' ', new);
                own.set.or(above_set).write(' ', new);
                new.push_str(name);
            });
        }
        if let Some(rank) = rank {
            found.of_rank(rank);
        }
        self.tell_repeats_apart(found);
    }

    /// Takes the rank out of the labels: it is told behind the names.
    fn take_rank(&mut self) -> Option<u32> {
        rank_of(&mut self.told)
    }

    /// Looks at all pairs and at what stands between them. Returns whether any label is there.
    fn collect(&mut self, line: &[u8], found: &LinePairs) -> bool {
        self.items.clear();
        self.marks.clear();
        let mut at = 0;
        let mut marked = Labels::default();
        let mut has_word = false;
        let mut title = None;
        // `rank: 16, alpha: 32` is something else.
        let may_be_rank = found.step.is_some();
        for (number, ((name, value), pair)) in found.pairs().zip(found.marks()).enumerate() {
            let name = name.as_bytes();
            let place = pair.place;
            let (from, to) = (place.from as usize, place.to as usize);
            if from > at + 3 {
                let part = &line[at..from];
                if labels_in(part, &mut marked) {
                    self.marks.push((number, marked));
                }
                title = title_in(part).or(title);
            }
            at = at.max(to);
            let is_quoted = is_quoted(line, place);
            let own = match own_set(name) {
                OwnSet::Word(_) if is_quoted => OwnSet::Part,
                own => own,
            };
            has_word |= matches!(own, OwnSet::Word(_));
            let is_group = is_group_pair(name, value);
            let is_at_head = self.items.is_empty() || is_quoted;
            if is_group && is_at_head && (may_be_rank || !is_rank(name)) {
                marked.group = Label::new(name).joined(format!("{value}").as_bytes());
                self.marks.push((number, marked));
            }
            let is_count = pair.counts || to == 0;
            let is_step = step::rank_of_last_word(name).is_some();
            // A step that counts nothing is what the title of its part says: a time.
            if !is_count
                && is_step
                && let Some(title) = title
            {
                self.marks.push((
                    number,
                    Labels {
                        set: title,
                        ..marked
                    },
                ));
                self.marks.push((number + 1, marked));
            }
            self.items.push(Item {
                place,
                own,
                is_step: is_group || is_step && (is_count || title.is_none()) || to == 0,
            });
        }
        has_word || !self.marks.is_empty() || bracket_at_end(line, at).is_some()
    }

    /// Decides which label each pair has. Returns whether the line tells a set.
    fn decide(&mut self, line: &[u8], found: &LinePairs) -> bool {
        let carries = self.words_carry(found);
        let mut marks = self.marks.iter().peekable();
        let mut tells_set = false;
        let mut now = Labels::default();
        let mut marked = Label::default();
        tell(&mut self.told, now);
        for (at, (item, (name, _))) in self.items.iter().zip(found.pairs()).enumerate() {
            while let Some((_, labels)) = marks.next_if(|(from, _)| *from <= at) {
                let set = if labels.set == marked {
                    now.set
                } else {
                    labels.set
                };
                marked = labels.set;
                now = Labels { set, ..*labels };
                tells_set |= !marked.is_none();
                tell(&mut self.told, now);
            }
            if let OwnSet::Word(length) = item.own {
                tells_set = true;
                if carries {
                    now.set = Label::new(&name.as_bytes()[..length]);
                    tell(&mut self.told, now);
                }
            }
            // The labels without the set stand before those with it.
            let number = self.told.len() - 1 - usize::from(item.own != OwnSet::None);
            self.labels.push(number as u8);
        }
        let end = self.items.iter().map(|item| item.place.to).max();
        if !tells_set && let Some(behind) = bracket_at_end(line, end.unwrap_or(0) as usize) {
            let group = now.group;
            let set = Label::new(behind);
            tell(&mut self.told, Labels { group, set });
            let number = self.told.len() - 1;
            for (label, item) in self.labels.iter_mut().zip(&self.items) {
                *label = (number - usize::from(item.own != OwnSet::None)) as u8;
            }
            tells_set = true;
        }
        tells_set
    }

    /// Whether a set at the head of a name is carried by the pairs behind: by the first pair
    /// of the line, unless the next one changes it; or where a pair behind it would have the
    /// name of an earlier one.
    fn words_carry(&self, found: &LinePairs) -> bool {
        let is_word = |item: &&Item| matches!(item.own, OwnSet::Word(_));
        let Some(first) = self.items.iter().position(|item| is_word(&item)) else {
            return false;
        };
        let told = self.items.iter();
        let mut first_two = told.filter(|item| !item.is_step || is_word(item)).take(2);
        if first_two.next().is_some_and(|one| is_word(&one))
            && first_two
                .next()
                .is_some_and(|next| next.own == OwnSet::None)
        {
            return true;
        }
        let base = |item: &Item| match item.own {
            OwnSet::Word(length) => length + 1,
            OwnSet::None | OwnSet::Part => 0,
        };
        let named = || found.pairs().zip(&self.items).take(COMPARED_MAX);
        let is_repeated = |at: usize, name: &str| {
            named().take(at).any(|((other, _), item)| {
                other
                    .get(base(item)..)
                    .is_some_and(|base| base.eq_ignore_ascii_case(name))
            })
        };
        let mut behind = named().enumerate().skip(first);
        behind.any(|(at, ((name, _), item))| {
            item.own == OwnSet::None && !item.is_step && is_repeated(at, name)
        })
    }

    /// Gives the second pair of a line with the same name a name of its own: `loss 2`.
    fn tell_repeats_apart(&self, found: &mut LinePairs) {
        if found.len() > COMPARED_MAX || !found.has_repeats() {
            return;
        }
        let is_step = |at: usize| self.items.get(at).is_none_or(|item| item.is_step);
        let repeats = |at: usize, name: &str| {
            if is_step(at) {
                0
            } else {
                found
                    .pairs()
                    .take(at)
                    .filter(|(other, _)| *other == name)
                    .count()
            }
        };
        let has_repeats = (found.pairs().enumerate()).any(|(at, (name, _))| repeats(at, name) > 0);
        if !has_repeats {
            return;
        }
        let times: Vec<usize> = (found.pairs().enumerate())
            .map(|(at, (name, _))| repeats(at, name))
            .collect();
        found.rename(|at, name, new| {
            new.push_str(name);
            if times[at] > 0 {
                new.push_str(&format!(" {}", times[at] + 1));
            }
        });
    }
}

/// Adds labels, those of the group alone before them.
fn tell(told: &mut Vec<Labels>, labels: Labels) {
    if told.len() < TOLD_MAX {
        let set = Label::default();
        told.extend([Labels { set, ..labels }, labels]);
    }
}

/// Whether anything in a line may be a label. Most lines have none, and this costs little.
fn may_tell(line: &[u8], found: &LinePairs) -> bool {
    let mut at = 0;
    let mut pairs = found.pairs().zip(found.marks());
    let may_pair_tell = pairs.any(|((name, value), pair)| {
        let name = name.as_bytes();
        let (from, to) = (pair.place.from as usize, pair.place.to as usize);
        let before = line.get(at..from).unwrap_or_default();
        at = at.max(to);
        let is_other_step = !pair.counts && to > 0 && step::rank(name).is_some();
        before.len() > 3 && may_hold_label(before)
            || begins_with_set(name)
            || is_group_pair(name, value)
            || is_other_step
    });
    may_pair_tell || bracket_at_end(line, at).is_some()
}

/// Whether a word of a text may begin a label.
fn may_hold_label(text: &[u8]) -> bool {
    let mut is_within = false;
    text.iter().enumerate().any(|(at, byte)| {
        let is_letter = byte.is_ascii_alphabetic();
        let begins = is_letter && !is_within;
        is_within = is_letter;
        begins && may_begin_label(*byte) && is_label_word(letters(&text[at..]))
    })
}

fn begins_with_set(name: &[u8]) -> bool {
    let begins = name.first().is_some_and(|first| may_begin_label(*first));
    begins && {
        let word = letters(name);
        name.get(word.len()) == Some(&b' ') && sets::is_set(word)
    }
}

fn is_label_word(word: &[u8]) -> bool {
    sets::is_set(word) || sets::is_group(word) || is_sum(word)
}

/// Notes the labels in a part of a line that holds no pair; returns whether there is any.
fn labels_in(part: &[u8], labels: &mut Labels) -> bool {
    let mut has_any = false;
    let mut at = 0;
    while at < part.len() {
        // Most parts begin with no word of a label.
        if !may_begin_label(part[at]) {
            at += part_without_label(&part[at..]);
            continue;
        }
        let end = part[at..].iter().position(|byte| is_mark(*byte));
        let mut end = end.map_or(part.len(), |length| at + length);
        if let Some(blanks) = part[at..end].windows(2).position(|two| two == b"  ") {
            end = at + blanks;
        }
        let text = trimmed(&part[at..end]);
        if let Some(range) = set_at_start(text) {
            labels.set = Label::new(&text[range]);
            has_any = true;
        } else if let Some(length) = group_at_start(text) {
            labels.group = group_label(&text[..length]);
            has_any = true;
        }
        at = end + 1;
    }
    has_any
}

/// Bytes up to where a label may begin next: behind blanks and dashes at once, else behind the
/// next mark or two blanks.
fn part_without_label(text: &[u8]) -> usize {
    if is_mark(text[0]) || is_between(&text[0]) {
        return 1;
    }
    let mut before = 0;
    for (at, byte) in text.iter().enumerate() {
        if is_mark(*byte) || *byte == b' ' && before == b' ' {
            return at + 1;
        }
        before = *byte;
    }
    text.len()
}

/// The quantity of which a part of the line is the title: `time (ms) | forward: 652`.
fn title_in(part: &[u8]) -> Option<Label> {
    let text = part.trim_ascii_end().strip_suffix(b"|")?.trim_ascii_end();
    let from = text
        .iter()
        .rposition(|b| matches!(b, b'|' | b']'))
        .map_or(0, |at| at + 1);
    let title = text[from..].trim_ascii();
    title.ends_with(b")").then(|| Label::new(title))
}
/// The set in brackets at the end of a line: `loss: 0.5 [val]`.
fn bracket_at_end(line: &[u8], from: usize) -> Option<&[u8]> {
    let behind = line.get(from..)?.trim_ascii();
    let inside = match behind {
        [b'[', inside @ .., b']'] | [b'(', inside @ .., b')'] => inside,
        _ => return None,
    };
    sets::is_set(inside).then_some(inside)
}
