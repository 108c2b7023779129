//! Mistakes of a source as they are printed: each with its line and a caret. Whatever
//! comes from the file is made safe to print: no control characters reach a terminal.

use super::Place;
use nero_model::safe::Safe;
use nero_yaml::MISTAKES_MAX;
use std::fmt;

/// How much of a source line is shown around a mistake.
const SNIPPET_CHARS: usize = 100;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where; a missing file has no line.
    pub place: Option<Place>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// The line of the source around the place, and the columns before its caret.
    pub snippet: Option<(Box<str>, usize)>,
}

impl Problem {
    /// A mistake without a line, about a whole file or folder.
    pub fn of_file(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            place: None,
            message: message.into(),
            hint: Some(hint.into()),
            snippet: None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.message)?;
        if let Some(place) = &self.place {
            writeln!(f, "  --> {}", printable(&place.to_string()))?;
            if let Some((text, pad)) = &self.snippet {
                let number = place.line.to_string();
                writeln!(f, "   {number} | {text}")?;
                let margin = " ".repeat(number.len());
                writeln!(f, "   {margin} | {}^", " ".repeat(*pad))?;
            }
        }
        match &self.hint {
            Some(hint) => writeln!(f, "hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// All mistakes of one source; nothing of it is defined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormatErrors {
    /// In the order of the file.
    pub problems: Vec<Problem>,
    /// Whether reading stopped at [`MISTAKES_MAX`].
    pub truncated: bool,
}

impl From<Problem> for FormatErrors {
    fn from(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
            truncated: false,
        }
    }
}

impl fmt::Display for FormatErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        if self.truncated {
            writeln!(f, "\nand more; these are the first {MISTAKES_MAX}")?;
        }
        Ok(())
    }
}

impl std::error::Error for FormatErrors {}

/// The text with control and direction characters written out.
pub(crate) fn printable(text: &str) -> String {
    Safe::line(text).to_string()
}

/// The text in quotes of YAML, as a person types it.
pub(crate) fn in_quotes(text: &str) -> String {
    let text = printable(text);
    if text.contains('\'') && !text.contains(['"', '\\']) {
        format!("\"{text}\"")
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

/// The part of a line around a column, and how far the caret is pushed right.
pub(crate) fn window(line: &str, column: usize) -> (String, usize) {
    let chars: Vec<char> = line.chars().collect();
    let at = column.saturating_sub(1).min(chars.len());
    let start = if at > SNIPPET_CHARS * 3 / 4 {
        at - SNIPPET_CHARS / 2
    } else {
        0
    };
    let end = chars.len().min(start + SNIPPET_CHARS);
    let mut text = String::new();
    let mut pad = 0;
    if start > 0 {
        text.push('…');
        pad += 1;
    }
    for (index, &c) in chars[start..end].iter().enumerate() {
        let shown = shown_char(c);
        if start + index < at {
            pad += shown.chars().map(columns).sum::<usize>();
        }
        text.push_str(&shown);
    }
    if end < chars.len() {
        text.push('…');
    }
    (text.trim_end().to_owned(), pad)
}

/// A tab as one arrow, so that the caret stays below what it means.
fn shown_char(c: char) -> String {
    match c {
        '\t' => "→".into(),
        c => printable(&c.to_string()),
    }
}

/// How many columns a terminal gives a character; enough for carets.
fn columns(c: char) -> usize {
    match c as u32 {
        0x0300..=0x036f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stand_below_what_they_mean() {
        assert_eq!(window("ab cd", 4), ("ab cd".into(), 3));
        assert_eq!(window("\tab", 2), ("→ab".into(), 1));
        assert_eq!(window("日本 x", 4), ("日本 x".into(), 5));
        assert_eq!(window("ab", 9), ("ab".into(), 2));
        let long = "x".repeat(500);
        let (text, pad) = window(&long, 400);
        assert_eq!(text.chars().count(), SNIPPET_CHARS + 2);
        assert_eq!(pad, 51);
    }

    #[test]
    fn escapes_never_reach_the_terminal() {
        assert_eq!(window("a\u{1b}b", 3).0, "a\\u{1b}b");
    }
}
