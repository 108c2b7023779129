//! The words of a server or program.

use nero_model::safe::Safe;

/// Longer answers of a server are cut.
const CHARS_MAX: usize = 400;

/// Words of a server or a program, in one safe line of bounded length.
pub(crate) fn safe_line(words: &str) -> String {
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let safe = Safe::line(&line).to_string();
    match safe.char_indices().nth(CHARS_MAX) {
        Some((cut, _)) => format!("{}…", &safe[..cut]),
        None => safe,
    }
}
