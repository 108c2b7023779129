//! The numbers of one line of output with their names, their step, and how much of the
//! work is done. One
//! value is used for all lines, so that finding takes no memory.

use crate::progress::Done;

/// Limit of a metric's name, in bytes; pairs with longer names are ignored.
pub const NAME_BYTES_MAX: usize = 200;
/// Limit of pairs of one line; further pairs are ignored.
pub const PAIRS_MAX: usize = 4096;

/// The pairs of one line.
#[derive(Debug, Default)]
pub struct LinePairs {
    names: String,
    pairs: Vec<Pair>,
    /// The step that the line gives, if any.
    pub step: Option<f64>,
    /// Whether the step stands before all values of the line, so that it also holds
    /// for following lines that give none.
    pub is_heading: bool,
    /// The step of an earlier line, where this one gives none.
    pub carried: Option<f64>,
    /// How much of its work the job has done, by this line.
    pub progress: Option<Done>,
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    name_from: u32,
    name_to: u32,
    value: f64,
}

impl LinePairs {
    /// Forgets the line before.
    pub fn clear(&mut self) {
        self.names.clear();
        self.pairs.clear();
        self.step = None;
        self.is_heading = false;
        self.carried = None;
        self.progress = None;
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
        let names = std::mem::take(&mut self.names);
        for pair in &mut self.pairs {
            let name = &names[pair.name_from as usize..pair.name_to as usize];
            pair.name_from = self.names.len() as u32;
            self.names.push_str(name);
            self.names.push_str(&format!("[{rank}]"));
            pair.name_to = self.names.len() as u32;
        }
    }

    /// Adds a pair, unless its name cannot be one: empty, too long, not
    /// UTF-8, or with control characters.
    pub fn push(&mut self, name: &[u8], value: f64) {
        let Ok(name) = std::str::from_utf8(name) else {
            return;
        };
        let sound = !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && !has_control(name)
            && self.pairs.len() < PAIRS_MAX;
        if sound {
            let from = self.names.len();
            self.names.push_str(name);
            self.pairs.push(Pair {
                name_from: from as u32,
                name_to: self.names.len() as u32,
                value,
            });
        }
    }

    /// Adds a pair whose name is both texts with a blank between them.
    pub fn push_joined(&mut self, first: &[u8], second: &[u8], value: f64) {
        let name = [first, b" ", second].concat();
        self.push(&name, value);
    }

    /// The pairs, in the order of the line.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, f64)> {
        self.pairs.iter().map(|pair| {
            let name = &self.names[pair.name_from as usize..pair.name_to as usize];
            (name, pair.value)
        })
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

fn has_control(name: &str) -> bool {
    match name.is_ascii() {
        true => name.bytes().any(|byte| byte.is_ascii_control()),
        false => name.chars().any(char::is_control),
    }
}
