//! Requirements: conditions that a node must meet for a run to go there.
//!
//! `requires: gpumem > 20G && load < 4` is an expression like any other, but about
//! the node that a run may go to: it names only facts of a node, so every name is
//! resolved when the text is read.

use crate::bind::Bindings;
use crate::bind::scope::Scope;
use crate::parse::ExpectedKind;
use crate::parse::context::ParseContext;
use crate::tree::ast::{NameKind, Node};
use crate::tree::expr::Expr;
use crate::words::error::ExprError;
use crate::words::fact::Fact;
use crate::words::node::NodeFact;
use crate::words::value::{Truth, Value};

/// The facts of one node, for requirements.
pub trait NodeScope {
    /// A fact; [`Value::Unknown`] if it is not known (yet). Numbers in the unit of
    /// the [`NodeFact`], versions as text, groups as names with blanks between.
    fn fact(&self, fact: NodeFact) -> Value<'_>;

    /// The answer of the node to the probe of this name; [`Value::Unknown`] without one.
    fn probe(&self, name: &str) -> Value<'_> {
        let _ = name;
        Value::Unknown
    }

    /// What a person is told behind the answer: since when, or why there is none.
    fn about_probe(&self, name: &str) -> String {
        let _ = name;
        String::new()
    }
}

impl<S: NodeScope + ?Sized> NodeScope for &S {
    fn fact(&self, fact: NodeFact) -> Value<'_> {
        (**self).fact(fact)
    }
    fn probe(&self, name: &str) -> Value<'_> {
        (**self).probe(name)
    }
    fn about_probe(&self, name: &str) -> String {
        (**self).about_probe(name)
    }
}

/// A condition that a node must meet for a run to go there.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    expr: Expr,
}

/// A part of a requirement that a node does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmetRequirement {
    /// The part with the values beside it: `gpumem > 20G (gpumem is 8G)`.
    pub text: String,
    /// Whether waiting cannot change it: every fact in the part is known and lasting
    /// ([`NodeFact::is_lasting`]).
    pub for_good: bool,
    /// The facts that the part names, in their order.
    pub facts: Vec<NodeFact>,
}

impl Requirement {
    /// Reads `gpumem > 20G && load < 4`.
    ///
    /// # Errors
    /// The errors of [`Expr::parse`], and every name that is no fact of a node and no probe of the
    /// context ([`ParseContext::with_probes`]).
    pub fn parse(text: &str, context: &ParseContext) -> Result<Requirement, ExprError> {
        let expr = Expr::parse_as(text, &context.clone().standing(), ExpectedKind::Requirement)?;
        Ok(Requirement { expr })
    }

    /// The names of the probes that it asks for, once each.
    pub fn probes(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        self.expr.root().walk(&mut |node| {
            if let Node::Probe(name) = node
                && !names.contains(&&**name)
            {
                names.push(name);
            }
        });
        names
    }

    /// The text with all parentheses; reading it again gives an equal requirement.
    pub fn canonical(&self) -> String {
        self.expr.canonical()
    }

    /// Whether a node meets it. Unknown counts as not met.
    pub fn check(&self, scope: &impl NodeScope) -> Truth {
        self.expr.eval(&Bindings::default(), &OfNode(scope))
    }

    /// The parts that a node does not meet. Parts joined by `&&` are checked one by
    /// one, any other requirement as a whole. Empty when the node meets all.
    pub fn unmet(&self, scope: &impl NodeScope) -> Vec<UnmetRequirement> {
        let scope = OfNode(scope);
        let nothing = Bindings::default();
        let eval = self.expr.evaluator(&nothing, &scope);
        let root = self.expr.root();
        let parts: &[Node] = match root {
            Node::And(parts) => parts,
            _ => std::slice::from_ref(root),
        };
        parts
            .iter()
            .filter_map(|part| {
                let truth = eval.truth(part);
                (!truth.is_true()).then(|| UnmetRequirement {
                    text: self.expr.beside_values(part, &nothing, &scope),
                    for_good: truth == Truth::False && is_lasting(part),
                    facts: facts(part),
                })
            })
            .collect()
    }
}

impl std::fmt::Display for Requirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.canonical())
    }
}

fn is_lasting(part: &Node) -> bool {
    let mut asks_probe = false;
    part.walk(&mut |node| asks_probe |= matches!(node, Node::Probe(_)));
    !asks_probe && facts(part).into_iter().all(NodeFact::is_lasting)
}

fn facts(part: &Node) -> Vec<NodeFact> {
    let mut facts = Vec::new();
    part.walk(&mut |node| {
        if let Node::Place(fact) = node {
            facts.push(*fact);
        }
    });
    facts
}

/// A node in place of a run: the scope has facts of a node only.
struct OfNode<'a, S>(&'a S);

impl<S: NodeScope> Scope for OfNode<'_, S> {
    fn now_ms(&self) -> i64 {
        0
    }

    fn fact(&self, _: Fact) -> Value<'_> {
        Value::Unknown
    }

    fn param(&self, _: &str) -> Value<'_> {
        Value::Unknown
    }

    fn metric(&self, _: &str) -> Option<f64> {
        None
    }

    fn visit_names(&self, _: &mut dyn FnMut(NameKind, &str)) {}

    fn node_fact(&self, fact: NodeFact) -> Value<'_> {
        self.0.fact(fact)
    }

    fn probe(&self, name: &str) -> Value<'_> {
        self.0.probe(name)
    }

    fn about_probe(&self, name: &str) -> String {
        self.0.about_probe(name)
    }
}
