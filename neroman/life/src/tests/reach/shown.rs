//! A run as the table prints it: its stage, with the marks that decide what may
//! follow. Names, times and numbers are left out, so that another representation
//! of a run can print the same.

use crate::facts::dispatch::RecordsSent;
use crate::facts::hold::Hold;
use crate::facts::stage::{Stage, Verdict};
use crate::fold::run::{Results, Run};
use crate::step::needs::{self, Needs};
use crate::step::recall::Cause;

/// The stage and the marks of a run, and the requests to its node.
pub(super) fn shown(run: &Run) -> String {
    let mut parts = vec![stage(run)];
    parts.extend(marks(run).into_iter().map(str::to_owned));
    let needs = needed(run);
    if !needs.is_empty() {
        parts.push(format!("[{}]", needs.join(" + ")));
    }
    parts.join(", ")
}

fn stage(run: &Run) -> String {
    let sent = |sending: &bool| if *sending { ": sending" } else { "" };
    match &run.dispatch.stage {
        Stage::Behind { .. } => "behind".to_owned(),
        Stage::Unplaced => "unplaced".to_owned(),
        Stage::Chosen { sending, .. } if run.of_several() => format!("chosen{}", sent(sending)),
        // No other node may have it: there is nothing to offer.
        Stage::Chosen { sending, .. } | Stage::Offered { sending, .. } => {
            format!("offered{}", sent(sending))
        }
        Stage::Accepted { queued: false, .. } => "accepted".to_owned(),
        Stage::Accepted { queued: true, .. } => "accepted: waits".to_owned(),
        Stage::Recalled { recall, .. } => {
            let why = match recall.cause() {
                Cause::CannotStart => "refused",
                Cause::NoRoomNow => "deferred",
                Cause::RoomElsewhere => "room elsewhere",
            };
            let asked = if recall.asked { ", node asked" } else { "" };
            format!("recalled: {why}{asked}")
        }
        Stage::Begun { .. } => begun(run),
        Stage::Over { .. } if !run.journal.incarnations.is_empty() => begun(run),
        Stage::Over { verdict, .. } => match verdict {
            Verdict::TakenAway { .. } => "over: cancelled".to_owned(),
            Verdict::Refused { .. } => "over: refused".to_owned(),
            Verdict::NodeGone { .. } => "over: node gone".to_owned(),
            Verdict::Reserved { .. } => "over: reserved".to_owned(),
        },
    }
}

fn begun(run: &Run) -> String {
    let doubt = if run.in_doubt() { " in doubt" } else { "" };
    format!("begun: {}{doubt}", run.phase().as_str())
}

fn marks(run: &Run) -> Vec<&'static str> {
    let dispatch = &run.dispatch;
    let node = run.node().unwrap_or_default();
    let live = run.phase().is_live();
    let begun = !run.journal.incarnations.is_empty();
    let mut marks = Vec::new();
    let mut mark = |word, holds: bool| {
        if holds {
            marks.push(word);
        }
    };
    let cancel = dispatch.cancel.as_ref().filter(|_| !run.has_ended());
    mark("to end", cancel.is_some_and(|cancel| !cancel.delivered));
    mark(
        "to end (told)",
        cancel.is_some_and(|cancel| cancel.delivered),
    );
    let mut deferred = dispatch.deferred.iter().filter(|one| one.node == node);
    mark(
        "deferred",
        live && !begun && deferred.any(|one| one.left_ms.is_none()),
    );
    mark("may be recalled", run.deferred().is_some());
    mark("held", run.hold_cause().is_some());
    mark("hold lifted", dispatch.hold == Some(Hold::Lifted));
    mark("without its spec there", dispatch.send_spec);
    mark(
        "all but watchers sent",
        matches!(dispatch.sent, RecordsSent::AllButWatchers { .. }),
    );
    mark("all records sent", dispatch.sent.is_all());
    mark(
        "node gone",
        begun && matches!(dispatch.stage.verdict(), Some(Verdict::NodeGone { .. })),
    );
    mark(
        "never started by word",
        begun && matches!(dispatch.stage.verdict(), Some(Verdict::TakenAway { .. })),
    );
    mark(
        "refused by word",
        begun && matches!(dispatch.stage.verdict(), Some(Verdict::Refused { .. })),
    );
    mark(
        "unknown there",
        matches!(
            dispatch.stage,
            Stage::Begun {
                unknown_ms: Some(_),
                ..
            }
        ),
    );
    let home = match &dispatch.results {
        Results::Open => "",
        Results::Fetching { .. } => "results coming",
        Results::Done { .. } => "results home",
        Results::Nothing => "no results",
        Results::Failed { .. } => "results given up",
    };
    mark(home, !home.is_empty());
    mark("cleaned", dispatch.cleaned_ms.is_some());
    mark("closed", run.is_closed());
    marks
}

fn needed(run: &Run) -> Vec<&'static str> {
    let Needs {
        hand_over,
        cancel,
        recall,
        hold,
        lift,
        rules: _,
        answer,
        results,
        // True for every run that runs.
        live_results: _,
        close,
    } = needs::of(run);
    let all = [
        (hand_over, "hand over"),
        (cancel, "cancel"),
        (recall, "recall"),
        (hold, "hold"),
        (lift, "let go"),
        (answer, "answer"),
        (results, "results"),
        (close, "close"),
    ];
    let wanted = all.into_iter().filter(|(wanted, _)| *wanted);
    wanted.map(|(_, word)| word).collect()
}

/// The effects of a step besides the stage.
pub(super) fn effects(before: &Run, after: &Run) -> Vec<&'static str> {
    let (old, new) = (&before.dispatch, &after.dispatch);
    let all = [
        (new.came_back > old.came_back, "next generation"),
        (new.excluded.len() > old.excluded.len(), "node excluded"),
        (new.refused.len() > old.refused.len(), "refusal kept"),
        (
            new.left_behind.len() > old.left_behind.len(),
            "left behind there",
        ),
        (new.left_behind.len() < old.left_behind.len(), "ended there"),
        (new.rules_delivered < old.rules_delivered, "rules anew"),
        (new.rules_delivered > old.rules_delivered, "rules there"),
    ];
    let seen = all.into_iter().filter(|(seen, _)| *seen);
    seen.map(|(_, word)| word).collect()
}
