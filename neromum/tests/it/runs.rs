//! Runs from their handing over to their settling.

use nero_journal::v1::{JobExited, RecordKind};
use nero_wire::v1::run_state::Stage;

use crate::rig::{Known, Node};

#[tokio::test]
async fn a_run_is_started_ends_and_is_replicated() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, "echo hello; exit 3");
    let mut follower = mum.follow(Known::default()).await;
    follower.caught_up().await;
    mum.accept(&[&spec]).await;
    follower.settled(&[&spec]).await;
    let run = follower.of(&spec);
    let exited: JobExited = run.record(RecordKind::JobExited).unwrap();
    assert_eq!((exited.code, exited.signal), (3, 0));
    assert_eq!(run.count(RecordKind::JobStarted), 1);
    assert_eq!(run.count(RecordKind::TreeGone), 1);
    assert!(run.stages.contains(&Stage::Ended));
    let log = node.run_dir(&spec).join("1/stdout.log");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "hello\n");
}
