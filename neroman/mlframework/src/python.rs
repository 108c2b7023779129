//! Statements of a Python file, as far as a task's command needs them.

use nero_yaml::{Mark, Mistake};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name or a word of the language.
    Name,
    /// A number.
    Number,
    /// A text with its prefix and quotes.
    Text,
    /// One character of an operator, or a bracket.
    Sign,
}

/// A token as it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'t> {
    pub(crate) kind: TokenKind,
    pub(crate) text: &'t str,
    pub(crate) mark: Mark,
}

impl Token<'_> {
    pub(crate) fn is(&self, text: &str) -> bool {
        self.kind != TokenKind::Text && self.text == text
    }
}

/// A statement, or the head of a block with what follows its colon.
#[derive(Debug)]
pub(crate) struct Statement<'t> {
    /// Blanks and tabs before its line.
    pub(crate) indent: usize,
    /// Never none.
    pub(crate) tokens: Vec<Token<'t>>,
}

/// The statements of a file, in its order. Comments are left out, and lines that brackets or a
/// backslash join are one.
///
/// # Errors
/// A text or a bracket that is not closed.
pub(crate) fn statements(text: &str) -> Result<Vec<Statement<'_>>, Mistake> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut scanner = Scanner {
        text,
        at: 0,
        line: 1,
        line_start: 0,
    };
    let mut all: Vec<Statement<'_>> = Vec::new();
    let mut open: Vec<Mark> = Vec::new();
    let (mut indent, mut ends) = (0, true);
    while let Some(c) = scanner.rest().chars().next() {
        let mark = scanner.mark();
        match c {
            '\n' | ';' if open.is_empty() => {
                scanner.take(1);
                ends = true;
                continue;
            }
            '#' => {
                let rest = scanner.rest();
                scanner.take(rest.find('\n').unwrap_or(rest.len()));
                continue;
            }
            '\\' | '\n' | ' ' | '\t' | '\r' | '\x0c' => {
                // A backslash joins its line with the next one.
                let rest = scanner.rest();
                let joined = ["\\\n", "\\\r\n"]
                    .iter()
                    .find(|end| rest.starts_with(**end));
                scanner.take(joined.map_or(1, |end| end.len()));
                continue;
            }
            _ => {}
        }
        if scanner.is_first() {
            indent = scanner.before().len();
        }
        let token = scanner.token(mark)?;
        match token.text {
            "(" | "[" | "{" => open.push(mark),
            ")" | "]" | "}" => drop(open.pop()),
            _ => {}
        }
        if std::mem::take(&mut ends) {
            let tokens = Vec::new();
            all.push(Statement { indent, tokens });
        }
        if let Some(statement) = all.last_mut() {
            statement.tokens.push(token);
        }
    }
    match open.first() {
        Some(place) => Err(unclosed(*place, "bracket")),
        None => Ok(all),
    }
}

fn unclosed(place: Mark, what: &str) -> Mistake {
    Mistake {
        place,
        message: format!("the {what} that begins here is not closed"),
        hint: String::new(),
    }
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    line: u32,
    line_start: usize,
}

impl<'t> Scanner<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn before(&self) -> &'t str {
        &self.text[self.line_start..self.at]
    }

    fn mark(&self) -> Mark {
        let column = self.before().chars().count() + 1;
        Mark {
            line: self.line,
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    /// Whether nothing stands before in the line.
    fn is_first(&self) -> bool {
        self.before().trim_start().is_empty()
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let taken = &self.rest()[..bytes];
        for (index, _) in taken.match_indices('\n') {
            self.line += 1;
            self.line_start = self.at + index + 1;
        }
        self.at += bytes;
        taken
    }

    fn token(&mut self, mark: Mark) -> Result<Token<'t>, Mistake> {
        let rest = self.rest();
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let word = word.unwrap_or(rest.len());
        let (kind, bytes) = if rest[word..].starts_with(['\'', '"']) && word <= 2 {
            let end = closing(&rest[word..]).ok_or_else(|| unclosed(mark, "text"))?;
            (TokenKind::Text, word + end)
        } else if word == 0 {
            let first = rest.chars().next().map_or(0, char::len_utf8);
            (TokenKind::Sign, first)
        } else if rest.starts_with(|c: char| c.is_ascii_digit()) {
            (TokenKind::Number, word)
        } else {
            (TokenKind::Name, word)
        };
        let text = self.take(bytes);
        Ok(Token { kind, text, mark })
    }
}

/// The length of a text from its first quote to behind its last.
fn closing(text: &str) -> Option<usize> {
    let quote = &text[..1];
    let triple = quote.repeat(3);
    let end: &str = if text.starts_with(&triple) {
        &triple
    } else {
        quote
    };
    let mut at = end.len();
    loop {
        let rest = text.get(at..)?;
        if rest.starts_with(end) {
            return Some(at + end.len());
        }
        let c = rest.chars().next()?;
        if c == '\n' && end.len() == 1 {
            return None;
        }
        at += c.len_utf8();
        if c == '\\' {
            at += text.get(at..)?.chars().next()?.len_utf8();
        }
    }
}
