//! The XML that Grid Engine prints: elements without mixed content, of which we
//! read the leaves. What does not fit is skipped.

use std::borrow::Cow;
use std::collections::HashMap;

/// An element with the texts of its leaves, by the leaf's attribute `name`, else by
/// its tag.
#[derive(Debug, Default)]
pub struct Element<'a> {
    /// Its leaves; of several with one name the last counts.
    pub leaves: HashMap<&'a str, Cow<'a, str>>,
}

impl Element<'_> {
    /// Text of a leaf, without space around it.
    pub fn leaf(&self, name: &str) -> Option<&str> {
        self.leaves.get(name).map(|text| text.trim())
    }
}

/// Every element `tag` of the text, in order. An element that never closes (a text
/// that was cut) is left out.
pub fn records<'a>(text: &'a str, tag: &str) -> Vec<Element<'a>> {
    let mut found = Vec::new();
    let mut open: Option<Element<'a>> = None;
    let mut leaf: Option<(&'a str, &'a str, usize)> = None;
    let mut at = 0;
    while let Some(begin) = text[at..].find('<').map(|offset| at + offset) {
        let Some(end) = text[begin..].find('>').map(|offset| begin + offset) else {
            break;
        };
        let inside = &text[begin + 1..end];
        at = end + 1;
        if let Some(closed) = inside.strip_prefix('/') {
            if closed == tag {
                found.extend(open.take());
            } else if let (Some(record), Some((opened, name, from))) = (&mut open, leaf.take())
                && opened == closed
            {
                record.leaves.insert(name, plain(&text[from..begin]));
            }
            continue;
        }
        if inside.starts_with(['?', '!']) || inside.ends_with('/') {
            continue;
        }
        let name = inside.split_whitespace().next().unwrap_or_default();
        if name == tag {
            open = Some(Element::default());
            leaf = None;
        } else {
            leaf = Some((name, attribute(inside, "name").unwrap_or(name), at));
        }
    }
    found
}

fn attribute<'a>(inside: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = inside.split_once(&format!(" {name}="))?;
    let quote = rest.chars().next().filter(|c| ['"', '\''].contains(c))?;
    rest[1..].split_once(quote).map(|(value, _)| value)
}

/// A text without its escapes.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let known = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
    ];
    let text = known
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    Cow::Owned(text.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::records;

    #[test]
    fn leaves_are_read_and_text_stays_text() {
        let text = "<a><job_list state=\"running\"><JB_name>x&lt;/JB_name&gt;</JB_name><state>r</state>\
                    </job_list><job_list><state>qw</state>";
        let found = records(text, "job_list");
        assert_eq!(found.len(), 1, "the second is cut");
        assert_eq!(found[0].leaf("JB_name"), Some("x</JB_name>"));
        assert_eq!(found[0].leaf("state"), Some("r"));
        assert_eq!(found[0].leaf("none"), None);
    }
}
