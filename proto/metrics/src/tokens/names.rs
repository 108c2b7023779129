//! The name in front of a value.
//!
//! A name has up to [`WORDS_MAX`] words, joined by single blanks, each beginning with a letter,
//! `_` or a character beyond ASCII, and may end with something in brackets: `rmse(val)`,
//! `time (s)`, `D(G(z))`, `energy [a.u.]`.

/// Limit of words in a name; more words are a sentence.
pub const WORDS_MAX: usize = 5;
/// Longest text in brackets at the end of a name.
const BRACKET_BYTES_MAX: usize = 40;

/// Words before a message that are no part of a metric's name.
const LEVELS: [&[u8]; 9] = [
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

/// A name in a line.
pub struct Name<'a> {
    pub text: &'a [u8],
    /// Whether it stands in quotes.
    pub quoted: bool,
}

/// The name that ends before `sign`, not reaching before `from`.
#[inline]
pub fn name_before(line: &[u8], from: usize, sign: usize) -> Option<Name<'_>> {
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
        close => {
            let word_end = match close {
                b')' | b']' => before_bracket(line, from, end)?,
                _ => end,
            };
            let first = words_before(line, from, word_end)?;
            Some(Name {
                text: &line[first..end],
                quoted: false,
            })
        }
    }
}

/// The end of the word in front of the bracket that ends at `end`.
fn before_bracket(line: &[u8], from: usize, end: usize) -> Option<usize> {
    let mut depth = 0;
    let bytes = line[from..end].iter().rev().take(BRACKET_BYTES_MAX);
    for (back, byte) in bytes.enumerate() {
        match byte {
            b')' | b']' => depth += 1,
            b'(' | b'[' => depth -= 1,
            b'"' | b'\'' | b';' | b'=' => return None,
            _ => {}
        }
        if depth == 0 {
            let open = end - 1 - back;
            let inside = &line[open + 1..end - 1];
            let has_letter = inside.iter().any(u8::is_ascii_alphabetic);
            let blank = usize::from(line[from..open].last() == Some(&b' '));
            return has_letter.then_some(open - blank);
        }
    }
    None
}

/// Start of the words that end at `end`.
#[inline]
fn words_before(line: &[u8], from: usize, end: usize) -> Option<usize> {
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
        if !is_word(word) || is_level(word) {
            break;
        }
        let glue = line[from..start].last().copied();
        if glue.is_some_and(|byte| !may_precede(byte)) {
            // In `?a=1`, `$x=1`, `"a=1` the apparent name is part of a longer
            // word.
            return (words > 0).then_some(first);
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
    (words > 0).then_some(first)
}

/// Start of the name bytes that end at `end`.
#[inline]
fn word_start(line: &[u8], from: usize, end: usize) -> usize {
    let bytes = line[from..end].iter().rev();
    end - bytes.take_while(|byte| is_name_byte(**byte)).count()
}

#[inline]
pub fn is_name_byte(byte: u8) -> bool {
    NAME_BYTES[usize::from(byte)]
}

/// The bytes of [`is_name_byte`].
const NAME_BYTES: [bool; 256] = {
    let mut bytes = [false; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        bytes[at] = byte.is_ascii_alphanumeric()
            || matches!(byte, b'_' | b'-' | b'/' | b'.' | b'@' | b'%')
            || byte >= 0x80;
        at += 1;
    }
    bytes
};

/// Whether a word is one of [`LEVELS`].
#[inline]
pub fn is_level(word: &[u8]) -> bool {
    word.first().is_some_and(u8::is_ascii_uppercase) && LEVELS.contains(&word)
}

/// Whether a name may hold this word.
#[inline]
pub fn is_word(word: &[u8]) -> bool {
    let Some(first) = word.first() else {
        return false;
    };
    let begins = first.is_ascii_alphabetic() || *first == b'_' || *first >= 0x80;
    begins && (word.is_ascii() || std::str::from_utf8(word).is_ok())
}

/// Whether this byte may stand right before a name.
#[inline]
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
