//! Pairs of a name and a number in a line of text.
//!
//! Two shapes are read:
//!
//! * **with a sign**, anywhere in a line and several times: `name = value`,
//!   `name=value`, `name: value`, also quoted (`'loss': 0.3`). A name has up to
//!   [`WORDS_MAX`] words, joined by single blanks, each beginning with a letter,
//!   `_` or a character beyond ASCII. It begins behind the value before, a
//!   comma, bracket, bar, tab, two blanks, a word in capitals such as `INFO`,
//!   or any word that cannot be part of it (`12:30:45`, `-`, `3`).
//! * **without**, when the whole line (behind a heading such as `epoch 8:`, a time
//!   stamp, a level) is names of one word and numbers by turns (`loss 0.3 acc 0.9`),
//!   or names of a few words and numbers, cut at commas, bars, tabs, ` - ` and two
//!   blanks: `train loss 0.3, time 12 ms`.
//!
//! Not taken: a number that more bare numbers follow, which is a row; times and
//! dates, addresses and URLs, paths with line numbers, options (`--lr=0.1`),
//! comparisons and `+=`, versions, lists (`load average: 0.5, 0.4, 0.3`), declarations
//! (`int i = 3;`), `total 48` at the head of a line; `name:8080` and `cuda:0`, that is, a whole
//! number that touches its colon behind an unquoted name other than a step's.
//! `Namespace(lr=0.1)` does give pairs.

use crate::found::LinePairs;
use crate::heading;
use crate::number::{self, Number};
use crate::step;

/// Limit of words in a name; more words are a sentence.
pub const WORDS_MAX: usize = 5;
/// Longest line that is read as names and numbers by turns.
const TURNS_BYTES_MAX: usize = 4096;
/// Words before a message that are no part of a metric's name.
pub const LEVELS: [&[u8]; 9] = [
    b"INFO",
    b"WARN",
    b"WARNING",
    b"ERROR",
    b"DEBUG",
    b"TRACE",
    b"NOTICE",
    b"CRITICAL",
    b"FATAL",
];

/// Finds the pairs of a trimmed line and its step.
pub fn find(line: &[u8], found: &mut LinePairs) {
    signed(line, found);
    if found.is_empty() && may_hold_a_number(line) {
        unsigned(line, found);
    }
    if !found.is_empty() {
        step::by_line(line, found);
    }
}

/// Whether there is a digit, or the last word may be `nan` or `inf`.
fn may_hold_a_number(line: &[u8]) -> bool {
    line.iter().any(u8::is_ascii_digit)
        || matches!(line.last(), Some(b'n' | b'N' | b'f' | b'F' | b'y'))
}

/// `name = value` and `name: value`.
fn signed(line: &[u8], found: &mut LinePairs) {
    let mut done = 0;
    let mut field = None;
    for sign in memchr::memchr2_iter(b'=', b':', line) {
        if sign < done {
            continue;
        }
        let Some(value) = value_behind(line, sign) else {
            field = solved_field(&line[sign + 1..]).or(field);
            continue;
        };
        let Some(name) = name_before(line, done, sign) else {
            continue;
        };
        let tight_whole = line[sign] == b':' && value.from == sign + 1 && value.number.whole;
        if tight_whole && !name.quoted && step::rank(name.text).is_none() {
            continue;
        }
        done = value.from + value.number.length;
        let behind = &line[done..];
        let is_other = is_row(behind) || is_list(behind) || is_declared(name.text, behind);
        if is_other || is_left_out(name.text, &value.number) {
            continue;
        }
        match field {
            Some(field) => found.push_joined(field, name.text, value.number.value),
            None => found.push(name.text, value.number.value),
        }
    }
}

/// OpenFOAM prints `smoothSolver:  Solving for Ux, Initial residual = 1, …`, a
/// line for each field. Returns `Ux` from the text behind the colon. Without it
/// the residuals of all fields would be one series.
fn solved_field(behind: &[u8]) -> Option<&[u8]> {
    let text = behind.trim_ascii_start().strip_prefix(b"Solving for ")?;
    let length = text.iter().take_while(|byte| is_name_byte(**byte)).count();
    (text.get(length) == Some(&b',')).then(|| &text[..length])
}

/// Whether only bare numbers follow a value. Then the line is a row of a table
/// (`DAV:   1   0.11E+03   -0.4`), and none of its numbers is a value of the name.
fn is_row(behind: &[u8]) -> bool {
    let text = behind.trim_ascii();
    let mut words = text.split(u8::is_ascii_whitespace);
    behind.first().is_some_and(u8::is_ascii_whitespace)
        && matches!(text, [b'0'..=b'9' | b'-' | b'+' | b'.', ..])
        && words.all(|word| word.is_empty() || number::all(word).is_some())
}

/// Whether bare numbers follow a value behind commas, as in `load average: 0.5, 0.4, 0.3`:
/// its first number alone would mean nothing.
fn is_list(behind: &[u8]) -> bool {
    let Some(more) = behind.strip_prefix(b", ") else {
        return false;
    };
    let mut words = more.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    words.all(|word| number::all(word).is_some())
}

/// Whether a line of a program declares the name: `int i = 3;`.
fn is_declared(name: &[u8], behind: &[u8]) -> bool {
    const TYPES: [&[u8]; 13] = [
        b"int",
        b"char",
        b"unsigned",
        b"short",
        b"long",
        b"float",
        b"double",
        b"const",
        b"static",
        b"auto",
        b"let",
        b"var",
        b"usize",
    ];
    let first = name.split(|byte| *byte == b' ').next();
    behind.first() == Some(&b';') && first.is_some_and(|word| TYPES.contains(&word))
}

struct NumberAt {
    from: usize,
    number: Number,
}

fn value_behind(line: &[u8], sign: usize) -> Option<NumberAt> {
    let operator = match (line[sign], line[..sign].last()) {
        (b'=', Some(before)) => b"=<>!+-*/%&|^~:".contains(before),
        (b':', Some(before)) => *before == b':',
        _ => false,
    };
    if operator {
        return None;
    }
    let rest = &line[sign + 1..];
    let blanks = rest
        .iter()
        .take_while(|b| matches!(b, b' ' | b'\t'))
        .count();
    let number = number::value(&rest[blanks..])?;
    Some(NumberAt {
        from: sign + 1 + blanks,
        number,
    })
}

struct Name<'a> {
    text: &'a [u8],
    quoted: bool,
}

/// The name that ends before `sign`, not reaching before `from`.
fn name_before(line: &[u8], from: usize, sign: usize) -> Option<Name<'_>> {
    let before = line[from..sign].trim_ascii_end();
    let end = from + before.len();
    match before.last()? {
        quote @ (b'"' | b'\'') => {
            let inside = &before[..before.len() - 1];
            let open = inside.iter().rposition(|byte| byte == quote)?;
            Some(Name {
                text: inside[open + 1..].trim_ascii(),
                quoted: true,
            })
        }
        _ => words_before(line, from, end).map(|text| Name {
            text,
            quoted: false,
        }),
    }
}

/// The words that end at `end`.
fn words_before(line: &[u8], from: usize, end: usize) -> Option<&[u8]> {
    let mut first = end;
    let mut words = 0;
    let mut word_end = end;
    loop {
        let mut start = word_start(line, from, word_end);
        // `valid_0's l2`, as LightGBM prints it: the set is a part of the name.
        if start >= from + 2 && line[start - 1] == b'\'' && is_name_byte(line[start - 2]) {
            start = word_start(line, from, start - 1);
        }
        let word = &line[start..word_end];
        if !is_word(word) || LEVELS.contains(&word) {
            break;
        }
        let glue = line[from..start].last().copied();
        if glue.is_some_and(|byte| !may_precede(byte)) {
            // In `?a=1`, `$x=1`, `"a=1` the apparent name is part of a longer
            // word.
            return (words > 0).then(|| &line[first..end]);
        }
        first = start;
        words += 1;
        if words > WORDS_MAX {
            return None;
        }
        let joined = glue == Some(b' ') && start >= from + 2 && line[start - 2] != b' ';
        if !joined {
            break;
        }
        word_end = start - 1;
    }
    (words > 0).then(|| &line[first..end])
}

/// Start of the name bytes that end at `end`.
fn word_start(line: &[u8], from: usize, end: usize) -> usize {
    let bytes = line[from..end].iter().rev();
    end - bytes.take_while(|byte| is_name_byte(**byte)).count()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'_' | b'-' | b'/' | b'.' | b'@' | b'%')
        || byte >= 0x80
}

/// Whether a name may hold this word.
fn is_word(word: &[u8]) -> bool {
    let Some(first) = word.first() else {
        return false;
    };
    let begins = first.is_ascii_alphabetic() || *first == b'_' || *first >= 0x80;
    begins && (word.is_ascii() || std::str::from_utf8(word).is_ok())
}

/// Whether this byte may stand right before a name.
fn may_precede(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t'
            | b'('
            | b'['
            | b'{'
            | b','
            | b';'
            | b'|'
            | b'<'
            | b'>'
            | b':'
            | b')'
            | b']'
            | b'*'
    )
}

/// Reads a line without signs behind its heading: names and numbers by turns, or
/// pieces of a few words and a number.
fn unsigned(line: &[u8], found: &mut LinePairs) {
    // `total 48` stands above a listing of files.
    let listed = line.strip_prefix(b"total ");
    if listed.is_some_and(|blocks| number::all(blocks).is_some()) {
        return;
    }
    let line = &line[heading::length(line)..];
    if line.len() > TURNS_BYTES_MAX || turns(line, found) {
        return;
    }
    let mut behind = 0;
    if let Some(phrase) = step::phrase(line) {
        found.push(&line[..phrase.name], phrase.step);
        behind = phrase.length;
    } else if step::bracket_at_start(line) {
        behind = step::bracket(line).map_or(0, |(_, length)| length);
    }
    // `Epoch: [0][  10/5005]`: skip the second bracket, the progress within the
    // epoch.
    if behind > 0 && step::bracket_at_start(&line[behind..]) {
        behind += step::bracket(&line[behind..]).map_or(0, |(_, length)| length);
    }
    let rest = &line[behind..];
    let skip = rest
        .iter()
        .take_while(|b| matches!(b, b' ' | b'\t' | b':' | b',' | b'-' | b'|'))
        .count();
    let rest = &rest[skip..];
    if !turns(rest, found) {
        pieces(rest, found);
    }
}

/// Reads a text that is cut at commas, bars, tabs, ` - ` and two blanks, when every
/// piece is a name of a few words and a number: `loss 9.8, time 142.54ms, mfu
/// 38.11%`, `Loss 6.91 (6.95)`. A piece with an unknown word behind its number
/// is left out; the others are kept.
fn pieces(line: &[u8], found: &mut LinePairs) {
    // `0,25` would be cut in two.
    let in_number = |comma: usize| line.get(comma + 1).is_some_and(u8::is_ascii_digit);
    if memchr::memchr_iter(b',', line).any(in_number) {
        return;
    }
    let mark = found.len();
    let mut rest = line;
    loop {
        rest = &rest[separators(rest)..];
        if rest.is_empty() {
            return;
        }
        let Some(piece) = piece(rest) else {
            found.truncate(mark);
            return;
        };
        if let Some(value) = piece.value {
            found.push(&rest[..piece.name], value);
        }
        rest = &rest[piece.length..];
    }
}

/// Bytes between two pieces.
fn separators(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += match &text[at..] {
            [b' ' | b',' | b'|' | b'\t' | b';', ..] => 1,
            [b'-', b' ', ..] => 2,
            _ => return at,
        };
    }
}

/// Whether a piece may end before `rest`.
fn ends_piece(rest: &[u8]) -> bool {
    matches!(
        rest,
        [] | [b' ', b' ', ..]
            | [b' ', b'-' | b'|' | b'\t', b' ', ..]
            | [b' ', b'|', ..]
            | [b',' | b'|' | b'\t' | b';', ..]
    )
}

/// A name of a few words and its number.
struct Piece {
    name: usize,
    /// `None` where a text that is no unit stands behind the number.
    value: Option<f64>,
    length: usize,
}

/// The piece at the start of `text`; `None` when there is no number where one
/// belongs: the line is no list of values.
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
        name = at + word;
        let blanks = text[name..].iter().take_while(|b| **b == b' ').count();
        if blanks == 0 {
            return None;
        }
        at = name + blanks;
    }
    let number = number::prefix(&text[at..])?;
    let number = number::with_unit(&text[at..], number).unwrap_or(number);
    let mut end = at + number.length;
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
    Some(Piece {
        name,
        value: is_whole.then_some(number.value),
        length: end,
    })
}

/// `CUDA Version: 12.4`, `VERSION_ID=12`.
fn is_version(name: &[u8]) -> bool {
    let last = name.rsplit(|byte| *byte == b' ').next().unwrap_or(name);
    last.eq_ignore_ascii_case(b"version") || last.eq_ignore_ascii_case(b"version_id")
}

/// What is no metric by its name: a version, and what a progress bar says of time, how long
/// it took or will take.
fn is_left_out(name: &[u8], number: &Number) -> bool {
    let is = |word: &[u8]| name.eq_ignore_ascii_case(word);
    let is_duration = is(b"eta") || is(b"remaining") || is(b"elapsed");
    (number.is_time && is_duration) || is_version(name)
}

/// Names and numbers by turns, to the end of the line.
fn turns(line: &[u8], found: &mut LinePairs) -> bool {
    if line.first().is_none_or(u8::is_ascii_digit) {
        return false;
    }
    let mark = found.len();
    let mut words = line
        .split(|byte| matches!(byte, b' ' | b'\t' | b',' | b';' | b'|'))
        .filter(|word| !word.is_empty());
    while let Some(name) = words.next() {
        let plain = is_word(name) && name.iter().all(|byte| is_name_byte(*byte));
        let number = words.next().filter(|_| plain);
        let value = if words.clone().next() == Some(b"%") {
            words.next();
            number.and_then(number::all_percent)
        } else {
            number.and_then(number::all)
        };
        let Some(value) = value else {
            found.truncate(mark);
            return false;
        };
        found.push(name, value);
    }
    found.len() > mark
}
