//! Makes the samples of stored formats that are not there yet: `cargo run -p
//! nero-tests --example make_golden_node`. A new version of a format gets a new name;
//! what an earlier build made stays as it is and must go on being read.

use std::fs;
use std::path::Path;

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::RecordKind;
use nero_journal::{Clocks, Segment, Writer};
use nero_tests::golden;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    make_claim(&folder.join("claim-v1"));
    make_ledger(&folder.join("ledger-cards-v1"));
    for (name, bytes) in [
        ("spec-v1", frame::encode(FrameKind::Spec, &golden::spec())),
        (
            "cancel-v1",
            frame::encode(FrameKind::Cancel, &golden::cancel()),
        ),
        (
            "rules-v1",
            frame::encode(FrameKind::Rules, &golden::rules()),
        ),
        (
            "lease-v1",
            frame::encode(FrameKind::Lease, &golden::lease()),
        ),
        (
            "host-v1",
            frame::encode(FrameKind::HostSeen, &golden::host_seen()),
        ),
        (
            "authority-v1",
            frame::encode(FrameKind::Authority, &golden::authority()),
        ),
        (
            "owner-v1",
            frame::encode(FrameKind::Owner, &golden::owner()),
        ),
        ("gone-v1", frame::encode(FrameKind::Gone, &golden::gone())),
        (
            "unnamed-v1",
            frame::encode(FrameKind::Unnamed, &golden::unnamed_files()),
        ),
        (
            "gpus-v1",
            frame::encode(FrameKind::GpuPage, &golden::gpu_page()),
        ),
    ] {
        let path = folder.join(name);
        if !path.exists() {
            fs::write(path, bytes).expect("the folder is writable");
        }
    }
}

fn make_ledger(path: &Path) {
    if path.exists() {
        return;
    }
    let mut segment = Segment::create(path, Writer::Ledger, &golden::TOKEN, 0).expect("a new file");
    let cards = golden::ledger_cards();
    segment
        .append(RecordKind::LedgerCards, Clocks::now(), &cards)
        .expect("the disk has space");
}

fn make_claim(path: &Path) {
    if path.exists() {
        return;
    }
    let mut segment = Segment::create(path, Writer::Shim, &golden::TOKEN, 1).expect("a new file");
    let (claimed, started, exited, gone) = golden::claim();
    let [first, second, third, last] = golden::CLAIM_KINDS;
    let appended = segment
        .append(first, Clocks::now(), &claimed)
        .map(drop)
        .and_then(|()| segment.append(second, Clocks::now(), &started).map(drop))
        .and_then(|()| segment.append(third, Clocks::now(), &exited).map(drop))
        .and_then(|()| segment.append(last, Clocks::now(), &gone).map(drop));
    appended.expect("the disk has space");
}
