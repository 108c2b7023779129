//! Nodes that are out of reach, gone, or back.

use nero_wire::v1;
use nero_wire::v1::node_event::Event;

use super::nodes::{
    both, connect, gone, lose, ran_on_alpha, regain, running_on_alpha, start_on, was_told,
};
use super::unasked_notes::{Heard, follow_log, wait};
use super::{DEADLINE, Rig};

/// A log that is followed while nothing more is heard of its node, since only
/// a person opens the way there.
pub(super) async fn followed_unheard() -> (Rig, Heard<v1::LogChunk>) {
    let (rig, _) = running_on_alpha().await;
    rig.node("alpha").lock(true);
    rig.node("alpha").cut(false);
    rig.until_node("alpha", |node| node.needs_person).await;
    let log = follow_log(&rig, "1");
    (rig, log)
}

#[tokio::test]
async fn a_node_that_is_back_is_not_gone_and_one_that_comes_back_is_told() {
    let (rig, token) = running_on_alpha().await;
    lose(&rig, "alpha").await;
    // It is there again, and its next try is seconds away.
    rig.node("alpha").cut(false);
    let request = v1::NodeGoneRequest {
        name: "alpha".to_owned(),
        ..v1::NodeGoneRequest::default()
    };
    let refused = rig.man.node_gone(request).await.unwrap_err();
    assert_eq!(refused.to_string(), "node alpha is not gone");
    lose(&rig, "alpha").await;
    assert_eq!(gone(&rig, "alpha", false).await, [(1, "lost".to_owned())]);
    rig.node("alpha").cut(false);
    // The daemon ends it without a command.
    rig.node("alpha").cancelled(&token).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_log_that_is_followed_ends_with_the_word_that_its_node_is_gone() {
    let (rig, log) = followed_unheard().await;
    gone(&rig, "alpha", false).await;
    assert!(log.end().await.is_err());
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_a_node_may_have_stays_there_until_proof() {
    let rig = both((4.0, 1.0));
    rig.node("alpha").swallow(true);
    rig.add().await;
    start_on(&rig, "1", "both").await.unwrap();
    let token = rig.node("alpha").token(1, 1).await;
    rig.until(1, "was out of reach", |view| {
        view.contact.contains("no contact")
    })
    .await;
    let rig = rig.restart().await;
    // Long after a run that it never got would have been placed anew.
    start_on(&rig, "2", "both").await.unwrap();
    rig.node("beta").token(2, 1).await;
    was_told(&rig, 2).await;
    tokio::time::timeout(
        std::time::Duration::from_millis(700),
        rig.node("beta").token(1, 1),
    )
    .await
    .expect_err("it must not go to another node");
    assert_eq!(rig.view(1).await.node, "alpha");
    rig.node("alpha").swallow(false);
    regain(&rig, "alpha").await;
    rig.node("alpha").begin(&token);
    rig.state(1, "running").await;
    assert!(!rig.node("beta").has(1, 1));
    rig.stop().await;
}

#[tokio::test]
async fn a_way_that_only_a_person_opens_is_not_tried_before() {
    let rig = both((1.0, 1.0));
    rig.node("alpha").lock(true);
    rig.add().await;
    start_on(&rig, "1", "alpha").await.unwrap();
    let needs = |node: &v1::NodeView| node.needs_person && node.next_try_ms == 0;
    let node = rig.until_node("alpha", needs).await;
    assert_eq!((node.hint.as_str(), node.connected), ("connect it", false));
    assert!(node.why_not.contains("password"));
    let tries = rig.node("alpha").tries();
    // Nothing that happens elsewhere, and no reader, makes another try.
    start_on(&rig, "2", "beta").await.unwrap();
    rig.node("beta").token(2, 1).await;
    let denied = rig.man.nodes.channel("alpha", DEADLINE).await.unwrap_err();
    assert!(denied.to_string().contains("password"), "{denied}");
    assert_eq!(rig.node("alpha").tries(), tries);
    // A client that brings another agent does, and a person's word.
    rig.man.nodes.agent_came();
    rig.node("alpha").tried(tries + 1).await;
    rig.until_node("alpha", needs).await;
    rig.node("alpha").lock(false);
    let said = connect(&rig, "alpha").await;
    assert!(matches!(said.last(), Some(Event::Node(node)) if node.connected));
    rig.node("alpha").token(1, 1).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_node_that_is_gone_loses_what_ran_and_gives_back_what_did_not() {
    let rig = both((4.0, 1.0));
    rig.add().await;
    start_on(&rig, "2", "both").await.unwrap();
    rig.until(2, "was placed", |view| view.node == "alpha")
        .await;
    start_on(&rig, "1", "alpha").await.unwrap();
    let first = rig.node("alpha").token(1, 1).await;
    rig.node("alpha").begin(&first);
    rig.state(1, "running").await;
    let second = rig.node("alpha").token(2, 1).await;
    was_told(&rig, 2).await;
    let request = v1::NodeGoneRequest {
        name: "alpha".to_owned(),
        ..v1::NodeGoneRequest::default()
    };
    let refused = rig.man.node_gone(request).await.unwrap_err();
    assert!(
        refused.hint_text().starts_with("it answers:"),
        "{refused}: {}",
        refused.hint_text()
    );
    let node = lose(&rig, "alpha").await;
    assert_eq!((node.live, node.waiting), (1, 1), "{node:?}");
    assert!(node.contact_ms >= node.unreachable_since_ms, "{node:?}");
    let expected = vec![(1, "lost".to_owned()), (2, "moved".to_owned())];
    assert_eq!(gone(&rig, "alpha", true).await, expected);
    assert_eq!(rig.view(1).await.state, "running");
    assert_eq!(gone(&rig, "alpha", false).await, expected);
    let view = rig.state(1, "lost").await;
    assert_eq!(view.reason, "node gone: me said so");
    assert_eq!(rig.node("beta").token(2, 1).await, second);
    let rig = rig.restart().await;
    assert_eq!(rig.view(1).await.state, "lost");
    // It comes back after all: what it still has is ended, and nothing that it
    // says of a run that is elsewhere now counts.
    regain(&rig, "alpha").await;
    rig.node("alpha").cancelled(&first).await;
    rig.node("alpha").cancelled(&second).await;
    rig.node("alpha").begin(&second);
    rig.node("alpha").end(&second, 7, b"");
    rig.node("beta").begin(&second);
    rig.state(2, "running").await;
    rig.node("beta").end(&second, 0, b"");
    rig.state(2, "finished").await;
    rig.stop().await;
}

#[tokio::test]
async fn the_known_facts_of_a_node_out_of_reach_are_told_after_one_try() {
    let rig = both((1.0, 1.0));
    rig.node("alpha").cut(true);
    let began = std::time::Instant::now();
    for _ in 0..2 {
        let failure = rig.man.nodes.channel("alpha", DEADLINE).await.unwrap_err();
        assert_eq!(failure.to_string(), "node alpha does not answer: away");
        assert_eq!(failure.exit_code(), 4);
    }
    assert!(began.elapsed() < DEADLINE / 4, "{:?}", began.elapsed());
    rig.stop().await;
}

#[tokio::test]
async fn a_wait_says_once_that_a_node_is_out_of_reach_and_once_that_it_is_back() {
    let (rig, token) = running_on_alpha().await;
    start_on(&rig, "2", "beta").await.unwrap();
    let mut heard = wait(&rig, "1");
    // Of this one nothing is waited for.
    rig.node("beta").cut(true);
    rig.node("alpha").cut(true);
    let away = heard.next().await.notice.expect("a notice");
    assert_eq!((away.node.as_str(), away.back), ("alpha", false));
    assert!(away.runs == 1 && away.since_ms > 0, "{away:?}");
    regain(&rig, "alpha").await;
    let back = heard.next().await.notice.expect("a notice");
    assert_eq!((back.node.as_str(), back.back), ("alpha", true));
    assert_eq!(back.since_ms, away.since_ms);
    rig.node("alpha").end(&token, 0, b"");
    let event = heard.next().await;
    assert!(event.done && event.notice.is_none(), "{event:?}");
    heard.end().await.unwrap();
    rig.stop().await;
}

#[tokio::test]
async fn runs_on_a_node_that_was_removed_do_not_make_a_clean_fail() {
    let rig = ran_on_alpha().await;
    std::fs::write(&rig.home.config, "nodes: {beta: {address: b}}\n").unwrap();
    let request = v1::CleanAskRequest {
        request: nero_model::RequestId::random().to_vec(),
        unfetched: true,
        ..v1::CleanAskRequest::default()
    };
    let reply = rig.man.clean(request).await.unwrap();
    assert!(reply.runs.is_empty(), "{:?}", reply.runs);
    let failed = |node: &&v1::clean_ask_reply::OnNode| !node.failed.is_empty();
    assert_eq!(reply.nodes.iter().find(failed), None);
    let notes: Vec<_> = reply.nodes.iter().flat_map(|node| &node.notes).collect();
    assert_eq!(
        notes,
        ["not looked at, since they are not configured any more: alpha (1 run)"]
    );
    rig.stop().await;
}
