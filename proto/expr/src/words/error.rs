//! Errors of expressions, and pictures of their places.
//!
//! Every error of this crate carries a [`Span`] into the text as it was typed,
//! so that [`ExprError::render`] can put a caret under it. Nothing here writes
//! to a terminal.

use std::fmt::Write as _;

/// A place in a text: byte offsets, `start <= end`, both on character boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// First byte of the place.
    pub start: usize,
    /// One past its last byte; equal to `start` for a place between characters.
    pub end: usize,
}

impl Span {
    /// The place from `start` up to, not including, `end`.
    pub fn new(start: usize, end: usize) -> Span {
        Span { start, end }
    }

    /// The smallest place that covers both.
    pub fn to(self, other: Span) -> Span {
        Span::new(self.start.min(other.start), self.end.max(other.end))
    }

    /// The same place in a text in which this one begins at byte `offset`.
    pub fn shifted(self, offset: usize) -> Span {
        Span::new(self.start + offset, self.end + offset)
    }

    /// The text at this place; empty when the place is not one of `text`.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or("")
    }
}

/// The kinds of an [`ExprError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The text is not an expression.
    Syntax,
    /// The parts do not go together, such as text where a number is needed.
    Kind,
    /// A name exists nowhere, or more than one thing has it.
    Name,
    /// A word of the language that this version does not have yet.
    NotBuilt,
    /// Longer or deeper than [`crate::TEXT_BYTES_MAX`] and [`crate::HEIGHT_MAX`] allow.
    Limit,
}

/// A mistake in an expression, with its place.
///
/// `Display` gives the message alone; [`ExprError::render`] the whole picture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    /// The kind of mistake.
    pub kind: ErrorKind,
    /// The place in the text given to the parser.
    pub span: Span,
    /// The mistake: lower case, no full stop.
    pub message: String,
    /// The hint, if we know one.
    pub hint: Option<String>,
}

impl ExprError {
    /// An error without a hint.
    pub fn new(kind: ErrorKind, span: Span, message: impl Into<String>) -> ExprError {
        ExprError {
            kind,
            span,
            message: message.into(),
            hint: None,
        }
    }

    /// The same error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> ExprError {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with a hint, if there is one.
    #[must_use]
    pub(crate) fn hint_if(self, hint: Option<String>) -> ExprError {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// The error as lines for a person: message, text, caret, hint.
    ///
    /// `text` is the parsed text. The last line has no line feed.
    ///
    /// ```text
    /// comparisons do not chain
    ///   1 < loss < 3
    ///            ^
    /// hint: write `1 < loss && loss < 3`
    /// ```
    pub fn render(&self, text: &str) -> String {
        render(&self.message, text, self.span, self.hint.as_deref())
    }
}

/// Message, text with a caret, and hint, as in [`ExprError::render`].
///
/// Shared with selectors, whose errors have the same shape.
pub fn render(message: &str, text: &str, span: Span, hint: Option<&str>) -> String {
    let mut out = String::new();
    let _ = write!(out, "{message}\n{}", point_at(text, span));
    if let Some(hint) = hint {
        let _ = write!(out, "\nhint: {hint}");
    }
    out
}

/// The most characters of a text that [`point_at`] shows at once.
const WINDOW_CHARS: usize = 72;

/// Two lines: the text, indented by two blanks, and carets under `span`.
///
/// Control and direction-changing characters are shown as `·` and line ends as
/// blanks, so that a text from elsewhere can do nothing to a terminal; of a
/// long text only the part around the place is shown, with `…`.
pub fn point_at(text: &str, span: Span) -> String {
    let chars: Vec<char> = text.chars().map(harmless).collect();
    let place = |byte: usize| text.char_indices().take_while(|&(at, _)| at < byte).count();
    let first = place(span.start);
    let last = place(span.end).max(first + 1);
    let from = if chars.len() <= WINDOW_CHARS {
        0
    } else {
        first.saturating_sub(WINDOW_CHARS / 2)
    };
    let until = chars.len().min(from + WINDOW_CHARS);
    let mut lines = String::from("  ");
    if from > 0 {
        lines.push('…');
    }
    lines.extend(&chars[from..until]);
    if until < chars.len() {
        lines.push('…');
    }
    lines.push_str("\n  ");
    let blanks = first - from + usize::from(from > 0);
    lines.extend(std::iter::repeat_n(' ', blanks));
    lines.extend(std::iter::repeat_n(
        '^',
        last.min(until.max(first + 1)) - first,
    ));
    lines
}

/// The character shown to a person in place of `c`.
fn harmless(c: char) -> char {
    match c {
        '\n' | '\r' | '\t' => ' ',
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '·',
        c if c.is_control() => '·',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_place() {
        let shown = point_at("loss > > 5", Span::new(7, 8));
        assert_eq!(shown, "  loss > > 5\n         ^");
    }

    #[test]
    fn a_place_behind_the_end_gets_one_caret() {
        assert_eq!(point_at("a >", Span::new(3, 3)), "  a >\n     ^");
    }

    #[test]
    fn carets_count_characters_not_bytes() {
        assert_eq!(point_at("é > ü", Span::new(5, 7)), "  é > ü\n      ^");
    }

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        let shown = point_at("a\x1b[2J\u{202e}", Span::new(0, 1));
        assert!(
            !shown.contains('\x1b') && !shown.contains('\u{202e}'),
            "{shown}"
        );
    }

    #[test]
    fn a_long_text_is_shown_around_the_place() {
        let text = format!("{}!{}", "a".repeat(500), "b".repeat(500));
        let shown = point_at(&text, Span::new(500, 501));
        let (line, caret) = shown.split_once('\n').unwrap();
        assert!(line.chars().count() < 80);
        let column = caret.chars().position(|c| c == '^').unwrap();
        assert_eq!(line.chars().nth(column), Some('!'));
    }
}
