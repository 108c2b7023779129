//! One step of a run: what happens to it, and what that changes.

use super::change::{Change, dispatch_changed};
use super::input::Input;
use super::now::{Moment, Tick};
use super::run::Run;
use super::{abort, balance, gone, hand_over, homecoming, placed, recall, report, rules};

/// What happens to a run changes so much of it: nothing when that does not fit where
/// the run stands, as what comes late does not.
pub fn step(run: &Run, input: &Input, now_ms: i64) -> Vec<Change> {
    let at = |tick: &Tick| Moment {
        ms: now_ms,
        tick: tick.clone(),
    };
    let one = |change: Option<Change>| change.into_iter().collect();
    match input {
        Input::Choice(choice) => placed::decided(run, choice, now_ms),
        Input::NodeAway { node, why } => placed::unplaced(run, node, why, now_ms),
        Input::Sending {
            node,
            sending,
            tick,
        } => one(hand_over::sending(run, node, sending, &at(tick))),
        Input::Offer { node } => one(hand_over::offered(run, node)),
        Input::HandOver { node, answer, tick } => hand_over::answered(run, node, answer, &at(tick)),
        Input::Reported { node, report } => report::reported(run, node, report, now_ms),
        Input::Stray { node } => one(gone::left_behind(run, node)),
        Input::EndedThere { node } => one(gone::ended_there(run, node)),
        Input::NodeGone { node, who, others } => gone::gone(run, node, who, *others, now_ms),
        Input::Released => one(placed::released(run)),
        Input::Cancel(cancel) => abort::cancel(run, cancel),
        Input::CancelAnswered { answer, asked_ms } => {
            one(abort::answered(run, *answer, *asked_ms, now_ms))
        }
        Input::SendOn { tick } => recall::deferred(run, &at(tick)),
        Input::Balance { to, tick } => balance::recalled(run, to, &at(tick)),
        Input::RecallAsked => one(recall::asked(run)),
        Input::RecallAnswered {
            node,
            generation,
            said,
            tick,
        } => recall::answered(run, node, *generation, *said, &at(tick)),
        Input::RecallUnsupported => recall::cannot(run),
        Input::Rules { ids } => vec![rules::changed(run, ids)],
        Input::RulesDelivered { version, kept } => one(rules::delivered(run, *version, *kept)),
        Input::ResultsBegun { folder } => one(homecoming::begun(run, folder)),
        Input::ResultsWait { why } => one(homecoming::waits(run, why)),
        Input::ResultsDone { done, hints } => one(homecoming::done(run, done, hints)),
        Input::ResultsGivenUp { why } => one(homecoming::given_up(run, why)),
        Input::ResultsForgone => one(homecoming::forgone(run)),
        Input::ResultsMoved { folder } => one(dispatch_changed(run, |dispatch| {
            dispatch.results.set_folder(folder.clone());
        })),
        Input::Cleaned => one(homecoming::cleaned(run, now_ms)),
        Input::Checkpoints { overlay } => one(homecoming::checkpoints(run, overlay)),
        Input::MayForget => gone::closed(run),
    }
}
