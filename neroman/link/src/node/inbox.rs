//! Messages to a driver from the ledger and others: changed runs, a caller that
//! wants to read, a reason to try again now. Never blocks and never grows
//! without bound: too many runs at once mean *look at all of them*.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nero_life::run::Run;
use nero_life::state::State;
use nero_model::{RunId, RunToken};
use tokio::sync::Notify;

use nero_home::ledger::Bell;

/// Runs remembered one by one; for more, all open ones are looked at.
const REMEMBERED: usize = 20_000;

/// Why a try may succeed that failed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetryCause {
    /// A caller wants to read from the node.
    Wanted,
    /// Another ssh agent was seen.
    Agent,
    /// A person asked for a try.
    Person,
    /// The node's configuration changed: the connection is made anew.
    Changed,
}

#[derive(Debug, Default)]
struct InboxContent {
    runs: HashSet<RunId>,
    all: bool,
    link: bool,
    kick: Option<RetryCause>,
    unanswered: HashSet<RunToken>,
}

/// Runs that changed since the driver looked.
#[derive(Debug, Default)]
pub struct Inbox {
    held: Mutex<InboxContent>,
    news: Notify,
    describe: Notify,
    kicked: Notify,
}

/// The runs that the driver has to look at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    Runs(Vec<RunId>),
    All,
}

impl Inbox {
    fn held(&self) -> MutexGuard<'_, InboxContent> {
        // Nothing in here panics between two changes that belong together.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds runs that changed together; the driver gets all of them at once.
    pub(crate) fn changed(&self, runs: &[RunId]) {
        {
            let mut held = self.held();
            if held.runs.len() + runs.len() > REMEMBERED {
                held.runs.clear();
                held.all = true;
            }
            if !held.all {
                held.runs.extend(runs);
            }
        }
        self.news.notify_one();
    }

    /// Remembers runs that are about to be sent, also over the end of the connection.
    pub(super) fn sends(&self, runs: &[RunToken]) {
        self.held().unanswered.extend(runs);
    }

    /// The node answered what was sent of these runs.
    pub(super) fn answered(&self, runs: &[RunToken]) {
        let mut held = self.held();
        for run in runs {
            held.unanswered.remove(run);
        }
    }

    /// Runs that were sent and that the node has not answered.
    pub(super) fn unanswered(&self) -> HashSet<RunToken> {
        self.held().unanswered.clone()
    }

    /// Asks for a connection to read from the node.
    pub(crate) fn want_link(&self) {
        self.want_link_in_turn();
        self.kick(RetryCause::Wanted);
    }

    /// The same, without a try before the next one is due.
    pub(super) fn want_link_in_turn(&self) {
        self.held().link = true;
        self.news.notify_one();
    }

    /// Wakes the driver for another try.
    pub fn kick(&self, kick: RetryCause) {
        {
            let mut held = self.held();
            held.kick = held.kick.max(Some(kick));
            held.link |= kick == RetryCause::Person;
        }
        self.kicked.notify_one();
        self.news.notify_one();
    }

    /// Waits until a kick at least as strong as `least` comes, and takes it.
    pub(super) async fn kicked(&self, least: RetryCause) -> RetryCause {
        loop {
            {
                let mut held = self.held();
                if let Some(kick) = held.kick.filter(|kick| *kick >= least) {
                    held.kick = None;
                    return kick;
                }
            }
            self.kicked.notified().await;
        }
    }

    /// Whether its driver has not yet ended the connection that was made by an earlier
    /// configuration.
    pub fn is_changing(&self) -> bool {
        self.held().kick >= Some(RetryCause::Changed)
    }

    /// Forgets earlier kicks: a try begins now.
    pub(super) fn settle(&self) {
        self.held().kick = None;
    }

    /// Asks for a new description of the node.
    pub(crate) fn want_description(&self) {
        self.describe.notify_one();
    }

    /// Waits for such a request.
    pub(super) async fn description_wanted(&self) {
        self.describe.notified().await;
    }

    /// Marks all open runs to be looked at.
    pub(super) fn look_at_all(&self) {
        self.held().all = true;
        self.news.notify_one();
    }

    /// Whether a caller has asked for a connection since the last call.
    pub(super) fn link_wanted(&self) -> bool {
        std::mem::take(&mut self.held().link)
    }

    /// Whether a caller has asked for a connection.
    pub(super) fn link_is_wanted(&self) -> bool {
        self.held().link
    }

    /// The changed runs, if any.
    pub(super) fn take(&self) -> Option<News> {
        let mut held = self.held();
        if std::mem::take(&mut held.all) {
            held.runs.clear();
            return Some(News::All);
        }
        if held.runs.is_empty() {
            return None;
        }
        Some(News::Runs(held.runs.drain().collect()))
    }

    /// Waits for news of any sort; there may be none when it returns.
    pub(super) async fn rung(&self) {
        self.news.notified().await;
    }
}

/// The inboxes of all nodes, and of the placer.
#[derive(Debug, Default)]
pub struct Inboxes {
    nodes: Mutex<BTreeMap<String, Arc<Inbox>>>,
    placer: Notify,
}

impl Inboxes {
    /// The inbox of one node.
    pub(crate) fn of(&self, node: &str) -> Arc<Inbox> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        match nodes.get(node) {
            Some(inbox) => Arc::clone(inbox),
            None => Arc::clone(nodes.entry(node.to_owned()).or_default()),
        }
    }

    /// Rings the drivers of the nodes of runs that one commit changed, and the placer.
    pub fn ring(&self, state: &State, rings: &[(RunId, Bell)]) {
        let mut of_nodes: BTreeMap<&str, Vec<RunId>> = BTreeMap::new();
        for (run, bell) in rings {
            let node = state.run(*run).and_then(Run::node);
            match (bell, node) {
                (Bell::Node, Some(node)) => of_nodes.entry(node).or_default().push(*run),
                (Bell::Node, None) | (Bell::Placer, _) => self.ring_placer(),
            }
        }
        for (node, runs) in of_nodes {
            self.of(node).changed(&runs);
        }
    }

    /// Rings the placer: a run may be placed that could not be before.
    pub(crate) fn ring_placer(&self) {
        self.placer.notify_one();
    }

    /// Waits until a run may be placed.
    pub(crate) async fn placing(&self) {
        self.placer.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_connection_that_is_wanted_in_turn_does_not_cut_the_pause_before_a_try() {
        let inbox = Inbox::default();
        inbox.want_link_in_turn();
        assert!(inbox.link_is_wanted());
        assert!(inbox.kicked(RetryCause::Wanted).now_or_never().is_none());
        inbox.want_link();
        assert!(inbox.kicked(RetryCause::Wanted).now_or_never().is_some());
    }

    #[test]
    fn a_weak_reason_does_not_wake_who_waits_for_a_person() {
        let inbox = Inbox::default();
        inbox.want_link();
        assert!(inbox.kicked(RetryCause::Agent).now_or_never().is_none());
        inbox.kick(RetryCause::Changed);
        inbox.kick(RetryCause::Person);
        let woken = inbox.kicked(RetryCause::Person).now_or_never();
        assert_eq!(woken, Some(RetryCause::Changed));
        assert!(inbox.kicked(RetryCause::Wanted).now_or_never().is_none());
    }
}
