//! What a run still needs from its node. Everything here can be done again
//! without harm: a driver looks, acts, and looks again.

use nero_model::Phase;

use super::run::{Handing, Run, Word};

/// What is to be done for a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// neromum has not accepted it.
    pub hand_over: bool,
    /// A wish that it ends has not been carried there.
    pub cancel: bool,
    /// It is to leave its node, which has not given its word yet.
    pub withdraw: bool,
    /// The node has older rules.
    pub rules: bool,
    /// Its results have to come home.
    pub results: bool,
    /// What it makes comes home as it is produced, where its outputs say so.
    pub live_results: bool,
    /// Nothing more is needed of the node: it may forget the run.
    pub close: bool,
}

impl Needs {
    /// Whether nothing is to be done now.
    pub(crate) fn nothing(self) -> bool {
        self == Self::default()
    }
}

/// What this run needs.
pub(crate) fn of(run: &Run) -> Needs {
    let desk = &run.desk;
    if desk.closed || desk.after.is_some() || run.node().is_none() {
        return Needs::default();
    }
    let live = run.phase().is_live();
    let unsent = desk.handing < Handing::Submitted && desk.word.is_none();
    let ended = run.phase().is_end();
    // Nothing of it lies anywhere any more.
    let gone = desk.cleaned_ms.is_some()
        || desk.unknown_ms.is_some()
        || matches!(desk.word, Some(Word::NodeGone { .. }));
    // One that never started has made nothing.
    let began = !run.journal.incarnations.is_empty();
    let results = ended && !gone && !desk.results.settled() && began && run.has_results();
    Needs {
        // A run that is to end is not sent any more; one that was sent without
        // our knowing is ended by the cancel.
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

/// Whether a change of a run gives its driver something to do.
pub(crate) fn changed(before: Option<&Run>, after: Option<&Run>) -> bool {
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

/// Whether a change of a run gives the placer something to do beside those that
/// wait for a node.
pub(crate) fn put_off(before: Option<&Run>, after: Option<&Run>) -> bool {
    let put_off = |run: Option<&Run>| run.is_some_and(|run| run.put_off().is_some());
    put_off(after) && !put_off(before)
}

/// How far a run has come; that its files are on their way is written down by
/// whoever sends them, who would only try again at once.
fn begun(run: &Run) -> (Handing, Phase) {
    let phase = match run.phase() {
        Phase::Queued => Phase::Staging,
        other => other,
    };
    (run.desk.handing.max(Handing::Staging), phase)
}
