//! Half-open ranges of numbers, computed in decimals.
//!
//! `[0, 1, 0.1]` has ten elements and the fourth is `0.3`: sums of floats would give
//! `0.30000000000000004` and, now and then, one element too many. Elements are made
//! one at a time, so that a huge range costs nothing until it was accepted.

/// A range with at least one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    start: i128,
    step: i128,
    /// All numbers are multiples of ten to this.
    exponent: i32,
    count: u128,
}

/// Why there is no such range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeError {
    /// The element with this index is no decimal number.
    NotANumber(usize),
    /// The step is zero.
    NoStep,
    /// The step leads away from the end, or start and end are equal.
    Empty,
    /// The digits of all three together do not fit.
    TooFarApart,
}

impl Range {
    /// The range of start, end and step as they were written.
    ///
    /// # Errors
    /// When there is no such range.
    pub fn new(written: [&str; 3]) -> Result<Self, RangeError> {
        let mut parts = [(0, 0); 3];
        for (index, text) in written.into_iter().enumerate() {
            parts[index] = decimal(text).ok_or(RangeError::NotANumber(index))?;
        }
        let exponent = parts.iter().map(|(_, e)| *e).min().unwrap_or(0);
        let mut scaled = [0i128; 3];
        for (index, (mantissa, e)) in parts.into_iter().enumerate() {
            let shift = u32::try_from(e - exponent).map_err(|_| RangeError::TooFarApart)?;
            scaled[index] = 10i128
                .checked_pow(shift)
                .and_then(|factor| mantissa.checked_mul(factor))
                .ok_or(RangeError::TooFarApart)?;
        }
        let [start, end, step] = scaled;
        if step == 0 {
            return Err(RangeError::NoStep);
        }
        let distance = end.checked_sub(start).ok_or(RangeError::TooFarApart)?;
        if distance == 0 || (distance > 0) != (step > 0) {
            return Err(RangeError::Empty);
        }
        let count = distance.unsigned_abs().div_ceil(step.unsigned_abs());
        Ok(Self {
            start,
            step,
            exponent,
            count,
        })
    }

    /// How many elements there are.
    pub fn count(&self) -> u128 {
        self.count
    }

    /// The shortest text of an element.
    pub fn text(&self, index: u128) -> String {
        print(self.element(index), self.exponent)
    }

    /// The text of an element, with all digits and no power of ten.
    pub fn plain_text(&self, index: u128) -> String {
        let (sign, digits, exponent) = shortened(self.element(index), self.exponent);
        format!("{sign}{}", positional(&digits, exponent))
    }

    /// An element without the power of ten.
    fn element(&self, index: u128) -> i128 {
        debug_assert!(index < self.count, "an element of the range");
        let index = i128::try_from(index).unwrap_or(i128::MAX);
        self.start + index * self.step
    }
}

/// Digits and a power of ten; `None` for anything else, also for more than fits.
fn decimal(text: &str) -> Option<(i128, i32)> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let unsigned = mantissa.strip_prefix(['+', '-']).unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let is_digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || whole.len() + fraction.len() == 0 {
        return None;
    }
    let mut digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let mut exponent = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    while digits != 0 && digits % 10 == 0 && exponent < 0 {
        digits /= 10;
        exponent += 1;
    }
    if digits == 0 {
        exponent = 0;
    }
    let negative = mantissa.starts_with('-');
    (exponent.abs() <= 400).then_some((if negative { -digits } else { digits }, exponent))
}

/// `0.3`, `100`, `1e-7`: positional between 1e-4 and 1e16, as Python prints.
fn print(mantissa: i128, exponent: i32) -> String {
    let (sign, digits, exponent) = shortened(mantissa, exponent);
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let lead = count + exponent - 1;
    if (-4..16).contains(&lead) {
        return format!("{sign}{}", positional(&digits, exponent));
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{point}{rest}e{lead}")
}

/// The sign of a number, its digits without zeros at their end, and the power of ten of the last.
fn shortened(mantissa: i128, mut exponent: i32) -> (&'static str, String, i32) {
    if mantissa == 0 {
        return ("", "0".into(), 0);
    }
    let mut value = mantissa.unsigned_abs();
    while value.is_multiple_of(10) {
        value /= 10;
        exponent += 1;
    }
    let sign = if mantissa < 0 { "-" } else { "" };
    (sign, value.to_string(), exponent)
}

/// The shortest text that reads back as this number, which is finite.
pub(crate) fn shortest(number: f64) -> String {
    match decimal(&format!("{number:e}")) {
        Some((digits, exponent)) => print(digits, exponent),
        None => number.to_string(),
    }
}

fn positional(digits: &str, exponent: i32) -> String {
    if exponent >= 0 {
        return format!("{digits}{}", "0".repeat(exponent.unsigned_abs() as usize));
    }
    let places = exponent.unsigned_abs() as usize;
    let padded = format!("{digits:0>width$}", width = places + 1);
    let (whole, fraction) = padded.split_at(padded.len() - places);
    format!("{whole}.{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(start: &str, end: &str, step: &str) -> Vec<String> {
        let range = Range::new([start, end, step]).expect("a range");
        (0..range.count()).map(|i| range.text(i)).collect()
    }

    #[test]
    fn ranges_are_half_open_and_exact() {
        let table: [(&str, &str, &str, &str); 9] = [
            ("0", "1", "0.1", "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9"),
            ("1", "10", "4", "1 5 9"),
            ("1", "9", "4", "1 5"),
            ("10", "0", "-5", "10 5"),
            ("0.10", "0.30", "0.10", "0.1 0.2"),
            ("1e-3", "3e-3", "1e-3", "0.001 0.002"),
            ("1e-7", "2.5e-7", "1e-7", "1e-7 2e-7"),
            ("-0.2", "0.2", "0.2", "-0.2 0"),
            ("100", "301", "100", "100 200 300"),
        ];
        for (start, end, step, want) in table {
            assert_eq!(all(start, end, step).join(" "), want);
        }
    }

    #[test]
    fn huge_ranges_are_counted_only() {
        let range = Range::new(["0", "1e30", "1e-3"]).expect("fits");
        assert_eq!(range.count(), 10u128.pow(33));
    }

    #[test]
    fn a_text_that_is_no_range_is_refused() {
        let table = [
            (["a", "1", "1"], RangeError::NotANumber(0)),
            (["0", "1", ""], RangeError::NotANumber(2)),
            (["0", "1", "."], RangeError::NotANumber(2)),
            (["0", "1e999999999999", "1"], RangeError::NotANumber(1)),
            (["0", "1", "0"], RangeError::NoStep),
            (["0", "1", "-1"], RangeError::Empty),
            (["1", "1", "1"], RangeError::Empty),
            (["0", "1e300", "1"], RangeError::TooFarApart),
        ];
        for (written, want) in table {
            assert_eq!(Range::new(written), Err(want), "{written:?}");
        }
    }

    proptest! {
        #[test]
        fn every_text_reads_back_as_the_same_number(m in any::<i64>(), e in -30i32..30) {
            let text = print(i128::from(m), e);
            let (digits, exponent) = decimal(&text).expect("a number");
            prop_assert_eq!(print(digits, exponent), text.clone());
            let want: f64 = format!("{m}e{e}").parse().expect("a number");
            prop_assert_eq!(text.parse::<f64>().expect("a number"), want);
        }
    }
}
