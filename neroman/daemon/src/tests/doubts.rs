//! What a node and the daemon do not agree about: runs that one of them does not
//! know, or takes for over.

use std::time::Duration;

use nero_journal::v1::{self as journal, RecordKind};
use nero_model::{ExperimentId, RunId};
use nero_wire::v1;
use nero_wire::v1::run_state::Stage;

use super::nodes::was_told;
use super::stories::{TWO, added, begun, sent};
use super::{DEADLINE, select};
use nero_home::ledger::Audience;
use nero_life::run::Run;
use nero_life::state::State;

#[tokio::test]
async fn a_run_that_the_node_never_got_is_handed_over_again() {
    let (rig, token) = sent(TWO).await;
    was_told(&rig, 1).await;
    rig.mum.forget(&token);
    rig.mum.cut(false);
    assert_eq!(rig.mum.token(1, 1).await, token);
    assert!(rig.mum.hand_overs() >= 2);
    rig.stop().await;
}

#[tokio::test]
async fn a_node_that_did_not_hear_that_it_may_forget_is_told_again() {
    let (rig, token) = sent(TWO).await;
    rig.mum.begin(&token);
    rig.mum.end(&token, 0, b"");
    rig.mum.closed(&token).await;
    // As after a kill between writing it down and saying it.
    rig.mum.unclose(&token);
    rig.mum.cut(false);
    let away = |node: &v1::NodeView| !node.connected;
    rig.until_node("local", away).await;
    rig.man.nodes.channel("local", DEADLINE).await.unwrap();
    rig.mum.closed(&token).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_reached_its_node_after_its_end_here_is_ended_there() {
    let (rig, token) = sent(TWO).await;
    rig.until(1, "was told", |view| view.state == "submitted")
        .await;
    // What carried the run is overtaken by the cancel request over another
    // connection.
    rig.mum.forget(&token);
    rig.abort("1").await;
    rig.state(1, "aborted").await;
    rig.mum.recall(&token);
    rig.mum.begin(&token);
    rig.mum.cancelled_times(&token, 2).await;
    rig.mum.closed(&token).await;
    assert_eq!(rig.view(1).await.state, "aborted");
    rig.stop().await;
}

#[tokio::test]
async fn a_run_ended_here_stays_ended_whatever_its_node_reports() {
    let rig = added(TWO).await;
    rig.start("1-2").await;
    // The second is closed at once, the first one a second later.
    for id in [2, 1] {
        let token = rig.mum.token(id, 1).await;
        rig.until(id, "was told", |view| view.state == "submitted")
            .await;
        rig.mum.forget(&token);
        rig.abort(&id.to_string()).await;
        rig.state(id, "aborted").await;
        rig.mum.recall(&token);
        if id == 2 {
            rig.mum.closed(&token).await;
        } else {
            rig.mum.begin(&token);
            rig.mum.cancelled_times(&token, 2).await;
            rig.mum.closed(&token).await;
        }
    }
    let rig = rig.restart().await;
    assert_eq!(rig.view(1).await.state, "aborted");
    rig.stop().await;
}

#[tokio::test]
async fn a_cancel_that_meets_a_run_on_its_way_to_the_queue_is_carried_there_again() {
    let (rig, token) = sent(TWO).await;
    rig.until(1, "was told", |view| view.state == "submitted")
        .await;
    rig.mum.forget(&token);
    rig.mum.place(true);
    rig.abort("1").await;
    rig.mum.cancelled_times(&token, 1).await;
    rig.mum.recall(&token);
    rig.mum.begin(&token);
    rig.mum.cancelled_times(&token, 2).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_its_node_forgot_is_lost_until_it_is_known_again() {
    let (rig, token) = begun(TWO).await;
    rig.mum.forget(&token);
    rig.mum.cut(false);
    let view = rig.state(1, "lost").await;
    assert_eq!(view.reason, "its node does not know it any more");
    // Nothing of it is waited for.
    let request = v1::ListRequest {
        selection: select("1"),
        settle: true,
        ..v1::ListRequest::default()
    };
    let listed = tokio::time::timeout(Duration::from_secs(2), rig.man.list(request));
    listed.await.expect("an answer at once").unwrap();
    let warned = view.warnings.join("; ");
    assert!(warned.contains("neroman abort 1.1"), "{warned}");
    let rig = rig.restart().await;
    let refused = rig.restart_runs("1").await.experiments.remove(0).skipped;
    assert!(refused.contains("may still run on local"), "{refused}");
    rig.mum.recall(&token);
    rig.mum.cut(false);
    rig.state(1, "running").await;
    rig.mum.end(&token, 0, b"");
    rig.state(1, "finished").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_begun_run_that_its_node_loses_while_its_spec_is_sent_again_is_not_started_anew() {
    let (rig, token) = begun(TWO).await;
    rig.mum.forget(&token);
    // Its last words before it lost the run arrive late.
    rig.mum.wants_spec(&token);
    let view = rig.state(1, "lost").await;
    assert_eq!(view.reason, "its node does not know it any more");
    assert_eq!(rig.mum.sent_again(&token), 1);
    assert!(!rig.mum.has(1, 1));
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_its_node_forgot_can_be_given_up() {
    let first = RunId {
        experiment: ExperimentId(1),
        number: 1,
    };
    let (rig, token) = begun(TWO).await;
    // The next run waits for its end.
    assert_eq!(rig.restart_runs("1").await.experiments[0].run, 2);
    rig.mum.cancelled(&token).await;
    rig.mum.forget(&token);
    rig.mum.cut(false);
    let forgotten = |state: &State| state.run(first).is_some_and(Run::forgotten);
    let mut states = rig.man.ledger.watch(Audience::Everyone);
    states.wait_for(|state| forgotten(state)).await.unwrap();
    let clean = || v1::CleanAskRequest {
        selection: select("1.1"),
        ..v1::CleanAskRequest::default()
    };
    let stays = rig.man.clean(clean()).await.unwrap().runs.remove(0).skipped;
    assert!(stays.contains("neroman abort gives it up"), "{stays}");
    let abort = v1::AbortRequest {
        selection: select("1.1"),
        author: "me".to_owned(),
        ..v1::AbortRequest::default()
    };
    let aborted = rig.man.abort(abort).await.unwrap().experiments.remove(0);
    assert_eq!(aborted.outcome, "given up");
    let rig = rig.restart().await;
    let state = rig.man.ledger.state();
    let run = state.run(first).unwrap();
    assert!(!run.open() && !run.in_doubt());
    assert_eq!(run.reason().unwrap().to_string(), "node gone: me said so");
    assert!(rig.man.clean(clean()).await.unwrap().runs.is_empty());
    // Nothing is waited for: the next run goes on, and the old one is ended
    // should it be there after all.
    rig.mum.token(1, 2).await;
    rig.mum.recall(&token);
    rig.mum.stage(&token, Stage::Running);
    rig.mum.cancelled_times(&token, 2).await;
    rig.stop().await;
}

#[tokio::test]
async fn an_end_that_was_told_is_the_same_after_a_restart_whatever_was_heard_later() {
    let (rig, token) = sent(TWO).await;
    rig.mum.begin(&token);
    rig.mum.record(
        &token,
        RecordKind::JobExited,
        &journal::JobExited {
            code: 3,
            ..journal::JobExited::default()
        },
    );
    rig.mum
        .record(&token, RecordKind::TreeGone, &journal::TreeGone::default());
    let told = rig.state(1, "crashed").await;
    assert_eq!(told.reason, "exit code 3");
    rig.mum.stop_late(&token);
    // What comes after it says that it was read.
    let said = journal::Notice::of("heard");
    rig.mum.record(&token, RecordKind::Notice, &said);
    rig.until(1, "read on", |view| {
        view.warnings.iter().any(|warning| warning == "heard")
    })
    .await;
    let rig = rig.restart().await;
    let view = rig.view(1).await;
    assert_eq!((view.state, view.reason), (told.state, told.reason));
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_is_folded_anew_after_its_end_has_ended_for_the_next_daemon_too() {
    let (rig, token) = sent(TWO).await;
    rig.mum.begin(&token);
    let exited = journal::JobExited {
        code: 3,
        ..journal::JobExited::default()
    };
    rig.mum.record(&token, RecordKind::JobExited, &exited);
    rig.mum
        .record(&token, RecordKind::TreeGone, &journal::TreeGone::default());
    rig.state(1, "crashed").await;
    rig.mum.contradict(&token);
    let first = RunId {
        experiment: ExperimentId(1),
        number: 1,
    };
    let emptied = |run: &Run| run.journal.segments.is_empty();
    let mut states = rig.man.ledger.watch(Audience::Everyone);
    states
        .wait_for(|state| state.run(first).is_some_and(emptied))
        .await
        .unwrap();
    // It leaves before any record comes again.
    let rig = rig.restart().await;
    let view = rig.view(1).await;
    assert_eq!((&*view.state, &*view.reason), ("crashed", "exit code 3"));
    rig.stop().await;
}

#[tokio::test]
async fn a_run_of_which_only_records_came_is_lost_when_its_node_forgets_it() {
    let rig = added(TWO).await;
    // It takes the run; that it did is never said.
    rig.mum.defer_what_it_has("the answer is lost");
    rig.start("1").await;
    let token = rig.mum.token(1, 1).await;
    rig.mum
        .record(&token, RecordKind::Claimed, &journal::Claimed::default());
    rig.state(1, "pending").await;
    rig.mum.forget(&token);
    rig.mum.cut(false);
    let view = rig.state(1, "lost").await;
    assert_eq!(view.reason, "its node does not know it any more");
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_is_to_end_is_over_when_its_node_lost_it_with_the_cancel() {
    let (rig, token) = sent(TWO).await;
    rig.until(1, "was told", |view| view.state == "submitted")
        .await;
    // Its shim got the cancel, but no report about that arrived here.
    rig.mum.holds(&token, Stage::Starting);
    rig.abort("1").await;
    rig.mum.cancelled_times(&token, 1).await;
    let told = |state: &State| {
        let run = state.run(RunId {
            experiment: ExperimentId(1),
            number: 1,
        });
        run.is_some_and(|run| run.cancel().is_some_and(|cancel| cancel.delivered))
    };
    let mut states = rig.man.ledger.watch(Audience::Everyone);
    states.wait_for(|state| told(state)).await.unwrap();
    rig.mum.forget(&token);
    rig.mum.cut(false);
    rig.state(1, "aborted").await;
    rig.stop().await;
}
