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
