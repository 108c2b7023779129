//! Recalls runs that another node may get: this node promises that it never
//! starts them. The promise is a cancel request on the disk, as for an abort, so it
//! outlives every process. Then the spec gets another name, so that a take-over
//! and the sweep see no run in the folder. For a run without a folder here, only
//! requests that are still at work could break the promise, and they die with
//! this process.

use std::io;

use nero_journal::request::RequestKind;
use nero_model::paths::run as names;
use nero_model::{RunId, RunToken};
use nero_node_core::Stage;
use nero_node_core::decide::Decision;

use super::{Cancel, Outcome, Target};
use crate::agent::follow::AdoptionResult;
use crate::agent::hand_over::NEVER_AGAIN;
use crate::agent::{Agent, Driver};
use crate::runs::segments;
use crate::runs::spec::{self, was_recalled};
use crate::staging::work_folder;

impl<D: Driver> Agent<D> {
    /// Recalls a run unless it was started. `Ended` means that there is no
    /// promise: the run's records show its end.
    ///
    /// # Errors
    /// When the disk refuses the cancel request, or the run's files cannot be read.
    pub(in crate::agent) fn recall_one(
        &mut self,
        target: Target,
        generation: u32,
        cancel: &Cancel,
    ) -> io::Result<Outcome> {
        let Target { token, id } = target;
        if self.core.run(&token).is_none() {
            match self.adopt(token, id) {
                AdoptionResult::Known => {}
                AdoptionResult::Unknown if self.admission.is_cleaning(&token) => {
                    return Ok(Outcome::Ended);
                }
                AdoptionResult::Unknown => {
                    self.admission.recall(token, generation);
                    return Ok(if was_recalled(&self.run_dir(id), token) {
                        Outcome::NeverStarted
                    } else {
                        Outcome::UnknownRun
                    });
                }
                AdoptionResult::NotNow(why) => return Err(io::Error::other(why)),
            }
        }
        match self.core.run(&token).map(|run| &run.stage) {
            Some(
                Stage::Starting { .. }
                | Stage::Submitted { .. }
                | Stage::Running { .. }
                | Stage::Held { .. },
            )
            | None => {
                return Ok(Outcome::GoesOn);
            }
            Some(Stage::Ended { .. } | Stage::Settled { .. }) => return Ok(Outcome::Ended),
            Some(Stage::Waiting | Stage::Refused | Stage::TakenAway) => {}
        }
        if self.refused_after_a_claim(&token) {
            return Ok(Outcome::Ended);
        }
        if self.undo_hand_over(token) {
            self.admission.recall(token, generation);
            return Ok(Outcome::UnknownRun);
        }
        self.never_start(token, cancel)
    }

    /// Removes a run that no process can be starting, and its folder, so that a later
    /// generation of it may come here. Returns false if the run is left as it was.
    ///
    /// The folder first belongs to no run, then the ledger forgets the run, then the
    /// folder goes: a neromum that is killed in between starts it never, and calls no
    /// run lost whose folder it removed itself.
    fn undo_hand_over(&mut self, token: RunToken) -> bool {
        let Some(id) = self.never_launched(token) else {
            return false;
        };
        let run_dir = self.run_dir(id);
        let recalled = run_dir.join(names::RECALLED);
        if let Err(error) = std::fs::rename(run_dir.join(names::SPEC), &recalled) {
            tracing::warn!(run = %id, %error, "the folder of a run that leaves is kept");
            return false;
        }
        if let Err(error) = self.ledger.closed(&[token]) {
            tracing::warn!(run = %id, ?error, "the folder of a run that leaves is kept");
            return false;
        }
        tracing::info!(run = %id, "recalled before its start: nothing of it is kept");
        self.core.left(token);
        self.drop_entry(token);
        if let Err(error) = spec::unmake_recalled(&run_dir) {
            // The run comes here no more, and the folder goes when it is old.
            tracing::warn!(run = %id, %error, "the folder of a run that left stays");
        }
        true
    }

    /// The id of a run that waits and that neither this process nor an earlier one
    /// sent to a launcher. No shim of it can be on its way.
    fn never_launched(&self, token: RunToken) -> Option<RunId> {
        let run = self.core.run(&token)?;
        let entry = self.entries.get(&token)?;
        let waits = run.stage == Stage::Waiting && !run.cancelled && entry.cancels == 0;
        let sent = entry.launched.is_some() || entry.incarnation > 0;
        let run_dir = self.run_dir(entry.id);
        // A work folder: a start was prepared, which may have taken much from the disk.
        let prepared = work_folder(&run_dir, 1).exists();
        let begun = !matches!(segments::newest(&run_dir), Ok(0));
        (entry.fresh && waits && !sent && !prepared && !begun).then_some(entry.id)
    }

    /// Makes sure that the run never starts here. A shim of a dead launcher may
    /// be on its way, whichever neromum launched it: either its claim exists
    /// before the cancel request, or it finds the cancel request.
    fn never_start(&mut self, token: RunToken, cancel: &Cancel) -> io::Result<Outcome> {
        let Some((id, recalled)) = self.entries.get(&token).map(|one| (one.id, one.recalled))
        else {
            return Ok(Outcome::UnknownRun);
        };
        let run_dir = self.run_dir(id);
        // A later claim finds this cancel request.
        let first = RequestKind::Cancel.path(&run_dir, 1);
        let cancelled = first.symlink_metadata().is_ok();
        if recalled && cancelled {
            self.give_away(token, id);
            return Ok(Outcome::NeverStarted);
        }
        if self.began(token)? {
            return Ok(Outcome::GoesOn);
        }
        if !cancelled {
            match self.write_cancel(token, cancel) {
                // The run's folder was removed, so no start can be made from it.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !run_dir.exists() => {}
                made => drop(made?),
            }
            if self.began(token)? {
                self.ring(token);
                return Ok(Outcome::Asked);
            }
        }
        tracing::info!(run = %id, "recalled: another node may have the run");
        self.core.cancel(token);
        self.admission.recall(token, NEVER_AGAIN);
        self.give_away(token, id);
        Ok(Outcome::NeverStarted)
    }

    /// Makes the folder belong to no run. The promise holds without that, too.
    fn give_away(&mut self, token: RunToken, id: RunId) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.recalled = true;
        }
        // The spec is missing or another run's: the folder was given away before.
        if spec::read(&self.setup.paths, id, token).is_err_and(|error| !error.may_pass) {
            return;
        }
        let run_dir = self.run_dir(id);
        match std::fs::rename(run_dir.join(names::SPEC), run_dir.join(names::RECALLED)) {
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(run = %id, %error, "a recalled run lies there as if it were to start");
            }
        }
    }

    /// Whether a run without a start of ours was claimed all the same, by a shim
    /// of a dead launcher. Then it is followed.
    ///
    /// # Errors
    /// When its records cannot be read now.
    pub(in crate::agent) fn began(&mut self, token: RunToken) -> io::Result<bool> {
        let newest = self.entries.get(&token).map(|entry| entry.incarnation);
        let incarnation = newest.unwrap_or_default().max(1);
        if !self.read_segments(token, incarnation) {
            return Err(io::Error::other("its records cannot be read now"));
        }
        let Some(facts) = self.entries.get(&token).map(|entry| entry.facts) else {
            return Ok(false);
        };
        let taken_away = self.core.run(&token).map(|run| &run.stage) == Some(&Stage::TakenAway);
        // The shim of a run that was taken away recorded that it found the cancel
        // request.
        let found_the_cancel = taken_away && facts.not_started && !facts.started;
        if !facts.claimed || found_the_cancel {
            return Ok(false);
        }
        self.core.began_after_all(token, incarnation);
        self.core.found(token, incarnation, Decision::Follow);
        self.look_and_decide(token, incarnation);
        Ok(true)
    }

    /// Whether a refused run had an earlier start with a claim: it has ended, and
    /// other nodes cannot have it.
    pub(in crate::agent) fn refused_after_a_claim(&self, token: &RunToken) -> bool {
        let refused = self.core.run(token).map(|run| &run.stage) == Some(&Stage::Refused);
        let entry = self.entries.get(token);
        refused && entry.is_some_and(|entry| entry.incarnation > 1 || entry.facts.claimed)
    }
}
