//! Format specifications behind the colon of a place: `:03d`, `:.2f`, `:>5`.
//!
//! Numbers come out as Python prints them, since the original's templates were
//! written for it. What is not understood is refused, never half applied.

use crate::definition::{Param, Value};
use nero_model::safe::quoted;
use nero_model::whole::digits;

/// A format specification: `[[fill]align][sign][0][width][.precision][type]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spec {
    fill: char,
    align: Option<char>,
    sign: Option<char>,
    width: usize,
    precision: Option<usize>,
    kind: Option<char>,
}

/// No argument is padded further, no number has more digits.
const WIDTH_MAX: usize = 1000;

impl Spec {
    /// Parses a specification; `None` for what is not built.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let chars: Vec<char> = text.chars().collect();
        let mut at = 0;
        let is_align = |c: Option<&char>| matches!(c, Some('<' | '>' | '^' | '='));
        let mut spec = Self {
            fill: ' ',
            align: None,
            sign: None,
            width: 0,
            precision: None,
            kind: None,
        };
        if is_align(chars.get(1)) {
            spec.fill = chars[0];
            spec.align = Some(chars[1]);
            at = 2;
        } else if is_align(chars.first()) {
            spec.align = Some(chars[0]);
            at = 1;
        }
        if let Some(sign @ ('+' | '-' | ' ')) = chars.get(at) {
            spec.sign = Some(*sign);
            at += 1;
        }
        if chars.get(at) == Some(&'0') {
            if spec.align.is_none() {
                spec.fill = '0';
                spec.align = Some('=');
            }
            at += 1;
        }
        let digits = |from: usize| {
            let length = chars[from..].iter().take_while(|c| c.is_ascii_digit());
            let length = length.count();
            (
                from + length,
                chars[from..from + length].iter().collect::<String>(),
            )
        };
        let (next, width) = digits(at);
        at = next;
        if !width.is_empty() {
            spec.width = width.parse().ok().filter(|w| *w <= WIDTH_MAX)?;
        }
        if chars.get(at) == Some(&'.') {
            let (next, precision) = digits(at + 1);
            at = next;
            spec.precision = Some(precision.parse().ok().filter(|p| *p <= WIDTH_MAX)?);
        }
        if let Some(kind) = chars.get(at) {
            if !"dfFeEgG%sxXob".contains(*kind) {
                return None;
            }
            spec.kind = Some(*kind);
            at += 1;
        }
        (at == chars.len()).then_some(spec)
    }

    /// Formats as Python does, except that text without a type keeps its letters.
    pub(crate) fn format(&self, param: &Param) -> Result<String, String> {
        let refuse = |what: &str| {
            let kind = self.kind.map_or(String::new(), |k| format!(" `{k}`"));
            Err(format!(
                "the format{kind} does not fit {} = {}: {what}",
                quoted(&param.name),
                quoted(&param.text)
            ))
        };
        let number = match &param.value {
            Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
            value => value.number(),
        };
        let is_text = matches!(param.value, Value::Text(_) | Value::Null | Value::Bool(_));
        match self.kind {
            None | Some('s') if is_text => self.text(&param.text),
            Some('s') => refuse("it is a number"),
            Some('d' | 'x' | 'X' | 'o' | 'b') => match &param.value {
                _ if self.precision.is_some() => refuse("whole numbers have no precision"),
                Value::Int(n) => Ok(self.padded(*n < 0, &whole(n.unsigned_abs(), self.kind))),
                Value::Float(_) if self.kind == Some('d') => match digits(&param.text) {
                    Some(digits) => {
                        let unsigned = digits.trim_start_matches('-');
                        Ok(self.padded(unsigned.len() < digits.len(), unsigned))
                    }
                    None => refuse("it is no whole number"),
                },
                Value::Bool(truth) => Ok(self.padded(false, &whole(u64::from(*truth), self.kind))),
                _ => refuse("it is no whole number"),
            },
            None if self.precision.is_none() => {
                // Python prints a number anew here; ours keep the text they have.
                let negative = param.text.starts_with('-');
                let text = param.text.trim_start_matches(['-', '+']);
                Ok(self.padded(negative, text))
            }
            None if matches!(param.value, Value::Int(_)) => {
                refuse("whole numbers have no precision")
            }
            Some(_) | None => match number {
                None => refuse("it is no number"),
                Some(x) if !x.is_finite() => {
                    Ok(self.padded(x < 0.0, if x.is_nan() { "nan" } else { "inf" }))
                }
                Some(x) => Ok(self.padded(x.is_sign_negative(), &self.float(x.abs()))),
            },
        }
    }

    fn text(&self, text: &str) -> Result<String, String> {
        if self.sign.is_some() || self.align == Some('=') {
            return Err(format!(
                "signs and zeros are for numbers, and {} is text",
                quoted(text)
            ));
        }
        let cut = text.chars().take(self.precision.unwrap_or(usize::MAX));
        let cut: String = cut.collect();
        Ok(self.aligned(&cut, '<'))
    }

    fn float(&self, x: f64) -> String {
        let precision = self.precision.unwrap_or(6);
        match self.kind {
            Some('f' | 'F') => format!("{x:.precision$}"),
            Some('%') => format!("{:.precision$}%", x * 100.0),
            Some('e') => exponential(x, precision),
            Some('E') => exponential(x, precision).to_uppercase(),
            Some('G') => general(x, precision).to_uppercase(),
            Some(_) => general(x, precision),
            None => {
                let text = general(x, precision);
                let whole = text.bytes().all(|b| b.is_ascii_digit());
                if whole { format!("{text}.0") } else { text }
            }
        }
    }

    /// A number without its sign, padded.
    fn padded(&self, negative: bool, digits: &str) -> String {
        let sign = match (negative, self.sign) {
            (true, _) => "-",
            (false, Some('+')) => "+",
            (false, Some(' ')) => " ",
            (false, _) => "",
        };
        if self.align == Some('=') {
            let used = sign.len() + digits.chars().count();
            let fill: String =
                std::iter::repeat_n(self.fill, self.width.saturating_sub(used)).collect();
            return format!("{sign}{fill}{digits}");
        }
        self.aligned(&format!("{sign}{digits}"), '>')
    }

    fn aligned(&self, text: &str, default: char) -> String {
        let missing = self.width.saturating_sub(text.chars().count());
        let left = match self.align.unwrap_or(default) {
            '<' => 0,
            '^' => missing / 2,
            _ => missing,
        };
        let fill = |count| std::iter::repeat_n(self.fill, count).collect::<String>();
        format!("{}{text}{}", fill(left), fill(missing - left))
    }
}

fn whole(n: u64, kind: Option<char>) -> String {
    match kind {
        Some('x') => format!("{n:x}"),
        Some('X') => format!("{n:X}"),
        Some('o') => format!("{n:o}"),
        Some('b') => format!("{n:b}"),
        _ => n.to_string(),
    }
}

/// `1.50e-03`: Python's exponent has a sign and two digits.
fn exponential(x: f64, precision: usize) -> String {
    let text = format!("{x:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// Python's `g`: significant digits, an exponent where it is shorter, no trailing zeros.
fn general(x: f64, precision: usize) -> String {
    let precision = precision.max(1);
    let scientific = exponential(x, precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let wide = i64::try_from(precision).unwrap_or(i64::MAX);
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if (-4..wide).contains(&exponent) {
        let places = usize::try_from(wide - 1 - exponent).unwrap_or(0);
        return trim(&format!("{x:.places$}"));
    }
    let tail = &scientific[mantissa.len()..];
    format!("{}{tail}", trim(mantissa))
}
