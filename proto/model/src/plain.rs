//! Texts of errors, as shown to people.

use std::borrow::Cow;

/// Returns a text without the kernel's error numbers, which mean nothing to a
/// person: `No such file or directory (os error 2)`. Logs keep the numbers.
pub fn plain(text: &str) -> Cow<'_, str> {
    const BEGIN: &str = " (os error ";
    if !text.contains(BEGIN) {
        return Cow::Borrowed(text);
    }
    let mut said = String::with_capacity(text.len());
    let mut parts = text.split(BEGIN);
    said.extend(parts.next());
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
        match rest.strip_prefix(')') {
            Some(rest) if rest.len() + 1 < part.len() => said.push_str(rest),
            Some(_) | None => {
                said.push_str(BEGIN);
                said.push_str(part);
            }
        }
    }
    Cow::Owned(said)
}

/// The same of an owned text.
pub fn plain_owned(text: String) -> String {
    match plain(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(said) => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_numbers_are_left_out() {
        let real = std::io::Error::from_raw_os_error(2).to_string();
        let cases = [
            (real.as_str(), "No such file or directory"),
            ("a: b (os error 13): c (os error -1) d", "a: b: c d"),
            ("nothing of it", "nothing of it"),
            ("a (os error ) b", "a (os error ) b"),
            ("a (os error x) b (os error 5)", "a (os error x) b"),
            ("cut (os error 1", "cut (os error 1"),
        ];
        for (text, said) in cases {
            assert_eq!(plain(text), said);
            assert_eq!(plain_owned(text.to_owned()), said);
        }
    }
}
