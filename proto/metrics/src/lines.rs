//! From bytes as they come to whole lines, in bounded memory.
//!
//! A line ends with `\n` or `\r`, so that progress bars are lines too (and
//! `\r\n` ends an empty one as well). Of a line longer than [`LINE_BYTES_MAX`]
//! the beginning is given, without its last word, which may be cut; its other
//! bytes only count. A line of a document has no limit.
//! The lines do not depend on how the bytes were split.

use crate::file::FileForm;

/// Bytes of a line that are looked at.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Room for an unfinished line that is kept when the line is complete.
const CARRY_BYTES_KEPT: usize = 4 * 1024;

/// Splits one stream.
#[derive(Debug)]
pub struct Lines {
    /// The beginning of the unfinished line, at most `limit` bytes.
    carry: Vec<u8>,
    /// Bytes of that line, more than are kept when it is long.
    length: u64,
    /// Bytes of a line that are looked at.
    limit: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            carry: Vec::new(),
            length: 0,
            limit: LINE_BYTES_MAX,
        }
    }
}

impl Lines {
    /// The splitter for a file of this form. The size of a document is limited as a whole,
    /// the size of its lines is not.
    pub fn of_file(form: FileForm) -> Self {
        let limit = match form {
            FileForm::Document => usize::MAX,
            FileForm::Printed | FileForm::Columns(_) | FileForm::JsonLines => LINE_BYTES_MAX,
        };
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Takes the next bytes and calls `line` with every line that they end and
    /// with how many of these bytes lie before the line's end, it included.
    pub fn feed(&mut self, bytes: &[u8], mut line: impl FnMut(&[u8], usize)) {
        let mut from = 0;
        for end in memchr::memchr2_iter(b'\n', b'\r', bytes) {
            let part = &bytes[from..end];
            if self.length == 0 {
                line(bounded(part, self.limit), end + 1);
            } else {
                self.keep(part);
                line(self.kept(), end + 1);
                self.forget();
            }
            from = end + 1;
        }
        self.keep(&bytes[from..]);
    }

    /// The unfinished line, once nothing can follow it; none when there is none.
    pub fn finish(&mut self, line: impl FnOnce(&[u8])) {
        if self.length > 0 {
            line(self.kept());
        }
        self.forget();
    }

    /// Drops the unfinished line.
    pub fn forget(&mut self) {
        self.carry.clear();
        self.carry.shrink_to(CARRY_BYTES_KEPT);
        self.length = 0;
    }

    /// Bytes of the unfinished line.
    pub fn unfinished_bytes(&self) -> u64 {
        self.length
    }

    fn keep(&mut self, part: &[u8]) {
        let room = self.limit - self.carry.len();
        self.length += part.len() as u64;
        self.carry.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn kept(&self) -> &[u8] {
        if self.length > self.carry.len() as u64 {
            without_last_word(&self.carry)
        } else {
            &self.carry
        }
    }
}

fn bounded(line: &[u8], limit: usize) -> &[u8] {
    if line.len() > limit {
        without_last_word(&line[..limit])
    } else {
        line
    }
}

fn without_last_word(line: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b',' | b';');
    let end = line.iter().rposition(blank).unwrap_or(0);
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines with the offset of their end, feeding `bytes` in `pieces`.
    fn split(bytes: &[u8], cuts: &[usize]) -> Vec<(Vec<u8>, usize)> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        let mut from = 0;
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        ends.push(bytes.len());
        ends.sort_unstable();
        for to in ends {
            lines.feed(&bytes[from..to], |line, end| {
                found.push((line.to_vec(), from + end));
            });
            from = to;
        }
        lines.finish(|line| found.push((line.to_vec(), bytes.len())));
        found
    }

    #[test]
    fn returns_end_lines_like_line_feeds() {
        let found = split(b"a\rb\r\nc\n\nlast", &[]);
        let lines: Vec<&[u8]> = found.iter().map(|(line, _)| line.as_slice()).collect();
        assert_eq!(lines, [&b"a"[..], b"b", b"", b"c", b"", b"last"]);
        assert_eq!(found[1].1, 4);
    }

    #[test]
    fn a_long_line_is_cut_before_a_word_and_the_next_is_whole() {
        let mut bytes = b"loss=0.5 ".repeat(LINE_BYTES_MAX / 9 + 1);
        bytes.extend_from_slice(&vec![b'x'; 3 * LINE_BYTES_MAX]);
        bytes.extend_from_slice(b"\nacc=1\n");
        for cuts in [
            vec![],
            vec![10, LINE_BYTES_MAX - 1, LINE_BYTES_MAX, LINE_BYTES_MAX + 1],
        ] {
            let found = split(&bytes, &cuts);
            assert_eq!(found.len(), 2);
            assert!(found[0].0.len() <= LINE_BYTES_MAX);
            assert!(found[0].0.ends_with(b"loss=0.5"));
            assert_eq!(found[1].0, b"acc=1");
        }
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_not_cut() {
        let mut bytes = vec![b'x'; LINE_BYTES_MAX];
        bytes.push(b'\n');
        for cuts in [vec![], vec![LINE_BYTES_MAX], vec![1]] {
            assert_eq!(split(&bytes, &cuts)[0].0.len(), LINE_BYTES_MAX);
        }
        bytes.insert(0, b'x');
        for cuts in [vec![], vec![LINE_BYTES_MAX], vec![1]] {
            assert_eq!(split(&bytes, &cuts)[0].0.len(), 0);
        }
    }

    #[test]
    fn an_endless_line_takes_no_memory() {
        let mut lines = Lines::default();
        let block = vec![b'1'; 64 * 1024];
        for _ in 0..1000 {
            lines.feed(&block, |_, _| unreachable!("the line has no end"));
        }
        assert!(lines.carry.capacity() <= 2 * LINE_BYTES_MAX);
        lines.feed(b"\n", |_, _| {});
        assert!(lines.carry.capacity() <= CARRY_BYTES_KEPT);
    }

    proptest! {
        #[test]
        fn the_split_does_not_matter(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), any::<u8>()], 0..300),
            cuts in proptest::collection::vec(any::<usize>(), 0..8),
        ) {
            prop_assert_eq!(split(&bytes, &cuts), split(&bytes, &[]));
        }
    }
}
