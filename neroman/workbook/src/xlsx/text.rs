//! Texts as cells of Excel hold them.

use std::ops::Range;

use nero_table::CellValue;
use nero_table::book::BookCell;

use crate::value;
use crate::xml::{Elements, Tag, XmlError, XmlStep, is_allowed, local, meaning};

/// Characters of a cell, in UTF-16 as Excel counts them.
const UNITS_MAX: usize = 32_767;

/// Whether a cell's value is what we write for `ours`.
pub(super) fn alike(found: &BookCell, ours: Option<&CellValue>) -> bool {
    value::is_alike(found, &value::plain(ours, cut))
}

/// The text cut to what a cell holds.
pub(super) fn cut(text: &str) -> String {
    let mut units = 0;
    let fits = |c: &char| {
        units += c.len_utf16();
        units <= UNITS_MAX
    };
    text.chars().take_while(fits).collect()
}

/// Writes what XML cannot hold as `_x001B_`, and a text that looks like that so that it stays.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let is_escape = c == '_' && escape(&text[at..]).is_some();
        if is_escape || c == '\r' || !is_allowed(c) {
            out.push_str(&format!("_x{:04X}_", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// The text that is meant by one with `_x001B_`. Two of these are one character where UTF-16
/// has two units.
pub(super) fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("_x") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let units = [escape(rest), rest.get(7..).and_then(escape)].map(Option::unwrap_or_default);
        match char::decode_utf16(units).next() {
            Some(Ok(c)) if escape(rest).is_some() => {
                out.push(c);
                rest = &rest[7 * c.len_utf16()..];
            }
            _ => {
                out.push_str("_x");
                rest = &rest[2..];
            }
        }
    }
    out + rest
}

/// The text of a cell or of a list of texts, and where its element ends. It stands in runs; what
/// tells how to pronounce it is left out. All blanks of a run count, as in LibreOffice: without
/// those at its ends words would join.
pub(super) fn runs<'a>(
    elements: &mut Elements<'a>,
    tag: &Tag<'a>,
) -> Result<(String, Range<usize>), XmlError> {
    let mut text = String::new();
    let mut depth = usize::from(!tag.is_empty);
    let mut end = tag.at.end..tag.at.end;
    while depth > 0 {
        match elements.next()? {
            XmlStep::Open(inner) => match local(inner.name) {
                "t" => text.push_str(&decoded(&elements.text_of(&inner)?.0)),
                "r" => depth += usize::from(!inner.is_empty),
                _ => elements.skip(&inner)?,
            },
            XmlStep::Close(_, at) => {
                depth -= 1;
                end = at;
            }
            XmlStep::Text(_) => {}
            XmlStep::End => return Err(meaning("the end", tag.at.start)),
        }
    }
    Ok((text, end))
}

/// The texts that cells point to. Ours are never put there: the part stays as it is.
pub(super) fn shared(xml: &str) -> Result<Vec<String>, XmlError> {
    let mut elements = Elements::new(xml);
    let mut texts = Vec::new();
    while let Some(tag) = elements.next_tag()? {
        if local(tag.name) == "si" {
            texts.push(runs(&mut elements, &tag)?.0);
        }
    }
    Ok(texts)
}

/// The number within a leading `_x001B_`.
fn escape(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("_x")?.get(..4)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_closed = text[6..].starts_with('_');
    (is_hex && is_closed).then(|| u16::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::{cut, decoded, encoded};

    #[test]
    fn every_text_is_read_back() {
        for (text, written) in [
            ("plain _x and _", "plain _x and _"),
            ("a\u{1b}[0m\r\n", "a_x001B_[0m_x000D_\n"),
            ("_x0041_", "_x005F_x0041_"),
            ("_x005F_x0041_", "_x005F_x005F_x005F_x0041_"),
            ("\u{ffff}é", "_xFFFF_é"),
        ] {
            assert_eq!(encoded(text), written);
            assert_eq!(decoded(written), text);
        }
        assert_eq!(decoded("_xD800_ _xé_"), "_xD800_ _xé_");
        assert_eq!(decoded("_xD83D__xDE42__x0041_"), "\u{1f642}A");
    }

    #[test]
    fn a_long_text_is_cut_where_a_cell_ends() {
        let text = "a".repeat(32_766) + "🙂";
        assert_eq!(cut(&text).len(), 32_766);
        assert_eq!(cut(&text[..32_766]).len(), 32_766);
    }
}
