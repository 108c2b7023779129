//! Where a standing rule is evaluated: beside the job, also when everything else is dead,
//! or in neroman's daemon, for what only it knows.

use crate::bind::fit;
use crate::parse::side::{mixed, states_known_to};
use crate::tree::ast::{CompareOp, NameForm, NameKind, NameRef, Node, loose_fact};
use crate::tree::expr::Expr;
use crate::words::error::ExprError;
use crate::words::fact::Fact;
use crate::words::known::{KnowledgeHolder, RulePlace};
use crate::words::state::State;

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
                | Node::Cohort(_) => KnowledgeHolder::Watcher,
                node => states_known_to(node),
            };
            needs_daemon |= known == KnowledgeHolder::Daemon;
            needs_job |= known == KnowledgeHolder::Watcher;
        });
        // A plain name may turn out to be a metric, and the watcher knows parameters, too.
        let may_be_metric = |name: &NameRef| name.asked != NameForm::Param;
        needs_job |= self.unbound_names().iter().any(may_be_metric);
        if needs_daemon || (is_about_end && !needs_job) {
            RulePlace::Daemon
        } else {
            RulePlace::Job
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
                || name.asked == NameForm::Param
                || fact.is_some_and(|known| known.is_known_at(RulePlace::Daemon))
        };
        let mut names = self.unbound_names().iter();
        let Some(metric) = names.find(|name| !is_known(name)) else {
            return Ok(());
        };
        let mut only_here = None;
        self.root().walk(&mut |node| {
            let word = match node {
                Node::Fact(fact) if fact.known_to() == KnowledgeHolder::Daemon => fact.as_str(),
                Node::Is(state) if state.known_to() == KnowledgeHolder::Daemon => state.as_str(),
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
