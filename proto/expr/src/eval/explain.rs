//! The outcome of an expression, with the values of all its names.

use super::Evaluator;
use crate::bind::scope::Scope;
use crate::bind::{Bindings, Bound};
use crate::tree::ast::{CompareOp, Node};
use crate::tree::expr::Expr;
use crate::tree::number::print_instant;
use crate::tree::print::{Printer, quoted, written_name};
use crate::words::fact::{Fact, FactKind};
use crate::words::value::{NumberText, Truth, Value};

/// One name with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedValue {
    /// As written in the expression.
    pub written: String,
    /// The meaning; `None` if no name fits yet or more than one does.
    pub bound: Option<Bound>,
    /// The value for a person: `7.3`, `7300s`, `20G`, `'adam'`, a UTC time, or
    /// `unknown`.
    pub shown: String,
    /// The value as a number, when it is one.
    pub number: Option<f64>,
}

/// One part of an expression with its outcome: a condition, or a line above some.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedPart {
    /// Number of parts around it.
    pub depth: usize,
    /// The condition with values beside the compared parts (`loss = 7.3 > 5`), or `all of`,
    /// `any of`, `not`, `for 10m`, `after 2h` above what stands one deeper.
    pub text: String,
    /// The outcome of this part alone.
    pub truth: Truth,
    /// The facts, parameters and metrics that it names; none of a line above others.
    pub values: Vec<NamedValue>,
}

/// The outcome of an expression and its reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The outcome.
    pub truth: Truth,
    /// The expression with values beside the compared parts: `loss = 7.3 > 5`.
    pub text: String,
    /// Every named fact, parameter and metric, once each.
    pub values: Vec<NamedValue>,
}

impl Expr {
    fn explainer<'e, S: Scope>(&'e self, bindings: &'e Bindings, scope: &'e S) -> Explainer<'e, S> {
        Explainer {
            expr: self,
            bindings,
            eval: self.evaluator(bindings, scope),
            printer: self.printer(),
        }
    }

    /// Evaluates and keeps the values: for `rule why` and for notices.
    pub fn explain(&self, bindings: &Bindings, scope: &impl Scope) -> Explanation {
        let explainer = self.explainer(bindings, scope);
        let mut text = String::new();
        explainer.node(&mut text, &self.root);
        Explanation {
            truth: explainer.eval.truth(&self.root),
            text,
            values: explainer.values(&self.root),
        }
    }

    /// Evaluates every part: for `rule why`. Parts stand behind the line that joins them.
    pub fn explain_parts(&self, bindings: &Bindings, scope: &impl Scope) -> Vec<ExplainedPart> {
        let explainer = self.explainer(bindings, scope);
        let mut parts = Vec::new();
        explainer.parts(&mut parts, &self.root, 0);
        parts
    }

    /// A part as it is written, with the values of its facts: `load < 4 (load is
    /// 7.2)`.
    pub(crate) fn beside_values(
        &self,
        part: &Node,
        bindings: &Bindings,
        scope: &impl Scope,
    ) -> String {
        let explainer = self.explainer(bindings, scope);
        let mut values: Vec<String> = Vec::new();
        part.walk(&mut |node| {
            let value = match node {
                Node::Place(fact) => {
                    format!("{} is {}", fact.as_str(), explainer.value_text(node, false))
                }
                Node::Probe(name) => {
                    let shown = explainer.value_text(node, false);
                    let about = scope.about_probe(name);
                    format!("{name} is {shown}{about}")
                }
                _ => return,
            };
            if !values.contains(&value) {
                values.push(value);
            }
        });
        let text = explainer.printer.text(part);
        if values.is_empty() {
            text
        } else {
            format!("{text} ({})", values.join(", "))
        }
    }
}

struct Explainer<'e, S> {
    expr: &'e Expr,
    bindings: &'e Bindings,
    eval: Evaluator<'e, 'e, S, Bindings>,
    printer: Printer<'e>,
}

impl<S: Scope> Explainer<'_, S> {
    fn node(&self, out: &mut String, node: &Node) {
        match node {
            Node::And(parts) => self.list(out, parts, " && "),
            Node::Or(parts) => self.list(out, parts, " || "),
            Node::Not(inner) => {
                out.push_str("!(");
                self.node(out, inner);
                out.push(')');
            }
            Node::Compare(op, pair) => self.compare(out, *op, pair),
            Node::Glob(left, glob) => {
                self.side(out, left, false);
                out.push_str(&format!(" = {}", quoted(glob.as_str(), '\'')));
            }
            Node::Match(left, pattern) => {
                self.side(out, left, false);
                out.push_str(&format!(" =~ {}", quoted(pattern.as_str(), '\'')));
            }
            Node::Is(state) => {
                let shown = self.value_text(&Node::Fact(Fact::State), false);
                out.push_str(&format!("{} (state = {shown})", state.as_str()));
            }
            Node::In(parts) => {
                self.side(out, &parts[0], false);
                let list: Vec<String> = (parts[1..].iter())
                    .map(|item| self.printer.text(item))
                    .collect();
                out.push_str(&format!(" in ({})", list.join(", ")));
            }
            Node::For(inner, duration, index) => {
                self.nested(out, inner);
                out.push_str(&format!(" for {}{}", duration.text, self.held(*index)));
            }
            Node::After(inner, duration) => {
                self.nested(out, inner);
                out.push_str(&format!(" after {}", duration.text));
            }
            Node::Name(_)
            | Node::Number(..)
            | Node::Nan
            | Node::Inf
            | Node::Over(..)
            | Node::At(..)
            | Node::Cohort(_)
            | Node::Math(..)
            | Node::Text(_)
            | Node::Bool(_)
            | Node::Time(_)
            | Node::Now
            | Node::Fact(_)
            | Node::Place(_)
            | Node::Probe(_)
            | Node::Pick(_)
            | Node::Neg(_)
            | Node::Arith(..) => self.side(out, node, false),
        }
    }

    fn parts(&self, out: &mut Vec<ExplainedPart>, node: &Node, depth: usize) {
        let (text, inner) = match node {
            Node::And(inner) => ("all of".to_owned(), inner.as_slice()),
            Node::Or(inner) => ("any of".to_owned(), inner.as_slice()),
            Node::Not(inner) => ("not".to_owned(), std::slice::from_ref(&**inner)),
            Node::For(inner, duration, index) => {
                let text = format!("for {}{}", duration.text, self.held(*index));
                (text, std::slice::from_ref(&**inner))
            }
            Node::After(inner, duration) => {
                let text = format!("after {}", duration.text);
                (text, std::slice::from_ref(&**inner))
            }
            condition => {
                let mut text = String::new();
                self.node(&mut text, condition);
                out.push(ExplainedPart {
                    depth,
                    text,
                    truth: self.eval.truth(condition),
                    values: self.values(condition),
                });
                return;
            }
        };
        out.push(ExplainedPart {
            depth,
            text,
            truth: self.eval.truth(node),
            values: Vec::new(),
        });
        for part in inner {
            self.parts(out, part, depth + 1);
        }
    }

    /// How long the condition of a `for` holds.
    fn held(&self, index: u16) -> String {
        let held = self.bindings.held.get(usize::from(index));
        match held.copied().flatten().zip(self.eval.ran_s()) {
            Some((since, ran)) => format!(
                " (holds for {}s)",
                NumberText::new(((ran - since) * 10.0).round() / 10.0)
            ),
            None => " (does not hold)".to_owned(),
        }
    }

    fn list(&self, out: &mut String, parts: &[Node], sign: &str) {
        for (at, part) in parts.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { sign });
            self.nested(out, part);
        }
    }

    fn nested(&self, out: &mut String, part: &Node) {
        let nested = matches!(part, Node::And(_) | Node::Or(_));
        out.push_str(if nested { "(" } else { "" });
        self.node(out, part);
        out.push_str(if nested { ")" } else { "" });
    }

    fn compare(&self, out: &mut String, op: CompareOp, pair: &[Node; 2]) {
        // Beside a duration a moment is an age, and is shown as one.
        let is_number = |node| matches!(self.eval.value(node), Value::Number(..));
        self.side(out, &pair[0], is_number(&pair[1]));
        out.push_str(&format!(" {} ", op.sign()));
        self.side(out, &pair[1], is_number(&pair[0]));
    }

    /// One side of a comparison, with its value unless the side is a literal.
    fn side(&self, out: &mut String, node: &Node, as_age: bool) {
        out.push_str(&self.printer.text(node));
        let has_name = !is_literal(node);
        if has_name {
            out.push_str(" = ");
            out.push_str(&self.value_text(node, as_age));
        }
    }

    fn value_text(&self, node: &Node, as_age: bool) -> String {
        match (self.eval.value(node), node) {
            (Value::Time(moment), _) if as_age => {
                format!("{}s ago", NumberText::new(self.eval.age_s(moment)))
            }
            (value, Node::Fact(fact)) => show(value, Some(fact.kind())),
            (value, Node::Place(fact)) => show(value, Some(fact.kind())),
            (value, Node::Cohort(cohort)) => match self.eval.cohort(cohort.text()) {
                Some(folded) => format!(
                    "{} (of {} peers at {})",
                    show(value, None),
                    folded.peers,
                    print_instant(folded.at_ms - folded.at_ms.rem_euclid(1000))
                ),
                None => show(value, None),
            },
            (value, Node::Name(slot)) => match self.bindings.get(usize::from(*slot)) {
                Some(Bound::Fact(fact)) => show(value, Some(fact.kind())),
                Some(Bound::Param(_) | Bound::Metric(_)) | None => show(value, None),
            },
            (value, _) => show(value, None),
        }
    }

    /// What a part of the expression names, once each.
    fn values(&self, part: &Node) -> Vec<NamedValue> {
        let mut values: Vec<NamedValue> = Vec::new();
        part.walk(&mut |node| {
            let (written, bound, node) = match node {
                Node::Fact(fact) => (fact.as_str().to_owned(), Some(Bound::Fact(*fact)), node),
                Node::Is(_) => ("state".to_owned(), Some(Bound::Fact(Fact::State)), &STATE),
                Node::Name(slot) => {
                    let slot = usize::from(*slot);
                    let written = written_name(&self.expr.names[slot]);
                    (written, self.bindings.get(slot).cloned(), node)
                }
                Node::Over(_, slot, _) | Node::At(slot, ..) => {
                    let bound = self.bindings.get(usize::from(*slot)).cloned();
                    (self.printer.text(node), bound, node)
                }
                Node::Cohort(cohort) => (cohort.text().to_owned(), None, node),
                _ => return,
            };
            if values.iter().any(|value| value.written == written) {
                return;
            }
            let number = match self.eval.value(node) {
                Value::Number(number, _) => Some(number),
                Value::Unknown | Value::Text(_) | Value::Bool(..) | Value::Time(_) => None,
            };
            let shown = self.value_text(node, false);
            values.push(NamedValue {
                written,
                bound,
                shown,
                number,
            });
        });
        values
    }
}

const STATE: Node = Node::Fact(Fact::State);

/// Whether a node contains no name, so that its text is its value.
fn is_literal(node: &Node) -> bool {
    let mut literal = true;
    node.walk(&mut |node| {
        literal &= !matches!(
            node,
            Node::Fact(_)
                | Node::Place(_)
                | Node::Probe(_)
                | Node::Name(_)
                | Node::Over(..)
                | Node::At(..)
                | Node::Cohort(_)
                | Node::Is(_)
                | Node::Now
        );
    });
    literal
}

/// A value for a person, in the unit of its fact.
fn show(value: Value<'_>, kind: Option<FactKind>) -> String {
    match (value, kind) {
        (Value::Unknown, _) => "unknown".to_owned(),
        (Value::Number(number, _), Some(FactKind::Seconds)) => {
            format!("{}s", NumberText::new(number))
        }
        (Value::Number(number, _), Some(FactKind::Bytes)) => show_bytes(number),
        (Value::Number(_, Some(text)), _) | (Value::Bool(_, Some(text)), _) => text.to_owned(),
        (Value::Number(number, None), _) => {
            NumberText::new(without_noise(number)).as_str().to_owned()
        }
        (Value::Bool(truth, None), _) => truth.to_string(),
        (Value::Text(""), Some(FactKind::Words)) => "none".to_owned(),
        (Value::Text(text), Some(FactKind::Version | FactKind::Words)) if is_plain(text) => {
            text.to_owned()
        }
        (Value::Text(text), _) => {
            let short: String = text.chars().take(SHOWN_CHARS_MAX).collect();
            let cut = if short.len() < text.len() { "…" } else { "" };
            format!("{}{cut}", quoted(&short, '\''))
        }
        (Value::Time(moment), _) => print_instant(moment),
    }
}

/// Nine significant digits, so that a computed number does not end in `…0000001`; whole
/// numbers stay as they are.
fn without_noise(number: f64) -> f64 {
    if number.fract() == 0.0 || !number.is_finite() {
        return number;
    }
    format!("{number:.8e}").parse().unwrap_or(number)
}

/// Whether a text looks like a version or a list of names. A hostile node may send
/// any text.
fn is_plain(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | ' ');
    text.len() <= SHOWN_CHARS_MAX && text.chars().all(fits)
}

/// Longer texts are cut to this length.
const SHOWN_CHARS_MAX: usize = 80;

/// Bytes with one decimal and the largest unit that leaves at least 1.
fn show_bytes(bytes: f64) -> String {
    let mut number = bytes;
    let mut units = ["", "K", "M", "G", "T"].into_iter();
    let mut unit = units.next().unwrap_or("");
    for larger in units {
        if number.abs() < 1024.0 {
            break;
        }
        number /= 1024.0;
        unit = larger;
    }
    format!("{}{unit}", NumberText::new((number * 10.0).round() / 10.0))
}
