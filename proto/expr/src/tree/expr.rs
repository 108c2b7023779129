//! A parsed expression: its tree, the names in it, and what it is over.

use super::ast::{NameRef, Node, PickRef, loose_fact};
use super::cohort::Cohort;
use super::print::Printer;
use crate::words::fact::{Fact, FactKind, FactSet, FactSource};
use crate::words::past::Past;
use crate::words::state::State;

/// A parsed expression. Immutable; equal when the meaning is written equally,
/// whatever the blanks and parentheses.
#[derive(Clone, Debug)]
pub struct Expr {
    pub(crate) root: Node,
    pub(crate) names: Vec<NameRef>,
    pub(crate) picks: Vec<PickRef>,
    pub(crate) facts: FactSet,
    pub(crate) standing: bool,
    /// Number of `for`.
    pub(crate) holds: u16,
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        self.root == other.root && self.names == other.names && self.picks == other.picks
    }
}

impl Expr {
    /// The expression with all parentheses, dates in UTC, text in quotes:
    /// parsing it again gives an equal expression whatever the time and zone.
    pub fn canonical(&self) -> String {
        self.printer().text(&self.root)
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    pub(crate) fn printer(&self) -> Printer<'_> {
        Printer {
            names: &self.names,
            picks: &self.picks,
            of_peers: false,
        }
    }

    /// The names to bind: parameters and metrics, each once, in the order of the text.
    pub fn unbound_names(&self) -> &[NameRef] {
        &self.names
    }

    /// The named facts; a state word names [`Fact::State`]. A loosely written fact is
    /// among the bindings instead.
    pub fn facts(&self) -> FactSet {
        self.facts
    }

    /// The ids, ranges and the like of a selector's expression, with places.
    pub fn picks(&self) -> &[PickRef] {
        &self.picks
    }

    /// Whether `fact` is named, or may be meant by a loosely written name, which may
    /// turn out to be a parameter or metric instead.
    pub fn may_use(&self, fact: Fact) -> bool {
        self.facts.contains(fact) || (self.names.iter()).any(|name| loose_fact(name) == Some(fact))
    }

    /// Its comparisons of a name alone with a number: of `loss > 5 && runtime > 1h` the name
    /// `loss` with 5.
    pub fn thresholds(&self) -> Vec<(&NameRef, f64)> {
        let number = |node: &Node| match node {
            Node::Number(number, _) => Some(*number),
            Node::Neg(child) => match &**child {
                Node::Number(number, _) => Some(-number),
                _ => None,
            },
            _ => None,
        };
        let mut found = Vec::new();
        self.root.walk(&mut |node| {
            let Node::Compare(_, pair) = node else { return };
            let (name, number) = match &**pair {
                [Node::Name(name), other] | [other, Node::Name(name)] => (name, number(other)),
                _ => return,
            };
            let name = self.names.get(usize::from(*name));
            found.extend(name.zip(number));
        });
        found
    }

    /// What it asks of the past of metrics, with the index of each name in
    /// [`Expr::unbound_names`].
    pub fn pasts(&self) -> impl Iterator<Item = (usize, Past)> {
        let mut found = Vec::new();
        self.root.walk(&mut |node| {
            let (slot, past) = match node {
                Node::Over(fold, slot, window) => {
                    let window_ms = window.as_ref().map(|window| window.ms);
                    let fold = *fold;
                    (slot, Past::Over { fold, window_ms })
                }
                Node::At(slot, step, _) => (slot, Past::At(*step)),
                _ => return,
            };
            found.push((usize::from(*slot), past));
        });
        found.into_iter()
    }

    /// The metrics of whose past it asks, as they are written, and what it asks.
    pub fn named_pasts(&self) -> impl Iterator<Item = (&NameRef, Past)> {
        let pasts = self.pasts();
        pasts.filter_map(|(slot, past)| Some((self.names.get(slot)?, past)))
    }

    /// Its aggregates over peers, in the order of the text.
    pub fn cohorts(&self) -> Vec<&Cohort> {
        let mut found = Vec::new();
        self.root.walk(&mut |node| {
            if let Node::Cohort(cohort) = node {
                found.push(&**cohort);
            }
        });
        found
    }

    /// Whether a `for` is in it, so that [`Expr::note_held`] is needed at every look.
    pub fn holds(&self) -> bool {
        self.holds > 0
    }

    /// Whether the expression contains the state word `state`.
    pub fn uses_state(&self, state: State) -> bool {
        let mut uses = false;
        (self.root).walk(&mut |node| uses |= *node == Node::Is(state));
        uses
    }

    /// Whether time alone can change the outcome: ages, `now`, `runtime` ….
    pub fn uses_clock(&self) -> bool {
        let mut uses = self.pasts().any(|(_, past)| past.uses_clock());
        self.root.walk(&mut |node| uses |= *node == Node::Now);
        let moves =
            |fact: Fact| fact.source() == FactSource::Clock || fact.kind() == FactKind::Time;
        uses || Fact::ALL
            .into_iter()
            .any(|fact| moves(fact) && self.may_use(fact))
    }
}

impl std::fmt::Display for Expr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.canonical())
    }
}
