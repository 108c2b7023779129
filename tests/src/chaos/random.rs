//! Numbers from a seed, the same on every machine and in every version.

/// SplitMix64: small, well mixed, and sufficient for a schedule of faults.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The numbers that belong to a text, a run's name say.
    pub fn of_text(seed: u64, text: &str) -> Self {
        let mut random = Self(seed);
        for byte in text.bytes() {
            random.0 ^= u64::from(byte);
            random.bits();
        }
        random
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `low` up to and with `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.bits() % (high - low + 1)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.between(1, 100) <= chance
    }

    /// One of them, by weight.
    pub fn weighted<T: Copy>(&mut self, all: &[(u64, T)]) -> T {
        let total: u64 = all.iter().map(|(weight, _)| weight).sum();
        let mut left = self.between(1, total);
        for (weight, one) in all {
            if left <= *weight {
                return *one;
            }
            left -= weight;
        }
        unreachable!("the weights add up to the total")
    }

    /// One of them, or none of none.
    pub fn pick<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let number = self.bits();
        (!all.is_empty()).then(|| all[(number % all.len() as u64) as usize].clone())
    }
}
