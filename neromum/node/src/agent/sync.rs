//! Makes ends durable in groups before they are reported upward: at once when no
//! sync is in flight, else together with all that gathered meanwhile; in a
//! burst, after a pause too short to be noticed.

use nero_journal::v1::LedgerExited;
use nero_model::{RunToken, SubmissionId};
use nero_node_core::Stage;

use super::calls::{Outcome, OutcomesTo};
use super::{Agent, Driver, Entry, WorkResult};
use crate::config;
use crate::ledger::{LedgerRun, LedgerState};
use crate::runs::{own, segments};

/// Ends and replies that wait for the next sync, and for the one in flight.
#[derive(Debug, Default)]
pub struct Syncs {
    in_flight: bool,
    /// Time at which the last sync began, if it had many ends or runs waited.
    burst: Option<tokio::time::Instant>,
    next: Batch,
    current: Batch,
    /// Runs whose end the ledger refused (a full disk).
    unwritten: Vec<RunToken>,
}

#[derive(Debug, Default)]
struct Batch {
    ends: Vec<RunToken>,
    cancels: Vec<(OutcomesTo, Vec<Outcome>)>,
    /// Submissions whose scheduler is called next.
    intents: Vec<SubmissionId>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.cancels.is_empty() && self.intents.is_empty()
    }
}

impl<D: Driver> Agent<D> {
    /// Whether an end is not durable yet.
    pub fn is_syncing(&self) -> bool {
        let sync = &self.sync;
        sync.in_flight || !sync.next.is_empty() || !sync.unwritten.is_empty()
    }

    /// Copies a run's end into the ledger; it is reported after the next sync.
    pub(super) fn keep_end(&mut self, token: RunToken) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        if entry.kept {
            self.show_end(token);
            return;
        }
        entry.unsynced = true;
        let record = LedgerExited {
            token: token.to_vec(),
            incarnation: entry.incarnation,
            records: entry.ends.clone(),
        };
        match self.ledger.exited(&record) {
            Ok(()) => self.sync.next.ends.push(token),
            Err(error) => {
                tracing::error!(run = %entry.id, ?error, "the ledger does not take an end; trying again");
                self.sync.unwritten.push(token);
                let again = tokio::time::Instant::now() + config::HOLD_RETRY;
                self.timers.ledger.get_or_insert(again);
            }
        }
    }

    pub(super) fn keep_pending_ends(&mut self) {
        for token in std::mem::take(&mut self.sync.unwritten) {
            self.keep_end(token);
        }
    }

    /// Replies to a cancel once its record is durable.
    pub(super) fn answer_when_synced(&mut self, answer: OutcomesTo, reply: Vec<Outcome>) {
        self.sync.next.cancels.push((answer, reply));
    }

    /// The scheduler is called once the ledger's record is durable.
    pub fn sync_intent(&mut self, submission: SubmissionId) {
        self.sync.next.intents.push(submission);
    }

    /// Begins the sync of what the ledger got, unless one is at work or is to wait.
    pub fn start_sync(&mut self) {
        if self.sync.in_flight || self.sync.next.is_empty() {
            return;
        }
        let now = tokio::time::Instant::now();
        let next = self.sync.burst.map(|burst| burst + config::SYNC_GROUP);
        if let Some(next) = next.filter(|next| *next > now)
            && self.sync.next.cancels.is_empty()
            && self.sync.next.intents.is_empty()
        {
            self.timers.sync = Some(next);
            return;
        }
        self.timers.sync = None;
        self.sync.in_flight = true;
        self.sync.current = std::mem::take(&mut self.sync.next);
        let burst = self.sync.current.ends.len() >= config::SYNC_BURST || self.core.waiting() > 0;
        self.sync.burst = burst.then_some(now);
        let lost = std::io::Error::other("the thread that syncs it panicked");
        let Some(file) = self.ledger.syncer() else {
            let ended = self.sync.current.ends.iter();
            let ended = ended.filter_map(|token| self.entries.get(token));
            let folder =
                |entry: &Entry| segments::folder(&self.run_dir(entry.id), entry.incarnation);
            let folders: Vec<_> = ended.map(folder).collect();
            self.off_reactor(WorkResult::Synced(Err(lost)), move || {
                WorkResult::Synced(own::sync(&folders))
            });
            return;
        };
        self.off_reactor(WorkResult::Synced(Err(lost)), move || {
            WorkResult::Synced(file.sync_data())
        });
    }

    pub(super) fn synced(&mut self, result: std::io::Result<()>) {
        self.sync.in_flight = false;
        let group = std::mem::take(&mut self.sync.current);
        if let Err(error) = result {
            // After a failed sync the state of the disk is unknown, and a second
            // sync would report success wrongly.
            tracing::error!(%error, "the ledger cannot be synced: leaving");
            self.leaving = Some(super::End::Broken(error));
            return;
        }
        for token in group.ends {
            self.show_end(token);
        }
        self.driver.intended(&group.intents);
        for (answer, reply) in group.cancels {
            // A caller that has left asks again with the same request.
            let _ = answer.send(Ok(reply));
        }
    }

    /// Compacts the ledger of a neromum that runs for long when it has grown.
    pub(super) fn compact_when_worth(&mut self) {
        let live = config::LEDGER_BYTES_PER_RUN * self.core.runs().count() as u64;
        if self.ledger.bytes() < config::LEDGER_COMPACT_LIVE_BYTES.max(4 * live) {
            return;
        }
        self.compact();
    }

    /// Writes the ledger anew, with what is open now.
    pub fn compact(&mut self) {
        let runs = self.core.runs().filter_map(|(token, run)| {
            let entry = self.entries.get(token)?;
            let is_told = matches!(run.stage, Stage::Ended { .. } | Stage::Settled { .. });
            let is_end = !entry.ends.is_empty() && (is_told || !self.is_held_back(token));
            let exited = is_end.then(|| LedgerExited {
                token: token.to_vec(),
                incarnation: entry.incarnation,
                records: entry.ends.clone(),
            });
            let kept = LedgerRun {
                id: run.id,
                order: run.order,
                taken_away: (run.stage == Stage::TakenAway).then(|| run.why.clone()),
                // Other refusals are found again from the run's files.
                refused: (run.stage == Stage::Refused && self.driver.has(token))
                    .then(|| run.why.clone()),
                cancel: entry.cancels,
                exited,
                cards: self.cards_kept(token),
            };
            Some((*token, kept))
        });
        let mut state = LedgerState::of(runs);
        for (request, answer) in self.answers.iter() {
            state.remember(request.to_vec(), answer.clone());
        }
        state.submissions = self.driver.intents();
        match self.ledger.compact(&state) {
            Ok(()) => tracing::info!(runs = state.runs.len(), "ledger compacted"),
            // The old segments are still there, and still written.
            Err(error) => tracing::error!(%error, "the ledger cannot be compacted"),
        }
    }

    /// The ledger has a run's end: followers may see it.
    fn show_end(&mut self, token: RunToken) {
        let still_waiting = self.sync.next.ends.contains(&token);
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        if still_waiting {
            return;
        }
        entry.unsynced = false;
        for seg in &mut entry.segments {
            seg.visible = seg.len;
        }
        self.report(token);
    }
}
