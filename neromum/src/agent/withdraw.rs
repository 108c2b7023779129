//! Runs that another node may have: this one gives its word that it never
//! starts them. The word is a wish on the disk, as of an abort, so it is kept
//! whoever dies. Then the spec gets another name: to whoever takes the
//! deployment over, and to the sweep, the folder is nobody's. For a run of which
//! nothing lies here, only requests that are still at work could break the word,
//! and they die with this process.

use std::io;
use std::path::Path;

use nero_journal::frame::{self, FrameError, FrameKind};
use nero_model::paths::run as names;
use nero_model::{RunId, RunToken};
use nero_wire::v1::cancel_reply::Outcome;
use nero_wire::v1::{RunRef, RunSpec};

use super::Agent;
use super::control::Wish;
use super::effects::read_spec;
use super::follow::{Adopted, run_id};
use super::hand_over::NEVER_AGAIN;
use crate::core::Stage;
use crate::core::decide::Decision;

impl Agent {
    /// Takes a run away unless it was started. `Ended` means that no word is
    /// given: its records tell what became of it.
    ///
    /// # Errors
    /// When the disk refuses the wish, or does not say what lies there.
    pub(super) fn withdraw_one(
        &mut self,
        run: &RunRef,
        turn: u32,
        wish: &Wish,
    ) -> io::Result<Outcome> {
        let Some(token) = RunToken::from_slice(&run.token) else {
            return Ok(Outcome::UnknownRun);
        };
        if self.core.run(&token).is_none() {
            let id = run_id(run);
            match self.adopt(token, id) {
                Adopted::Known => {}
                Adopted::Unknown if self.cleaning.contains(&token) => return Ok(Outcome::Ended),
                Adopted::Unknown => {
                    self.turned_away.add(token, turn);
                    return Ok(match was_withdrawn(&self.run_dir(id), token) {
                        true => Outcome::NeverStarted,
                        false => Outcome::UnknownRun,
                    });
                }
                Adopted::NotNow(why) => return Err(io::Error::other(why)),
            }
        }
        match self.core.run(&token).map(|run| &run.stage) {
            Some(Stage::Starting { .. } | Stage::Running { .. } | Stage::Held { .. }) | None => {
                return Ok(Outcome::GoesOn);
            }
            Some(Stage::Ended { .. } | Stage::Settled { .. }) => return Ok(Outcome::Ended),
            Some(Stage::Waiting | Stage::Refused | Stage::TakenAway) => {}
        }
        if self.refused_after_a_claim(&token) {
            return Ok(Outcome::Ended);
        }
        self.never_start(token, wish)
    }

    /// A shim that a dead launcher left may be on its way, whoever told that
    /// launcher: either its claim is there when the wish is, or it finds the
    /// wish.
    fn never_start(&mut self, token: RunToken, wish: &Wish) -> io::Result<Outcome> {
        let Some((id, withdrawn)) = self.entries.get(&token).map(|one| (one.id, one.withdrawn))
        else {
            return Ok(Outcome::UnknownRun);
        };
        let run_dir = self.run_dir(id);
        // Whatever claimed it since finds the wish.
        let first = run_dir.join(names::CONTROL).join("cancel.1");
        let wished = first.symlink_metadata().is_ok();
        if withdrawn && wished {
            self.give_away(token, id);
            return Ok(Outcome::NeverStarted);
        }
        if self.began(token)? {
            return Ok(Outcome::GoesOn);
        }
        if !wished {
            match self.write_cancel(token, wish) {
                // Somebody took its folder away: nothing is started from nowhere.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !run_dir.exists() => {}
                made => drop(made?),
            }
            if self.began(token)? {
                self.ring(token);
                return Ok(Outcome::Asked);
            }
        }
        tracing::info!(run = %id, "withdrawn: another node may have the run");
        self.core.cancel(token);
        self.turned_away.add(token, NEVER_AGAIN);
        self.give_away(token, id);
        Ok(Outcome::NeverStarted)
    }

    /// The folder is nobody's from now on. The word holds without that, too.
    fn give_away(&mut self, token: RunToken, id: RunId) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.withdrawn = true;
        }
        // Another run's, or none: it was given away before.
        if read_spec(&self.setup, id, token).is_err_and(|error| !error.may_pass) {
            return;
        }
        let run_dir = self.run_dir(id);
        match std::fs::rename(run_dir.join(names::SPEC), run_dir.join(names::WITHDRAWN)) {
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(run = %id, %error, "a withdrawn run lies there as if it were to start");
            }
        }
    }

    /// Whether a run that was not started here is claimed all the same, by a
    /// shim that a dead launcher left; it is followed then.
    ///
    /// # Errors
    /// When its records cannot be read now.
    pub(super) fn began(&mut self, token: RunToken) -> io::Result<bool> {
        let newest = self.entries.get(&token).map(|entry| entry.incarnation);
        let incarnation = newest.unwrap_or_default().max(1);
        if !self.look(token, incarnation) {
            return Err(io::Error::other("its records cannot be read now"));
        }
        let Some(facts) = self.entries.get(&token).map(|entry| entry.facts) else {
            return Ok(false);
        };
        let taken_away = self.core.run(&token).map(|run| &run.stage) == Some(&Stage::TakenAway);
        // Of a run that was taken away a shim says that it found the wish.
        let found_the_wish = taken_away && facts.not_started && !facts.started;
        if !facts.claimed || found_the_wish {
            return Ok(false);
        }
        self.core.began_after_all(token, incarnation);
        self.core.found(token, incarnation, Decision::Follow);
        self.look_and_decide(token, incarnation);
        Ok(true)
    }

    /// Whether a run was refused of which an earlier start got as far as its
    /// claim: other nodes cannot have it, and it has ended.
    pub(super) fn refused_after_a_claim(&self, token: &RunToken) -> bool {
        let refused = self.core.run(token).map(|run| &run.stage) == Some(&Stage::Refused);
        let entry = self.entries.get(token);
        refused && entry.is_some_and(|entry| entry.incarnation > 1 || entry.facts.claimed)
    }
}

/// Whether the folder is that of this run, withdrawn. What cannot be read is as
/// good: nobody starts a run from there.
pub(super) fn was_withdrawn(run_dir: &Path, token: RunToken) -> bool {
    match frame::read::<RunSpec>(FrameKind::Spec, &run_dir.join(names::WITHDRAWN)) {
        Ok(spec) => spec.token == token.as_bytes(),
        Err(FrameError::Io(error)) => !matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ),
        Err(_) => true,
    }
}
