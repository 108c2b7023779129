//! Finds the numbers of a line: by the spec's patterns, as JSON, or as text.

use crate::found::LinePairs;
use crate::pattern::{Pattern, PatternError};
use crate::{json, pairs, step};

/// Finds numbers; keeps its buffers from line to line.
#[derive(Debug, Default)]
pub struct Finder {
    patterns: Vec<Pattern>,
    found: LinePairs,
    plain: Vec<u8>,
}

impl Finder {
    /// With the patterns of a spec. Returns the errors of patterns that cannot
    /// be used.
    pub fn new(patterns: &[String]) -> (Self, Vec<PatternError>) {
        let mut finder = Self::default();
        let mut errors = Vec::new();
        for pattern in patterns {
            match Pattern::new(pattern) {
                Ok(pattern) => finder.patterns.push(pattern),
                Err(error) => errors.push(error),
            }
        }
        (finder, errors)
    }

    /// The pairs and the step of one line.
    pub fn find(&mut self, line: &[u8]) -> &LinePairs {
        self.found.clear();
        if memchr::memchr(0x1b, line).is_some() {
            without_escapes(line, &mut self.plain);
            let plain = std::mem::take(&mut self.plain);
            self.find_plain(&plain);
            self.plain = plain;
        } else {
            self.find_plain(line);
        }
        &self.found
    }

    /// The result of the last [`Finder::find`].
    pub fn found(&self) -> &LinePairs {
        &self.found
    }

    fn find_plain(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        let found = &mut self.found;
        let mut matched = false;
        for pattern in &mut self.patterns {
            matched |= pattern.find(line, found);
        }
        if matched || line.is_empty() {
            return;
        }
        if json::find(line, found) {
            step::by_pairs(found);
        } else {
            pairs::find(line, found);
        }
    }
}

/// Copies a line without its escape sequences (colours, titles, cursor).
fn without_escapes(line: &[u8], plain: &mut Vec<u8>) {
    plain.clear();
    let mut at = 0;
    while let Some(escape) = memchr::memchr(0x1b, &line[at..]) {
        plain.extend_from_slice(&line[at..at + escape]);
        at += escape + sequence_length(&line[at + escape..]);
    }
    plain.extend_from_slice(&line[at..]);
}

/// Bytes of the escape sequence at the start of `text`.
fn sequence_length(text: &[u8]) -> usize {
    match text.get(1) {
        Some(b'[') => {
            let ends = |byte: &u8| (0x40..=0x7e).contains(byte);
            text[2..]
                .iter()
                .position(ends)
                .map_or(text.len(), |end| end + 3)
        }
        Some(b']' | b'P' | b'_' | b'^' | b'X') => {
            let ends = |byte: &u8| matches!(byte, 0x07 | 0x1b);
            match text[2..].iter().position(ends) {
                Some(end) if text[2 + end] == 0x1b => (end + 4).min(text.len()),
                Some(end) => end + 3,
                None => text.len(),
            }
        }
        Some(_) => 2,
        None => 1,
    }
}
