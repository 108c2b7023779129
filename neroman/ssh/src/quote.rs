//! Command lines that mean the same to every login shell.
//!
//! `sshd` hands what we ask for to the account's login shell, be it sh, csh or
//! fish. All of them leave single-quoted text alone, but for `'`, for `!` and
//! line ends (csh) and for backslashes before some characters (fish). So a
//! command travels between single quotes, with every other byte than plain
//! ones written in octal, and `printf` there makes it whole again.

use std::fmt::Write as _;

/// The line that runs `command` with `sh`, whatever shell reads the line.
/// `command` holds no zero byte.
pub(crate) fn for_any_shell(command: &str) -> String {
    let mut line = String::with_capacity(command.len() * 2 + 32);
    line.push_str("sh -c 'eval \"$(printf %b \"");
    for byte in command.bytes() {
        if plain(byte) {
            line.push(char::from(byte));
        } else {
            write!(line, "\\0{byte:03o}").expect("a string takes any text");
        }
    }
    line.push_str("\")\"'");
    line
}

/// The line that runs these words as a program and its arguments.
pub(crate) fn words_for_any_shell(words: &[String]) -> String {
    let simple = |word: &String| !word.is_empty() && word.bytes().all(simple_byte);
    if words.iter().all(simple) {
        return words.join(" ");
    }
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    for_any_shell(&format!("exec {}", words.join(" ")))
}

/// One word of `sh`, whatever it holds. A plain one stays readable.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./=:@%+,-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Bytes that mean themselves within single quotes of any shell, within double
/// quotes of `sh`, and to `printf %b`.
fn plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'"' | b'\\' | b'!' | b'$' | b'`')
}

/// Bytes that mean themselves in any shell with no quotes at all.
fn simple_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/' | b'-' | b'+' | b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_bytes_stand_between_the_quotes() {
        let line = for_any_shell("echo 'a!' \"$HOME\" `x` \\ \n ü");
        let inner = line
            .strip_prefix("sh -c 'eval \"$(printf %b \"")
            .and_then(|rest| rest.strip_suffix("\")\"'"))
            .expect("the frame stays");
        assert!(!inner.contains(['\'', '"', '!', '$', '`', '\n']), "{inner}");
        assert!(inner.is_ascii());
        assert!(inner.starts_with("echo \\0047a\\0041\\0047 \\0042\\0044HOME"));
    }

    #[test]
    fn simple_words_stay_readable() {
        let words = ["ls".to_owned(), "-l".to_owned(), "/tmp".to_owned()];
        assert_eq!(words_for_any_shell(&words), "ls -l /tmp");
        let odd = ["echo".to_owned(), "a b".to_owned(), String::new()];
        assert!(words_for_any_shell(&odd).starts_with("sh -c '"));
    }
}
