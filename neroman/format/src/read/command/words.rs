//! Splits a command line into words, as a shell does.
//!
//! The `shlex` crate takes a `#` at the start of a word for a comment and drops the
//! rest of the line; Python's `shlex.split` of the original and our users' `--color #fff`
//! do not mean that. Quoting for display does come from that crate.

/// A word and the byte at which it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SplitWord {
    pub(crate) text: String,
    pub(crate) offset: usize,
    /// Whether a line ended between this word and the one before it.
    pub(crate) after_break: bool,
}

/// A quote or backslash at this byte is left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnclosedQuote {
    pub(crate) offset: usize,
    pub(crate) quote: char,
}

/// The words of a command line; `None`: a quote or a backslash is left open.
pub fn split_command(line: &str) -> Option<Vec<String>> {
    let words = split(line).ok()?;
    Some(words.into_iter().map(|word| word.text).collect())
}

/// The words of a line.
pub(crate) fn split(line: &str) -> Result<Vec<SplitWord>, UnclosedQuote> {
    let mut words = Vec::new();
    let mut word: Option<SplitWord> = None;
    let mut broken = false;
    let mut chars = line.char_indices();
    while let Some((offset, c)) = chars.next() {
        if matches!(c, ' ' | '\t' | '\n' | '\r') {
            words.extend(word.take());
            broken |= c == '\n' && !words.is_empty();
            continue;
        }
        let into = &mut word
            .get_or_insert_with(|| SplitWord {
                text: String::new(),
                offset,
                after_break: std::mem::take(&mut broken),
            })
            .text;
        let open = UnclosedQuote { offset, quote: c };
        match c {
            '\\' => match chars.next().ok_or(open)?.1 {
                // A line that goes on: the shell drops both.
                '\n' => {}
                next => into.push(next),
            },
            '\'' => loop {
                match chars.next().ok_or(open)?.1 {
                    '\'' => break,
                    next => into.push(next),
                }
            },
            '"' => loop {
                match chars.next().ok_or(open)?.1 {
                    '"' => break,
                    '\\' => match chars.next().ok_or(open)?.1 {
                        next @ ('"' | '\\' | '$' | '`') => into.push(next),
                        // A line that goes on.
                        '\n' => {}
                        next => into.extend(['\\', next]),
                    },
                    next => into.push(next),
                }
            },
            c => into.push(c),
        }
    }
    words.extend(word);
    // A backslash before a line end alone makes no word.
    words.retain(|w| !w.text.is_empty() || !line[w.offset..].starts_with('\\'));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(line: &str) -> Vec<String> {
        split(line)
            .expect("closed")
            .into_iter()
            .map(|w| w.text)
            .collect()
    }

    #[test]
    fn lines_are_split_as_a_shell_does() {
        let table: [(&str, &[&str]); 12] = [
            ("", &[]),
            ("  a  b\tc\n", &["a", "b", "c"]),
            ("a 'b c' d", &["a", "b c", "d"]),
            (r#"a "b 'c' d""#, &["a", "b 'c' d"]),
            (r"a\ b", &["a b"]),
            ("'' \"\"", &["", ""]),
            ("--color #fff", &["--color", "#fff"]),
            (r#""a\n\"\\""#, &["a\\n\"\\"]),
            (r#""\$HOME \`a\` $1""#, &["$HOME `a` $1"]),
            (r"'\$x' \$x", &["\\$x", "$x"]),
            ("a'b'\"c\"", &["abc"]),
            ("a \\\n b", &["a", "b"]),
        ];
        for (line, want) in table {
            assert_eq!(texts(line), want, "{line}");
        }
    }

    #[test]
    fn open_quotes_are_found() {
        let table = [("a 'b", 2, '\''), ("\"", 0, '"'), ("é \\", 3, '\\')];
        for (line, offset, quote) in table {
            assert_eq!(split(line), Err(UnclosedQuote { offset, quote }), "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_one_word(words in proptest::collection::vec("[^\\x00]*", 0..5)) {
            let line = shlex::try_join(words.iter().map(String::as_str)).expect("no NUL");
            prop_assert_eq!(texts(&line), words);
        }
    }
}
