//! An expression as text: the canonical form, and names as they are written.

use std::fmt::{self, Write as _};

use super::ast::{NameForm, NameRef, Node, Pick, PickRef};
use super::lex::is_plain_name;
use super::number::{print_instant, print_local};
use crate::words::fact::{Fact, FactKind, NOT_BUILT, signal_number};

/// Writes nodes with parentheses around every operation inside another.
pub(crate) struct Printer<'e> {
    pub names: &'e [NameRef],
    pub picks: &'e [PickRef],
    /// Whether the names are those of a peer: `peers.x`.
    pub of_peers: bool,
}

impl Printer<'_> {
    /// The canonical text of `node`.
    pub fn text(&self, node: &Node) -> String {
        let mut out = String::new();
        let written = self.node(&mut out, node);
        debug_assert!(written.is_ok(), "a string takes any text");
        out
    }

    fn node(&self, out: &mut String, node: &Node) -> fmt::Result {
        match node {
            Node::Number(_, text) => out.write_str(text),
            Node::Nan => out.write_str("nan"),
            Node::Inf => out.write_str("inf"),
            Node::Text(text) => out.write_str(&quoted(text, '\'')),
            Node::Bool(truth) => write!(out, "{truth}"),
            Node::Time(moment) => out.write_str(&print_instant(moment.ms)),
            Node::Now => out.write_str("now"),
            Node::Fact(fact) => out.write_str(fact.as_str()),
            Node::Place(fact) => out.write_str(fact.as_str()),
            Node::Probe(name) => out.write_str(name),
            Node::Is(state) => out.write_str(state.as_str()),
            Node::Name(slot) => {
                let name = written_name(&self.names[usize::from(*slot)]);
                write!(out, "{}{name}", self.prefix())
            }
            Node::Over(fold, slot, window) => {
                let metric = written_metric(&self.names[usize::from(*slot)].text);
                write!(out, "{}({}{metric}", fold.as_str(), self.prefix())?;
                if let Some(window) = window {
                    write!(out, ", {}", window.text)?;
                }
                out.write_char(')')
            }
            Node::At(slot, _, step) => {
                let metric = written_metric(&self.names[usize::from(*slot)].text);
                write!(out, "{}{metric}@{step}", self.prefix())
            }
            Node::Cohort(cohort) => out.write_str(&cohort.text),
            Node::Math(function, inner) => {
                out.write_str(function.as_str())?;
                self.in_parentheses(out, inner)
            }
            Node::For(inner, duration, _) => {
                self.below(out, inner)?;
                write!(out, " for {}", duration.text)
            }
            Node::After(inner, duration) => {
                self.below(out, inner)?;
                write!(out, " after {}", duration.text)
            }
            Node::In(parts) => {
                self.value(out, &parts[0])?;
                out.write_str(" in (")?;
                for (at, item) in parts[1..].iter().enumerate() {
                    out.write_str(if at == 0 { "" } else { ", " })?;
                    match (item, &parts[0]) {
                        (Node::Time(moment), Node::Name(_)) => {
                            out.write_str(&print_local(*moment))?;
                        }
                        _ => self.node(out, item)?,
                    }
                }
                out.write_char(')')
            }
            Node::Pick(slot) => out.write_str(&pick_text(&self.picks[usize::from(*slot)].pick)),
            Node::Neg(inner) => {
                out.write_char('-')?;
                self.value(out, inner)
            }
            Node::Not(inner) => {
                out.write_char('!')?;
                self.below(out, inner)
            }
            Node::Arith(op, pair) => self.pair(out, pair, op.sign()),
            Node::Compare(op, pair) if op.is_equality() && self.would_be_text(pair) => {
                self.value(out, &pair[0])?;
                write!(out, " {} ", op.sign())?;
                self.in_parentheses(out, &pair[1])
            }
            Node::Compare(op, pair) => self.pair(out, pair, op.sign()),
            Node::Glob(left, glob) => {
                self.value(out, left)?;
                write!(out, " = {}", quoted(glob.as_str(), '\''))
            }
            Node::Match(left, pattern) => {
                self.value(out, left)?;
                write!(out, " =~ {}", quoted(pattern.as_str(), '\''))
            }
            Node::And(parts) => self.list(out, parts, " && "),
            Node::Or(parts) => self.list(out, parts, " || "),
        }
    }

    fn prefix(&self) -> &'static str {
        if self.of_peers { "peers." } else { "" }
    }

    /// Whether the right side, printed bare, would be read as text or as the name
    /// of a signal: `name == (other)`.
    fn would_be_text(&self, pair: &[Node; 2]) -> bool {
        let (left, kind) = match &pair[0] {
            Node::Fact(left) => (Some(*left), left.kind()),
            Node::Place(left) => (None, left.kind()),
            _ => return false,
        };
        let word = match &pair[1] {
            Node::Name(slot) => {
                let name = &self.names[usize::from(*slot)];
                if name.asked != NameForm::Any {
                    return false;
                }
                &*name.text
            }
            Node::Fact(fact) => fact.as_str(),
            Node::Place(fact) => fact.as_str(),
            Node::Bool(_) | Node::Now | Node::Nan | Node::Inf => "",
            _ => return false,
        };
        match kind {
            _ if left == Some(Fact::Signal) => signal_number(word).is_some(),
            FactKind::Text | FactKind::Version | FactKind::Words => true,
            FactKind::Number | FactKind::Seconds | FactKind::Bytes | FactKind::Time => false,
        }
    }

    fn pair(&self, out: &mut String, pair: &[Node; 2], sign: &str) -> fmt::Result {
        self.beside(out, &pair[0], &pair[1])?;
        write!(out, " {sign} ")?;
        self.beside(out, &pair[1], &pair[0])
    }

    /// A value beside another one. A date beside a name keeps its offset: the parameter may be a
    /// date without a zone.
    fn beside(&self, out: &mut String, node: &Node, other: &Node) -> fmt::Result {
        match (node, other) {
            (Node::Time(moment), Node::Name(_)) => out.write_str(&print_local(*moment)),
            _ => self.value(out, node),
        }
    }

    fn list(&self, out: &mut String, parts: &[Node], sign: &str) -> fmt::Result {
        for (at, part) in parts.iter().enumerate() {
            out.write_str(if at == 0 { "" } else { sign })?;
            self.below(out, part)?;
        }
        Ok(())
    }

    /// An operand: in parentheses unless it is one word or has a sign of its own.
    fn below(&self, out: &mut String, node: &Node) -> fmt::Result {
        let is_one = matches!(node, Node::Neg(_) | Node::Not(_) | Node::Math(..));
        let binds = !node.children().is_empty() && !is_one;
        if binds {
            self.in_parentheses(out, node)
        } else {
            self.node(out, node)
        }
    }

    /// Prints an operand of a comparison or calculation, where a bare state word,
    /// id or name in backticks would be read as a value instead.
    fn value(&self, out: &mut String, node: &Node) -> fmt::Result {
        match node {
            Node::Is(_) | Node::Pick(_) | Node::Not(_) => self.in_parentheses(out, node),
            _ => self.below(out, node),
        }
    }

    fn in_parentheses(&self, out: &mut String, node: &Node) -> fmt::Result {
        out.write_char('(')?;
        self.node(out, node)?;
        out.write_char(')')
    }
}

/// `text` between two `quote`s, with those inside doubled.
pub(crate) fn quoted(text: &str, quote: char) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        out.push(c);
        if c == quote {
            out.push(c);
        }
    }
    out.push(quote);
    out
}

/// The form in which this name is typed.
pub(crate) fn written_name(name: &NameRef) -> String {
    let text = &*name.text;
    match name.asked {
        NameForm::Any => text.to_owned(),
        NameForm::Quoted => quoted(text, '`'),
        NameForm::Param => qualified("param", text),
        NameForm::Metric => qualified("metric", text),
    }
}

/// A metric in a function or before `@`, where a plain word means one.
fn written_metric(name: &str) -> String {
    let is_other = Fact::from_word(name).is_some()
        || name.starts_with("param.")
        || name.starts_with("metric.")
        || name.starts_with("peers.")
        || WORDS.contains(&name)
        || NOT_BUILT.contains(&name);
    if is_plain_name(name) && !is_other {
        name.to_owned()
    } else {
        qualified("metric", name)
    }
}

/// Words that are never a name.
const WORDS: [&str; 15] = [
    "and",
    "or",
    "not",
    "for",
    "after",
    "in",
    "true",
    "false",
    "now",
    "today",
    "yesterday",
    "nan",
    "inf",
    "all",
    "peers",
];

/// `param.x`, or `param('x y')` for odd names.
pub(crate) fn qualified(prefix: &str, name: &str) -> String {
    let dotted = format!("{prefix}.{name}");
    if is_plain_name(&dotted) {
        dotted
    } else {
        format!("{prefix}({})", quoted(name, '\''))
    }
}

/// A pick as it is typed.
pub(crate) fn pick_text(pick: &Pick) -> String {
    match pick {
        Pick::Id(id) => id.to_string(),
        Pick::Range {
            first,
            last,
            step: 1,
        } => format!("{first}-{last}"),
        Pick::Range { first, last, step } => format!("{first}-{last}:{step}"),
        Pick::Run { id, attempt } => format!("{id}.{attempt}"),
        Pick::All => "all".to_owned(),
        Pick::Last => "last".to_owned(),
        Pick::Name(name) => quoted(name, '`'),
    }
}
