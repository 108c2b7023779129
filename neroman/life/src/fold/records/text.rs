//! Texts of nodes, of which only so much is kept.

/// Longest remark that is kept, in characters: texts come from other machines.
const TEXT_CHARS_MAX: usize = 2000;
/// Longest line of a job, and name of a program, that is kept, in characters.
const LINE_CHARS_MAX: usize = 240;

/// Bytes of a node as one short line, without colours and other terminal
/// commands; every output makes the rest harmless.
pub(super) fn short_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = String::new();
    let mut rest = text.trim();
    while let Some((before, behind)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        let end = behind.find(|c: char| ('@'..='~').contains(&c));
        rest = end.map_or("", |end| &behind[end + 1..]);
    }
    plain.push_str(rest);
    bounded(plain, LINE_CHARS_MAX)
}

/// A text of a node, bounded.
pub(super) fn text(given: String) -> String {
    bounded(given, TEXT_CHARS_MAX)
}

/// At most so many characters of a text.
pub(super) fn bounded(given: String, chars_max: usize) -> String {
    match given.char_indices().nth(chars_max) {
        Some((cut, _)) => format!("{}…", &given[..cut]),
        None => given,
    }
}
