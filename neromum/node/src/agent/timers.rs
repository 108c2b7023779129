//! The few events that wait for a time. One sleep to the earliest; none when
//! nothing waits, so that an idle neromum never wakes.

use nero_model::RunToken;
use nero_node_core::decide::{Decision, TrackingState};
use tokio::time::Instant;

use super::driver::Rest;
use super::{Agent, Driver, Entry};
use crate::config;

/// Due times.
#[derive(Debug, Default)]
pub struct Timers {
    /// Time for trying starts again after a hold.
    pub starts: Option<Instant>,
    /// Length of the last pause after failed starts.
    pub vain_pause: Option<std::time::Duration>,
    /// Time for looking at live runs' segments.
    pub look: Option<Instant>,
    /// Time for sending segments that could not be read.
    pub unread: Option<Instant>,
    /// Time for starting the launcher again.
    pub launcher: Option<Instant>,
    /// Time for syncing the ledger after a burst of ends, at the end of the
    /// turn.
    pub sync: Option<Instant>,
    /// Time for sending followers the changes that gathered, at the end of the
    /// turn.
    pub reports: Option<Instant>,
    /// Time for leaving.
    pub leave: Option<Instant>,
    /// Time for looking at the node's cards.
    pub cards: Option<Instant>,
    /// Time of the driver.
    pub driver: Option<Instant>,
    /// Time for letters about ends.
    pub letters: Option<Instant>,
    /// Time for writing the ledger again.
    pub ledger: Option<Instant>,
    /// Runs to start again after their shims died, with times.
    pub prepare: Vec<(Instant, RunToken, u32)>,
    /// Runs to decide about after their segments could not be read, with times.
    pub looks: Vec<(Instant, RunToken, u32, TrackingState)>,
}

/// Sleeps until `deadline`; for ever when there is none.
pub async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

impl Timers {
    /// Schedules another decision about a run. Keeps a launcher's report that
    /// the run is over.
    pub fn look_later(&mut self, token: RunToken, incarnation: u32, tracking: TrackingState) {
        let known = self.looks.iter().find(|(_, of, ..)| *of == token);
        let tracking = match known {
            Some((_, _, same, TrackingState::Over)) if *same == incarnation => TrackingState::Over,
            Some(_) | None => tracking,
        };
        self.looks.retain(|(_, of, ..)| *of != token);
        let at = Instant::now() + config::UNREAD_RETRY;
        self.looks.push((at, token, incarnation, tracking));
    }
}

impl<D: Driver> Agent<D> {
    /// The earliest time at which something is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        [
            self.timers.starts,
            self.timers.look,
            self.timers.unread,
            self.timers.launcher,
            self.timers.leave,
            self.timers.ledger,
            self.timers.driver,
            self.timers.cards,
            self.timers.letters,
            self.timers.sync,
            self.timers.reports,
            self.settling.next_deadline(),
            self.timers.prepare.iter().map(|(at, ..)| *at).min(),
            self.timers.looks.iter().map(|(at, ..)| *at).min(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Does what is due.
    pub fn timers_due(&mut self) {
        let now = Instant::now();
        let due = |timer: &mut Option<Instant>| match timer {
            Some(at) if *at <= now => timer.take().is_some(),
            _ => false,
        };
        if due(&mut self.timers.starts) {
            self.core.release();
        }
        if due(&mut self.timers.launcher) {
            self.open_own_launcher();
        }
        if due(&mut self.timers.look) {
            self.look_at_live();
        }
        if due(&mut self.timers.unread) {
            self.try_unread();
        }
        // The turn that this wakes syncs and reports at its end.
        due(&mut self.timers.sync);
        due(&mut self.timers.reports);
        due(&mut self.timers.driver);
        due(&mut self.timers.cards);
        due(&mut self.timers.letters);
        if due(&mut self.timers.ledger) {
            self.keep_pending_ends();
        }
        let (due_now, later) = std::mem::take(&mut self.timers.prepare)
            .into_iter()
            .partition(|(at, ..)| *at <= now);
        self.timers.prepare = later;
        for (_, token, incarnation) in due_now {
            self.prepare_again(token, incarnation);
        }
        self.looks_due(now);
        if due(&mut self.timers.leave) {
            tracing::info!("nothing to do: leaving");
            self.leaving = Some(super::End::Orderly);
        }
        self.settling_due(now);
    }

    fn looks_due(&mut self, now: Instant) {
        let (due_now, later) = std::mem::take(&mut self.timers.looks)
            .into_iter()
            .partition(|(at, ..)| *at <= now);
        self.timers.looks = later;
        for (_, token, incarnation, tracking) in due_now {
            let again = self
                .entries
                .get(&token)
                .and_then(|entry| once_more(entry, incarnation, tracking));
            if let Some(tracking) = again {
                self.look_and_decide_as(token, incarnation, tracking);
            }
        }
    }

    /// Prepares a start after its pause, unless a cancel has ended the run
    /// meanwhile.
    fn prepare_again(&mut self, token: RunToken, incarnation: u32) {
        let expected = nero_node_core::Stage::Starting {
            incarnation,
            launched: false,
        };
        match self.core.run(&token) {
            Some(run) if run.stage == expected && run.cancelled && incarnation > 1 => {
                self.core
                    .found(token, incarnation - 1, Decision::LaunchNext);
            }
            Some(run) if run.stage == expected => self.prepare(token, incarnation),
            _ => {}
        }
    }

    /// Whether a node may leave that has nothing to start.
    pub fn rest_when(&self, is_done: bool) -> Rest {
        if self.connections <= 0 && is_done && !self.has_letters() {
            Rest::Idle
        } else {
            Rest::Busy
        }
    }

    /// Arms the timer for leaving when there is nothing to do.
    pub(super) fn see_whether_to_leave(&mut self) {
        let rest = D::rest(self);
        if rest == Rest::Over {
            self.leaving.get_or_insert(super::End::Orderly);
            return;
        }
        match (rest == Rest::Idle, self.timers.leave) {
            (true, None) => self.timers.leave = Some(Instant::now() + self.setup.leave_after),
            (false, Some(_)) => self.timers.leave = None,
            (true, Some(_)) | (false, None) => {}
        }
        let live = self.core.live() + self.core.far() > 0;
        let watch = live && self.is_followed();
        match (watch, self.timers.look) {
            (true, None) => self.timers.look = Some(Instant::now() + config::LOOK_EVERY),
            (false, Some(_)) => self.timers.look = None,
            (true, Some(_)) | (false, None) => {}
        }
    }
}

/// Knowledge for a delayed decision about a start; `None` when a later start
/// came in between.
fn once_more(entry: &Entry, incarnation: u32, tracking: TrackingState) -> Option<TrackingState> {
    if incarnation < entry.incarnation {
        return None;
    }
    Some(match (entry.tracked, tracking) {
        // A launcher looks after it by now.
        (Some(_), _) => TrackingState::Tracked,
        (None, TrackingState::Over) => TrackingState::Over,
        (None, TrackingState::Tracked | TrackingState::Nobody) => TrackingState::Nobody,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::bare::LinkId;
    use nero_model::{ExperimentId, RunId};

    #[test]
    fn a_start_that_is_over_is_not_decided_about_once_more() {
        let mut entry = Entry::new(RunId {
            experiment: ExperimentId(1),
            number: 1,
        });
        entry.incarnation = 1;
        for tracking in [TrackingState::Over, TrackingState::Nobody] {
            assert_eq!(once_more(&entry, 1, tracking), Some(tracking));
        }
        entry.tracked = Some(LinkId(7));
        assert_eq!(
            once_more(&entry, 1, TrackingState::Over),
            Some(TrackingState::Tracked)
        );
        entry.incarnation = 2;
        assert_eq!(once_more(&entry, 1, TrackingState::Over), None);
        entry.tracked = None;
        assert_eq!(once_more(&entry, 1, TrackingState::Nobody), None);
    }
}
