//! The call `Abort` records cancel requests for live and queued runs. It gives up a run that
//! its node no longer knows.

use std::time::Duration;

use nero_model::{ExperimentId, RunId};
use nero_wire::v1;
use nero_wire::v1::abort_reply::{One, Outcome};

use crate::service::Man;
use crate::service::change::ChangeRequest as _;
use nero_home::failure::Failure;
use nero_home::ledger::{Decision, LatePolicy, Ledger};
use nero_life::abort::{self, CancelOutcome, CancelResult};
use nero_life::change::Change;
use nero_life::run::Cancel;
use nero_life::state::State;

impl Man {
    /// Records cancel requests for the picked runs.
    pub(crate) async fn abort(&self, request: v1::AbortRequest) -> Result<v1::AbortReply, Failure> {
        let head = request.head();
        let selection = self.selection(request.selection, "").await?;
        let (chosen, picked) = selection.choose_from(&self.ledger.state()).await?;
        let cancel = Cancel {
            asked_ms: 0,
            author: request.author,
            grace_ms: request.grace_ms,
            signal: request.signal,
            delivered: false,
            rule: None,
        };
        let decide = move |state: &State, now_ms: i64| {
            let cancel = Cancel {
                asked_ms: now_ms,
                ..cancel
            };
            let chosen = chosen.iter().map(|chosen| (chosen.id, chosen.run));
            let (cancelled, changes) = abort::cancel(state, chosen, &cancel, |error| {
                LatePolicy::Never.log(&error)
            });
            Ok(Decision {
                answer: v1::AbortReply {
                    experiments: cancelled.into_iter().map(reply_part).collect(),
                    notes: picked.notes,
                    explicit: picked.explicit,
                },
                changes,
            })
        };
        if head.is_rehearsal {
            return self.decided(&head, decide).await;
        }
        let (again, full) = (decide.clone(), self.ledger.clone());
        let without_room = move |state: &State, now_ms| unwritten(again(state, now_ms)?, &full);
        let asked = self
            .ledger
            .ask_even_unwritten(&head.id, decide, without_room);
        let mut reply = asked.await?;
        self.confirm(&mut reply).await;
        Ok(reply)
    }

    /// Waits a moment for the nodes of these runs, and notes the reason for
    /// each run whose node has not confirmed its request.
    async fn confirm(&self, reply: &mut v1::AbortReply) {
        let asked = |one: &One| one.became() == Outcome::Asked;
        let id = |one: &One| RunId {
            experiment: ExperimentId(one.experiment),
            number: one.run,
        };
        let is_confirmed = |state: &State| {
            let nodes = self.nodes.known();
            let mut waits = false;
            for one in reply.experiments.iter_mut().filter(|one| asked(one)) {
                one.why.clear();
                let Some(run) = state.run(id(one)).filter(|run| run.phase().is_live()) else {
                    continue;
                };
                let is_told = run.cancel().is_none_or(|cancel| cancel.delivered);
                let file = run.hides_its_end();
                if is_told && file.is_none() {
                    continue;
                }
                let name = run.node().unwrap_or_default();
                let far = nodes.of(name).filter(|node| node.out_of_reach());
                let why = match far {
                    _ if is_told => "has received the abort, but cannot tell whether the run ended",
                    Some(_) => "is out of reach; the abort is sent when it answers",
                    None => "has not confirmed the abort yet; it is sent again",
                };
                let file = file.map(|file| format!(": {file}")).unwrap_or_default();
                one.why = format!("{name} {why}{file}");
                waits |= far.is_none();
            }
            !waits
        };
        self.ledger.until(CONFIRMED_WITHIN, is_confirmed).await;
    }
}

/// How long an abort waits for the replies of nodes, which answer from memory
/// and their disk.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(2);

/// Without room in the databases, only requests to nodes go on, since they may
/// make room. The rest waits.
fn unwritten(
    mut decided: Decision<v1::AbortReply>,
    ledger: &Ledger,
) -> Result<Decision<v1::AbortReply>, Failure> {
    let why = ledger.no_room().map_or_else(
        || Failure::failed("no space left for the databases"),
        |full| full.failure,
    );
    decided.changes.retain(Change::is_cancel);
    if decided.changes.is_empty() {
        return Err(why);
    }
    for one in &mut decided.answer.experiments {
        match one.became() {
            Outcome::TakenAway | Outcome::GivenUp => {
                became(one, Outcome::Skipped);
                one.why = "no space to write it down".to_owned();
            }
            Outcome::Unspecified | Outcome::Asked | Outcome::Skipped => {}
        }
    }
    let note = format!("{why}: sent to the nodes all the same");
    decided.answer.notes.push(note);
    Ok(decided)
}

/// Sets the outcome, and the word for it.
fn became(one: &mut One, outcome: Outcome) {
    one.set_became(outcome);
    one.outcome = match outcome {
        Outcome::Unspecified => "",
        Outcome::Asked => "asked",
        Outcome::TakenAway => "taken away",
        Outcome::GivenUp => "given up",
        Outcome::Skipped => "skipped",
    }
    .to_owned();
}

fn reply_part(result: CancelResult) -> One {
    let (outcome, why) = match result.outcome {
        CancelOutcome::Asked => (Outcome::Asked, String::new()),
        CancelOutcome::TakenAway => (Outcome::TakenAway, String::new()),
        CancelOutcome::GivenUp => (Outcome::GivenUp, String::new()),
        CancelOutcome::Skipped(why) => (Outcome::Skipped, why),
    };
    let mut one = One {
        experiment: result.experiment.0,
        name: result.name,
        run: result.run,
        why,
        ..One::default()
    };
    became(&mut one, outcome);
    one
}
