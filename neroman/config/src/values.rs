//! Words and texts of the configuration, with the mistakes in them.

use nero_yaml::{Entry, Fields};

use crate::config::Word;

/// More text than any address or path has.
const TEXT_BYTES_MAX: usize = 4096;

/// The entries of a map; nothing at all is an empty one.
pub(crate) fn entries<'n>(
    fields: &mut Fields,
    node: &'n nero_yaml::Node,
    what: &str,
    example: &str,
) -> &'n [Entry] {
    if node.is_null() {
        &[]
    } else {
        fields.map(what, node, example)
    }
}

/// A single word or number as it is written.
pub(crate) fn text(
    fields: &mut Fields,
    what: &str,
    node: &nero_yaml::Node,
    example: &str,
) -> Option<Word> {
    let text = fields.single(what, node)?;
    let wrong = match text {
        _ if node.is_null() || text.is_empty() => "is empty",
        _ if text.len() > TEXT_BYTES_MAX => "is too long",
        _ => "",
    };
    if !wrong.is_empty() {
        let message = format!("`{what}` {wrong}");
        fields.wrong(node.mark, message, format!("for example {example}"));
        return None;
    }
    Some(Word {
        text: text.to_owned(),
        place: node.mark,
    })
}

/// Reports a word that is none of `known`; `before` is the path to it.
pub(crate) fn odd_word(
    fields: &mut Fields,
    entry: &Entry,
    before: &str,
    known: &[&str],
    later: &[&str],
) {
    let word = entry.key.as_str();
    if later.contains(&word) {
        let message = format!("not built yet: `{before}{word}`");
        fields.wrong(entry.key_mark, message, "");
        return;
    }
    fields.unknown(entry, "is no word of the configuration", known, later);
}
