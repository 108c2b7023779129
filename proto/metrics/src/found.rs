//! The numbers of one line of output with their names, their step, and how much of the
//! work is done. One
//! value is used for all lines, so that finding takes no memory.

use crate::progress::Done;
use crate::step::{self, EPOCH};

/// Limit of a metric's name, in bytes; pairs with longer names are ignored.
pub const NAME_BYTES_MAX: usize = 200;
/// Limit of pairs of one line; further pairs are ignored.
pub const PAIRS_MAX: usize = 4096;

/// The pairs of one line.
#[derive(Debug, Default)]
pub struct LinePairs {
    names: String,
    /// Memory for new names.
    spare: String,
    pairs: Vec<Pair>,
    /// The step that the line gives, if any.
    pub step: Option<f64>,
    /// Whether the step stands before all values of the line, so that it also holds
    /// for following lines that give none.
    pub is_heading: bool,
    /// The rank of the step's word; 0 where it has none.
    pub step_rank: u8,
    /// The step of an earlier line, where this one gives none.
    pub carried: Option<f64>,
    /// How much of its work the job has done, by this line.
    pub progress: Option<Done>,
    /// Numbers of the line that have a name, or a place of their own, and could not be read.
    pub left_out: u32,
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    name_from: u32,
    name_to: u32,
    value: f64,
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
        self.carried = None;
        self.progress = None;
        self.left_out = 0;
    }

    /// Sets the step of the line.
    pub fn give_step(&mut self, step: f64, is_heading: bool) {
        self.step = Some(step);
        self.is_heading = is_heading;
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
            self.add(name, value, false, Place::default());
        }
    }

    /// Adds a pair that stands at this place of the line.
    #[inline]
    pub fn push_at(&mut self, name: &[u8], value: f64, counts: bool, place: Place) {
        let Ok(name) = std::str::from_utf8(name) else {
            return;
        };
        let sound = !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && !has_control(name)
            && self.pairs.len() < PAIRS_MAX;
        if sound {
            self.add(name, value, counts, place);
        }
    }

    #[inline]
    fn add(&mut self, name: &str, value: f64, counts: bool, place: Place) {
        let from = self.names.len();
        self.names.push_str(name);
        self.pairs.push(Pair {
            name_from: from as u32,
            name_to: self.names.len() as u32,
            value,
            counts,
            place,
        });
    }

    /// The pairs, in the order of the line.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, f64)> {
        self.pairs.iter().map(|pair| {
            let name = &self.names[pair.name_from as usize..pair.name_to as usize];
            (name, pair.value)
        })
    }

    /// Whether two pairs have the same name.
    #[inline]
    pub fn has_repeats(&self) -> bool {
        let names = self.names.as_bytes();
        let name = |pair: &Pair| &names[pair.name_from as usize..pair.name_to as usize];
        let mut pairs = self.pairs.iter().enumerate();
        pairs.any(|(at, pair)| self.pairs[..at].iter().any(|one| name(one) == name(pair)))
    }

    /// Puts the pairs from number `from` on into the order of the line.
    pub fn order(&mut self, from: usize) {
        self.pairs[from..].sort_by_key(|pair| pair.place.from);
    }

    /// The pairs whose values count steps, if their names are those of steps.
    pub fn counts(&self) -> impl Iterator<Item = (&str, f64)> {
        let pairs = self.pairs().zip(&self.pairs);
        pairs.filter_map(|(named, pair)| pair.counts.then_some(named))
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
    match name.is_ascii() {
        true => name.bytes().any(|byte| byte.is_ascii_control()),
        false => name.chars().any(char::is_control),
    }
}
