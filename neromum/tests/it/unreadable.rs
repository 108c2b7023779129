//! What a job or a person made unreadable among a run's records.

use nero_journal::v1::RecordKind;

use crate::rig::Node;
use crate::setup::settled;

#[tokio::test]
async fn a_segment_that_nobody_may_read_keeps_no_run_from_its_end() {
    let mut node = Node::with(&["--cpus", "1"]);
    let own = node.command();
    // Root is bound by a file's mode only without what makes it root.
    let mut bound = if rustix::process::geteuid().is_root() {
        let mut bound = std::process::Command::new("setpriv");
        bound
            .arg("--bounding-set=-dac_override,-dac_read_search")
            .arg(own.get_program());
        bound
    } else {
        std::process::Command::new(own.get_program())
    };
    bound.args(own.get_args());
    let mut mum = node.start_as(bound).await;
    let shut =
        "for who in watch mum launcher; do : > ../1/$who-0.seg; chmod 0 ../1/$who-0.seg; done";
    let first = node.sh(1, &format!("{shut}; echo loss 1; sleep 0.5; exit 7"));
    let next = node.sh(2, "echo done");
    let follower = settled(&mut mum, &[&first, &next]).await;
    let kinds = follower.of(&first).kinds();
    for kind in [
        RecordKind::JobExited,
        RecordKind::Metrics,
        RecordKind::WatchEnded,
    ] {
        assert!(kinds.contains(&kind), "{kind:?}: {kinds:?}");
    }
    let log = std::fs::read_to_string(node.paths.mum().join("log")).unwrap();
    for who in ["watch", "mum", "launcher"] {
        let told = log.matches(&format!("/1/{who}-0.seg")).count();
        assert_eq!(told, 1, "{log}");
    }
}
