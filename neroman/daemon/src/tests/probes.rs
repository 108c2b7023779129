//! Runs that nodes are asked for before they get them.

use super::nodes::start_on;
use super::refused::both;

const PROBE: &str = "test -d env && echo yes || echo no";

#[tokio::test]
async fn a_run_waits_until_a_node_answers_as_it_requires() {
    let rig = both().await;
    rig.write(&format!(
        "collection: lab\ncommand: echo\nprobes: {{has_env: '{PROBE}'}}\n\
         +asks: {{requires: has_env == yes}}\n"
    ));
    rig.add().await;
    // The other one hangs, which keeps nobody.
    rig.node("alpha").answers(PROBE, "no");
    start_on(&rig, "1", "both").await.unwrap();
    let why = "alpha: has_env == 'yes' (has_env is 'no' since ";
    let hangs = "beta: has_env == 'yes' (has_env is unknown: the node is being asked)";
    let seen = rig
        .until(1, "said why it waits", |view| {
            view.waiting_for.contains(why) && view.waiting_for.contains(hangs)
        })
        .await;
    assert_eq!(seen.state, "queued");
    assert_eq!(rig.node("alpha").probed(), [PROBE], "not at each look");
    rig.node("alpha").answers(PROBE, "yes");
    // The next daemon asks anew.
    let rig = rig.restart().await;
    rig.node("alpha").token(1, 1).await;
    rig.stop().await;
}

/// A marker that the holder of a lock made is seen by the next one.
#[tokio::test]
async fn an_answer_from_before_the_lock_was_free_does_not_count() {
    let rig = both().await;
    rig.write(&format!(
        "collection: lab\ncommand: echo\nprobes: {{has_env: '{PROBE}'}}\nlock: env\n\
         requires: has_env == no\n+one: {{}}\n+two: {{}}\n"
    ));
    rig.add().await;
    let alpha = rig.node("alpha");
    alpha.answers(PROBE, "no");
    start_on(&rig, "1-2", "alpha").await.unwrap();
    let token = alpha.token(1, 1).await;
    alpha.begin(&token);
    rig.state(1, "running").await;
    let locked = |view: &nero_wire::v1::ExperimentView| view.waiting_for.contains("lock");
    rig.until(2, "said whose lock it is", locked).await;
    alpha.answers(PROBE, "yes");
    alpha.end(&token, 0, b"");
    let marked = "(has_env is 'yes' since ";
    rig.until(2, "said what the node answers now", |view| {
        view.waiting_for.contains(marked)
    })
    .await;
    assert_eq!(alpha.hand_overs(), 1);
    rig.stop().await;
}
