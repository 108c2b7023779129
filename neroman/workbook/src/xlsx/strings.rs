//! Shared texts. Ours are never put there: the part stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use crate::xml::{Elements, XmlError, local};

use super::text::decoded;

/// The texts of these numbers.
pub(super) fn read(
    xml: &str,
    wanted: &BTreeSet<usize>,
) -> Result<BTreeMap<usize, String>, XmlError> {
    let mut elements = Elements::new(xml);
    let mut texts = BTreeMap::new();
    let mut number = 0;
    while let Some(tag) = elements.next_tag()? {
        if local(tag.name) != "si" {
            continue;
        }
        if wanted.contains(&number) {
            let (text, _) = elements.text_of(&tag, &["rPh"])?;
            texts.insert(number, decoded(&text));
        } else {
            elements.skip(&tag)?;
        }
        number += 1;
    }
    Ok(texts)
}
