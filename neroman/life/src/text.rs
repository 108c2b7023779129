//! Texts that nodes send, cut to what is kept of them.

use nero_model::plain::plain;

/// A node's words, short enough to keep.
pub fn bounded(text: &str) -> String {
    const BYTES_MAX: usize = 1000;
    let text = plain(text);
    text[..text.floor_char_boundary(BYTES_MAX)].to_owned()
}
