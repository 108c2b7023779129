//! Where a standing rule is evaluated: beside the job, also when everything else is dead,
//! or in neroman's daemon, for what only it knows.

use crate::Expr;
use crate::ast::{Asked, CompareOp, NameKind, NameRef, Node};
use crate::bind::{fit, loose_fact};
use crate::error::{ErrorKind, ExprError, Span};
use crate::fact::Fact;
use crate::state::State;

/// Where a standing rule is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulePlace {
    /// Beside the job, by the watcher of the run.
    Job,
    /// In neroman's daemon, when it learns of a change or its time has come.
    Daemon,
}

impl RulePlace {
    /// The word in `rule list`.
    pub fn word(self) -> &'static str {
        match self {
            RulePlace::Job => "job",
            RulePlace::Daemon => "daemon",
        }
    }
}

/// Who knows something while a rule over it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownTo {
    Both,
    Watcher,
    Daemon,
}

impl KnownTo {
    /// Whether a rule that is evaluated at `place` can use it.
    pub fn is_known_at(self, place: RulePlace) -> bool {
        match self {
            KnownTo::Both => true,
            KnownTo::Watcher => place == RulePlace::Job,
            KnownTo::Daemon => place == RulePlace::Daemon,
        }
    }
}

/// The first word of a rule that only one side knows, for each side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OneSided {
    pub watcher: Option<Span>,
    pub daemon: Option<Span>,
}

impl OneSided {
    pub fn note(&mut self, known: KnownTo, span: Span) {
        match known {
            KnownTo::Both => {}
            KnownTo::Watcher => {
                self.watcher.get_or_insert(span);
            }
            KnownTo::Daemon => {
                self.daemon.get_or_insert(span);
            }
        }
    }

    /// Refuses what the watcher of a run does not know.
    pub fn check_beside_job(self, text: &str) -> Result<(), ExprError> {
        let Some(span) = self.daemon else {
            return Ok(());
        };
        let message = format!(
            "`{}` is known to neroman alone, and progress is followed beside the job",
            span.of(text)
        );
        Err(ExprError::new(ErrorKind::Kind, span, message))
    }

    /// Refuses a rule that no side knows all of.
    pub fn check(mut self, names: &[NameRef], text: &str) -> Result<(), ExprError> {
        for name in names.iter().filter(|name| name.asked == Asked::Metric) {
            self.note(KnownTo::Watcher, name.span);
        }
        match (self.daemon, self.watcher) {
            (Some(daemon), Some(watcher)) => Err(mixed(daemon.of(text), watcher.of(text), daemon)),
            _ => Ok(()),
        }
    }
}

fn mixed(daemon: &str, watcher: &str, span: Span) -> ExprError {
    let message =
        format!("`{daemon}` is known to neroman alone and `{watcher}` beside the job alone");
    ExprError::new(ErrorKind::Kind, span, message)
        .hint("a rule is evaluated at one of the two: write a rule for each")
}

impl Expr {
    /// Where it is evaluated as a standing rule. The end of a run, which both sides know, goes
    /// to the daemon: it learns of one even if no watcher was left to see it.
    pub fn rule_place(&self) -> RulePlace {
        let (mut needs_daemon, mut needs_job, mut is_about_end) = (false, false, false);
        self.root().walk(&mut |node| {
            let known = match node {
                Node::Fact(fact) => {
                    is_about_end |= matches!(fact, Fact::Exit | Fact::Signal);
                    fact.known_to()
                }
                Node::Over(..)
                | Node::At(..)
                | Node::For(..)
                | Node::After(..)
                | Node::Cohort(_) => KnownTo::Watcher,
                node => states_known_to(node),
            };
            needs_daemon |= known == KnownTo::Daemon;
            needs_job |= known == KnownTo::Watcher;
        });
        // A plain name may turn out to be a metric, and the watcher knows parameters, too.
        let may_be_metric = |name: &NameRef| name.asked != Asked::Param;
        needs_job |= self.unbound_names().iter().any(may_be_metric);
        match needs_daemon || (is_about_end && !needs_job) {
            true => RulePlace::Daemon,
            false => RulePlace::Job,
        }
    }

    /// Whether it can hold only of a run that is over.
    pub fn needs_end(&self) -> bool {
        needs_end(self.root())
    }

    /// Refuses a rule of the daemon with a name that is no parameter: the metrics of a run
    /// are followed beside its job.
    ///
    /// # Errors
    /// Names both parts.
    pub fn check_place<'p>(
        &self,
        params: impl Iterator<Item = &'p str> + Clone,
    ) -> Result<(), ExprError> {
        if self.rule_place() == RulePlace::Job {
            return Ok(());
        }
        let is_known = |name: &&NameRef| {
            let mut fitting = params.clone();
            let is_param = fitting.any(|param| fit(name, NameKind::Param, param).is_some());
            let fact = loose_fact(name).map(Fact::known_to);
            is_param
                || name.asked == Asked::Param
                || fact.is_some_and(|known| known.is_known_at(RulePlace::Daemon))
        };
        let mut names = self.unbound_names().iter();
        let Some(metric) = names.find(|name| !is_known(name)) else {
            return Ok(());
        };
        let mut only_here = None;
        self.root().walk(&mut |node| {
            let word = match node {
                Node::Fact(fact) if fact.known_to() == KnownTo::Daemon => fact.word(),
                Node::Is(state) if state.known_to() == KnownTo::Daemon => state.word(),
                _ => return,
            };
            only_here.get_or_insert(word);
        });
        let daemon = only_here.unwrap_or("state");
        Err(mixed(daemon, &metric.text, metric.span))
    }
}

fn needs_end(node: &Node) -> bool {
    match node {
        Node::And(parts) => parts.iter().any(needs_end),
        Node::Or(parts) => parts.iter().all(needs_end),
        Node::Is(state) => state.is_end(),
        Node::Compare(op, pair) => match &**pair {
            [Node::Fact(Fact::State), Node::Text(word)] => {
                *op == CompareOp::Equal && State::from_word(word).is_some_and(State::is_end)
            }
            pair => pair.iter().any(|side| {
                matches!(
                    side,
                    Node::Fact(Fact::Exit | Fact::Signal | Fact::Reason | Fact::Tend)
                )
            }),
        },
        _ => false,
    }
}

/// Who knows the states that a comparison or pattern names.
pub(crate) fn states_known_to(node: &Node) -> KnownTo {
    let any = |words: &mut dyn Iterator<Item = &str>| {
        words
            .map(known_state)
            .find(|known| *known != KnownTo::Both)
            .unwrap_or(KnownTo::Both)
    };
    match node {
        Node::Is(state) => state.known_to(),
        // `state == crashed`, `state in (crashed, timeout)`.
        Node::Compare(_, pair) => match &**pair {
            [Node::Fact(Fact::State), Node::Text(word)] => known_state(word),
            _ => KnownTo::Both,
        },
        Node::Glob(left, glob) if **left == Node::Fact(Fact::State) => {
            any(&mut State::words().filter(|word| glob.fits(word)))
        }
        Node::Match(left, pattern) if **left == Node::Fact(Fact::State) => {
            any(&mut State::words().filter(|word| pattern.fits(word)))
        }
        Node::In(parts) if parts[0] == Node::Fact(Fact::State) => {
            any(&mut parts[1..].iter().filter_map(|item| match item {
                Node::Text(word) => Some(&**word),
                _ => None,
            }))
        }
        _ => KnownTo::Both,
    }
}

/// A text or pattern that is no state's word may mean any of them.
fn known_state(word: &str) -> KnownTo {
    State::from_word(word).map_or(KnownTo::Daemon, State::known_to)
}
