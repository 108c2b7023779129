//! Builds the tree from the events of the YAML parser.
//!
//! The typed interface of `serde-saphyr` loses how a scalar was written (`0.10`,
//! `no`), and parameters need exactly that. Built from events, one place also sees
//! tags, duplicate keys, merge keys and aliases. Mistakes here are collected like all
//! others; only a text that does not parse ends the reading. Sizes are bounded: no
//! nesting or alias makes more than the file's own size deserves.

use crate::problem::{Problem, Problems, quoted};
use crate::source::{Mark, Text};
use crate::tree::{Entry, Kind, Node};
use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, Span};
use std::collections::HashMap;
use std::rc::Rc;

/// Deeper nesting is a mistake or an attack.
const DEPTH_MAX: usize = 64;
/// Nodes that a file may write out; about 64 MiB of the shortest ones.
const NODES_MAX: usize = 8_000_000;
/// Nodes that aliases may repeat, whatever the file's size.
const ALIAS_NODES_MAX: usize = 250_000;

/// Builds the tree, or `None` for a file without a document. A text that does not
/// parse is the one mistake that ends the reading at once.
pub(crate) fn parse(text: &Text, problems: &mut Problems) -> Result<Option<Rc<Node>>, Problem> {
    let mut options = granit_parser::options! {
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
        simple_key_max_lookahead: 8192,
    };
    options.set_emit_comments(false);
    let mut builder = Builder {
        text,
        problems,
        open: Vec::new(),
        anchors: HashMap::new(),
        root: None,
        documents: 0,
        nodes: 0,
        alias_nodes: 0,
    };
    for item in Parser::new_from_str_with_options(&text.text, options) {
        let (event, span) = item.map_err(|e| scan_problem(text, &e))?;
        builder.event(event, span)?;
    }
    Ok(builder.root)
}

/// A collection whose end has not come.
struct Open {
    anchor: usize,
    tuple: bool,
    span: Span,
    weight: usize,
    content: Content,
}

enum Content {
    List(Vec<Rc<Node>>),
    Map {
        entries: Vec<Entry>,
        key: Option<Rc<Node>>,
        seen: HashMap<String, Mark>,
        merges: Vec<(usize, Rc<Node>)>,
    },
}

struct Builder<'a> {
    text: &'a Text,
    problems: &'a mut Problems,
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    root: Option<Rc<Node>>,
    documents: usize,
    nodes: usize,
    alias_nodes: usize,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Problem> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(self.text.problem(
                        mark(span.start),
                        "a second document begins here",
                        "one file has one document: remove the `---`",
                    ));
                }
            }
            Event::Scalar(value, style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), &span, false);
                let empty = span.is_empty() && style == ScalarStyle::Plain;
                let node = Node {
                    kind: Kind::Scalar {
                        text: if empty {
                            String::new()
                        } else {
                            value.into_owned()
                        },
                        plain: style == ScalarStyle::Plain,
                    },
                    mark: mark(span.start),
                    tuple: false,
                    bytes: span.byte_range().map(|r| (r.start, r.end)),
                    weight: 1,
                };
                self.finish(Rc::new(node), anchor)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                let tuple = self.refuse_tag(tag.as_deref(), &span, true);
                self.begin(anchor, tuple, span, Content::List(Vec::new()));
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), &span, false);
                let content = Content::Map {
                    entries: Vec::new(),
                    key: None,
                    seen: HashMap::new(),
                    merges: Vec::new(),
                };
                self.begin(anchor, false, span, content);
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span)?,
            Event::Alias(id) => self.alias(id, &span)?,
            // Streams, document ends, comments and whatever a later parser adds as
            // metadata are no nodes; `is_node` decides should that ever change.
            other if other.is_node() => {
                return Err(self.text.problem(
                    mark(span.start),
                    "this YAML construct is not understood",
                    "write the value out",
                ));
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, anchor: usize, tuple: bool, span: Span, content: Content) {
        self.open.push(Open {
            anchor,
            tuple,
            span,
            weight: 1,
            content,
        });
    }

    fn end(&mut self, end: Span) -> Result<(), Problem> {
        let open = self.open.pop().expect("an end follows its start");
        let kind = match open.content {
            Content::List(items) => Kind::List(items),
            Content::Map {
                entries,
                seen,
                merges,
                ..
            } => Kind::Map(self.merged(entries, seen, merges)),
        };
        let bytes = open.span.start.byte_offset().zip(end.end.byte_offset());
        let node = Node {
            kind,
            mark: mark(open.span.start),
            tuple: open.tuple,
            bytes,
            weight: open.weight,
        };
        self.finish(Rc::new(node), open.anchor)
    }

    /// Counts a node, remembers its anchor and gives it to what holds it.
    fn finish(&mut self, node: Rc<Node>, anchor: usize) -> Result<(), Problem> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(self.text.problem(
                node.mark,
                format!("the file has more than {NODES_MAX} values"),
                "write ranges, or several files",
            ));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.place(node);
        Ok(())
    }

    fn alias(&mut self, id: usize, span: &Span) -> Result<(), Problem> {
        let Some(node) = self.anchors.get(&id).map(Rc::clone) else {
            return Err(self.text.problem(
                mark(span.start),
                "an alias stands inside of what it repeats",
                "write the value out",
            ));
        };
        self.alias_nodes = self.alias_nodes.saturating_add(node.weight);
        if self.alias_nodes > ALIAS_NODES_MAX {
            return Err(self.text.problem(
                mark(span.start),
                format!("aliases repeat more than {ALIAS_NODES_MAX} values"),
                "use blocks that inherit (`+name:`) instead of aliases",
            ));
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
            Content::Map {
                entries,
                key,
                seen,
                merges,
            } => match key.take() {
                None => *key = Some(node),
                Some(key) => {
                    if let Some((mark, message, hint)) = put(entries, seen, merges, &key, node) {
                        self.problems.add(self.text, mark, message, hint);
                    }
                }
            },
        }
    }

    /// Puts merged entries where `<<` stood; keys of the map itself win.
    fn merged(
        &mut self,
        entries: Vec<Entry>,
        mut seen: HashMap<String, Mark>,
        merges: Vec<(usize, Rc<Node>)>,
    ) -> Vec<Entry> {
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
                    self.problems.add(
                        self.text,
                        map.mark,
                        format!("`<<` takes a map or a list of maps, not {}", map.describe()),
                        "for a parameter of that name quote it: '<<'",
                    );
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

    /// Reports any tag but a tuple on a list. Answers whether there is a tuple.
    fn refuse_tag(
        &mut self,
        tag: Option<&granit_parser::Tag>,
        span: &Span,
        tuple_fits: bool,
    ) -> bool {
        let Some(tag) = tag else {
            return false;
        };
        if tag.core_suffix() == Some("python/tuple") || tag.original() == "!!python/tuple" {
            if !tuple_fits {
                self.problems.add(
                    self.text,
                    mark(span.start),
                    "`!!python/tuple` goes before a list",
                    "for example `!!python/tuple [0, 1, 0.1]`",
                );
            }
            return tuple_fits;
        }
        let at = mark(span.tag_start().unwrap_or(span.start));
        let written = tag.original();
        let line = self.text.line(at.line);
        let rest = line
            .char_indices()
            .nth(at.column as usize - 1)
            .map_or("", |(index, _)| &line[index..]);
        let rest = rest.split(" #").next().unwrap_or("");
        let rest = rest.split(['}', ']']).next().unwrap_or("").trim();
        let hint = if written.starts_with("!!") || rest.contains(['{', '[', '\'']) {
            "quote the value if it is text; of tags only `!!python/tuple` is read".to_owned()
        } else {
            format!(
                "quote it if it is text: '{}'",
                crate::problem::printable(rest)
            )
        };
        self.problems.add(
            self.text,
            at,
            format!("{} is a YAML tag", quoted(&written)),
            hint,
        );
        false
    }
}

/// Adds an entry, or answers what is wrong with its key.
fn put(
    entries: &mut Vec<Entry>,
    seen: &mut HashMap<String, Mark>,
    merges: &mut Vec<(usize, Rc<Node>)>,
    key: &Node,
    value: Rc<Node>,
) -> Option<(Mark, String, String)> {
    let Kind::Scalar { text: name, plain } = &key.kind else {
        return Some((
            key.mark,
            format!("a key is text, not {}", key.describe()),
            "quote it if it is text that begins with `{` or `[`".to_owned(),
        ));
    };
    if let Some(first) = seen.get(name) {
        return Some((
            key.mark,
            format!("{} is given twice", quoted(name)),
            format!("it stands in line {} already", first.line),
        ));
    }
    seen.insert(name.clone(), key.mark);
    if name == "<<" && *plain {
        merges.push((entries.len(), value));
    } else {
        entries.push(Entry {
            key: name.clone(),
            key_mark: key.mark,
            value,
        });
    }
    None
}

fn mark(marker: granit_parser::Marker) -> Mark {
    Mark {
        line: u32::try_from(marker.line()).unwrap_or(u32::MAX),
        column: u32::try_from(marker.col() + 1).unwrap_or(u32::MAX),
    }
}

/// The parser's mistake in our form, with the cause that people usually have.
fn scan_problem(text: &Text, error: &granit_parser::ScanError) -> Problem {
    use granit_parser::ErrorKind as E;
    let at = mark(*error.marker());
    let line = text.line(at.line);
    let indent = &line[..line.len() - line.trim_start().len()];
    let after = line.trim_start();
    let hint = if indent.contains('\t') {
        "YAML does not indent with tabs: use spaces"
    } else {
        match error.kind() {
            _ if brace_begins_text(line) => "quote text that begins with `{`: '{x} {y}'",
            E::InvalidTrailingDoubleQuotedScalar | E::InvalidTrailingSingleQuotedScalar => {
                "quote the whole value, with the other kind of quotes outside"
            }
            _ if error.info().contains("quoted scalar") => {
                "close the quote, or double a quote inside of it"
            }
            E::RecursionLimitExceeded => "values are nested too deeply",
            E::UnknownAnchor => "quote text that begins with `*`: '*.py'",
            E::MappingValueNotAllowed => {
                "quote text that holds `: `, or check the indentation of this line"
            }
            E::UnexpectedCharacter { .. } => "quote text that begins with this character",
            E::UnclosedFlowCollection { .. }
            | E::UnexpectedEofFlowSequence
            | E::UnexpectedEofFlowMapping => "close the bracket",
            _ if after.starts_with(['@', '`', '%']) => "quote text that begins with this character",
            _ => "check indentation, brackets and quotes near this place",
        }
    };
    text.problem(at, format!("this is not YAML: {}", error.info()), hint)
}

/// `parameters_format: {x} {y}`, the commonest mistake: YAML ends the value at `}`.
fn brace_begins_text(line: &str) -> bool {
    line.split_once(": {")
        .and_then(|(_, rest)| rest.split_once('}'))
        .is_some_and(|(inside, after)| {
            let after = after.trim();
            !inside.contains([':', ','])
                && !after.is_empty()
                && !after.starts_with(['#', ',', '}', ']'])
        })
}
