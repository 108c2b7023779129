//! Texts that cells point to. Ours are never put there: the part stays as it is.

use crate::xml::{Elements, XmlError, local};

use super::text::runs;

/// All of them.
pub(super) fn read(xml: &str) -> Result<Vec<String>, XmlError> {
    let mut elements = Elements::new(xml);
    let mut texts = Vec::new();
    while let Some(tag) = elements.next_tag()? {
        if local(tag.name) == "si" {
            texts.push(runs(&mut elements, &tag)?.0);
        }
    }
    Ok(texts)
}
