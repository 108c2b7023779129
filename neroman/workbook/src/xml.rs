//! Elements of an XML text with the places where they stand, so that what is not changed can
//! be copied byte for byte.

use std::borrow::Cow;
use std::ops::Range;

use nero_table::UnreadableTable;
use quick_xml::Reader;
use quick_xml::events::Event;

/// Why a text is not XML that we read.
#[derive(Debug, thiserror::Error)]
pub enum XmlError {
    /// The parser refuses it.
    #[error("not well-formed at byte {at}")]
    Syntax {
        /// Where.
        at: usize,
        /// The parser's word.
        #[source]
        source: quick_xml::Error,
    },
    /// A cell has no place in a sheet that we read.
    #[error("{}", .0.why())]
    Sheet(UnreadableTable),
    /// It parses, and does not mean what the format asks.
    #[error("{what} at byte {at}")]
    Meaning {
        /// What is wrong.
        what: &'static str,
        /// Where.
        at: usize,
    },
}

/// One step of the reading.
#[derive(Debug)]
pub(crate) enum XmlStep<'a> {
    Open(Tag<'a>),
    /// Name and place of an end tag.
    Close(&'a str, Range<usize>),
    Text(Cow<'a, str>),
    End,
}

/// A start tag, or an element without content.
#[derive(Debug, Clone)]
pub(crate) struct Tag<'a> {
    /// With its prefix.
    pub name: &'a str,
    pub at: Range<usize>,
    pub is_empty: bool,
    xml: &'a str,
}

#[derive(Debug, Clone)]
pub(crate) struct Attribute<'a> {
    /// With its prefix.
    pub name: &'a str,
    /// As it is written, with its references.
    pub raw: &'a str,
    /// From the blank before its name to its closing quote.
    pub at: Range<usize>,
    pub value_at: Range<usize>,
}

/// Reads a text step by step.
#[derive(Debug)]
pub(crate) struct Elements<'a> {
    xml: &'a str,
    reader: Reader<&'a [u8]>,
    /// Length of the byte order mark.
    base: usize,
    at: usize,
}

/// The name without its prefix.
pub(crate) fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

/// The prefix of a name with its colon; empty without one.
pub(crate) fn prefix(name: &str) -> &str {
    &name[..name.len() - local(name).len()]
}

impl<'a> Elements<'a> {
    pub fn new(xml: &'a str) -> Self {
        let text = xml.strip_prefix('\u{feff}').unwrap_or(xml);
        let base = xml.len() - text.len();
        let reader = Reader::from_str(text);
        Self {
            xml,
            reader,
            base,
            at: base,
        }
    }

    pub fn next(&mut self) -> Result<XmlStep<'a>, XmlError> {
        loop {
            let from = self.at;
            let event = self.reader.read_event();
            let event = event.map_err(|source| XmlError::Syntax { at: from, source })?;
            let read = usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX);
            self.at = self.base + read;
            let at = from..self.at;
            return Ok(match event {
                Event::Start(_) => XmlStep::Open(self.tag(at, false)),
                Event::Empty(_) => XmlStep::Open(self.tag(at, true)),
                Event::End(_) => {
                    let inner = &self.xml[at.start + 2..at.end - 1];
                    XmlStep::Close(inner.trim_end(), at)
                }
                Event::Text(text) => match text.xml10_content() {
                    Cow::Borrowed(_) => XmlStep::Text(Cow::Borrowed(&self.xml[at])),
                    Cow::Owned(text) => XmlStep::Text(Cow::Owned(text)),
                },
                Event::CData(text) => XmlStep::Text(Cow::Owned(text.xml10_content().into_owned())),
                Event::GeneralRef(_) => XmlStep::Text(unescaped(&self.xml[at.clone()], at.start)?),
                Event::Eof => XmlStep::End,
                Event::DocType(_) => return Err(meaning("a document type definition", from)),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => continue,
            });
        }
    }

    /// Where the reading stands.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next start tag, `None` behind the last.
    pub fn next_tag(&mut self) -> Result<Option<Tag<'a>>, XmlError> {
        loop {
            match self.next()? {
                XmlStep::Open(tag) => return Ok(Some(tag)),
                XmlStep::End => return Ok(None),
                XmlStep::Close(..) | XmlStep::Text(_) => {}
            }
        }
    }

    /// The text within an element, and where its end tag stands.
    pub fn text_of(&mut self, tag: &Tag<'a>) -> Result<(Cow<'a, str>, Range<usize>), XmlError> {
        let mut text = Cow::Borrowed("");
        if tag.is_empty {
            return Ok((text, tag.at.end..tag.at.end));
        }
        let mut depth = 0_usize;
        loop {
            match self.next()? {
                XmlStep::Open(inner) => depth += usize::from(!inner.is_empty),
                XmlStep::Close(_, at) if depth == 0 => return Ok((text, at)),
                XmlStep::Close(..) => depth -= 1,
                XmlStep::Text(more) if text.is_empty() => text = more,
                XmlStep::Text(more) => text.to_mut().push_str(&more),
                XmlStep::End => return Err(meaning("the end", self.at)),
            }
        }
    }

    /// Reads on behind an element.
    pub fn skip(&mut self, tag: &Tag<'a>) -> Result<(), XmlError> {
        let mut depth = usize::from(!tag.is_empty);
        while depth > 0 {
            match self.next()? {
                XmlStep::Open(inner) => depth += usize::from(!inner.is_empty),
                XmlStep::Close(..) => depth -= 1,
                XmlStep::Text(_) => {}
                XmlStep::End => return Err(meaning("the end", self.at)),
            }
        }
        Ok(())
    }

    fn tag(&self, at: Range<usize>, is_empty: bool) -> Tag<'a> {
        let inner = &self.xml[at.start + 1..at.end];
        let end = inner.find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>');
        Tag {
            name: &inner[..end.unwrap_or(inner.len())],
            at,
            is_empty,
            xml: self.xml,
        }
    }
}

/// What reads the elements of a part.
pub(crate) trait XmlScanner<'a>: Sized {
    fn elements(&mut self) -> &mut Elements<'a>;

    /// Calls `each` with every element directly within this one, and returns where its end tag
    /// stands.
    fn children(
        &mut self,
        parent: &Tag<'a>,
        each: &mut dyn FnMut(&mut Self, &Tag<'a>) -> Result<(), XmlError>,
    ) -> Result<Range<usize>, XmlError> {
        if parent.is_empty {
            return Ok(parent.at.end..parent.at.end);
        }
        loop {
            match self.elements().next()? {
                XmlStep::Open(tag) => each(self, &tag)?,
                XmlStep::Close(_, at) => return Ok(at),
                XmlStep::Text(_) => {}
                XmlStep::End => return Err(meaning("the end", parent.at.start)),
            }
        }
    }
}

impl<'a> Tag<'a> {
    /// All attributes, in their order.
    pub fn attributes(&self) -> Result<Vec<Attribute<'a>>, XmlError> {
        let mut list = Vec::new();
        let mut at = self.at.start + 1 + self.name.len();
        while let Some(attribute) = self.attribute_from(at)? {
            at = attribute.at.end;
            list.push(attribute);
        }
        Ok(list)
    }

    /// The attribute of this name, with its prefix.
    pub fn attribute(&self, name: &str) -> Result<Option<Attribute<'a>>, XmlError> {
        let mut at = self.at.start + 1 + self.name.len();
        while let Some(attribute) = self.attribute_from(at)? {
            if attribute.name == name {
                return Ok(Some(attribute));
            }
            at = attribute.at.end;
        }
        Ok(None)
    }

    /// The attribute of this local name, under whatever prefix.
    pub fn local_attribute(&self, name: &str) -> Result<Option<Attribute<'a>>, XmlError> {
        let mut at = self.at.start + 1 + self.name.len();
        while let Some(attribute) = self.attribute_from(at)? {
            if local(attribute.name) == name {
                return Ok(Some(attribute));
            }
            at = attribute.at.end;
        }
        Ok(None)
    }

    /// A part of the text that the tag stands in.
    pub fn raw(&self, at: Range<usize>) -> &'a str {
        &self.xml[at]
    }

    /// The value of the attribute of this name.
    pub fn value(&self, name: &str) -> Result<Option<Cow<'a, str>>, XmlError> {
        let Some(attribute) = self.attribute(name)? else {
            return Ok(None);
        };
        unescaped(attribute.raw, attribute.at.start).map(Some)
    }

    /// The value of the attribute of this local name.
    pub fn local_value(&self, name: &str) -> Result<Option<Cow<'a, str>>, XmlError> {
        let Some(attribute) = self.local_attribute(name)? else {
            return Ok(None);
        };
        unescaped(attribute.raw, attribute.at.start).map(Some)
    }

    fn attribute_from(&self, from: usize) -> Result<Option<Attribute<'a>>, XmlError> {
        let rest = &self.xml[from..self.at.end];
        let blank = rest.len() - rest.trim_ascii_start().len();
        let text = &rest[blank..];
        if text.starts_with(['/', '>']) {
            return Ok(None);
        }
        let wrong = || meaning("an attribute without a value", from);
        let equals = text.find('=').ok_or_else(wrong)?;
        let value = text[equals + 1..].trim_ascii_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let quote = quote.ok_or_else(wrong)?;
        let length = value[1..].find(quote).ok_or_else(wrong)?;
        let start = self.at.end - value.len() + 1;
        Ok(Some(Attribute {
            name: text[..equals].trim_ascii_end(),
            raw: &self.xml[start..start + length],
            at: from..start + length + 1,
            value_at: start..start + length,
        }))
    }
}

impl From<UnreadableTable> for XmlError {
    fn from(table: UnreadableTable) -> Self {
        Self::Sheet(table)
    }
}

pub(crate) fn meaning(what: &'static str, at: usize) -> XmlError {
    XmlError::Meaning { what, at }
}

/// The text with its references resolved.
pub(crate) fn unescaped(raw: &str, at: usize) -> Result<Cow<'_, str>, XmlError> {
    quick_xml::escape::unescape(raw).map_err(|source| XmlError::Syntax {
        at,
        source: source.into(),
    })
}

/// The text as it stands between tags.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    quick_xml::escape::partial_escape(text)
}

/// The text as it stands as the value of an attribute in double quotes.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    quick_xml::escape::escape(text)
}

/// Whether XML 1.0 can hold the character.
pub(crate) fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..) && !matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// A part of a text and what stands there instead.
#[derive(Debug)]
pub(crate) struct Splice {
    pub at: Range<usize>,
    pub text: String,
}

impl Splice {
    pub fn new(at: Range<usize>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { at, text }
    }
}

/// The pieces of the changed text. Insertions at one place stay in their order.
pub(crate) fn pieces<'a>(xml: &'a str, splices: &'a mut [Splice]) -> Vec<&'a str> {
    splices.sort_by_key(|splice| splice.at.start);
    let mut pieces = Vec::with_capacity(2 * splices.len() + 1);
    let mut from = 0;
    for splice in &*splices {
        debug_assert!(from <= splice.at.start, "changes overlap");
        pieces.extend([&xml[from..splice.at.start], splice.text.as_str()]);
        from = splice.at.end;
    }
    pieces.push(&xml[from..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::{Elements, Splice, XmlStep, pieces};

    #[test]
    fn attributes_are_found_with_their_places() {
        let xml = "\u{feff}<?xml version='1.0'?>\n<x:a  r = 'A1'\n s=\"&lt;3\" ><b/></x:a>";
        let mut elements = Elements::new(xml);
        let tag = elements.next_tag().unwrap().unwrap();
        assert_eq!(tag.name, "x:a");
        let attributes = tag.attributes().unwrap();
        let texts: Vec<&str> = attributes.iter().map(|a| &xml[a.at.clone()]).collect();
        assert_eq!(texts, ["  r = 'A1'", "\n s=\"&lt;3\""]);
        assert_eq!(&xml[attributes[1].value_at.clone()], "&lt;3");
        assert_eq!(tag.value("s").unwrap().unwrap(), "<3");
        let XmlStep::Open(inner) = elements.next().unwrap() else {
            panic!("no element")
        };
        assert_eq!(&xml[inner.at], "<b/>");
    }

    #[test]
    fn the_text_of_an_element_resolves_references() {
        let xml = "<t>a &amp; b<![CDATA[<]]>&#x41;</t>";
        let mut elements = Elements::new(xml);
        let tag = elements.next_tag().unwrap().unwrap();
        let (text, end) = elements.text_of(&tag).unwrap();
        assert_eq!(text, "a & b<A");
        assert_eq!(&xml[end], "</t>");
    }

    #[test]
    fn insertions_at_one_place_keep_their_order() {
        let mut splices = [
            Splice::new(3..4, "X"),
            Splice::new(1..1, "1"),
            Splice::new(1..1, "2"),
        ];
        assert_eq!(pieces("abcdef", &mut splices).concat(), "a12bcXef");
    }
}
