//! A live run is followed to its end.

use nero_journal::v1::{RecordKind, WatchEnded, WatchStarted};
use nero_wire::v1::RunSpec;

use crate::rig::Rig;

#[test]
fn printed_numbers_become_points_and_the_end_is_told() {
    let mut rig = Rig::new(RunSpec::default());
    rig.print("epoch 1: train loss = 0.9\n");
    let mut watcher = rig.watcher(None);
    rig.points_are(2);
    rig.print("epoch 2: train loss = 0.5\nepoch 3: tra");
    rig.points_are(4);
    rig.print("in loss = 0.25");
    rig.end();
    assert!(watcher.ended().success());
    let points = rig.points();
    let losses: Vec<(f64, f64)> = points
        .iter()
        .filter(|(name, ..)| name == "train loss")
        .map(|(_, step, _, value)| (*step, *value))
        .collect();
    assert_eq!(losses, [(1.0, 0.9), (2.0, 0.5), (3.0, 0.25)]);
    let started = rig.all::<WatchStarted>(RecordKind::WatchStarted);
    let environment = started[0].environment.as_ref().unwrap();
    assert!(environment.cpus > 0 && environment.memory_bytes > 0);
    assert!(!environment.host.is_empty() && !environment.kernel.is_empty());
    let ended = rig.all::<WatchEnded>(RecordKind::WatchEnded);
    assert!(ended[0].complete);
    let size = std::fs::metadata(rig.inc().join("stdout.log"))
        .unwrap()
        .len();
    assert_eq!(ended[0].read_to[0].offset, size);
}
