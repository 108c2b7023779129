//! Text from jobs, files and other machines, made safe to show: no character of
//! it acts on a terminal.

use std::fmt;

/// Shows text with every byte that could act made visible: control
/// characters (but line feed and tab in [`Safe::lines`]), C1 controls,
/// bidirectional overrides and invalid UTF-8.
#[derive(Clone, Copy)]
pub struct Safe<'a> {
    bytes: &'a [u8],
    lines: bool,
}

impl<'a> Safe<'a> {
    /// For one line: line feeds and tabs are escaped too.
    pub fn line(text: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self {
            bytes: text.as_ref(),
            lines: false,
        }
    }

    /// For several lines: line feeds and tabs pass.
    pub fn lines(text: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self {
            bytes: text.as_ref(),
            lines: true,
        }
    }
}

impl fmt::Display for Safe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for chunk in self.bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\n' | '\t' if self.lines => f.write_char(c)?,
                    '\n' => f.write_str("\\n")?,
                    '\t' => f.write_str("\\t")?,
                    '\r' => f.write_str("\\r")?,
                    c if acts(c) => write!(f, "{}", c.escape_unicode())?,
                    c => f.write_char(c)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Safe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A word between backticks, safe and at most 60 characters long.
pub fn quoted(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    let safe = Safe::line(text).to_string();
    match safe.char_indices().nth(CHARS_MAX) {
        Some((cut, _)) => format!("`{}…`", &safe[..cut]),
        None => format!("`{safe}`"),
    }
}

/// Whether a character could do anything but appear.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Whether a variable's value must not be shown.
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["TOKEN", "KEY", "PASSWORD", "PASSWD", "SECRET", "CREDENTIAL"]
        .iter()
        .any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_that_acts_gets_through() {
        let hostile = b"\x1b]52;c;aGk=\x07 \x9b31m \xc2\x9d title \xe2\x80\xae abc \xff\0";
        let shown = Safe::lines(hostile).to_string();
        assert!(
            shown.chars().all(|c| c == '\n' || c == '\t' || !acts(c)),
            "{shown}"
        );
        assert!(shown.contains("\\u{1b}") && shown.contains("\\xff"));
    }

    #[test]
    fn quoted_text_is_safe_and_short() {
        assert_eq!(quoted("a\u{1b}[31m\n"), "`a\\u{1b}[31m\\n`");
        assert_eq!(quoted(&"é".repeat(90)), format!("`{}…`", "é".repeat(60)));
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        assert_eq!(
            Safe::lines("höhe 5 µm\n\tok").to_string(),
            "höhe 5 µm\n\tok"
        );
        assert_eq!(Safe::line("a\nb\tc").to_string(), "a\\nb\\tc");
    }
}
