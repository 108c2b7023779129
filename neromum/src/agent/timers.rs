//! The few things that wait for a time. One sleep to the earliest; none when
//! nothing waits, so that an idle neromum never wakes.

use nero_model::RunToken;
use tokio::time::Instant;

use super::Agent;
use crate::config;
use crate::core::decide::Decision;

/// When what is due.
#[derive(Debug, Default)]
pub struct Timers {
    /// Starts are tried again after a hold.
    pub starts: Option<Instant>,
    /// How long the last pause after vain starts was.
    pub vain_pause: Option<std::time::Duration>,
    /// Live runs' segments are looked at.
    pub look: Option<Instant>,
    /// Segments that could not be read are sent.
    pub unread: Option<Instant>,
    /// The launcher is started again.
    pub launcher: Option<Instant>,
    /// The ledger is synced for a burst of ends, at the end of the turn.
    pub sync: Option<Instant>,
    /// neromum leaves.
    pub leave: Option<Instant>,
    /// The ledger is written again.
    pub ledger: Option<Instant>,
    /// Runs whose shims died are started again.
    pub prepare: Vec<(Instant, RunToken, u32)>,
}

/// Sleeps until then; for ever when there is none.
pub async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

impl Agent {
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        [
            self.timers.starts,
            self.timers.look,
            self.timers.unread,
            self.timers.launcher,
            self.timers.leave,
            self.timers.ledger,
            self.timers.sync,
            self.settling.next_deadline(),
            self.timers.prepare.iter().map(|(at, ..)| *at).min(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(super) fn timers_due(&mut self) {
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
            self.followers.try_unread();
        }
        // The turn that this wakes syncs at its end.
        due(&mut self.timers.sync);
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
        if due(&mut self.timers.leave) {
            tracing::info!("nothing to do: leaving");
            self.stopping = true;
        }
        self.settling_due(now);
    }

    /// A cancel that came during the pause ends the run without a start.
    fn prepare_again(&mut self, token: RunToken, incarnation: u32) {
        let expected = crate::core::Stage::Starting {
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

    /// Arms what depends on whether there is anything to do.
    pub(super) fn see_whether_to_leave(&mut self) {
        let idle = self.core.is_empty() && self.connections <= 0;
        match (idle, self.timers.leave) {
            (true, None) => self.timers.leave = Some(Instant::now() + self.setup.leave_after),
            (false, Some(_)) => self.timers.leave = None,
            (true, Some(_)) | (false, None) => {}
        }
        let live = self.core.live() + self.core.far() > 0;
        let watch = live && !self.followers.is_empty();
        match (watch, self.timers.look) {
            (true, None) => self.timers.look = Some(Instant::now() + config::LOOK_EVERY),
            (false, Some(_)) => self.timers.look = None,
            (true, Some(_)) | (false, None) => {}
        }
    }
}
