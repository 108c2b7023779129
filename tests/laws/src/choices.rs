//! Bytes as choices, and random changes of bytes.

use std::time::SystemTime;

/// Takes choices from bytes; behind their end each is 0.
#[derive(Debug)]
pub struct Choices<'a>(pub &'a [u8]);

impl<'a> Choices<'a> {
    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or_default()
    }

    /// A number below this one.
    pub fn below(&mut self, limit: usize) -> usize {
        let number = if limit <= 0x100 {
            u32::from(self.byte())
        } else {
            u32::from_le_bytes(std::array::from_fn(|_| self.byte()))
        };
        number as usize % limit.max(1)
    }

    /// The next piece of what comes in pieces: at most so many bytes, or all that is left.
    pub fn piece<'b>(&mut self, limit: usize, rest: &mut &'b [u8]) -> &'b [u8] {
        let length = match self.below(limit + 1) {
            0 => rest.len(),
            length => length.min(rest.len()),
        };
        rest.split_off(..length).unwrap_or_default()
    }

    /// The next bytes, at most so many.
    pub fn bytes(&mut self, limit: usize) -> &'a [u8] {
        let length = self.below(limit + 1).min(self.0.len());
        self.0.split_off(..length).unwrap_or_default()
    }
}

/// Numbers at random.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Other numbers each day, so that what fails today fails again.
    pub fn of_day() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let day = since.map_or(0, |since| since.as_secs() / 86_400);
        Self((day + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A number below this one.
    pub fn below(&mut self, limit: usize) -> usize {
        // Xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }
}

/// Changes bytes a little: flips, cuts, and parts of this or another input once more.
pub fn mutate(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = bytes.len().min(at + 1 + random.below(16));
        let from = random.below(other.len() + 1);
        let part = &other[from..other.len().min(from + random.below(64))];
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.extend_from_within(at..end),
            3 => drop(bytes.splice(at..at, part.iter().copied())),
            4 => bytes.insert(at, b"\0\n\xff\"0-,<"[random.below(8)]),
            _ => bytes[at..end]
                .iter_mut()
                .for_each(|byte| *byte ^= 1 << random.below(8)),
        }
    }
}
