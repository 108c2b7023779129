//! Values of a file of YAML, and the text that Python's `str` makes of them.

use std::rc::Rc;

use nero_yaml::Mark;

/// A value with its place.
#[derive(Debug)]
pub struct Item {
    /// The value.
    pub object: Object,
    /// Where it begins.
    pub mark: Mark,
    /// A scalar as the file has it, quotes and escapes resolved; empty for others.
    pub written: String,
    /// Whether it is a scalar without quotes that is no block.
    pub plain: bool,
    /// Values in it, itself included, aliases followed.
    pub weight: usize,
}

/// What PyYAML makes of a node.
#[derive(Debug, Clone)]
pub enum Object {
    /// `None`
    Null,
    /// `True`, `False`
    Bool(bool),
    /// A whole number of any size, in decimal digits.
    Int(String),
    /// A floating-point number.
    Float(f64),
    /// Text.
    Text(String),
    /// A date or a time, as Python's `str` writes it.
    Time(String),
    /// A list.
    List(Vec<Rc<Item>>),
    /// A map in the order of Python's dict: a key that is given again keeps its place.
    Map(Vec<(Rc<Item>, Rc<Item>)>),
}

impl Object {
    /// Whether this is `None`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Python's `bool`.
    pub fn truth(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(truth) => *truth,
            Self::Int(digits) => digits != "0",
            Self::Float(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Time(_) => true,
            Self::List(items) => !items.is_empty(),
            Self::Map(entries) => !entries.is_empty(),
        }
    }

    /// A number; booleans are numbers in Python.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Bool(truth) => Some(f64::from(u8::from(*truth))),
            Self::Int(digits) => digits.parse().ok(),
            Self::Float(number) => Some(*number),
            Self::Null | Self::Text(_) | Self::Time(_) | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// Python's `str`.
    pub fn text(&self) -> String {
        if let Self::Text(text) = self {
            return text.clone();
        }
        let mut out = String::new();
        self.repr(&mut out);
        out
    }

    /// Python's `repr`; a time in a list is written as by `str`.
    fn repr(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("None"),
            Self::Bool(true) => out.push_str("True"),
            Self::Bool(false) => out.push_str("False"),
            Self::Int(digits) => out.push_str(digits),
            Self::Float(number) => out.push_str(&float_text(*number)),
            Self::Text(text) => quote(text, out),
            Self::Time(text) => out.push_str(text),
            Self::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    item.object.repr(out);
                }
                out.push(']');
            }
            Self::Map(entries) => {
                out.push('{');
                for (at, (key, value)) in entries.iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    key.object.repr(out);
                    out.push_str(": ");
                    value.object.repr(out);
                }
                out.push('}');
            }
        }
    }

    /// What it is, for messages.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::Time(_) => "a date",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// Python's `str` of a list of texts.
pub fn list_text(texts: &[String]) -> String {
    let quoted = texts.iter().map(|text| {
        let mut out = String::new();
        quote(text, &mut out);
        out
    });
    format!("[{}]", quoted.collect::<Vec<_>>().join(", "))
}

/// The shortest text that reads back as the same number, in Python's form: exponents from
/// 1e16 up and below 1e-4.
pub fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("`e` stands in it");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    if number != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{number}");
    if plain.contains('.') {
        plain
    } else {
        format!("{plain}.0")
    }
}

/// Python's quotes: single ones, unless the text holds these and no double ones.
fn quote(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                out.push_str(&match code {
                    0..=0xff => format!("\\x{code:02x}"),
                    0x100..=0xffff => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                });
            }
        }
    }
    out.push(quote);
}

/// Python's `str.isprintable` without its table of unassigned characters.
fn is_printable(c: char) -> bool {
    let invisible = matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}'
        | '\u{e0001}'..='\u{e007f}' | '\u{f0000}'..='\u{10ffff}');
    c == ' ' || !(c.is_control() || c.is_whitespace() || invisible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_python_writes_them() {
        for (number, text) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e3, "1000.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(float_text(number), text);
        }
    }
}
