//! Python's `ast.literal_eval`, as far as its numbers, truths and texts are needed.

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `None`
    Null,
    /// `True`, `False`
    Bool(bool),
    /// A whole number, as near as a floating-point number comes to it.
    Int(f64),
    /// A floating-point number.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes, lists, maps, complex numbers, `...`: no reader compares them.
    Other,
}

impl Literal {
    /// Its number; booleans are numbers in Python.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Bool(truth) => Some(f64::from(u8::from(*truth))),
            Self::Int(number) | Self::Float(number) => Some(*number),
            Self::Null | Self::Text(_) | Self::Other => None,
        }
    }
}

/// Levels of brackets.
const DEPTH_MAX: usize = 50;
/// Python refuses to convert longer numbers.
const DIGITS_MAX: usize = 4300;

/// The value of a text that is a Python literal. Sums such as `1+2j` are none here.
pub fn literal(text: &str) -> Option<Literal> {
    let mut reader = LiteralReader {
        rest: text.trim_start_matches([' ', '\t']),
        depth: 0,
        signed: false,
    };
    let mut value = reader.value()?;
    reader.blanks();
    while reader.sign(',') {
        value = Literal::Other;
        reader.blanks();
        if reader.ended() {
            break;
        }
        reader.value()?;
        reader.blanks();
    }
    reader.ended().then_some(value)
}

struct LiteralReader<'t> {
    rest: &'t str,
    /// Brackets that are open; within these an end of line is a blank.
    depth: usize,
    /// Whether the last value had a sign; Python knows no second one.
    signed: bool,
}

impl<'t> LiteralReader<'t> {
    fn blanks(&mut self) {
        loop {
            self.rest = match self.depth {
                0 => self.rest.trim_start_matches([' ', '\t', '\x0c']),
                _ => self
                    .rest
                    .trim_start_matches([' ', '\t', '\x0c', '\r', '\n']),
            };
            if !self.rest.starts_with('#') {
                return;
            }
            let end = self.rest.find(['\n', '\r']).unwrap_or(self.rest.len());
            self.rest = &self.rest[end..];
        }
    }

    fn ended(&self) -> bool {
        self.rest.trim_end_matches(['\r', '\n']).is_empty()
    }

    fn sign(&mut self, sign: char) -> bool {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> Option<Literal> {
        self.blanks();
        self.signed = false;
        let first = self.rest.chars().next()?;
        match first {
            '+' | '-' => {
                self.sign(first);
                self.blanks();
                // Python knows no second sign; and a thousand of them are no reason to go deeper.
                if self.rest.starts_with(['+', '-']) {
                    return None;
                }
                let value = self.value()?;
                if std::mem::replace(&mut self.signed, true) {
                    return None;
                }
                match value {
                    Literal::Int(number) if first == '-' => Some(Literal::Int(-number)),
                    Literal::Float(number) if first == '-' => Some(Literal::Float(-number)),
                    number @ (Literal::Int(_) | Literal::Float(_)) => Some(number),
                    _ => None,
                }
            }
            '(' => self.brackets('(', ')'),
            '[' => self.brackets('[', ']'),
            '{' => self.brackets('{', '}'),
            '0'..='9' => self.number(),
            '.' if self.rest.starts_with("...") => {
                self.rest = &self.rest[3..];
                Some(Literal::Other)
            }
            '.' => self.number(),
            _ => self.read_word(),
        }
    }

    /// A list, tuple, map, set, or a value in round brackets.
    fn brackets(&mut self, open: char, close: char) -> Option<Literal> {
        self.sign(open);
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut single = None;
        let mut pairs = None;
        let mut count = 0;
        let mut comma = false;
        loop {
            self.blanks();
            if self.sign(close) {
                break;
            }
            if count > 0 && !comma {
                return None;
            }
            single = Some(self.value()?);
            count += 1;
            self.blanks();
            if open == '{' {
                let pair = self.sign(':');
                if *pairs.get_or_insert(pair) != pair {
                    return None;
                }
                if pair {
                    self.value()?;
                    self.blanks();
                }
            }
            comma = self.sign(',');
        }
        self.depth -= 1;
        match single {
            Some(value) if open == '(' && count == 1 && !comma => Some(value),
            _ => Some(Literal::Other),
        }
    }

    /// `True`, `None`, or text with its prefix.
    fn read_word(&mut self) -> Option<Literal> {
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        if rest.starts_with(['\'', '"']) {
            return self.texts();
        }
        self.rest = rest;
        match word {
            "None" => Some(Literal::Null),
            "True" => Some(Literal::Bool(true)),
            "False" => Some(Literal::Bool(false)),
            "set" => {
                self.blanks();
                (self.sign('(')).then_some(())?;
                self.blanks();
                self.sign(')').then_some(Literal::Other)
            }
            _ => None,
        }
    }

    /// Texts that stand beside each other are one.
    fn texts(&mut self) -> Option<Literal> {
        let mut whole = String::new();
        let mut bytes = None;
        loop {
            let end = self.rest.find(['\'', '"'])?;
            let prefix = self.rest[..end].to_ascii_lowercase();
            let (raw, is_bytes) = match prefix.as_str() {
                "" | "u" => (false, false),
                "r" => (true, false),
                "b" => (false, true),
                "br" | "rb" => (true, true),
                _ => return None,
            };
            if *bytes.get_or_insert(is_bytes) != is_bytes {
                return None;
            }
            self.rest = &self.rest[end..];
            self.text(raw, is_bytes, &mut whole)?;
            self.blanks();
            let end = self.rest.find(|c: char| !c.is_ascii_alphabetic());
            let after = &self.rest[end.unwrap_or(self.rest.len())..];
            if !after.starts_with(['\'', '"']) {
                break;
            }
        }
        Some(match bytes {
            Some(true) => Literal::Other,
            _ => Literal::Text(whole),
        })
    }

    fn text(&mut self, raw: bool, bytes: bool, whole: &mut String) -> Option<()> {
        let quote = self.rest.chars().next()?;
        let triple: String = std::iter::repeat_n(quote, 3).collect();
        let end: &str = if self.rest.starts_with(&triple) {
            &triple
        } else {
            &triple[..1]
        };
        self.rest = &self.rest[end.len()..];
        loop {
            if let Some(rest) = self.rest.strip_prefix(end) {
                self.rest = rest;
                return Some(());
            }
            let c = self.next()?;
            match c {
                '\n' | '\r' if end.len() == 1 => return None,
                '\0' => return None,
                c if bytes && !c.is_ascii() => return None,
                '\\' if raw => {
                    whole.push('\\');
                    whole.push(self.next()?);
                }
                '\\' => self.escape(bytes, whole)?,
                c => whole.push(c),
            }
        }
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next()?;
        self.rest = chars.as_str();
        Some(c)
    }

    fn escape(&mut self, bytes: bool, whole: &mut String) -> Option<()> {
        let c = self.next()?;
        let plain = match c {
            '\n' => return Some(()),
            '\\' | '\'' | '"' => c,
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' => self.code(2)?,
            'u' if !bytes => self.code(4)?,
            'U' if !bytes => self.code(8)?,
            'N' if !bytes => return None,
            '0'..='7' => {
                let mut code = c.to_digit(8)?;
                for _ in 0..2 {
                    let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else {
                        break;
                    };
                    self.next();
                    code = code * 8 + digit;
                }
                char::from_u32(code)?
            }
            other => {
                whole.push('\\');
                other
            }
        };
        whole.push(plain);
        Some(())
    }

    fn code(&mut self, digits: usize) -> Option<char> {
        let code = self.rest.get(..digits)?;
        let hex = code.bytes().all(|b| b.is_ascii_hexdigit());
        self.rest = &self.rest[digits..];
        hex.then(|| u32::from_str_radix(code, 16).ok().and_then(char::from_u32))?
    }

    fn number(&mut self) -> Option<Literal> {
        let bytes = self.rest.as_bytes();
        let based = match bytes {
            [b'0', b'x' | b'X', ..] => Some(16),
            [b'0', b'o' | b'O', ..] => Some(8),
            [b'0', b'b' | b'B', ..] => Some(2),
            _ => None,
        };
        let end = match based {
            Some(_) => self.rest[2..]
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .map(|end| end + 2),
            None => decimal_end(bytes),
        };
        let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let complex = rest.strip_prefix(['j', 'J']).filter(|_| based.is_none());
        if let Some(rest) = complex.filter(|rest| !begins_word(rest)) {
            self.rest = rest;
            return Some(Literal::Other);
        }
        if begins_word(rest) {
            return None;
        }
        self.rest = rest;
        if let Some(base) = based {
            let digits = &text[2..];
            let spaced = digits.strip_prefix('_').unwrap_or(digits);
            return whole(&grouped(spaced)?, base).map(Literal::Int);
        }
        if text.contains(['.', 'e', 'E']) {
            let parts = text.split(['.', 'e', 'E', '+', '-']);
            for part in parts.filter(|part| !part.is_empty()) {
                grouped(part)?;
            }
            return text.replace('_', "").parse().ok().map(Literal::Float);
        }
        let digits = grouped(text)?;
        if digits.starts_with('0') && digits.bytes().any(|b| b != b'0') {
            return None;
        }
        (digits.len() <= DIGITS_MAX).then(|| digits.parse().ok().map(Literal::Int))?
    }
}

/// Where a decimal number ends: digits, a point, digits, an exponent.
fn decimal_end(bytes: &[u8]) -> Option<usize> {
    let digit = |at: usize| {
        bytes
            .get(at)
            .is_some_and(|b| b.is_ascii_digit() || *b == b'_')
    };
    let mut at = 0;
    while digit(at) {
        at += 1;
    }
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        while digit(at) {
            at += 1;
        }
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        if bytes.get(at + 1 + sign).is_some_and(u8::is_ascii_digit) {
            at += 1 + sign;
            while digit(at) {
                at += 1;
            }
        }
    }
    Some(at)
}

fn begins_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Digits without the single `_` between them.
fn grouped(text: &str) -> Option<String> {
    let odd = text.starts_with('_') || text.ends_with('_') || text.contains("__");
    (!odd && !text.is_empty()).then(|| text.replace('_', ""))
}

fn whole(digits: &str, base: u32) -> Option<f64> {
    let mut number = 0.0;
    for c in digits.chars() {
        number = number * f64::from(base) + f64::from(c.to_digit(base)?);
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::Literal::{Bool, Float, Int, Null, Other};
    use super::*;

    #[test]
    fn no_output_of_a_probe_is_too_deep() {
        for deep in ["-", "(", "[", "{1:", "-("] {
            assert_eq!(literal(&deep.repeat(1_000_000)), None);
        }
    }

    #[test]
    fn literals_are_those_of_python() {
        let text = |text: &str| Some(Literal::Text(text.to_owned()));
        for (written, value) in [
            ("1", Some(Int(1.0))),
            (" \t-0x10 ", Some(Int(-16.0))),
            ("1_000", Some(Int(1000.0))),
            ("1__0", None),
            ("00", Some(Int(0.0))),
            ("0777", None),
            ("1e-3", Some(Float(0.001))),
            ("1.", Some(Float(1.0))),
            (".5 # half", Some(Float(0.5))),
            ("+-1", None),
            ("-(-1)", None),
            ("- (1)", Some(Int(-1.0))),
            ("-True", None),
            ("True", Some(Bool(true))),
            ("None", Some(Null)),
            ("true", None),
            ("nan", None),
            ("1 2", None),
            ("1 + 2", None),
            ("3j", Some(Other)),
            ("'a' \"b\"", text("ab")),
            ("r'\\d'", text("\\d")),
            ("'\\x41\\n\\d'", text("A\n\\d")),
            ("'a", None),
            ("b'a'", Some(Other)),
            ("(1)", Some(Int(1.0))),
            ("(1,)", Some(Other)),
            ("1,", Some(Other)),
            ("[1, {2: 3}, {4}, ()]", Some(Other)),
            ("[1 2]", None),
            ("{1: 2, 3}", None),
            ("f'x'", None),
            ("", None),
            ("yes", None),
            ("1\r", Some(Int(1.0))),
        ] {
            assert_eq!(literal(written), value, "of {written:?}");
        }
    }
}
