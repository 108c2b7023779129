//! JSON lines: every number of an object becomes a pair. Objects within it
//! join their names with `/` (`{"train": {"loss": 0.3}}` gives `train/loss`);
//! text, truth values and lists are skipped. `NaN` and `Infinity`, which
//! Python writes, are read. A key that comes twice gives two pairs.

use crate::found::{LinePairs, NAME_BYTES_MAX};
use crate::labels::label::{self, Label, Labels};
use crate::tokens::number;

/// Limit of nesting; a deeper object is no metric.
const DEPTH_MAX: usize = 32;

/// Reads a trimmed line that is exactly one valid JSON object. Otherwise finds
/// nothing and returns false.
pub fn find(line: &[u8], found: &mut LinePairs) -> bool {
    if !(line.starts_with(b"{") && line.ends_with(b"}")) {
        return false;
    }
    let mark = found.len();
    let mut reader = JsonReader {
        text: line,
        at: 0,
        path: Vec::new(),
        labels: Labels::default(),
        found,
    };
    let whole = reader.object(0).is_some() && reader.at == line.len();
    let labels = reader.labels;
    if whole {
        label::write_all(found, labels.without_mere_rank(found), '/')
    } else {
        found.truncate(mark)
    }
    whole
}

/// Puts the numbered part that the lines above tell in front of the pairs of an object.
pub fn write_group(found: &mut LinePairs, above: Labels) {
    let set = Label::default();
    label::write_all(found, Labels { set, ..above }, '/');
}

struct JsonReader<'a> {
    text: &'a [u8],
    at: usize,
    path: Vec<u8>,
    /// What keys of the outermost object tell of its set.
    labels: Labels,
    found: &'a mut LinePairs,
}

impl JsonReader<'_> {
    /// Reads from `{` to behind `}`.
    fn object(&mut self, depth: usize) -> Option<()> {
        self.expect(b'{')?;
        if self.next_is(b'}') {
            return self.expect(b'}');
        }
        loop {
            let kept = self.path.len();
            self.key()?;
            self.blanks();
            self.expect(b':')?;
            self.value(depth)?;
            self.path.truncate(kept);
            if !self.next_is(b',') {
                break;
            }
            self.expect(b',')?;
        }
        self.blanks();
        self.expect(b'}')
    }

    fn list(&mut self, depth: usize) -> Option<()> {
        self.expect(b'[')?;
        if self.next_is(b']') {
            return self.expect(b']');
        }
        loop {
            self.skipped(depth)?;
            if !self.next_is(b',') {
                break;
            }
            self.expect(b',')?;
        }
        self.blanks();
        self.expect(b']')
    }

    /// Reads a value within a list and drops it.
    fn skipped(&mut self, depth: usize) -> Option<()> {
        let pairs = self.found.len();
        self.value(depth)?;
        self.found.truncate(pairs);
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        self.blanks();
        match *self.text.get(self.at)? {
            b'{' if depth < DEPTH_MAX => self.object(depth + 1),
            b'[' if depth < DEPTH_MAX => self.list(depth + 1),
            b'{' | b'[' => None,
            b'"' if depth == 0 && label::is_told_by(&self.path) => self.label(),
            b'"' => self.string(|_| ()),
            b't' => self.read_word(b"true"),
            b'f' => self.read_word(b"false"),
            b'n' if self.text[self.at..].starts_with(b"null") => self.read_word(b"null"),
            _ => self.number(depth),
        }
    }

    fn number(&mut self, depth: usize) -> Option<()> {
        let number = number::prefix(&self.text[self.at..])?;
        self.at += number.length;
        let ended = matches!(self.text.get(self.at)?, b',' | b'}' | b']' | b' ' | b'\t');
        ended.then_some(())?;
        if depth == 0 && label::is_told_by(&self.path) {
            let text = &self.text[self.at - number.length..self.at];
            label::note_cell(&self.path, text, &mut self.labels);
        }
        self.found.push(&self.path, number.value);
        Some(())
    }

    /// A text that may tell the set of the object.
    fn label(&mut self) -> Option<()> {
        let mut text = Vec::new();
        self.string(|byte| text.push(byte))?;
        label::note_cell(&self.path, &text, &mut self.labels);
        Some(())
    }

    /// Adds a key to the path.
    fn key(&mut self) -> Option<()> {
        self.blanks();
        let mut path = std::mem::take(&mut self.path);
        if !path.is_empty() {
            path.push(b'/');
        }
        let read = self.string(|byte| {
            // A name that is too long is refused, so the rest of it does not
            // matter.
            if path.len() <= NAME_BYTES_MAX {
                path.push(byte);
            }
        });
        self.path = path;
        read
    }

    /// A string, byte by byte.
    fn string(&mut self, mut byte: impl FnMut(u8)) -> Option<()> {
        self.expect(b'"')?;
        loop {
            let next = *self.text.get(self.at)?;
            self.at += 1;
            match next {
                b'"' => return Some(()),
                b'\\' => self.escape(&mut byte)?,
                other => byte(other),
            }
        }
    }

    fn escape(&mut self, byte: &mut impl FnMut(u8)) -> Option<()> {
        let next = *self.text.get(self.at)?;
        self.at += 1;
        match next {
            b'"' | b'\\' | b'/' => byte(next),
            b'n' => byte(b'\n'),
            b't' => byte(b'\t'),
            b'r' => byte(b'\r'),
            b'b' | b'f' => byte(8),
            b'u' => {
                let digits = self.text.get(self.at..self.at + 4)?;
                self.at += 4;
                let code = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
                // Halves of a surrogate pair become the sign for "no character".
                let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                let mut buffer = [0; 4];
                c.encode_utf8(&mut buffer).bytes().for_each(byte);
            }
            _ => return None,
        }
        Some(())
    }

    fn read_word(&mut self, word: &[u8]) -> Option<()> {
        self.text[self.at..].starts_with(word).then_some(())?;
        self.at += word.len();
        Some(())
    }

    fn blanks(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    fn next_is(&mut self, byte: u8) -> bool {
        self.blanks();
        self.text.get(self.at) == Some(&byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.text.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }
}
