//! Wishes that a run ends: heard whatever went wrong when they were made.

use std::fs;

use nero_journal::v1::RecordKind;
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{CancelRequest, RunSpec};

use crate::rig::{Follower, Known, Mum, Node, reference};

/// Asks for a run's end while its control folder takes nothing, as on a full
/// disk.
async fn wish_in_vain(node: &Node, mum: &mut Mum, spec: &RunSpec) {
    let control = node.run_dir(spec).join("control");
    let away = node.run_dir(spec).join("away");
    fs::rename(&control, &away).unwrap();
    fs::write(&control, "no folder").unwrap();
    let request = CancelRequest {
        request: nero_model::RequestId::random().to_vec(),
        runs: vec![reference(spec)],
        ..CancelRequest::default()
    };
    let refused = mum.client.cancel(request).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    fs::remove_file(&control).unwrap();
    fs::rename(&away, &control).unwrap();
}

async fn running(node: &mut Node) -> (Mum, Follower, RunSpec) {
    let mut mum = node.start().await;
    let spec = node.sh(1, "sleep 600");
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Running).await;
    (mum, follower, spec)
}

#[tokio::test]
async fn one_that_the_disk_refused_is_heard_when_it_is_repeated() {
    let mut node = Node::new();
    let (mut mum, mut follower, spec) = running(&mut node).await;
    for _ in 0..2 {
        wish_in_vain(&node, &mut mum, &spec).await;
    }
    mum.cancel(&[&spec]).await;
    follower.settled(&[&spec]).await;
    assert_eq!(follower.of(&spec).count(RecordKind::StopAsked), 1);
}

#[tokio::test]
async fn one_that_was_noted_and_not_made_before_neromum_died_is_heard_when_it_is_repeated() {
    let mut node = Node::new();
    let (mut mum, _, spec) = running(&mut node).await;
    wish_in_vain(&node, &mut mum, &spec).await;
    node.kill_mum();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    mum.cancel(&[&spec]).await;
    follower.settled(&[&spec]).await;
    assert_eq!(follower.of(&spec).count(RecordKind::StopAsked), 1);
}
