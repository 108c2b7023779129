//! The words by which lines are understood, beside the sets and numbered parts of
//! [`nero_model::sets`] and the steps of [`super::step::rank`]. `docs/metrics.md` tells people
//! about them.

use nero_model::sets::{GROUPS, SETS, is_group, is_one_of, is_set, lengths};

/// Keys whose value is the set that the rest of an object or row belongs to.
pub const KEYS: [&str; 6] = ["mode", "phase", "split", "set", "subset", "stage"];

/// Blocks that sum up what was printed before.
const SUMS: [&str; 11] = [
    "averages",
    "averaged",
    "average",
    "avg",
    "fluctuations",
    "summary",
    "final",
    "overall",
    "totals",
    "statistics",
    "best",
];

/// Words that may stand beside a set in a heading.
const COMPANIONS: [&str; 29] = [
    "set",
    "phase",
    "net",
    "network",
    "output",
    "outputs",
    "subset",
    "result",
    "results",
    "metrics",
    "stats",
    "loop",
    "mode",
    "performance",
    "stage",
    "steps",
    "split",
    "dataset",
    "report",
    "model",
    "rms",
    "the",
    "is",
    "values",
    "early",
    "stopping",
    "batch",
    "data",
    "iteration",
];

/// Steps, which a heading may begin with.
const STEPS: [&str; 7] = [
    "step",
    "iteration",
    "iter",
    "epoch",
    "generation",
    "episode",
    "update",
];

/// Words behind which a heading names its set.
const LINKS: [&str; 6] = ["on", "of", "at", "for", "over", "after"];

/// Words that may stand beside a set at the head of a line with numbers.
const QUANTITIES: [&str; 6] = ["loss", "error", "epoch", "step", "score", "scores"];

/// Words with which a remark begins that something starts: no heading of what it names.
const BEGINNINGS: [&str; 8] = [
    "start",
    "starting",
    "started",
    "begin",
    "beginning",
    "running",
    "run",
    "now",
];

/// Beginnings of the words in the title of a progress bar that is no progress of the run.
const OTHER_BARS: [&str; 20] = [
    "valid",
    "val",
    "test",
    "eval",
    "dev",
    "sanity",
    "download",
    "upload",
    "fetch",
    "load",
    "tokeniz",
    "sav",
    "unpack",
    "install",
    "preprocess",
    "cach",
    "collect",
    "map",
    "filter",
    "split",
];

/// Words of sentences, which no table has as names.
const SENTENCE_WORDS: [&str; 40] = [
    "the", "an", "is", "are", "was", "were", "be", "been", "to", "for", "from", "in", "on", "at",
    "by", "with", "and", "or", "not", "no", "this", "that", "it", "its", "all", "now", "will",
    "has", "have", "had", "done", "please", "new", "of", "as", "into", "after", "before", "we",
    "you",
];

pub fn is_key(word: &[u8]) -> bool {
    const LENGTHS: [u32; 32] = lengths(&KEYS);
    is_one_of(word, &KEYS, &LENGTHS)
}

#[inline]
pub fn is_sum(word: &[u8]) -> bool {
    const LENGTHS: [u32; 32] = lengths(&SUMS);
    is_one_of(word, &SUMS, &LENGTHS)
}

pub fn is_companion(word: &[u8]) -> bool {
    const LENGTHS: [u32; 32] = lengths(&COMPANIONS);
    is_one_of(word, &COMPANIONS, &LENGTHS)
}

pub fn is_link(word: &[u8]) -> bool {
    const LENGTHS: [u32; 32] = lengths(&LINKS);
    is_one_of(word, &LINKS, &LENGTHS)
}

pub fn is_quantity(word: &[u8]) -> bool {
    const LENGTHS: [u32; 32] = lengths(&QUANTITIES);
    is_one_of(word, &QUANTITIES, &LENGTHS)
}

pub fn is_beginning(word: &[u8]) -> bool {
    const LENGTHS: [u32; 32] = lengths(&BEGINNINGS);
    is_one_of(word, &BEGINNINGS, &LENGTHS)
}

/// Whether a word is one of sentences: `the`, `saving`, `finished`.
pub fn is_of_sentence(word: &[u8]) -> bool {
    let ends = |end: &[u8]| word.len() > 4 && word.to_ascii_lowercase().ends_with(end);
    let is_verb = (ends(b"ing") || ends(b"ed")) && !is_set(word);
    const LENGTHS: [u32; 32] = lengths(&SENTENCE_WORDS);
    is_verb || is_one_of(word, &SENTENCE_WORDS, &LENGTHS)
}

/// Whether a word may be one of a heading.
pub fn is_known(word: &[u8]) -> bool {
    may_be_known(word)
        && (is_set(word)
            || is_group(word)
            || is_sum(word)
            || is_companion(word)
            || is_link(word)
            || is_beginning(word)
            || crate::tokens::step::rank(word).is_some())
}

/// The same by the letter and the length of the word.
fn may_be_known(word: &[u8]) -> bool {
    const LISTS: [[u32; 32]; 7] = [
        lengths(&SETS),
        lengths(&GROUPS),
        lengths(&SUMS),
        lengths(&COMPANIONS),
        lengths(&LINKS),
        lengths(&BEGINNINGS),
        lengths(&STEPS),
    ];
    const KNOWN: [u32; 32] = {
        let mut known = [0; 32];
        let mut at = 0;
        while at < LISTS.len() * 32 {
            known[at % 32] |= LISTS[at / 32][at % 32];
            at += 1;
        }
        known
    };
    let first = word.first().map_or(0, |first| first & 31);
    KNOWN[usize::from(first)] >> word.len().min(31) & 1 == 1
}

/// Whether a letter begins a set, a numbered part, or a sum.
#[inline]
pub fn may_begin_label(first: u8) -> bool {
    const LETTERS: [bool; 32] = {
        let lists = [lengths(&SETS), lengths(&GROUPS), lengths(&SUMS)];
        let mut letters = [false; 32];
        let mut at = 0;
        while at < lists.len() * 32 {
            letters[at % 32] |= lists[at / 32][at % 32] != 0;
            at += 1;
        }
        letters
    };
    first.is_ascii_alphabetic() && LETTERS[usize::from(first & 31)]
}

/// Whether a word begins the title of a bar that is no progress of the run.
pub fn is_other_bar(word: &[u8]) -> bool {
    OTHER_BARS.iter().any(|stem| {
        let begin = word.get(..stem.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(stem.as_bytes()))
    })
}
