//! Pairs of a name and a number in a line of text.
//!
//! Two shapes are read:
//!
//! * **with a sign**, anywhere in a line and several times: `name = value`,
//!   `name=value`, `name: value`, also quoted (`'loss': 0.3`). A name begins behind the value
//!   before, a comma, bracket, bar, tab, two blanks, a word in capitals such as `INFO`, or any
//!   word that cannot be part of it (`12:30:45`, `-`, `3`).
//! * **without** ([`unsigned`]), where the line, or what stands between two of its bars, is names
//!   and numbers.
//!
//! Not taken: a number that more bare numbers follow, which is a row; times and
//! dates, addresses and URLs, paths with line numbers, options (`--lr=0.1`),
//! comparisons and `+=`, versions, lists (`load average: 0.5, 0.4, 0.3`), declarations
//! (`int i = 3;`), `total 48` at the head of a line; `name:8080` and `cuda:0`, that is, a whole
//! number that touches its colon behind an unquoted name other than a step's.
//! `Namespace(lr=0.1)` does give pairs.

use nero_model::names::may_be_given;

use crate::found::{LinePairs, Place};
use crate::text::unsigned;
use crate::tokens::names::{is_name_byte, name_before};
use crate::tokens::number::{self, Number};
use crate::tokens::{heading, step};

/// Finds the pairs of a trimmed line and its step.
pub fn find(line: &[u8], found: &mut LinePairs) {
    signed(line, found);
    if !found.is_empty() {
        unsigned::between_bars(line, found);
    } else if may_hold_a_number(line) {
        unsigned::find(line, found);
    }
    if !found.is_empty() {
        find_step(line, found);
    }
}

/// Whether there is a digit, or the last word may be `nan` or `inf`.
fn may_hold_a_number(line: &[u8]) -> bool {
    // Without an exit from the loop many bytes are compared at once.
    let is_digit = |byte: &u8| u8::from(byte.wrapping_sub(b'0') < 10);
    line.iter().fold(0, |any, byte| any | is_digit(byte)) > 0
        || matches!(line.last(), Some(b'n' | b'N' | b'f' | b'F' | b'y'))
}

/// `name = value` and `name: value`.
fn signed(line: &[u8], found: &mut LinePairs) {
    let mut done = 0;
    let mut field = None;
    let mut from = 0;
    while let Some(sign) = next_sign(line, from) {
        from = sign + 1;
        let Some(value) = value_behind(line, sign) else {
            field = solved_field(&line[sign + 1..]).or(field);
            found.left_out += u32::from(is_unreadable(line, done, sign));
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
        from = done;
        let behind = &line[done..];
        let is_other = is_row(behind) || is_list(behind) || is_declared(name.text, behind);
        if is_other || is_left_out(name.text, &value.number) {
            continue;
        }
        let number = &value.number;
        let text = &line[value.from..done];
        let counts = step::rank(name.text).is_some_and(|rank| step::counts(rank, number, text));
        let place = Place {
            from: offset(line, name.text) as u32,
            to: done as u32,
        };
        match field {
            Some(field) => {
                let name = [field, b" ", name.text].concat();
                found.push_at(&name, number.value, counts, place);
            }
            None => found.push_at(name.text, number.value, counts, place),
        }
    }
}

/// Sets the step by the pairs and by phrases within the line. A phrase becomes
/// a pair, too, unless one ends with it (`Train Epoch: 1`).
fn find_step(line: &[u8], found: &mut LinePairs) {
    let mut at = 0;
    let mut begins_with_phrase = false;
    let mut best_phrase: Option<(u8, f64)> = None;
    while let Some(start) = step::next_word(line, at) {
        let phrase = found.phrase_at(start);
        let Some(phrase) = phrase.or_else(|| step::phrase(&line[start..])) else {
            at = start + step::word_length(&line[start..]);
            continue;
        };
        found.phrase.get_or_insert((start, phrase));
        begins_with_phrase |= start == 0;
        let name = &line[start..start + phrase.name];
        let known =
            |(other, value): (&str, f64)| value == phrase.step && other.as_bytes().ends_with(name);
        if !found.pairs().any(known) {
            found.push(name, phrase.step);
        }
        if let Some(rank) = step::rank(name)
            && best_phrase.is_none_or(|(best, _)| rank < best)
        {
            best_phrase = Some((rank, phrase.step));
        }
        at = start + phrase.length;
    }
    let ranked = found.counts();
    let ranked = ranked.filter_map(|(kind, value)| Some((kind.rank?, value)));
    let candidates = [step::best(ranked), best_phrase];
    let best = candidates
        .into_iter()
        .flatten()
        .min_by_key(|(rank, _)| *rank);
    let time = || time_alone(line).map(|time| (step::EPOCH, time));
    let counted = step::counted(line);
    found.is_counted = counted.is_some();
    let step = best
        .or_else(|| counted.map(|counted| (0, counted.step)))
        .or_else(|| head(line).map(|step| (0, step)))
        .or_else(time);
    if let Some((rank, step)) = step {
        found.give_step(step, begins_with_phrase || begins(line));
        found.step_rank = rank;
    }
}

/// Whether a line begins with its step, behind a heading and perhaps one word:
/// `Train Epoch: 1`.
fn begins(line: &[u8]) -> bool {
    let text = &line[heading::length(line)..];
    let second = step::word_length(text) + 1;
    step::phrase(text).is_some()
        || (text.get(second - 1) == Some(&b' ') && step::phrase(&text[second..]).is_some())
        || step::bracket_at_start(text)
        || head(text).is_some()
        || time_alone(text).is_some()
}

/// `Time = 0.005`, with which OpenFOAM begins a step of time.
fn time_alone(line: &[u8]) -> Option<f64> {
    number::all(line.strip_prefix(b"Time = ")?).filter(|time| time.is_finite())
}

/// The step at the head of a line: `[10]` of XGBoost and LightGBM and `10:` of CatBoost,
/// before a tab; `500 | loss 6.0`.
fn head(line: &[u8]) -> Option<f64> {
    let (number, closes) = match line {
        [b'[', rest @ ..] => (rest, &[&b"]\t"[..]][..]),
        rest => (rest, &[&b":\t"[..], b" | "][..]),
    };
    let step = number::prefix(number).filter(|step| step.whole)?;
    let behind = &number[step.length..];
    let is_head = closes.iter().any(|close| behind.starts_with(close));
    is_head.then_some(step.value)
}

/// Bytes in which the next sign is looked for one by one: most names are short.
const NEAR_BYTES: usize = 12;

/// The next sign of a pair, from `from` on.
#[inline]
fn next_sign(line: &[u8], from: usize) -> Option<usize> {
    let rest = &line[from..];
    // Most lines have none.
    let near = if from == 0 { 0 } else { NEAR_BYTES };
    let (near, far) = rest.split_at(rest.len().min(near));
    let found = near.iter().position(|byte| matches!(byte, b'=' | b':'));
    let found = found.or_else(|| Some(near.len() + memchr::memchr2(b'=', b':', far)?));
    Some(from + found?)
}

/// Where a part of the line begins in it.
#[inline]
pub fn offset(line: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - line.as_ptr().addr()
}

/// Whether a name has something behind its sign that begins like a number and is no value, nor
/// a time.
#[inline]
fn is_unreadable(line: &[u8], from: usize, sign: usize) -> bool {
    let behind = line[sign + 1..].trim_ascii_start();
    if !behind.first().is_some_and(u8::is_ascii_digit) {
        return false;
    }
    let length = behind.iter().take_while(|b| !b" \t,;|".contains(b)).count();
    let text = &behind[..length];
    memchr::memchr(b':', text).is_none()
        && line.get(sign + 1) != Some(&b'/')
        && name_before(line, from, sign).is_some()
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
    if !behind.first().is_some_and(u8::is_ascii_whitespace) {
        return false;
    }
    let text = behind.trim_ascii();
    let mut words = text.split(u8::is_ascii_whitespace);
    matches!(text, [b'0'..=b'9' | b'-' | b'+' | b'.', ..])
        && words.all(|word| word.is_empty() || number::all(word).is_some())
}

/// Whether bare numbers follow a value behind commas, as in `load average: 0.5, 0.4, 0.3`:
/// its first number alone would mean nothing.
fn is_list(behind: &[u8]) -> bool {
    let Some(more) = behind.strip_prefix(b", ") else {
        return false;
    };
    // Behind most values the next name begins.
    if !more.trim_ascii_start().first().is_some_and(number::begins) {
        return false;
    }
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
    if behind.first() != Some(&b';') {
        return false;
    }
    let first = name.split(|byte| *byte == b' ').next();
    first.is_some_and(|word| TYPES.contains(&word))
}

struct NumberAt {
    from: usize,
    number: Number,
}

fn value_behind(line: &[u8], sign: usize) -> Option<NumberAt> {
    let operator = match (line[sign], line[..sign].last()) {
        (b'=', Some(before)) => matches!(
            before,
            b'=' | b'<'
                | b'>'
                | b'!'
                | b'+'
                | b'-'
                | b'*'
                | b'/'
                | b'%'
                | b'&'
                | b'|'
                | b'^'
                | b'~'
                | b':'
        ),
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
    // `Downloading: 37%|███`.
    if rest.get(blanks + number.length) == Some(&b'|')
        && rest[blanks..][..number.length].ends_with(b"%")
    {
        return None;
    }
    Some(NumberAt {
        from: sign + 1 + blanks,
        number,
    })
}

/// `CUDA Version: 12.4`, `VERSION_ID=12`.
#[inline]
fn is_version(name: &[u8]) -> bool {
    // Most names end otherwise.
    if !matches!(name.last(), Some(b'n' | b'N' | b'd' | b'D')) {
        return false;
    }
    let last = name.rsplit(|byte| *byte == b' ').next().unwrap_or(name);
    last.eq_ignore_ascii_case(b"version") || last.eq_ignore_ascii_case(b"version_id")
}

/// `NERO_CPUS=2`, `SLURM_JOB_ID=7`: what a job was given, as `env` prints it.
fn is_variable(name: &[u8]) -> bool {
    if !name.iter().take(2).all(u8::is_ascii_uppercase) {
        return false;
    }
    let name = str::from_utf8(name).unwrap_or_default();
    let is_ours = name.starts_with("NERO_") || name.contains("UNBUFFERED");
    let is_given = matches!(name, "OMP_NUM_THREADS" | "MASTER_PORT" | "SHLVL");
    is_ours || is_given || may_be_given(name)
}

/// What is no metric by its name: a version, a variable that the job was given, and what a progress
/// bar says of time, how long it took or will take.
#[inline]
pub fn is_left_out(name: &[u8], number: &Number) -> bool {
    let is = |word: &[u8]| name.eq_ignore_ascii_case(word);
    let is_duration = || is(b"eta") || is(b"remaining") || is(b"elapsed");
    (number.is_time && is_duration()) || is_version(name) || is_variable(name)
}
