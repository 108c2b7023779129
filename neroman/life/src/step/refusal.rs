//! A node that cannot have a run which other nodes may have: the run goes back to
//! the placer, and never to that node again.

use super::deferred;
use crate::facts::dispatch::Dispatch;
pub use crate::facts::leaving::Refusal;
use crate::facts::now::Moment;
use crate::facts::text::bounded;
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::run::Run;

/// How a run leaves a node that never starts it.
#[derive(Clone, Copy, Debug)]
pub(super) enum DepartureKind<'a> {
    /// The node refused it: it never goes there again.
    Refused,
    /// The node had no room for it, or another one had: it may go there again.
    ForNow(&'a Moment),
    /// Another node had room, and a folder of the run lies on this one: it never
    /// goes there again.
    ForGood(&'a Moment),
}

/// The changes from a refusal. `only_here` means that no job of the run was
/// started there, nor will be, and that another node may take it; `lacks` is the
/// reason without the node's name.
pub(crate) fn refused(
    run: &Run,
    mut refusal: Refusal,
    lacks: Option<&str>,
    only_here: bool,
) -> Vec<Change> {
    if only_here && may_move(run) {
        // With several nodes each is named beside its words anyway.
        refusal.why = lacks.map_or(refusal.why, bounded);
        return leave_node(run, refusal, &DepartureKind::Refused);
    }
    // A refusal that comes late does not end a run that has begun.
    if !run.dispatch.stage.is_before_start() {
        return Vec::new();
    }
    let why = with_hint(&refusal.why, &refusal.hint);
    let at_ms = refusal.at_ms;
    let change = dispatch_changed(run, |dispatch| dispatch.never_starts(why, at_ms));
    change.into_iter().collect()
}

/// Takes a run back from a node that will not start it.
pub(super) fn leave_node(run: &Run, refusal: Refusal, leaves: &DepartureKind<'_>) -> Vec<Change> {
    let id = run.made.id;
    let how = match leaves {
        DepartureKind::Refused => "refused by",
        DepartureKind::ForNow(_) | DepartureKind::ForGood(_) => "recalled from",
    };
    let event = Change::Event {
        experiment: id.experiment,
        run: Some(id.number),
        at_ms: refusal.at_ms,
        text: format!("{id}: {how} {}: {}", refusal.node, refusal.why),
    };
    vec![become_so(run, without_node(run, refusal, leaves)), event]
}

/// The run's change to this dispatch.
pub(super) fn become_so(run: &Run, dispatch: Dispatch) -> Change {
    Change::Dispatch {
        run: run.made.id,
        dispatch: Box::new(dispatch),
        rules: None,
    }
}

/// Whether another node may have the run after its own refused it.
fn may_move(run: &Run) -> bool {
    let stage = &run.dispatch.stage;
    let waits = stage.is_before_start() && !stage.is_accepted();
    run.of_several() && waits
}

fn without_node(run: &Run, refusal: Refusal, leaves: &DepartureKind<'_>) -> Dispatch {
    let mut dispatch = run.dispatch.clone();
    if dispatch.cancel.is_some() {
        dispatch.never_starts(refusal.why, refusal.at_ms);
        return dispatch;
    }
    match leaves {
        DepartureKind::ForNow(now) => {
            deferred::left(&mut dispatch, &refusal.node, &refusal.why, now)
        }
        DepartureKind::ForGood(now) => {
            deferred::left(&mut dispatch, &refusal.node, &refusal.why, now);
            dispatch.excluded.push(refusal.node);
        }
        DepartureKind::Refused => {
            dispatch.excluded.push(refusal.node.clone());
            dispatch.refused.push(refusal);
        }
    }
    dispatch.leave_node();
    dispatch
}

/// A reason with its hint.
pub fn with_hint(why: &str, hint: &str) -> String {
    match hint {
        "" => why.to_owned(),
        hint => format!("{why} ({hint})"),
    }
}

/// The hints of several refusals, each once.
pub fn hints(refused: &[Refusal]) -> String {
    let mut hints: Vec<&str> = Vec::new();
    for refusal in refused {
        if !refusal.hint.is_empty() && !hints.contains(&refusal.hint.as_str()) {
            hints.push(&refusal.hint);
        }
    }
    hints.join("; ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nero_model::Phase;

    use super::*;
    use crate::facts::journal::Journal;
    use crate::facts::stage::{HandOverStage, Stage};
    use crate::fold::run::Cancel;
    use crate::tests::lab::{made, run};

    fn placed(asked: &str, node: &str) -> Run {
        let made = made(run(1, 1), asked);
        let dispatch = Dispatch {
            stage: Stage::Offered {
                node: node.to_owned(),
                sending: true,
            },
            rules_version: 1,
            ..Dispatch::default()
        };
        Run::judged(Arc::new(made), dispatch, Arc::default(), Arc::default())
    }

    fn no(node: &str) -> Refusal {
        Refusal {
            node: node.to_owned(),
            why: format!("node {node}: no data"),
            hint: "put it there".to_owned(),
            at_ms: 5,
        }
    }

    /// The run after a refusal, and the lines of its history.
    fn after(mut run: Run, only_here: bool) -> (Run, Vec<String>) {
        let mut lines = Vec::new();
        for change in refused(&run, no("h1"), Some("no data"), only_here) {
            match change {
                Change::Dispatch { dispatch, .. } => run.update(Some(*dispatch), None),
                Change::Event { text, .. } => lines.push(text),
                other => panic!("{other:?}"),
            }
        }
        (run, lines)
    }

    #[test]
    fn a_run_of_a_group_goes_back_and_never_there_again() {
        let (run, lines) = after(placed("lab", "h1"), true);
        assert!(run.unplaced(), "{run:?}");
        let kept = &run.dispatch.refused[0];
        assert_eq!((&*kept.node, &*kept.why), ("h1", "no data"));
        assert_eq!(run.dispatch.excluded, ["h1"]);
        assert_eq!(lines, ["1.1: refused by h1: no data"]);
    }

    #[test]
    fn the_words_of_an_older_node_are_kept_as_they_are() {
        let run = placed("lab", "h1");
        let refusal = Refusal {
            why: "node h1: no data".to_owned(),
            ..no("h1")
        };
        let [Change::Dispatch { dispatch, .. }, _] = &refused(&run, refusal, None, true)[..] else {
            panic!("it goes back");
        };
        assert_eq!(dispatch.refused[0].why, "node h1: no data");
    }

    #[test]
    fn a_run_of_one_node_ends_as_does_one_that_no_node_can_have() {
        for (asked, only_here) in [("h1", true), ("lab", false)] {
            let (run, lines) = after(placed(asked, "h1"), only_here);
            assert_eq!(run.phase(), Phase::Crashed);
            let why = run.reason().unwrap().to_string();
            assert_eq!(why, "node h1: no data (put it there)", "{asked}");
            assert!(lines.is_empty() && run.dispatch.refused.is_empty());
        }
    }

    #[test]
    fn a_run_that_may_have_begun_stays() {
        let mut begun = placed("lab", "h1");
        let mut journal = Journal::default();
        journal.incarnations.insert(1, Box::default());
        begun.update(None, Some(Arc::new(journal)));
        let mut accepted = placed("lab", "h1");
        accepted.dispatch.stage.advance(HandOverStage::Submitted);
        for run in [begun, accepted] {
            let (run, _) = after(run, true);
            assert_eq!(run.node(), Some("h1"));
            assert!(run.dispatch.refused.is_empty());
        }
    }

    #[test]
    fn a_run_that_is_being_cancelled_is_aborted_when_its_node_refuses_it() {
        let mut run = placed("lab", "h1");
        run.dispatch.cancel = Some(Box::new(Cancel {
            asked_ms: 3,
            author: "me".to_owned(),
            grace_ms: 0,
            signal: 0,
            delivered: false,
            rule: None,
        }));
        for only_here in [true, false] {
            let (run, _) = after(run.clone(), only_here);
            assert_eq!(run.phase(), Phase::Aborted, "{only_here}");
        }
    }
}
