//! What the writer is asked for at certain times: looks for room and at rules, and that it empties
//! the logs of the databases.

use std::time::Duration;

use nero_life::standing;
use tokio::time::Instant;

use super::Ledger;
use super::message::Message;
use crate::clock::Clock;

/// How often the messages that wait for room are tried again; no event reports
/// room.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often rules of the daemon are looked at that time alone can make hold.
const RULES_EVERY: Duration = Duration::from_secs(2);
/// A burst of changes is over when none came for this long.
const QUIET: Duration = Duration::from_secs(1);
/// A burst that does not end is treated as ended after this long.
const BURST_MAX: Duration = Duration::from_secs(30);

impl Ledger {
    /// Has the writer look for room while the disk is full, until the writer
    /// ends. Messages that wait for room depend on it.
    pub(crate) async fn look_for_room(&self) {
        let mut full = self.full.clone();
        while full.wait_for(Option::is_some).await.is_ok() {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.send(Message::LookForRoom).await.is_err() {
                return;
            }
        }
    }

    /// Has the writer look at rules that time alone makes hold, until the writer ends.
    pub(crate) async fn look_at_rules(&self, clock: Clock) {
        let mut ticks = tokio::time::interval(RULES_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let due = standing::due(&self.state(), &clock.moment());
            if !due.is_empty() && self.send(Message::RulesDue(due)).await.is_err() {
                return;
            }
        }
    }

    /// Has the writer move the databases' logs into them after each burst of
    /// changes, until the writer ends: a log that is lost takes its changes
    /// along.
    pub(crate) async fn empty_logs(&self) {
        let mut commits = self.commits();
        // The logs may contain changes of an earlier daemon.
        commits.mark_changed();
        while commits.changed().await.is_ok() {
            let latest = Instant::now() + BURST_MAX;
            // No commit of a burst wakes this task.
            loop {
                let quiet = latest.min(*commits.borrow_and_update() + QUIET);
                if quiet <= Instant::now() {
                    break;
                }
                tokio::time::sleep_until(quiet).await;
            }
            if self.send(Message::EmptyLogs).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nero_life::change::ChangeKinds;
    use nero_model::Home;
    use tokio::sync::{mpsc, watch};

    use super::*;
    use crate::ledger::MAILBOX;
    use crate::ledger::durable::CommitCounts;
    use crate::ledger::news::Publisher;

    /// A ledger whose messages the test gets in the writer's place.
    fn unwritten(home: &Home) -> (Ledger, mpsc::Receiver<Message>, Publisher) {
        let (tx, rx) = mpsc::channel(MAILBOX);
        let (publisher, news) = Publisher::new(Arc::default());
        let ledger = Ledger {
            tx,
            news,
            full: watch::channel(None).1,
            again: watch::channel(()).1,
            durable: CommitCounts::new(home),
        };
        (ledger, rx, publisher)
    }

    #[tokio::test(start_paused = true)]
    async fn logs_are_emptied_a_second_after_a_burst_and_after_30_seconds_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, mut messages, publisher) = unwritten(&Home::below(folder.path()));
        let emptying = ledger.empty_logs();
        let story = async {
            let mut next = async || {
                assert!(matches!(messages.recv().await, Some(Message::EmptyLogs)));
                Instant::now()
            };
            let began = Instant::now();
            assert_eq!(next().await - began, QUIET, "of an earlier daemon");
            let began = Instant::now();
            let busy = async {
                loop {
                    publisher.publish(Arc::default(), ChangeKinds::default());
                    tokio::time::sleep(QUIET / 2).await;
                }
            };
            let emptied = tokio::select! {
                emptied = next() => emptied,
                () = busy => began,
            };
            assert_eq!(emptied - began, BURST_MAX);
        };
        tokio::select! {
            () = emptying => panic!("the logs are not emptied any more"),
            () = story => {}
        }
    }
}
