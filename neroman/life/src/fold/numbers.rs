//! A set of experiments by their numbers.

use std::sync::Arc;

/// Numbers in a word.
const WORD: u64 = 64;

/// Numbers of experiments. Clones share one set until one of them changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberSet {
    /// By rising place: the numbers from 64 times the place on, a bit for each.
    words: Arc<Vec<(u64, u64)>>,
}

impl NumberSet {
    /// Puts a number in, or takes it out.
    pub(crate) fn set(&mut self, number: u64, is_in: bool) {
        if self.contains(number) == is_in {
            return;
        }
        let (place, bit) = (number / WORD, 1 << (number % WORD));
        let words = Arc::make_mut(&mut self.words);
        let at = match words.binary_search_by_key(&place, |(place, _)| *place) {
            Ok(at) => at,
            Err(at) => {
                words.insert(at, (place, 0));
                at
            }
        };
        words[at].1 ^= bit;
        if words[at].1 == 0 {
            words.remove(at);
        }
    }

    /// Whether the number is in.
    pub fn contains(&self, number: u64) -> bool {
        let place = number / WORD;
        let at = self.words.binary_search_by_key(&place, |(place, _)| *place);
        at.is_ok_and(|at| self.words[at].1 & (1 << (number % WORD)) != 0)
    }

    /// Whether no number is in.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The numbers by rising size.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.words.iter().flat_map(|(place, word)| {
            let bits = (0..WORD).filter(move |bit| word & (1 << bit) != 0);
            bits.map(move |bit| place * WORD + bit)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_set_holds_what_a_btree_set_does(
            changes in prop::collection::vec((0_u64..300, any::<bool>()), 0..200),
            far in any::<u64>(),
        ) {
            let (mut set, mut model) = (NumberSet::default(), BTreeSet::new());
            for (number, is_in) in changes.into_iter().chain([(far, true)]) {
                let before = set.clone();
                let numbers: Vec<u64> = before.iter().collect();
                set.set(number, is_in);
                if is_in {
                    model.insert(number);
                } else {
                    model.remove(&number);
                }
                prop_assert!(set.iter().eq(model.iter().copied()));
                prop_assert_eq!(set.contains(number), is_in);
                prop_assert_eq!(set.is_empty(), model.is_empty());
                prop_assert!(before.iter().eq(numbers));
            }
        }
    }
}
