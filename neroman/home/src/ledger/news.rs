//! Who is woken by which changes of the state: the one table of that.
//!
//! A part of the daemon that waits for changes names its [`Audience`]. An audience that lacks a kind
//! of changes here sleeps through them: so the kinds follow from the changes, and each part is
//! listed with all that it looks at.

use std::sync::Arc;

use nero_life::change::{ChangeKind as Kind, ChangeKinds};
use nero_life::state::State;
use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;
use tokio::time::Instant;

/// Parts of the daemon that look at the same kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Clients with rows on the screen, callers that wait for a condition, copies of the facts:
    /// every commit.
    Everyone,
    /// Parts that look at single runs: logs, lists that wait for last records, drivers without
    /// work, folders that are not kept; mail about runs, which looks seldom.
    Runs,
    /// Calls of `wait`, which also look at what keeps runs waiting.
    Waits,
    /// Numbers of peers that rules name.
    Peers,
    /// Processors of outputs that came home.
    Outputs,
    /// Commands of rules and steps.
    Commands,
    /// Mail, calls of webhooks and commands.
    Notices,
    /// Starts a task for each table with columns for results.
    Sources,
    /// Tables with columns for results, which may have any expression.
    Tables,
}

impl Audience {
    /// All audiences, in the order of their declaration.
    pub(crate) const ALL: [Self; 9] = [
        Self::Everyone,
        Self::Runs,
        Self::Waits,
        Self::Peers,
        Self::Outputs,
        Self::Commands,
        Self::Notices,
        Self::Sources,
        Self::Tables,
    ];

    /// The kinds of changes that concern it.
    const fn kinds(self) -> ChangeKinds {
        use Kind::{Dispatch, Experiment, Journal, Nodes, Notices, Rule, Run, Source};
        ChangeKinds::of(match self {
            Self::Everyone => &Kind::ALL,
            Self::Runs => &[Experiment, Run, Dispatch, Journal],
            Self::Waits => &[Source, Experiment, Rule, Run, Dispatch, Journal, Nodes],
            Self::Peers => &[Source, Experiment, Rule, Run, Dispatch, Journal],
            Self::Outputs => &[Run, Dispatch, Journal],
            Self::Commands => &[Experiment, Rule, Run, Dispatch, Journal],
            Self::Notices => &[Notices],
            Self::Sources => &[Source],
            Self::Tables => &[Source, Experiment, Rule, Run, Dispatch, Journal, Nodes],
        })
    }

    /// Whether it has to look after these changes.
    fn is_concerned(self, kinds: ChangeKinds, before: &State, after: &State) -> bool {
        let has_its_kinds = || kinds.meets(self.kinds());
        match self {
            // A commit without changes has new positions or replies.
            Self::Everyone => true,
            Self::Outputs => has_its_kinds() && !after.unprocessed.is_empty(),
            // A command that is not wanted any more is ended.
            Self::Commands => {
                has_its_kinds() && !(before.unacted.is_empty() && after.unacted.is_empty())
            }
            Self::Runs
            | Self::Waits
            | Self::Peers
            | Self::Notices
            | Self::Sources
            | Self::Tables => has_its_kinds(),
        }
    }
}

const COUNT: usize = Audience::ALL.len();

/// Publishes states, and wakes those whom they concern.
pub(super) struct Publisher {
    state: watch::Sender<Arc<State>>,
    news: [watch::Sender<()>; COUNT],
    committed: watch::Sender<Instant>,
}

impl Publisher {
    pub(super) fn new(state: Arc<State>) -> (Self, Subscriptions) {
        let (state, present) = watch::channel(state);
        let news = Audience::ALL.map(|_| watch::channel(()).0);
        let receivers = news.each_ref().map(watch::Sender::subscribe);
        let (committed, last_commit) = watch::channel(Instant::now());
        let publisher = Self {
            state,
            news,
            committed,
        };
        let news = Subscriptions {
            state: present,
            news: Arc::new(receivers),
            last_commit,
        };
        (publisher, news)
    }

    /// The state goes first: who is woken finds it.
    pub(super) fn publish(&self, state: Arc<State>, kinds: ChangeKinds) {
        let before = self.state.send_replace(Arc::clone(&state));
        self.committed.send_replace(Instant::now());
        for (audience, news) in Audience::ALL.into_iter().zip(&self.news) {
            if audience.is_concerned(kinds, &before, &state) {
                news.send_replace(());
            }
        }
    }

    pub(super) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.borrow())
    }
}

/// The present state, and notices of its changes.
#[derive(Clone, Debug)]
pub(super) struct Subscriptions {
    state: watch::Receiver<Arc<State>>,
    news: Arc<[watch::Receiver<()>; COUNT]>,
    /// When something was committed last.
    pub(super) last_commit: watch::Receiver<Instant>,
}

impl Subscriptions {
    pub(super) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.borrow())
    }

    pub(super) fn of(&self, audience: Audience) -> StateWatch {
        StateWatch {
            state: self.state.clone(),
            news: self.news[audience as usize].clone(),
        }
    }
}

/// Notices of the changes that concern one audience.
#[derive(Clone, Debug)]
pub struct StateWatch {
    state: watch::Receiver<Arc<State>>,
    news: watch::Receiver<()>,
}

impl StateWatch {
    /// The present state, which is not noticed again.
    pub fn state(&mut self) -> Arc<State> {
        // In this order: what is published in between is noticed once more.
        self.news.mark_unchanged();
        Arc::clone(&self.state.borrow())
    }

    /// Returns when the state changed since the last look.
    ///
    /// # Errors
    /// When the ledger has ended.
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        self.news.changed().await
    }

    /// Has [`StateWatch::changed`] return at once.
    pub fn mark_changed(&mut self) {
        self.news.mark_changed();
    }

    /// Takes all changes so far as noticed.
    pub fn mark_unchanged(&mut self) {
        self.news.mark_unchanged();
    }

    /// Returns once this holds of the state.
    ///
    /// # Errors
    /// When the ledger has ended.
    pub async fn wait_for(
        &mut self,
        mut holds: impl FnMut(&State) -> bool,
    ) -> Result<(), RecvError> {
        while !holds(&self.state()) {
            self.changed().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nero_model::{ExperimentId, RunId};

    use super::*;

    /// The audiences that these changes wake.
    fn woken(before: &State, after: &State, kinds: ChangeKinds) -> Vec<Audience> {
        let (publisher, news) = Publisher::new(Arc::new(before.clone()));
        let watches = Audience::ALL.map(|audience| (audience, news.of(audience)));
        publisher.publish(Arc::new(after.clone()), kinds);
        let mut woken = Vec::new();
        for (audience, watch) in watches {
            if watch.news.has_changed().unwrap() {
                woken.push(audience);
            }
        }
        woken
    }

    /// A state with a run whose outputs wait, and one with commands.
    fn busy() -> State {
        let run = RunId {
            experiment: ExperimentId(1),
            number: 1,
        };
        let mut state = State::default();
        state.unprocessed = Arc::new([run].into());
        state.unacted = Arc::new([run].into());
        state
    }

    #[test]
    fn each_kind_of_change_wakes_those_who_look_at_it() {
        use Audience::{Commands, Everyone, Notices, Outputs, Peers, Runs, Sources, Tables, Waits};
        let busy = busy();
        for kind in Kind::ALL {
            let expected: &[Audience] = match kind {
                Kind::Source => &[Everyone, Waits, Peers, Sources, Tables],
                Kind::Experiment => &[Everyone, Runs, Waits, Peers, Commands, Tables],
                Kind::Rule => &[Everyone, Waits, Peers, Commands, Tables],
                Kind::Run | Kind::Dispatch | Kind::Journal => {
                    &[Everyone, Runs, Waits, Peers, Outputs, Commands, Tables]
                }
                Kind::Notices => &[Everyone, Notices],
                Kind::Nodes => &[Everyone, Waits, Tables],
                Kind::Last | Kind::Stored => &[Everyone],
            };
            assert_eq!(
                woken(&busy, &busy, ChangeKinds::of(&[kind])),
                expected,
                "{kind:?}"
            );
        }
        assert_eq!(woken(&busy, &busy, ChangeKinds::default()), [Everyone]);
    }

    #[test]
    fn processors_and_commands_sleep_while_no_run_has_any() {
        let (idle, busy) = (State::default(), busy());
        let kinds = ChangeKinds::of(&[Kind::Journal]);
        let calm = [Audience::Outputs, Audience::Commands];
        assert!(
            !woken(&idle, &idle, kinds)
                .iter()
                .any(|one| calm.contains(one))
        );
        assert!(
            calm.iter()
                .all(|one| woken(&idle, &busy, kinds).contains(one))
        );
        // The last command is not wanted any more, and is ended.
        assert!(woken(&busy, &idle, kinds).contains(&Audience::Commands));
    }

    #[tokio::test]
    async fn a_watch_shows_the_newest_state_whoever_was_woken_by_it() {
        let (publisher, news) = Publisher::new(Arc::default());
        let mut notices = news.of(Audience::Notices);
        let mut newer = State::default();
        newer.revision = 7;
        publisher.publish(Arc::new(newer), ChangeKinds::of(&[Kind::Run]));
        assert!(!notices.news.has_changed().unwrap());
        assert_eq!(notices.state().revision, 7);
        drop(publisher);
        assert!(notices.changed().await.is_err(), "the ledger has ended");
    }
}
