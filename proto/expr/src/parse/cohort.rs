//! Reads aggregates over peers: `quantile(peers.loss@9, 1/3)`.

use super::kind::{ValueKind, kind_of};
use super::side::OneSided;
use super::{ExpectedKind, Operand, Parser};
use crate::tree::ast::{NameForm, Node};
use crate::tree::cohort::{self, Aggregate, Cohort};
use crate::tree::expr::Expr;
use crate::tree::lex::{Tok, Token};
use crate::tree::print::Printer;
use crate::words::error::{ErrorKind, ExprError, Span};
use crate::words::fact::{Fact, FactSet};
use crate::words::known::KnowledgeHolder;
use crate::words::past::Fold;
use crate::words::state::State;
use nero_model::names::same_loosely;

impl<'t> Parser<'t> {
    /// Whether a function is an aggregate over peers. The next token is the first behind
    /// its parenthesis.
    pub(super) fn is_of_peers(&self, word: &str) -> bool {
        // Over the numbers of one peer, the same words are aggregates of its points.
        let Some(aggregate) = Aggregate::from_word(word) else {
            return false;
        };
        let inside = &self.tokens[self.next..self.next + self.inside()];
        !self.of_peers
            && (aggregate.is_of_peers_alone() || inside.iter().any(|one| self.is_peer(one)))
    }

    fn is_peer(&self, token: &Token) -> bool {
        let written = token.span.of(self.text);
        token.tok == Tok::Word && is_of_peers(written)
    }

    /// The number of tokens before the parenthesis that closes the one before the next
    /// token.
    fn inside(&self) -> usize {
        let mut depth = 0_usize;
        let rest = self.tokens[self.next..].iter();
        rest.take_while(|token| {
            match token.tok {
                Tok::Open => depth += 1,
                Tok::Close if depth == 0 => return false,
                Tok::Close => depth -= 1,
                _ => {}
            }
            true
        })
        .count()
    }

    /// Reads an aggregate from behind its parenthesis.
    pub(super) fn cohort(
        &mut self,
        word: &str,
        span: Span,
        open: Span,
    ) -> Result<Operand, ExprError> {
        let aggregate = Aggregate::from_word(word).unwrap_or(Aggregate::Count);
        let such_as = match aggregate {
            Aggregate::Quantile => "such as `quantile(peers.loss@9, 1/3)`".to_owned(),
            _ => format!("such as `{word}(peers.loss@9)`"),
        };
        let syntax = |span, message: &str| {
            ExprError::new(ErrorKind::Syntax, span, message).hint(such_as.clone())
        };
        let inside = self.tokens[self.next..self.next + self.inside()].to_vec();
        let has_peers = inside.iter().any(|token| self.is_peer(token));
        self.next += inside.len();
        let end = self.here();
        let close = self.close(open)?;
        let whole = span.to(close);
        let (of_each, share) = match top_comma(&inside) {
            Some(at) => (&inside[..at], Some((&inside[at + 1..], inside[at].span))),
            None => (&inside[..], None),
        };
        if !has_peers {
            let message = format!("`{word}` is over peers, and `peers.` stands nowhere in it");
            return Err(syntax(span, &message));
        }
        let until = share.map_or(end, |(_, comma)| comma);
        let (each, of_each, height) = self.part_of_peers(of_each, until)?;
        match kind_of(&of_each.root, &of_each.names) {
            ValueKind::Number | ValueKind::Any => {}
            ValueKind::Text | ValueKind::Time | ValueKind::Version | ValueKind::Condition => {
                let message = format!("`{word}` takes a number of each peer");
                return Err(ExprError::new(ErrorKind::Kind, each, message).hint(such_as));
            }
        }
        if of_each.names.is_empty() {
            return Err(syntax(
                each,
                &format!("`{word}` takes a number of each peer"),
            ));
        }
        let share = match (aggregate, share) {
            (Aggregate::Quantile, Some((tokens, _))) => {
                let (place, part, _) = self.part_of_peers(tokens, end)?;
                let Some(share) = cohort::share(&part.root) else {
                    let written = place.of(self.text);
                    return Err(syntax(
                        place,
                        &format!("`{written}` is no share from 0 to 1"),
                    ));
                };
                Some((share, printed(&part)))
            }
            (Aggregate::Quantile, None) => {
                return Err(syntax(end, "a share from 0 to 1 is expected here"));
            }
            (_, Some((_, comma))) => {
                return Err(syntax(
                    comma,
                    &format!("`{word}` over peers takes one value"),
                ));
            }
            (_, None) => None,
        };
        if !self.context.standing || self.wanted != ExpectedKind::Condition {
            let message = "`peers` needs a rule, whose run has them";
            let error = ExprError::new(ErrorKind::Kind, whole, message);
            return Err(error.hint("such as `abort: loss@9 > median(peers.loss@9)`"));
        }
        let mut text = format!("{word}({}", printed(&of_each));
        if let Some((_, share)) = &share {
            text.push_str(", ");
            text.push_str(share);
        }
        text.push(')');
        self.one_sided.note(KnowledgeHolder::Watcher, whole);
        let cohort = Cohort {
            aggregate,
            of_each,
            share: share.map_or(0.0, |(share, _)| share),
            text: text.into(),
        };
        self.part(Node::Cohort(Box::new(cohort)), whole, height + 1)
    }

    /// Reads these tokens, whose names are those of a peer; `end` is what follows them.
    fn part_of_peers(&self, tokens: &[Token], end: Span) -> Result<(Span, Expr, usize), ExprError> {
        let mut parser = Parser {
            text: self.text,
            context: self.context,
            wanted: ExpectedKind::Value,
            selecting: false,
            about_nodes: false,
            of_peers: true,
            end: end.start,
            tokens: tokens.to_vec(),
            next: 0,
            names: Vec::new(),
            picks: Vec::new(),
            holds: 0,
            one_sided: OneSided::default(),
            not_built: None,
        };
        let part = parser.expression()?;
        if let Some(error) = parser.not_built {
            return Err(error);
        }
        let expr = Expr {
            root: part.node,
            names: parser.names,
            picks: Vec::new(),
            facts: FactSet::default(),
            standing: false,
            holds: 0,
        };
        Ok((part.span, expr, part.height))
    }

    /// A word where a metric is expected: in an aggregate over peers without its `peers.`.
    pub(super) fn own_or_of_peer(&self, span: Span) -> Result<&'t str, ExprError> {
        let word = span.of(self.text);
        match word.strip_prefix("peers.") {
            Some(name) if self.of_peers && !name.is_empty() => Ok(name),
            _ if self.of_peers => Err(self.not_of_peers(span)),
            _ if is_of_peers(word) => Err(self.outside_of_aggregate(span)),
            _ => Ok(word),
        }
    }

    /// A word of an aggregate over peers.
    pub(super) fn word_of_peer(&mut self, span: Span) -> Result<Operand, ExprError> {
        let text = self.text;
        let word = span.of(text);
        // `min(peers.loss)`: of the points of each peer.
        if matches!(self.peek(), Some(Tok::Open)) {
            return match word {
                "peers.param" => self.function("param", span),
                "peers.metric" => self.function("metric", span),
                "param" | "metric" => Err(self.not_of_peers(span)),
                function if is_of_peers(function) => Err(self.not_of_peers(span)),
                "median" | "quantile" => {
                    let message = format!("`{word}` stands in no other aggregate over peers");
                    Err(ExprError::new(ErrorKind::Syntax, span, message))
                }
                function => self.function(function, span),
            };
        }
        let name = match word.strip_prefix("peers.") {
            Some(name) if !name.is_empty() => name,
            _ => return Err(self.not_of_peers(span)),
        };
        let is_metric = matches!(self.peek(), Some(Tok::At));
        let is_fact = |fact: Fact| same_loosely(fact.as_str(), name);
        let node = match name {
            _ if is_metric => self.metric_word(name, span)?,
            _ if Fact::ALL.into_iter().any(is_fact) || State::from_word(name).is_some() => {
                let message = format!("of peers there are metrics and parameters, not `{name}`");
                let error = ExprError::new(ErrorKind::Kind, span, message);
                return Err(error.hint(format!(
                    "`peers.metric.{name}` is what their jobs print of that name"
                )));
            }
            _ => self.plain_name(name, span)?,
        };
        self.at_step(Operand {
            node,
            span,
            height: 1,
        })
    }

    /// Refuses the past of peers that would be read again and again.
    pub(super) fn check_past_of_peers(&mut self, fold: Fold, is_window: bool, span: Span) {
        let is_known = match fold {
            Fold::Min | Fold::Max | Fold::Last | Fold::Count => !is_window,
            Fold::Mean | Fold::First | Fold::Age | Fold::Rate => false,
        };
        if !is_known {
            let window = if is_window { " of a window" } else { "" };
            self.note_not_built(
                span,
                &format!("`{}`{window} of the points of a peer", fold.as_str()),
                None,
            );
        }
    }

    /// The error for a name of the run's own beside those of peers.
    pub(super) fn not_of_peers(&self, span: Span) -> ExprError {
        let written = span.of(self.text);
        let message = format!("`{written}` is none of the peers'");
        let error = ExprError::new(ErrorKind::Syntax, span, message);
        match self.name_in(written) {
            Some(name) => error.hint(format!(
                "write `peers.{name}`, or move it out of the aggregate"
            )),
            None => error.hint("an aggregate is over names such as `peers.loss`"),
        }
    }

    fn name_in(&self, written: &str) -> Option<String> {
        match written
            .strip_prefix('`')
            .and_then(|rest| rest.strip_suffix('`'))
        {
            Some(name) if !name.contains('`') => {
                Some(format!("metric('{}')", name.replace('\'', "''")))
            }
            Some(_) => None,
            None => (!is_of_peers(written)).then(|| written.to_owned()),
        }
    }

    /// The error for `peers` outside of an aggregate.
    pub(super) fn outside_of_aggregate(&self, span: Span) -> ExprError {
        let written = span.of(self.text);
        let message = format!("`{written}` stands only in `count min max mean median quantile`");
        let error = ExprError::new(ErrorKind::Syntax, span, message);
        match written.strip_prefix("peers.") {
            Some(name) if !name.is_empty() => error.hint(format!("such as `median({written})`")),
            _ => {
                error.hint("such as `median(peers.loss)`; a metric of this name is `metric.peers`")
            }
        }
    }
}

/// Whether a word begins with `peers.`, or is the word alone.
pub(super) fn is_of_peers(word: &str) -> bool {
    word == "peers" || word.starts_with("peers.")
}

/// The index of the comma that is in no parentheses.
fn top_comma(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0_usize;
    tokens.iter().position(|token| {
        match token.tok {
            Tok::Open => depth += 1,
            Tok::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token.tok == Tok::Comma
    })
}

fn printed(expr: &Expr) -> String {
    debug_assert!(expr.names.iter().all(|name| name.asked != NameForm::Quoted));
    let printer = Printer {
        names: &expr.names,
        picks: &[],
        of_peers: true,
    };
    printer.text(&expr.root)
}
