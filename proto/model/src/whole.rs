//! Whole numbers of any length, as text: no seed of 64 or 128 bits becomes another number.

use std::cmp::Ordering;

/// Most digits of a number in another base than ten; its conversion takes their square.
const BASED_MAX: usize = 1000;

/// The decimal digits of a whole number as people write it: `+007`, `1_000`, `0x1F` and `0o17`
/// are `7`, `1000`, `31` and `15`. `None` for any other text.
pub fn digits(text: &str) -> Option<String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = match unsigned.get(..2) {
        Some("0x") => decimal(&unsigned[2..], 16)?,
        Some("0o") => decimal(&unsigned[2..], 8)?,
        Some(_) | None => {
            let parts = unsigned.split('_');
            let is_part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            if !parts.clone().all(is_part) {
                return None;
            }
            parts.collect()
        }
    };
    let digits = match digits.trim_start_matches('0') {
        "" => return Some("0".to_owned()),
        digits => digits,
    };
    let sign = if text.starts_with('-') { "-" } else { "" };
    Some(format!("{sign}{digits}"))
}

/// The order of two whole numbers; `None` where a text is none.
pub fn order(left: &str, right: &str) -> Option<Ordering> {
    let (left, right) = (digits(left)?, digits(right)?);
    let size = |text: &str| {
        let digits = text.trim_start_matches('-');
        (digits.len(), digits.to_owned())
    };
    Some(match (left.starts_with('-'), right.starts_with('-')) {
        (false, false) => size(&left).cmp(&size(&right)),
        (true, true) => size(&right).cmp(&size(&left)),
        (is_negative, _) if is_negative => Ordering::Less,
        _ => Ordering::Greater,
    })
}

/// Decimal digits of a number in another base.
fn decimal(text: &str, radix: u32) -> Option<String> {
    if text.is_empty() || text.len() > BASED_MAX {
        return None;
    }
    // Lowest digit first.
    let mut digits: Vec<u32> = vec![0];
    for letter in text.chars() {
        let mut carry = letter.to_digit(radix)?;
        for digit in &mut digits {
            carry += *digit * radix;
            *digit = carry % 10;
            carry /= 10;
        }
        while carry > 0 {
            digits.push(carry % 10);
            carry /= 10;
        }
    }
    let letters = digits.iter().rev();
    letters.map(|digit| char::from_digit(*digit, 10)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_of_any_length_keep_their_digits() {
        let long = "340282366920938463463374607431768211455";
        let table = [
            ("0", Some("0")),
            ("-0", Some("0")),
            ("+007", Some("7")),
            ("-1_000", Some("-1000")),
            (long, Some(long)),
            ("0xffffffffffffffffffffffffffffffff", Some(long)),
            ("-0x1F", Some("-31")),
            ("0o17", Some("15")),
            ("1__0", None),
            ("_1", None),
            ("1.0", None),
            ("1e5", None),
            ("0x", None),
            ("0x+1", None),
            ("", None),
            ("-", None),
            ("٣", None),
        ];
        for (text, want) in table {
            assert_eq!(digits(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_ordered_by_all_their_digits() {
        let rising = [
            "-18446744073709551616",
            "-18446744073709551615",
            "-1",
            "0",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551615",
        ];
        for pair in rising.windows(2) {
            assert_eq!(order(pair[0], pair[1]), Some(Ordering::Less), "{pair:?}");
            assert_eq!(order(pair[1], pair[0]), Some(Ordering::Greater), "{pair:?}");
        }
        assert_eq!(order("0x10", "16"), Some(Ordering::Equal));
        assert_eq!(order("1.5", "2"), None);
    }
}
