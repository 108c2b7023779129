//! Values that are computed: `linspace`, `logspace`, `sample`. Each element is computed
//! from its index alone, so that a longer series keeps the elements of a shorter one of the same step.

use super::range::shortest;

/// Digits of a computed power and of a sample: enough to tell values apart, and the same
/// whatever the machine's library of mathematics does in the last bits.
const POWER_DIGITS: usize = 12;
const SAMPLE_DIGITS: usize = 6;

/// A series of numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Series {
    /// Equal distances; both ends are elements.
    Linear { ends: [f64; 2], count: u32 },
    /// Powers of ten whose exponents have equal distances.
    Powers { exponents: [f64; 2], count: u32 },
    /// Random numbers between the ends.
    Sample {
        ends: [f64; 2],
        count: u32,
        is_log: bool,
        /// Tells the samples of two parameters, and of two seeds, apart.
        key: [u8; 32],
    },
}

impl Series {
    /// Random numbers of a parameter.
    pub(crate) fn sample(name: &str, seed: u64, ends: [f64; 2], count: u32, is_log: bool) -> Self {
        let key = blake3::hash(format!("{seed} {name}").as_bytes());
        Self::Sample {
            ends,
            count,
            is_log,
            key: *key.as_bytes(),
        }
    }

    /// The number of elements.
    pub(crate) fn count(&self) -> u32 {
        match self {
            Self::Linear { count, .. }
            | Self::Powers { count, .. }
            | Self::Sample { count, .. } => *count,
        }
    }

    /// The text of an element.
    pub(crate) fn text(&self, index: u32) -> String {
        match self {
            Self::Linear { ends, count } => shortest(between(*ends, *count, index)),
            Self::Powers { exponents, count } => {
                let exponent = between(*exponents, *count, index);
                shortest(rounded(10f64.powf(exponent), POWER_DIGITS))
            }
            Self::Sample {
                ends: [low, high],
                is_log,
                key,
                ..
            } => {
                let share = uniform(key, index);
                let value = if *is_log {
                    (low.ln() + (high.ln() - low.ln()) * share).exp()
                } else {
                    low + (high - low) * share
                };
                shortest(rounded(value, SAMPLE_DIGITS).clamp(*low, *high))
            }
        }
    }
}

/// The element of a linear series. Whole multiples are added before they are divided, so
/// that 0.3 is not 0.30000000000000004.
fn between([first, last]: [f64; 2], count: u32, index: u32) -> f64 {
    let steps = f64::from(count.saturating_sub(1).max(1));
    let (left, right) = (steps - f64::from(index), f64::from(index));
    (first * left + last * right) / steps
}

/// A number from 0 up to 1 that follows from key and index.
fn uniform(key: &[u8; 32], index: u32) -> f64 {
    let hash = blake3::keyed_hash(key, &index.to_le_bytes());
    let bytes: [u8; 8] = hash.as_bytes()[..8].try_into().expect("eight bytes");
    // A float has 53 digits of base two.
    (u64::from_le_bytes(bytes) >> 11) as f64 / (1u64 << 53) as f64
}

fn rounded(value: f64, digits: usize) -> f64 {
    let text = format!("{value:.0$e}", digits - 1);
    text.parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(series: &Series) -> Vec<String> {
        (0..series.count())
            .map(|index| series.text(index))
            .collect()
    }

    #[test]
    fn linear_series_hold_both_ends_and_no_noise() {
        let linear = |ends, count| all(&Series::Linear { ends, count }).join(" ");
        assert_eq!(
            linear([0.0, 1.0], 11),
            "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1"
        );
        assert_eq!(linear([2.0, -1.0], 4), "2 1 0 -1");
        assert_eq!(linear([5.0, 9.0], 1), "5");
        assert_eq!(linear([1e-7, 3e-7], 3), "1e-7 2e-7 3e-7");
    }

    #[test]
    fn powers_are_exact_where_they_can_be() {
        let powers = |exponents, count| all(&Series::Powers { exponents, count }).join(" ");
        assert_eq!(powers([-4.0, -1.0], 4), "0.0001 0.001 0.01 0.1");
        assert_eq!(powers([0.0, 1.0], 3), "1 3.16227766017 10");
    }

    #[test]
    fn samples_depend_on_seed_and_name_and_stay_when_more_are_asked_for() {
        let sample =
            |name, seed, count| all(&Series::sample(name, seed, [1e-4, 1e-1], count, true));
        let ten = sample("lr", 1, 10);
        assert_eq!(ten, sample("lr", 1, 20)[..10]);
        assert_ne!(ten, sample("lr", 2, 10));
        assert_ne!(ten, sample("wd", 1, 10));
        let values: Vec<f64> = sample("lr", 1, 300)
            .iter()
            .map(|t| t.parse().unwrap())
            .collect();
        assert!(
            values.iter().all(|x| (1e-4..=1e-1).contains(x)),
            "{values:?}"
        );
        // A logarithmic scale has a third of them in each power of ten.
        let low = values.iter().filter(|x| **x < 1e-3).count();
        assert!((60..140).contains(&low), "{low}");
    }
}
