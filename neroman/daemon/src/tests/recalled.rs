//! Runs that a node accepted and refused afterwards: another node of the group
//! gets them, never two, even if a daemon dies in between.

use nero_wire::v1::run_state::Stage;

use super::Rig;
use super::nodes::{connect, start_on};
use super::refused::both;

/// A run of the group that alpha has, refuses, and gives no promise about for now.
async fn kept_by_alpha(rig: &Rig) -> Vec<u8> {
    start_on(rig, "1", "both").await.unwrap();
    let alpha = rig.node("alpha");
    let token = alpha.token(1, 1).await;
    alpha.take_no_cancels(true);
    alpha.stage(&token, Stage::Refused);
    alpha.refused_cancels().await;
    let said = |view: &nero_wire::v1::ExperimentView| view.waiting_for.contains("refused by alpha");
    rig.until(1, "said why it leaves", said).await;
    token
}

/// Follows the run on beta to its end.
async fn ends_on_beta(rig: &Rig, token: &[u8]) {
    let beta = rig.node("beta");
    assert_eq!(beta.token(1, 1).await, token);
    assert_eq!(beta.spec(token).generation, 2);
    beta.begin(token);
    beta.end(token, 0, b"");
    let view = rig.state(1, "finished").await;
    assert_eq!(view.node, "beta");
    let history = rig.history("1").await;
    assert!(history.contains("1.1: refused by alpha: "), "{history}");
    assert_eq!(history.matches("placed on").count(), 2, "{history}");
}

#[tokio::test]
async fn an_accepted_run_that_its_node_refuses_goes_to_the_next_one() {
    let rig = both().await;
    start_on(&rig, "1", "both").await.unwrap();
    let token = rig.node("alpha").token(1, 1).await;
    assert_eq!(rig.node("alpha").spec(&token).generation, 1);
    rig.node("alpha").stage(&token, Stage::Refused);
    ends_on_beta(&rig, &token).await;
    rig.node("alpha").closed(&token).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_death_before_the_node_was_asked_and_one_before_its_answer_lose_nothing() {
    let rig = both().await;
    let token = kept_by_alpha(&rig).await;
    assert!(!rig.node("beta").has(1, 1));
    // Asked by the next daemon, it gives its promise, and the answer is lost.
    rig.node("alpha").swallow(true);
    rig.node("alpha").take_no_cancels(false);
    let rig = rig.restart().await;
    let alpha = rig.node("alpha");
    alpha.until_stage(&token, Stage::TakenAway).await;
    let rig = rig.restart().await;
    let alpha = rig.node("alpha");
    assert!(!rig.node("beta").has(1, 1));
    alpha.swallow(false);
    alpha.cut(false);
    connect(&rig, "alpha").await;
    ends_on_beta(&rig, &token).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_all_refuse_after_they_accepted_it_ends_with_what_each_said() {
    let rig = both().await;
    start_on(&rig, "1", "both").await.unwrap();
    for name in ["alpha", "beta"] {
        let token = rig.node(name).token(1, 1).await;
        rig.node(name)
            .refuses(&token, &format!("no room for ever on {name}"));
    }
    let view = rig.state(1, "crashed").await;
    let both = "alpha: refused: no room for ever on alpha; beta: refused: no room for ever on beta";
    assert_eq!(view.reason, both);
    rig.stop().await;
}

#[tokio::test]
async fn a_run_of_one_node_ends_with_its_refusal() {
    let rig = both().await;
    start_on(&rig, "1", "alpha").await.unwrap();
    let token = rig.node("alpha").token(1, 1).await;
    rig.node("alpha").refuses(&token, "cannot make params.json");
    let view = rig.state(1, "crashed").await;
    assert_eq!(view.reason, "cannot make params.json");
    assert!(!rig.node("beta").has(1, 1));
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_its_node_started_after_all_stays() {
    let rig = both().await;
    let token = kept_by_alpha(&rig).await;
    let alpha = rig.node("alpha");
    alpha.begin(&token);
    rig.state(1, "running").await;
    alpha.take_no_cancels(false);
    let rig = rig.restart().await;
    let alpha = rig.node("alpha");
    connect(&rig, "alpha").await;
    alpha.end(&token, 0, b"");
    let view = rig.state(1, "finished").await;
    assert_eq!(view.node, "alpha");
    assert!(!rig.node("beta").has(1, 1));
    rig.stop().await;
}

#[tokio::test]
async fn a_node_that_says_that_the_run_goes_on_keeps_it() {
    let rig = both().await;
    start_on(&rig, "1", "both").await.unwrap();
    let alpha = rig.node("alpha");
    let token = alpha.token(1, 1).await;
    // A refusal that it forgot when it was killed; told late.
    alpha.holds(&token, Stage::Running);
    alpha.says(&token, Stage::Refused);
    alpha.recalled(&token).await;
    let stays = |view: &nero_wire::v1::ExperimentView| view.waiting_for.is_empty();
    rig.until(1, "was left where it is", stays).await;
    assert!(!rig.node("beta").has(1, 1));
    alpha.begin(&token);
    alpha.end(&token, 0, b"");
    assert_eq!(rig.state(1, "finished").await.node, "alpha");
    rig.stop().await;
}

#[tokio::test]
async fn an_abort_meanwhile_is_an_abort() {
    let rig = both().await;
    let token = kept_by_alpha(&rig).await;
    rig.abort("1").await;
    rig.node("alpha").take_no_cancels(false);
    let rig = rig.restart().await;
    connect(&rig, "alpha").await;
    rig.node("alpha").stage(&token, Stage::TakenAway);
    let view = rig.state(1, "aborted").await;
    assert!(
        view.reason.contains("aborted") || view.reason.contains("before"),
        "{}",
        view.reason
    );
    assert!(!rig.node("beta").has(1, 1));
    rig.stop().await;
}

#[tokio::test]
async fn a_node_of_an_older_build_is_not_asked_and_its_refusal_counts() {
    let rig = both().await;
    rig.node("alpha").become_old();
    start_on(&rig, "1", "both").await.unwrap();
    let token = rig.node("alpha").token(1, 1).await;
    rig.node("alpha").refuses(&token, "cannot make params.json");
    let view = rig.state(1, "crashed").await;
    assert_eq!(view.reason, "cannot make params.json");
    assert_eq!(rig.node("alpha").recalls(), 0);
    assert!(!rig.node("beta").has(1, 1));
    rig.stop().await;
}
