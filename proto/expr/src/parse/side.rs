//! What only one side knows while a rule stands: the watcher of a run, or neroman's daemon.

use crate::tree::ast::{NameForm, NameRef, Node};
use crate::words::error::{ErrorKind, ExprError, Span};
use crate::words::fact::Fact;
use crate::words::known::KnowledgeHolder;
use crate::words::state::State;

/// The first word of a rule that only one side knows, for each side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OneSided {
    pub watcher: Option<Span>,
    pub daemon: Option<Span>,
}

impl OneSided {
    pub fn note(&mut self, known: KnowledgeHolder, span: Span) {
        match known {
            KnowledgeHolder::Both => {}
            KnowledgeHolder::Watcher => {
                self.watcher.get_or_insert(span);
            }
            KnowledgeHolder::Daemon => {
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
        for name in names.iter().filter(|name| name.asked == NameForm::Metric) {
            self.note(KnowledgeHolder::Watcher, name.span);
        }
        match (self.daemon, self.watcher) {
            (Some(daemon), Some(watcher)) => Err(mixed(daemon.of(text), watcher.of(text), daemon)),
            _ => Ok(()),
        }
    }
}

/// The mistake of a rule over what each side knows alone.
pub(crate) fn mixed(daemon: &str, watcher: &str, span: Span) -> ExprError {
    let message =
        format!("`{daemon}` is known to neroman alone and `{watcher}` beside the job alone");
    ExprError::new(ErrorKind::Kind, span, message)
        .hint("a rule is evaluated at one of the two: write a rule for each")
}

/// Who knows the states that a comparison or pattern names.
pub(crate) fn states_known_to(node: &Node) -> KnowledgeHolder {
    let any = |words: &mut dyn Iterator<Item = &str>| {
        words
            .map(known_state)
            .find(|known| *known != KnowledgeHolder::Both)
            .unwrap_or(KnowledgeHolder::Both)
    };
    match node {
        Node::Is(state) => state.known_to(),
        // `state == crashed`, `state in (crashed, timeout)`.
        Node::Compare(_, pair) => match &**pair {
            [Node::Fact(Fact::State), Node::Text(word)] => known_state(word),
            _ => KnowledgeHolder::Both,
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
        _ => KnowledgeHolder::Both,
    }
}

/// A text or pattern that is no state's word may mean any of them.
fn known_state(word: &str) -> KnowledgeHolder {
    State::from_word(word).map_or(KnowledgeHolder::Daemon, State::known_to)
}
