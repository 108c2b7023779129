//! The ledger of a real neromum, torn and flipped.

use nero_wire::v1::RunSpec;

use crate::rig::{Known, Node};
use crate::setup::settled;

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

#[tokio::test]
async fn a_flipped_ledger_stops_the_start_is_named_and_left() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let specs: Vec<RunSpec> = (1..=5).map(|number| node.sh(number, "true")).collect();
    settled(&mut mum, &specs.iter().collect::<Vec<_>>()).await;
    node.kill_mum();
    let mut bytes = std::fs::read(segment(&node)).unwrap();
    bytes[120] ^= 4;
    std::fs::write(segment(&node), &bytes).unwrap();
    let refused = node.command().output().unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("00000001.seg") && said.contains("damaged"),
        "{said}"
    );
    assert_eq!(std::fs::read(segment(&node)).unwrap(), bytes);
    let files = std::fs::read_dir(node.paths.mum().join("ledger")).unwrap();
    assert_eq!(files.count(), 1, "nothing was added");
}
