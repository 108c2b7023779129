//! Reasons why a rule could never hold, as far as names tell before a run.

use crate::ast::{Asked, Node};
use crate::bind::{Bindings, Bound, loose_fact};
use crate::error::{ErrorKind, ExprError};
use crate::fact::Fact;
use crate::past::Fold;
use crate::scope::Scope;
use crate::slips;
use crate::state::State;
use crate::value::{Value, is_text_of_number};
use crate::{Expr, NameRef};
use nero_model::names::{is_slip, suggest};

/// Shorter names are one letter away from too many others.
const SLIP_CHARS_MIN: usize = 5;

/// A reason to think twice about a standing rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// What is strange about it, with its place in the rule and what to write.
    pub error: ExprError,
    /// Whether the rule can never hold with these parameters. Else it most likely means
    /// something else.
    pub is_certain: bool,
}

impl Expr {
    /// The names that stand where only true or false makes sense.
    pub(crate) fn condition_slots(&self) -> Vec<usize> {
        let mut slots = Vec::new();
        let mut note = |node: &Node| {
            if let Node::Name(slot) = node {
                slots.push(usize::from(*slot));
            }
        };
        note(&self.root);
        self.root.walk(&mut |node| match node {
            Node::Not(inner) | Node::For(inner, ..) | Node::After(inner, _) => note(inner),
            Node::And(parts) | Node::Or(parts) => parts.iter().for_each(&mut note),
            _ => {}
        });
        slots
    }

    /// Why a standing rule of an experiment is in doubt. `scope` has the parameters of the
    /// experiment; a metric may come with the run.
    pub fn doubt(&self, scope: &impl Scope) -> Option<Doubt> {
        let bindings = self.bind(scope).ok()?;
        let by_condition = self.condition_slots().into_iter();
        let mut never = by_condition.filter_map(|slot| self.no_condition(slot, &bindings, scope));
        if let Some(error) = never.next().or_else(|| self.never_text(&bindings, scope)) {
            let is_certain = true;
            return Some(Doubt { error, is_certain });
        }
        let mut open = (self.names.iter().enumerate()).filter(|(slot, _)| bindings.is_open(*slot));
        let error = open.find_map(|(_, name)| slip(name))?;
        let is_certain = false;
        Some(Doubt { error, is_certain })
    }

    /// The first comparison with a text that never holds.
    fn never_text(&self, bindings: &Bindings, scope: &impl Scope) -> Option<ExprError> {
        let no_text = |one, other| self.no_text(one, other, bindings, scope);
        let mut found = None;
        self.root.walk(&mut |node| {
            let here = match node {
                // Words have no order; a bare one beside `<` is a metric.
                Node::Compare(op, pair)
                    if op.is_equality()
                        || pair.iter().any(|side| matches!(side, Node::Text(_))) =>
                {
                    no_text(&pair[0], &pair[1]).or_else(|| no_text(&pair[1], &pair[0]))
                }
                Node::In(parts) => parts[1..].iter().find_map(|item| no_text(&parts[0], item)),
                Node::Glob(left, glob) if !glob.has_wildcard() => {
                    let name = self.open_name(left, bindings);
                    name.map(|name| no_text_metric(name, scope))
                }
                _ => None,
            };
            found = found.take().or(here);
        });
        found
    }

    fn open_name(&self, node: &Node, bindings: &Bindings) -> Option<&NameRef> {
        let Node::Name(slot) = node else { return None };
        let slot = usize::from(*slot);
        let name = self.names.get(slot)?;
        bindings.is_open(slot).then_some(name)
    }

    fn no_condition(
        &self,
        slot: usize,
        bindings: &Bindings,
        scope: &impl Scope,
    ) -> Option<ExprError> {
        let name = self.names.get(slot)?;
        let what = match bindings.get(slot) {
            Some(Bound::Param(param)) => match scope.param(param) {
                Value::Bool(..) | Value::Unknown => return None,
                Value::Number(..) => "a number",
                Value::Text(_) => "text",
                Value::Time(_) => "a time",
            },
            Some(Bound::Metric(_)) => "a number",
            Some(Bound::Fact(fact)) => return Some(fact_as_condition(name, *fact)),
            None if !bindings.is_open(slot) => return None,
            None => {
                let message = format!("no parameter is called `{}`", name.text);
                let error = ExprError::new(ErrorKind::Name, name.span, message);
                let near = suggest(&name.text, State::words());
                let near = near.map_or(String::new(), |near| format!("; the state is `{near}`"));
                let word = &name.text;
                return Some(error.hint(format!("a metric is compared: `{word} > …`{near}")));
            }
        };
        Some(no_condition(name, what))
    }

    /// `optimizer == adam`, where the parameter is text and nothing is called `adam`; and
    /// `optimizer == 'adam'` without such a parameter.
    fn no_text(
        &self,
        one: &Node,
        other: &Node,
        bindings: &Bindings,
        scope: &impl Scope,
    ) -> Option<ExprError> {
        if let Node::Text(text) = other {
            if is_text_of_number(text) {
                return None;
            }
            let name = self.open_name(one, bindings)?;
            return Some(no_text_metric(name, scope));
        }
        let Node::Name(slot) = one else { return None };
        let Some(Bound::Param(param)) = bindings.get(usize::from(*slot)) else {
            return None;
        };
        let name = self.open_name(other, bindings)?;
        let is_word = match scope.param(param) {
            Value::Text(text) => !is_text_of_number(text),
            Value::Unknown | Value::Number(..) | Value::Bool(..) | Value::Time(_) => false,
        };
        if !is_word || name.asked != Asked::Any {
            return None;
        }
        let word = &name.text;
        let message = format!("no parameter is called `{word}`");
        let error = ExprError::new(ErrorKind::Name, name.span, message);
        Some(error.hint(format!("text stands in quotes: `'{word}'`")))
    }
}

fn no_text_metric(name: &NameRef, scope: &impl Scope) -> ExprError {
    let word = &name.text;
    let message = format!("no parameter is called `{word}`, and metrics are numbers");
    let error = ExprError::new(ErrorKind::Name, name.span, message);
    let mut params = Vec::new();
    scope.visit_names(&mut |_, param| params.push(param.to_owned()));
    let near = suggest(word, params).map(|near| format!("did you mean `{near}`?"));
    error.hint_if(near.or_else(|| slip_hint(name).filter(|_| name.asked == Asked::Any)))
}

/// A name that stands for a condition; `what` it is, where that is known.
pub(crate) fn no_condition(name: &NameRef, what: &str) -> ExprError {
    let word = &name.text;
    let message = match what {
        "" => format!("`{word}` is true or false nowhere"),
        what => format!("`{word}` is {what}, not a condition"),
    };
    ExprError::new(ErrorKind::Kind, name.span, message).hint(format!("compare it: `{word} > …`"))
}

/// A fact that was written loosely, which is never true or false.
pub(crate) fn fact_as_condition(name: &NameRef, fact: Fact) -> ExprError {
    let message = format!("`{}` is `{}`, not a condition", name.text, fact.word());
    let error = ExprError::new(ErrorKind::Kind, name.span, message);
    error.hint(format!("compare it: `{} > …`", fact.word()))
}

/// A name of nothing so far that other programs have for a fact, or that is one letter
/// away from one.
fn slip(name: &NameRef) -> Option<ExprError> {
    if name.asked != Asked::Any {
        return None;
    }
    let hint = slip_hint(name)?;
    let message = format!("`{}` is no fact or parameter", name.text);
    let error = ExprError::new(ErrorKind::Name, name.span, message);
    Some(error.hint(format!("{hint} a metric is written `metric.{}`", name.text)))
}

fn slip_hint(name: &NameRef) -> Option<String> {
    // `loss.min`, as other languages have it.
    let folded = name.text.rsplit_once('.');
    if let Some((metric, word)) = folded.filter(|(_, word)| Fold::from_word(word).is_some()) {
        return Some(format!("did you mean `{word}({metric})`?"));
    }
    let meant = slips::fact_meant(&name.text);
    let near = Fact::ALL
        .into_iter()
        .find(|fact| fact.word().len() >= SLIP_CHARS_MIN && is_slip(&name.text, fact.word()));
    let fact = meant.or(near).filter(|_| loose_fact(name).is_none())?;
    Some(format!("did you mean `{}`?", fact.word()))
}
