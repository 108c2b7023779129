//! Nodes that cannot have a run which others may have.

use super::Rig;
use super::nodes::{connect, start_on};

const BOTH: &str = "nodes: {alpha: {address: a}, beta: {address: b}}\n\
                    groups: {both: [alpha, beta]}\n";

/// Two nodes; alpha has more room.
pub(super) async fn both() -> Rig {
    let rig = Rig::configured(BOTH);
    rig.node("alpha").has_cpus(4.0);
    rig.node("beta").has_cpus(1.0);
    rig.write("collection: lab\ncommand: echo\n");
    rig.add().await;
    rig
}

#[tokio::test]
async fn a_refused_run_is_placed_on_another_node_and_never_there_again() {
    let rig = both().await;
    rig.node("alpha").refuse("no corpus here");
    rig.node("beta").cut(true);
    start_on(&rig, "1", "both").await.unwrap();
    let said = "alpha: refused: no corpus here; beta: no contact";
    let waits = |view: &nero_wire::v1::ExperimentView| view.waiting_for.contains(said);
    rig.until(1, "said who refused", waits).await;
    // It could have it now, and was not forgotten to have refused.
    let rig = rig.restart().await;
    rig.node("alpha").refuse("");
    rig.until(1, "still said who refused", waits).await;
    rig.node("beta").cut(false);
    connect(&rig, "beta").await;
    let token = rig.node("beta").token(1, 1).await;
    assert!(rig.node("beta").spec(&token).movable);
    rig.node("beta").begin(&token);
    let view = rig.state(1, "running").await;
    assert_eq!(view.node, "beta");
    assert_eq!(view.warnings, ["refused by alpha: no corpus here"]);
    assert_eq!(rig.node("alpha").hand_overs(), 1);
    rig.node("beta").end(&token, 0, b"");
    rig.state(1, "finished").await;
    let history = rig.history("1").await;
    let order = [
        "1.1: placed on alpha",
        "1.1: refused by alpha: no corpus here",
        "1.1: placed on beta",
    ];
    let at: Vec<_> = order.iter().map(|line| history.find(line)).collect();
    assert!(
        at.iter().all(Option::is_some) && at.is_sorted(),
        "{history}"
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_all_refuse_ends_and_starting_it_again_asks_all_again() {
    let rig = both().await;
    for name in ["alpha", "beta"] {
        rig.node(name).refuse("no corpus here");
    }
    start_on(&rig, "1", "both").await.unwrap();
    let view = rig.state(1, "crashed").await;
    assert_eq!(
        view.reason,
        "alpha, beta: refused: no corpus here (put it there)"
    );
    assert!(view.settled && view.node == "both", "{view:?}");
    let rig = rig.restart().await;
    assert_eq!(rig.view(1).await.state, "crashed");
    rig.node("alpha").refuse("");
    start_on(&rig, "1", "both").await.unwrap();
    rig.node("alpha").token(1, 2).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_run_of_one_node_ends_when_that_one_refuses() {
    let rig = both().await;
    rig.node("alpha").refuse("no corpus here");
    start_on(&rig, "1", "alpha").await.unwrap();
    let view = rig.state(1, "crashed").await;
    assert_eq!(view.reason, "node alpha: no corpus here (put it there)");
    assert!(!rig.node("beta").has(1, 1));
    rig.stop().await;
}
