//! Who owns a node's runs, and leaving for another build.

use std::path::Path;

use nero_journal::v1::RecordKind;
use nero_wire::hello;
use nero_wire::v1::mum_client::MumClient;
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{DescribeRequest, HandOverRequest, Role, RunSpec, RunsRequest, StopRequest};

use crate::rig::{Known, Mum, Node, PATIENCE, wait_for};

async fn greet(node: &Node, tenure: u64, host: &str) -> Result<Mum, tonic::Status> {
    let channel = nero_wire::dial(&node.socket()).await.unwrap();
    let mut client = MumClient::new(channel);
    let own = nero_wire::v1::Hello {
        tenure,
        host: host.to_owned(),
        ..hello::own(Role::Neroman, "test", Some(node.deployment))
    };
    client.greet(own).await?;
    Ok(Mum { client })
}

#[tokio::test]
async fn a_taken_over_deployment_answers_its_new_owner_alone() {
    let mut node = Node::new();
    let mut first = node.start().await;
    let spec = node.sh(1, "while [ ! -e ../go ]; do sleep 0.01; done; echo end");
    first.accept(&[&spec]).await;
    let mut follower = first.follow(Known::default()).await;
    follower.stage(&spec, Stage::Running).await;
    let mut second = greet(&node, 1, "desktop").await.unwrap();
    // What the first had open has ended, and nothing of it works any more.
    follower.until_parts(usize::MAX, &|_| false).await;
    assert!(first.client.describe(DescribeRequest {}).await.is_err());
    second.client.describe(DescribeRequest {}).await.unwrap();
    for (tenure, host) in [(0, "laptop"), (1, "laptop")] {
        let refused = greet(&node, tenure, host).await.err().unwrap();
        assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
        assert!(
            refused.message().contains("taken over by desktop"),
            "{refused}"
        );
    }
    // Another start knows it, too.
    node.kill_mum();
    let mut mum = node.command().spawn().unwrap();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while nero_wire::dial(&node.socket()).await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "nobody answers");
        tokio::task::yield_now().await;
    }
    let mut third = greet(&node, 1, "desktop").await.unwrap();
    assert!(greet(&node, 0, "laptop").await.is_err());
    std::fs::write(node.run_dir(&spec).join("go"), "").unwrap();
    let mut follower = third.follow(Known::default()).await;
    follower.settled(&[&spec]).await;
    mum.kill().unwrap();
    mum.wait().unwrap();
}

#[tokio::test]
async fn a_new_owner_finds_every_run_of_a_hand_over_under_way() {
    let mut node = Node::new();
    let mut first = node.start().await;
    let run = |number| RunSpec {
        number,
        ..node.sh(1, "sleep 600")
    };
    let sent: Vec<RunSpec> = (1..=500).map(run).collect();
    let folder = node.run_dir(&sent[0]);
    let request = HandOverRequest {
        runs: sent.clone(),
        ..HandOverRequest::default()
    };
    let first = tokio::spawn(async move { first.client.hand_over(request).await });
    wait_for("the first folder", || {
        folder.parent()?.exists().then_some(())
    })
    .await;
    let mut second = greet(&node, 1, "desktop").await.unwrap();
    let listed = second.client.runs(RunsRequest {}).await;
    let (mut listed, mut count) = (listed.unwrap().into_inner(), 0);
    while let Some(folder) = listed.message().await.unwrap() {
        count += usize::from(folder.spec.is_some());
    }
    assert_eq!(count, sent.len(), "no run comes in later");
    drop(first.await);
    // The node accepted them, although no neroman is told so.
    let mut follower = second.follow(Known::default()).await;
    follower.caught_up().await;
    let is_known = |spec: &&RunSpec| !follower.of(spec).stages.is_empty();
    assert_eq!(sent.iter().filter(is_known).count(), sent.len());
}

#[tokio::test]
async fn an_upgrade_leaves_at_once_and_touches_no_job() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, "while [ ! -e ../go ]; do sleep 0.01; done; exit 4");
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Running).await;
    let launcher = node.launcher().await;
    mum.client
        .stop(StopRequest {
            upgrade: true,
            ..StopRequest::default()
        })
        .await
        .unwrap();
    assert_eq!(node.ended().await, Some(0));
    assert!(Path::new(&format!("/proc/{launcher}")).exists());
    std::fs::write(node.run_dir(&spec).join("go"), "").unwrap();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&spec]).await;
    let run = follower.of(&spec);
    let exit: nero_journal::v1::JobExited = run.record(RecordKind::JobExited).unwrap();
    assert_eq!(exit.code, 4);
    assert_eq!(run.count(RecordKind::TakenOver), 0, "its shim saw its end");
}
