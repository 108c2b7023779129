//! The numbers of one line of output with their names, their step, and how much of the
//! work is done. One
//! value is used for all lines, so that finding takes no memory.

use nero_model::sets;

use crate::tokens::step::{self, EPOCH, Phrase};

/// Limit of a metric's name, in bytes; pairs with longer names are ignored.
pub const NAME_BYTES_MAX: usize = 200;
/// Limit of pairs of one line; further pairs are ignored.
pub const PAIRS_MAX: usize = 4096;
/// Names that are remembered, each at the place that its length and its pair's number tell.
const KNOWN_MAX: usize = 64;

/// The pairs of one line.
#[derive(Debug, Default)]
pub struct LinePairs {
    names: String,
    /// Memory for new names.
    spare: String,
    pairs: Vec<Pair>,
    /// Names of earlier lines, most of which come again.
    known: Vec<KnownName>,
    /// The step that the line gives, if any.
    pub step: Option<f64>,
    /// Whether the step stands before all values of the line, so that it also holds
    /// for following lines that give none.
    pub is_heading: bool,
    /// The rank of the step's word; 0 where it has none.
    pub step_rank: u8,
    /// The first phrase of a step in the line of text, and where it stands.
    pub phrase: Option<(usize, Phrase)>,
    /// Whether the line of text counts steps without a word: `[8/50]`.
    pub is_counted: bool,
    /// The step of an earlier line, where this one gives none.
    pub carried: Option<f64>,
    /// How much of its work the job has done, by this line.
    pub progress: Option<LineProgress>,
    /// Numbers of the line that have a name, or a place of their own, and could not be read.
    pub left_out: u32,
}

/// What tells the progress; a later one counts more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgressKind {
    /// A bar, or a count without a word.
    Bar = 1,
    /// Steps with a total.
    Steps = 2,
    /// A value called `progress`.
    Metric = 3,
}

impl ProgressKind {
    pub const ALL: [Self; 3] = [Self::Bar, Self::Steps, Self::Metric];
}

/// The progress that a line tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineProgress {
    /// From 0 to 1.
    pub share: f64,
    pub source: ProgressKind,
}

/// What a name alone tells of its pair.
#[derive(Clone, Copy, Debug, Default)]
pub struct NameKind {
    /// How sure a name is that of a step: `step::rank`.
    pub rank: Option<u8>,
    /// Whether its last word is that of a step.
    pub is_step: bool,
    /// Whether it is that of a numbered part.
    pub is_group: bool,
}

#[derive(Debug, Default)]
struct KnownName {
    name: String,
    kind: NameKind,
}

/// The names of the pairs of a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NameList {
    text: String,
    bounds: Vec<(u32, u32)>,
}

impl NameList {
    pub fn clear(&mut self) {
        self.text.clear();
        self.bounds.clear();
    }
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    name_from: u32,
    name_to: u32,
    value: f64,
    kind: NameKind,
    /// Whether the value counts steps, if the name is that of a step.
    counts: bool,
    place: Place,
}

/// Where a pair stands, and what it is.
#[derive(Clone, Copy, Debug)]
pub struct PairMark {
    pub place: Place,
    /// Whether the value counts steps, if the name is that of a step.
    pub counts: bool,
}

/// Bytes of the line from a pair's name up to the end of its value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    pub from: u32,
    pub to: u32,
}

impl LinePairs {
    /// Forgets the line before.
    pub fn clear(&mut self) {
        self.names.clear();
        self.pairs.clear();
        self.step = None;
        self.step_rank = 0;
        self.is_heading = false;
        self.is_counted = false;
        self.phrase = None;
        self.carried = None;
        self.progress = None;
        self.left_out = 0;
    }

    /// Sets the step of the line.
    pub fn give_step(&mut self, step: f64, is_heading: bool) {
        self.step = Some(step);
        self.is_heading = is_heading;
    }

    /// Sets the step by the pairs alone.
    pub fn take_step_of_pairs(&mut self) {
        let counts = self.pairs.iter().filter(|pair| pair.counts);
        let rank = |pair: &Pair| step::rank(self.name(pair).as_bytes());
        let ranked = counts.filter_map(|pair| Some((rank(pair)?, pair.value)));
        self.step = step::best(ranked).map(|(_, step)| step);
    }

    /// The phrase of a step that begins at this byte of the line of text, if it was read.
    pub fn phrase_at(&self, at: usize) -> Option<Phrase> {
        let phrase = self.phrase.filter(|(start, _)| *start == at);
        phrase.map(|(_, phrase)| phrase)
    }

    /// The step of a point of the line in a series whose last point has the step
    /// `last`, and whether it begins a new segment: only a step of the line itself
    /// does. Without any step the series counts on, from 1.
    pub fn step_after(&self, last: Option<f64>) -> (f64, bool) {
        let is_ahead = |step: &f64| last.is_none_or(|last| *step >= last);
        match (self.step, self.carried.filter(is_ahead)) {
            (Some(step), _) => (step, !is_ahead(&step)),
            (None, Some(carried)) => (carried, false),
            (None, None) => (last.unwrap_or(0.0) + 1.0, false),
        }
    }

    /// Makes the pairs those of another rank than 0: `loss` becomes `loss[1]`.
    pub fn of_rank(&mut self, rank: u32) {
        self.rename(|_, name, new| {
            new.push_str(name);
            new.push_str(&format!("[{rank}]"));
        });
    }

    /// Gives each pair, by its number, the name that `write` makes of its present one. A name
    /// that becomes too long stays.
    pub fn rename(&mut self, mut write: impl FnMut(usize, &str, &mut String)) {
        std::mem::swap(&mut self.names, &mut self.spare);
        self.names.clear();
        let names = &self.spare;
        for (at, pair) in self.pairs.iter_mut().enumerate() {
            let name = &names[pair.name_from as usize..pair.name_to as usize];
            let from = self.names.len();
            write(at, name, &mut self.names);
            if self.names.len() - from > NAME_BYTES_MAX {
                self.names.truncate(from);
                self.names.push_str(name);
            }
            pair.name_from = from as u32;
            pair.name_to = self.names.len() as u32;
        }
    }

    /// Adds a pair, unless its name cannot be one: empty, too long, not
    /// UTF-8, or with control characters.
    pub fn push(&mut self, name: &[u8], value: f64) {
        let is_whole = value.fract() == 0.0;
        let counts = step::rank(name).is_some_and(|rank| is_whole || rank == EPOCH);
        self.push_at(name, value, counts, Place::default());
    }

    /// Adds the value of a column, whose name is sound and whose step was chosen before.
    #[inline]
    pub fn push_column(&mut self, name: &str, value: f64) {
        if !name.is_empty() && name.len() <= NAME_BYTES_MAX && self.pairs.len() < PAIRS_MAX {
            let from = self.names.len();
            self.names.push_str(name);
            self.add(from, value, NameKind::default(), false, Place::default());
        }
    }

    /// Adds a pair that stands at this place of the line.
    #[inline]
    pub fn push_at(&mut self, name: &[u8], value: f64, counts: bool, place: Place) {
        let at = (self.pairs.len() + 7 * name.len()) % KNOWN_MAX;
        let is_known = |known: &KnownName| known.name.as_bytes() == name && !name.is_empty();
        if self.pairs.len() >= PAIRS_MAX
            || !self.known.get(at).is_some_and(is_known) && !self.learn(at, name)
        {
            return;
        }
        let from = self.names.len();
        self.names.push_str(&self.known[at].name);
        self.add(from, value, self.known[at].kind, counts, place);
    }

    /// Learns a name; returns whether it can be that of a pair.
    fn learn(&mut self, at: usize, name: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(name) else {
            return false;
        };
        let is_short = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
        if !is_short || has_control(text) {
            return false;
        }
        if self.known.len() <= at {
            self.known.resize_with(at + 1, KnownName::default);
        }
        let known = &mut self.known[at];
        known.name.clear();
        known.name.push_str(text);
        known.kind = NameKind {
            rank: step::rank(name),
            is_step: step::rank_of_last_word(name).is_some(),
            is_group: sets::is_group(name),
        };
        true
    }

    /// Adds a pair whose name was written behind the others.
    #[inline]
    fn add(&mut self, from: usize, value: f64, kind: NameKind, counts: bool, place: Place) {
        self.pairs.push(Pair {
            name_from: from as u32,
            name_to: self.names.len() as u32,
            value,
            kind,
            counts,
            place,
        });
    }

    /// The pairs, in the order of the line.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, f64)> {
        self.pairs.iter().map(|pair| (self.name(pair), pair.value))
    }

    /// The values, in the order of the line.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        self.pairs.iter().map(|pair| pair.value)
    }

    #[inline]
    fn name(&self, pair: &Pair) -> &str {
        &self.names[pair.name_from as usize..pair.name_to as usize]
    }

    /// The value of the first pair with this name, in any case.
    pub fn value_of(&self, name: &str) -> Option<f64> {
        let is_as_long = |pair: &&Pair| (pair.name_to - pair.name_from) as usize == name.len();
        let mut pairs = self.pairs.iter().filter(is_as_long);
        let pair = pairs.find(|pair| self.name(pair).eq_ignore_ascii_case(name))?;
        Some(pair.value)
    }

    /// Whether two pairs have the same name.
    #[inline]
    pub fn has_repeats(&self) -> bool {
        let names = self.names.as_bytes();
        let name = |pair: &Pair| &names[pair.name_from as usize..pair.name_to as usize];
        let mut pairs = self.pairs.iter().enumerate();
        pairs.any(|(at, pair)| self.pairs[..at].iter().any(|one| name(one) == name(pair)))
    }

    /// Bytes of all names.
    pub fn names_length(&self) -> usize {
        self.names.len()
    }

    /// Whether the pairs have these names.
    #[inline]
    pub fn has_names(&self, names: &NameList) -> bool {
        let bounds = self.pairs.iter().map(|pair| (pair.name_from, pair.name_to));
        self.names == names.text && bounds.eq(names.bounds.iter().copied())
    }

    pub fn copy_names(&self, names: &mut NameList) {
        names.text.clone_from(&self.names);
        names.bounds.clear();
        let bounds = self.pairs.iter().map(|pair| (pair.name_from, pair.name_to));
        names.bounds.extend(bounds);
    }

    /// Gives the pairs these names, if there are any.
    pub fn set_names(&mut self, names: &NameList) {
        if names.bounds.is_empty() {
            return;
        }
        self.names.clone_from(&names.text);
        for (pair, bounds) in self.pairs.iter_mut().zip(&names.bounds) {
            (pair.name_from, pair.name_to) = *bounds;
        }
    }

    /// What the names tell of the pairs, as they were before they got labels.
    #[inline]
    pub fn kinds(&self) -> impl Iterator<Item = NameKind> {
        self.pairs.iter().map(|pair| pair.kind)
    }

    /// Puts the pairs from number `from` on into the order of the line.
    pub fn order(&mut self, from: usize) {
        self.pairs[from..].sort_by_key(|pair| pair.place.from);
    }

    /// The pairs whose values count steps, if their names are those of steps.
    pub fn counts(&self) -> impl Iterator<Item = (NameKind, f64)> {
        let pairs = self.pairs.iter().filter(|pair| pair.counts);
        pairs.map(|pair| (pair.kind, pair.value))
    }

    /// Where each pair stands, and whether it counts.
    pub fn marks(&self) -> impl Iterator<Item = PairMark> {
        let mark = |pair: &Pair| PairMark {
            place: pair.place,
            counts: pair.counts,
        };
        self.pairs.iter().map(mark)
    }

    /// The places of the pairs.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.pairs.iter().map(|pair| pair.place)
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether the line has no pairs.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Drops all but the first `count` pairs.
    pub fn truncate(&mut self, count: usize) {
        if let Some(pair) = self.pairs.get(count) {
            self.names.truncate(pair.name_from as usize);
            self.pairs.truncate(count);
        }
    }
}

#[inline]
fn has_control(name: &str) -> bool {
    if name.is_ascii() {
        name.bytes().any(|byte| byte.is_ascii_control())
    } else {
        name.chars().any(char::is_control)
    }
}
