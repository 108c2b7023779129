//! What the ledger tells a driver: which runs changed. Never blocks and never
//! grows without bound: too many runs at once mean *look at all of them*.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nero_model::RunId;
use tokio::sync::Notify;

/// Runs remembered one by one; beyond, all open ones are looked at.
const REMEMBERED: usize = 20_000;

#[derive(Debug, Default)]
struct Held {
    runs: HashSet<RunId>,
    all: bool,
    link: bool,
}

/// Runs that changed since the driver looked.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    held: Mutex<Held>,
    news: Notify,
    describe: Notify,
}

/// What the driver has to look at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    Runs(Vec<RunId>),
    All,
}

impl Inbox {
    fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing in here panics between two changes that belong together.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run changed.
    pub(crate) fn changed(&self, run: RunId) {
        {
            let mut held = self.held();
            if held.runs.len() >= REMEMBERED {
                held.runs.clear();
                held.all = true;
            }
            if !held.all {
                held.runs.insert(run);
            }
        }
        self.news.notify_one();
    }

    /// Somebody wants to read from the node.
    pub(crate) fn want_link(&self) {
        self.held().link = true;
        self.news.notify_one();
    }

    /// Somebody wants to know what the node has now.
    pub(crate) fn want_description(&self) {
        self.describe.notify_one();
    }

    /// Waits for that.
    pub(super) async fn description_wanted(&self) {
        self.describe.notified().await;
    }

    /// Everything is to be looked at.
    pub(super) fn look_at_all(&self) {
        self.held().all = true;
        self.news.notify_one();
    }

    /// Whether somebody wanted to read since the last call.
    pub(super) fn link_wanted(&self) -> bool {
        std::mem::take(&mut self.held().link)
    }

    /// What changed, if anything.
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
