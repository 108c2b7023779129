//! The words that tell the set of data, or the part of a run, to which a number belongs. The
//! readers of output put them in front of a metric's name; an expression that names a metric
//! without its set finds it by them.

use crate::names::same_loosely;

/// Sets of data.
pub const SETS: [&str; 20] = [
    "train",
    "training",
    "val",
    "valid",
    "validation",
    "validate",
    "validating",
    "test",
    "testing",
    "eval",
    "evaluation",
    "evaluate",
    "evaluating",
    "dev",
    "development",
    "holdout",
    "heldout",
    "held-out",
    "sanity",
    "inference",
];

/// Parts of a run that are numbered: `Fold 1`.
pub const GROUPS: [&str; 12] = [
    "fold", "region", "chain", "rank", "phase", "replica", "walker", "worker", "client", "agent",
    "island", "split",
];

/// Whether a word is a set of data, in any case.
#[inline]
pub fn is_set(word: &[u8]) -> bool {
    is_one_of(word, &SETS, &SET_LENGTHS)
}

/// Whether a word is that of a set to train with.
pub fn is_training(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"train") || word.eq_ignore_ascii_case(b"training")
}

/// Whether a word is that of a numbered part.
#[inline]
pub fn is_group(word: &[u8]) -> bool {
    is_one_of(word, &GROUPS, &GROUP_LENGTHS)
}

/// For each letter, the lengths of the words of a list that begin with it, as bits. Most words
/// are told from all of a list by these two.
pub const fn lengths<const N: usize>(words: &[&str; N]) -> [u32; 32] {
    let mut lengths = [0; 32];
    let mut at = 0;
    while at < N {
        let word = words[at].as_bytes();
        lengths[(word[0] & 31) as usize] |= 1 << word.len();
        at += 1;
    }
    lengths
}

/// Whether a word is one of a list with these lengths, in any case.
#[inline]
pub fn is_one_of(word: &[u8], words: &[&str], lengths: &[u32; 32]) -> bool {
    let Some(first) = word.first() else {
        return false;
    };
    let of_letter = lengths[usize::from(first & 31)];
    word.len() < 32
        && of_letter >> word.len() & 1 == 1
        && words
            .iter()
            .any(|one| word.eq_ignore_ascii_case(one.as_bytes()))
}

const SET_LENGTHS: [u32; 32] = lengths(&SETS);
const GROUP_LENGTHS: [u32; 32] = lengths(&GROUPS);

/// A metric's name, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetName<'a> {
    /// The numbered part and the set in front: `Fold 1 train`.
    pub set: &'a str,
    /// The name behind them.
    pub base: &'a str,
}

impl SetName<'_> {
    /// The word of the set, or of the numbered part where there is no set: `train` of `Fold 1
    /// train`, `Fold` of `Fold 1`.
    pub fn keyword(&self) -> &str {
        let words = || self.set.split([' ', '/']);
        let set = words().next_back().filter(|word| is_set(word.as_bytes()));
        set.or_else(|| words().next()).unwrap_or_default()
    }

    /// Whether it is of a set of data, and not of a numbered part alone.
    pub fn has_set(&self) -> bool {
        is_set(self.keyword().as_bytes())
    }

    /// Whether the set is one to train with.
    pub fn is_training(&self) -> bool {
        let last = self.set.rsplit([' ', '/']).next().unwrap_or_default();
        is_training(last.as_bytes())
    }
}

/// Takes `train loss` and `fold 1/val/loss` apart; `None` for a name without a set.
pub fn apart(name: &str) -> Option<SetName<'_>> {
    let mut at = 0;
    let word = |at: usize| {
        let rest = &name[at..];
        let end = rest.find([' ', '/'])?;
        Some((&rest[..end], at + end + 1))
    };
    if let Some((group, behind)) = word(at)
        && is_group(group.as_bytes())
        && let Some((number, behind)) = word(behind)
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        at = behind;
    }
    if let Some((set, behind)) = word(at)
        && is_set(set.as_bytes())
    {
        at = behind;
    }
    (at > 0).then(|| SetName {
        set: &name[..at - 1],
        base: &name[at..],
    })
}

/// Whether a metric is that of a written name but for its set: `train loss` of `loss`.
pub fn is_of_set(written: &str, metric: &str) -> bool {
    apart(metric).is_some_and(|parts| same_loosely(written, parts.base))
}

/// The metric that a written name means: of exactly this name, else loosely, else of a set, that
/// to train with first.
pub fn meant<'a>(written: &str, metrics: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let of_set = || metrics.clone().filter(|metric| is_of_set(written, metric));
    let exact = metrics.clone().find(|metric| *metric == written);
    exact
        .or_else(|| metrics.clone().find(|metric| same_loosely(written, metric)))
        .or_else(|| {
            let is_training = |metric: &&str| apart(metric).is_some_and(|one| one.is_training());
            of_set().find(is_training).or_else(|| of_set().next())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_apart_behind_its_set() {
        for (name, want) in [
            ("train loss", Some(("train", "loss"))),
            ("Val/top1 acc", Some(("Val", "top1 acc"))),
            ("Fold 1 loss", Some(("Fold 1", "loss"))),
            ("fold 1/train/loss", Some(("fold 1/train", "loss"))),
            ("train_loss", None),
            ("loss", None),
            ("train", None),
            ("fold loss", None),
            ("training's auc", None),
        ] {
            let found = apart(name).map(|one| (one.set, one.base));
            assert_eq!(found, want, "{name}");
        }
        assert_eq!(apart("Fold 1 train loss").unwrap().keyword(), "train");
        assert_eq!(apart("Fold 1 loss").unwrap().keyword(), "Fold");
        assert!(apart("Fold 1 Training loss").unwrap().is_training());
        assert!(!apart("Fold 1 loss").unwrap().is_training());
    }

    #[test]
    fn a_bare_name_means_the_metric_of_a_set() {
        for (written, metrics, want) in [
            (
                "loss",
                &["val loss", "Train Loss", "loss"][..],
                Some("loss"),
            ),
            ("loss", &["val loss", "Train Loss"], Some("Train Loss")),
            ("acc", &["val loss", "val Acc"], Some("val Acc")),
            ("loss", &["train_loss", "average loss"], None),
        ] {
            assert_eq!(meant(written, metrics.iter().copied()), want, "{metrics:?}");
        }
    }
}
