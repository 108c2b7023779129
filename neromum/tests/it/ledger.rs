//! The ledger of a real neromum, torn and flipped.

use nero_wire::v1::RunSpec;

use crate::rig::{Known, Node};

fn segment(node: &Node) -> std::path::PathBuf {
    node.paths.mum().join("ledger/00000001.seg")
}

#[tokio::test]
async fn a_torn_end_forgets_only_what_it_held_and_that_is_handed_over_again() {
    let mut node = Node::with(&["--cpus", "1", "--min-free", "1000000000000000"]);
    let mut mum = node.start().await;
    let specs: Vec<RunSpec> = (1..=5).map(|number| node.sh(number, "true")).collect();
    let all: Vec<&RunSpec> = specs.iter().collect();
    mum.accept(&all).await;
    node.kill_mum();
    let bytes = std::fs::read(segment(&node)).unwrap();
    std::fs::write(segment(&node), &bytes[..bytes.len() - 10]).unwrap();
    node.options.truncate(2);
    let mut mum = node.start().await;
    let mut known = Known::default();
    known.name(&all);
    // Positions name the run, so that its folder is found again.
    let mut follower = mum.follow(known).await;
    follower.settled(&all).await;
}
