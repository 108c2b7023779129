//! State words as conditions: `crashed`, `live`, `failed` ….
//!
//! States travel as words here, since facts do; the state machine itself lives
//! with the runs.

/// A state, or a word for several, that stands as a condition of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Never ran.
    Defined,
    /// Decided, not begun.
    Queued,
    /// Content on its way to the node.
    Staging,
    /// Handed to the warden.
    Submitted,
    /// Waiting at the warden.
    Pending,
    /// Its job is alive.
    Running,
    /// The job's leader has ended; other processes of it may live.
    Ending,
    /// Ended with exit code 0.
    Finished,
    /// Ended otherwise.
    Crashed,
    /// Ended by a person or a rule.
    Aborted,
    /// Ended by a time limit.
    Timeout,
    /// No evidence for longer than the lease.
    Lost,
    /// Held back.
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
}

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

    /// The word that users type.
    pub fn word(self) -> &'static str {
        WORDS
            .iter()
            .find(|(_, state)| *state == self)
            .map_or("", |&(word, _)| word)
    }

    /// Whether this is one state, which a run's `state` can be, and not a word for
    /// several.
    pub fn is_single(self) -> bool {
        !matches!(
            self,
            State::Live | State::Failed | State::Done | State::Changed | State::Gone
        )
    }

    /// Whether the watcher of a run ever sees the run in this state, so that a
    /// rule may name it.
    pub fn is_beside_job(self) -> bool {
        match self {
            State::Pending | State::Running | State::Ending | State::Live => true,
            State::Defined
            | State::Queued
            | State::Staging
            | State::Submitted
            | State::Finished
            | State::Crashed
            | State::Aborted
            | State::Timeout
            | State::Lost
            | State::Paused
            | State::Failed
            | State::Done
            | State::Changed
            | State::Gone => false,
        }
    }

    /// Whether this word includes the state `shown`.
    ///
    /// `None` for [`State::Changed`] and [`State::Gone`], which do not follow from the
    /// state.
    pub fn covers(self, shown: &str) -> Option<bool> {
        let covered = match self {
            State::Changed | State::Gone => return None,
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
            | State::Paused => shown == self.word(),
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
            assert_eq!(State::from_word(word).map(State::word), Some(word));
        }
    }
}
