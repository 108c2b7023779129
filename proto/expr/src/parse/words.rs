//! Reads values: literals, words of the language, names, functions.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::cohort::is_of_peers;
use super::{ExpectedKind, Operand, Parser};
use crate::tree::ast::{CompareOp, MathFn, NameForm, NameRef, Node, Pick, PickRef};
use crate::tree::lex::{Tok, Token, is_name_char};
use crate::tree::number::{DateLiteral, instant, offset_at_ms};
use crate::words::direction::more_is_better;
use crate::words::error::{ErrorKind, ExprError, Span};
use crate::words::fact::{Fact, NOT_BUILT, NOT_BUILT_WHY};
use crate::words::node::{NodeFact, unknown_fact};
use crate::words::past::Fold;
use crate::words::pattern::Glob;
use crate::words::slips;
use crate::words::state::State;
use nero_model::StateWord;
use nero_model::names::suggest;

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Result<Operand, ExprError> {
        let place = self.next;
        let span = self.here();
        let Some(token) = self.take() else {
            let error = self.syntax(span, "something is missing here");
            return Err(error.hint_if(self.cut_off_hint()));
        };
        let node = match token.tok {
            Tok::Number(value) => Node::Number(value, span.of(self.text).into()),
            Tok::Date(_) | Tok::Quoted(_) | Tok::Tag if self.about_nodes => {
                return Err(self.no_node_fact(span));
            }
            Tok::Date(moment) => Node::Time(moment),
            Tok::Clock(_) if self.about_nodes => return Err(self.no_node_fact(span)),
            Tok::Clock(minutes) => Node::Time(self.moment(self.time_today(span, minutes)?)),
            Tok::Text(text) => Node::Text(text.into()),
            Tok::Pick(pick) => self.pick(pick, span)?,
            Tok::Quoted(_) if self.of_peers => return Err(self.not_of_peers(span)),
            Tok::Quoted(name) if self.selecting && self.is_operand(place) => {
                self.pick(Pick::Name(name.into()), span)?
            }
            Tok::Quoted(name) if matches!(self.peek(), Some(Tok::At)) => {
                self.metric(&name, span)?
            }
            Tok::Quoted(name) => self.name(NameForm::Quoted, &name, span)?,
            Tok::Word => return self.parse_word(place, span),
            Tok::Tag => self.tag(span)?,
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
            | Tok::In
            | Tok::At
            | Tok::Open
            | Tok::Close
            | Tok::Comma => {
                let written = span.of(self.text);
                let error = self.syntax(span, format!("a value is missing before `{written}`"));
                return Err(error.hint_if(self.no_value_hint(place)));
            }
        };
        self.at_step(Operand {
            node,
            span,
            height: 1,
        })
    }

    /// `tag:x` is `tag == x`, and `tag:x*` is `tag=x*`.
    fn tag(&mut self, span: Span) -> Result<Node, ExprError> {
        self.one_sided.note(Fact::Tag.known_to(), span);
        let tag = span.of(self.text).strip_prefix("tag:").unwrap_or_default();
        let is_wild = |c| matches!(c, '*' | '?');
        if tag.is_empty() || !tag.chars().all(|c| is_name_char(c) || is_wild(c)) {
            let error = self.syntax(span, "a tag is expected behind `tag:`");
            return Err(error.hint("such as `tag:baseline`, or `!tag:baseline`"));
        }
        let fact = Node::Fact(Fact::Tag);
        Ok(if tag.contains(is_wild) {
            Node::Glob(Box::new(fact), Glob::new(tag))
        } else {
            Node::Compare(CompareOp::Equal, Box::new([fact, Node::Text(tag.into())]))
        })
    }

    /// What to write when the text ends in an operator.
    fn cut_off_hint(&self) -> Option<String> {
        let last = self.tokens.last()?;
        let before = self.tokens.len().checked_sub(2).map(|at| &self.tokens[at]);
        let written = |token: Option<&Token>| token.map_or("", |token| token.span.of(self.text));
        Some(match (before.map(|token| &token.tok), &last.tok) {
            (Some(Tok::Number(_)), Tok::Percent) => format!("write `{}%`", written(before)),
            (_, Tok::Star) => "a pattern stands behind `=`: `name = fib*`".to_owned(),
            _ => return None,
        })
    }

    /// What to write instead of the operator at `place`, where a value is expected.
    fn no_value_hint(&self, place: usize) -> Option<String> {
        let tok = &self.tokens[place].tok;
        let before = place.checked_sub(1).map(|at| &self.tokens[at].tok);
        let behind = self.tokens.get(place + 1);
        Some(match (before, tok) {
            (Some(Tok::Compare(op)), Tok::Compare(CompareOp::Equal) | Tok::Glob(_))
                if !op.is_equality() =>
            {
                format!("write `{}=` without a blank", op.sign())
            }
            (_, Tok::Plus) if matches!(behind.map(|token| &token.tok), Some(Tok::Number(_))) => {
                let number = behind.map_or("", |token| token.span.of(self.text));
                format!("write `{number}`")
            }
            (Some(Tok::Star), Tok::Star) => {
                "powers are written `x * x`, powers of ten `1e-3`".to_owned()
            }
            (Some(Tok::Slash), Tok::Slash) | (Some(Tok::Minus), Tok::Compare(_)) => {
                "nothing stands behind the condition".to_owned()
            }
            (Some(Tok::And | Tok::Or), Tok::Compare(op)) => {
                format!(
                    "each comparison has two sides: `loss > 1 && loss {} …`",
                    op.sign()
                )
            }
            (None, Tok::For | Tok::After) => {
                "it stands behind the condition: `loss > 5 for 10m`".to_owned()
            }
            _ => return None,
        })
    }

    pub(super) fn close(&mut self, open: Span) -> Result<Span, ExprError> {
        let span = self.here();
        match self.peek() {
            Some(Tok::Close) => {
                self.next += 1;
                Ok(span)
            }
            None => Err(self.syntax(open, "this `(` is never closed")),
            Some(_) => {
                let written = span.of(self.text);
                let error = self.syntax(span, format!("`)` is expected before `{written}`"));
                Err(error.hint_if(self.unexpected_hint()))
            }
        }
    }

    /// Whether the token at `place` stands alone as an operand of `&& || !`. Behind
    /// `!`, which binds tightest, it does so whatever follows.
    pub(super) fn is_operand(&self, place: usize) -> bool {
        let before = place.checked_sub(1).map(|at| &self.tokens[at].tok);
        let behind = self.tokens.get(place + 1).map(|token| &token.tok);
        before == Some(&Tok::Not)
            || before.is_none_or(Tok::opens_operand) && behind.is_none_or(Tok::closes_operand)
    }

    pub(super) fn parse_word(&mut self, place: usize, span: Span) -> Result<Operand, ExprError> {
        let text = self.text;
        let word = span.of(text);
        if self.of_peers {
            return self.word_of_peer(span);
        }
        if matches!(self.peek(), Some(Tok::Open)) {
            return self.function(word, span);
        }
        let node = match word {
            "true" => Node::Bool(true),
            "false" => Node::Bool(false),
            _ if self.is_probe(word) => Node::Probe(word.into()),
            _ if self.about_nodes => match NodeFact::from_word(word) {
                Some(fact) => Node::Place(fact),
                None => return Err(self.no_node_fact(span)),
            },
            "now" => Node::Now,
            _ if is_of_peers(word) => return Err(self.outside_of_aggregate(span)),
            "today" => Node::Time(self.moment(self.day(span, 0)?)),
            "yesterday" => Node::Time(self.moment(self.day(span, 1)?)),
            _ if self.is_operand(place) && self.state(word).is_some() => {
                return self.state_word(word, span);
            }
            "all" if self.selecting && self.is_operand(place) => self.pick(Pick::All, span)?,
            "last" if self.selecting && self.is_operand(place) => self.pick(Pick::Last, span)?,
            "nan" => Node::Nan,
            "inf" => Node::Inf,
            _ if matches!(self.peek(), Some(Tok::At)) && Fact::from_word(word).is_none() => {
                self.metric_word(word, span)?
            }
            _ if NOT_BUILT.contains(&word) => {
                self.note_not_built(span, &format!("`{word}`"), Some(NOT_BUILT_WHY));
                self.name(NameForm::Any, word, span)?
            }
            _ => match Fact::from_word(word) {
                Some(fact) => {
                    self.one_sided.note(fact.known_to(), span);
                    Node::Fact(fact)
                }
                None => self.plain_name(word, span)?,
            },
        };
        self.at_step(Operand {
            node,
            span,
            height: 1,
        })
    }

    /// Whether a word of a requirement is the name of a probe.
    pub(super) fn is_probe(&self, word: &str) -> bool {
        self.about_nodes && self.context.probes.iter().any(|probe| probe == word)
    }

    /// The error for a word, name or date that is no fact of a node.
    fn no_node_fact(&self, span: Span) -> ExprError {
        let (message, hint) = unknown_fact(span.of(self.text), &self.context.probes);
        ExprError::new(ErrorKind::Name, span, message).hint(hint)
    }

    /// The state of this word; an event is a word of rules alone.
    fn state(&self, word: &str) -> Option<State> {
        if self.context.standing {
            State::from_rule_word(word)
        } else {
            State::from_word(word)
        }
    }

    pub(super) fn state_word(&mut self, word: &str, span: Span) -> Result<Operand, ExprError> {
        let Some(state) = self.state(word) else {
            return Err(self.syntax(span, format!("there is no state `{word}`")));
        };
        if matches!(state, State::Changed | State::Gone) && self.context.standing {
            let message = format!("`{word}` is a word of selectors, not of rules");
            return Err(ExprError::new(ErrorKind::Kind, span, message));
        }
        self.check_seen_by_rules(state, span)?;
        Ok(Operand {
            node: Node::Is(state),
            span,
            height: 1,
        })
    }

    /// Refuses a state in which no rule ever sees its run.
    pub(super) fn check_seen_by_rules(
        &mut self,
        state: State,
        span: Span,
    ) -> Result<(), ExprError> {
        self.one_sided.note(state.known_to(), span);
        if self.context.standing && state == State::Single(StateWord::Defined) {
            let message = "a rule stands with a run, and an experiment without one is `defined`";
            let error = ExprError::new(ErrorKind::Kind, span, message);
            return Err(error.hint("of a run that waits: `queued || submitted || pending`"));
        }
        Ok(())
    }

    pub(super) fn plain_name(&mut self, word: &str, span: Span) -> Result<Node, ExprError> {
        match word.split_once('.') {
            Some(("param", name)) => return self.name(NameForm::Param, name, span),
            Some(("metric", name)) => return self.metric(name, span),
            Some(_) | None => {}
        }
        match self.habit(word) {
            Some(hint) => {
                let message = format!("`{word}` is no word of conditions");
                let error = ExprError::new(ErrorKind::Name, span, message);
                Err(error.hint(format!(
                    "{hint}; a name that is written so stands in backticks"
                )))
            }
            None => self.name(NameForm::Any, word, span),
        }
    }

    /// What to write instead of a word that other languages have, and that would be the
    /// name of nothing here.
    fn habit(&self, word: &str) -> Option<String> {
        if let Some(meant) = slips::literal_meant(word) {
            return Some(format!("write `{meant}`"));
        }
        if slips::means_nothing(word) {
            return Some("what is missing is unknown, and never picked".to_owned());
        }
        match word.split_once('.') {
            Some(("params" | "parameter" | "parameters", name)) => {
                return Some(format!("write `param.{name}`"));
            }
            Some(("metrics", name)) => return Some(format!("write `metric.{name}`")),
            Some(_) | None => {}
        }
        let moment = word.split_once('-');
        if let Some((moment @ ("now" | "today" | "yesterday"), back)) = moment {
            return Some(format!("write `{moment} - {back}`"));
        }
        let is_operand = self.is_operand(self.next.saturating_sub(1));
        let lower = word.to_ascii_lowercase();
        State::from_word(&lower)
            .filter(|_| is_operand && lower != word)
            .map(|state| format!("write `{}`", state.as_str()))
    }

    /// Start of the day `days_back` before today.
    pub(super) fn day(&self, span: Span, days_back: i64) -> Result<i64, ExprError> {
        let word = span.of(self.text);
        if self.context.standing {
            let message = format!("`{word}` would mean another day tomorrow");
            let error = ExprError::new(ErrorKind::Kind, span, message);
            return Err(error.hint("a standing rule needs a date: `2026-11-20`"));
        }
        day_start(self.context.now_ms, &self.context.zone, days_back)
            .ok_or_else(|| self.syntax(span, format!("there is no {word} at this time")))
    }

    /// An instant by the clocks of the writer.
    fn moment(&self, ms: i64) -> DateLiteral {
        let offset_s = offset_at_ms(&self.context.zone, ms);
        DateLiteral { ms, offset_s }
    }

    /// `14:00` of today.
    fn time_today(&self, span: Span, minutes: u16) -> Result<i64, ExprError> {
        let word = span.of(self.text);
        if self.context.standing {
            let message = format!("`{word}` would mean another moment tomorrow");
            let error = ExprError::new(ErrorKind::Kind, span, message);
            return Err(error.hint(format!(
                "a standing rule needs a date: `2026-11-20T14:00`; a duration is `{word}:00`"
            )));
        }
        let midnight = day_start(self.context.now_ms, &self.context.zone, 0);
        midnight
            .and_then(|midnight| {
                let day = Timestamp::from_millisecond(midnight).ok()?;
                let day = day.to_zoned(self.context.zone.clone()).date();
                let [hour, minute] = [minutes / 60, minutes % 60].map(|part| part as i8);
                let time = Time::new(hour, minute, 0, 0).ok()?;
                instant(day.to_datetime(time), &self.context.zone)
            })
            .ok_or_else(|| self.syntax(span, format!("there is no {word} today")))
    }

    /// The metric of this name, in a function or before `@`.
    fn metric(&mut self, name: &str, span: Span) -> Result<Node, ExprError> {
        self.name(NameForm::Metric, name, span)
    }

    /// The metric of this word.
    pub(super) fn metric_word(&mut self, word: &str, span: Span) -> Result<Node, ExprError> {
        match word.split_once('.') {
            Some(("param", name)) => {
                let message = format!("`{word}` is a parameter, and a metric is needed here");
                let error = ExprError::new(ErrorKind::Kind, span, message);
                Err(error.hint(format!(
                    "`metric.{name}` is what the job prints of that name"
                )))
            }
            Some(("metric", name)) => self.metric(name, span),
            Some(_) | None => self.metric(word, span),
        }
    }

    pub(super) fn name(
        &mut self,
        asked: NameForm,
        text: &str,
        span: Span,
    ) -> Result<Node, ExprError> {
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

    pub(super) fn pick(&mut self, pick: Pick, span: Span) -> Result<Node, ExprError> {
        if let Pick::Run { id, .. } = pick {
            let error = self.syntax(span, "a run stands alone, not inside an expression");
            return Err(error.hint(format!("write `{id}` for the experiment")));
        }
        self.picks.push(PickRef { pick, span });
        self.index(self.picks.len() - 1, span).map(Node::Pick)
    }

    pub(super) fn index(&self, index: usize, span: Span) -> Result<u16, ExprError> {
        u16::try_from(index).map_err(|_| self.limit(span, "too many names"))
    }

    /// Reads `param('…')`, `metric('…')`, and planned functions.
    pub(super) fn function(&mut self, word: &str, span: Span) -> Result<Operand, ExprError> {
        let open = self.here();
        self.next += 1;
        let asked = match word {
            "param" | "metric" if self.about_nodes => return Err(self.no_node_fact(span)),
            "param" => NameForm::Param,
            "metric" => NameForm::Metric,
            _ if self.is_of_peers(word) => return self.cohort(word, span, open),
            _ if is_window_function(word) => return self.over(word, span, open),
            _ if is_of_peers(word) => return Err(self.outside_of_aggregate(span)),
            _ => {
                let error = self.syntax(span, format!("there is no function `{word}`"));
                if let Some(hint) = slips::function_hint(word) {
                    return Err(error.hint(hint));
                }
                let folds = Fold::ALL.map(Fold::as_str).into_iter();
                let math = MathFn::ALL.map(MathFn::as_str);
                let known = folds.chain(["best", "median", "quantile"]).chain(math);
                let known: Vec<&str> = known.collect();
                return Err(
                    match suggest(word, known.iter().copied().chain(["param", "metric"])) {
                        Some(near) => error.hint(format!("did you mean `{near}(…)`?")),
                        None => error.hint(format!("functions are {}", known.join(" "))),
                    },
                );
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
        let node = match asked {
            NameForm::Metric => self.metric(&name, span)?,
            NameForm::Any | NameForm::Quoted | NameForm::Param => self.name(asked, &name, span)?,
        };
        self.at_step(Operand {
            node,
            span,
            height: 1,
        })
    }

    /// Reads `mean(loss, 10m)` from behind `mean(`.
    fn over(&mut self, word: &str, span: Span, open: Span) -> Result<Operand, ExprError> {
        let text = self.text;
        let place = self.here();
        let such_as = format!("such as `{word}(loss, 10m)`");
        let token = self.take().map(|token| token.tok);
        let node = match token {
            Some(Tok::Quoted(_)) if self.of_peers => return Err(self.not_of_peers(place)),
            Some(Tok::Quoted(name)) => self.metric(&name, place)?,
            Some(Tok::Word) => match self.own_or_of_peer(place)? {
                word @ ("param" | "metric") if matches!(self.peek(), Some(Tok::Open)) => {
                    self.function(word, place)?.node
                }
                fact if Fact::from_word(fact).is_some() => {
                    let message = format!("`{word}` takes a metric, and `{fact}` is a fact");
                    let error = ExprError::new(ErrorKind::Kind, place, message);
                    return Err(error.hint(format!(
                        "`metric.{fact}` is what the job prints; a rule can ask `{fact} > … for 10m`"
                    )));
                }
                name => self.metric_word(name, place)?,
            },
            _ => {
                let error = self.syntax(place, format!("a metric is expected in `{word}(…)`"));
                return Err(error.hint(such_as));
            }
        };
        let Node::Name(slot) = node else {
            let error = self.syntax(place, format!("a metric is expected in `{word}(…)`"));
            return Err(error.hint(such_as));
        };
        let metric = &self.names[usize::from(slot)];
        if metric.asked != NameForm::Metric {
            let message = format!("`{word}` takes a metric, not a parameter");
            return Err(ExprError::new(ErrorKind::Kind, place, message));
        }
        let name = &*metric.text;
        let fold = match (word, more_is_better(name)) {
            ("best", None) => {
                let message = format!("`{name}` does not tell whether high or low is good");
                let error = ExprError::new(ErrorKind::Kind, place, message);
                let written = place.of(text);
                return Err(error.hint(format!("write `max({written})` or `min({written})`")));
            }
            ("best", Some(true)) => Fold::Max,
            ("best", Some(false)) => Fold::Min,
            (word, _) => Fold::from_word(word).unwrap_or(Fold::Last),
        };
        let mut window = None;
        if matches!(self.peek(), Some(Tok::Comma)) {
            self.next += 1;
            let hint = |error: ExprError| error.hint(such_as.clone());
            window = Some(self.duration(hint)?.0);
        }
        if self.of_peers {
            self.check_past_of_peers(fold, window.is_some(), span);
        }
        let close = self.close(open)?;
        let span = span.to(close);
        self.note_past(span);
        Ok(Operand {
            node: Node::Over(fold, slot, window),
            span,
            height: 1,
        })
    }

    /// Refuses the past where no history is kept.
    fn note_past(&mut self, span: Span) {
        if self.about_nodes || self.wanted == ExpectedKind::Progress {
            let what = format!("`{}` here", span.of(self.text));
            self.note_not_built(span, &what, None);
        }
    }

    /// `loss@10`.
    pub(super) fn at_step(&mut self, part: Operand) -> Result<Operand, ExprError> {
        if !matches!(self.peek(), Some(Tok::At)) {
            return Ok(part);
        }
        self.next += 1;
        let span = self.here();
        let step = self.take().map(|token| token.tok);
        let written = span.of(self.text);
        let is_plain = written.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        match (step, part.node) {
            (Some(Tok::Number(step)), Node::Name(slot))
                if is_plain && self.names[usize::from(slot)].asked == NameForm::Metric =>
            {
                let whole = part.span.to(span);
                self.note_past(whole);
                Ok(Operand {
                    node: Node::At(slot, step, written.into()),
                    span: whole,
                    height: 1,
                })
            }
            // `10ep` is not a number, but `@10ep` would have failed in the lexer.
            _ => {
                let error = self.syntax(span, "`@` stands between a metric and a step");
                Err(error.hint("such as `loss@10`"))
            }
        }
    }
}

fn is_window_function(word: &str) -> bool {
    word == "best" || Fold::from_word(word).is_some()
}

/// Unix milliseconds of the local midnight `days_back` days before today.
fn day_start(now_ms: i64, zone: &TimeZone, days_back: i64) -> Option<i64> {
    let now = Timestamp::from_millisecond(now_ms).ok()?;
    let today = now.to_zoned(zone.clone()).date();
    let day = today.checked_sub(days_back.days()).ok()?;
    instant(day.to_datetime(Time::midnight()), zone)
}
