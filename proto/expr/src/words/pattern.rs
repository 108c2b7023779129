//! Globs and regular expressions on the right of `=` and `=~`.

use regex::bytes::{Regex, RegexBuilder};

/// A pattern of text: `*` stands for any characters, `?` for one, everything
/// else (brackets too) for itself. It has to fit the whole text, and case counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: Box<str>,
    /// The longest part without wildcards: most of 100 000 names lack it, and a search for
    /// it is quick.
    part: Box<str>,
}

impl Glob {
    /// The glob written as `text`.
    pub fn new(text: &str) -> Glob {
        let parts = text.split(['*', '?']);
        Glob {
            text: text.into(),
            part: parts.max_by_key(|part| part.len()).unwrap_or("").into(),
        }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it holds a `*` or a `?`.
    pub fn has_wildcard(&self) -> bool {
        self.text.contains(['*', '?'])
    }

    /// Whether it consists of wildcards only, and so fits nearly any text.
    pub fn is_only_wildcards(&self) -> bool {
        self.text.chars().all(|c| matches!(c, '*' | '?'))
    }

    /// Whether it fits the whole of `text`. Takes at most the product of the
    /// two lengths, and no memory.
    pub fn fits(&self, text: &str) -> bool {
        if !text.contains(&*self.part) {
            return false;
        }
        let mut glob = self.text.chars();
        let mut text = text.chars();
        // The place to go on when the present try fails: behind the last `*`, one character
        // later.
        let mut retry = None;
        loop {
            let text_before = text.clone();
            match (glob.next(), text.next()) {
                (None, None) => return true,
                (Some('*'), _) => {
                    retry = Some((glob.clone(), text_before.clone()));
                    text = text_before;
                    continue;
                }
                (Some('?'), Some(_)) => continue,
                (Some(wanted), Some(found)) if wanted == found => continue,
                (None, Some(_)) | (Some(_), Some(_)) => {}
                // The text is used up; trying further right only shortens it.
                (Some(_), None) => return false,
            }
            let Some((after_star, mut later)) = retry.take() else {
                return false;
            };
            if later.next().is_none() {
                return false;
            }
            glob = after_star.clone();
            text = later.clone();
            retry = Some((after_star, later));
        }
    }
}

/// Compiled regular expressions are at most this big, so that no rule can eat
/// the memory of the process beside a job.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// A regular expression, compiled once.
///
/// Syntax of the `regex` crate over bytes, with Unicode off: `\d \w \s \b` and
/// `(?i)` know ASCII only, `.` is one byte, other characters match themselves.
/// It may match anywhere in the text; `^` and `$` tie it. Matching takes time
/// linear in the text whatever the pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: Box<str>,
    regex: Regex,
}

impl Pattern {
    /// Compiles `text`; the error is one line for a person.
    pub fn new(text: &str) -> Result<Pattern, String> {
        let regex = RegexBuilder::new(text)
            .unicode(false)
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX)
            .nest_limit(40)
            .build()
            .map_err(|error| one_line(&error))?;
        Ok(Pattern {
            text: text.into(),
            regex,
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches somewhere in `text`.
    pub fn fits(&self, text: &str) -> bool {
        self.regex.is_match(text.as_bytes())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

/// The message of a regex error, without its picture.
fn one_line(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "it is too big".to_owned(),
        regex::Error::Syntax(text) => text
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("error: "))
            .unwrap_or("it cannot be read")
            .to_owned(),
        other => other.to_string().replace('\n', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn globs_fit_whole_texts() {
        for (glob, text, fits) in [
            ("fib*", "fib_n-10", true),
            ("fib*", "a fib", false),
            ("*data/1.txt*", "1 2 data/1.txt", true),
            ("*data/1.txt*", "1 2 data/11txt", false),
            ("a?c", "abc", true),
            ("a?c", "aüc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("*a*b", "xaxbxb", true),
            ("*ab", "aab", true),
            ("a**b", "ab", true),
            ("a*", "a", true),
            ("[ab]", "[ab]", true),
            ("[ab]", "a", false),
        ] {
            assert_eq!(Glob::new(glob).fits(text), fits, "{glob} on {text}");
        }
    }

    #[test]
    fn a_glob_that_backtracks_much_ends_soon() {
        let glob = Glob::new(&"*a".repeat(500));
        assert!(!glob.fits(&format!("{}b", "a".repeat(4000))));
    }

    #[test]
    fn patterns_know_ascii_classes_without_unicode_tables() {
        let pattern = Pattern::new(r"^\w+_\d{2}$").unwrap();
        assert!(pattern.fits("run_07"));
        assert!(!pattern.fits("run_7"));
        assert!(Pattern::new("(?i)ADAM").unwrap().fits("adamw"));
        assert!(Pattern::new("größe").unwrap().fits("die größe"));
    }

    #[test]
    fn a_bad_pattern_says_why_in_one_line() {
        assert_eq!(Pattern::new("a(b").unwrap_err(), "unclosed group");
        assert_eq!(
            Pattern::new("(a{1000}){1000}").unwrap_err(),
            "it is too big"
        );
    }

    /// The plain definition, exponential but obviously right.
    fn plainly(glob: &[char], text: &[char]) -> bool {
        match (glob, text) {
            ([], []) => true,
            (['*', rest @ ..], _) => {
                plainly(rest, text) || (!text.is_empty() && plainly(glob, &text[1..]))
            }
            (['?', g @ ..], [_, t @ ..]) => plainly(g, t),
            ([a, g @ ..], [b, t @ ..]) if a == b => plainly(g, t),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn globs_agree_with_their_definition(glob in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            let (g, t): (Vec<char>, Vec<char>) = (glob.chars().collect(), text.chars().collect());
            prop_assert_eq!(Glob::new(&glob).fits(&text), plainly(&g, &t));
        }
    }
}
