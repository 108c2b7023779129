//! Decides whether a run's folder may go. Only the agent can decide that: the
//! disk alone does not show whether a run waits here, or whether neroman has
//! its records.

use std::collections::HashSet;

use nero_model::{RunId, RunToken};
use nero_node_core::Stage;
use tokio::sync::oneshot;

use super::{Candidate, Verdict};
use crate::agent::{Agent, Driver};

impl<D: Driver> Agent<D> {
    /// Decides about each run. Unless it is a rehearsal, the agent forgets
    /// those that may go, and does not take them up again before it is told that
    /// they are cleaned.
    pub(in crate::agent) fn clean(
        &mut self,
        candidates: Vec<Candidate>,
        rehearsal: bool,
        answer: oneshot::Sender<Vec<Verdict>>,
    ) {
        let verdicts: Vec<Verdict> = candidates.iter().map(|one| self.verdict(one)).collect();
        if rehearsal {
            // A caller that has left needs no answer.
            let _ = answer.send(verdicts);
            return;
        }
        let going: Vec<RunToken> = candidates
            .iter()
            .zip(&verdicts)
            .filter(|(_, verdict)| verdict.is_none())
            .map(|(one, _)| one.token)
            .collect();
        if answer.send(verdicts).is_err() {
            return;
        }
        self.forget(&going);
        self.admission.begin_cleaning(going);
    }

    /// Runs that are not over.
    pub(in crate::agent) fn open_runs(&self) -> HashSet<RunId> {
        let runs = self.core.runs().filter(|(_, run)| is_open(&run.stage));
        runs.map(|(_, run)| run.id).collect()
    }

    /// Whether the run may still change, so that its folder cannot be copied
    /// from.
    pub(in crate::agent) fn is_open(&self, token: &RunToken) -> bool {
        self.core.run(token).is_some_and(|run| is_open(&run.stage))
    }

    /// A waiting run that needs the files of this one.
    fn begins_with(&self, token: &RunToken) -> Option<RunId> {
        let not_started = |stage: &Stage| {
            let (waiting, submitted) = (Stage::Waiting, Stage::Submitted { incarnation: 0 });
            matches!(stage, Stage::Starting { .. }) || *stage == waiting || *stage == submitted
        };
        let needs = self.entries.iter().find(|(next, entry)| {
            entry.earlier == Some(*token)
                && self
                    .core
                    .run(next)
                    .is_some_and(|run| not_started(&run.stage))
        });
        needs.map(|(_, entry)| entry.id)
    }

    fn verdict(&self, one: &Candidate) -> Verdict {
        if self.admission.is_cleaning(&one.token) {
            return Some("it is being cleaned right now".to_owned());
        }
        if let Some(node) = &one.elsewhere {
            return Some(format!("it belongs to the node {node} of the same folder"));
        }
        if let Some(next) = self.begins_with(&one.token) {
            return Some(format!("run {next} is to begin with its checkpoints"));
        }
        let Some(run) = self.core.run(&one.token) else {
            return match (one.ended, one.never_began) {
                (true, _) | (_, true) => None,
                _ => Some("no record of its end".to_owned()),
            };
        };
        match run.stage {
            Stage::Waiting => Some("it waits for its turn; abort it first".to_owned()),
            Stage::Held { .. } => {
                Some("a file of it cannot be used; see `neroman show`".to_owned())
            }
            Stage::Starting { .. } | Stage::Submitted { .. } | Stage::Running { .. } => {
                Some("it is live; abort it first".to_owned())
            }
            Stage::Ended { .. } | Stage::Settled { .. } => {
                Some("its last records were not taken over yet; try again in a moment".to_owned())
            }
            Stage::TakenAway | Stage::Refused => None,
        }
    }
}

fn is_open(stage: &Stage) -> bool {
    !stage.is_final() && !matches!(stage, Stage::Ended { .. })
}
