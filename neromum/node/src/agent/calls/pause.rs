//! Pauses: requests in a run's control folder, which its shim carries out. The file is
//! made, synced, before the doorbell rings, and outlives every process.

use std::io;
use std::path::PathBuf;

use nero_journal::Clocks;
use nero_model::RunToken;
use nero_model::paths::run as names;
use nero_node_core::Stage;
use nero_wire::v1;

use super::{CallRefusal, PauseCall, PauseOutcome, PauseState};
use crate::agent::{Agent, Driver};
use crate::runs::control::{ask_for_pause, newest_pause};

impl<D: Driver> Agent<D> {
    /// Makes the requests; returns the outcomes in the order of the runs.
    pub(in crate::agent) fn pause(
        &mut self,
        pausing: &PauseCall,
    ) -> Result<Vec<PauseOutcome>, CallRefusal> {
        let one = |token: &RunToken| self.pause_one(*token, pausing);
        let outcomes: io::Result<Vec<PauseOutcome>> = pausing.runs.iter().map(one).collect();
        outcomes.map_err(|error| CallRefusal::Disk(error.to_string()))
    }

    fn pause_one(&mut self, token: RunToken, pausing: &PauseCall) -> io::Result<PauseOutcome> {
        let wanted = pausing.wanted;
        let Some(run) = self.core.run(&token) else {
            return Ok(PauseOutcome::UnknownRun);
        };
        let (id, waits) = (run.id, run.stage == Stage::Waiting);
        if self.driver.is_adopted(&token)
            && run.stage.is_elsewhere()
            && wanted == PauseState::Paused
        {
            // No process of ours is beside its job.
            return Ok(PauseOutcome::Adopted);
        }
        let outcome = match run.stage {
            Stage::Ended { .. } | Stage::Settled { .. } | Stage::TakenAway | Stage::Refused => {
                return Ok(PauseOutcome::Ended);
            }
            Stage::Waiting | Stage::Submitted { .. } => PauseOutcome::Held,
            Stage::Starting { .. } | Stage::Running { .. } | Stage::Held { .. }
                if pausing.waiting =>
            {
                return Ok(PauseOutcome::Begun);
            }
            Stage::Starting { .. } | Stage::Running { .. } | Stage::Held { .. } => {
                PauseOutcome::Asked
            }
        };
        let run_dir = self.run_dir(id);
        let is_wanted = wanted == PauseState::Paused;
        let pause = v1::Pause {
            token: token.to_vec(),
            author: pausing.author.clone(),
            asked_ms: Clocks::now().wall_ns / 1_000_000,
        };
        let is_new = ask_for_pause(&run_dir, is_wanted, &pause)?;
        if is_new {
            tracing::info!(run = %id, ?wanted, "asked for");
        }
        self.core.set_paused(token, is_wanted);
        if !waits {
            // Also when nothing is new: an earlier ring may have been lost.
            self.ring(token);
        }
        self.driver.hold_elsewhere(token, wanted);
        Ok(if is_new { outcome } else { PauseOutcome::Same })
    }

    /// The name that says that a run's job was held by us at its scheduler.
    pub fn held_by_us(&self, token: &RunToken) -> Option<PathBuf> {
        let entry = self.entries.get(token)?;
        Some(self.run_dir(entry.id).join(names::CONTROL).join("held"))
    }

    /// Takes over the newest pause request of a run after a restart.
    pub(in crate::agent) fn restore_pause(&mut self, token: RunToken) {
        let Some(entry) = self.entries.get(&token) else {
            return;
        };
        let newest = newest_pause(&self.run_dir(entry.id));
        if newest == 0 {
            return;
        }
        let is_paused = newest % 2 == 1;
        self.core.set_paused(token, is_paused);
        let wanted = if is_paused {
            PauseState::Paused
        } else {
            PauseState::Resumed
        };
        // The neromum before may have left between the request and the call. It noted which
        // jobs it held: a person may hold others.
        let is_held = |path: PathBuf| path.symlink_metadata().is_ok();
        if !is_paused && !self.held_by_us(&token).is_some_and(is_held) {
            return;
        }
        self.driver.hold_elsewhere(token, wanted);
    }
}
