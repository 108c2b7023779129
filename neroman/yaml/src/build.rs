//! Builds the tree from the events of the YAML parser.

use std::collections::HashMap;
use std::rc::Rc;

use serde_saphyr::granit_parser::{
    self, Event, Marker, Parser, ScalarStyle, Span, StructureStyle, Tag,
};

use crate::tree::{Entry, Kind, Mark, Node};
use crate::wrong::{MistakeKind, Wrong, not_yaml};

/// What no text may go beyond: no nesting and no alias makes more than the text's own
/// size deserves.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Levels of nesting.
    pub depth: usize,
    /// Characters of a key that is written without `?`.
    pub key_chars: usize,
    /// Values that are written out.
    pub values: usize,
    /// Values that aliases repeat.
    pub repeated: usize,
}

/// Builds the tree of `text`, `None` for one without values. Every mistake that does not
/// end the reading goes to `wrong`, and so does every tag.
///
/// # Errors
/// The mistake that ended the reading.
pub fn parse(
    text: &str,
    limits: &Limits,
    wrong: &mut dyn FnMut(Wrong),
) -> Result<Option<Rc<Node>>, Wrong> {
    let mut options = granit_parser::options! {
        flow_nesting_limit: limits.depth,
        block_nesting_limit: limits.depth,
        simple_key_max_lookahead: limits.key_chars,
    };
    options.set_emit_comments(false);
    let mut builder = Builder {
        limits,
        wrong,
        open: Vec::new(),
        anchors: HashMap::new(),
        root: None,
        documents: 0,
        values: 0,
        repeated: 0,
    };
    for item in Parser::new_from_str_with_options(text, options) {
        let (event, span) = item.map_err(|error| not_yaml(text, &error))?;
        builder.event(event, span)?;
    }
    Ok(builder.root)
}

/// A collection whose end has not come.
struct OpenCollection {
    anchor: usize,
    tag: Option<Box<str>>,
    span: Span,
    flow: bool,
    weight: usize,
    content: Content,
}

enum Content {
    List(Vec<Rc<Node>>),
    Map(OpenMap),
}

#[derive(Default)]
struct OpenMap {
    entries: Vec<Entry>,
    /// A key whose value has not come.
    key: Option<Rc<Node>>,
    seen: HashMap<String, Mark>,
    /// What `<<` names, and how many entries stand before it.
    merges: Vec<(usize, Rc<Node>)>,
}

struct Builder<'a> {
    limits: &'a Limits,
    wrong: &'a mut dyn FnMut(Wrong),
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, Rc<Node>>,
    root: Option<Rc<Node>>,
    documents: usize,
    values: usize,
    repeated: usize,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Wrong> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(at(span.start, MistakeKind::SecondDocument));
                }
            }
            Event::Scalar(value, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                let text = if plain && span.is_empty() {
                    String::new()
                } else {
                    value.into_owned()
                };
                let node = Node {
                    kind: Kind::Scalar { text, plain },
                    mark: Mark::of(span.start),
                    tag: self.tag(tag.as_deref(), &span, false),
                    bytes: bytes(span.start, span.end),
                    flow: false,
                    weight: 1,
                };
                self.finish(node, anchor)?;
            }
            Event::SequenceStart(style, anchor, tag) => {
                let tag = self.tag(tag.as_deref(), &span, true);
                self.begin(anchor, tag, span, style, Content::List(Vec::new()));
            }
            Event::MappingStart(style, anchor, tag) => {
                let tag = self.tag(tag.as_deref(), &span, false);
                self.begin(anchor, tag, span, style, Content::Map(OpenMap::default()));
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span)?,
            Event::Alias(id) => self.alias(id, &span)?,
            // Streams, document ends, comments and whatever a later parser adds as
            // metadata are no values; `is_node` decides should that ever change.
            other if other.is_node() => return Err(at(span.start, MistakeKind::Unknown)),
            _ => {}
        }
        Ok(())
    }

    fn begin(
        &mut self,
        anchor: usize,
        tag: Option<Box<str>>,
        span: Span,
        style: StructureStyle,
        content: Content,
    ) {
        self.open.push(OpenCollection {
            anchor,
            tag,
            span,
            flow: style == StructureStyle::Flow,
            weight: 1,
            content,
        });
    }

    fn end(&mut self, end: Span) -> Result<(), Wrong> {
        let open = self.open.pop().expect("an end follows its start");
        let kind = match open.content {
            Content::List(items) => Kind::List(items),
            Content::Map(map) => Kind::Map(self.merged(map)),
        };
        let node = Node {
            kind,
            mark: Mark::of(open.span.start),
            tag: open.tag,
            bytes: bytes(open.span.start, end.end),
            flow: open.flow,
            weight: open.weight,
        };
        self.finish(node, open.anchor)
    }

    /// Counts a value, remembers its anchor and gives it to what holds it.
    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), Wrong> {
        let node = Rc::new(node);
        self.values += 1;
        if self.values > self.limits.values {
            return Err(Wrong {
                mark: node.mark,
                what: MistakeKind::TooMany(self.limits.values),
            });
        }
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.place(node);
        Ok(())
    }

    fn alias(&mut self, id: usize, span: &Span) -> Result<(), Wrong> {
        let Some(node) = self.anchors.get(&id).map(Rc::clone) else {
            return Err(at(span.start, MistakeKind::AliasInItself));
        };
        self.repeated = self.repeated.saturating_add(node.weight);
        if self.repeated > self.limits.repeated {
            let most = self.limits.repeated;
            return Err(at(span.start, MistakeKind::TooManyRepeated(most)));
        }
        self.place(node);
        Ok(())
    }

    fn place(&mut self, node: Rc<Node>) {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        open.weight = open.weight.saturating_add(node.weight);
        match &mut open.content {
            Content::List(items) => items.push(node),
            Content::Map(map) => match map.key.take() {
                None => map.key = Some(node),
                Some(key) => {
                    if let Err(what) = map.put(&key, node) {
                        let mark = key.mark;
                        (self.wrong)(Wrong { mark, what });
                    }
                }
            },
        }
    }

    /// Puts merged entries where `<<` stood; keys of the map itself win, then the first.
    fn merged(&mut self, map: OpenMap) -> Vec<Entry> {
        let OpenMap {
            entries,
            mut seen,
            merges,
            ..
        } = map;
        if merges.is_empty() {
            return entries;
        }
        let mut result = Vec::with_capacity(entries.len());
        let mut own = entries.into_iter();
        let mut taken = 0;
        for (index, node) in merges {
            result.extend(own.by_ref().take(index - taken));
            taken = index;
            let maps: &[Rc<Node>] = match &node.kind {
                Kind::List(maps) => maps,
                Kind::Map(_) | Kind::Scalar { .. } => std::slice::from_ref(&node),
            };
            for map in maps {
                let Kind::Map(merged) = &map.kind else {
                    let is = map.describe();
                    let what = MistakeKind::MergesNoMap { is };
                    (self.wrong)(Wrong {
                        mark: map.mark,
                        what,
                    });
                    continue;
                };
                for entry in merged {
                    if seen.insert(entry.key.clone(), entry.key_mark).is_none() {
                        result.push(entry.clone());
                    }
                }
            }
        }
        result.extend(own);
        result
    }

    /// Tells of a tag, and answers how it is written.
    fn tag(&mut self, tag: Option<&Tag>, span: &Span, on_list: bool) -> Option<Box<str>> {
        let tag: Box<str> = tag?.original().into();
        let what = MistakeKind::Tag {
            tag: tag.clone(),
            on_list,
        };
        (self.wrong)(at(span.tag_start().unwrap_or(span.start), what));
        Some(tag)
    }
}

impl OpenMap {
    /// Adds an entry, or answers what is wrong with its key.
    fn put(&mut self, key: &Node, value: Rc<Node>) -> Result<(), MistakeKind> {
        let Kind::Scalar { text, plain } = &key.kind else {
            let is = key.describe();
            return Err(MistakeKind::KeyIsNoText { is });
        };
        if let Some(first) = self.seen.get(text) {
            return Err(MistakeKind::KeyTwice {
                key: text.clone(),
                line: first.line,
            });
        }
        self.seen.insert(text.clone(), key.mark);
        if text == "<<" && *plain {
            self.merges.push((self.entries.len(), value));
        } else {
            self.entries.push(Entry {
                key: text.clone(),
                key_mark: key.mark,
                key_bytes: key.bytes,
                value,
            });
        }
        Ok(())
    }
}

fn at(marker: Marker, what: MistakeKind) -> Wrong {
    Wrong {
        mark: Mark::of(marker),
        what,
    }
}

/// The parser counts bytes in every text that it is given whole.
fn bytes(start: Marker, end: Marker) -> (usize, usize) {
    let byte = |marker: Marker| marker.byte_offset().unwrap_or(0);
    (byte(start), byte(end))
}
