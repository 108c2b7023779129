//! Operators and their sides made into nodes, with the refusals that need both.

use super::kind::{
    ValueKind, check_arith, check_compare, check_condition, check_pattern, check_sign,
    check_some_state, kind_of,
};
use super::side::states_known_to;
use super::{ExpectedKind, Level, Operand, Parser};
use crate::tree::ast::{ArithOp, CompareOp, Duration, Node};
use crate::tree::lex::{Tok, Token};
use crate::tree::number::scan_clock;
use crate::words::error::{ErrorKind, ExprError, Span};
use crate::words::fact::{Fact, FactKind, signal_number};
use crate::words::known::KnowledgeHolder;
use crate::words::node::NodeFact;
use crate::words::state::State;

/// The longest duration of `for`, `after` and windows: ten years.
const DURATION_MS_MAX: f64 = 10.0 * 365.0 * 86_400_000.0;

impl Parser<'_> {
    /// `a < b < c`, with what it should have been when that is plain to see.
    pub(super) fn chain_error(&self, left: &Operand, sign: Span) -> ExprError {
        let error = self.syntax(sign, "comparisons do not chain");
        let middle = match &left.node {
            Node::Compare(_, _) => left.span.of(self.text).rsplit(['<', '>', '=']).next(),
            _ => None,
        };
        let middle = middle.map_or("", str::trim);
        let first = left.span.of(self.text);
        match middle {
            "" => error.hint("join two comparisons with `&&`"),
            _ => error.hint(format!(
                "write `{first} && {middle} {} …`",
                sign.of(self.text)
            )),
        }
    }

    pub(super) fn join(
        &self,
        left: Operand,
        right: Operand,
        level: Level,
        joined: bool,
    ) -> Result<Operand, ExprError> {
        self.check_operand(&right)?;
        let span = left.span.to(right.span);
        let mut height = left.height.max(right.height + 1);
        let node = match (left.node, joined, level) {
            (Node::And(mut parts), true, Level::And) => {
                parts.push(right.node);
                Node::And(parts)
            }
            (Node::Or(mut parts), true, Level::Or) => {
                parts.push(right.node);
                Node::Or(parts)
            }
            (first, _, level) => {
                height = height.max(left.height + 1);
                let parts = vec![first, right.node];
                if level == Level::And {
                    Node::And(parts)
                } else {
                    Node::Or(parts)
                }
            }
        };
        self.part(node, span, height)
    }

    pub(super) fn check_operand(&self, part: &Operand) -> Result<(), ExprError> {
        check_condition(&part.node, part.span, &self.names, self.text)
    }

    pub(super) fn arith(
        &self,
        left: Operand,
        tok: &Tok,
        right: Operand,
    ) -> Result<Operand, ExprError> {
        let op = match tok {
            Tok::Plus => ArithOp::Add,
            Tok::Minus => ArithOp::Sub,
            Tok::Star => ArithOp::Mul,
            Tok::Slash => ArithOp::Div,
            _ => ArithOp::Rem,
        };
        let (l, r) = ((&left.node, left.span), (&right.node, right.span));
        check_arith(op, l, r, &self.names, self.text)?;
        self.pair(left, right, |pair| Node::Arith(op, pair))
    }

    pub(super) fn compare(
        &mut self,
        left: Operand,
        op: CompareOp,
        right: Operand,
    ) -> Result<Operand, ExprError> {
        let (l, r) = ((&left.node, left.span), (&right.node, right.span));
        check_compare(op, l, r, &self.names, self.text)?;
        self.check_clock(l, r.0)?;
        self.check_clock(r, l.0)?;
        if let (Node::Fact(Fact::State), Node::Text(word)) = (l.0, r.0)
            && let Some(state) = State::from_word(word)
        {
            self.check_seen_by_rules(state, r.1)?;
        }
        self.pair(left, right, |pair| Node::Compare(op, pair))
    }

    /// Right of `==` and `!=` a bare word beside a text fact is text, and beside
    /// `signal` the name of a signal; `param.x` is not bare.
    pub(super) fn bare_word(&mut self, left: &Node, op: CompareOp) -> Option<Operand> {
        let (fact, kind) = match left {
            Node::Fact(fact) => (Some(*fact), fact.kind()),
            Node::Place(fact) => (None, fact.kind()),
            Node::Probe(_) => (None, FactKind::Text),
            _ => return None,
        };
        let ends = !matches!(self.peek_second(), Some(Tok::Open | Tok::At));
        if !op.is_equality() || !ends || !matches!(self.peek(), Some(Tok::Word)) {
            return None;
        }
        let span = self.here();
        let word = span.of(self.text);
        if word.starts_with("param.") || word.starts_with("metric.") {
            return None;
        }
        let is_probe = matches!(left, Node::Probe(_));
        if is_probe && (NodeFact::named(word).is_some() || self.is_probe(word)) {
            return None;
        }
        let node = match kind {
            _ if fact == Some(Fact::Signal) => signal_node(word)?,
            FactKind::Text | FactKind::Version | FactKind::Words => Node::Text(word.into()),
            FactKind::Number | FactKind::Seconds | FactKind::Bytes | FactKind::Time => {
                return None;
            }
        };
        self.next += 1;
        Some(Operand {
            node,
            span,
            height: 1,
        })
    }

    pub(super) fn pattern(
        &mut self,
        left: Operand,
        tok: Tok,
        sign: Span,
    ) -> Result<Operand, ExprError> {
        let l = (&left.node, left.span);
        let span = left.span.to(sign);
        let height = left.height + 1;
        let node = match tok {
            Tok::Glob(glob) => {
                if let (Node::Fact(Fact::Signal), Some(number)) =
                    (&left.node, signal_node(glob.as_str()))
                {
                    let pair = Box::new([left.node, number]);
                    return self.part(Node::Compare(CompareOp::Equal, pair), span, height);
                }
                check_pattern(l, Some((&glob, sign)), &self.names, self.text)?;
                if let (Node::Fact(Fact::State), Some(state)) =
                    (&left.node, State::from_word(glob.as_str()))
                {
                    self.check_seen_by_rules(state, sign)?;
                }
                Node::Glob(Box::new(left.node), glob)
            }
            Tok::Match(pattern) => {
                check_pattern(l, None, &self.names, self.text)?;
                if matches!(left.node, Node::Fact(Fact::State)) {
                    check_some_state(|state| pattern.fits(state), sign, self.text)?;
                }
                Node::Match(Box::new(left.node), pattern)
            }
            other => return Err(self.syntax(sign, format!("{other:?} is no pattern"))),
        };
        self.one_sided.note(states_known_to(&node), sign);
        self.part(node, span, height)
    }

    /// `14:00` is a moment, and means one only beside a moment.
    fn check_clock(&self, clock: (&Node, Span), other: &Node) -> Result<(), ExprError> {
        let written = clock.1.of(self.text);
        let is_clock = matches!(clock.0, Node::Time(_)) && scan_clock(written).is_some();
        if !is_clock || kind_of(other, &self.names) == ValueKind::Time {
            return Ok(());
        }
        let message = format!("`{written}` is a time of day");
        let error = ExprError::new(ErrorKind::Kind, clock.1, message);
        Err(error.hint(format!(
            "it stands beside `tstart tend tsub tmod now`; a duration is `{written}:00` or `90m`"
        )))
    }

    /// `x for 10m` and `x after 2h`.
    pub(super) fn held(&mut self, left: Operand, sign: &Token) -> Result<Operand, ExprError> {
        let word = sign.span.of(self.text);
        self.check_operand(&left)?;
        let (duration, end) = self.duration(|error| error.hint(format!("such as `{word} 10m`")))?;
        let span = left.span.to(end);
        let part = sign.span.to(end);
        self.one_sided.note(KnowledgeHolder::Watcher, part);
        if self.about_nodes || self.wanted == ExpectedKind::Progress {
            self.note_not_built(part, &format!("`{word}` here"), None);
        }
        let node = if sign.tok == Tok::For {
            if !self.context.standing {
                let message = "`for` needs a rule, which is evaluated all the time";
                let error = ExprError::new(ErrorKind::Kind, part, message);
                let hint = "a window looks back: `min(loss, 10m) > 2`";
                return Err(error.hint(hint));
            }
            let index = self.holds;
            self.holds = self.holds.saturating_add(1);
            Node::For(Box::new(left.node), duration, index)
        } else {
            Node::After(Box::new(left.node), duration)
        };
        self.part(node, span, left.height + 1)
    }

    /// Reads a duration above 0, such as `10m`; a bare number is seconds.
    pub(super) fn duration(
        &mut self,
        hint: impl Fn(ExprError) -> ExprError,
    ) -> Result<(Duration, Span), ExprError> {
        let span = self.here();
        let Some(Tok::Number(seconds)) = self.take().map(|token| token.tok) else {
            return Err(hint(self.syntax(span, "a duration is expected here")));
        };
        let ms = (seconds * 1000.0).round();
        if !(1.0..=DURATION_MS_MAX).contains(&ms) {
            let message = format!("`{}` is no duration to wait for", span.of(self.text));
            return Err(hint(ExprError::new(ErrorKind::Kind, span, message)));
        }
        let text = span.of(self.text).into();
        Ok((
            Duration {
                ms: ms as u64,
                text,
            },
            span,
        ))
    }

    /// `x in (a, b)`, from behind `in`.
    pub(super) fn listed(&mut self, left: Operand) -> Result<Operand, ExprError> {
        let open = self.here();
        if !matches!(self.take().map(|token| token.tok), Some(Tok::Open)) {
            let error = self.syntax(open, "a list in parentheses is expected behind `in`");
            return Err(error.hint(match left.node {
                Node::Fact(Fact::Id) => "a range of numbers stands alone: `124-186 && crashed`",
                Node::Text(_) => "a part of a text is found by a pattern: `name = *fib*`",
                _ => "such as `x in (1, 2)`",
            }));
        }
        let mut parts = vec![left.node];
        let mut height = left.height;
        loop {
            let item = self.list_item(&parts[0])?;
            let l = (&parts[0], left.span);
            check_compare(
                CompareOp::Equal,
                l,
                (&item.node, item.span),
                &self.names,
                self.text,
            )?;
            self.check_clock((&item.node, item.span), &parts[0])?;
            if let (Node::Fact(Fact::State), Node::Text(word)) = (&parts[0], &item.node)
                && let Some(state) = State::from_word(word)
            {
                self.check_seen_by_rules(state, item.span)?;
            }
            height = height.max(item.height);
            parts.push(item.node);
            if !matches!(self.peek(), Some(Tok::Comma)) {
                break;
            }
            self.next += 1;
        }
        let close = self.close(open)?;
        self.part(Node::In(parts), left.span.to(close), height + 1)
    }

    /// One value of a list: a word, a number or a name, with its signs.
    fn list_item(&mut self, left: &Node) -> Result<Operand, ExprError> {
        if let Some(word) = self.bare_word(left, CompareOp::Equal) {
            return Ok(word);
        }
        let sign = self.here();
        if !matches!(self.peek(), Some(Tok::Minus)) {
            return self.primary();
        }
        self.next += 1;
        let item = self.primary()?;
        check_sign(&item.node, item.span, &self.names, self.text)?;
        let span = sign.to(item.span);
        self.part(Node::Neg(Box::new(item.node)), span, item.height + 1)
    }

    /// `!` binds tightest, so `!x > 3` is a mistake that looks right.
    pub(super) fn check_negated(&self, inner: &Operand) -> Result<(), ExprError> {
        let compared = self.operator() == Some(Level::Compare);
        self.check_operand(inner).map_err(|error| {
            if compared {
                error.hint("`!` reaches no further than the next word: write `!(…)`")
            } else {
                error
            }
        })
    }

    pub(super) fn pair(
        &self,
        left: Operand,
        right: Operand,
        node: impl FnOnce(Box<[Node; 2]>) -> Node,
    ) -> Result<Operand, ExprError> {
        let span = left.span.to(right.span);
        let height = left.height.max(right.height) + 1;
        self.part(node(Box::new([left.node, right.node])), span, height)
    }
}

fn signal_node(word: &str) -> Option<Node> {
    let number = signal_number(word)?;
    Some(Node::Number(f64::from(number), number.to_string().into()))
}
