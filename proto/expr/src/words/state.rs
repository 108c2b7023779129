//! State words as conditions: `crashed`, `live`, `failed` ….
//!
//! States travel as words here, since facts do; the states themselves are
//! [`nero_model::StateWord`].

use nero_model::{Phase, StateWord};

use super::known::KnowledgeHolder;

/// A state, or a word for several, that stands as a condition of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A state of an experiment.
    Single(StateWord),
    /// `queued` … `ending`, and `paused`.
    Live,
    /// `crashed` or `timeout`.
    Failed,
    /// `finished`.
    Done,
    /// Source or code is newer than the newest run; not a state but beside it.
    Changed,
    /// No longer in its source; not a state but beside it.
    Gone,
    /// The run was started, whatever became of it; a word of rules.
    Started,
    /// The run is over: finished, crashed, aborted, timeout or lost; a word of rules.
    Ended,
}

/// Words that only rules have: each says what happened to a run, and not where it stands.
const EVENTS: [(&str, State); 2] = [("started", State::Started), ("ended", State::Ended)];

/// Words that selections have, too.
const GROUPS: [(&str, State); 5] = [
    ("live", State::Live),
    ("failed", State::Failed),
    ("done", State::Done),
    ("changed", State::Changed),
    ("gone", State::Gone),
];

impl State {
    /// The state word `word`, exactly as written.
    pub fn from_word(word: &str) -> Option<State> {
        let group = GROUPS.iter().find(|(w, _)| *w == word);
        let single = || word.parse().ok().map(State::Single);
        group.map(|&(_, s)| s).or_else(single)
    }

    /// The word `word` of a rule, exactly as written.
    pub fn from_rule_word(word: &str) -> Option<State> {
        let event = EVENTS.iter().find(|(w, _)| *w == word);
        event.map(|&(_, s)| s).or_else(|| State::from_word(word))
    }

    /// The word that users type.
    pub fn as_str(self) -> &'static str {
        if let State::Single(state) = self {
            return state.as_str();
        }
        (GROUPS.iter().chain(&EVENTS))
            .find(|(_, state)| *state == self)
            .map_or("", |&(word, _)| word)
    }

    /// Whether this is one state, which a run's `state` can be, and not a word for
    /// several.
    pub fn is_single(self) -> bool {
        matches!(self, State::Single(_))
    }

    /// Whether a run in it is over.
    pub(crate) fn is_end(self) -> bool {
        match self {
            State::Single(state) => is_end(state),
            State::Failed | State::Done | State::Ended => true,
            State::Live | State::Changed | State::Gone | State::Started => false,
        }
    }

    /// Who knows of a run in this state while a rule over it stands.
    pub fn known_to(self) -> KnowledgeHolder {
        match self {
            State::Single(StateWord::Phase(Phase::Pending | Phase::Running | Phase::Ending))
            | State::Single(StateWord::Paused)
            | State::Live => KnowledgeHolder::Both,
            State::Single(_)
            | State::Failed
            | State::Done
            | State::Changed
            | State::Gone
            | State::Started
            | State::Ended => KnowledgeHolder::Daemon,
        }
    }

    /// Whether this word includes the state `shown`.
    ///
    /// `None` for [`State::Changed`], [`State::Gone`] and [`State::Started`], which do not
    /// follow from the state.
    pub fn covers(self, shown: &str) -> Option<bool> {
        let is = |fits: fn(StateWord) -> bool| shown.parse().is_ok_and(fits);
        Some(match self {
            State::Changed | State::Gone | State::Started => return None,
            State::Single(state) => shown == state.as_str(),
            State::Ended => is(is_end),
            State::Live => is(|state| state != StateWord::Defined && !is_end(state)),
            State::Failed => matches!(shown, "crashed" | "timeout"),
            State::Done => shown == "finished",
        })
    }

    /// All state words, states first.
    pub fn words() -> impl Iterator<Item = &'static str> {
        let singles = StateWord::ALL.iter().map(|state| state.as_str());
        singles.chain(GROUPS.iter().map(|&(word, _)| word))
    }
}

fn is_end(state: StateWord) -> bool {
    matches!(state, StateWord::Phase(phase) if phase.is_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_is_from_queued_to_ending_and_paused() {
        let live: Vec<_> = State::words()
            .filter(|word| State::Live.covers(word) == Some(true))
            .collect();
        assert_eq!(
            live,
            [
                "queued",
                "staging",
                "submitted",
                "pending",
                "running",
                "ending",
                "paused"
            ]
        );
    }

    #[test]
    fn a_lost_run_is_neither_live_nor_failed_nor_done() {
        for word in [State::Live, State::Failed, State::Done] {
            assert_eq!(word.covers("lost"), Some(false));
        }
    }

    #[test]
    fn words_read_back() {
        for word in State::words() {
            assert_eq!(State::from_word(word).map(State::as_str), Some(word));
        }
        for (word, event) in EVENTS {
            assert_eq!((State::from_word(word), event.as_str()), (None, word));
            assert_eq!(State::from_rule_word(word), Some(event));
        }
    }
}
