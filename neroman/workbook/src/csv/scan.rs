//! Fields of a table as text: where they stand and what they hold. The crate `csv` reads to the
//! end of the file where a quote is not closed; here that is a mistake with its place.

use std::borrow::Cow;
use std::ops::Range;

/// A line, or more where a field has line ends.
#[derive(Debug)]
pub struct CsvRecord {
    /// Where its fields stand, with their quotes.
    pub fields: Vec<Range<usize>>,
}

/// A quoted field has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenQuote {
    /// Its line, from one.
    pub line: usize,
    /// Its record, from one.
    pub row: usize,
    /// Its field, from one.
    pub column: usize,
}

/// Whether the first line of a text names the separator.
pub fn has_separator_line(text: &str) -> bool {
    named_separator(text).is_some()
}

fn named_separator(text: &str) -> Option<u8> {
    let named = text.strip_prefix("sep=")?.bytes().next();
    named.filter(|byte| byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | b'"'))
}

/// What a line `sep=;` names, else what the first line has most of; without any a tab in a
/// `.tsv`, else a comma.
pub fn separator(text: &str, is_tsv: bool) -> u8 {
    if let Some(named) = named_separator(text) {
        return named;
    }
    let first = text.lines().find(|line| !line.trim().is_empty());
    let count = |separator: u8| {
        let mut is_quoted = false;
        let outside = first.unwrap_or_default().bytes().filter(|byte| {
            is_quoted ^= *byte == b'"';
            *byte == separator && !is_quoted
        });
        outside.count()
    };
    let counts = [b'\t', b';', b','].map(|one| (count(one), one));
    match counts.into_iter().max_by_key(|(count, _)| *count) {
        Some((1.., separator)) => separator,
        _ if is_tsv => b'\t',
        _ => b',',
    }
}

/// All records of a text, one after the other: most fields of a wide table may be empty. A line
/// end within quotes is part of a field. A quote that is not closed ends them.
pub fn records(text: &str, separator: u8) -> impl Iterator<Item = Result<CsvRecord, OpenQuote>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    (1..).map_while(move |row| {
        (at < bytes.len()).then(|| {
            let record = record(bytes, &mut at, separator);
            record.map_err(|column| {
                let before = &bytes[..at];
                at = bytes.len();
                OpenQuote {
                    line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
                    row,
                    column,
                }
            })
        })
    })
}

/// The record that begins here, and the place behind it; the field whose quote is not closed.
fn record(bytes: &[u8], at: &mut usize, separator: u8) -> Result<CsvRecord, usize> {
    let mut fields = Vec::new();
    loop {
        let end = field_end(bytes, *at, separator).ok_or(fields.len() + 1)?;
        fields.push(*at..end);
        *at = end;
        if bytes.get(*at) != Some(&separator) {
            break;
        }
        *at += 1;
    }
    *at += match &bytes[*at..] {
        [b'\r', b'\n', ..] => 2,
        [] => 0,
        _ => 1,
    };
    Ok(CsvRecord { fields })
}

/// Where the field ends that begins here; none where its quote is not closed.
fn field_end(bytes: &[u8], start: usize, separator: u8) -> Option<usize> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t') && *byte != separator;
    let blanks = bytes[start..].iter().take_while(|byte| is_blank(byte));
    let mut at = start + blanks.count();
    if bytes.get(at) == Some(&b'"') {
        loop {
            at += 1;
            match bytes.get(at)? {
                b'"' if bytes.get(at + 1) == Some(&b'"') => at += 1,
                b'"' => break,
                _ => {}
            }
        }
    }
    let is_end = |byte: &u8| *byte == separator || matches!(byte, b'\n' | b'\r');
    let rest = bytes[at..].iter().position(is_end);
    Some(rest.map_or(bytes.len(), |rest| at + rest))
}

/// What a field holds, without its quotes and the blanks around it.
pub fn content(field: &str) -> Cow<'_, str> {
    let Some(inner) = field.trim_start_matches([' ', '\t']).strip_prefix('"') else {
        return field.trim().into();
    };
    let mut content = String::new();
    let mut chars = inner.chars().peekable();
    let mut is_open = true;
    while let Some(c) = chars.next() {
        match c {
            '"' if is_open && chars.next_if_eq(&'"').is_none() => is_open = false,
            c => content.push(c),
        }
    }
    content.trim().to_owned().into()
}

/// A truth as programs in English and other languages save it.
pub fn truth(text: &str) -> Option<bool> {
    const TRUE: &[&str] = &[
        "TRUE",
        "true",
        "True",
        "WAHR",
        "VRAI",
        "VERDADERO",
        "VERO",
        "VERDADEIRO",
        "WAAR",
        "PRAWDA",
        "ИСТИНА",
    ];
    const FALSE: &[&str] = &[
        "FALSE", "false", "False", "FALSCH", "FAUX", "FALSO", "ONWAAR", "FAŁSZ", "ЛОЖЬ",
    ];
    match text {
        text if TRUE.contains(&text) => Some(true),
        text if FALSE.contains(&text) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_that_is_not_closed_ends_the_records() {
        let read: Vec<_> = records("a,b\n1,\"2\n3", b',').take(9).collect();
        let [Ok(first), Err(open)] = &read[..] else {
            panic!("{read:?}");
        };
        assert_eq!(first.fields, [0..1, 2..3]);
        let expected = OpenQuote {
            line: 2,
            row: 2,
            column: 2,
        };
        assert_eq!(*open, expected);
    }

    #[test]
    fn a_separator_line_names_no_line_end_and_no_quote() {
        assert_eq!(separator("sep=|\na|b", false), b'|');
        for text in ["sep=\na;b", "sep=\r\na;b", "sep=\"\na;b", "sep=é\na;b"] {
            assert!(!has_separator_line(text), "{text:?}");
            assert_eq!(separator(text, false), b',', "{text:?}");
        }
    }
}
