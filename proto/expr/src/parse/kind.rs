//! The kind of a node's value, as far as the text alone determines it, and the
//! errors that follow from it.

use crate::tree::ast::{ArithOp, CompareOp, NameForm, NameRef, Node, Pick};
use crate::tree::number::{ScannedNumber, scan_number};
use crate::words::error::{ErrorKind, ExprError, Span};
use crate::words::fact::{Fact, FactKind, signal_number};
use crate::words::pattern::Glob;
use crate::words::state::State;
use crate::words::value::is_text_of_number;
use nero_model::names::suggest;

/// The kind of a node's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Number,
    Text,
    Time,
    /// A version: has an order and is no number.
    Version,
    /// True or false.
    Condition,
    /// A name: its kind depends on its value.
    Any,
}

impl ValueKind {
    fn noun(self) -> &'static str {
        match self {
            ValueKind::Number => "a number",
            ValueKind::Text => "text",
            ValueKind::Time => "a time",
            ValueKind::Version => "a version",
            ValueKind::Condition => "a condition",
            ValueKind::Any => "a name",
        }
    }
}

/// The kind of `node`; `names` is the table of its expression.
pub(crate) fn kind_of(node: &Node, names: &[NameRef]) -> ValueKind {
    match node {
        Node::Number(..)
        | Node::Nan
        | Node::Inf
        | Node::Neg(_)
        | Node::Math(..)
        | Node::Over(..)
        | Node::At(..)
        | Node::Cohort(_) => ValueKind::Number,
        Node::Text(_) => ValueKind::Text,
        Node::Time(_) | Node::Now => ValueKind::Time,
        Node::Fact(fact) => of_fact(fact.kind()),
        Node::Place(fact) => of_fact(fact.kind()),
        Node::Probe(_) => ValueKind::Any,
        Node::Name(slot) => match names.get(usize::from(*slot)).map(|name| name.asked) {
            Some(NameForm::Metric) => ValueKind::Number,
            Some(NameForm::Any | NameForm::Quoted | NameForm::Param) | None => ValueKind::Any,
        },
        Node::Arith(op, pair) => {
            arith_kind(*op, kind_of(&pair[0], names), kind_of(&pair[1], names))
                .unwrap_or(ValueKind::Any)
        }
        Node::Bool(_)
        | Node::Is(_)
        | Node::Pick(_)
        | Node::Not(_)
        | Node::Compare(..)
        | Node::Glob(..)
        | Node::Match(..)
        | Node::In(_)
        | Node::For(..)
        | Node::After(..)
        | Node::And(_)
        | Node::Or(_) => ValueKind::Condition,
    }
}

fn of_fact(kind: FactKind) -> ValueKind {
    match kind {
        FactKind::Number | FactKind::Seconds | FactKind::Bytes => ValueKind::Number,
        FactKind::Text | FactKind::Words => ValueKind::Text,
        FactKind::Time => ValueKind::Time,
        FactKind::Version => ValueKind::Version,
    }
}

/// The kind of `left op right`; `None` if the operation is impossible.
fn arith_kind(op: ArithOp, left: ValueKind, right: ValueKind) -> Option<ValueKind> {
    let adds = matches!(op, ArithOp::Add | ArithOp::Sub);
    match (left, right) {
        (ValueKind::Text | ValueKind::Version | ValueKind::Condition, _)
        | (_, ValueKind::Text | ValueKind::Version | ValueKind::Condition) => None,
        (ValueKind::Time, ValueKind::Time) => (op == ArithOp::Sub).then_some(ValueKind::Number),
        (ValueKind::Time, ValueKind::Number) => adds.then_some(ValueKind::Time),
        (ValueKind::Number, ValueKind::Time) => (op == ArithOp::Add).then_some(ValueKind::Time),
        (ValueKind::Time | ValueKind::Any, ValueKind::Any) | (ValueKind::Any, ValueKind::Time) => {
            (adds || left != ValueKind::Time && right != ValueKind::Time).then_some(ValueKind::Any)
        }
        (ValueKind::Number, ValueKind::Number) => Some(ValueKind::Number),
        (ValueKind::Number, ValueKind::Any) | (ValueKind::Any, ValueKind::Number) => {
            Some(ValueKind::Any)
        }
    }
}

fn mismatch(span: Span, message: String) -> ExprError {
    ExprError::new(ErrorKind::Kind, span, message)
}

/// Refuses a node that can be no operand of `&& || !` and no whole condition.
pub(crate) fn check_condition(
    node: &Node,
    span: Span,
    names: &[NameRef],
    text: &str,
) -> Result<(), ExprError> {
    let kind = kind_of(node, names);
    let is_name = matches!(node, Node::Name(_));
    match kind {
        ValueKind::Condition => Ok(()),
        ValueKind::Any if is_name => Ok(()),
        ValueKind::Any
        | ValueKind::Number
        | ValueKind::Text
        | ValueKind::Time
        | ValueKind::Version => {
            let noun = if matches!(node, Node::Probe(_)) {
                "the answer to a probe"
            } else if kind == ValueKind::Any {
                "a number"
            } else {
                kind.noun()
            };
            let written = span.of(text);
            let error = mismatch(span, format!("`{written}` is {noun}, not a condition"));
            Err(match node {
                Node::Arith(ArithOp::Sub, pair)
                    if pair.iter().all(|side| matches!(side, Node::Number(..))) =>
                {
                    let joined: String = written.split_whitespace().collect();
                    error.hint(format!(
                        "a range of numbers is written without blanks and stands in selectors only: `{joined}`"
                    ))
                }
                Node::Text(_) => error.hint("compare it with something: `name == 'x'`"),
                Node::Probe(name) => error.hint(format!("compare it: `{name} == yes`")),
                _ => error.hint(format!("compare it: `{written} > …`")),
            })
        }
    }
}

/// Refuses a node that tells no progress: what is no number, or follows from the progress.
pub(crate) fn check_progress(
    root: &Node,
    span: Span,
    names: &[NameRef],
    text: &str,
) -> Result<(), ExprError> {
    check_sign(root, span, names, text)?;
    for name in names {
        let parts = name.text.rsplit_once('/');
        if let Some((step, total)) = parts.filter(|(_, total)| total.parse::<f64>().is_ok()) {
            let message = format!("without blanks `{}` is one name", name.text);
            return Err(
                ExprError::new(ErrorKind::Name, name.span, message).hint(format!(
                    "write `{} / {}`",
                    step.trim_end(),
                    total.trim_start()
                )),
            );
        }
    }
    let mut own = None;
    root.walk(&mut |node| {
        if let Node::Fact(fact @ (Fact::Progress | Fact::Eta)) = node {
            own = Some(*fact);
        }
    });
    match own {
        None => Ok(()),
        Some(fact) => {
            let word = fact.as_str();
            let message = format!("the progress does not follow from `{word}`");
            Err(ExprError::new(ErrorKind::Name, span, message).hint(format!(
                "`metric.{word}` is what the job prints of that name"
            )))
        }
    }
}

/// Refuses arithmetic on a node that is no number.
pub(crate) fn check_arith(
    op: ArithOp,
    left: (&Node, Span),
    right: (&Node, Span),
    names: &[NameRef],
    text: &str,
) -> Result<(), ExprError> {
    for (node, span) in [left, right] {
        check_no_nan(node, span)?;
    }
    let (left_kind, right_kind) = (kind_of(left.0, names), kind_of(right.0, names));
    if arith_kind(op, left_kind, right_kind).is_some() {
        return Ok(());
    }
    for (kind, span) in [(left_kind, left.1), (right_kind, right.1)] {
        if matches!(
            kind,
            ValueKind::Text | ValueKind::Version | ValueKind::Condition
        ) {
            let what = format!("`{}` is {}, not a number", span.of(text), kind.noun());
            return Err(mismatch(span, what));
        }
    }
    let what = format!(
        "{} `{}` {} makes no sense",
        left_kind.noun(),
        op.sign(),
        right_kind.noun()
    );
    Err(mismatch(left.1.to(right.1), what).hint("`now - tstart` is a duration, `now - 1h` a time"))
}

/// Refuses a sign before a node that is no number.
pub(crate) fn check_sign(
    node: &Node,
    span: Span,
    names: &[NameRef],
    text: &str,
) -> Result<(), ExprError> {
    check_no_nan(node, span)?;
    match kind_of(node, names) {
        ValueKind::Number | ValueKind::Any => Ok(()),
        kind @ (ValueKind::Text | ValueKind::Time | ValueKind::Version | ValueKind::Condition) => {
            let what = format!("`{}` is {}, not a number", span.of(text), kind.noun());
            Err(mismatch(span, what))
        }
    }
}

/// Refuses `nan` where it would make everything false.
fn check_no_nan(node: &Node, span: Span) -> Result<(), ExprError> {
    if *node != Node::Nan {
        return Ok(());
    }
    let error = mismatch(span, "`nan` is compared with `==` and `!=` only".to_owned());
    Err(error.hint("`loss == nan` holds when loss is NaN"))
}

/// Refuses comparisons that could never hold.
pub(crate) fn check_compare(
    op: CompareOp,
    left: (&Node, Span),
    right: (&Node, Span),
    names: &[NameRef],
    text: &str,
) -> Result<(), ExprError> {
    let kinds = (kind_of(left.0, names), kind_of(right.0, names));
    check_state_text(left, right)?;
    for (one, other) in [(left, right), (right, left)] {
        check_text_beside(op, one.0, other, names, text)?;
        check_moment_beside(op, one, other, text)?;
        check_name_beside(op, one, other, names, text)?;
    }
    if !op.is_equality() {
        for (node, span) in [left, right] {
            check_no_nan(node, span)?;
        }
    }
    let whole = left.1.to(right.1);
    match kinds {
        (ValueKind::Any, _) | (_, ValueKind::Any) if op.is_equality() => Ok(()),
        (ValueKind::Condition, _) | (_, ValueKind::Condition) if !op.is_equality() => {
            let span = if kinds.0 == ValueKind::Condition {
                left.1
            } else {
                right.1
            };
            let what = format!("`{}` is true or false and has no order", span.of(text));
            let hint = "write `!(…)` to deny a comparison, `&&` to join two";
            Err(mismatch(span, what).hint(hint))
        }
        (ValueKind::Text, ValueKind::Time) | (ValueKind::Time, ValueKind::Text) => Err(mismatch(
            whole,
            "a time is not compared with text".to_owned(),
        )
        .hint("dates stand without quotes, and texts that look like dates within")),
        (ValueKind::Version, ValueKind::Time) | (ValueKind::Time, ValueKind::Version) => {
            Err(mismatch(whole, "a version is no time".to_owned()).hint("such as `glibc >= 2.28`"))
        }
        (ValueKind::Condition, other) | (other, ValueKind::Condition)
            if matches!(
                other,
                ValueKind::Number | ValueKind::Time | ValueKind::Version
            ) =>
        {
            let what = format!("{} is not true or false", other.noun());
            Err(mismatch(whole, what))
        }
        (ValueKind::Text, ValueKind::Number) | (ValueKind::Number, ValueKind::Text)
            if !op.is_equality() =>
        {
            let what = "text and a number have no order".to_owned();
            Err(mismatch(whole, what))
        }
        _ => Ok(()),
    }
}

/// Refuses a quoted text beside a number: it is never equal and has no order.
fn check_text_beside(
    op: CompareOp,
    one: &Node,
    quoted: (&Node, Span),
    names: &[NameRef],
    text: &str,
) -> Result<(), ExprError> {
    let Node::Text(written) = quoted.0 else {
        return Ok(());
    };
    let is_number = matches!(scan_number(written), Some(ScannedNumber::Number { len, .. }) if len == written.len());
    let beside_number = kind_of(one, names) == ValueKind::Number;
    if op.is_equality() && is_text_of_number(written) {
        return Ok(());
    }
    // A parameter may be text, which has an order; a text of digits is a slip.
    if !beside_number && (op.is_equality() || !is_number || matches!(one, Node::Text(_))) {
        return Ok(());
    }
    let what = format!("`{}` is text, not a number", quoted.1.of(text));
    let error = mismatch(quoted.1, what);
    Err(if is_number {
        error.hint(format!("write it without quotes: `{written}`"))
    } else if matches!(one, Node::Number(..)) {
        error.hint(format!(
            "a name with blanks stands in backticks: `` `{written}` ``"
        ))
    } else {
        error.hint("numbers stand without quotes: `2h`, `4G`, `40%`")
    })
}

/// Refuses comparisons of a moment that never hold, or hold for nearly all moments.
fn check_moment_beside(
    op: CompareOp,
    moment: (&Node, Span),
    other: (&Node, Span),
    text: &str,
) -> Result<(), ExprError> {
    let (Node::Fact(fact), written) = (moment.0, other.1.of(text)) else {
        return Ok(());
    };
    if fact.kind() != FactKind::Time {
        return Ok(());
    }
    let word = fact.as_str();
    if let Some(date) = year_in(written)
        && matches!(other.0, Node::Number(..) | Node::Arith(..))
    {
        let what = format!("`{written}` is a number of seconds here");
        return Err(mismatch(other.1, what).hint(format!("dates are written `{date}`")));
    }
    let is_constant = matches!(other.0, Node::Time(_) | Node::Number(..) | Node::Now);
    if op.is_equality() && is_constant {
        let what = format!("`{word}` is exact to the millisecond and never equal");
        return Err(mismatch(moment.1.to(other.1), what).hint(format!(
            "write `{word} > {written}`, or both ends: `{word} > 2026-11-20 && {word} < 2026-11-21`"
        )));
    }
    Ok(())
}

/// The date that digits without a form perhaps mean: `2026`, `2026-11`, `20261120`.
fn year_in(written: &str) -> Option<String> {
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let is_year = |part: &str| {
        let year = part.get(..4).filter(|year| digits(year));
        year.is_some_and(|year| matches!(&year[..2], "19" | "20" | "21"))
    };
    let (year, rest) = (written.get(..4)?, written.get(4..)?);
    if !is_year(written) {
        return None;
    }
    match (rest.len(), rest.strip_prefix('-')) {
        (0, _) => Some(format!("{year}-01-01")),
        (2 | 3, Some(month)) if digits(month) => Some(format!("{year}-{month:0>2}-01")),
        (4, None) if digits(rest) => Some(format!("{year}-{}-{}", &rest[..2], &rest[2..])),
        _ => None,
    }
}

/// Refuses a bare word that stands where a text, a state or a signal is meant.
fn check_name_beside(
    op: CompareOp,
    one: (&Node, Span),
    other: (&Node, Span),
    names: &[NameRef],
    text: &str,
) -> Result<(), ExprError> {
    let bare = |node: &Node| {
        let Node::Name(slot) = node else { return None };
        let name = names.get(usize::from(*slot))?;
        (name.asked == NameForm::Any).then_some(&*name.text)
    };
    let written = other.1.of(text);
    let refused = |what: &str, hint: &str| Err(mismatch(other.1, what.to_owned()).hint(hint));
    let is_state = |word: &str| State::from_word(word).is_some();
    let is_signal = |word: &str| signal_number(word).is_some();
    match (one.0, other.0) {
        (Node::Fact(Fact::State), _) if !op.is_equality() => refused(
            "states have no order",
            "write `state == crashed`, or `crashed` alone",
        ),
        (Node::Fact(Fact::Id), Node::Arith(ArithOp::Sub, pair))
            if pair.iter().all(|side| matches!(side, Node::Number(..))) =>
        {
            refused(
                &format!("`{written}` is a difference of two numbers here"),
                &format!("a range of numbers stands alone: `{written}`"),
            )
        }
        (Node::Fact(Fact::Signal), name) if bare(name).is_some_and(|word| !is_signal(word)) => {
            refused(
                &format!("there is no signal `{written}`"),
                "such as `signal == SIGKILL`, `signal == 9`",
            )
        }
        (Node::Fact(Fact::Exit), name) if bare(name).is_some_and(is_signal) => refused(
            &format!("`{written}` is a signal, not an exit code"),
            &format!("write `signal == {written}`"),
        ),
        (Node::Fact(fact), name)
            if fact.kind() == FactKind::Text && !op.is_equality() && bare(name).is_some() =>
        {
            refused(
                &format!("`{written}` is a name here, and a text is meant"),
                &format!("text stands in quotes: `'{written}'`"),
            )
        }
        (Node::Fact(fact), Node::Bool(_) | Node::Not(_) | Node::Is(_))
            if fact.kind() == FactKind::Text =>
        {
            let fact = fact.as_str();
            refused(
                &format!("`{written}` is true or false, and `{fact}` is text"),
                "`!=` denies: `state != crashed`",
            )
        }
        (Node::Bool(_), name) if bare(name).is_some_and(is_state) => refused(
            &format!("`{written}` stands for a name here"),
            &format!("a state stands alone: `{written}`, `!{written}`"),
        ),
        (left, right) => match (bare(left), bare(right)) {
            (Some(left), Some(right)) if is_state(left) && is_state(right) => refused(
                &format!("`{left}` stands for a name here"),
                &format!("write `state == {right}`, or `{left} || {right}`"),
            ),
            _ => Ok(()),
        },
    }
}

/// Refuses `state == x` if `x` is no state: it would never hold.
fn check_state_text(left: (&Node, Span), right: (&Node, Span)) -> Result<(), ExprError> {
    let (Node::Fact(Fact::State), Node::Text(word)) = (left.0, right.0) else {
        return Ok(());
    };
    check_state_word(word, right.1)
}

fn check_state_word(word: &str, span: Span) -> Result<(), ExprError> {
    match State::from_word(word) {
        Some(state) if state.is_single() => Ok(()),
        Some(state) => {
            let word = state.as_str();
            let what = format!("`{word}` is not one state but a word of its own");
            Err(mismatch(span, what).hint(format!("write `{word}` without `state ==`")))
        }
        None => {
            let error = mismatch(span, format!("there is no state `{word}`"));
            let states = single_states();
            Err(match suggest(word, &states) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint(format!("states: {}", states.join(" "))),
            })
        }
    }
}

/// Refuses a pattern that fits no state.
pub(crate) fn check_some_state(
    fits: impl Fn(&str) -> bool,
    span: Span,
    text: &str,
) -> Result<(), ExprError> {
    let states = single_states();
    if states.iter().any(|word| fits(word)) {
        return Ok(());
    }
    let written = span.of(text).trim_start_matches(['=', '~', ' ']);
    let error = mismatch(span, format!("`{written}` fits no state"));
    Err(error.hint(format!("states: {}", states.join(" "))))
}

fn single_states() -> Vec<&'static str> {
    let is_single = |word: &&str| State::from_word(word).is_some_and(State::is_single);
    State::words().filter(is_single).collect()
}

/// Refuses globs and regular expressions on a node without text.
pub(crate) fn check_pattern(
    left: (&Node, Span),
    glob: Option<(&Glob, Span)>,
    names: &[NameRef],
    text: &str,
) -> Result<(), ExprError> {
    match kind_of(left.0, names) {
        kind @ (ValueKind::Time | ValueKind::Condition) => {
            let what = format!("`{}` is {} and has no text", left.1.of(text), kind.noun());
            let error = mismatch(left.1, what);
            return Err(match kind {
                ValueKind::Time => error.hint("times are compared with `<` and `>`"),
                _ => error,
            });
        }
        ValueKind::Number | ValueKind::Text | ValueKind::Version | ValueKind::Any => {}
    }
    if let (Node::Fact(Fact::State), Some((glob, span))) = (left.0, glob)
        && glob.has_wildcard()
    {
        return check_some_state(|state| glob.fits(state), span, text);
    }
    let Some((glob, span)) = glob.filter(|(glob, _)| !glob.has_wildcard()) else {
        return Ok(());
    };
    match left.0 {
        Node::Fact(Fact::State) => check_state_word(glob.as_str(), span),
        Node::Fact(fact) if fact.kind() != FactKind::Text => {
            let what = format!(
                "`{}` is a number, `{}` is not",
                fact.as_str(),
                glob.as_str()
            );
            let error = mismatch(span, what);
            let range = glob.as_str();
            Err(match Pick::from_digits(range) {
                Some(Ok(_)) if *fact == Fact::Id => {
                    error.hint(format!("a range of numbers stands alone: `{range}`"))
                }
                _ => error,
            })
        }
        Node::Place(fact) if matches!(fact.kind(), FactKind::Number | FactKind::Bytes) => {
            let what = format!(
                "`{}` is a number, `{}` is not",
                fact.as_str(),
                glob.as_str()
            );
            Err(mismatch(span, what))
        }
        _ => Ok(()),
    }
}
