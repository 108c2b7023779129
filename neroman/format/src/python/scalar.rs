//! What PyYAML makes of a plain scalar: the words, numbers and times of YAML 1.1.

use super::object::Object;

/// Python refuses to convert longer numbers.
const DIGITS_MAX: usize = 4300;

/// How a plain scalar is read.
#[derive(Debug)]
pub enum Plain {
    /// As PyYAML reads it.
    Read(Object),
    /// PyYAML takes it for a number or a time, and crashes since there is none such.
    Impossible,
    /// The merge key `<<`, or `=`, which PyYAML knows as a key only.
    Sign,
}

/// Reads a plain scalar. The order of the tests is PyYAML's.
pub fn resolve(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Read(Object::Null),
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Plain::Read(Object::Bool(true));
        }
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Plain::Read(Object::Bool(false));
        }
        "<<" | "=" => return Plain::Sign,
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) {
        return Plain::Read(Object::Text(text.to_owned()));
    }
    if is_float(text) {
        return Plain::Read(Object::Float(float(text)));
    }
    if is_int(text) {
        return int(text).map_or(Plain::Impossible, |digits| Plain::Read(Object::Int(digits)));
    }
    match time(text) {
        Some(Some(time)) => Plain::Read(Object::Time(time)),
        Some(None) => Plain::Impossible,
        None => Plain::Read(Object::Text(text.to_owned())),
    }
}

/// Bytes that are yet to be matched.
#[derive(Clone, Copy)]
struct Rest<'t>(&'t [u8]);

impl<'t> Rest<'t> {
    fn take(&mut self, fits: impl Fn(u8) -> bool) -> bool {
        match self.0 {
            [first, rest @ ..] if fits(*first) => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn byte(&mut self, byte: u8) -> bool {
        self.take(|b| b == byte)
    }

    /// As many as fit; how many.
    fn many(&mut self, fits: impl Fn(u8) -> bool) -> usize {
        let count = self.0.iter().take_while(|b| fits(**b)).count();
        self.0 = &self.0[count..];
        count
    }

    fn sign(&mut self) {
        self.take(|b| b == b'-' || b == b'+');
    }

    /// From `least` to `most` digits.
    fn digits(&mut self, least: usize, most: usize) -> Option<&'t str> {
        let count = self.0.iter().take(most);
        let count = count.take_while(|b| b.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        let text = std::str::from_utf8(digits).expect("digits are text");
        (count >= least).then_some(text)
    }

    fn ended(&self) -> bool {
        self.0.is_empty()
    }

    /// `(?::[0-5]?[0-9])+`
    fn sixtieths(&mut self) -> bool {
        let mut some = false;
        while self.0.first() == Some(&b':') {
            let mut next = Rest(&self.0[1..]);
            let tens = matches!(next.0, [b'0'..=b'5', b'0'..=b'9', ..]);
            next.0 = &next.0[usize::from(tens)..];
            if !next.take(|b| b.is_ascii_digit()) {
                return some;
            }
            *self = next;
            some = true;
        }
        some
    }

    /// `(?:[eE][-+][0-9]+)?` up to the end.
    fn exponent_ends(mut self) -> bool {
        if self.ended() {
            return true;
        }
        self.take(|b| b == b'e' || b == b'E')
            && self.take(|b| b == b'-' || b == b'+')
            && self.many(|b| b.is_ascii_digit()) > 0
            && self.ended()
    }
}

fn is_spaced_digit(b: u8) -> bool {
    b.is_ascii_digit() || b == b'_'
}

fn is_float(text: &str) -> bool {
    let mut rest = Rest(text.as_bytes());
    if rest.byte(b'.') {
        // `.5`; a sign is not allowed here.
        if rest.take(|b| b.is_ascii_digit()) {
            rest.many(is_spaced_digit);
            return rest.exponent_ends();
        }
        return matches!(rest.0, b"nan" | b"NaN" | b"NAN" | b"inf" | b"Inf" | b"INF");
    }
    rest.sign();
    if matches!(rest.0, b".inf" | b".Inf" | b".INF") {
        return true;
    }
    if !rest.take(|b| b.is_ascii_digit()) {
        return false;
    }
    rest.many(is_spaced_digit);
    if rest.byte(b'.') {
        rest.many(is_spaced_digit);
        return rest.exponent_ends();
    }
    rest.sixtieths() && rest.byte(b'.') && {
        rest.many(is_spaced_digit);
        rest.ended()
    }
}

/// The value of what [`is_float`].
fn float(text: &str) -> f64 {
    let text = text.replace('_', "").to_ascii_lowercase();
    let (negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, &text[..]),
    };
    let value = match digits {
        ".inf" => f64::INFINITY,
        ".nan" => f64::NAN,
        _ => {
            let parts = digits.split(':').rev();
            let parse = |part: &str| part.parse::<f64>().expect("the form was tested");
            let mut base = 1.0;
            // A first summand of zero, as there, makes no difference.
            let mut sum = 0.0;
            for part in parts {
                sum += parse(part) * base;
                base *= 60.0;
            }
            sum
        }
    };
    if negative { -value } else { value }
}

fn is_int(text: &str) -> bool {
    let mut rest = Rest(text.as_bytes());
    rest.sign();
    if rest.byte(b'0') {
        if rest.ended() {
            return true;
        }
        let mut based = rest;
        if based.byte(b'b') {
            return based.many(|b| matches!(b, b'0' | b'1' | b'_')) > 0 && based.ended();
        }
        if based.byte(b'x') {
            return based.many(|b| b.is_ascii_hexdigit() || b == b'_') > 0 && based.ended();
        }
        return rest.many(|b| matches!(b, b'0'..=b'7' | b'_')) > 0 && rest.ended();
    }
    if !rest.take(|b| b.is_ascii_digit()) {
        return false;
    }
    rest.many(is_spaced_digit);
    rest.ended() || (rest.sixtieths() && rest.ended())
}

/// The decimal digits of what [`is_int`]; `None` where Python has no such number.
fn int(text: &str) -> Option<String> {
    let text = text.replace('_', "");
    if text.len() > DIGITS_MAX {
        return None;
    }
    let (negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, &text[..]),
    };
    let mut number = Decimal::default();
    if let Some(digits) = digits.strip_prefix("0b") {
        number.push_all(digits, 2)?;
    } else if let Some(digits) = digits.strip_prefix("0x") {
        number.push_all(digits, 16)?;
    } else if digits.starts_with('0') {
        number.push_all(digits, 8)?;
    } else {
        let mut parts = digits.split(':');
        number.push_all(parts.next()?, 10)?;
        for part in parts {
            number.push(60, part.parse().ok()?);
        }
    }
    Some(number.text(negative))
}

/// A whole number of any size.
#[derive(Default)]
struct Decimal {
    /// Decimal digits, the last first.
    digits: Vec<u8>,
}

impl Decimal {
    fn push_all(&mut self, digits: &str, base: u32) -> Option<()> {
        if digits.is_empty() {
            return None;
        }
        for c in digits.chars() {
            self.push(base, c.to_digit(base)?);
        }
        Some(())
    }

    /// Multiplies with `base` and adds `digit`.
    fn push(&mut self, base: u32, digit: u32) {
        let mut carry = digit;
        for place in &mut self.digits {
            let value = u32::from(*place) * base + carry;
            *place = (value % 10) as u8;
            carry = value / 10;
        }
        while carry > 0 {
            self.digits.push((carry % 10) as u8);
            carry /= 10;
        }
    }

    fn text(&self, negative: bool) -> String {
        if self.digits.is_empty() {
            return "0".to_owned();
        }
        let digits = self.digits.iter().rev().map(|d| char::from(b'0' + d));
        let sign = negative.then_some('-');
        sign.into_iter().chain(digits).collect()
    }
}

/// Python's `str` of a date or time. The outer `None`: the text has not this form; the inner:
/// there is no such day or hour.
fn time(text: &str) -> Option<Option<String>> {
    let mut rest = Rest(text.as_bytes());
    let year = rest.digits(4, 4)?;
    rest.byte(b'-').then_some(())?;
    let month = rest.digits(1, 2)?;
    rest.byte(b'-').then_some(())?;
    let day = rest.digits(1, 2)?;
    if rest.ended() {
        // A date alone has two digits everywhere.
        (month.len() == 2 && day.len() == 2).then_some(())?;
        return Some(date(year, month, day));
    }
    let letter = rest.take(|b| b == b'T' || b == b't');
    (letter || rest.many(|b| b == b' ' || b == b'\t') > 0).then_some(())?;
    let hour = rest.digits(1, 2)?;
    rest.byte(b':').then_some(())?;
    let minute = rest.digits(2, 2)?;
    rest.byte(b':').then_some(())?;
    let second = rest.digits(2, 2)?;
    let mut fraction = "";
    if rest.byte(b'.') {
        fraction = rest.digits(0, usize::MAX)?;
    }
    rest.many(|b| b == b' ' || b == b'\t');
    let zone = zone(rest, text)?;
    let fits = number(hour) < 24 && number(minute) < 60 && number(second) < 60;
    let Some(zone) = zone.filter(|_| fits) else {
        return Some(None);
    };
    let micros = match fraction.get(..6).unwrap_or(fraction) {
        cut if number(cut) == 0 => String::new(),
        cut => format!(".{cut:0<6}"),
    };
    let date = date(year, month, day);
    Some(date.map(|date| format!("{date} {hour:0>2}:{minute}:{second}{micros}{zone}")))
}

/// The zone with which a time ends; blanks before none are no time.
fn zone(mut rest: Rest<'_>, text: &str) -> Option<Option<String>> {
    if rest.ended() {
        let blank = text.ends_with([' ', '\t']);
        return (!blank).then(|| Some(String::new()));
    }
    if rest.byte(b'Z') {
        return rest.ended().then(|| Some("+00:00".to_owned()));
    }
    let sign = rest.0.first().copied()?;
    rest.take(|b| b == b'-' || b == b'+').then_some(())?;
    let hours = rest.digits(1, 2)?;
    let mut minutes = "00";
    if rest.byte(b':') {
        minutes = rest.digits(2, 2)?;
    }
    rest.ended().then_some(())?;
    let total = number(hours) * 60 + number(minutes);
    if total >= 24 * 60 {
        return Some(None);
    }
    let sign = match total {
        0 => '+',
        _ => char::from(sign),
    };
    Some(Some(format!("{sign}{:02}:{:02}", total / 60, total % 60)))
}

fn date(year: &str, month: &str, day: &str) -> Option<String> {
    let (y, m, d) = (number(year), number(month), number(day));
    let leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let days = match m {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        _ => 0,
    };
    (y > 0 && (1..=days).contains(&d)).then(|| format!("{year}-{m:02}-{d:02}"))
}

/// A few digits.
fn number(digits: &str) -> u32 {
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(plain: &str) -> String {
        match resolve(plain) {
            Plain::Read(Object::Text(text)) => format!("'{text}'"),
            Plain::Read(object) => object.text(),
            Plain::Impossible => "impossible".to_owned(),
            Plain::Sign => "sign".to_owned(),
        }
    }

    #[test]
    fn plain_scalars_are_those_of_yaml_1_1_and_become_pythons_text() {
        for (plain, python) in [
            ("true", "True"),
            ("off", "False"),
            ("y", "'y'"),
            ("", "None"),
            ("~", "None"),
            ("1.0", "1.0"),
            ("0777", "511"),
            ("08", "'08'"),
            ("08.5", "8.5"),
            ("0o17", "'0o17'"),
            ("1e3", "'1e3'"),
            ("1.0e3", "'1.0e3'"),
            ("1.0e+3", "1000.0"),
            ("1_000", "1000"),
            ("0x1F", "31"),
            ("-0b101", "-5"),
            ("0b_", "impossible"),
            ("12:30:45", "45045"),
            ("1:30", "90"),
            ("01:30", "'01:30'"),
            ("190:20:30.15", "685230.15"),
            ("1:60", "'1:60'"),
            ("-.inf", "-inf"),
            (".NaN", "nan"),
            ("-.5", "'-.5'"),
            (".5", "0.5"),
            ("1.", "1.0"),
            ("-0", "0"),
            ("-0.0", "-0.0"),
            ("0xffffffffffffffffffff", "1208925819614629174706175"),
            ("2026-11-20", "2026-11-20"),
            ("2026-1-2", "'2026-1-2'"),
            ("2026-13-45", "impossible"),
            (
                "2001-12-14t21:59:43.10-05:00",
                "2001-12-14 21:59:43.100000-05:00",
            ),
            (
                "2001-12-14 21:59:43.10 -5",
                "2001-12-14 21:59:43.100000-05:00",
            ),
            ("2001-12-15 2:59:43.0", "2001-12-15 02:59:43"),
            ("2001-1-5 02:59:43Z", "2001-01-05 02:59:43+00:00"),
            ("2001-12-15 25:00:00", "impossible"),
            ("12:30:45.5x", "'12:30:45.5x'"),
            ("<<", "sign"),
        ] {
            assert_eq!(text(plain), python, "of {plain:?}");
        }
    }
}
