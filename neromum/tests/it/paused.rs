//! Pauses of runs, against a death of neromum and against a recall.

use std::fs;

use nero_wire::v1::pause_runs_reply::Outcome;
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{CancelRequest, PauseRunsRequest, RunSpec, cancel_reply};

use crate::rig::{Follower, Known, Mum, Node, reference, wait_for};

async fn pause(mum: &mut Mum, spec: &RunSpec, resume: bool) -> Outcome {
    let request = PauseRunsRequest {
        runs: vec![reference(spec)],
        resume,
        ..PauseRunsRequest::default()
    };
    let reply = mum.client.pause_runs(request).await.unwrap().into_inner();
    reply.runs[0].outcome()
}

/// A node with one CPU, a run that has it until it may end, and one that waits.
async fn one_begun_and_one_waits(node: &mut Node) -> (Mum, Follower, RunSpec, RunSpec) {
    let mut mum = node.start().await;
    let begun = node.sh(1, "while ! [ -e ../go ]; do sleep 0.01; done");
    let waits = RunSpec {
        generation: 1,
        ..node.sh(2, "true")
    };
    mum.accept(&[&begun, &waits]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&begun, Stage::Running).await;
    (mum, follower, begun, waits)
}

fn has_begun(node: &Node, spec: &RunSpec) -> bool {
    node.run_dir(spec).join("1").exists()
}

/// Waits until a run that was accepted last had its turn.
async fn another_ends(node: &Node, mum: &mut Mum, follower: &mut Follower) {
    let other = node.sh(9, "true");
    mum.accept(&[&other]).await;
    follower.settled(&[&other]).await;
}

#[tokio::test]
async fn a_pause_outlives_neromum_of_a_run_that_waits_and_of_one_that_has_begun() {
    let mut node = Node::with(&["--cpus", "1"]);
    let (mut mum, _, begun, waits) = one_begun_and_one_waits(&mut node).await;
    assert_eq!(pause(&mut mum, &waits, false).await, Outcome::Held);
    assert_eq!(pause(&mut mum, &begun, false).await, Outcome::Asked);
    node.kill_mum();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    for spec in [&begun, &waits] {
        assert_eq!(pause(&mut mum, spec, false).await, Outcome::Same);
    }
    let (_, job) = node.claim(&begun);
    let stat = || nero_model::process::Stat::read(job).ok();
    // A shell waits uninterruptibly for a child that was stopped before its program began.
    wait_for("the job to be stopped", || {
        stat().filter(|stat| [b'T', b'D'].contains(&stat.state))
    })
    .await;
    // The CPU is free, and what waits is passed over.
    another_ends(&node, &mut mum, &mut follower).await;
    assert!(!has_begun(&node, &waits));
    assert_eq!(pause(&mut mum, &waits, true).await, Outcome::Held);
    follower.settled(&[&waits]).await;
    assert_eq!(pause(&mut mum, &begun, true).await, Outcome::Asked);
    fs::write(node.run_dir(&begun).join("go"), "").unwrap();
    follower.settled(&[&begun]).await;
}

#[tokio::test]
async fn a_paused_run_that_is_recalled_is_not_started_by_a_resume() {
    use cancel_reply::Outcome as Recall;
    // Of a hand-over of its own time neromum leaves nothing.
    for (dies, recalled, resumed) in [
        (false, Recall::UnknownRun, Outcome::UnknownRun),
        (true, Recall::NeverStarted, Outcome::Ended),
    ] {
        let mut node = Node::with(&["--cpus", "1"]);
        let (mut mum, mut follower, begun, waits) = one_begun_and_one_waits(&mut node).await;
        assert_eq!(pause(&mut mum, &waits, false).await, Outcome::Held);
        if dies {
            node.kill_mum();
            mum = node.start().await;
            follower = mum.follow(Known::default()).await;
        }
        let recall = CancelRequest {
            request: nero_model::RequestId::random().to_vec(),
            runs: vec![reference(&waits)],
            recall: 1,
            ..CancelRequest::default()
        };
        let reply = mum.client.cancel(recall).await.unwrap().into_inner();
        assert_eq!(reply.runs[0].outcome(), recalled, "{dies}");
        assert_eq!(pause(&mut mum, &waits, true).await, resumed, "{dies}");
        fs::write(node.run_dir(&begun).join("go"), "").unwrap();
        follower.settled(&[&begun]).await;
        another_ends(&node, &mut mum, &mut follower).await;
        assert!(!has_begun(&node, &waits));
    }
}
