//! Turns tokens into the tree, by operator precedence.
//!
//! Tightest first: `! -`, `* / %`, `+ -`, comparisons (they do not chain),
//! `for after`, `&& and`, `|| or`. Parsing does not recurse, and the height of the
//! tree is limited, so that no text can overflow the stack here or in a later walk.

mod cohort;
pub(crate) mod context;
pub(crate) mod kind;
mod operators;
pub(crate) mod side;
mod words;

use self::context::ParseContext;
use self::kind::{check_condition, check_progress, check_sign};
use self::side::OneSided;
use crate::tree::ast::{MathFn, NameRef, Node, Pick, PickRef};
use crate::tree::expr::Expr;
use crate::tree::lex::{Tok, Token, lex};
use crate::words::error::{ErrorKind, ExprError, Span};
use crate::words::fact::{Fact, FactSet};
use crate::words::slips;
use crate::words::state::State;
use nero_model::units::{size_unit_bytes, time_unit_ms};

/// The longest expression, and the longest canonical form of one, in bytes.
pub const TEXT_BYTES_MAX: usize = 8 * 1024;

/// The most levels that a tree may have. A chain of one `&&` or `||` is one level.
pub const HEIGHT_MAX: usize = 64;

/// The parsed tree and its tables.
pub(crate) struct ParsedExpr {
    pub root: Node,
    pub names: Vec<NameRef>,
    pub picks: Vec<PickRef>,
    /// Number of `for` in the tree.
    pub holds: u16,
}

/// The kind of text that a caller expects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedKind {
    /// A condition, as in rules.
    Condition,
    /// A condition in which ids and ranges may be operands.
    Selection,
    /// A number or other value.
    Value,
    /// A number by which the progress is told; it names neither progress nor `eta`.
    Progress,
    /// A condition over the facts of a node.
    Requirement,
}

pub(crate) fn parse(
    text: &str,
    context: &ParseContext,
    wanted: ExpectedKind,
) -> Result<ParsedExpr, ExprError> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("an expression has at most {TEXT_BYTES_MAX} bytes");
        let span = Span::new(0, 0);
        return Err(ExprError::new(ErrorKind::Limit, span, message));
    }
    let tokens = lex(text, &context.zone, wanted == ExpectedKind::Selection)?;
    let mut parser = Parser {
        text,
        context,
        wanted,
        selecting: wanted == ExpectedKind::Selection,
        about_nodes: wanted == ExpectedKind::Requirement,
        of_peers: false,
        end: text.trim_end().len(),
        tokens,
        next: 0,
        names: Vec::new(),
        picks: Vec::new(),
        holds: 0,
        one_sided: OneSided::default(),
        not_built: None,
    };
    if parser.tokens.is_empty() {
        return Err(parser.syntax(Span::new(0, 0), "the expression is empty"));
    }
    let root = parser.expression()?;
    if let Some(error) = parser.not_built {
        return Err(error);
    }
    match wanted {
        ExpectedKind::Condition | ExpectedKind::Selection | ExpectedKind::Requirement => {
            check_condition(&root.node, root.span, &parser.names, text)?;
        }
        ExpectedKind::Progress => check_progress(&root.node, root.span, &parser.names, text)?,
        ExpectedKind::Value => {}
    }
    match (context.standing, wanted) {
        (true, ExpectedKind::Condition) => parser.one_sided.check(&parser.names, text)?,
        (true, ExpectedKind::Progress) => parser.one_sided.check_beside_job(text)?,
        _ => {}
    }
    Ok(ParsedExpr {
        root: root.node,
        names: parser.names,
        picks: parser.picks,
        holds: parser.holds,
    })
}

impl Expr {
    /// Parses a condition.
    /// Errors: not an expression; a number, text or time where a condition is needed;
    /// kinds that do not go together; words not built yet; too long or too deep.
    /// [`Expr::bind`] checks that names exist.
    pub fn parse(text: &str, context: &ParseContext) -> Result<Expr, ExprError> {
        Expr::parse_as(text, context, ExpectedKind::Condition)
    }

    /// Parses a condition of a selector, in which ids and ranges, `all`, `last`
    /// and names in backticks may be operands of `&& || !` ([`Pick`]).
    ///
    /// Errors as [`Expr::parse`]; a run (`144.2`) as operand too.
    pub fn parse_selecting(text: &str, context: &ParseContext) -> Result<Expr, ExprError> {
        Expr::parse_as(text, context, ExpectedKind::Selection)
    }

    /// Parses an expression with a value, such as `epoch / 50`, for [`Expr::value`]. A
    /// condition is a value too.
    ///
    /// Errors as [`Expr::parse`].
    pub fn parse_value(text: &str, context: &ParseContext) -> Result<Expr, ExprError> {
        Expr::parse_as(text, context, ExpectedKind::Value)
    }

    /// Parses what tells the progress of a run, from 0 to 1, such as `epoch / 50`, for
    /// [`Expr::value`].
    ///
    /// Errors as [`Expr::parse`]; what is no number, and `progress` and `eta` too.
    pub fn parse_progress(text: &str, context: &ParseContext) -> Result<Expr, ExprError> {
        Expr::parse_as(text, context, ExpectedKind::Progress)
    }

    pub(crate) fn parse_as(
        text: &str,
        context: &ParseContext,
        wanted: ExpectedKind,
    ) -> Result<Expr, ExprError> {
        let ParsedExpr {
            root,
            names,
            picks,
            holds,
        } = parse(text, context, wanted)?;
        let mut facts = FactSet::default();
        root.walk(&mut |node| match node {
            Node::Fact(fact) => facts.insert(*fact),
            Node::Is(_) => facts.insert(Fact::State),
            Node::For(..) | Node::After(..) => facts.insert(Fact::Runtime),
            _ => {}
        });
        let expr = Expr {
            root,
            names,
            picks,
            facts,
            standing: context.standing,
            holds,
        };
        // A stored text must be readable again, and the canonical print may be longer
        // than the source.
        if expr.canonical().len() > TEXT_BYTES_MAX {
            let message = format!("with all parentheses this has more than {TEXT_BYTES_MAX} bytes");
            return Err(ExprError::new(ErrorKind::Limit, Span::new(0, 0), message));
        }
        Ok(expr)
    }
}

/// The hint for a value behind a value, which may also be a name with blanks.
pub const MISSING_OPERATOR: &str = "an operator is missing; names with blanks stand in backticks";

const LIST_HINT: &str =
    "a list stands behind `in`: `x in (1, 2)`; conditions are joined by `&&` or `||`";

const JOIN_HINT: &str = "join conditions with `&&` or `||`";

/// Whether the word is a unit that should touch its number.
fn is_unit(word: &str) -> bool {
    time_unit_ms(word).or(size_unit_bytes(word)).is_some()
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

/// A part that was read and waits for the next value.
enum PendingPart {
    Left {
        left: Operand,
        tok: Tok,
        level: Level,
        /// Whether `left` is a chain of this same operator, which is to be
        /// extended.
        joined: bool,
    },
    Sign {
        is_not: bool,
        span: Span,
    },
    Open {
        open: Span,
        /// The word before the parenthesis, of a function of a number.
        function: Option<(MathFn, Span)>,
    },
}

impl PendingPart {
    /// Whether this is a left side whose operator binds before one of `next`.
    fn binds_at(&self, next: Level) -> bool {
        matches!(self, PendingPart::Left { level, .. } if *level >= next)
    }
}

/// The end of an expression.
enum ExprEnd {
    End(Operand),
    Inner(Operand),
}

/// A node with its place, and how many levels of nodes it has.
struct Operand {
    node: Node,
    span: Span,
    height: usize,
}

struct Parser<'t> {
    text: &'t str,
    context: &'t ParseContext,
    wanted: ExpectedKind,
    selecting: bool,
    /// Whether words are facts of a node only.
    about_nodes: bool,
    /// Whether names are those of a peer: `peers.x`.
    of_peers: bool,
    /// Where the text that is read here ends.
    end: usize,
    tokens: Vec<Token>,
    next: usize,
    names: Vec<NameRef>,
    picks: Vec<PickRef>,
    holds: u16,
    one_sided: OneSided,
    /// The first planned word; syntax errors are reported before it.
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
        let end = self.end;
        self.tokens
            .get(self.next)
            .map_or(Span::new(end, end), |token| token.span)
    }

    fn syntax(&self, span: Span, message: impl Into<String>) -> ExprError {
        ExprError::new(ErrorKind::Syntax, span, message)
    }

    fn note_not_built(&mut self, span: Span, what: &str, why: Option<&str>) {
        if self.not_built.is_none() {
            let message = format!("{what} is not built yet");
            let error = ExprError::new(ErrorKind::NotBuilt, span, message);
            self.not_built = Some(error.hint_if(why.map(str::to_owned)));
        }
    }

    fn expect_end(&self) -> Result<(), ExprError> {
        let span = self.here();
        let message = match self.peek() {
            None => return Ok(()),
            Some(Tok::Close) => "this `)` closes nothing".to_owned(),
            Some(_) => format!("`{}` is not expected here", span.of(self.text)),
        };
        let error = self.syntax(span, message);
        Err(error.hint_if(self.unexpected_hint()))
    }

    /// What to write instead of the next token, which fits nowhere.
    fn unexpected_hint(&self) -> Option<String> {
        let before = self.next.checked_sub(1).map(|at| &self.tokens[at]);
        let here = self.here();
        let word = here.of(self.text);
        let touches = before.is_some_and(|token| token.span.end == here.start);
        let before = before.map(|token| (&token.tok, token.span.of(self.text)));
        let second = self.tokens.get(self.next + 1);
        match (before, self.peek()?) {
            (Some((Tok::Number(_), whole)), Tok::Comma) if touches => {
                let decimals = second.filter(|token| token.span.start == here.end);
                let decimals = decimals.map_or("", |token| token.span.of(self.text));
                let is_number =
                    !decimals.is_empty() && decimals.bytes().all(|b| b.is_ascii_digit());
                Some(match decimals.len() {
                    3 if is_number => format!("write `{whole}{decimals}` or `{whole}.{decimals}`"),
                    _ if is_number => format!("a decimal number has a point: `{whole}.{decimals}`"),
                    _ => LIST_HINT.to_owned(),
                })
            }
            (_, Tok::Comma) => Some(JOIN_HINT.to_owned()),
            (Some((Tok::Number(_), number)), Tok::Word) if is_unit(word) => {
                Some(format!("units touch their number: `{number}{word}`"))
            }
            (Some((Tok::Number(_), number)), Tok::Word)
                if matches!(word.to_ascii_lowercase().as_str(), "percent" | "pct") =>
            {
                Some(format!("write `{number}%`"))
            }
            (Some((Tok::Number(_) | Tok::Pick(_) | Tok::Word, first)), _)
                if self.selecting && Self::picks_alone(first) && Self::picks_alone(word) =>
            {
                Some(format!(
                    "write `{first},{word}`; what both pick is `{first} && {word}`"
                ))
            }
            (Some((Tok::Number(_), first)), Tok::Number(_)) => {
                let ends_in = |one: &str, fits: fn(char) -> bool| one.ends_with(fits);
                let with_units = [first, word]
                    .iter()
                    .all(|one| ends_in(one, char::is_alphabetic));
                let is_group = word.len() == 3 && word.bytes().all(|b| b.is_ascii_digit());
                Some(if with_units || is_group && first.len() <= 3 {
                    format!("write `{first}{word}`")
                } else {
                    MISSING_OPERATOR.to_owned()
                })
            }
            (Some((Tok::Date(_), day)), Tok::Clock(_)) => Some(format!("write `{day}T{word:0>5}`")),
            (Some((Tok::Word, day @ ("today" | "yesterday"))), Tok::Clock(_)) => {
                let (hours, minutes) = word.split_once(':').unwrap_or((word, "0"));
                Some(format!("write `{day} + {hours}h{minutes}m`"))
            }
            (_, Tok::Not) => {
                let next = second.map(|token| &token.tok);
                Some(match next {
                    Some(Tok::In) => "write `not (x in (…))`".to_owned(),
                    Some(Tok::Word)
                        if second.is_some_and(|token| token.span.of(self.text) == "in") =>
                    {
                        "write `not (x in (…))`".to_owned()
                    }
                    Some(Tok::Glob(_) | Tok::Compare(_)) => "write `!=` without a blank".to_owned(),
                    _ => "`!` stands before what it denies: `!(…)`".to_owned(),
                })
            }
            (Some((Tok::Word, "if" | "when" | "unless" | "where" | "while")), _) => {
                Some("leave the first word out: the condition stands alone".to_owned())
            }
            (Some((Tok::Word, "NOT" | "Not")), _) => Some("write `not` or `!`".to_owned()),
            (_, Tok::Word)
                if word == "is" && matches!(second.map(|token| &token.tok), Some(Tok::Not)) =>
            {
                Some("write `!=`".to_owned())
            }
            (_, Tok::Word) => {
                Some(slips::word_hint(word).unwrap_or_else(|| MISSING_OPERATOR.to_owned()))
            }
            (_, Tok::Number(_) | Tok::Text(_) | Tok::Quoted(_)) => {
                Some(MISSING_OPERATOR.to_owned())
            }
            (_, Tok::Open) => Some(MISSING_OPERATOR.to_owned()),
            _ => None,
        }
    }

    /// Whether the word is a number, a range or a state, which pick experiments alone.
    fn picks_alone(word: &str) -> bool {
        State::from_word(word).is_some() || Pick::from_digits(word).is_some_and(|pick| pick.is_ok())
    }

    /// Reads the whole text. The stack of waiting parts lies on the heap, so that
    /// no depth of parentheses or signs can overflow the thread's stack.
    fn expression(&mut self) -> Result<Operand, ExprError> {
        let mut waiting: Vec<PendingPart> = Vec::new();
        loop {
            let Some(mut part) = self.operand(&mut waiting)? else {
                continue;
            };
            // Level at which `part` can be continued, when its operator allows it.
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
                        ExprEnd::End(part) => return Ok(part),
                        ExprEnd::Inner(inner) => (part, made) = (inner, None),
                    }
                    continue;
                };
                (part, made) = match token.tok {
                    Tok::Glob(_) | Tok::Match(_) => {
                        (self.pattern(part, token.tok, token.span)?, Some(level))
                    }
                    Tok::For | Tok::After => (self.held(part, &token)?, Some(level)),
                    Tok::In => (self.listed(part)?, Some(level)),
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

    /// Sets a left side and its operator aside; returns the right side if that is a
    /// bare word that is text.
    fn begin_right(
        &mut self,
        waiting: &mut Vec<PendingPart>,
        left: Operand,
        tok: Tok,
        level: Level,
        joined: bool,
    ) -> Result<Option<Operand>, ExprError> {
        if matches!(tok, Tok::And | Tok::Or) {
            self.check_operand(&left)?;
        }
        let word = match tok {
            Tok::Compare(op) => self.bare_word(&left.node, op),
            _ => None,
        };
        waiting.push(PendingPart::Left {
            left,
            tok,
            level,
            joined,
        });
        Ok(word)
    }

    /// Sets signs and opening parentheses aside and reads the value behind them;
    /// `None` after a parenthesis, when the next value is to be read.
    fn operand(&mut self, waiting: &mut Vec<PendingPart>) -> Result<Option<Operand>, ExprError> {
        let span = self.here();
        let function = match (self.peek(), self.peek_second()) {
            (Some(Tok::Word), Some(Tok::Open)) => MathFn::from_word(span.of(self.text)),
            _ => None,
        };
        match self.peek() {
            Some(Tok::Not) => waiting.push(PendingPart::Sign { is_not: true, span }),
            Some(Tok::Minus) => waiting.push(PendingPart::Sign {
                is_not: false,
                span,
            }),
            Some(Tok::Open) => waiting.push(PendingPart::Open {
                open: span,
                function: None,
            }),
            _ => {
                let Some(function) = function else {
                    return self.primary().map(Some);
                };
                self.next += 1;
                waiting.push(PendingPart::Open {
                    open: self.here(),
                    function: Some((function, span)),
                });
            }
        }
        self.next += 1;
        Ok(None)
    }

    /// Applies the signs right before `part`.
    fn signed(
        &mut self,
        waiting: &mut Vec<PendingPart>,
        part: Operand,
    ) -> Result<Operand, ExprError> {
        let mut part = part;
        while let Some(&PendingPart::Sign { is_not, span: sign }) = waiting.last() {
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
        waiting: &mut Vec<PendingPart>,
        part: Operand,
        made: Option<Level>,
        level: Level,
    ) -> Result<(Operand, Option<Level>), ExprError> {
        let (mut part, mut made) = (part, made);
        while let Some(top) = waiting.pop_if(|top| top.binds_at(level)) {
            let PendingPart::Left {
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

    /// Reads the end of an expression: `)`, the end of a function, or the end of
    /// the text.
    fn closed(
        &mut self,
        waiting: &mut Vec<PendingPart>,
        inner: Operand,
    ) -> Result<ExprEnd, ExprError> {
        let Some(PendingPart::Open { open, function }) = waiting.pop() else {
            self.expect_end()?;
            return Ok(ExprEnd::End(inner));
        };
        let close = self.close(open)?;
        let part = match function {
            Some((function, word)) => {
                check_sign(&inner.node, inner.span, &self.names, self.text)?;
                let node = Node::Math(function, Box::new(inner.node));
                self.part(node, word.to(close), inner.height + 1)?
            }
            None => Operand {
                span: open.to(close),
                ..inner
            },
        };
        self.at_step(part).map(ExprEnd::Inner)
    }

    /// The level of the next token, when it is an operator.
    fn operator(&self) -> Option<Level> {
        match self.peek()? {
            Tok::Or => Some(Level::Or),
            Tok::And => Some(Level::And),
            Tok::For | Tok::After => Some(Level::Held),
            Tok::Compare(_) | Tok::Glob(_) | Tok::Match(_) | Tok::In => Some(Level::Compare),
            Tok::Plus | Tok::Minus => Some(Level::Sum),
            Tok::Star | Tok::Slash | Tok::Percent => Some(Level::Product),
            Tok::Number(_)
            | Tok::Date(_)
            | Tok::Clock(_)
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

    fn part(&self, node: Node, span: Span, height: usize) -> Result<Operand, ExprError> {
        if height > HEIGHT_MAX {
            return Err(self.limit(span, "too many steps of calculation in one another"));
        }
        Ok(Operand { node, span, height })
    }

    fn limit(&self, span: Span, message: &str) -> ExprError {
        ExprError::new(ErrorKind::Limit, span, message)
    }
}
