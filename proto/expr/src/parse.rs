//! From tokens to the tree, by operator precedence.
//!
//! Tightest first: `! -`, `* / %`, `+ -`, comparisons (they do not chain),
//! `for after`, `&& and`, `|| or`. Parsing does not recurse, and the height of the
//! tree is limited, so that no text can overflow the stack here or in a later walk.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::ast::{ArithOp, Asked, CompareOp, NameRef, Node, Pick, PickRef};
use crate::error::{ErrorKind, ExprError, Span};
use crate::fact::{Fact, FactKind, NOT_BUILT, signal_number};
use crate::kind::{check_arith, check_compare, check_condition, check_pattern, check_sign};
use crate::lex::{Tok, Token, lex};
use crate::names::suggest;
use crate::number::instant;
use crate::state::State;
use crate::{HEIGHT_MAX, ParseContext, TEXT_BYTES_MAX};

/// What a text was parsed into.
pub(crate) struct Parsed {
    pub root: Node,
    pub names: Vec<NameRef>,
    pub picks: Vec<PickRef>,
}

/// What a caller wants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A condition, as in rules.
    Condition,
    /// A condition in which ids and ranges may be operands.
    Selection,
    /// A number or other value.
    Value,
}

/// Functions over the history of a metric, planned.
const WINDOW_FUNCTIONS: [&str; 8] = [
    "min", "max", "mean", "first", "last", "count", "age", "rate",
];

fn is_window_function(word: &str) -> bool {
    word == "best" || WINDOW_FUNCTIONS.contains(&word)
}

pub(crate) fn parse(
    text: &str,
    context: &ParseContext,
    wanted: Wanted,
) -> Result<Parsed, ExprError> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("an expression has at most {TEXT_BYTES_MAX} bytes");
        let span = Span::new(0, 0);
        return Err(ExprError::new(ErrorKind::Limit, span, message));
    }
    let tokens = lex(text, &context.zone, wanted == Wanted::Selection)?;
    let mut parser = Parser {
        text,
        context,
        selecting: wanted == Wanted::Selection,
        tokens,
        next: 0,
        names: Vec::new(),
        picks: Vec::new(),
        not_built: None,
    };
    if parser.tokens.is_empty() {
        return Err(parser.syntax(Span::new(0, 0), "the expression is empty"));
    }
    let root = parser.expression()?;
    if let Some(error) = parser.not_built {
        return Err(error);
    }
    if wanted != Wanted::Value {
        check_condition(&root.node, root.span, &parser.names, text)?;
    }
    Ok(Parsed {
        root: root.node,
        names: parser.names,
        picks: parser.picks,
    })
}

/// How tightly an operator binds, loosest first; `End` is below all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    End,
    Or,
    And,
    Held,
    Compare,
    Sum,
    Product,
}

/// What was read and waits for the value behind it.
enum Waiting {
    Left {
        left: Part,
        tok: Tok,
        level: Level,
        /// Whether `left` is a chain of this same operator, to be made longer.
        joined: bool,
    },
    Sign {
        is_not: bool,
        span: Span,
    },
    Open {
        open: Span,
        /// The word before the parenthesis, of a window function.
        function: Option<Span>,
    },
}

impl Waiting {
    /// Whether this is a left side whose operator goes before one of `next`.
    fn binds_at(&self, next: Level) -> bool {
        matches!(self, Waiting::Left { level, .. } if *level >= next)
    }
}

/// What a whole expression was.
enum Closed {
    End(Part),
    Inner(Part),
}

/// A node with its place, and how many levels of nodes it has.
struct Part {
    node: Node,
    span: Span,
    height: usize,
}

struct Parser<'t> {
    text: &'t str,
    context: &'t ParseContext,
    selecting: bool,
    tokens: Vec<Token>,
    next: usize,
    names: Vec<NameRef>,
    picks: Vec<PickRef>,
    /// The first planned word met; syntax errors come before it.
    not_built: Option<ExprError>,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<&Tok> {
        self.tokens.get(self.next).map(|token| &token.tok)
    }

    fn peek_second(&self) -> Option<&Tok> {
        self.tokens.get(self.next + 1).map(|token| &token.tok)
    }

    fn take(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.next).cloned();
        self.next += usize::from(token.is_some());
        token
    }

    /// The place of the next token, or the end of the text.
    fn here(&self) -> Span {
        let end = self.text.trim_end().len();
        self.tokens
            .get(self.next)
            .map_or(Span::new(end, end), |token| token.span)
    }

    fn syntax(&self, span: Span, message: impl Into<String>) -> ExprError {
        ExprError::new(ErrorKind::Syntax, span, message)
    }

    fn note_not_built(&mut self, span: Span, what: &str) {
        if self.not_built.is_none() {
            let message = format!("{what} is not built yet");
            self.not_built = Some(ExprError::new(ErrorKind::NotBuilt, span, message));
        }
    }

    fn expect_end(&self) -> Result<(), ExprError> {
        let span = self.here();
        let message = match self.peek() {
            None => return Ok(()),
            Some(Tok::Close) => "this `)` closes nothing".to_owned(),
            Some(_) => format!("`{}` is not expected here", span.of(self.text)),
        };
        let before = self.next.checked_sub(1).map(|at| &self.tokens[at]);
        let error = self.syntax(span, message);
        Err(match (before, self.peek()) {
            (Some(token), _) if token.span.of(self.text) == "not" => error.hint("write `!`"),
            (_, Some(Tok::Comma)) => error.hint("join conditions with `&&` or `||`"),
            (_, Some(Tok::Word | Tok::Number(_) | Tok::Text(_) | Tok::Quoted(_))) => {
                error.hint("an operator is missing; names with blanks stand in backticks")
            }
            _ => error,
        })
    }

    /// The whole text. The stack of what waits lies on the heap, so that no
    /// depth of parentheses or signs can overflow the thread's.
    fn expression(&mut self) -> Result<Part, ExprError> {
        let mut waiting: Vec<Waiting> = Vec::new();
        loop {
            let Some(mut part) = self.operand(&mut waiting)? else {
                continue;
            };
            // How `part` was made, when it can still be continued at its level.
            let mut made = None;
            loop {
                part = self.signed(&mut waiting, part)?;
                let level = self.operator().unwrap_or(Level::End);
                (part, made) = self.reduced(&mut waiting, part, made, level)?;
                if level == Level::Compare && made == Some(level) {
                    return Err(self.chain_error(&part, self.here()));
                }
                let Some(token) = self.take_operator(level) else {
                    match self.closed(&mut waiting, part)? {
                        Closed::End(part) => return Ok(part),
                        Closed::Inner(inner) => (part, made) = (inner, None),
                    }
                    continue;
                };
                (part, made) = match token.tok {
                    Tok::Glob(_) | Tok::Match(_) => {
                        (self.pattern(part, token.tok, token.span)?, Some(level))
                    }
                    Tok::For | Tok::After => (self.held(part, token.span)?, Some(level)),
                    tok => {
                        let joined = made == Some(level);
                        let word = self.begin_right(&mut waiting, part, tok, level, joined)?;
                        match word {
                            Some(word) => (word, None),
                            None => break,
                        }
                    }
                };
            }
        }
    }

    /// Puts a left side and its operator aside; the right side, when that is a
    /// bare word that is text.
    fn begin_right(
        &mut self,
        waiting: &mut Vec<Waiting>,
        left: Part,
        tok: Tok,
        level: Level,
        joined: bool,
    ) -> Result<Option<Part>, ExprError> {
        if matches!(tok, Tok::And | Tok::Or) {
            self.check_operand(&left)?;
        }
        let word = match tok {
            Tok::Compare(op) => self.bare_word(&left.node, op),
            _ => None,
        };
        waiting.push(Waiting::Left {
            left,
            tok,
            level,
            joined,
        });
        Ok(word)
    }

    /// Signs and opening parentheses put aside, and the value behind them;
    /// `None` after a parenthesis, when the next value is to be read.
    fn operand(&mut self, waiting: &mut Vec<Waiting>) -> Result<Option<Part>, ExprError> {
        let span = self.here();
        let word = span.of(self.text);
        let window = matches!(
            (self.peek(), self.peek_second()),
            (Some(Tok::Word), Some(Tok::Open))
        ) && is_window_function(word);
        match self.peek() {
            Some(Tok::Not) => waiting.push(Waiting::Sign { is_not: true, span }),
            Some(Tok::Minus) => waiting.push(Waiting::Sign {
                is_not: false,
                span,
            }),
            Some(Tok::Open) => waiting.push(Waiting::Open {
                open: span,
                function: None,
            }),
            Some(Tok::Word) if window => {
                self.next += 1;
                let open = self.here();
                waiting.push(Waiting::Open {
                    open,
                    function: Some(span),
                });
            }
            _ => return self.primary().map(Some),
        }
        self.next += 1;
        Ok(None)
    }

    /// Applies the signs right before `part`.
    fn signed(&mut self, waiting: &mut Vec<Waiting>, part: Part) -> Result<Part, ExprError> {
        let mut part = part;
        while let Some(&Waiting::Sign { is_not, span: sign }) = waiting.last() {
            waiting.pop();
            let span = sign.to(part.span);
            let height = part.height + 1;
            if is_not {
                self.check_negated(&part)?;
                part = self.part(Node::Not(Box::new(part.node)), span, height)?;
            } else {
                check_sign(&part.node, part.span, &self.names, self.text)?;
                part = self.part(Node::Neg(Box::new(part.node)), span, height)?;
            }
        }
        Ok(part)
    }

    /// Joins `part` with the left sides whose operators bind at least as tightly
    /// as `level`. The second value is the level of the last operator joined,
    /// or `made` when there was none.
    fn reduced(
        &mut self,
        waiting: &mut Vec<Waiting>,
        part: Part,
        made: Option<Level>,
        level: Level,
    ) -> Result<(Part, Option<Level>), ExprError> {
        let (mut part, mut made) = (part, made);
        while let Some(top) = waiting.pop_if(|top| top.binds_at(level)) {
            let Waiting::Left {
                left,
                tok,
                level,
                joined,
            } = top
            else {
                break;
            };
            part = match tok {
                Tok::And | Tok::Or => self.join(left, part, level, joined)?,
                Tok::Compare(op) => self.compare(left, op, part)?,
                tok => self.arith(left, &tok, part)?,
            };
            made = Some(level);
        }
        Ok((part, made))
    }

    /// What follows a whole expression: `)`, the end of a function, or the end.
    fn closed(&mut self, waiting: &mut Vec<Waiting>, inner: Part) -> Result<Closed, ExprError> {
        let Some(Waiting::Open { open, function }) = waiting.pop() else {
            self.expect_end()?;
            return Ok(Closed::End(inner));
        };
        let part = match function {
            Some(word) => self.window(word, open, inner.height)?,
            None => {
                let close = self.close(open)?;
                let span = open.to(close);
                Part { span, ..inner }
            }
        };
        self.at_step(part).map(Closed::Inner)
    }

    /// The level of the next token, when it is an operator.
    fn operator(&self) -> Option<Level> {
        match self.peek()? {
            Tok::Or => Some(Level::Or),
            Tok::And => Some(Level::And),
            Tok::For | Tok::After => Some(Level::Held),
            Tok::Compare(_) | Tok::Glob(_) | Tok::Match(_) => Some(Level::Compare),
            Tok::Plus | Tok::Minus => Some(Level::Sum),
            Tok::Star | Tok::Slash | Tok::Percent => Some(Level::Product),
            Tok::Number(_)
            | Tok::Date(_)
            | Tok::Text(_)
            | Tok::Quoted(_)
            | Tok::Word
            | Tok::Tag
            | Tok::Pick(_)
            | Tok::Not
            | Tok::At
            | Tok::Open
            | Tok::Close
            | Tok::Comma => None,
        }
    }

    fn take_operator(&mut self, level: Level) -> Option<Token> {
        if level == Level::End {
            return None;
        }
        self.take()
    }

    /// `a < b < c`, with what it should have been when that is plain to see.
    fn chain_error(&self, left: &Part, sign: Span) -> ExprError {
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

    fn join(&self, left: Part, right: Part, level: Level, joined: bool) -> Result<Part, ExprError> {
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

    fn check_operand(&self, part: &Part) -> Result<(), ExprError> {
        check_condition(&part.node, part.span, &self.names, self.text)
    }

    fn arith(&self, left: Part, tok: &Tok, right: Part) -> Result<Part, ExprError> {
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

    fn compare(&self, left: Part, op: CompareOp, right: Part) -> Result<Part, ExprError> {
        let (l, r) = ((&left.node, left.span), (&right.node, right.span));
        check_compare(op, l, r, &self.names, self.text)?;
        self.pair(left, right, |pair| Node::Compare(op, pair))
    }

    /// Right of `==` and `!=` a bare word beside a text fact is text, and beside
    /// `signal` the name of a signal.
    fn bare_word(&mut self, left: &Node, op: CompareOp) -> Option<Part> {
        let Node::Fact(fact) = *left else {
            return None;
        };
        let ends = !matches!(self.peek_second(), Some(Tok::Open | Tok::At));
        if !op.is_equality() || !ends || !matches!(self.peek(), Some(Tok::Word)) {
            return None;
        }
        let span = self.here();
        let word = span.of(self.text);
        let node = match (fact, fact.kind()) {
            (Fact::Signal, _) => signal_node(word)?,
            (_, FactKind::Text) => Node::Text(word.into()),
            (_, FactKind::Number | FactKind::Seconds | FactKind::Bytes | FactKind::Time) => {
                return None;
            }
        };
        self.next += 1;
        Some(Part {
            node,
            span,
            height: 1,
        })
    }

    fn pattern(&mut self, left: Part, tok: Tok, sign: Span) -> Result<Part, ExprError> {
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
                Node::Glob(Box::new(left.node), glob)
            }
            Tok::Match(pattern) => {
                check_pattern(l, None, &self.names, self.text)?;
                Node::Match(Box::new(left.node), pattern)
            }
            other => return Err(self.syntax(sign, format!("{other:?} is no pattern"))),
        };
        self.part(node, span, height)
    }

    /// `x for 10m` and `x after 2h`: read to the end, then refused.
    fn held(&mut self, left: Part, sign: Span) -> Result<Part, ExprError> {
        let word = sign.of(self.text);
        self.check_operand(&left)?;
        let span = self.here();
        match self.take().map(|token| token.tok) {
            Some(Tok::Number(_)) => {
                self.note_not_built(sign.to(span), &format!("`{word}`"));
                Ok(left)
            }
            _ => {
                let error = self.syntax(span, format!("a duration is expected behind `{word}`"));
                Err(error.hint(format!("such as `{word} 10m`")))
            }
        }
    }

    /// `!` binds tightest, so `!x > 3` is a mistake that looks right.
    fn check_negated(&self, inner: &Part) -> Result<(), ExprError> {
        let compared = self.operator() == Some(Level::Compare);
        self.check_operand(inner).map_err(|error| {
            if compared {
                error.hint("`!` reaches no further than the next word: write `!(…)`")
            } else {
                error
            }
        })
    }

    fn primary(&mut self) -> Result<Part, ExprError> {
        let place = self.next;
        let span = self.here();
        let Some(token) = self.take() else {
            return Err(self.syntax(span, "something is missing here"));
        };
        let node = match token.tok {
            Tok::Number(value) => Node::Number(value, span.of(self.text).into()),
            Tok::Date(ms) => Node::Time(ms),
            Tok::Text(text) => Node::Text(text.into()),
            Tok::Pick(pick) => self.pick(pick, span)?,
            Tok::Quoted(name) if self.selecting && self.is_operand(place) => {
                self.pick(Pick::Name(name.into()), span)?
            }
            Tok::Quoted(name) => self.name(Asked::Quoted, &name, span)?,
            Tok::Word => return self.word(place, span),
            Tok::Tag => {
                self.note_not_built(span, &format!("`{}`", span.of(self.text)));
                Node::Bool(true)
            }
            Tok::Glob(_)
            | Tok::Match(_)
            | Tok::Compare(_)
            | Tok::Not
            | Tok::Plus
            | Tok::Minus
            | Tok::Star
            | Tok::Slash
            | Tok::Percent
            | Tok::And
            | Tok::Or
            | Tok::For
            | Tok::After
            | Tok::At
            | Tok::Open
            | Tok::Close
            | Tok::Comma => {
                let written = span.of(self.text);
                return Err(self.syntax(span, format!("a value is missing before `{written}`")));
            }
        };
        self.at_step(Part {
            node,
            span,
            height: 1,
        })
    }

    fn close(&mut self, open: Span) -> Result<Span, ExprError> {
        let span = self.here();
        match self.peek() {
            Some(Tok::Close) => {
                self.next += 1;
                Ok(span)
            }
            None => Err(self.syntax(open, "this `(` is never closed")),
            Some(_) => {
                let written = span.of(self.text);
                Err(self.syntax(span, format!("`)` is expected before `{written}`")))
            }
        }
    }

    /// Whether the token at `place` stands alone as an operand of `&& || !`.
    fn is_operand(&self, place: usize) -> bool {
        let before = place.checked_sub(1).map(|at| &self.tokens[at].tok);
        let behind = self.tokens.get(place + 1).map(|token| &token.tok);
        before.is_none_or(Tok::opens_operand) && behind.is_none_or(Tok::closes_operand)
    }

    fn word(&mut self, place: usize, span: Span) -> Result<Part, ExprError> {
        let text = self.text;
        let word = span.of(text);
        if matches!(self.peek(), Some(Tok::Open)) {
            return self.function(word, span);
        }
        let node = match word {
            "true" => Node::Bool(true),
            "false" => Node::Bool(false),
            "now" => Node::Now,
            "today" => Node::Time(self.day(span, 0)?),
            "yesterday" => Node::Time(self.day(span, 1)?),
            _ if self.is_operand(place) && State::from_word(word).is_some() => {
                return self.state_word(word, span);
            }
            "all" if self.selecting && self.is_operand(place) => self.pick(Pick::All, span)?,
            "last" if self.selecting && self.is_operand(place) => self.pick(Pick::Last, span)?,
            _ if NOT_BUILT.contains(&word) => {
                self.note_not_built(span, &format!("`{word}`"));
                self.name(Asked::Any, word, span)?
            }
            _ => match Fact::from_word(word) {
                Some(fact) => Node::Fact(fact),
                None => self.plain_name(word, span)?,
            },
        };
        self.at_step(Part {
            node,
            span,
            height: 1,
        })
    }

    fn state_word(&self, word: &str, span: Span) -> Result<Part, ExprError> {
        let Some(state) = State::from_word(word) else {
            return Err(self.syntax(span, format!("there is no state `{word}`")));
        };
        if state == State::Changed && self.context.standing {
            let message = "`changed` is a word of selectors, not of rules";
            return Err(ExprError::new(ErrorKind::Kind, span, message));
        }
        Ok(Part {
            node: Node::Is(state),
            span,
            height: 1,
        })
    }

    fn plain_name(&mut self, word: &str, span: Span) -> Result<Node, ExprError> {
        match word.split_once('.') {
            Some(("param", name)) => self.name(Asked::Param, name, span),
            Some(("metric", name)) => self.name(Asked::Metric, name, span),
            Some(_) | None => self.name(Asked::Any, word, span),
        }
    }

    /// Start of the day `days_back` before today.
    fn day(&self, span: Span, days_back: i64) -> Result<i64, ExprError> {
        let word = span.of(self.text);
        if self.context.standing {
            let message = format!("`{word}` would mean another day tomorrow");
            let error = ExprError::new(ErrorKind::Kind, span, message);
            return Err(error.hint("a standing rule needs a date: `2026-11-20`"));
        }
        day_start(self.context.now_ms, &self.context.zone, days_back)
            .ok_or_else(|| self.syntax(span, format!("there is no {word} at this time")))
    }

    fn name(&mut self, asked: Asked, text: &str, span: Span) -> Result<Node, ExprError> {
        let known = self
            .names
            .iter()
            .position(|name| name.asked == asked && *name.text == *text);
        let slot = known.unwrap_or(self.names.len());
        if known.is_none() {
            let text = text.into();
            self.names.push(NameRef { asked, text, span });
        }
        self.index(slot, span).map(Node::Name)
    }

    fn pick(&mut self, pick: Pick, span: Span) -> Result<Node, ExprError> {
        if let Pick::Run { id, .. } = pick {
            let error = self.syntax(span, "a run stands alone, not inside an expression");
            return Err(error.hint(format!("write `{id}` for the experiment")));
        }
        self.picks.push(PickRef { pick, span });
        self.index(self.picks.len() - 1, span).map(Node::Pick)
    }

    fn index(&self, index: usize, span: Span) -> Result<u16, ExprError> {
        u16::try_from(index).map_err(|_| self.limit(span, "too many names"))
    }

    /// `param('…')`, `metric('…')`, and what is planned.
    fn function(&mut self, word: &str, span: Span) -> Result<Part, ExprError> {
        let open = self.here();
        self.next += 1;
        let asked = match word {
            "param" => Asked::Param,
            "metric" => Asked::Metric,
            _ => {
                let error = self.syntax(span, format!("there is no function `{word}`"));
                let known = WINDOW_FUNCTIONS
                    .into_iter()
                    .chain(["best", "param", "metric"]);
                return Err(match suggest(word, known) {
                    Some(near) => error.hint(format!("did you mean `{near}(…)`?")),
                    None => error,
                });
            }
        };
        let place = self.here();
        let name = match self.take().map(|token| token.tok) {
            Some(Tok::Text(name) | Tok::Quoted(name)) if !name.is_empty() => name,
            _ => {
                let error = self.syntax(
                    place,
                    format!("a name in quotes is expected in `{word}(…)`"),
                );
                return Err(error.hint(format!("such as `{word}('val loss')`")));
            }
        };
        let close = self.close(open)?;
        let span = span.to(close);
        let node = self.name(asked, &name, span)?;
        self.at_step(Part {
            node,
            span,
            height: 1,
        })
    }

    /// `mean(loss, 10m)`, of which `mean(loss` was read: read to the end, then
    /// refused.
    fn window(&mut self, span: Span, open: Span, height: usize) -> Result<Part, ExprError> {
        let text = self.text;
        let word = span.of(text);
        if matches!(self.peek(), Some(Tok::Comma)) {
            self.next += 1;
            let place = self.here();
            if !matches!(self.take().map(|token| token.tok), Some(Tok::Number(_))) {
                let error = self.syntax(place, "a duration is expected here");
                return Err(error.hint(format!("such as `{word}(loss, 10m)`")));
            }
        }
        let close = self.close(open)?;
        let span = span.to(close);
        self.note_not_built(span, &format!("`{word}(…)`"));
        // A name stands for the call until it is refused at the end.
        let node = self.name(Asked::Metric, word, span)?;
        Ok(Part {
            node,
            span,
            height: height + 1,
        })
    }

    /// `loss@10`: read, then refused.
    fn at_step(&mut self, part: Part) -> Result<Part, ExprError> {
        if !matches!(self.peek(), Some(Tok::At)) {
            return Ok(part);
        }
        self.next += 1;
        let span = self.here();
        match self.take().map(|token| token.tok) {
            Some(Tok::Number(_)) if matches!(part.node, Node::Name(_)) => {
                let whole = part.span.to(span);
                self.note_not_built(whole, "the value at a step (`@`)");
                Ok(part)
            }
            // `10ep` is not a number, but `@10ep` would have failed in the lexer.
            _ => {
                let error = self.syntax(span, "`@` stands between a metric and a step");
                Err(error.hint("such as `loss@10`"))
            }
        }
    }

    fn pair(
        &self,
        left: Part,
        right: Part,
        node: impl FnOnce(Box<[Node; 2]>) -> Node,
    ) -> Result<Part, ExprError> {
        let span = left.span.to(right.span);
        let height = left.height.max(right.height) + 1;
        self.part(node(Box::new([left.node, right.node])), span, height)
    }

    fn part(&self, node: Node, span: Span, height: usize) -> Result<Part, ExprError> {
        if height > HEIGHT_MAX {
            return Err(self.limit(span, "too many steps of calculation in one another"));
        }
        Ok(Part { node, span, height })
    }

    fn limit(&self, span: Span, message: &str) -> ExprError {
        ExprError::new(ErrorKind::Limit, span, message)
    }
}

fn signal_node(word: &str) -> Option<Node> {
    let number = signal_number(word)?;
    Some(Node::Number(f64::from(number), number.to_string().into()))
}

/// Unix milliseconds of the local midnight `days_back` days before today.
fn day_start(now_ms: i64, zone: &TimeZone, days_back: i64) -> Option<i64> {
    let now = Timestamp::from_millisecond(now_ms).ok()?;
    let today = now.to_zoned(zone.clone()).date();
    let day = today.checked_sub(days_back.days()).ok()?;
    instant(day.to_datetime(Time::midnight()), zone)
}
