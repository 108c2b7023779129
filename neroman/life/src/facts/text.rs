//! Cuts texts that nodes send to the length that is kept.

use nero_model::plain::plain;

/// A node's text, cut to the length that is kept.
pub fn bounded(text: &str) -> String {
    const BYTES_MAX: usize = 1000;
    let text = plain(text);
    text[..text.floor_char_boundary(BYTES_MAX)].to_owned()
}
