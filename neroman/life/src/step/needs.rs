//! The work that a run still needs from its node. All of it can be repeated
//! without harm: a driver looks, acts, and looks again.

use nero_model::Phase;

use crate::facts::hold::Hold;
use crate::facts::stage::{HandOverStage, Stage, Verdict};
use crate::fold::run::Run;

/// Work to do for a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// neromum has not accepted it.
    pub hand_over: bool,
    /// A cancel has not reached the node.
    pub cancel: bool,
    /// The run is to leave its node, which has not answered yet.
    pub recall: bool,
    /// The node is to keep the run from starting.
    pub hold: bool,
    /// The node may hold the run, and is to let it go on.
    pub lift: bool,
    /// The node has older rules.
    pub rules: bool,
    /// Its job waits for the end of a step, which is known here.
    pub answer: bool,
    /// Its results must come home.
    pub results: bool,
    /// Files come home while the job produces them, if its outputs ask for
    /// that.
    pub live_results: bool,
    /// The run needs nothing more from the node, which may forget it.
    pub close: bool,
}

impl Needs {
    /// Whether no work is left for now.
    pub fn nothing(self) -> bool {
        self == Self::default()
    }
}

/// The work for this run.
pub fn of(run: &Run) -> Needs {
    let dispatch = &run.dispatch;
    let live = run.phase().is_live();
    let asks = dispatch.cancel.as_ref();
    // A run that is being cancelled gets nothing new. If an earlier hand-over
    // arrived unacknowledged, the cancel ends it there.
    let goes_on = live && asks.is_none();
    let none = Needs::default();
    if run.elsewhere().is_some() {
        return none;
    }
    let told = Needs {
        cancel: live && asks.is_some_and(|cancel| !cancel.delivered),
        ..none
    };
    let lift = goes_on && dispatch.hold == Some(Hold::Lifted);
    let rules = goes_on && run.rules_version() > dispatch.rules_delivered;
    match &dispatch.stage {
        Stage::Behind { .. } | Stage::Unplaced => none,
        Stage::Begun { closed: true, .. } | Stage::Over { closed: true, .. } => none,
        Stage::Chosen { .. } => Needs {
            hand_over: (goes_on && run.hold_cause().is_none() && !run.awaits_nodes())
                || dispatch.send_spec,
            ..told
        },
        Stage::Offered { .. } => Needs {
            hand_over: (goes_on && !run.awaits_nodes()) || dispatch.send_spec,
            ..told
        },
        Stage::Accepted { .. } => Needs {
            hand_over: dispatch.send_spec,
            hold: goes_on && matches!(dispatch.hold, Some(Hold::On { told: false, .. })),
            lift,
            rules,
            ..told
        },
        Stage::Recalled { .. } => Needs {
            hand_over: dispatch.send_spec,
            recall: goes_on,
            ..told
        },
        Stage::Begun { unknown_ms, .. } => {
            let known = unknown_ms.is_none() && dispatch.cleaned_ms.is_none();
            let results = known && results(run);
            let sent_all = run.phase().is_end() && dispatch.sent.is_all();
            Needs {
                hand_over: dispatch.send_spec && known,
                lift,
                rules,
                answer: goes_on && run.step_to_tell().is_some(),
                results,
                live_results: run.made.outputs && is_at_work(run),
                // Its points are lost here, and its node is asked for them again.
                close: sent_all && !results && !dispatch.points_again,
                ..told
            }
        }
        Stage::Over { verdict, .. } => {
            let gone = matches!(verdict, Verdict::NodeGone { .. } | Verdict::Reserved { .. });
            let results = !gone && results(run);
            Needs {
                results,
                close: !live && !results,
                ..none
            }
        }
    }
}

/// Whether its job runs.
fn is_at_work(run: &Run) -> bool {
    matches!(run.phase(), Phase::Running | Phase::Ending)
}

/// Whether files of an ended run are to come home. A run that never started has made
/// none, and a folder that was cleaned has none.
fn results(run: &Run) -> bool {
    let made = !run.journal.incarnations.is_empty() && run.has_results();
    let missing = run.dispatch.cleaned_ms.is_none() && !run.dispatch.results.settled();
    let wanted = made && missing;
    run.phase().is_end() && wanted
}

/// Whether a change of a run gives its driver work.
pub fn changed(before: Option<&Run>, after: Option<&Run>) -> bool {
    let Some(after) = after else { return false };
    if after.unplaced() {
        return before.is_none_or(|before| !before.unplaced());
    }
    if of(after).nothing() {
        return false;
    }
    before.is_none_or(|before| asked_of_driver(before) != asked_of_driver(after))
}

/// Everything of a run that its driver acts on.
fn asked_of_driver(run: &Run) -> impl PartialEq + use<'_> {
    let cancel = run.dispatch.cancel.as_ref();
    let placed = (run.node(), run.generation());
    let step = run.step_to_tell().map(|stepped| stepped.of);
    (
        of(run),
        placed,
        cancel,
        run.rules_version(),
        step,
        begun(run),
    )
}

/// Whether a change of a run gives the placer work beside the runs without a
/// node.
pub fn deferred(before: Option<&Run>, after: Option<&Run>) -> bool {
    let deferred = |run: Option<&Run>| run.is_some_and(|run| run.deferred().is_some());
    deferred(after) && !deferred(before)
}

/// Progress of a run, without `Staging`: the sender of the files records that,
/// and would only be woken again by its own record.
fn begun(run: &Run) -> (HandOverStage, Phase) {
    let phase = match run.phase() {
        Phase::Queued => Phase::Staging,
        other => other,
    };
    (
        run.dispatch.stage.handing().max(HandOverStage::Staging),
        phase,
    )
}

/// Whether a node may have a folder of this run.
pub fn lies_there(run: &Run) -> bool {
    let gone = matches!(
        run.dispatch.stage.verdict(),
        Some(Verdict::NodeGone { .. } | Verdict::Reserved { .. })
    );
    run.dispatch.cleaned_ms.is_none() && !gone && run.dispatch.stage.is_accepted()
}
