//! One step of a run: what happens to it, and what that changes.

pub(crate) mod cancel;
pub mod deferred;
pub mod hand_over;
pub(crate) mod hold;
pub(crate) mod homecoming;
pub(crate) mod in_force;
pub mod input;
pub(crate) mod late;
pub(crate) mod lost;
pub mod needs;
pub(crate) mod placement;
pub mod recall;
pub mod refusal;
pub mod report;
pub mod reports;

use std::collections::BTreeMap;

use nero_model::RunId;

use self::input::Input;
pub use self::late::LateInputError;
use self::late::{LateInput, StepResult};
use crate::facts::now::{Moment, Tick};
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::run::Run;
use crate::fold::state::State;

/// What happens to a run changes so much of it.
///
/// # Errors
/// When the input does not fit where the run stands.
pub fn step(run: &Run, input: &Input, now_ms: i64) -> Result<Vec<Change>, LateInputError> {
    stepped(run, input, now_ms).map_err(|LateInput| LateInputError {
        run: run.made.id,
        stage: run.dispatch.stage.label(),
        input: input.label(),
    })
}

fn stepped(run: &Run, input: &Input, now_ms: i64) -> StepResult {
    let at = |tick: &Tick| Moment {
        ms: now_ms,
        tick: tick.clone(),
    };
    let one = |change: Option<Change>| Ok(change.into_iter().collect());
    if !input.is_of(run) {
        return Err(LateInput);
    }
    match input {
        Input::Choice(choice) => placement::decided(run, choice, now_ms),
        Input::NodeAway { node, why } => placement::unplaced(run, node, why, now_ms),
        Input::Sending {
            node,
            sending,
            tick,
        } => hand_over::sending(run, node, sending, &at(tick)),
        Input::Offer { node } => hand_over::offered(run, node),
        Input::HandOver {
            at: to,
            answer,
            tick,
        } => hand_over::answered(run, &to.node, answer, &at(tick)),
        Input::Reported { node, report } => report::reported(run, node, report, now_ms),
        Input::Stray { node } => one(lost::left_behind(run, node)),
        Input::EndedThere { node } => one(lost::ended_there(run, node)),
        Input::NodeGone { node, who, others } => lost::gone(run, node, who, *others, now_ms),
        Input::Released => placement::released(run),
        Input::Hold(cause) => hold::hold(run, *cause),
        Input::HoldLifted => hold::lifted(run),
        Input::NeedsMet => hold::met(run, now_ms),
        Input::HoldAnswered { holds, .. } => hold::answered(run, *holds),
        Input::Cancel(asked) => cancel::cancel(run, asked),
        Input::CancelAnswered {
            answer, asked_ms, ..
        } => one(cancel::answered(run, *answer, *asked_ms, now_ms)),
        Input::RecallDeferred { tick } => recall::deferred(run, &at(tick)),
        Input::Balance { from, to, tick } => recall::for_room(run, from, to, &at(tick)),
        Input::RecallAsked { .. } => recall::asked(run),
        Input::RecallAnswered { said, tick, .. } => recall::answered(run, *said, &at(tick)),
        Input::RecallUnsupported { .. } => recall::cannot(run),
        Input::Rules { ids } => Ok(vec![in_force::changed(run, ids)]),
        Input::Peers { numbers } => in_force::folded(run, numbers),
        Input::RulesDelivered { version, kept } => one(in_force::delivered(run, *version, *kept)),
        Input::ResultsBegun { folder } => one(homecoming::begun(run, folder)),
        Input::ResultsWait { why } => homecoming::waits(run, why),
        Input::ResultsDone { done, hints } => one(homecoming::done(run, done, hints)),
        Input::ResultsGivenUp { why } => one(homecoming::given_up(run, why)),
        Input::ResultsForgone => homecoming::forgone(run),
        Input::ResultsMoved { folder } => one(dispatch_changed(run, |dispatch| {
            dispatch.results.set_folder(folder.clone());
        })),
        Input::Cleaned => one(homecoming::cleaned(run, now_ms)),
        Input::Checkpoints { overlay } => one(homecoming::checkpoints(run, overlay)),
        Input::MayForget => lost::closed(run),
        Input::PointsHeld { held } => one(homecoming::counted(run, *held)),
    }
}

/// The changes of inputs of many runs, in their order: a later input of a run follows
/// its earlier one. `late` gets the inputs that do not fit. An input of a run that the
/// state does not have changes nothing.
pub fn steps<'a>(
    state: &State,
    inputs: impl IntoIterator<Item = (RunId, &'a Input)>,
    now_ms: i64,
    mut late: impl FnMut(LateInputError),
) -> Vec<Change> {
    let mut changed: BTreeMap<RunId, Run> = BTreeMap::new();
    let mut all = Vec::new();
    for (id, input) in inputs {
        let Some(run) = changed.get(&id).or_else(|| state.run(id)) else {
            continue;
        };
        match step(run, input, now_ms) {
            Ok(changes) => {
                let mut run = run.clone();
                changes.iter().for_each(|change| run.take(change));
                changed.insert(id, run);
                all.extend(changes);
            }
            Err(error) => late(error),
        }
    }
    all
}

/// A stored run, of whose points the database of series has `held`.
pub fn with_points(mut run: Run, held: u64) -> Run {
    let changes = fits(step(&run, &Input::PointsHeld { held }, 0));
    changes.iter().for_each(|change| run.take(change));
    run
}

/// The changes of an input that was found to fit: its condition was looked at just now.
pub(crate) fn fits(stepped: Result<Vec<Change>, LateInputError>) -> Vec<Change> {
    debug_assert!(stepped.is_ok(), "{stepped:?}");
    stepped.unwrap_or_default()
}
