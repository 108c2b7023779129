//! `Abort`: cancel requests. It reaches live and queued runs only, and gives up
//! those that their node does not know any more.

use std::time::Duration;

use nero_model::{ExperimentId, RunId};
use nero_wire::v1;
use nero_wire::v1::abort_reply::{One, Outcome};

use crate::failure::Failure;
use crate::ledger::{Decision, Late, Ledger};
use crate::service::Man;
use crate::service::change::ChangeRequest as _;
use crate::service::select::ChosenRun;
use nero_life::abort::{self, CancelOutcome};
use nero_life::change::Change;
use nero_life::input::Input;
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
            let (experiments, changes) = cancels(state, &chosen, &cancel);
            Ok(Decision {
                answer: v1::AbortReply {
                    experiments,
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
                one.why = match far {
                    _ if is_told => format!("{name} was told, and cannot see whether it ends"),
                    Some(_) => format!("{name} is out of reach; it is told when it answers"),
                    None => format!("{name} has not confirmed it yet; it is asked again"),
                };
                if let Some(file) = file {
                    one.why = format!("{}: {file}", one.why);
                }
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

fn cancels(state: &State, chosen: &[ChosenRun], cancel: &Cancel) -> (Vec<One>, Vec<Change>) {
    let mut ones = Vec::new();
    let mut changes = Vec::new();
    for chosen in chosen {
        let Some(experiment) = state.experiment(chosen.id) else {
            continue;
        };
        let mut say = |run: u32, outcome: Outcome, why: String| {
            let mut one = One {
                experiment: chosen.id.0,
                name: experiment.definition.name.clone(),
                run,
                why,
                ..One::default()
            };
            became(&mut one, outcome);
            ones.push(one);
        };
        if chosen.of(experiment).is_none() {
            say(0, Outcome::Skipped, "defined".to_owned());
            continue;
        }
        // A run that is being ended for a restart and the run that waits for
        // its end are both live. A run that its node forgot counts as live
        // until a person gives it up.
        let live: Vec<_> = experiment
            .runs
            .iter()
            .filter(|run| chosen.run.is_none_or(|number| run.made.id.number == number))
            .filter(|run| run.phase().is_live() || run.forgotten())
            .collect();
        if live.is_empty() {
            let word = chosen.of(experiment).map_or("", |run| run.phase().word());
            let number = chosen.of(experiment).map_or(0, |run| run.made.id.number);
            say(number, Outcome::Skipped, word.to_owned());
        }
        for run in live {
            let number = run.made.id.number;
            let input = Input::Cancel(cancel.clone());
            let inputs = [(run.made.id, input)];
            changes.extend(Late::Never.steps(state, &inputs, cancel.asked_ms));
            match abort::comes_to(run) {
                CancelOutcome::Asked => say(number, Outcome::Asked, String::new()),
                CancelOutcome::TakenAway => say(number, Outcome::TakenAway, String::new()),
                CancelOutcome::GivenUp => say(number, Outcome::GivenUp, String::new()),
                CancelOutcome::Skipped(why) => say(number, Outcome::Skipped, why),
            }
        }
    }
    (ones, changes)
}
