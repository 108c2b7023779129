//! Nodes that cannot take a run for now: it goes to one that can, and may come
//! back.

use nero_wire::v1::ExperimentView;
use nero_wire::v1::run_state::Stage;

use super::nodes::{connect, start_on};
use super::refused::both;

fn waits_for(view: &ExperimentView) -> bool {
    view.waiting_for.contains("no room on alpha")
}

#[tokio::test]
async fn a_run_that_its_node_cannot_take_for_long_goes_to_one_that_can() {
    let rig = both().await;
    rig.node("alpha").put_off("no room on alpha");
    start_on(&rig, "1", "both").await.unwrap();
    let token = rig.node("beta").token(1, 1).await;
    rig.node("alpha").withdrawn(&token).await;
    assert_eq!(rig.node("beta").spec(&token).turn, 2);
    let history = rig.history("1").await;
    let order = [
        "1.1: placed on alpha",
        "1.1: taken back from alpha: no room on alpha",
        "1.1: placed on beta",
    ];
    let at: Vec<_> = order.iter().map(|line| history.find(line)).collect();
    assert!(
        at.iter().all(Option::is_some) && at.is_sorted(),
        "{history}"
    );
    rig.node("beta").begin(&token);
    rig.node("beta").end(&token, 0, b"");
    assert_eq!(rig.state(1, "finished").await.node, "beta");
    rig.stop().await;
}

#[tokio::test]
async fn it_stays_while_no_other_node_can_take_it() {
    let rig = both().await;
    rig.node("alpha").put_off("no room on alpha");
    rig.node("beta").has_cpus(0.5);
    start_on(&rig, "1", "both").await.unwrap();
    rig.until(1, "said why it waits", waits_for).await;
    // Whoever looks once more finds the same.
    let rig = rig.restart().await;
    rig.until(1, "said why it waits", waits_for).await;
    rig.node("alpha").put_off("");
    let token = rig.node("alpha").token(1, 1).await;
    assert!(rig.node("alpha").withdrew_nothing());
    rig.node("alpha").begin(&token);
    assert_eq!(rig.state(1, "running").await.node, "alpha");
    rig.stop().await;
}

#[tokio::test]
async fn it_comes_back_when_the_others_cannot_have_it() {
    let rig = both().await;
    rig.node("alpha").put_off("no room on alpha");
    rig.node("beta").refuse("node beta: no corpus here");
    start_on(&rig, "1", "both").await.unwrap();
    let refused = |view: &ExperimentView| {
        view.node == "alpha" && view.warnings == ["refused by beta: no corpus here"]
    };
    rig.until(1, "came back", refused).await;
    rig.node("alpha").put_off("");
    connect(&rig, "alpha").await;
    let token = rig.node("alpha").token(1, 1).await;
    assert_eq!(rig.node("alpha").spec(&token).turn, 3);
    rig.node("alpha").begin(&token);
    assert_eq!(rig.state(1, "running").await.node, "alpha");
    rig.stop().await;
}

#[tokio::test]
async fn one_that_was_taken_and_is_held_back_goes_on_and_one_that_waits_for_its_turn_stays() {
    let rig = both().await;
    start_on(&rig, "1", "both").await.unwrap();
    let alpha = rig.node("alpha");
    let token = alpha.token(1, 1).await;
    alpha.stage(&token, Stage::Waiting);
    rig.state(1, "pending").await;
    assert!(alpha.withdrew_nothing());
    alpha.holds_back(&token, "disk full");
    assert_eq!(rig.node("beta").token(1, 1).await, token);
    alpha.until_stage(&token, Stage::TakenAway).await;
    alpha.closed(&token).await;
    let rig = rig.restart().await;
    // What alpha says of it is nobody's abort.
    connect(&rig, "alpha").await;
    rig.node("beta").begin(&token);
    rig.node("beta").end(&token, 0, b"");
    let view = rig.state(1, "finished").await;
    assert_eq!(view.node, "beta");
    let history = rig.history("1").await;
    let line = "1.1: taken back from alpha: disk full";
    assert!(history.contains(line), "{history}");
    rig.stop().await;
}
