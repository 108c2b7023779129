//! The resources of a node and the needs of a run, in whole numbers: a sum of
//! fractions that were taken and given back is exactly zero again.

use nero_model::units::print_less_bytes;

/// Millionths of a CPU.
const MICRO: f64 = 1_000_000.0;

/// Resources that a node gives to runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// CPUs, in millionths.
    pub micro_cpus: u64,
    /// Memory, when it is stated.
    pub memory_bytes: Option<u64>,
    /// Cards (GPUs), where they are counted.
    pub cards: Option<u32>,
}

/// Resources that a run asks for, or that runs hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// CPUs, in millionths.
    pub micro_cpus: u64,
    /// Memory; 0 when it is not stated.
    pub memory_bytes: u64,
    /// Cards (GPUs).
    pub cards: u32,
}

/// Reason why a run can never start on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NeverFits {
    /// More CPUs than there are.
    #[error("it asks for {} CPUs, the node has {}", cpus(*.asked), cpus(*.has))]
    Cpus {
        /// Millionths of a CPU that the run asks for.
        asked: u64,
        /// Millionths that the node gives.
        has: u64,
    },
    /// More memory than there is.
    #[error("the node has less memory than it asks for: {}", print_less_bytes(*.has, *.asked))]
    Memory {
        /// Bytes that the run asks for.
        asked: u64,
        /// Bytes that the node gives.
        has: u64,
    },
}

/// A resource of which there is too little now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// CPUs.
    Cpus,
    /// Memory.
    Memory,
    /// Cards (GPUs) that are counted.
    Cards,
}

impl Lack {
    /// Why a run waits that lacks it.
    pub fn wait_text(self) -> &'static str {
        match self {
            Self::Cpus => "waits for CPUs",
            Self::Memory => "waits for memory",
            Self::Cards => "waits for GPUs",
        }
    }

    /// How much of it these are.
    pub fn of(self, needs: Needs) -> u64 {
        match self {
            Self::Cpus => needs.micro_cpus,
            Self::Memory => needs.memory_bytes,
            Self::Cards => needs.cards.into(),
        }
    }
}

impl NeverFits {
    /// The remedy for the user.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Cpus { .. } => "lower resources.cpus, or choose a node with more CPUs",
            Self::Memory { .. } => "lower resources.memory, or choose a node with more memory",
        }
    }
}

impl Needs {
    /// From the figures of a spec; 0 CPUs mean one, less than a millionth none.
    pub fn of(cpus: f64, memory_bytes: u64) -> Self {
        let cpus = if cpus > 0.0 { cpus } else { 1.0 };
        Self {
            micro_cpus: micro(cpus),
            memory_bytes,
            cards: 0,
        }
    }

    /// Whether it takes nothing from others.
    pub fn is_nothing(self) -> bool {
        self.micro_cpus == 0 && self.memory_bytes == 0 && self.cards == 0
    }

    /// The same with cards.
    pub fn with_cards(self, cards: u32) -> Self {
        Self { cards, ..self }
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            micro_cpus: self.micro_cpus + other.micro_cpus,
            memory_bytes: self.memory_bytes + other.memory_bytes,
            cards: self.cards + other.cards,
        }
    }

    /// The rest after `other` is given back.
    pub fn minus(self, other: Self) -> Self {
        Self {
            micro_cpus: self.micro_cpus - other.micro_cpus,
            memory_bytes: self.memory_bytes - other.memory_bytes,
            cards: self.cards - other.cards,
        }
    }
}

impl Capacity {
    /// As much as can be asked for: not this host gives it.
    pub const UNBOUNDED: Self = Self {
        micro_cpus: u64::MAX / 2,
        memory_bytes: None,
        cards: None,
    };

    /// From the figures of the command line.
    pub fn new(cpus: f64, memory_bytes: Option<u64>) -> Self {
        Self {
            micro_cpus: micro(cpus),
            memory_bytes,
            cards: None,
        }
    }

    /// Whether an idle node could meet `needs`.
    ///
    /// # Errors
    /// When the node is too small even while nothing runs.
    pub fn could_ever(self, needs: Needs) -> Result<(), NeverFits> {
        if needs.micro_cpus > self.micro_cpus {
            return Err(NeverFits::Cpus {
                asked: needs.micro_cpus,
                has: self.micro_cpus,
            });
        }
        match self.memory_bytes {
            Some(has) if needs.memory_bytes > has => Err(NeverFits::Memory {
                asked: needs.memory_bytes,
                has,
            }),
            _ => Ok(()),
        }
    }

    /// The resource that `needs` lacks beside `used`; `None` when it fits.
    pub fn lacks(self, used: Needs, needs: Needs) -> Option<Lack> {
        let has = |lack: Lack| match lack {
            Lack::Cpus => Some(self.micro_cpus),
            Lack::Memory => self.memory_bytes,
            Lack::Cards => self.cards.map(u64::from),
        };
        let lacks = |lack: &Lack| {
            let (asks, taken) = (lack.of(needs), lack.of(used));
            asks > 0 && has(*lack).is_some_and(|has| taken + asks > has)
        };
        [Lack::Cpus, Lack::Memory, Lack::Cards]
            .into_iter()
            .find(lacks)
    }
}

/// CPUs for showing.
pub fn cpus(micro_cpus: u64) -> f64 {
    micro_cpus as f64 / MICRO
}

fn micro(cpus: f64) -> u64 {
    // A cast from a float saturates; limits are checked at the door.
    (cpus * MICRO).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_that_sum_to_one_cpu_fit_into_one() {
        let node = Capacity::new(1.0, None);
        for parts in [3u64, 10, 7] {
            let part = Needs::of(1.0 / parts as f64, 0);
            let mut used = Needs::default();
            for taken in 0..parts {
                // Rounding up by a millionth may cost the last part of seven.
                if node.lacks(used, part).is_some() {
                    assert!(parts == 7 && taken == 6);
                    continue;
                }
                used = used.plus(part);
            }
            assert!(used.micro_cpus <= node.micro_cpus);
        }
    }

    #[test]
    fn memory_counts_only_where_it_is_stated() {
        let needs = Needs::of(1.0, 1 << 40);
        assert_eq!(Capacity::new(1.0, None).could_ever(needs), Ok(()));
        let small = Capacity::new(1.0, Some(1 << 30));
        assert!(matches!(
            small.could_ever(needs),
            Err(NeverFits::Memory { .. })
        ));
        assert!(matches!(
            small.could_ever(Needs::of(1.5, 0)),
            Err(NeverFits::Cpus { .. })
        ));
    }
}
