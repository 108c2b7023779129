//! Texts as paragraphs of a cell.

use nero_table::CellValue;
use nero_table::book::BookCell;

use crate::value;
use crate::xml::{Elements, Tag, XmlError, XmlStep, escaped, is_allowed, local, meaning};

/// Whether a cell's value is what we write for `ours`.
pub(super) fn alike(found: &BookCell, ours: Option<&CellValue>) -> bool {
    value::is_alike(found, &value::plain(ours, plain))
}

/// The text as a cell can hold it. LibreOffice loses tabs when it reads them.
pub(super) fn plain(text: &str) -> String {
    let text = text
        .replace("\r\n", "\n")
        .replace('\r', "\n")
        .replace('\t', " ");
    let kept = |c| {
        if is_allowed(c) {
            c
        } else {
            char::REPLACEMENT_CHARACTER
        }
    };
    text.chars().map(kept).collect()
}

/// A text as the content of a cell in a part whose prefixes are the usual ones.
pub fn paragraphs(text: &str) -> String {
    prefixed_paragraphs(&plain(text), "text:")
}

/// One paragraph for each line. Blanks in a row count as one in XML.
pub(super) fn prefixed_paragraphs(text: &str, prefix: &str) -> String {
    let mut out = String::new();
    for line in text.split('\n') {
        out.push_str(&format!("<{prefix}p>"));
        let mut is_blank = true;
        for c in line.chars() {
            match c {
                ' ' if is_blank => out.push_str(&format!("<{prefix}s/>")),
                c => out.push_str(&escaped(c.encode_utf8(&mut [0; 4]))),
            }
            is_blank = c == ' ';
        }
        // A blank at the end of a paragraph is kept as an element, too.
        if out.ends_with(' ') {
            out.pop();
            out.push_str(&format!("<{prefix}s/>"));
        }
        out.push_str(&format!("</{prefix}p>"));
    }
    out
}

/// The text of a paragraph that was opened just now, and where it ends.
pub(super) fn paragraph<'a>(
    elements: &mut Elements<'a>,
    tag: &Tag<'a>,
) -> Result<(String, usize), XmlError> {
    let mut text = String::new();
    let mut depth = usize::from(!tag.is_empty);
    let mut end = tag.at.end;
    while depth > 0 {
        match elements.next()? {
            // What is anchored here is no text of the cell.
            XmlStep::Open(inner)
                if inner.name.starts_with("draw:") || local(inner.name) == "annotation" =>
            {
                elements.skip(&inner)?;
            }
            XmlStep::Open(inner) => {
                match local(inner.name) {
                    "s" => {
                        let count = inner.local_attribute("c")?;
                        let count = count.and_then(|count| count.raw.parse::<usize>().ok());
                        text.push_str(&" ".repeat(count.unwrap_or(1).min(1 << 16)));
                    }
                    "tab" => text.push('\t'),
                    "line-break" => text.push('\n'),
                    _ => {}
                }
                depth += usize::from(!inner.is_empty);
            }
            XmlStep::Text(more) => text.push_str(&more),
            XmlStep::Close(_, at) => {
                depth -= 1;
                end = at.end;
            }
            XmlStep::End => return Err(meaning("the end", tag.at.start)),
        }
    }
    Ok((text, end))
}

#[cfg(test)]
mod tests {
    use super::{paragraph, paragraphs, plain};
    use crate::xml::{Elements, local};

    #[test]
    fn every_text_is_read_back() {
        for text in ["a", " a  b ", "a b\n\nc & <d>", "  ", "a\n"] {
            let xml = format!("<c>{}</c>", paragraphs(text));
            let mut elements = Elements::new(&xml);
            let mut lines = Vec::new();
            while let Some(tag) = elements.next_tag().unwrap() {
                if local(tag.name) == "p" {
                    lines.push(paragraph(&mut elements, &tag).unwrap().0);
                }
            }
            assert_eq!(lines.join("\n"), text, "{xml}");
        }
        assert_eq!(plain("a\r\nb\rc\td\u{1b}"), "a\nb\nc d\u{fffd}");
    }
}
