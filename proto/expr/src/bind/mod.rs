//! Binds each written name of an expression to a parameter, metric or fact.
//!
//! In a standing rule a name is bound once, at its first fit, and stays bound:
//! the pairs are recorded with the run ([`Bindings::records`]) and given to the
//! next watcher ([`Bindings::from_records`]). A second fit of a loosely written
//! name makes the name unknown, and never switches it.

pub(crate) mod scope;

use self::scope::Scope;
use crate::tree::ast::{NameForm, NameKind, NameRef, Node, loose_fact};
use crate::tree::expr::Expr;
use crate::tree::lex;
use crate::tree::number::{ScannedNumber, scan_number};
use crate::tree::print::{qualified, quoted, written_name};
use crate::words::error::{ErrorKind, ExprError};
use crate::words::fact::{Fact, FactKind};
use crate::words::slips;
use crate::words::state::State;
use nero_model::names::{same_loosely, suggest};
use nero_model::sets;

/// The meaning of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A fact, written loosely (`Run_Time`).
    Fact(Fact),
    /// The parameter of this exact name.
    Param(Box<str>),
    /// The metric of this exact name.
    Metric(Box<str>),
}

impl Bound {
    pub(crate) fn new(kind: NameKind, name: &str) -> Bound {
        match kind {
            NameKind::Param => Bound::Param(name.into()),
            NameKind::Metric => Bound::Metric(name.into()),
        }
    }

    /// How well it fits a written name.
    fn fit(&self, written: &NameRef) -> Fit {
        let fit = match self {
            // The exact word is no name that has to be bound.
            Bound::Fact(_) => None,
            Bound::Param(name) => fit(written, NameKind::Param, name),
            Bound::Metric(name) => fit(written, NameKind::Metric, name),
        };
        fit.unwrap_or(Fit::Loose)
    }

    /// `fact`, `param` or `metric`.
    pub fn kind_word(&self) -> &'static str {
        match self {
            Bound::Fact(_) => "fact",
            Bound::Param(_) => NameKind::Param.as_str(),
            Bound::Metric(_) => NameKind::Metric.as_str(),
        }
    }

    /// The exact name.
    pub fn name(&self) -> &str {
        match self {
            Bound::Fact(fact) => fact.as_str(),
            Bound::Param(name) | Bound::Metric(name) => name,
        }
    }

    /// The unambiguous way to type the name: `param.lr`, `metric('val loss')`.
    pub fn written(&self) -> String {
        match self {
            Bound::Fact(fact) => fact.as_str().to_owned(),
            Bound::Param(name) => qualified("param", name),
            Bound::Metric(name) => qualified("metric", name),
        }
    }
}

/// How well an exact name fits a written one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// A metric of a set, `val loss` of `loss`. A rule is not bound to it: what ends a run is
    /// never another metric than the written one.
    OfSet,
    /// A metric of a numbered part, `Fold 1 loss` of `loss`.
    OfPart,
    /// The same of the set to train with, which is meant where no set is told.
    Training,
    Loose,
    Exact,
}

pub(crate) fn fit(name: &NameRef, kind: NameKind, exact: &str) -> Option<Fit> {
    if !name.asked.allows(kind) {
        None
    } else if *name.text == *exact {
        Some(Fit::Exact)
    } else if same_loosely(&name.text, exact) {
        Some(Fit::Loose)
    } else if kind == NameKind::Metric {
        let parts = sets::apart(exact).filter(|one| same_loosely(&name.text, one.base))?;
        Some(match (parts.is_training(), parts.has_set()) {
            (true, _) => Fit::Training,
            (false, true) => Fit::OfSet,
            (false, false) => Fit::OfPart,
        })
    } else {
        None
    }
}

/// Whether two metrics are those of the same set, but for the number of its part: `Fold 1 loss`
/// and `Fold 2 loss`.
pub(crate) fn is_next_part(one: &str, other: &str) -> bool {
    let words = sets::apart(one).zip(sets::apart(other));
    words.is_some_and(|(one, other)| one.keyword().eq_ignore_ascii_case(other.keyword()))
}

/// The state of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Slot {
    /// No name fits yet.
    Open,
    Bound(Bound),
    /// More than one name fits, or the metric of one set (twice here); unknown from then on, unless
    /// a better one comes.
    Clash(Bound, Bound),
}

/// The meanings of one expression's names for one run.
///
/// The bindings belong to the expression they were made with; with another
/// expression names may be unknown, nothing worse.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Bindings {
    slots: Vec<Slot>,
    /// By number of the `for`: since which run time, in seconds, its condition holds.
    pub(crate) held: Vec<Option<f64>>,
}

/// One binding as plain text, for a journal and for `rule why`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindRecord {
    /// The name as it stands in the canonical text.
    pub written: String,
    /// `fact`, `param` or `metric`.
    pub kind: String,
    /// The exact name.
    pub name: String,
    /// Kind and name of the second fit, if any; the name is then unknown.
    pub clash: Option<(String, String)>,
}

/// The change that a new name made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingChange {
    /// A name is bound now, and stays so. To be recorded.
    Bound {
        /// As written in the rule.
        written: String,
        /// The meaning.
        to: Bound,
    },
    /// A second name fits a loosely written one: unknown from now on. To be
    /// recorded and reported.
    Clash {
        /// As written in the rule.
        written: String,
        /// The meaning so far.
        first: Bound,
        /// The second meaning.
        second: Bound,
    },
}

impl Expr {
    /// Binds every name to what `scope` has.
    ///
    /// Errors, unless the expression is standing: a name that exists nowhere (with
    /// a suggestion), or that more than one thing has. In a standing expression
    /// only a missing `param.x` is an error; other names stay open for
    /// [`Bindings::see`], or are unknown ([`Bindings::warnings`]).
    pub fn bind(&self, scope: &impl Scope) -> Result<Bindings, ExprError> {
        let mut found = vec![NameMatches::default(); self.names.len()];
        scope.visit_names(&mut |kind, exact| {
            for (name, found) in self.names.iter().zip(&mut found) {
                found.add(name, kind, exact);
            }
        });
        let mut slots = Vec::with_capacity(found.len());
        for (name, mut found) in self.names.iter().zip(found) {
            // A rule leaves a name open instead of binding it to a fact that it
            // cannot use.
            let is_known = |fact: &Fact| fact.known_to().is_known_at(self.rule_place());
            let fact = loose_fact(name).filter(|fact| !self.standing || is_known(fact));
            found.loose.extend(fact.map(Bound::Fact));
            let slot = found.settle(self.standing);
            match &slot {
                Slot::Open if !self.standing || name.asked == NameForm::Param => {
                    return Err(self.missing(name, |visit| scope.visit_names(visit)));
                }
                Slot::Clash(first, second) if !self.standing => {
                    return Err(clash_error(name, first, second));
                }
                Slot::Open | Slot::Bound(_) | Slot::Clash(..) => slots.push(slot),
            }
        }
        let held = vec![None; usize::from(self.holds)];
        Ok(Bindings { slots, held })
    }

    /// The error for a name that exists nowhere, with a suggestion.
    pub(crate) fn missing(
        &self,
        name: &NameRef,
        visit_names: impl FnOnce(&mut dyn FnMut(NameKind, &str)),
    ) -> ExprError {
        let what = match name.asked {
            NameForm::Any | NameForm::Quoted => "parameter or metric",
            NameForm::Param => "parameter",
            NameForm::Metric => "metric",
        };
        let message = format!("no {what} is called `{}`", name.text);
        let error = ExprError::new(ErrorKind::Name, name.span, message);
        let known = known_names(name, visit_names);
        match self.meant(name, &known) {
            Some(hint) => error.hint(hint),
            None if known.is_empty() => error.hint("nothing has parameters or metrics yet"),
            None => error.hint(listed(name, &known)),
        }
    }

    /// Whether a name that exists nowhere is most likely a metric that no run has printed yet.
    pub(crate) fn may_be_printed(
        &self,
        name: &NameRef,
        visit_names: impl FnOnce(&mut dyn FnMut(NameKind, &str)),
    ) -> bool {
        name.asked != NameForm::Param && self.meant(name, &known_names(name, visit_names)).is_none()
    }

    /// What to write for a name that most likely means something else.
    fn meant(&self, name: &NameRef, known: &[String]) -> Option<String> {
        let exists = |part: &str| {
            known.iter().any(|name| same_loosely(name, part))
                || Fact::from_word(part).is_some()
                || part.bytes().all(|b| b.is_ascii_digit())
                || is_number(part)
        };
        if let Some(spaced) = spaced_out(&name.text, exists) {
            return Some(format!("without blanks it is one name; write `{spaced}`"));
        }
        let open = name.asked == NameForm::Any;
        if let Some(fact) = slips::fact_meant(&name.text).filter(|_| open) {
            return Some(format!("did you mean `{}`?", fact.as_str()));
        }
        let stands_alone =
            (self.condition_slots().into_iter()).any(|slot| self.names.get(slot) == Some(name));
        if let Some(state) = suggest(&name.text, State::words()).filter(|_| open && stands_alone) {
            return Some(format!("did you mean `{state}`?"));
        }
        if open && self.is_beside_time(name) {
            let hint = "moments are `2026-11-20`, `2026-11-20T14:00`, `today`, `now - 1d`";
            return Some(hint.to_owned());
        }
        let facts: &[Fact] = if open { &Fact::ALL } else { &[] };
        let words = facts.iter().map(|fact| fact.as_str());
        let exact = known.iter().map(String::as_str);
        match suggest::<&str>(&name.text, exact.chain(words)) {
            Some(near) if lex::is_plain_name(near) => Some(format!("did you mean `{near}`?")),
            Some(near) => Some(format!("did you mean {}?", odd_name(name, near))),
            None if open && self.is_compared_as_text(name) => {
                Some(format!("text stands in quotes: `== '{}'`", name.text))
            }
            None => None,
        }
    }

    /// Whether the name is compared with a fact that is a moment.
    fn is_beside_time(&self, name: &NameRef) -> bool {
        let mut found = false;
        self.root.walk(&mut |node| {
            if let Node::Compare(_, pair) = node
                && let [Node::Fact(fact), Node::Name(slot)] | [Node::Name(slot), Node::Fact(fact)] =
                    &**pair
            {
                let is_it = self.names.get(usize::from(*slot)) == Some(name);
                found |= is_it && fact.kind() == FactKind::Time;
            }
        });
        found
    }

    /// Whether the name stands on the right of an equality, as a text would.
    fn is_compared_as_text(&self, name: &NameRef) -> bool {
        let is_it = |node: &Node| match node {
            Node::Name(slot) => self.names.get(usize::from(*slot)) == Some(name),
            _ => false,
        };
        let mut found = false;
        self.root.walk(&mut |node| match node {
            Node::Compare(op, pair) => found |= op.is_equality() && is_it(&pair[1]),
            Node::In(parts) => found |= parts[1..].iter().any(is_it),
            _ => {}
        });
        found
    }
}

/// The names that exist and that a written one may mean, each once.
fn known_names(
    name: &NameRef,
    visit_names: impl FnOnce(&mut dyn FnMut(NameKind, &str)),
) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    visit_names(&mut |kind, exact| {
        if name.asked.allows(kind) && !known.iter().any(|name| name == exact) {
            known.push(exact.to_owned());
        }
    });
    known
}

/// More names that exist are left out of a hint.
const LISTED_MAX: usize = 6;

/// Some of the names that exist.
fn listed(name: &NameRef, known: &[String]) -> String {
    let shown = known.iter().take(LISTED_MAX);
    let shown: Vec<String> = shown
        .map(|one| {
            if lex::is_plain_name(one) {
                one.clone()
            } else {
                odd_name(name, one)
            }
        })
        .collect();
    let more = if known.len() > LISTED_MAX { " …" } else { "" };
    format!("known are {}{more}", shown.join(" "))
}

/// Whether the text is a number with a unit from end to end.
fn is_number(text: &str) -> bool {
    matches!(scan_number(text), Some(ScannedNumber::Number { len, .. }) if len == text.len())
}

/// `near` in the form in which it is typed, with quotes or backticks if needed.
fn odd_name(name: &NameRef, near: &str) -> String {
    match name.asked {
        NameForm::Any | NameForm::Quoted => quoted(near, '`'),
        NameForm::Param => format!("`{}`", qualified("param", near)),
        NameForm::Metric => format!("`{}`", qualified("metric", near)),
    }
}

/// `loss - best` for `loss-best`, if both sides exist.
fn spaced_out(text: &str, exists: impl Fn(&str) -> bool) -> Option<String> {
    text.match_indices(['-', '/']).find_map(|(at, sign)| {
        let (left, right) = (&text[..at], &text[at + 1..]);
        let both = !left.is_empty() && !right.is_empty() && exists(left) && exists(right);
        both.then(|| format!("{left} {sign} {right}"))
    })
}

fn clash_error(name: &NameRef, first: &Bound, second: &Bound) -> ExprError {
    let message = format!(
        "`{}` is the {} `{}` and the {} `{}`",
        name.text,
        first.kind_word(),
        first.name(),
        second.kind_word(),
        second.name()
    );
    let hint = format!("write `{}` or `{}`", first.written(), second.written());
    ExprError::new(ErrorKind::Name, name.span, message).hint(hint)
}

/// The names that fit one written name.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameMatches {
    pub exact: Vec<Bound>,
    pub loose: Vec<Bound>,
    /// Metrics of the set to train with, whose names are this one but for the set.
    pub training: Vec<Bound>,
    /// The same of other sets.
    pub of_set: Vec<Bound>,
}

impl NameMatches {
    /// Takes a name that exists, if it fits; a repeat counts once.
    pub fn add(&mut self, name: &NameRef, kind: NameKind, exact: &str) {
        let list = match fit(name, kind, exact) {
            Some(Fit::Exact) => &mut self.exact,
            Some(Fit::Loose) => &mut self.loose,
            Some(Fit::Training) => &mut self.training,
            Some(Fit::OfSet | Fit::OfPart) => &mut self.of_set,
            None => return,
        };
        let bound = Bound::new(kind, exact);
        if !list.contains(&bound) {
            list.push(bound);
        }
    }

    /// Prefers the parameter of exactly this name, then the metric of exactly this
    /// name, then a single loose fit, then the metric of a set. Two loose fits clash, and
    /// two other sets than that to train with. Of numbered parts the newest counts. A rule is not
    /// bound to another set.
    fn settle(mut self, standing: bool) -> Slot {
        self.sort();
        if let Some(exact) = self.exact.into_iter().next() {
            return Slot::Bound(exact);
        }
        let mut loose = self.loose.into_iter();
        match (loose.next(), loose.next()) {
            (None, _) => {}
            (Some(only), None) => return Slot::Bound(only),
            (Some(first), Some(second)) => return Slot::Clash(first, second),
        }
        if let Some(newest) = self.training.pop() {
            return Slot::Bound(newest);
        }
        match (self.of_set.pop(), self.of_set.first()) {
            (None, _) => Slot::Open,
            (Some(newest), Some(first)) if !is_next_part(first.name(), newest.name()) => {
                Slot::Clash(first.clone(), newest)
            }
            (Some(newest), _) => {
                let is_set = sets::apart(newest.name()).is_some_and(|parts| parts.has_set());
                if standing && is_set {
                    Slot::Clash(newest.clone(), newest)
                } else {
                    Slot::Bound(newest)
                }
            }
        }
    }

    /// The names that fit best.
    pub fn best(&self) -> &[Bound] {
        let lists = [&self.exact, &self.loose, &self.training];
        let best = lists.into_iter().find(|list| !list.is_empty());
        best.unwrap_or(&self.of_set)
    }

    /// Whether no name fits.
    pub fn is_empty(&self) -> bool {
        let mut lists = [&self.exact, &self.loose, &self.training, &self.of_set].into_iter();
        lists.all(|list| list.is_empty())
    }

    /// Puts parameters first: programs print their own arguments.
    pub fn sort(&mut self) {
        let is_param = |bound: &Bound| matches!(bound, Bound::Param(_));
        self.exact.sort_by_key(|bound| !is_param(bound));
    }
}

impl Bindings {
    /// The meaning of the name number `slot` of [`Expr::unbound_names`]; `None`
    /// if no name fits yet or more than one does.
    pub fn get(&self, slot: usize) -> Option<&Bound> {
        match self.slots.get(slot) {
            Some(Slot::Bound(bound)) => Some(bound),
            Some(Slot::Open | Slot::Clash(..)) | None => None,
        }
    }

    /// Since which run time, in seconds, the condition of each `for` holds, in the order
    /// of the text.
    pub fn held(&self) -> &[Option<f64>] {
        &self.held
    }

    /// Takes what [`Bindings::held`] returned before, unless it is of another
    /// expression.
    pub fn hold(&mut self, held: Vec<Option<f64>>) {
        if held.len() == self.held.len() {
            self.held = held;
        }
    }

    /// Whether no name fits yet.
    pub fn is_open(&self, slot: usize) -> bool {
        matches!(self.slots.get(slot), None | Some(Slot::Open))
    }

    /// Takes notice of a name that appeared while a standing rule is in force; a
    /// repeat changes nothing. Returns the changed bindings.
    ///
    /// A name that is bound exactly keeps its binding, whatever appears; a name
    /// bound loosely becomes unknown at the next fit. A name bound to the metric of a set is
    /// bound anew to what fits better, and to the next numbered part.
    pub fn see(&mut self, expr: &Expr, kind: NameKind, exact: &str) -> Vec<BindingChange> {
        self.slots.resize(expr.names.len(), Slot::Open);
        let mut seen = Vec::new();
        for (name, slot) in expr.names.iter().zip(&mut self.slots) {
            let Some(new) = fit(name, kind, exact) else {
                continue;
            };
            let to = Bound::new(kind, exact);
            let next = match slot {
                Slot::Open if new == Fit::OfSet => Slot::Clash(to.clone(), to),
                Slot::Open => Slot::Bound(to),
                Slot::Bound(first) if *first == to => continue,
                Slot::Bound(first) => {
                    let known = first.fit(name);
                    let is_of_set = known < Fit::Loose;
                    // What is of a set takes the place of nothing that fits better.
                    if known == Fit::Exact || new < Fit::Loose && new < known {
                        continue;
                    }
                    let is_next = new == known && is_next_part(first.name(), exact);
                    if is_of_set && (new > known || is_next) {
                        Slot::Bound(to)
                    } else {
                        Slot::Clash(first.clone(), to)
                    }
                }
                Slot::Clash(first, _) if first.fit(name) < Fit::Loose && new > first.fit(name) => {
                    Slot::Bound(to)
                }
                Slot::Clash(..) => continue,
            };
            let written = written_name(name);
            seen.push(match &next {
                Slot::Clash(first, second) => BindingChange::Clash {
                    written,
                    first: first.clone(),
                    second: second.clone(),
                },
                Slot::Bound(to) => BindingChange::Bound {
                    written,
                    to: to.clone(),
                },
                Slot::Open => continue,
            });
            *slot = next;
        }
        seen
    }

    /// The bindings as plain texts; open names are left out.
    pub fn records(&self, expr: &Expr) -> Vec<BindRecord> {
        let plain = |bound: &Bound| (bound.kind_word().to_owned(), bound.name().to_owned());
        let named = expr.names.iter().zip(&self.slots);
        named
            .filter_map(|(name, slot)| {
                let (first, clash) = match slot {
                    Slot::Open => return None,
                    Slot::Bound(bound) => (bound, None),
                    Slot::Clash(first, second) => (first, Some(plain(second))),
                };
                let (kind, exact) = plain(first);
                let written = written_name(name);
                Some(BindRecord {
                    written,
                    kind,
                    name: exact,
                    clash,
                })
            })
            .collect()
    }

    /// The recorded bindings. A record of a name that `expr` does not have, or
    /// of a kind that this version does not know, is left out.
    pub fn from_records<'r>(
        expr: &Expr,
        records: impl IntoIterator<Item = &'r BindRecord>,
    ) -> Bindings {
        let mut slots = vec![Slot::Open; expr.names.len()];
        for record in records {
            let slot = expr
                .names
                .iter()
                .position(|name| written_name(name) == record.written);
            let first = bound_from(&record.kind, &record.name);
            let (Some(slot), Some(first)) = (slot, first) else {
                continue;
            };
            let clash = record.clash.as_ref();
            let second = clash.map(|(kind, name)| bound_from(kind, name));
            slots[slot] = match second {
                None => Slot::Bound(first),
                // A clash stays a clash, even with a name that is unknown here.
                Some(second) => Slot::Clash(first.clone(), second.unwrap_or(first)),
            };
        }
        let held = vec![None; usize::from(expr.holds)];
        Bindings { slots, held }
    }

    /// One line for each name that is unknown because more than one name fits; none for those that
    /// only the metric of a set fits, which may be printed later.
    pub fn warnings(&self, expr: &Expr) -> Vec<String> {
        let named = expr.names.iter().zip(&self.slots);
        named
            .filter_map(|(name, slot)| match slot {
                Slot::Open | Slot::Bound(_) => None,
                Slot::Clash(first, second) if first == second => None,
                Slot::Clash(first, second) => {
                    let error = clash_error(name, first, second);
                    Some(format!(
                        "{error}, so it is unknown: {}",
                        error.hint.as_deref()?
                    ))
                }
            })
            .collect()
    }
}

fn bound_from(kind: &str, name: &str) -> Option<Bound> {
    match kind {
        "fact" => Fact::from_word(name).map(Bound::Fact),
        "param" => Some(Bound::Param(name.into())),
        "metric" => Some(Bound::Metric(name.into())),
        _ => None,
    }
}
