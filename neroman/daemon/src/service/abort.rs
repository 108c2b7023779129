//! `Abort`: wishes that runs end. Touches live runs only, queued ones,
//! too, and gives up those that their node does not know any more.

use nero_wire::v1;
use nero_wire::v1::abort_reply::One;

use super::select::{self, Chosen};
use super::{Man, blocking};
use crate::core::abort::{self, Wished};
use crate::core::change::Change;
use crate::core::run::Wish;
use crate::core::state::State;
use crate::failure::Failure;
use crate::ledger::Decided;

impl Man {
    /// Asks that what is picked ends.
    pub(crate) async fn abort(&self, request: v1::AbortRequest) -> Result<v1::AbortReply, Failure> {
        if let Some(answer) = self.ledger.answered(&request.request).await? {
            return Ok(answer);
        }
        let selection = select::read(request.selection, "", self.now())?;
        let state = self.ledger.state();
        let (chosen, picked) = blocking(move || selection.choose(&state)).await??;
        let wish = Wish {
            asked_ms: 0,
            author: request.author,
            grace_ms: request.grace_ms,
            signal: request.signal,
            delivered: false,
        };
        let decide = move |state: &State, now_ms: i64| {
            let wish = Wish {
                asked_ms: now_ms,
                ..wish
            };
            let (experiments, changes) = wishes(state, &chosen, &wish);
            Decided {
                answer: v1::AbortReply {
                    experiments,
                    notes: picked.notes,
                    explicit: picked.explicit,
                },
                changes,
            }
        };
        if request.dry_run {
            return Ok(decide(&self.ledger.state(), self.clock.now_ms()).answer);
        }
        self.ledger
            .ask(&request.request, move |state, now_ms| {
                Ok(decide(state, now_ms))
            })
            .await
    }
}

fn wishes(state: &State, chosen: &[Chosen], wish: &Wish) -> (Vec<One>, Vec<Change>) {
    let mut ones = Vec::new();
    let mut changes = Vec::new();
    for chosen in chosen {
        let Some(experiment) = state.experiment(chosen.id) else {
            continue;
        };
        let mut say = |run: u32, outcome: &str, why: String| {
            ones.push(One {
                experiment: chosen.id.0,
                name: experiment.definition.name.clone(),
                run,
                outcome: outcome.to_owned(),
                why,
            });
        };
        if chosen.of(experiment).is_none() {
            say(0, "skipped", "defined".to_owned());
            continue;
        }
        // A run that is being ended for a restart and the one that waits for
        // its end are both live. One that its node forgot counts as live until
        // a person gives it up.
        let live: Vec<_> = experiment
            .runs
            .iter()
            .filter(|run| chosen.run.is_none_or(|number| run.made.id.number == number))
            .filter(|run| run.phase().is_live() || run.forgotten())
            .collect();
        if live.is_empty() {
            let word = chosen.of(experiment).map_or("", |run| run.phase().word());
            let number = chosen.of(experiment).map_or(0, |run| run.made.id.number);
            say(number, "skipped", word.to_owned());
        }
        for run in live {
            let number = run.made.id.number;
            let (outcome, wished) = abort::wish(run, wish);
            changes.extend(wished);
            match outcome {
                Wished::Asked => say(number, "asked", String::new()),
                Wished::TakenAway => say(number, "taken away", String::new()),
                Wished::GivenUp => say(number, "given up", String::new()),
                Wished::Skipped(why) => say(number, "skipped", why),
            }
        }
    }
    (ones, changes)
}
