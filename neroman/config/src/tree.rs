//! The file as a tree of nodes that know where they stand.
//!
//! Built from the events of the YAML parser, since the places of keys, and where a
//! map begins and ends, are what mistakes and edits point at.

use std::collections::HashMap;
use std::rc::Rc;

use serde_saphyr::granit_parser::{self, Event, Marker, Parser, ScalarStyle, Span, StructureStyle};

use crate::config::Place;
use crate::mistake::{Mistake, quoted};

/// Deeper nesting is a mistake or an attack.
const DEPTH_MAX: usize = 32;
/// Values that a file may hold, those that aliases repeat counted again.
const NODES_MAX: usize = 200_000;

/// A value.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    /// First byte and the one behind the last, tag and anchor excluded. Of a block
    /// map the end is where the next thing begins.
    pub(crate) bytes: (usize, usize),
    /// Whether it stands in brackets.
    pub(crate) flow: bool,
    /// Values in it, itself included.
    weight: usize,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Scalar { text: String, plain: bool },
    List(Vec<Rc<Node>>),
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) place: Place,
    /// First byte of the key and the one behind its last.
    pub(crate) bytes: (usize, usize),
    pub(crate) value: Rc<Node>,
}

impl Node {
    /// Whether this is `null`, `~` or nothing at all.
    pub(crate) fn is_null(&self) -> bool {
        match &self.kind {
            Kind::Scalar { text, plain } => {
                *plain && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            Kind::List(_) | Kind::Map(_) => false,
        }
    }

    /// The scalar's text.
    pub(crate) fn scalar(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// What it is, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match &self.kind {
            Kind::Scalar { .. } if self.is_null() => "nothing",
            Kind::Scalar { .. } => "a single value",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }
}

/// Builds the tree, `None` for a text without values. Mistakes that do not end the reading are added to `mistakes`.
pub(crate) fn parse(text: &str, mistakes: &mut Vec<Mistake>) -> Result<Option<Rc<Node>>, Mistake> {
    let mut options = granit_parser::options! {
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
        simple_key_max_lookahead: 1024,
    };
    options.set_emit_comments(false);
    let mut builder = Builder {
        mistakes,
        open: Vec::new(),
        anchors: HashMap::new(),
        root: None,
        documents: 0,
        nodes: 0,
    };
    for item in Parser::new_from_str_with_options(text, options) {
        let (event, span) = item.map_err(|error| not_yaml(&error))?;
        builder.event(event, span)?;
    }
    Ok(builder.root)
}

/// A collection whose end has not come.
struct Open {
    anchor: usize,
    span: Span,
    flow: bool,
    weight: usize,
    content: Content,
}

enum Content {
    List(Vec<Rc<Node>>),
    Map {
        entries: Vec<Entry>,
        merges: Vec<Rc<Node>>,
        key: Option<Rc<Node>>,
    },
}

struct Builder<'a> {
    mistakes: &'a mut Vec<Mistake>,
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    root: Option<Rc<Node>>,
    documents: usize,
    nodes: usize,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Mistake> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Mistake {
                        place: place(span.start),
                        message: "a second document begins here".to_owned(),
                        hint: "one file has one document: remove the `---`".to_owned(),
                    });
                }
            }
            Event::Scalar(value, style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), &span);
                let plain = style == ScalarStyle::Plain;
                let text = match plain && span.is_empty() {
                    true => String::new(),
                    false => value.into_owned(),
                };
                let node = Node {
                    kind: Kind::Scalar { text, plain },
                    place: place(span.start),
                    bytes: bytes(span.start, span.end),
                    flow: false,
                    weight: 1,
                };
                self.finish(node, anchor)?;
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), &span);
                self.begin(anchor, span, style, Content::List(Vec::new()));
            }
            Event::MappingStart(style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), &span);
                let content = Content::Map {
                    entries: Vec::new(),
                    merges: Vec::new(),
                    key: None,
                };
                self.begin(anchor, span, style, content);
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span)?,
            Event::Alias(id) => self.alias(id, &span)?,
            // Streams, ends of documents and comments are no values.
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, anchor: usize, span: Span, style: StructureStyle, content: Content) {
        self.open.push(Open {
            anchor,
            span,
            flow: style == StructureStyle::Flow,
            weight: 1,
            content,
        });
    }

    fn end(&mut self, end: Span) -> Result<(), Mistake> {
        let open = self.open.pop().expect("an end follows its start");
        let kind = match open.content {
            Content::List(items) => Kind::List(items),
            Content::Map {
                mut entries,
                merges,
                ..
            } => {
                self.merge(&mut entries, &merges);
                Kind::Map(entries)
            }
        };
        let node = Node {
            kind,
            place: place(open.span.start),
            bytes: bytes(open.span.start, end.end),
            flow: open.flow,
            weight: open.weight,
        };
        self.finish(node, open.anchor)
    }

    /// Remembers a value's anchor and gives it to what holds it.
    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), Mistake> {
        let node = Rc::new(node);
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.put(node, 1)
    }

    fn alias(&mut self, id: usize, span: &Span) -> Result<(), Mistake> {
        let Some(node) = self.anchors.get(&id).map(Rc::clone) else {
            return Err(Mistake {
                place: place(span.start),
                message: "an alias stands inside of what it repeats".to_owned(),
                hint: "write the value out".to_owned(),
            });
        };
        let weight = node.weight;
        self.put(node, weight)
    }

    fn put(&mut self, node: Rc<Node>, counts: usize) -> Result<(), Mistake> {
        self.nodes = self.nodes.saturating_add(counts);
        if self.nodes > NODES_MAX {
            return Err(Mistake {
                place: node.place,
                message: format!("the file has more than {NODES_MAX} values"),
                hint: String::new(),
            });
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.weight = open.weight.saturating_add(node.weight);
        match &mut open.content {
            Content::List(items) => items.push(node),
            Content::Map {
                entries,
                merges,
                key,
                ..
            } => match key.take() {
                None => *key = Some(node),
                Some(key) => {
                    let wrong = add(entries, merges, &key, node);
                    self.mistakes.extend(wrong);
                }
            },
        }
        Ok(())
    }

    /// Adds what merge keys bring; keys of the map itself win, then the first.
    fn merge(&mut self, entries: &mut Vec<Entry>, merges: &[Rc<Node>]) {
        for node in merges {
            let maps: &[Rc<Node>] = match &node.kind {
                Kind::List(maps) => maps,
                Kind::Map(_) | Kind::Scalar { .. } => std::slice::from_ref(node),
            };
            for map in maps {
                let Kind::Map(from) = &map.kind else {
                    self.mistakes.push(Mistake {
                        place: map.place,
                        message: format!("`<<` takes a map, not {}", map.describe()),
                        hint: String::new(),
                    });
                    continue;
                };
                for entry in from {
                    if !entries.iter().any(|own| own.key == entry.key) {
                        entries.push(entry.clone());
                    }
                }
            }
        }
    }

    fn refuse_tag(&mut self, tag: Option<&granit_parser::Tag>, span: &Span) {
        if let Some(tag) = tag {
            self.mistakes.push(Mistake {
                place: place(span.tag_start().unwrap_or(span.start)),
                message: format!("{} is a YAML tag", quoted(&tag.original())),
                hint: "quote the value if it is text".to_owned(),
            });
        }
    }
}

/// Adds an entry, or answers what is wrong with its key.
fn add(
    entries: &mut Vec<Entry>,
    merges: &mut Vec<Rc<Node>>,
    key: &Node,
    value: Rc<Node>,
) -> Option<Mistake> {
    let Kind::Scalar { text, plain } = &key.kind else {
        return Some(Mistake {
            place: key.place,
            message: format!("a key is text, not {}", key.describe()),
            hint: "quote it if it is text that begins with `{` or `[`".to_owned(),
        });
    };
    if text == "<<" && *plain {
        merges.push(value);
        return None;
    }
    if let Some(first) = entries.iter().find(|entry| entry.key == *text) {
        return Some(Mistake {
            place: key.place,
            message: format!("{} is given twice", quoted(text)),
            hint: format!("it stands in line {} already", first.place.line),
        });
    }
    entries.push(Entry {
        key: text.clone(),
        place: key.place,
        bytes: key.bytes,
        value,
    });
    None
}

fn bytes(start: Marker, end: Marker) -> (usize, usize) {
    let byte = |marker: Marker| marker.byte_offset().unwrap_or(0);
    (byte(start), byte(end))
}

fn place(marker: Marker) -> Place {
    Place {
        line: u32::try_from(marker.line()).unwrap_or(u32::MAX),
        column: u32::try_from(marker.col() + 1).unwrap_or(u32::MAX),
    }
}

fn not_yaml(error: &granit_parser::ScanError) -> Mistake {
    Mistake {
        place: place(*error.marker()),
        message: format!("this is not YAML: {}", error.info()),
        hint:
            "check indentation, brackets and quotes near this place; YAML does not indent with tabs"
                .to_owned(),
    }
}
