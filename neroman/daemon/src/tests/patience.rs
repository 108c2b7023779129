//! How long the daemon waits for a node that has the connection and says nothing. The clock is
//! stopped while such a call is under way: then only the rule's own time passes.

use std::time::Duration;

use nero_wire::v1;
use tokio::task::yield_now;
use tokio::time::{advance, pause, resume};

use super::mum::FakeMum;
use super::nodes::{gone, lose, regain, running_on_alpha};
use super::stories::{TWO, added, begun};
use super::transfers::{OUTPUTS, home};
use super::{Rig, select};

const SECOND: Duration = Duration::from_secs(1);
const FILES: &str = "collection: lab\n+a: {command: echo, files: [a]}\n+b: {command: echo, files: [a]}\n\
                     +c: {command: echo, files: [a]}\n";

/// Lets the daemon's time pass.
async fn passes(time: Duration) {
    pause();
    for _ in 0..time.as_secs() {
        advance(SECOND).await;
        // Tasks whose time has come, and those that they wake.
        for _ in 0..20 {
            yield_now().await;
        }
    }
    resume();
}

/// The call that the node does not answer is given up after this time, and not before.
async fn is_given_up_after(limit: Duration, mum: &FakeMum) {
    mum.until_unanswered().await;
    let before = mum.given_up();
    passes(limit - SECOND).await;
    assert_eq!(mum.given_up(), before, "a node may take this long");
    passes(2 * SECOND).await;
    mum.until_given_up(before + 1).await;
    mum.silence(None);
}

#[tokio::test]
async fn a_hand_over_without_an_answer_is_tried_again_after_a_minute() {
    let rig = added(TWO).await;
    rig.mum.silence(Some("hand_over"));
    rig.start("1").await;
    is_given_up_after(60 * SECOND, &rig.mum).await;
    passes(30 * SECOND).await;
    let token = rig.mum.token(1, 1).await;
    rig.mum.begin(&token);
    rig.state(1, "running").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_cancel_without_an_answer_is_sent_again_after_a_minute() {
    let (rig, token) = begun(TWO).await;
    rig.mum.silence(Some("cancel"));
    tokio::join!(rig.abort("1"), is_given_up_after(60 * SECOND, &rig.mum));
    passes(30 * SECOND).await;
    rig.mum.cancelled(&token).await;
    rig.stop().await;
}

#[tokio::test]
async fn rules_without_an_answer_are_sent_again_after_a_minute() {
    let (rig, _) = begun(TWO).await;
    rig.mum.silence(Some("set_rules"));
    let request = v1::RuleAddRequest {
        selection: select("1"),
        action: "abort".to_owned(),
        text: "loss>7".to_owned(),
        ..v1::RuleAddRequest::default()
    };
    rig.man.rule_add(request).await.unwrap();
    is_given_up_after(60 * SECOND, &rig.mum).await;
    passes(30 * SECOND).await;
    rig.mum.has_rules(1).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_node_that_comes_back_has_a_minute_to_end_what_was_given_up() {
    let (rig, token) = running_on_alpha().await;
    lose(&rig, "alpha").await;
    gone(&rig, "alpha", false).await;
    let alpha = rig.node("alpha");
    alpha.silence(Some("cancel"));
    regain(&rig, "alpha").await;
    is_given_up_after(60 * SECOND, &alpha).await;
    passes(60 * SECOND).await;
    alpha.cancelled(&token).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_node_has_two_minutes_to_report_which_files_it_lacks() {
    let rig = files_of_three().await;
    rig.mum.silence(Some("missing_blobs"));
    rig.start("1").await;
    is_given_up_after(120 * SECOND, &rig.mum).await;
    passes(30 * SECOND).await;
    rig.mum.token(1, 1).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_node_is_believed_for_ten_minutes_that_it_has_files() {
    let rig = files_of_three().await;
    rig.start("1").await;
    rig.mum.token(1, 1).await;
    let asked = rig.mum.count_asked_for_files();
    passes(590 * SECOND).await;
    rig.start("2").await;
    rig.mum.token(2, 1).await;
    assert_eq!(rig.mum.count_asked_for_files(), asked);
    passes(11 * SECOND).await;
    rig.start("3").await;
    rig.mum.token(3, 1).await;
    assert_eq!(rig.mum.count_asked_for_files(), asked + 1);
    rig.stop().await;
}

#[tokio::test]
async fn a_list_of_results_may_take_two_minutes() {
    results_may_be_silent_for("list_files").await;
}

#[tokio::test]
async fn a_stream_of_results_may_be_silent_for_two_minutes() {
    results_may_be_silent_for("read_files").await;
}

#[tokio::test]
async fn a_log_on_its_way_home_may_be_silent_for_two_minutes() {
    results_may_be_silent_for("read_log").await;
}

async fn results_may_be_silent_for(call: &'static str) {
    let (rig, token) = begun(OUTPUTS).await;
    rig.mum.file("f", b"content");
    rig.mum.silence(Some(call));
    rig.mum.end(&token, 0, b"said");
    is_given_up_after(120 * SECOND, &rig.mum).await;
    let folder = home(&rig, &token).await;
    assert_eq!(std::fs::read(folder.join("f")).unwrap(), b"content");
    rig.stop().await;
}

#[tokio::test]
async fn a_node_has_five_minutes_to_measure_its_disk() {
    let (rig, _) = begun(TWO).await;
    rig.mum.silence(Some("disk_usage"));
    let man = rig.man.clone();
    let asking = tokio::spawn(async move { man.du(v1::DuRequest::default()).await });
    is_given_up_after(300 * SECOND, &rig.mum).await;
    let reply = asking.await.unwrap().unwrap();
    let failed = &reply.nodes[0].failed;
    assert!(
        failed.contains("does not report its disk usage"),
        "{failed}"
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_node_has_ten_minutes_to_remove_runs() {
    let (rig, token) = begun(OUTPUTS).await;
    rig.mum.end(&token, 0, b"");
    home(&rig, &token).await;
    rig.mum.silence(Some("clean"));
    let (man, request) = (
        rig.man.clone(),
        v1::CleanAskRequest {
            selection: select("1"),
            ..v1::CleanAskRequest::default()
        },
    );
    let asking = tokio::spawn(async move { man.clean(request).await });
    is_given_up_after(600 * SECOND, &rig.mum).await;
    let reply = asking.await.unwrap();
    assert!(reply.is_err() || !reply.unwrap().nodes[0].failed.is_empty());
    rig.stop().await;
}

async fn files_of_three() -> Rig {
    let rig = Rig::new();
    rig.write(FILES);
    std::fs::write(rig.folder.join("a"), "content").unwrap();
    rig.add().await;
    rig
}
