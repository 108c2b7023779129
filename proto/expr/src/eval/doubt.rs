//! Reasons why a rule could never hold, as far as names tell before a run.

use super::{moment_of, typed};
use crate::bind::scope::Scope;
use crate::bind::{Bindings, Bound};
use crate::parse::kind::{ValueKind, kind_of};
use crate::tree::ast::{CompareOp, NameForm, NameRef, Node, loose_fact};
use crate::tree::expr::Expr;
use crate::words::error::{ErrorKind, ExprError};
use crate::words::fact::Fact;
use crate::words::past::Fold;
use crate::words::slips;
use crate::words::state::State;
use crate::words::value::{Value, is_text_of_number};
use nero_model::names::{is_slip, same_loosely, suggest};

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
        let never = never
            .next()
            .or_else(|| self.never_text(&bindings, scope))
            .or_else(|| self.incomparable(&bindings, scope).into_iter().next())
            .or_else(|| self.joined_names(&bindings, scope).into_iter().next());
        if let Some(error) = never {
            let is_certain = true;
            return Some(Doubt { error, is_certain });
        }
        let mut open = (self.names.iter().enumerate()).filter(|(slot, _)| bindings.is_open(*slot));
        let error = open.find_map(|(_, name)| slip(name))?;
        let is_certain = false;
        Some(Doubt { error, is_certain })
    }

    /// The comparisons of a parameter with what its value is never equal to and has no order
    /// with: a word with a number, a number with a date.
    pub fn incomparable(&self, bindings: &Bindings, scope: &impl Scope) -> Vec<ExprError> {
        let mut found = Vec::new();
        self.root.walk(&mut |node| match node {
            Node::Compare(op, pair) if *op != CompareOp::NotEqual => {
                found.extend(self.other_kind(&pair[0], &pair[1], bindings, scope));
                found.extend(self.other_kind(&pair[1], &pair[0], bindings, scope));
            }
            Node::In(parts) => {
                let items = parts[1..].iter();
                let errors = items.map(|item| self.other_kind(&parts[0], item, bindings, scope));
                let errors: Vec<_> = errors.collect();
                if errors.iter().all(Option::is_some) {
                    found.extend(errors.into_iter().flatten().next());
                }
            }
            _ => {}
        });
        found
    }

    fn other_kind(
        &self,
        one: &Node,
        other: &Node,
        bindings: &Bindings,
        scope: &impl Scope,
    ) -> Option<ExprError> {
        let Node::Name(slot) = one else { return None };
        let name = self.names.get(usize::from(*slot))?;
        let Some(Bound::Param(param)) = bindings.get(usize::from(*slot)) else {
            return None;
        };
        let value = typed(scope.param(param));
        let other_kind = match kind_of(other, &self.names) {
            ValueKind::Number => "a number",
            ValueKind::Time => "a date",
            ValueKind::Text | ValueKind::Version | ValueKind::Condition | ValueKind::Any => {
                return None;
            }
        };
        let (what, text) = match (value, other_kind) {
            (Value::Text(_), "a date") if moment_of(value, other).is_some() => return None,
            (Value::Text(text), _) => ("text", text),
            (Value::Bool(_, text), _) => ("true or false", text.unwrap_or_default()),
            (Value::Number(_, Some(text)), "a date") => ("a number", text),
            (Value::Unknown | Value::Number(..) | Value::Time(_), _) => return None,
        };
        let word = &name.text;
        let short: String = text.chars().take(40).collect();
        let message = format!("`{word}` is {what} (`{short}`), and is compared with {other_kind}");
        let error = ExprError::new(ErrorKind::Kind, name.span, message);
        Some(error.hint(match what {
            "text" => format!("text stands in quotes, `{word} == '{short}'`; a metric of that name is `metric.{word}`"),
            "a number" => "dates are written `2026-11-20`".to_owned(),
            _ => format!("write `{word}` or `!{word}`; a metric of that name is `metric.{word}`"),
        }))
    }

    /// The names that are most likely an operation without blanks: `runtime/60`, `loss-lr`.
    pub fn joined_names(&self, bindings: &Bindings, scope: &impl Scope) -> Vec<ExprError> {
        let mut known = Vec::new();
        scope.visit_names(&mut |_, name| known.push(name.to_owned()));
        let exists = |part: &str| {
            let has = |name: &String| same_loosely(name, part);
            Fact::from_word(part).is_some() || known.iter().any(has)
        };
        let open = self.names.iter().enumerate();
        let open =
            open.filter(|(slot, name)| bindings.is_open(*slot) && name.asked == NameForm::Any);
        let joined = open.filter_map(|(_, name)| {
            let spaced = joined(&name.text, exists)?;
            let message = format!("without blanks `{}` is one name", name.text);
            let error = ExprError::new(ErrorKind::Name, name.span, message);
            Some(error.hint(format!(
                "write `{spaced}`; a metric of that name is `metric('{}')`",
                name.text
            )))
        });
        joined.collect()
    }

    /// The names of no fact or parameter that most likely mean one.
    pub fn slips(&self, bindings: &Bindings) -> Vec<ExprError> {
        let names = self.names.iter().enumerate();
        let open = names.filter(|(slot, _)| bindings.is_open(*slot));
        open.filter_map(|(_, name)| slip(name)).collect()
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
        if !is_word || name.asked != NameForm::Any {
            return None;
        }
        let word = &name.text;
        let message = format!("no parameter is called `{word}`");
        let error = ExprError::new(ErrorKind::Name, name.span, message);
        Some(error.hint(format!("text stands in quotes: `'{word}'`")))
    }
}

/// `runtime / 60` for `runtime/60`: where one side exists and the other does, too, or is a
/// number; and whatever is divided by a number.
fn joined(text: &str, exists: impl Fn(&str) -> bool) -> Option<String> {
    let is_number = |part: &str| part.parse::<f64>().is_ok() && !part.is_empty();
    text.match_indices(['-', '/']).find_map(|(at, sign)| {
        let (left, right) = (&text[..at], &text[at + 1..]);
        let is_one = match (exists(left), exists(right)) {
            (true, true) => true,
            (true, false) => is_number(right),
            (false, true) => is_number(left),
            (false, false) => sign == "/" && !left.is_empty() && is_number(right),
        };
        is_one.then(|| format!("{left} {sign} {right}"))
    })
}

fn no_text_metric(name: &NameRef, scope: &impl Scope) -> ExprError {
    let word = &name.text;
    let message = format!("no parameter is called `{word}`, and metrics are numbers");
    let error = ExprError::new(ErrorKind::Name, name.span, message);
    let mut params = Vec::new();
    scope.visit_names(&mut |_, param| params.push(param.to_owned()));
    let near = suggest(word, params).map(|near| format!("did you mean `{near}`?"));
    error.hint_if(near.or_else(|| slip_hint(name).filter(|_| name.asked == NameForm::Any)))
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
    let message = format!("`{}` is `{}`, not a condition", name.text, fact.as_str());
    let error = ExprError::new(ErrorKind::Kind, name.span, message);
    error.hint(format!("compare it: `{} > …`", fact.as_str()))
}

/// A name of nothing so far that other programs have for a fact, or that is one letter
/// away from one.
fn slip(name: &NameRef) -> Option<ExprError> {
    if name.asked != NameForm::Any {
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
        .find(|fact| fact.as_str().len() >= SLIP_CHARS_MIN && is_slip(&name.text, fact.as_str()));
    let fact = meant.or(near).filter(|_| loose_fact(name).is_none())?;
    Some(format!("did you mean `{}`?", fact.as_str()))
}
