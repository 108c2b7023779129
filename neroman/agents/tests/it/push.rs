use std::sync::Mutex;

use nero_agents::{Progress, start_remote_from};

use crate::rig::{Node, names, programs};

#[tokio::test]
async fn a_first_start_sends_the_programs_and_a_second_sends_nothing() {
    let node = Node::new();
    let steps = Mutex::new(Vec::new());
    let note = |progress: Progress| steps.lock().unwrap().push(progress);
    let host = node.host().await;
    let first = start_remote_from(programs(), &host, &node.wish(), &note)
        .await
        .unwrap();
    assert!(first.pushed_bytes > 100_000);
    assert_eq!(
        first.facts.root,
        node.home().join(".neronet").to_str().unwrap()
    );
    assert_eq!(first.facts.arch, std::env::consts::ARCH);
    assert!(first.facts.clock_offset_ms.unwrap().abs() < 60_000);
    assert_eq!(first.hello.deployment, node.deployment.as_bytes());
    let steps = steps.into_inner().unwrap();
    assert_eq!(steps.last().unwrap().done_bytes, first.pushed_bytes);
    assert_eq!(steps.last().unwrap().total_bytes, first.pushed_bytes);
    assert_eq!(node.litter(), [] as [&str; 0]);
    assert_eq!(names(&node.builds()).len(), 1);

    let second = node.start().await.unwrap();
    assert_eq!(second.pushed_bytes, 0);
    assert_eq!(second.hello.pid, first.hello.pid);
    assert_eq!(second.facts.builds, names(&node.builds()));
}
