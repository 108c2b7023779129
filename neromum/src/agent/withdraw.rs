//! Runs that another node may have: this one gives its word that it never
//! starts them. The word is a wish on the disk, as of an abort, so it is kept
//! whoever dies; for a run of which nothing lies here, only requests that are
//! still at work could break it, and they die with this process.

use std::io;

use nero_model::{ExperimentId, RunId, RunToken};
use nero_wire::v1::RunRef;
use nero_wire::v1::cancel_reply::Outcome;

use super::Agent;
use super::control::Wish;
use super::follow::Adopted;
use crate::core::Stage;

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
            let id = RunId {
                experiment: ExperimentId(run.experiment),
                number: run.number,
            };
            match self.adopt(token, id) {
                Adopted::Known => {}
                Adopted::Unknown if self.cleaning.contains(&token) => return Ok(Outcome::Ended),
                Adopted::Unknown => {
                    self.turned_away.add(token, turn);
                    return Ok(Outcome::UnknownRun);
                }
                Adopted::NotNow(why) => return Err(io::Error::other(why)),
            }
        }
        let unstarted = match self.core.run(&token).map(|run| &run.stage) {
            Some(Stage::Starting { .. } | Stage::Running { .. }) | None => false,
            Some(Stage::Waiting | Stage::Refused) => true,
            Some(Stage::TakenAway) => return self.cancel_one(run, wish),
            Some(Stage::Ended { .. } | Stage::Settled { .. }) => return Ok(Outcome::Ended),
        };
        if self.refused_after_a_claim(&token) {
            return Ok(Outcome::Ended);
        }
        if !unstarted || self.look_for_a_claim(token) {
            return Ok(Outcome::GoesOn);
        }
        tracing::info!(%token, turn, "withdrawn: another node may have the run");
        self.cancel_one(run, wish)
    }

    /// Whether a run was refused of which an earlier start got as far as its
    /// claim: other nodes cannot have it, and it has ended.
    pub(super) fn refused_after_a_claim(&self, token: &RunToken) -> bool {
        let refused = self.core.run(token).map(|run| &run.stage) == Some(&Stage::Refused);
        let entry = self.entries.get(token);
        refused && entry.is_some_and(|entry| entry.incarnation > 1 || entry.facts.claimed)
    }
}
