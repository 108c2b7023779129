//! State words as conditions: `crashed`, `live`, `failed` ….
//!
//! States travel as words here, since facts do; the state machine itself lives
//! with the runs.

use super::known::KnowledgeHolder;

/// A state, or a word for several, that stands as a condition of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It never ran.
    Defined,
    /// Accepted and on disk, not sent yet.
    Queued,
    /// Its files travel to the node.
    Staging,
    /// Handed to the node.
    Submitted,
    /// The node has it and waits for room.
    Pending,
    /// Its job was started.
    Running,
    /// Its main process ended, or was asked to; something of it may be alive.
    Ending,
    /// Ended with exit code 0.
    Finished,
    /// Any other end by itself: exit code, signal, could not be started.
    Crashed,
    /// Ended by a person, a rule, or its scheduler.
    Aborted,
    /// Ended by a time limit.
    Timeout,
    /// Nothing can tell how it ended, or whether it did.
    Lost,
    /// Its processes are stopped, or it is kept from being started.
    Paused,
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

/// Every state word with its variant; the first thirteen are states.
const WORDS: [(&str, State); 18] = [
    ("defined", State::Defined),
    ("queued", State::Queued),
    ("staging", State::Staging),
    ("submitted", State::Submitted),
    ("pending", State::Pending),
    ("running", State::Running),
    ("ending", State::Ending),
    ("finished", State::Finished),
    ("crashed", State::Crashed),
    ("aborted", State::Aborted),
    ("timeout", State::Timeout),
    ("lost", State::Lost),
    ("paused", State::Paused),
    ("live", State::Live),
    ("failed", State::Failed),
    ("done", State::Done),
    ("changed", State::Changed),
    ("gone", State::Gone),
];

impl State {
    /// The state word `word`, exactly as written.
    pub fn from_word(word: &str) -> Option<State> {
        WORDS.iter().find(|(w, _)| *w == word).map(|&(_, s)| s)
    }

    /// The word `word` of a rule, exactly as written.
    pub fn from_rule_word(word: &str) -> Option<State> {
        let event = EVENTS.iter().find(|(w, _)| *w == word);
        event.map(|&(_, s)| s).or_else(|| State::from_word(word))
    }

    /// The word that users type.
    pub fn as_str(self) -> &'static str {
        (WORDS.iter().chain(&EVENTS))
            .find(|(_, state)| *state == self)
            .map_or("", |&(word, _)| word)
    }

    /// Whether this is one state, which a run's `state` can be, and not a word for
    /// several.
    pub fn is_single(self) -> bool {
        !matches!(
            self,
            State::Live
                | State::Failed
                | State::Done
                | State::Changed
                | State::Gone
                | State::Started
                | State::Ended
        )
    }

    /// Whether a run in it is over.
    pub(crate) fn is_end(self) -> bool {
        matches!(
            self,
            State::Finished
                | State::Crashed
                | State::Aborted
                | State::Timeout
                | State::Lost
                | State::Failed
                | State::Done
                | State::Ended
        )
    }

    /// Who knows of a run in this state while a rule over it stands.
    pub fn known_to(self) -> KnowledgeHolder {
        match self {
            State::Pending | State::Running | State::Ending | State::Paused | State::Live => {
                KnowledgeHolder::Both
            }
            State::Defined
            | State::Queued
            | State::Staging
            | State::Submitted
            | State::Finished
            | State::Crashed
            | State::Aborted
            | State::Timeout
            | State::Lost
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
        let covered = match self {
            State::Changed | State::Gone | State::Started => return None,
            State::Ended => matches!(
                shown,
                "finished" | "crashed" | "aborted" | "timeout" | "lost"
            ),
            State::Live => matches!(
                shown,
                "queued" | "staging" | "submitted" | "pending" | "running" | "ending" | "paused"
            ),
            State::Failed => matches!(shown, "crashed" | "timeout"),
            State::Done => shown == "finished",
            State::Defined
            | State::Queued
            | State::Staging
            | State::Submitted
            | State::Pending
            | State::Running
            | State::Ending
            | State::Finished
            | State::Crashed
            | State::Aborted
            | State::Timeout
            | State::Lost
            | State::Paused => shown == self.as_str(),
        };
        Some(covered)
    }

    /// All state words, states first.
    pub fn words() -> impl Iterator<Item = &'static str> {
        WORDS.iter().map(|&(word, _)| word)
    }
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
