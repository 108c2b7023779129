//! What holds in every step of a run, whatever its nodes, people and the daemon do. The explorer
//! (`reach`) and the walk of many runs (`walk`) judge each of their steps by this list.

use crate::facts::stage::Stage;
use crate::fold::run::Run;

/// A step of a run: the run before and after it, and what the nodes of the world know of it.
pub(super) struct Observation<'a> {
    pub before: &'a Run,
    pub after: &'a Run,
    /// What happened, in the words of the explorer.
    pub label: &'a str,
    /// Whether the daemon was told; else only the world moved.
    pub heard: bool,
    /// Whether it is its node's own promise about the run, or a person's decision about the node.
    pub word: bool,
    /// Whether a node lost the run, or a person called a living node gone.
    pub deceived: bool,
    /// Number of nodes that may start the run after the step.
    pub may_start: usize,
    /// Number of nodes that started a job of it.
    pub ran: usize,
    /// What its node of before knows of it; `None`: it had no node.
    pub there: Option<Presence>,
    /// Whether its node of after holds it while it waits there.
    pub is_held_there: bool,
    /// Whether a node that was told to hold it started its job.
    pub ran_held: bool,
}

/// What the node that a run had before a step knows of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Presence {
    /// Whether the node had it before.
    pub had: bool,
    /// Whether the node could start it before, and after.
    pub could_start: bool,
    pub may_start: bool,
    /// Whether nothing changed on the node.
    pub is_same: bool,
    /// Whether the node took it in as a new run.
    pub is_new: bool,
    /// Whether neroman knows that the node is to end it.
    pub is_left_behind: bool,
}

/// The promise that a step breaks, if any.
pub(super) fn broken(step: &Observation<'_>) -> Option<&'static str> {
    let (before, after, label) = (step.before, step.after, step.label);
    let live = after.phase().is_live();
    let offered = |run: &Run| {
        let node = run
            .node()
            .filter(|_| run.of_several() && run.may_be_there());
        node.map(str::to_owned)
    };
    let undone = offered(before).is_some() && offered(before) != offered(after);
    // A run for one node is sent without an offer.
    let is_offered = label == "it is offered"
        || label == "it is sent" && matches!(before.dispatch.stage, Stage::Chosen { .. });
    let there = step.there;
    let is_so = |holds: fn(Presence) -> bool| there.is_none_or(holds);
    let promises = [
        (
            "one node at most may start a run",
            step.deceived || step.may_start <= 1,
        ),
        (
            "a job is started on one node at most",
            step.deceived || step.ran <= 1,
        ),
        (
            "an offer is undone by a word of its node alone",
            step.word || !(live && undone),
        ),
        (
            "an end stays",
            !before.has_ended() || before.phase() == after.phase(),
        ),
        (
            "an end is the same when it is judged anew",
            !after.has_ended() || after.has_its_end_from(&after.journal),
        ),
        (
            "a run that its node may start is ended there after the node is given up",
            label != "a person says: node gone"
                || !before.of_several()
                || is_so(|there| there.is_left_behind || !there.could_start),
        ),
        (
            "what is closed stays closed",
            !before.is_closed() || after.is_closed(),
        ),
        (
            "a run that is to end is placed nowhere else",
            before.node() == after.node() || before.dispatch.cancel.is_none(),
        ),
        (
            "a run that its node has is not ended by what is here",
            !label.starts_with("its files are not here")
                || !(before.reached_its_node() || there.is_some_and(|there| there.had))
                || before.phase() == after.phase(),
        ),
        (
            "a run that is to end waits for a word of its node that comes",
            !(label.ends_with("it is unknown") || label.ends_with("it is given back"))
                || !live
                || after
                    .dispatch
                    .cancel
                    .as_ref()
                    .is_none_or(|cancel| !cancel.delivered),
        ),
        (
            "no run is taken as new where it is known to have begun",
            before.journal.incarnations.is_empty() || is_so(|there| !there.is_new),
        ),
        (
            "a run that its node ended before its start never starts there",
            !(label.ends_with("end it: unknown") || label.ends_with("end it: never started"))
                || is_so(|there| !there.may_start),
        ),
        (
            "its own node is not told to end a live run that was left behind",
            label != "a node that it was left behind on ends it"
                || !live
                || is_so(|there| there.is_same),
        ),
        (
            "a held run is not sent to a node that cannot have it yet",
            !is_offered || before.hold_cause().is_none() || before.dispatch.send_spec,
        ),
        (
            "a node that holds a run is told when it is not to",
            !after.phase().is_live()
                || after.dispatch.cancel.is_some()
                || step.deceived
                || !step.is_held_there
                || after.dispatch.hold.is_some(),
        ),
        (
            "a run that its node holds does not start there",
            !step.heard || label != "the node holds it" || !step.ran_held,
        ),
        (
            "a run that is to end is not sent",
            label != "it is sent" || before.dispatch.cancel.is_none() || before.dispatch.send_spec,
        ),
    ];
    let mut promises = promises.into_iter();
    promises.find(|(_, holds)| !holds).map(|(what, _)| what)
}
