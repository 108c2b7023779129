//! Builds the objects of a text as PyYAML's safe loader does.
//!
//! The parser is that of `nero-yaml`; its tree is not used, since it knows keys that are text alone,
//! refuses keys that are given twice and puts merged keys elsewhere.

use std::collections::HashMap;
use std::rc::Rc;

use nero_format::python::{Item, Object, Plain, resolve};
use nero_yaml::{Mark, MistakeKind, Wrong};
use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, Span, Tag};

use crate::difference::{Departure, Difference};

/// Levels of nesting.
const DEPTH_MAX: usize = 100;
/// Characters of a key without `?`, as in PyYAML.
const KEY_CHARS_MAX: usize = 1024;
/// Values of a spec.
const VALUES_MAX: usize = 2_000_000;
/// Values that aliases repeat.
const REPEATED_MAX: usize = 2_000_000;

/// A text that is no spec.
#[derive(Debug)]
pub enum LoadError {
    /// It does not parse.
    Yaml(Wrong),
    /// PyYAML's safe loader has no such value.
    Value {
        /// Where.
        mark: Mark,
        /// What.
        message: String,
    },
}

impl From<Wrong> for LoadError {
    fn from(wrong: Wrong) -> Self {
        Self::Yaml(wrong)
    }
}

/// The root of `text`, `None` of a text without values.
///
/// # Errors
/// The mistake that ended the reading.
pub fn load(text: &str, departures: &mut Vec<Departure>) -> Result<Option<Rc<Item>>, LoadError> {
    let mut options = granit_parser::options! {
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
        simple_key_max_lookahead: KEY_CHARS_MAX,
    };
    options.set_emit_comments(false);
    let mut loader = Loader {
        departures,
        open: Vec::new(),
        anchors: HashMap::new(),
        root: None,
        documents: 0,
        values: 0,
        repeated: 0,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| nero_yaml::not_yaml(text, &error))?;
        loader.event(event, span)?;
    }
    Ok(loader.root)
}

/// Keys with their values.
type Pairs = Vec<(Rc<Item>, Rc<Item>)>;

/// A collection whose end has not come.
struct OpenNode {
    anchor: usize,
    mark: Mark,
    weight: usize,
    content: OpenContent,
}

enum OpenContent {
    List(Vec<Rc<Item>>),
    Map {
        pairs: Pairs,
        /// A key whose value has not come.
        key: Option<Rc<Item>>,
    },
}

struct Loader<'a> {
    departures: &'a mut Vec<Departure>,
    open: Vec<OpenNode>,
    anchors: HashMap<usize, Rc<Item>>,
    root: Option<Rc<Item>>,
    documents: usize,
    values: usize,
    repeated: usize,
}

impl Loader<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), LoadError> {
        let mark = Mark::of(span.start);
        let tag_mark = Mark::of(span.tag_start().unwrap_or(span.start));
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(wrong(mark, MistakeKind::SecondDocument).into());
                }
            }
            Event::Scalar(value, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                // The parser writes `~` for a value that is not there.
                let written = if plain && span.is_empty() {
                    String::new()
                } else {
                    value.into_owned()
                };
                let object = self.scalar(&written, plain, tag.as_deref(), mark, tag_mark)?;
                let item = Item {
                    object,
                    mark,
                    written,
                    plain,
                    weight: 1,
                };
                self.finish(item, anchor)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                collection_tag(tag.as_deref(), &["seq"], tag_mark)?;
                self.begin(anchor, mark, OpenContent::List(Vec::new()));
            }
            Event::MappingStart(_, anchor, tag) => {
                collection_tag(tag.as_deref(), &["map"], tag_mark)?;
                let (pairs, key) = (Vec::new(), None);
                self.begin(anchor, mark, OpenContent::Map { pairs, key });
            }
            Event::SequenceEnd | Event::MappingEnd => self.end()?,
            Event::Alias(id) => {
                let Some(item) = self.anchors.get(&id).map(Rc::clone) else {
                    return Err(wrong(mark, MistakeKind::AliasInItself).into());
                };
                self.repeated = self.repeated.saturating_add(item.weight);
                if self.repeated > REPEATED_MAX {
                    return Err(wrong(mark, MistakeKind::TooManyRepeated(REPEATED_MAX)).into());
                }
                self.place(item)?;
            }
            other if other.is_node() => return Err(wrong(mark, MistakeKind::Unknown).into()),
            _ => {}
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        written: &str,
        plain: bool,
        tag: Option<&Tag>,
        mark: Mark,
        tag_mark: Mark,
    ) -> Result<Object, LoadError> {
        let text = || Object::Text(written.to_owned());
        let Some(tag) = tag else {
            return Ok(if plain {
                self.plain(written, mark)
            } else {
                text()
            });
        };
        // `!` alone: no resolution.
        if tag.handle().is_empty() && tag.suffix() == "!"
            || tag.handle() == "!" && tag.suffix().is_empty()
        {
            return Ok(text());
        }
        let suffix = tag.core_suffix();
        if suffix == Some("str") {
            return Ok(text());
        }
        // A value of that kind keeps it; PyYAML converts or crashes in all other cases.
        let read = match resolve(written) {
            Plain::Read(object) => object,
            Plain::Impossible | Plain::Sign => text(),
        };
        match (suffix, &read) {
            (Some("null"), _) => Ok(Object::Null),
            (Some("bool"), Object::Bool(_))
            | (Some("int"), Object::Int(_))
            | (Some("float"), Object::Float(_)) => Ok(read),
            (Some("float"), Object::Int(_)) => match written.replace('_', "").parse() {
                Ok(number) => Ok(Object::Float(number)),
                Err(_) => Err(no_tag(tag, tag_mark)),
            },
            _ => Err(no_tag(tag, tag_mark)),
        }
    }

    fn plain(&mut self, written: &str, mark: Mark) -> Object {
        let place = self.open.last().map(|open| &open.content);
        let is_key = matches!(place, Some(OpenContent::Map { key: None, .. }));
        match resolve(written) {
            Plain::Sign if is_key => Object::Text(written.to_owned()),
            Plain::Read(object) => {
                if matches!(object, Object::Time(_)) {
                    self.depart(Difference::Time, mark);
                }
                object
            }
            Plain::Impossible | Plain::Sign => {
                self.depart(Difference::NoSuchValue, mark);
                Object::Text(written.to_owned())
            }
        }
    }

    fn depart(&mut self, difference: Difference, mark: Mark) {
        self.departures.push(Departure { difference, mark });
    }

    fn begin(&mut self, anchor: usize, mark: Mark, content: OpenContent) {
        self.open.push(OpenNode {
            anchor,
            mark,
            weight: 1,
            content,
        });
    }

    fn end(&mut self) -> Result<(), LoadError> {
        let open = self.open.pop().expect("an end follows its start");
        let object = match open.content {
            OpenContent::List(items) => Object::List(items),
            OpenContent::Map { pairs, .. } => Object::Map(self.dict(pairs)?),
        };
        let item = Item {
            object,
            mark: open.mark,
            written: String::new(),
            plain: false,
            weight: open.weight,
        };
        self.finish(item, open.anchor)
    }

    /// Counts a value, remembers its anchor and gives it to what holds it.
    fn finish(&mut self, item: Item, anchor: usize) -> Result<(), LoadError> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(wrong(item.mark, MistakeKind::TooMany(VALUES_MAX)).into());
        }
        let item = Rc::new(item);
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&item));
        }
        self.place(item)
    }

    fn place(&mut self, item: Rc<Item>) -> Result<(), LoadError> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(item);
            return Ok(());
        };
        open.weight = open.weight.saturating_add(item.weight);
        match &mut open.content {
            OpenContent::List(items) => items.push(item),
            OpenContent::Map { pairs, key } => match key.take() {
                None => {
                    if matches!(item.object, Object::List(_) | Object::Map(_)) {
                        let is = item.object.describe();
                        return Err(wrong(item.mark, MistakeKind::KeyIsNoText { is }).into());
                    }
                    *key = Some(item);
                }
                Some(key) => pairs.push((key, item)),
            },
        }
        Ok(())
    }

    /// Python's dict of the pairs: what `<<` brings comes first, a key that is given again keeps
    /// its place and takes the new value.
    fn dict(&mut self, pairs: Pairs) -> Result<Pairs, LoadError> {
        let is_merge = |key: &Item| key.plain && key.written == "<<";
        let mut dict: Pairs = Vec::with_capacity(pairs.len());
        let mut places = HashMap::with_capacity(pairs.len());
        for (_, value) in pairs.iter().filter(|(key, _)| is_merge(key)) {
            let maps: &[Rc<Item>] = match &value.object {
                Object::List(maps) => maps,
                _ => std::slice::from_ref(value),
            };
            for map in maps {
                let Object::Map(merged) = &map.object else {
                    let is = map.object.describe();
                    return Err(wrong(map.mark, MistakeKind::MergesNoMap { is }).into());
                };
                for (key, value) in merged {
                    if let std::collections::hash_map::Entry::Vacant(place) =
                        places.entry(key.object.text())
                    {
                        place.insert(dict.len());
                        dict.push((Rc::clone(key), Rc::clone(value)));
                    } else {
                        self.depart(Difference::MergeOrder, map.mark);
                    }
                }
            }
        }
        for (key, value) in pairs.into_iter().filter(|(key, _)| !is_merge(key)) {
            let place = *places.entry(key.object.text()).or_insert(dict.len());
            match dict.get_mut(place) {
                Some(entry) => entry.1 = value,
                None => dict.push((key, value)),
            }
        }
        Ok(dict)
    }
}

fn wrong(mark: Mark, what: MistakeKind) -> Wrong {
    Wrong { mark, what }
}

fn collection_tag(tag: Option<&Tag>, known: &[&str], mark: Mark) -> Result<(), LoadError> {
    match tag {
        Some(tag) if !tag.core_suffix().is_some_and(|tag| known.contains(&tag)) => {
            Err(no_tag(tag, mark))
        }
        _ => Ok(()),
    }
}

fn no_tag(tag: &Tag, mark: Mark) -> LoadError {
    let tag = nero_model::safe::quoted(&tag.original());
    LoadError::Value {
        mark,
        message: format!("the tag {tag} is none that fits this value"),
    }
}
