//! Nodes that cannot take a run for now: it goes to a node that can, and may
//! come back.

use nero_wire::v1::ExperimentView;
use nero_wire::v1::run_state::Stage;

use super::Rig;
use super::nodes::{connect, start_on};
use super::refused::both;

const THREE: &str = "nodes: {alpha: {address: a}, beta: {address: b}, gamma: {address: c}}\n\
                     groups: {both: [alpha, beta], others: [alpha, gamma]}\n";

fn waits_for(view: &ExperimentView) -> bool {
    view.waiting_for.contains("no room on alpha")
}

#[tokio::test]
async fn a_run_that_its_node_cannot_take_for_long_goes_to_one_that_can() {
    let rig = both().await;
    rig.node("alpha").defer("no room on alpha");
    start_on(&rig, "1", "both").await.unwrap();
    let token = rig.node("beta").token(1, 1).await;
    rig.node("alpha").recalled(&token).await;
    assert_eq!(rig.node("beta").spec(&token).generation, 2);
    let history = rig.history("1").await;
    let order = [
        "1.1: placed on alpha",
        "1.1: recalled from alpha: no room on alpha",
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

/// Three nodes: alpha has most room, and takes nothing; gamma has room for one
/// run.
async fn three() -> Rig {
    let rig = Rig::configured(THREE);
    for (name, cpus) in [("alpha", 4.0), ("beta", 1.0), ("gamma", 2.0)] {
        rig.node(name).has_cpus(cpus);
    }
    rig.node("alpha").defer("no room on alpha");
    rig.write("collection: lab\ncommand: echo\n+a: {}\n+b: {}\n+c: {}\n+d: {}\n");
    rig.add().await;
    runs_there(&rig, "gamma", 4).await;
    rig
}

/// Keeps a processor of a node busy.
async fn runs_there(rig: &Rig, node: &str, experiment: u64) -> Vec<u8> {
    start_on(rig, &experiment.to_string(), node).await.unwrap();
    let token = rig.node(node).token(experiment, 1).await;
    rig.node(node).begin(&token);
    token
}

/// Starts run 1 on alpha or beta: it stays on alpha, which is asked for run 2
/// alone, though that is deferred later.
async fn stays(rig: Rig) -> Rig {
    start_on(&rig, "1", "both").await.unwrap();
    rig.until(1, "said why it waits", waits_for).await;
    // The next daemon finds the same.
    let rig = rig.restart().await;
    rig.until(1, "said why it waits", waits_for).await;
    connect(&rig, "beta").await;
    start_on(&rig, "2", "others").await.unwrap();
    rig.node("gamma").token(2, 1).await;
    assert_eq!(rig.node("alpha").recalls(), 1);
    rig
}

#[tokio::test]
async fn a_deferred_run_stays_while_no_other_node_can_take_it() {
    let rig = three().await;
    rig.node("beta").has_cpus(0.5);
    let rig = stays(rig).await;
    rig.node("alpha").defer("");
    let token = rig.node("alpha").token(1, 1).await;
    rig.node("alpha").begin(&token);
    assert_eq!(rig.state(1, "running").await.node, "alpha");
    rig.stop().await;
}

#[tokio::test]
async fn a_deferred_run_stays_while_the_other_node_starts_nothing() {
    let rig = three().await;
    rig.node("beta").holds_back("another program has no room");
    let rig = stays(rig).await;
    rig.node("beta").holds_back("");
    // A new connection asks anew.
    rig.node("beta").cut(false);
    rig.node("beta").token(1, 1).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_deferred_run_stays_while_the_other_node_is_busy() {
    let rig = three().await;
    let token = runs_there(&rig, "beta", 3).await;
    let rig = stays(rig).await;
    rig.node("beta").end(&token, 0, b"");
    rig.node("beta").token(1, 1).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_deferred_run_comes_back_when_the_others_cannot_have_it() {
    let rig = both().await;
    rig.node("alpha").defer("no room on alpha");
    rig.node("beta").refuse("no corpus here");
    start_on(&rig, "1", "both").await.unwrap();
    let refused = |view: &ExperimentView| {
        view.node == "alpha" && view.warnings == ["refused by beta: no corpus here"]
    };
    rig.until(1, "came back", refused).await;
    rig.node("alpha").defer("");
    connect(&rig, "alpha").await;
    let token = rig.node("alpha").token(1, 1).await;
    assert_eq!(rig.node("alpha").spec(&token).generation, 3);
    rig.node("alpha").begin(&token);
    assert_eq!(rig.state(1, "running").await.node, "alpha");
    rig.stop().await;
}

#[tokio::test]
async fn a_deferred_run_never_comes_back_to_a_node_where_part_of_it_lies() {
    let rig = both().await;
    rig.node("alpha").defer_what_it_has("no room on alpha");
    rig.node("beta").refuse("no corpus here");
    start_on(&rig, "1", "both").await.unwrap();
    let view = rig.state(1, "crashed").await;
    assert_eq!(
        view.reason,
        "alpha: refused: no room on alpha; beta: refused: no corpus here (put it there)"
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_a_node_accepted_stays_there() {
    let rig = both().await;
    start_on(&rig, "1", "both").await.unwrap();
    let alpha = rig.node("alpha");
    let token = alpha.token(1, 1).await;
    alpha.stage(&token, Stage::Waiting);
    rig.state(1, "pending").await;
    // The next one is deferred, and gone elsewhere, before this one has moved.
    alpha.defer("no room on alpha");
    rig.write("collection: lab\ncommand: echo\n+a: {}\n+b: {}\n");
    rig.add().await;
    start_on(&rig, "2", "both").await.unwrap();
    rig.node("beta").token(2, 1).await;
    assert!(!rig.node("beta").has(1, 1));
    alpha.begin(&token);
    assert_eq!(rig.state(1, "running").await.node, "alpha");
    rig.stop().await;
}
