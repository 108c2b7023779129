//! Runs of a node with a scheduler: they wait here until they are submitted, and
//! then there.

use nero_model::{RunId, RunToken};

use super::capacity::Needs;
use super::{Core, Run, Stage};

impl Core {
    /// The runs that wait, in the order of their turns.
    pub fn queue(&self) -> impl Iterator<Item = RunToken> {
        self.queue.values().copied()
    }

    /// Whether nothing of a run can come any more at its scheduler.
    pub fn is_done(&self, token: &RunToken) -> bool {
        let is_over = |run: &Run| run.stage.is_final() || matches!(run.stage, Stage::Ended { .. });
        self.run(token).is_none_or(is_over)
    }

    /// Whether a run waits at its scheduler and is to end.
    pub fn waits_cancelled(&self, token: &RunToken) -> bool {
        let run = self.run(token);
        run.is_some_and(|run| run.cancelled && matches!(run.stage, Stage::Submitted { .. }))
    }

    /// Whether a run is in a start of its task and is to end.
    pub fn runs_cancelled(&self, token: &RunToken) -> bool {
        let run = self.run(token);
        run.is_some_and(|run| run.cancelled && run.stage.is_elsewhere())
    }

    /// Submits a run: false, and nothing is changed, unless it waits.
    pub fn submit(&mut self, token: RunToken) -> bool {
        let waits = |run: &Run| run.stage == Stage::Waiting && !run.cancelled;
        let waits = self.runs.get(&token).is_some_and(waits);
        if waits {
            self.at_scheduler(token, 0);
        }
        waits
    }

    /// Nothing of the run is at the scheduler, and nothing of it can come there:
    /// it waits again, to be submitted once more.
    pub fn submit_again(&mut self, token: RunToken) {
        let run = self.runs.get(&token);
        if run.is_some_and(|run| matches!(run.stage, Stage::Submitted { .. })) {
            self.enqueue_again(token);
        }
    }

    /// Takes in a run that was submitted before the restart.
    pub fn restore_submitted(&mut self, token: RunToken, id: RunId, order: u64, needs: Needs) {
        self.insert(token, id, order, needs, Stage::Submitted { incarnation: 0 });
    }

    /// The scheduler cannot have the run, or it refused it, or it ended the run's
    /// task before the run began.
    pub fn turn_down(&mut self, token: RunToken, why: &str) {
        let waits = |stage: &Stage| matches!(stage, Stage::Waiting | Stage::Submitted { .. });
        let Some(run) = self.runs.get(&token).filter(|run| waits(&run.stage)) else {
            return;
        };
        if run.cancelled {
            self.take_away(token)
        } else {
            self.refuse(token, why)
        }
    }

    /// A person ended the run at its scheduler, before it began: the scheduler's name,
    /// and who it was.
    pub fn cancelled_elsewhere(&mut self, token: RunToken, at: &str) {
        let run = self.runs.get(&token);
        if let Some(run) = run.filter(|run| matches!(run.stage, Stage::Submitted { .. })) {
            let is_ours = run.cancelled;
            self.take_away(token);
            if !is_ours {
                self.set_why(token, at);
            }
        }
    }

    /// Notes why a run waits, here or at the scheduler.
    pub fn waits_for(&mut self, token: RunToken, why: &str) {
        let Some(run) = self.runs.get(&token) else {
            return;
        };
        if matches!(run.stage, Stage::Waiting | Stage::Submitted { .. }) {
            self.set_why(token, why);
        }
    }

    /// Notes why a run waits, which does not pass until a person acts.
    pub fn waits_for_a_person(&mut self, token: RunToken, why: &str) {
        let run = self.runs.get(&token);
        let waits = |stage: &Stage| matches!(stage, Stage::Waiting | Stage::Submitted { .. });
        if run.is_some_and(|run| waits(&run.stage)) {
            self.set_why_of(token, why, true);
        }
    }

    /// Notes why a run that began at the scheduler does not go on; empty: it does.
    /// `waits_again`: its job is in the queue again, and nothing of it runs.
    pub fn stands_still(&mut self, token: RunToken, why: &str, waits_again: bool) {
        let Some(run) = self.runs.get_mut(&token) else {
            return;
        };
        if run.stage.is_elsewhere() {
            run.waits_again = waits_again;
            self.set_why(token, why);
        }
    }

    pub(super) fn at_scheduler(&mut self, token: RunToken, incarnation: u32) {
        self.leave_queue(token);
        if let Some(run) = self.runs.get(&token)
            && !matches!(run.stage, Stage::Submitted { .. })
        {
            self.set_stage(token, Stage::Submitted { incarnation });
        }
    }
}
