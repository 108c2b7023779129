//! The work that a run still needs from its node. All of it can be repeated
//! without harm: a driver looks, acts, and looks again.

use nero_model::Phase;

use super::run::{Handing, Run, Word};

/// Work to do for a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// neromum has not accepted it.
    pub hand_over: bool,
    /// A cancel has not reached the node.
    pub cancel: bool,
    /// The run is to leave its node, which has not answered yet.
    pub withdraw: bool,
    /// The node has older rules.
    pub rules: bool,
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
    let desk = &run.desk;
    if desk.closed || desk.after.is_some() || run.node().is_none() {
        return Needs::default();
    }
    let live = run.phase().is_live();
    let unsent = desk.handing < Handing::Submitted && desk.word.is_none();
    let ended = run.phase().is_end();
    // No node has files of it any more.
    let gone = desk.cleaned_ms.is_some()
        || desk.unknown_ms.is_some()
        || matches!(desk.word, Some(Word::NodeGone { .. }));
    // A run that never started has made no files.
    let began = !run.journal.incarnations.is_empty();
    let results = ended && !gone && !desk.results.settled() && began && run.has_results();
    Needs {
        // Do not hand over a run that is being cancelled. If an earlier
        // hand-over arrived unacknowledged, the cancel ends it there.
        hand_over: (live && unsent && !desk.leaves() && desk.wish.is_none() && !began)
            || (desk.send_spec && !gone && desk.word.is_none()),
        cancel: live && desk.wish.as_ref().is_some_and(|wish| !wish.delivered),
        withdraw: live && desk.leaves() && !began,
        rules: live
            && !unsent
            && !desk.leaves()
            && run.rules_version() > desk.rules_delivered
            && desk.wish.is_none(),
        results,
        live_results: matches!(run.phase(), Phase::Running | Phase::Ending) && run.made.outputs,
        close: ended && !results && (desk.settled || desk.word.is_some()),
    }
}

/// Whether a change of a run gives its driver work.
pub fn changed(before: Option<&Run>, after: Option<&Run>) -> bool {
    let Some(after) = after else { return false };
    if after.unplaced() {
        return before.is_none_or(|before| !before.unplaced());
    }
    let now = of(after);
    if now.nothing() {
        return false;
    }
    let Some(before) = before else { return true };
    now != of(before)
        || before.node() != after.node()
        || before.desk.wish != after.desk.wish
        || before.rules_version() != after.rules_version()
        || begun(before) != begun(after)
}

/// Whether a change of a run gives the placer work beside the runs without a
/// node.
pub fn put_off(before: Option<&Run>, after: Option<&Run>) -> bool {
    let put_off = |run: Option<&Run>| run.is_some_and(|run| run.put_off().is_some());
    put_off(after) && !put_off(before)
}

/// Progress of a run, without `Staging`: the sender of the files records that,
/// and would only be woken again by its own record.
fn begun(run: &Run) -> (Handing, Phase) {
    let phase = match run.phase() {
        Phase::Queued => Phase::Staging,
        other => other,
    };
    (run.desk.handing.max(Handing::Staging), phase)
}
