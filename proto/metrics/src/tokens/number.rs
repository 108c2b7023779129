//! Numbers as jobs print them.
//!
//! Read are decimal numbers with an optional sign, fraction and exponent (also
//! Fortran's `1.0D-03`), `nan`, `inf` and `infinity` in any case, and what
//! wraps a number in Python: `tensor(0.3, …)`, `np.float64(0.3)`. A `%` that
//! touches the number, or stands one blank behind it, makes it a fraction, as it
//! does in expressions: `35%` and `35 %` are 0.35. A number that is too large
//! becomes infinite, as in the job itself.
//!
//! Not read, since a guess would be worse than silence: hexadecimal numbers,
//! numbers with a comma (`0,25`, `1,234` and `1.234,5` mean different things in
//! different countries, or are lists), the begin of a longer time (`1 day,
//! 3:11:22`), and anything glued to letters (`3.2s`, `12GB`, `1.2.3`, `10:30`,
//! `3/4`).

/// A number and its length in bytes, a `%` included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// The number.
    pub value: f64,
    /// Bytes it took.
    pub length: usize,
    /// Whether it was written without point, exponent and unit.
    pub whole: bool,
    /// Whether its unit is one of time.
    pub is_time: bool,
}

/// Length from which numbers with Fortran's exponent or `%` are not read exactly.
const COPIED_BYTES_MAX: usize = 64;
/// Longest unit behind a number.
const UNIT_BYTES_MAX: usize = 4;
/// Words behind a number that make it a part of a longer time.
const TIME_WORDS: [&[u8]; 8] = [
    b"day", b"days", b"hour", b"hours", b"week", b"weeks", b"minute", b"minutes",
];

/// Reads the number at the start of `text`; any text may follow.
#[inline]
pub fn prefix(text: &[u8]) -> Option<Number> {
    let (negative, signed) = match text.first()? {
        b'-' => (true, 1),
        b'+' => (false, 1),
        _ => (false, 0),
    };
    let rest = &text[signed..];
    let (value, length, whole) = match rest.first()? {
        b'0'..=b'9' => decimal(rest)?,
        b'.' if rest.get(1).is_some_and(u8::is_ascii_digit) => decimal(rest)?,
        b'n' | b'N' | b'i' | b'I' => parse_word(rest)?,
        _ => return None,
    };
    let is_percent = rest.get(length) == Some(&b'%');
    let value = if is_percent {
        percent(&rest[..length], value)
    } else {
        value
    };
    Some(Number {
        value: if negative { -value } else { value },
        length: signed + length + usize::from(is_percent),
        whole: whole && !is_percent,
        is_time: false,
    })
}

/// Converts a percentage to a fraction: exactly 0.458 for `45.8`.
fn percent(digits: &[u8], value: f64) -> f64 {
    if let Some(short) = ShortDecimal::read(digits).filter(|short| short.length == digits.len()) {
        return short.below(2);
    }
    let mut copy = [0; COPIED_BYTES_MAX];
    let is_plain = digits.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    let exact = match copy.get_mut(..digits.len() + 3) {
        Some(whole) if is_plain => {
            whole[..digits.len()].copy_from_slice(digits);
            whole[digits.len()..].copy_from_slice(b"e-2");
            fast_float2::parse(&*whole).ok()
        }
        Some(_) | None => None,
    };
    exact.unwrap_or(value / 100.0)
}

/// Whether a number may begin with a byte.
#[inline]
pub fn begins(byte: &u8) -> bool {
    matches!(
        byte,
        b'0'..=b'9' | b'+' | b'-' | b'.' | b'n' | b'N' | b'i' | b'I'
    )
}

/// Reads a number that fills `text` from the first byte to the last.
pub fn all(text: &[u8]) -> Option<f64> {
    whole(text).map(|number| number.value)
}

/// Reads a number that fills `text`, with what is known of it.
#[inline]
pub fn whole(text: &[u8]) -> Option<Number> {
    // Most words are told by one byte.
    if !matches!(text.last()?, b'0'..=b'9' | b'.' | b'%' | b'a'..=b'z' | b'A'..=b'Z') {
        return None;
    }
    prefix(text).filter(|number| number.length == text.len())
}

/// A number to the end of `text`, perhaps with a unit (`142.54ms` is 0.14254,
/// as in expressions) and with something in brackets behind it: `6.91 (6.95)`.
pub fn measured(text: &[u8]) -> Option<f64> {
    let text = match memchr::memchr(b'(', text) {
        Some(open) if text.ends_with(b")") => text[..open].trim_ascii_end(),
        _ => text,
    };
    let number = prefix(text)?;
    let number = with_unit(text, number).unwrap_or(number);
    (number.length == text.len()).then_some(number.value)
}

/// The number at the start of `text` in seconds, bytes or as a fraction, where a
/// unit touches it or stands one blank behind it. A letter alone but `s` and `B`
/// is no unit: `2.35G` may be many things.
#[inline]
pub fn with_unit(text: &[u8], number: Number) -> Option<Number> {
    const KB: f64 = 1024.0;
    let behind = &text[number.length..];
    let blank = usize::from(behind.first() == Some(&b' '));
    let behind = &behind[blank..];
    if blank == 1 && behind.first() == Some(&b'%') {
        let is_percent = !behind.get(1).is_some_and(u8::is_ascii_alphanumeric);
        return is_percent.then(|| Number {
            value: signed_percent(&text[..number.length], number.value),
            length: number.length + 2,
            whole: false,
            ..number
        });
    }
    let letters = behind
        .iter()
        .take(UNIT_BYTES_MAX + 1)
        .take_while(|b| b.is_ascii_alphabetic() || **b >= 0x80)
        .count();
    let (scale, is_time) = match &behind[..letters] {
        b"ns" => (1e-9, true),
        b"us" | b"\xc2\xb5s" | b"\xce\xbcs" => (1e-6, true),
        b"ms" => (1e-3, true),
        b"s" => (1.0, true),
        b"min" | b"mins" => (60.0, true),
        b"h" => (3600.0, true),
        b"B" => (1.0, false),
        b"KB" | b"KiB" | b"kB" => (KB, false),
        b"MB" | b"MiB" => (KB * KB, false),
        b"GB" | b"GiB" => (KB * KB * KB, false),
        b"TB" | b"TiB" => (KB * KB * KB * KB, false),
        _ => return None,
    };
    if is_time && is_followed_by_time(&behind[letters..]) {
        return None;
    }
    // Division keeps 142.54 ms at exactly 0.14254.
    let value = match scale {
        small if small < 1.0 => number.value / (1.0 / small).round(),
        large => number.value * large,
    };
    Some(Number {
        value,
        length: number.length + blank + letters,
        whole: false,
        is_time,
    })
}

/// Whether a time goes on behind its first unit: `1h 2m`, `2 hours 3 minutes`.
fn is_followed_by_time(rest: &[u8]) -> bool {
    let Some(next) = rest.strip_prefix(b" ") else {
        return rest.first().is_some_and(u8::is_ascii_digit);
    };
    let digits = next.iter().take_while(|b| b.is_ascii_digit()).count();
    let behind = &next[digits..];
    let behind = behind.strip_prefix(b" ").unwrap_or(behind);
    let letters = behind.iter().take_while(|b| b.is_ascii_alphabetic());
    let unit = &behind[..letters.count()];
    let is_unit = matches!(unit, b"m" | b"s" | b"ms" | b"min" | b"mins" | b"sec");
    digits > 0 && (is_unit || unit.starts_with(b"minute") || unit.starts_with(b"second"))
}

/// Whether a value may end before `rest`: nothing is glued to it.
#[inline]
pub fn ends(rest: &[u8]) -> bool {
    match rest {
        [] | [b'.' | b','] => true,
        [b'.', next, ..] => next.is_ascii_whitespace(),
        // A decimal comma, a thousands separator or a list: no value.
        [b',', next, ..] => !next.is_ascii_digit(),
        [byte, ..] => {
            byte.is_ascii_whitespace() || matches!(byte, b';' | b'|' | b')' | b']' | b'}')
        }
    }
}

fn decimal(rest: &[u8]) -> Option<(f64, usize, bool)> {
    match ShortDecimal::read(rest) {
        Some(short) => Some((short.below(0), short.length, short.whole)),
        None => any_decimal(rest),
    }
}

fn any_decimal(rest: &[u8]) -> Option<(f64, usize, bool)> {
    let (value, length) = fast_float2::parse_partial::<f64, _>(rest).ok()?;
    let whole = rest[..length].iter().all(u8::is_ascii_digit);
    match rest.get(length) {
        Some(b'd' | b'D') => fortran(rest, length),
        Some(b'_') if whole => grouped(rest),
        _ => Some((value, length, whole)),
    }
}

/// A decimal number of few digits without an exponent, as most are.
struct ShortDecimal {
    /// All digits, without the point.
    digits: u64,
    /// Digits behind the point.
    fraction: usize,
    length: usize,
    /// Whether it was written without a point.
    whole: bool,
}

impl ShortDecimal {
    /// The number at the start of `text`, if it is short and does not go on in another way.
    #[inline]
    fn read(text: &[u8]) -> Option<Self> {
        // A longer number.
        if text.get(DIGITS_MAX).is_some_and(u8::is_ascii_digit) {
            return None;
        }
        let near = &text[..text.len().min(DIGITS_MAX + 1)];
        let mut digits = 0;
        let mut length = take_digits(near, 0, &mut digits);
        let (mut fraction, mut whole) = (0, true);
        if near.get(length) == Some(&b'.') {
            let point = length;
            length = take_digits(near, point + 1, &mut digits);
            (fraction, whole) = (length - point - 1, false);
            if fraction == 0 || near.get(length) == Some(&b'.') {
                return None;
            }
        }
        let goes_on = matches!(near.get(length), Some(b'_' | b'e' | b'E' | b'd' | b'D'));
        (length <= DIGITS_MAX && !goes_on).then_some(Self {
            digits,
            fraction,
            length,
            whole,
        })
    }

    /// The number divided by a power of ten. Its digits and the power are exact, so their quotient
    /// is the nearest float, as a parser of all numbers gives it.
    #[inline]
    fn below(&self, power: usize) -> f64 {
        self.digits as f64 / POWERS[self.fraction + power]
    }
}

/// The number that the digits at the start of a text are, and how many these are.
#[inline]
pub fn digits(text: &[u8]) -> Option<(f64, usize)> {
    let mut number = 0;
    let short = take_digits(&text[..text.len().min(DIGITS_MAX + 1)], 0, &mut number);
    if (1..=DIGITS_MAX).contains(&short) {
        return Some((number as f64, short));
    }
    let length = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let text = std::str::from_utf8(&text[..length]).ok()?;
    Some((text.parse().ok()?, length))
}

/// Appends digits from `from` on to a number; returns their end.
#[inline]
fn take_digits(text: &[u8], from: usize, number: &mut u64) -> usize {
    let mut at = from;
    while let Some(byte) = text.get(at)
        && byte.is_ascii_digit()
    {
        *number = *number * 10 + u64::from(byte - b'0');
        at += 1;
    }
    at
}

/// Digits of a number that a float holds exactly.
const DIGITS_MAX: usize = 15;
/// Powers of ten, all exact.
const POWERS: [f64; DIGITS_MAX + 3] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17,
];

/// `1.0D-03`: the same with `e`.
fn fortran(rest: &[u8], mantissa: usize) -> Option<(f64, usize, bool)> {
    let mut copy = [0; COPIED_BYTES_MAX];
    let length = rest.len().min(COPIED_BYTES_MAX);
    copy[..length].copy_from_slice(&rest[..length]);
    *copy.get_mut(mantissa)? = b'e';
    let (value, taken) = fast_float2::parse_partial::<f64, _>(&copy[..length]).ok()?;
    (taken > mantissa + 1).then_some((value, taken, false))
}

/// `1_234_567`, as Python and Rust write it.
fn grouped(rest: &[u8]) -> Option<(f64, usize, bool)> {
    let mut digits = [0; COPIED_BYTES_MAX];
    let mut count = 0;
    let mut length = 0;
    while let Some(byte) = rest.get(length) {
        let is_between = *byte == b'_' && rest.get(length + 1).is_some_and(u8::is_ascii_digit);
        if byte.is_ascii_digit() {
            *digits.get_mut(count)? = *byte;
            count += 1;
        } else if !is_between {
            break;
        }
        length += 1;
    }
    let value = fast_float2::parse(&digits[..count]).ok()?;
    Some((value, length, true))
}

fn parse_word(rest: &[u8]) -> Option<(f64, usize, bool)> {
    let length = rest
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric())
        .count();
    let is = |word: &str| rest[..length].eq_ignore_ascii_case(word.as_bytes());
    if is("nan") {
        Some((f64::NAN, length, false))
    } else if is("inf") || is("infinity") {
        Some((f64::INFINITY, length, false))
    } else {
        None
    }
}

/// Prefixes of a number in Python's `repr`.
const WRAPPERS: [&[u8]; 7] = [
    b"tensor(",
    b"np.float64(",
    b"np.float32(",
    b"np.float16(",
    b"np.int64(",
    b"np.int32(",
    b"array(",
];

/// Reads a value at the start of `text`, with nothing glued to it: a number, a
/// number in quotes, or a number in a wrapper.
#[inline]
pub fn value(text: &[u8]) -> Option<Number> {
    // Most texts behind a sign are no value; one byte decides that.
    match text.first()? {
        b'0'..=b'9' | b'+' | b'-' | b'.' | b'i' | b'I' | b'N' => plain(text),
        quote @ (b'"' | b'\'') => {
            let number = prefix(&text[1..])?;
            (text.get(1 + number.length) == Some(quote)).then_some(Number {
                length: number.length + 2,
                ..number
            })
        }
        b'n' => wrapped(text).or_else(|| plain(text)),
        b't' | b'a' => wrapped(text),
        _ => None,
    }
}

#[inline]
fn plain(text: &[u8]) -> Option<Number> {
    let number = prefix(text)?;
    let rest = &text[number.length..];
    let may_have_unit = match rest {
        [b' ', next, ..] => *next == b'%' || next.is_ascii_alphabetic() || *next >= 0x80,
        [next, ..] => next.is_ascii_alphabetic() || *next >= 0x80,
        [] => false,
    };
    if may_have_unit
        && let Some(measured) = with_unit(text, number)
        && ends(&text[measured.length..])
    {
        return Some(measured);
    }
    let is_part_of_time = || begins_with_time_word(&rest[1..]);
    let is_value = match rest {
        [b' ', b'd' | b'h' | b'm' | b'w', ..] => !is_part_of_time(),
        _ => ends(rest),
    };
    is_value.then_some(number)
}

/// The fraction that a percentage with a sign means, of this value as it is written.
pub fn signed_percent(text: &[u8], value: f64) -> f64 {
    let digits = match text {
        [b'+' | b'-', digits @ ..] => digits,
        digits => digits,
    };
    percent(digits, value.abs()).copysign(value)
}

fn begins_with_time_word(text: &[u8]) -> bool {
    let length = text.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    // `3 days: 5` begins a pair of its own.
    text.get(length) != Some(&b':')
        && text.get(length) != Some(&b'=')
        && TIME_WORDS.contains(&&text[..length])
}

fn wrapped(text: &[u8]) -> Option<Number> {
    let wrapper = WRAPPERS.iter().find(|wrapper| text.starts_with(wrapper))?;
    let number = prefix(&text[wrapper.len()..])?;
    let behind = wrapper.len() + number.length;
    let length = match text.get(behind)? {
        b')' => behind + 1,
        b',' => behind,
        _ => return None,
    };
    Some(Number { length, ..number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_whole() {
        for (text, want) in [
            ("0", 0.0),
            ("3", 3.0),
            ("-3.25", -3.25),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("1e-3", 1e-3),
            ("2.5E+10", 2.5e10),
            ("1.0D-03", 1e-3),
            ("-4d2", -400.0),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("1e309", f64::INFINITY),
            ("-1e400", f64::NEG_INFINITY),
            ("5e-324", 5e-324),
            ("40%", 0.4),
            ("45.8%", 0.458),
            ("-45.8%", -0.458),
            ("0000012", 12.0),
            ("1_234_567", 1_234_567.0),
        ] {
            assert_eq!(all(text.as_bytes()), Some(want), "{text}");
        }
        assert!(all(b"nan").unwrap().is_nan());
        assert!(all(b"-NaN").unwrap().is_nan());
        assert!(all(b"-0").unwrap().is_sign_negative());
        assert_eq!(all("9".repeat(400).as_bytes()), Some(f64::INFINITY));
        let long = format!("0.{}", "3".repeat(400));
        assert_eq!(all(long.as_bytes()), Some(1.0 / 3.0));
    }

    #[test]
    fn a_text_that_is_no_number_has_no_value() {
        for text in [
            "",
            "-",
            "+",
            ".",
            "e5",
            "1e",
            "1e+",
            "0x1p3",
            "0x10",
            "1.2.3",
            "1_000_",
            "_1",
            "1,234.5",
            "--1",
            "+-1",
            "nanometer",
            "info",
            "1.0d",
            "3s",
            "½",
        ] {
            assert_eq!(all(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_value_has_nothing_glued_to_it() {
        for (text, want) in [
            ("0.3", Some(0.3)),
            ("0.3, next", Some(0.3)),
            ("0.3. Done", Some(0.3)),
            ("0.3.", Some(0.3)),
            ("0.3)", Some(0.3)),
            ("'0.3'", Some(0.3)),
            ("\"-1\"}", Some(-1.0)),
            ("tensor(0.25, device='cuda:0')", Some(0.25)),
            ("np.float64(0.5)", Some(0.5)),
            ("nan", None),
            ("5,acc=1", Some(5.0)),
            ("0.5,100", None),
            ("0,25", None),
            ("1.234,5", None),
            ("3,", Some(3.0)),
            ("45.8 %", Some(0.458)),
            ("-45.8 %, x", Some(-0.458)),
            ("55 %", Some(0.55)),
            ("45.8%", Some(0.458)),
            ("55 %s", Some(55.0)),
            ("1 day, 3:11:22", None),
            ("2 hours 3 minutes", None),
            ("3 days: 5", Some(3.0)),
            ("1.2min", Some(72.0)),
            ("90 min, x", Some(5400.0)),
            ("3h", Some(10800.0)),
            ("2 hours", None),
            ("1h 2m", None),
            ("1h2m", None),
            ("5 min 3", Some(300.0)),
            ("3 daily", Some(3.0)),
            ("1,234.5", None),
            ("1,234", None),
            ("10:30", None),
            ("3/4", None),
            ("3.2s", Some(3.2)),
            ("142.54ms, x", Some(0.14254)),
            ("142.54 ms", Some(0.14254)),
            ("12GB", Some(12.0 * 1024.0 * 1024.0 * 1024.0)),
            ("5 µs", Some(5e-6)),
            ("2.35G", None),
            ("30ms/step", None),
            ("3 ms/step", Some(3.0)),
            ("5 sheep", Some(5.0)),
            ("1.2.3", None),
            ("'0.3", None),
            ("2024-01-01", None),
            ("tensor([1, 2])", None),
        ] {
            let found = value(text.as_bytes()).map(|number| number.value);
            match want {
                Some(_) => assert_eq!(found, want, "{text}"),
                None if text == "nan" => assert!(found.unwrap().is_nan()),
                None => assert_eq!(found, None, "{text}"),
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn a_short_number_is_the_float_that_any_reader_gives(text in "[0-9]{0,12}[.]?[0-9]{0,9}([eE][-+]?[0-9]{0,3})?[-+0-9.,_eEdDx%]{0,3}") {
            let text = text.as_bytes();
            if text.first().is_some_and(u8::is_ascii_digit) {
                proptest::prop_assert_eq!(decimal(text), any_decimal(text));
            }
        }
    }
}
