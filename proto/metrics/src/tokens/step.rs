//! The step that the numbers of a line belong to.
//!
//! The first of these in the line: `step`, `global_step`, `iteration`, `iter`,
//! `epoch` (in any case; `global step` too), and the words beside them in [`rank`], as a pair
//! like any other or as a phrase (`epoch 8:`, `Epoch 8/50`, `iter [5/100]`); then a bare `[8/50]`;
//! then `[8]` or `8:` at the head of the line, before a tab. `Time = 0.01` alone on
//! its line is one, too.
//!
//! A line that begins with its step (`Epoch 2/3`, `iter 10: loss 9.8`) gives it to
//! the lines after it that have none. Without any step the series counts.

use nero_model::sets;

use crate::tokens::number::{self, Number};

/// The rank of a name that gives the step, 0 for the best.
#[inline]
pub fn rank(name: &[u8]) -> Option<u8> {
    let is = |word: &[u8]| name.eq_ignore_ascii_case(word);
    let first = name.first()?.to_ascii_lowercase();
    match (name.len(), first) {
        (4, b's') if is(b"step") => Some(0),
        (5, b'n') if is(b"nstep") => Some(0),
        (11, b'g') if is(b"global_step") || is(b"global step") || is(b"global-step") => Some(1),
        (9, b'i') if is(b"iteration") => Some(2),
        (4, b'i') if is(b"iter") => Some(3),
        (7, b'i') if is(b"iterate") => Some(3),
        (10, b'i') if is(b"inner_iter") => Some(3),
        (11, b'n') if is(b"num_updates") => Some(3),
        (3, b'u') if is(b"up.") => Some(3),
        (6, b'u') if is(b"update") => Some(3),
        (5, b'e') if is(b"epoch") => Some(EPOCH),
        (3, b'e') if is(b"ep.") => Some(EPOCH),
        (7, b'e') if is(b"episode") => Some(EPOCH),
        (3, b'g') if is(b"gen") => Some(EPOCH),
        (10, b'g') if is(b"generation") => Some(EPOCH),
        _ => None,
    }
}

/// The rank of what an epoch is one of: the largest steps.
pub const EPOCH: u8 = 4;

/// The rank of the last word of a name: `Train Epoch`.
#[inline]
pub fn rank_of_last_word(name: &[u8]) -> Option<u8> {
    // Names are short: a search by blocks of bytes costs more.
    match name.iter().rposition(|byte| *byte == b' ') {
        Some(blank) => rank(&name[blank + 1..]).or_else(|| rank(name)),
        None => rank(name),
    }
}

/// Whether a value of this rank counts steps: a whole number, which may be written with `.0`;
/// of epochs also a part. A time counts none.
#[inline]
pub fn counts(rank: u8, number: &Number, text: &[u8]) -> bool {
    !number.is_time && (number.whole || rank == EPOCH || text.ends_with(b".0"))
}

/// `[8/50]` at the start of a text.
pub fn bracket_at_start(text: &[u8]) -> bool {
    text.first() == Some(&b'[')
        && text
            .iter()
            .position(|byte| *byte == b']')
            .is_some_and(|close| bracket(&text[..=close]).is_some())
}

/// The first pair of the best rank whose value can be a step.
pub fn best(ranked: impl Iterator<Item = (u8, f64)>) -> Option<(u8, f64)> {
    let ranked = ranked.filter(|(_, value)| value.is_finite());
    ranked.min_by_key(|(rank, _)| *rank)
}

/// A step in words: `epoch 8`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phrase {
    /// Bytes of the phrase's word.
    pub name: usize,
    /// The step.
    pub step: f64,
    /// The number of steps, of `epoch 8/50`.
    pub total: Option<f64>,
    /// Bytes of the whole phrase: `epoch [8/50]`.
    pub length: usize,
}

/// The phrase at the start of `text`.
#[inline]
pub fn phrase(text: &[u8]) -> Option<Phrase> {
    let mut name = word_length(text);
    // `Ep. 1 : Up. 200`.
    name += usize::from(name == 2 && text.get(2) == Some(&b'.'));
    rank(&text[..name])?;
    let mut at = name + set_behind(&text[name..]);
    at += blanks(&text[at..]);
    if matches!(text.get(at), Some(b':' | b'=' | b'#')) {
        at += 1;
        at += blanks(&text[at..]);
    }
    let close = match text.get(at)? {
        b'[' => Some(b']'),
        b'(' => Some(b')'),
        _ => None,
    };
    if close.is_some() {
        at += 1;
        at += blanks(&text[at..]);
    }
    let number = number::prefix(&text[at..]).filter(|number| number.whole)?;
    at += number.length;
    let total = of_total(&text[at..]);
    at += total.map_or(0, |(_, length)| length);
    if let Some(close) = close {
        at += blanks(&text[at..]);
        (text.get(at) == Some(&close)).then_some(())?;
        at += 1;
    }
    // A blank is between the word and its number, or `epoch8` would be one.
    let apart = text[name] != b'-' && !text[name].is_ascii_digit();
    (apart && ends_phrase(&text[at..])).then_some(Phrase {
        name,
        step: number.value,
        total: total.map(|(total, _)| total),
        length: at,
    })
}

/// Bytes of a set behind the word of a phrase: `Epoch(val) [1]`.
fn set_behind(text: &[u8]) -> usize {
    let Some(inside) = text.strip_prefix(b"(") else {
        return 0;
    };
    let length = word_length(inside);
    let is_set = inside.get(length) == Some(&b')') && sets::is_set(&inside[..length]);
    if is_set { length + 2 } else { 0 }
}

/// `[8/50]`: the step, and the length up to its end, anywhere in the line.
pub fn bracket(line: &[u8]) -> Option<(f64, usize)> {
    counted(line).map(|counted| (counted.step, counted.to))
}

/// Steps of a total, `8/50`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountedSteps {
    pub step: f64,
    pub total: f64,
    /// Its place in the line.
    pub from: usize,
    pub to: usize,
}

/// `[8/50]`, anywhere in the line.
pub fn counted(line: &[u8]) -> Option<CountedSteps> {
    memchr::memchr_iter(b'[', line).find_map(|open| {
        let mut at = open + 1;
        at += blanks(&line[at..]);
        let counted = counted_at(line, at)?;
        at = counted.to + blanks(&line[counted.to..]);
        let (from, to) = (open, at + 1);
        (line.get(at) == Some(&b']')).then_some(CountedSteps {
            from,
            to,
            ..counted
        })
    })
}

/// `8/50` at a place of the line.
pub fn counted_at(line: &[u8], from: usize) -> Option<CountedSteps> {
    let step = number::prefix(&line[from..]).filter(|number| number.whole)?;
    let (total, length) = of_total(&line[from + step.length..])?;
    Some(CountedSteps {
        step: step.value,
        total,
        from,
        to: from + step.length + length,
    })
}

/// `/50`: the number, and its bytes.
fn of_total(text: &[u8]) -> Option<(f64, usize)> {
    let before = blanks(text);
    if text.get(before) != Some(&b'/') {
        return None;
    }
    let after = before + 1 + blanks(&text[before + 1..]);
    let (total, length) = number::digits(&text[after..])?;
    Some((total, after + length))
}

/// Whether a phrase may end before `rest`.
fn ends_phrase(rest: &[u8]) -> bool {
    match rest {
        [] => true,
        [b':' | b'.' | b',' | b'-', next, ..] => !next.is_ascii_digit(),
        [byte, ..] => {
            byte.is_ascii_whitespace()
                || matches!(
                    byte,
                    b':' | b'.' | b',' | b'-' | b';' | b'|' | b')' | b'[' | b']' | b'}'
                )
        }
    }
}

#[inline]
fn blanks(text: &[u8]) -> usize {
    text.iter()
        .take_while(|b| matches!(b, b' ' | b'\t'))
        .count()
}

#[inline]
pub fn word_length(text: &[u8]) -> usize {
    let is_within = |byte: &&u8| KINDS[usize::from(**byte)] & WITHIN > 0;
    text.iter().take_while(is_within).count()
}

/// Start of the next word that could be a step's, from `at` on.
#[inline]
pub fn next_word(line: &[u8], at: usize) -> Option<usize> {
    let kind = |byte: u8| KINDS[usize::from(byte)];
    let mut before = kind(line[..at].last().copied().unwrap_or(b' '));
    for (offset, byte) in line[at..].iter().enumerate() {
        let kind = kind(*byte);
        // One branch, which few bytes take.
        if kind & BEGINS & !(before / PART_OF_NAME) > 0 {
            return Some(at + offset);
        }
        before = kind;
    }
    None
}

/// A byte with which the word of a step begins.
const BEGINS: u8 = 1;
/// A byte that may stand within a name.
const PART_OF_NAME: u8 = 2;
/// A byte within a word.
const WITHIN: u8 = 4;
/// What each byte is, none of these beyond ASCII: lines are looked at byte by byte for steps.
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        if matches!(byte | 0x20, b's' | b'g' | b'i' | b'e' | b'n' | b'u') {
            kinds[byte as usize] |= BEGINS;
        }
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/' | b'.') {
            kinds[byte as usize] |= PART_OF_NAME;
        }
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            kinds[byte as usize] |= WITHIN;
        }
        byte += 1;
    }
    kinds
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_read() {
        for (text, step, length) in [
            ("epoch 8:", 8.0, 7),
            ("Epoch 8/50", 8.0, 10),
            ("Epoch: 8/50 -", 8.0, 11),
            ("EPOCH [8/50] loss", 8.0, 12),
            ("Epoch[8] x", 8.0, 8),
            ("epoch #3,", 3.0, 8),
            ("iter (5 / 100)", 5.0, 14),
            ("step 100", 100.0, 8),
            ("iteration 5 took", 5.0, 11),
            ("global_step=7", 7.0, 13),
            ("Ep. 3 : Up. 7", 3.0, 5),
            ("Up. 7 :", 7.0, 5),
            ("Epoch(val) [1][625]", 1.0, 14),
            ("Generation 12: best", 12.0, 13),
        ] {
            let found = phrase(text.as_bytes()).expect(text);
            assert_eq!((found.step, found.length), (step, length), "{text}");
        }
    }

    #[test]
    fn a_phrase_for_a_step_needs_a_known_word_and_a_whole_number() {
        for text in [
            "epoch",
            "epoch 8.5",
            "epoch 10:30:00",
            "epoch8",
            "epoch-8",
            "steps 5",
            "step 30ms",
            "epoch [8/50",
            "epochs: 50",
            "step x",
            "epoch 2024-01-01",
        ] {
            assert_eq!(phrase(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_step_in_brackets_needs_a_total() {
        assert_eq!(bracket(b"x [8/50] y"), Some((8.0, 8)));
        assert_eq!(bracket(b"[ 8 / 50 ]"), Some((8.0, 10)));
        for text in ["[8]", "[00:12<00:15]", "[a/b]", "[1/2/3]", "8/50", "[8/50"] {
            assert_eq!(bracket(text.as_bytes()), None, "{text}");
        }
    }
}
