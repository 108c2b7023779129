//! Cells of a printed table: how lines are cut, and what a cell holds.

use crate::tokens::{number, step};

/// How a line is cut into cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cut {
    /// At blanks.
    #[default]
    Blanks,
    /// At this byte.
    At(u8),
}

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CellKind {
    Number(f64),
    /// `8/50`, a step and how many there are.
    Count(f64),
    /// Nothing, or a word for it: `None`, `-`.
    Empty,
    /// Something that begins like a number: `00:12`, `2.35G`.
    Unreadable,
    Word,
}

/// A cell of the present line.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub kind: CellKind,
    pub from: usize,
    pub to: usize,
}

/// What a cell holds.
pub fn kind(text: &[u8]) -> CellKind {
    if let Some(value) = number::measured(text) {
        return CellKind::Number(value);
    }
    let is = |words: &[&str]| {
        words
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
    };
    if is(&["", "-", "--", "none", "null", "na", "n/a", "\u{2014}"]) {
        return CellKind::Empty;
    }
    if let Some(counted) = step::counted_at(text, 0)
        && counted.to == text.len()
    {
        return CellKind::Count(counted.step);
    }
    if text.first().is_some_and(u8::is_ascii_digit) {
        CellKind::Unreadable
    } else {
        CellKind::Word
    }
}

/// A line without the progress bar at its end, and the colon before it: `13  640: 100%|███`.
pub fn without_bar(line: &[u8]) -> &[u8] {
    let mut signs = memchr::memchr_iter(b'%', line);
    let Some(sign) = signs.find(|sign| line.get(sign + 1) == Some(&b'|')) else {
        return line;
    };
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    let digits = line[..sign].iter().rev().take_while(is_digit).count();
    let text = line[..sign - digits].trim_ascii_end();
    text.strip_suffix(b":").unwrap_or(text)
}

/// The header's pieces over the row's columns: names with blanks in columns of
/// fixed width, right-aligned. `None` when an end lies within a word.
pub fn aligned<'a>(header: &'a [u8], row: &[Cell]) -> Option<Vec<&'a [u8]>> {
    let header = header.trim_ascii_end();
    let last = row.last().map_or(0, |cell| cell.to);
    if header.len() > last {
        return None;
    }
    let mut from = 0;
    let mut pieces = Vec::new();
    for cell in row {
        let to = cell.to.min(header.len());
        if !header.get(to).is_none_or(u8::is_ascii_whitespace) {
            return None;
        }
        pieces.push(&header[from..to]);
        from = to;
    }
    Some(pieces)
}

/// The name in a header's piece; empty between signs.
pub fn name(piece: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bare(piece)).ok()?;
    if text.chars().any(char::is_control) {
        return None;
    }
    Some(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}

/// A cell without blanks and quotes.
pub fn bare(cell: &[u8]) -> &[u8] {
    match cell.trim_ascii() {
        [b'"', inside @ .., b'"'] => inside.trim_ascii(),
        cell => cell,
    }
}

/// `#` and `%` begin comments in tables of numbers.
pub fn without_comment(line: &[u8]) -> &[u8] {
    match line.trim_ascii_start() {
        [b'#' | b'%', rest @ ..] if !rest.first().is_none_or(u8::is_ascii_punctuation) => rest,
        line => line,
    }
}

pub fn at_two_blanks(text: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = text.trim_ascii();
    while let Some(end) = rest.windows(2).position(|two| two == b"  ") {
        pieces.push(&rest[..end]);
        rest = rest[end..].trim_ascii_start();
    }
    pieces.push(rest);
    pieces
}

/// Bounds of the cells of a line.
pub fn cells(line: &[u8], cut: Cut) -> impl Iterator<Item = (usize, usize)> {
    let (mut at, mut end) = (0, line.len());
    if cut == Cut::At(b'|') {
        // `| a | b |`: the outer bars separate nothing.
        let blanks = line.len() - line.trim_ascii_start().len();
        at = if line[blanks..].starts_with(b"|") {
            blanks + 1
        } else {
            0
        };
        let text = line.trim_ascii_end();
        end = if text.len() > at && text.ends_with(b"|") {
            text.len() - 1
        } else {
            end
        };
    }
    let mut is_over = false;
    std::iter::from_fn(move || {
        if cut == Cut::Blanks {
            at += line[at..end]
                .iter()
                .take_while(|b| b.is_ascii_whitespace())
                .count();
            is_over = at == end;
        }
        if is_over {
            return None;
        }
        let from = at;
        let rest = &line[from..end];
        let length = match cut {
            Cut::At(sign) => memchr::memchr(sign, rest),
            Cut::Blanks => rest.iter().position(u8::is_ascii_whitespace),
        };
        let to = length.map_or(end, |length| from + length);
        is_over = to == end;
        at = (to + 1).min(end);
        Some((from, to))
    })
}
