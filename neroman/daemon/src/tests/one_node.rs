//! What one node costs, and what is known of it after the daemon was replaced.

use super::nodes::{both, connect, lose, running_on_alpha, start_on};
use super::stories::{TWO, added};
use super::{Rig, select};
use nero_wire::v1;
use nero_wire::v1::run_state::Stage;

#[tokio::test]
async fn a_panic_over_one_node_costs_that_node_a_pause_and_the_others_nothing() {
    let rig = both((4.0, 4.0));
    rig.add().await;
    connect(&rig, "beta").await;
    rig.node("alpha").panic_next(1);
    start_on(&rig, "1", "alpha").await.unwrap();
    let node = rig
        .until_node("alpha", |node| {
            node.why_not.contains("mistake of Neronet's own")
        })
        .await;
    assert!(node.why_not.contains("what it did not expect"), "{node:?}");
    assert!(!node.connected && node.next_try_ms > 0, "{node:?}");
    let token = rig.node("alpha").token(1, 1).await;
    rig.node("alpha").begin(&token);
    rig.state(1, "running").await;
    rig.until_node("beta", |node| node.connected).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_node_that_says_what_cannot_be_is_out_of_reach_with_the_reason() {
    let rig = both((4.0, 4.0));
    rig.add().await;
    rig.node("alpha")
        .describe(|about| about.clock_ms = i64::MIN);
    start_on(&rig, "1", "alpha").await.unwrap();
    let node = rig
        .until_node("alpha", |node| node.why_not.contains("cannot be"))
        .await;
    assert!(node.why_not.contains("clock (ms) is -9223"), "{node:?}");
    start_on(&rig, "2", "beta").await.unwrap();
    rig.node("beta").token(2, 1).await;
    rig.stop().await;
}

#[tokio::test]
async fn since_when_a_node_is_out_of_reach_outlives_the_daemon() {
    let (rig, _) = running_on_alpha().await;
    let clock = rig.man.clock;
    lose(&rig, "alpha").await;
    let before = rig.until_node("alpha", |node| node.contact_ms > 0).await;
    let (base, fakes) = rig.stop().await;
    // Until its first try fails nothing is known anew.
    fakes.mum("alpha").stall(true);
    let rig = Rig::over(base, fakes);
    let started_ms = clock.now_ms();
    let view = rig.view(1).await;
    assert!(view.contact.starts_with("not heard of since "), "{view:?}");
    assert!(view.as_of_ms > 0 && view.as_of_ms <= started_ms, "{view:?}");
    rig.node("alpha").stall(false);
    let node = rig
        .until_node("alpha", |node| node.unreachable_since_ms > 0)
        .await;
    assert_eq!(node.unreachable_since_ms, before.unreachable_since_ms);
    assert_eq!(node.contact_ms, before.contact_ms);
    let view = rig.view(1).await;
    assert!(view.contact.starts_with("no contact since "), "{view:?}");
    rig.stop().await;
}

#[tokio::test]
async fn the_last_contact_of_a_connection_that_ended_with_the_daemon_is_told() {
    let (rig, _) = running_on_alpha().await;
    let node = rig.until_node("alpha", |node| node.contact_ms > 0).await;
    let (base, fakes) = rig.stop().await;
    fakes.mum("alpha").cut(true);
    let rig = Rig::over(base, fakes);
    let started_ms = rig.man.started_ms;
    let after = rig
        .until_node("alpha", |node| node.unreachable_since_ms > 0)
        .await;
    assert!(
        (node.contact_ms..=started_ms).contains(&after.unreachable_since_ms),
        "{after:?}, daemon started {started_ms}"
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_clean_counts_no_bytes_that_cannot_be() {
    let rig = super::nodes::ran_on_alpha().await;
    rig.node("alpha").free(u64::MAX);
    let request = v1::CleanAskRequest {
        selection: select("1"),
        unfetched: true,
        ..v1::CleanAskRequest::default()
    };
    let reply = rig.man.clean(request).await.unwrap();
    let node = &reply.nodes[0];
    assert_eq!(node.freed_bytes, 0, "{reply:?}");
    assert!(node.notes[0].contains("cannot be"), "{reply:?}");
    rig.stop().await;
}

#[tokio::test]
async fn rules_that_came_with_a_run_are_not_sent_once_more() {
    let rig = added(TWO).await;
    rig.mum.answer_late(true);
    rig.start("1").await;
    let token = rig.mum.token(1, 1).await;
    // The node reports the run before its answer to the hand-over is there.
    rig.mum.stage(&token, Stage::Waiting);
    rig.state(1, "pending").await;
    rig.mum.answer_late(false);
    rig.mum.begin(&token);
    rig.state(1, "running").await;
    rig.mum.end(&token, 0, b"");
    rig.state(1, "finished").await;
    assert_eq!(rig.mum.rule_sets(), 0);
    rig.stop().await;
}
