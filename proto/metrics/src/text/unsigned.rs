//! Names and numbers without a sign between them.
//!
//! They are read where a whole line, behind a heading such as `epoch 8:`, a time stamp, a level
//! or a set, is names and numbers by turns (`loss 0.3 acc 0.9`, `train loss 0.5 acc 0.9`), or
//! pieces of a name and a number, cut at commas, bars, tabs, ` - `, ` : ` and two blanks:
//! `train loss 0.3, time 12 ms`. A piece that cannot be read is left out alone: between bars
//! and tabs any, between commas a rate (`12 it/s`).

use nero_model::sets;

use crate::found::{LinePairs, Place};
use crate::labels::label;
use crate::text::pairs::{is_left_out, offset};
use crate::tokens::names::{WORDS_MAX, is_name_byte, is_word};
use crate::tokens::{heading, number, step};

/// Longest line that is read.
const LINE_BYTES_MAX: usize = 4096;
/// Words of a number with its unit: `1.2M tok/s`.
const RATE_WORDS_MAX: usize = 2;

/// Reads a line in which no sign stands before a number.
pub fn find(line: &[u8], found: &mut LinePairs) {
    // `total 48` stands above a listing of files.
    let listed = line.strip_prefix(b"total ");
    if listed.is_some_and(|blocks| number::all(blocks).is_some()) {
        return;
    }
    let begin = heading::length(line);
    if line.len() > LINE_BYTES_MAX || turns(line, &line[begin..], found) {
        return;
    }
    let mut at = begin;
    loop {
        let rest = &line[at..];
        let phrase = match found.phrase {
            Some(_) => None,
            None => step::phrase(rest),
        };
        found.phrase = found.phrase.or(phrase.map(|phrase| (at, phrase)));
        at += if let Some(phrase) = phrase {
            let place = Place {
                from: at as u32,
                to: (at + phrase.length) as u32,
            };
            found.push_at(&rest[..phrase.name], phrase.step, true, place);
            phrase.length
        } else if step::bracket_at_start(rest) {
            // `[0/5]`, and `Epoch: [0][  10/5005]`, the progress within the epoch.
            step::bracket(rest).map_or(0, |(_, length)| length)
        } else {
            if rest.first().is_some_and(u8::is_ascii_digit) {
                heading::number_in_front(rest).map_or(0, |(_, length)| length)
            } else {
                label::lead(rest)
            }
        };
        let is_behind = line.len() - at < rest.len();
        let between = |b: &&u8| matches!(b, b' ' | b'\t' | b':' | b',' | b'-' | b'|');
        at += line[at..].iter().take_while(between).count();
        if !is_behind {
            break;
        }
    }
    // The text behind the heading was read by turns before.
    if at == begin || !turns(line, &line[at..], found) {
        pieces(line, &line[at..], found);
    }
}

/// Reads what stands between the bars of a line, some of whose parts were read by their signs:
/// `| time: 45.1s | valid loss 5.80 |`.
pub fn between_bars(line: &[u8], found: &mut LinePairs) {
    let bar = memchr::memchr(b'|', line);
    if bar.is_none() || line.len() > LINE_BYTES_MAX {
        return;
    }
    let known: Vec<Place> = found.places().collect();
    let mark = found.len();
    for part in line.split(|byte| *byte == b'|') {
        let from = offset(line, part) as u32;
        let to = from + part.len() as u32;
        let has_pair = known.iter().any(|known| known.from < to && from < known.to);
        let text = part.trim_ascii();
        let has_sign = memchr::memchr2(b':', b'=', text).is_some();
        let begins = text.first().is_some_and(u8::is_ascii_alphabetic);
        if has_pair || has_sign || !begins {
            continue;
        }
        if let Some(piece) = piece(text)
            && piece.length == text.len()
            && step::rank_of_last_word(&text[..piece.name]).is_none()
            && let Some(value) = piece.value
        {
            piece.push(line, text, value, found);
        }
    }
    if found.len() > mark {
        found.order(0);
    }
}

/// Reads pieces. When one of them is no piece of a list of values, none is read.
fn pieces(line: &[u8], text: &[u8], found: &mut LinePairs) {
    // `0,25` would be cut in two.
    let in_number = |comma: usize| text.get(comma + 1).is_some_and(u8::is_ascii_digit);
    if memchr::memchr_iter(b',', text).any(in_number) {
        return;
    }
    let (mark, left_out) = (found.len(), found.left_out);
    let mut rest = text;
    let mut is_cut = true;
    let mut has_others = false;
    loop {
        let between = separators(rest);
        rest = &rest[between..];
        if rest.is_empty() {
            break;
        }
        let length = match piece(rest) {
            Some(piece) => {
                match piece.value {
                    Some(value) => piece.push(line, rest, value, found),
                    None => found.left_out += 1,
                }
                piece.length
            }
            None => {
                let length = (0..rest.len()).find(|at| ends_piece(&rest[*at..]));
                let length = length.unwrap_or(rest.len());
                let text = &rest[..length];
                let is_between_bars = is_cut && is_bar(&rest[length..]);
                let words = text.split(|byte| *byte == b' ').count();
                let is_rate = text[0].is_ascii_digit() && words <= RATE_WORDS_MAX;
                // A number alone, but between bars, is one of a row.
                let is_of_row = number::all(text).is_some() || rest[length..].starts_with(b"  ");
                if !is_between_bars && (!is_rate || is_of_row) {
                    found.truncate(mark);
                    found.left_out = left_out;
                    return;
                }
                has_others = true;
                found.left_out += u32::from(text.iter().any(u8::is_ascii_digit));
                length
            }
        };
        is_cut = is_bar(&rest[length..]);
        rest = &rest[length..];
    }
    // One piece among others that are none is no list of values.
    if found.len() == mark || has_others && found.len() < 2 && text.len() == line.len() {
        found.truncate(mark);
        found.left_out = left_out;
    }
}

/// Bytes between two pieces.
fn separators(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += match &text[at..] {
            [b' ' | b',' | b'|' | b'\t' | b';', ..] => 1,
            [b'-' | b':', b' ', ..] => 2,
            _ => return at,
        };
    }
}

/// Whether a piece may end before `rest`.
fn ends_piece(rest: &[u8]) -> bool {
    cuts(rest) || matches!(rest, [b' ', b'-' | b':', b' ', ..] | [b',' | b';', ..])
}

/// Whether a bar, a tab, or the end of the line comes next.
fn is_bar(rest: &[u8]) -> bool {
    matches!(rest.trim_ascii_start(), [] | [b'|', ..])
        || matches!(rest, [b'\t', ..] | [b' ', b'\t', ..])
}

/// Whether a bar, a tab, two blanks or the end of the line comes next.
fn cuts(rest: &[u8]) -> bool {
    matches!(
        rest,
        [] | [b' ', b' ' | b'|' | b'\t', ..] | [b'|' | b'\t', ..]
    )
}

/// A name of a few words and its number.
struct Piece {
    name: usize,
    /// `None` where a text that is no unit stands behind the number.
    value: Option<f64>,
    counts: bool,
    length: usize,
}

impl Piece {
    /// Adds the pair; `text` begins with the piece.
    fn push(&self, line: &[u8], text: &[u8], value: f64, found: &mut LinePairs) {
        let from = offset(line, text);
        let place = Place {
            from: from as u32,
            to: (from + self.length) as u32,
        };
        found.push_at(&text[..self.name], value, self.counts, place);
    }
}

/// The piece at the start of `text`; `None` when there is no number where one belongs.
fn piece(text: &[u8]) -> Option<Piece> {
    let mut name = 0;
    let mut at = 0;
    let mut words = 0;
    loop {
        let word = text[at..].iter().take_while(|b| is_name_byte(**b)).count();
        let begin = text.get(at)?;
        if words > 0 && matches!(begin, b'0'..=b'9' | b'-' | b'+' | b'.') {
            break;
        }
        words += 1;
        // Two blanks end a piece, but for those before its number.
        let is_apart = words > 1 && at > name + 1;
        if is_apart || !is_word(&text[at..at + word]) || words > WORDS_MAX {
            return None;
        }
        name = at + word + bracket(&text[at + word..]);
        let blanks = text[name..].iter().take_while(|b| **b == b' ').count();
        if blanks == 0 {
            return None;
        }
        at = name + blanks;
    }
    let number = number::prefix(&text[at..])?;
    let number = number::with_unit(&text[at..], number).unwrap_or(number);
    let number_end = at + number.length;
    let mut end = number_end;
    // `6.91 (6.95)`: the mean so far.
    let open = end + usize::from(text.get(end) == Some(&b' '));
    if text.get(open) == Some(&b'(') {
        let close = text[open..].iter().position(|b| *b == b')')?;
        end = open + close + 1;
    }
    let is_whole = ends_piece(&text[end..]) && !is_left_out(&text[..name], &number);
    while !ends_piece(&text[end..]) {
        end += 1;
    }
    let rank = step::rank(&text[..name]);
    Some(Piece {
        name,
        value: is_whole.then_some(number.value),
        counts: rank.is_some_and(|rank| step::counts(rank, &number, &text[at..number_end])),
        length: end,
    })
}

/// Bytes of a text in brackets at the end of a name: `(val)`, ` (s)`.
fn bracket(text: &[u8]) -> usize {
    let blank = usize::from(text.first() == Some(&b' '));
    let [b'(', inside @ ..] = &text[blank..] else {
        return 0;
    };
    let length = inside.iter().take_while(|b| is_name_byte(**b)).count();
    let is_text = inside.first().is_some_and(u8::is_ascii_alphabetic);
    if is_text && inside.get(length) == Some(&b')') {
        blank + length + 2
    } else {
        0
    }
}

/// Names and numbers by turns, to the end of the line. Names are one word, or a set and a word.
fn turns(line: &[u8], text: &[u8], found: &mut LinePairs) -> bool {
    if text.first().is_none_or(u8::is_ascii_digit) {
        return false;
    }
    let mark = found.len();
    // Between commas names may have more words: these are pieces.
    let may_have_sets = memchr::memchr(b',', text).is_none();
    let mut words = text
        .split(|byte| matches!(byte, b' ' | b'\t' | b',' | b';' | b'|'))
        .filter(|word| !word.is_empty());
    while let Some(first) = words.next() {
        let mut name = first;
        let is_plain = |name: &[u8]| is_word(name) && name.iter().all(|byte| is_name_byte(*byte));
        let mut next = words.next().filter(|_| is_plain(first));
        let has_set = may_have_sets
            && (sets::is_set(first) || label::is_sum(first))
            && next.is_some_and(is_plain)
            && !matches!(next.map(number::all), Some(Some(_)));
        if has_set {
            name = next.unwrap_or_default();
            next = words.next();
        }
        let read = next.and_then(|number| Some((number, number::whole(number)?)));
        let Some((number, read)) = read else {
            found.truncate(mark);
            return false;
        };
        let mut value = read.value;
        if words.clone().next() == Some(b"%") {
            words.next();
            value = number::signed_percent(number, value);
        }
        let from = offset(line, first);
        let to = offset(line, number) + number.len();
        let place = Place {
            from: from as u32,
            to: to as u32,
        };
        let counts = step::rank(name).is_some_and(|rank| step::counts(rank, &read, number));
        let whole = &line[from..offset(line, name) + name.len()];
        if whole.len() > first.len() + name.len() + 1 {
            found.push_at(&[first, b" ", name].concat(), value, counts, place);
        } else {
            found.push_at(whole, value, counts, place);
        }
    }
    found.len() > mark
}
