//! Reads the values of a tree and collects every mistake in them.
//!
//! A reader of a file asks for one value after another; what does not fit is kept with
//! its place and what to do, and the reading goes on, so that a person sees all
//! mistakes at once. `what` is the name of a field as messages show it.

use std::collections::HashSet;
use std::rc::Rc;

use nero_model::names::{suggest, word_hint};
use nero_model::safe::{Safe, quoted};
use nero_model::units::{self, UnitError};

use crate::scalar;
use crate::tree::{Entry, Kind, Mark, Node};
use crate::wrong::Wrong;
use crate::{Limits, parse};

/// More mistakes than a person reads at once.
pub const MISTAKES_MAX: usize = 100;
/// More processors than any machine has.
const CPUS_MAX: f64 = 1e6;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Its place in the text.
    pub place: Mark,
    /// What is wrong.
    pub message: String,
    /// What to do; may be empty.
    pub hint: String,
}

impl From<Wrong> for Mistake {
    fn from(Wrong { mark, what }: Wrong) -> Self {
        Self {
            place: mark,
            message: what.to_string(),
            hint: what.hint(),
        }
    }
}

/// All mistakes of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes {
    /// In the order of the text, at most [`MISTAKES_MAX`], never none.
    pub list: Vec<Mistake>,
    /// Whether there are more.
    pub truncated: bool,
}

/// Whether zero of something can be meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zero {
    /// It can.
    Allowed,
    /// It is a mistake.
    Refused,
}

/// Reads values, and holds the mistakes found so far.
#[derive(Debug, Default)]
pub struct Fields {
    mistakes: Vec<Mistake>,
    seen: HashSet<(Mark, String)>,
    truncated: bool,
}

impl Fields {
    /// The tree of a text, or `None` for a text without a document. Mistakes that do
    /// not end the reading are collected.
    ///
    /// # Errors
    /// When the text does not parse, or is out of all bounds.
    pub fn tree(&mut self, text: &str, limits: &Limits) -> Result<Option<Rc<Node>>, Wrong> {
        parse(text, limits, &mut |wrong| self.add(wrong.into()))
    }

    /// The mistakes so far, for more to be told of them.
    pub fn mistakes_mut(&mut self) -> impl Iterator<Item = &mut Mistake> {
        self.mistakes.iter_mut()
    }

    /// Reports a mistake.
    pub fn wrong(&mut self, place: Mark, message: impl Into<String>, hint: impl Into<String>) {
        self.add(Mistake {
            place,
            message: message.into(),
            hint: hint.into(),
        });
    }

    /// Adds a mistake unless the same place already has the same mistake: an inherited value is
    /// read by many blocks.
    pub fn add(&mut self, mistake: Mistake) {
        if self
            .seen
            .contains(&(mistake.place, mistake.message.clone()))
        {
            return;
        }
        if self.mistakes.len() >= MISTAKES_MAX {
            self.truncated = true;
            return;
        }
        self.seen.insert((mistake.place, mistake.message.clone()));
        self.mistakes.push(mistake);
    }

    /// Whether there is no use in reading on.
    pub fn full(&self) -> bool {
        self.truncated
    }

    /// How many mistakes there are; a caller compares before and after a step.
    pub fn count(&self) -> usize {
        self.mistakes.len() + usize::from(self.truncated)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// All mistakes, if there is one.
    pub fn finish(mut self) -> Result<(), Mistakes> {
        if self.mistakes.is_empty() {
            return Ok(());
        }
        self.mistakes.sort_by_key(|mistake| mistake.place);
        Err(Mistakes {
            list: self.mistakes,
            truncated: self.truncated,
        })
    }

    /// Reports a word that is none of the `known` and `later` ones: it "is no resource".
    pub fn unknown(&mut self, entry: &Entry, is_no: &str, known: &[&str], later: &[&str]) {
        let message = format!("{} {is_no}", quoted(&entry.key));
        let hint = word_hint(&entry.key, known, later);
        self.wrong(entry.key_mark, message, hint);
    }

    /// A single text; numbers and words count as they were written.
    pub fn single<'n>(&mut self, what: &str, node: &'n Node) -> Option<&'n str> {
        let Some(text) = node.scalar() else {
            self.wrong(
                node.mark,
                format!("`{what}` takes a single text, not {}", node.describe()),
                "quote it if it is text",
            );
            return None;
        };
        (!self.is_odd(&format!("`{what}`"), text, node.mark)).then_some(text)
    }

    /// Reports characters that no text of ours may hold; `what` is shown as it is.
    pub fn is_odd(&mut self, what: &str, text: &str, place: Mark) -> bool {
        if text.contains('\0') {
            let message = format!("{what} holds a NUL character");
            self.wrong(place, message, "leave it out");
            return true;
        }
        self.is_marked(what, text, place)
    }

    /// Reports a character with which we mark places; `what` is shown as it is.
    pub fn is_marked(&mut self, what: &str, text: &str, place: Mark) -> bool {
        let marked = nero_model::data::has_mark(text);
        if marked {
            let message = format!("{what} holds U+E0D0 or U+E0D1, with which neronet marks places");
            self.wrong(place, message, "leave these private characters out");
        }
        marked
    }

    /// The entries of a map.
    pub fn map<'n>(&mut self, what: &str, node: &'n Node, example: &str) -> &'n [Entry] {
        if let Kind::Map(entries) = &node.kind {
            return entries;
        }
        self.wrong(
            node.mark,
            format!("`{what}` takes a map, not {}", node.describe()),
            format!("for example `{example}`"),
        );
        &[]
    }

    /// `true`, `no` and their like.
    pub fn boolean(&mut self, what: &str, node: &Node) -> Option<bool> {
        let truth = node.scalar().and_then(scalar::boolean);
        if truth.is_none() {
            self.wrong(node.mark, format!("`{what}` takes true or false"), "");
        }
        truth
    }

    /// What one of the `known` words stands for.
    pub fn choice<T: Copy>(&mut self, what: &str, node: &Node, known: &[(&str, T)]) -> Option<T> {
        let text = self.single(what, node)?;
        let found = known.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
            let near = suggest(text, &words).map(|near| format!("did you mean `{near}`?"));
            let (last, before) = words.split_last().unwrap_or((&"nothing", &[]));
            let words = format!("{} or {last}", before.join(", "));
            let message = format!("`{what}` takes {words}, not {}", quoted(text));
            self.wrong(node.mark, message, near.unwrap_or_default());
        }
        found.map(|(_, value)| *value)
    }

    /// A number of processors above zero; parts of one count.
    pub fn cpus(&mut self, what: &str, node: &Node) -> Option<f64> {
        let number = node.scalar().and_then(scalar::number);
        let number = number.map(scalar::Number::as_f64);
        let fits = number.filter(|number| *number > 0.0 && *number <= CPUS_MAX);
        if fits.is_none() {
            let message = format!("`{what}` takes a number above zero");
            let hint = "for example 4; parts of a processor count, too, as 0.5";
            self.wrong(node.mark, message, hint);
        }
        fits
    }

    /// A duration.
    pub fn duration_ms(&mut self, what: &str, node: &Node, zero: Zero) -> Option<u64> {
        let hint = "write for example 90, 10m, 2h or 1h30m; a bare number is seconds";
        self.quantity(what, node, zero, units::parse_duration_ms, hint)
    }

    /// A number of bytes.
    pub fn size_bytes(&mut self, what: &str, node: &Node, zero: Zero) -> Option<u64> {
        let hint = "write for example 512M or 4G; a bare number is bytes";
        self.quantity(what, node, zero, units::parse_bytes, hint)
    }

    fn quantity(
        &mut self,
        what: &str,
        node: &Node,
        zero: Zero,
        parse: fn(&str) -> Result<u64, UnitError>,
        hint: &str,
    ) -> Option<u64> {
        let text = self.single(what, node)?;
        match parse(text) {
            Ok(0) if zero == Zero::Refused => {
                self.wrong(node.mark, format!("`{what}` is zero"), hint);
                None
            }
            Ok(amount) => Some(amount),
            Err(error) => {
                let error = error.to_string();
                self.wrong(node.mark, format!("`{what}`: {}", Safe::line(&error)), hint);
                None
            }
        }
    }
}
