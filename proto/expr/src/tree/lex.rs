//! Turns text into tokens.
//!
//! The lexer decides which characters belong together without a blank: names
//! with `/ . -`, numbers with units, dates, quoted text, the glob behind `=`,
//! and in selectors the shapes `144` and `124-186`. The parser decides the
//! meaning of a word.

use jiff::tz::TimeZone;

use super::ast::{CompareOp, Pick};
use super::number::{
    DateLiteral, ScannedNumber, misshapen_date, scan_clock, scan_date, scan_number,
};
use crate::words::error::{ErrorKind, ExprError, Span};
use crate::words::pattern::{Glob, Pattern};
use crate::words::slips;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tok {
    /// A number; its text is at the span.
    Number(f64),
    Date(DateLiteral),
    /// A time of day, in minutes since midnight.
    Clock(u16),
    /// Quoted text, without quotes.
    Text(String),
    /// A name in backticks, without them.
    Quoted(String),
    /// A name or a word of the language; its text is at the span.
    Word,
    /// `tag:x`.
    Tag,
    Pick(Pick),
    /// `=` with its glob.
    Glob(Glob),
    /// `=~` with its regular expression.
    Match(Box<Pattern>),
    Compare(CompareOp),
    Not,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    And,
    Or,
    For,
    After,
    In,
    At,
    Open,
    Close,
    Comma,
}

impl Tok {
    /// Whether a condition may begin right behind this token.
    pub fn opens_operand(&self) -> bool {
        matches!(self, Tok::Open | Tok::Not | Tok::And | Tok::Or)
    }

    /// Whether a condition may end right before this token.
    pub fn closes_operand(&self) -> bool {
        matches!(
            self,
            Tok::Close | Tok::And | Tok::Or | Tok::For | Tok::After
        )
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub tok: Tok,
    pub span: Span,
}

/// Whether `c` may stand inside a name that is not in backticks: letters, digits
/// and `_ / . -`.
pub fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '/' | '.' | '-')
}

/// The longest tag of an experiment, in bytes; what is longer is a note.
pub const TAG_BYTES_MAX: usize = 100;

/// Whether `text` is a tag, which `tag:NAME` selects.
pub fn is_tag(text: &str) -> bool {
    !text.is_empty() && text.len() <= TAG_BYTES_MAX && text.chars().all(is_name_char)
}

/// Whether `text` can be written as a name without backticks, regardless of
/// other meanings.
pub(crate) fn is_plain_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && text.chars().all(is_name_char)
        && !text.ends_with(['/', '.', '-'])
}

/// All tokens of `text`. `selecting` allows ids and ranges as operands.
pub(crate) fn lex(text: &str, zone: &TimeZone, selecting: bool) -> Result<Vec<Token>, ExprError> {
    let mut lexer = Lexer {
        text,
        at: 0,
        zone,
        selecting,
        tokens: Vec::new(),
    };
    while lexer.skip_blanks() {
        lexer.token()?;
    }
    Ok(lexer.tokens)
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    zone: &'t TimeZone,
    selecting: bool,
    tokens: Vec<Token>,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Skips blanks; returns whether any text is left.
    fn skip_blanks(&mut self) -> bool {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.at < self.text.len()
    }

    fn push(&mut self, tok: Tok, len: usize) {
        let span = Span::new(self.at, self.at + len);
        self.tokens.push(Token { tok, span });
        self.at += len;
    }

    fn error(&self, len: usize, message: impl Into<String>) -> ExprError {
        let end = (self.at + len).min(self.text.len());
        ExprError::new(ErrorKind::Syntax, Span::new(self.at, end), message)
    }

    fn token(&mut self) -> Result<(), ExprError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(());
        };
        match first {
            '0'..='9' | '.' => self.number(),
            '\'' | '"' => {
                let (content, len) = self.quoted(first)?;
                self.push(Tok::Text(content), len);
                Ok(())
            }
            '`' => {
                let (content, len) = self.quoted('`')?;
                if content.is_empty() {
                    return Err(self.error(len, "there is no name between the backticks"));
                }
                self.push(Tok::Quoted(content), len);
                Ok(())
            }
            c if c.is_alphabetic() || c == '_' => {
                self.read_word();
                Ok(())
            }
            '%' => self.percent(),
            '=' => self.equals(),
            _ => self.operator(first),
        }
    }

    fn operator(&mut self, first: char) -> Result<(), ExprError> {
        let second = self.rest()[first.len_utf8()..].chars().next();
        let (tok, len) = match (first, second) {
            ('&', Some('&')) => (Tok::And, 2),
            ('|', Some('|')) => (Tok::Or, 2),
            ('!', Some('=')) => return self.unequal(),
            ('!', _) => (Tok::Not, 1),
            ('<', Some('>')) => {
                let error = self.error(2, "`<>` means nothing");
                return Err(error.hint("write `!=`"));
            }
            ('<', Some('=')) => (Tok::Compare(CompareOp::LessEq), 2),
            ('<', _) => (Tok::Compare(CompareOp::Less), 1),
            ('>', Some('=')) => (Tok::Compare(CompareOp::GreaterEq), 2),
            ('>', _) => (Tok::Compare(CompareOp::Greater), 1),
            ('+', _) => (Tok::Plus, 1),
            ('-', _) => (Tok::Minus, 1),
            ('*', _) => (Tok::Star, 1),
            ('/', _) => (Tok::Slash, 1),
            ('(', _) => (Tok::Open, 1),
            (')', _) => (Tok::Close, 1),
            (',', _) => (Tok::Comma, 1),
            ('@', _) => (Tok::At, 1),
            ('&', _) => {
                return Err(self
                    .error(1, "a single `&` means nothing")
                    .hint("write `&&`"));
            }
            ('|', _) => {
                return Err(self
                    .error(1, "a single `|` means nothing")
                    .hint("write `||`"));
            }
            ('“' | '”' | '‘' | '’' | '„', _) => {
                let error = self.error(first.len_utf8(), "these quotes are not understood");
                return Err(error.hint("use plain quotes: ' or \""));
            }
            _ => {
                let shown: String = first.escape_debug().collect();
                let shown = if first == '\\' { "\\" } else { &shown };
                let message = format!("`{shown}` means nothing here");
                let error = self.error(first.len_utf8(), message);
                let before = self
                    .tokens
                    .last()
                    .map_or("", |token| token.span.of(self.text));
                if first == ':' && slips::ACTIONS.contains(&before) {
                    return Err(error.hint(format!("leave `{before}:` out: this is the condition")));
                }
                return Err(match slips::character_hint(first) {
                    Some(hint) => error.hint(hint),
                    None => error,
                });
            }
        };
        self.push(tok, len);
        Ok(())
    }

    /// `!=`, unless it is the beginning of what other languages have.
    fn unequal(&mut self) -> Result<(), ExprError> {
        let hint = match self.rest().as_bytes().get(2) {
            Some(b'=') => "write `!=`",
            Some(b'~') => "write `!(name =~ 'x')`",
            _ => {
                self.push(Tok::Compare(CompareOp::NotEqual), 2);
                return Ok(());
            }
        };
        let message = format!("`{}` means nothing", &self.rest()[..3]);
        Err(self.error(3, message).hint(hint))
    }

    /// `%` is the remainder, and needs a blank before it.
    fn percent(&mut self) -> Result<(), ExprError> {
        if self.text[..self.at].ends_with(char::is_whitespace) {
            self.push(Tok::Percent, 1);
            return Ok(());
        }
        let error = self.error(1, "the remainder needs a blank before `%`");
        Err(error.hint("a `%` that touches what is before it is per cent: `40%`"))
    }

    fn number(&mut self) -> Result<(), ExprError> {
        let rest = self.rest();
        if let Some((date, len)) = scan_date(rest, self.zone) {
            let instant = date.map_err(|why| {
                let hint = "dates are written `2026-11-20`, `2026-11-20T14:00` or `…:30`";
                self.error(len, why).hint(hint)
            })?;
            self.push(Tok::Date(instant), len);
            return Ok(());
        }
        if let Some((len, hint)) = misshapen_date(rest) {
            let message = format!("`{}` is not a date", &rest[..len]);
            return Err(self.error(len, message).hint(hint));
        }
        if let Some((pick, len)) = self.pick_shape() {
            let pick = pick.map_err(|why| self.error(len, why))?;
            self.push(Tok::Pick(pick), len);
            return Ok(());
        }
        if let Some((minutes, len)) = scan_clock(rest) {
            self.push(Tok::Clock(minutes), len);
            return Ok(());
        }
        match scan_number(rest) {
            Some(ScannedNumber::Number { value, len }) => {
                self.push(Tok::Number(value), len);
                Ok(())
            }
            Some(ScannedNumber::Bad { len, message, hint }) => {
                Err(self.error(len, message).hint(hint))
            }
            None => Err(self.error(1, "`.` means nothing here")),
        }
    }

    /// In a selector, digits that stand as an operand of `&& || !` are ids and
    /// ranges; beside a comparison or arithmetic they are numbers.
    fn pick_shape(&self) -> Option<(Result<Pick, String>, usize)> {
        let begins = self
            .tokens
            .last()
            .is_none_or(|token| token.tok.opens_operand());
        if !self.selecting || !begins {
            return None;
        }
        let rest = self.rest();
        let len = rest
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '-' | ':' | '.')))
            .unwrap_or(rest.len());
        let behind = rest[len..].trim_start();
        let ends = behind.is_empty()
            || behind.starts_with(')')
            || behind.starts_with("&&")
            || behind.starts_with("||")
            || (behind.len() < rest.len() - len && starts_with_joining_word(behind));
        let pick = Pick::from_digits(&rest[..len]).filter(|_| ends)?;
        Some((pick, len))
    }

    fn read_word(&mut self) {
        let rest = self.rest();
        let run = rest.find(|c| !is_name_char(c)).unwrap_or(rest.len());
        let word = rest[..run].trim_end_matches(['/', '.', '-']);
        let tok = match word {
            "and" => Tok::And,
            "or" => Tok::Or,
            "not" => Tok::Not,
            "for" => Tok::For,
            "after" => Tok::After,
            "in" if self.stands_after_value() => Tok::In,
            "tag" if rest[word.len()..].starts_with(':') => {
                let len = raw_len(rest);
                return self.push(Tok::Tag, len);
            }
            _ => Tok::Word,
        };
        self.push(tok, word.len());
    }

    /// Whether the tokens so far end with a value, so that a word is an operator.
    fn stands_after_value(&self) -> bool {
        self.tokens.last().is_some_and(|token| {
            matches!(
                token.tok,
                Tok::Word
                    | Tok::Quoted(_)
                    | Tok::Number(_)
                    | Tok::Date(_)
                    | Tok::Clock(_)
                    | Tok::Text(_)
                    | Tok::Close
            )
        })
    }

    /// Content and length of the text between two `quote`s. A doubled `quote`
    /// stands for one; no other character is special.
    fn quoted(&self, quote: char) -> Result<(String, usize), ExprError> {
        let rest = self.rest();
        let mut content = String::new();
        let mut chars = rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            let closes = c == quote && chars.next_if(|&(_, next)| next == quote).is_none();
            if closes {
                return Ok((content, at + 1));
            }
            content.push(c);
        }
        let what = if quote == '`' { "backtick" } else { "quote" };
        Err(self.error(1, format!("this {what} is never closed")))
    }

    /// `==`, `=~` and `=`, the last two with their pattern.
    fn equals(&mut self) -> Result<(), ExprError> {
        let start = self.at;
        let rest = self.rest();
        if rest.starts_with("===") {
            return Err(self.error(3, "`===` means nothing").hint("write `==`"));
        }
        if rest.starts_with("==") {
            self.push(Tok::Compare(CompareOp::Equal), 2);
            return Ok(());
        }
        let is_match = rest.starts_with("=~");
        let sign = if is_match { "=~" } else { "=" };
        if let (false, Some(order @ (b'<' | b'>' | b'!'))) = (is_match, rest.as_bytes().get(1)) {
            let order = char::from(*order);
            let error = self.error(2, format!("`={order}` means nothing"));
            return Err(error.hint(format!(
                "write `{order}=`; a text that begins so stands in quotes: `= '{order}…'`"
            )));
        }
        self.at += sign.len();
        self.skip_blanks();
        let rest = self.rest();
        let raw = &rest[..raw_len(rest)];
        let (content, len) = match rest.chars().next() {
            Some(quote @ ('\'' | '"' | '`')) => self.quoted(quote)?,
            _ if raw.is_empty() => {
                let behind = Span::new(start, self.at.min(self.text.trim_end().len()));
                let message = format!("nothing stands behind `{sign}`");
                return Err(ExprError::new(ErrorKind::Syntax, behind, message));
            }
            _ if !is_match && self.is_number(raw) => {
                let span = Span::new(start, start + 1);
                let tok = Tok::Compare(CompareOp::Equal);
                self.tokens.push(Token { tok, span });
                return Ok(());
            }
            _ => (raw.to_owned(), raw.len()),
        };
        let tok = if is_match {
            let pattern = Pattern::new(&content).map_err(|why| {
                self.error(
                    len,
                    format!("this regular expression cannot be used: {why}"),
                )
            })?;
            Tok::Match(Box::new(pattern))
        } else {
            Tok::Glob(Glob::new(&content))
        };
        let span = Span::new(start, self.at + len);
        self.tokens.push(Token { tok, span });
        self.at = span.end;
        Ok(())
    }

    /// Whether the text behind `=` is a number or a date and nothing else.
    fn is_number(&self, raw: &str) -> bool {
        let unsigned = raw.strip_prefix('-').unwrap_or(raw);
        match (scan_date(unsigned, self.zone), scan_number(unsigned)) {
            (Some((date, len)), _) => date.is_ok() && len == raw.len(),
            (None, Some(ScannedNumber::Number { len, .. })) => len == unsigned.len(),
            (None, Some(ScannedNumber::Bad { .. }) | None) => false,
        }
    }
}

/// Length of a glob: up to a blank, comma, `)`, `&` or `|`.
fn raw_len(text: &str) -> usize {
    text.find(|c: char| c.is_whitespace() || matches!(c, ',' | ')' | '&' | '|'))
        .unwrap_or(text.len())
}

fn starts_with_joining_word(text: &str) -> bool {
    let end = text.find(|c| !is_name_char(c)).unwrap_or(text.len());
    matches!(&text[..end], "and" | "or" | "for" | "after")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lexed(text: &str, selecting: bool) -> Vec<(Tok, String)> {
        let tokens = lex(text, &TimeZone::UTC, selecting).unwrap();
        let with_text = |token: Token| (token.tok, token.span.of(text).to_owned());
        tokens.into_iter().map(with_text).collect()
    }

    fn texts(text: &str) -> Vec<String> {
        lexed(text, false)
            .into_iter()
            .map(|(_, text)| text)
            .collect()
    }

    #[test]
    fn names_take_slash_point_and_minus_and_need_blanks_around_operators() {
        assert_eq!(texts("loss-best"), ["loss-best"]);
        assert_eq!(texts("loss - best"), ["loss", "-", "best"]);
        assert_eq!(texts("Test/10ep>3"), ["Test/10ep", ">", "3"]);
        assert_eq!(texts("a.b*c"), ["a.b", "*", "c"]);
        assert_eq!(texts("5-3"), ["5", "-", "3"]);
        assert_eq!(texts("größe<1"), ["größe", "<", "1"]);
    }

    #[test]
    fn a_glob_goes_up_to_a_blank_comma_bracket_or_joiner() {
        for (text, glob) in [
            ("params=*data/1.txt*", "*data/1.txt*"),
            ("name=a*b&&x", "a*b"),
            ("(name=a*)", "a*"),
            ("name= 'a b*'", "a b*"),
            ("name=b||c", "b"),
        ] {
            let found = lexed(text, false)
                .into_iter()
                .find_map(|(tok, _)| match tok {
                    Tok::Glob(glob) => Some(glob.as_str().to_owned()),
                    _ => None,
                });
            assert_eq!(found.as_deref(), Some(glob), "{text}");
        }
    }

    #[test]
    fn a_single_equals_sign_before_a_number_is_two() {
        for text in ["x=5", "x=-1e-3", "x=2h", "tmod=2026-11-20"] {
            let tokens = lexed(text, false);
            assert_eq!(tokens[1].0, Tok::Compare(CompareOp::Equal), "{text}");
        }
        assert!(matches!(lexed("x=5-3", false)[1].0, Tok::Glob(_)));
    }

    #[test]
    fn digits_are_ids_only_as_operands_of_a_selector() {
        let picks = |text| {
            let tokens = lexed(text, true).into_iter();
            tokens
                .filter(|(tok, _)| matches!(tok, Tok::Pick(_)))
                .count()
        };
        assert_eq!(picks("124-186 && crashed"), 1);
        assert_eq!(picks("!(1-9:2 or 144)"), 2);
        assert_eq!(picks("124 - 186 > 3"), 0);
        assert_eq!(picks("124-186 * 2 > 3"), 0);
        assert_eq!(picks("x > 144 && y"), 0);
        assert_eq!(picks("144 < x"), 0);
        assert!(
            !lexed("144 && x", false)
                .iter()
                .any(|(tok, _)| matches!(tok, Tok::Pick(_)))
        );
    }
}
