//! Makes the samples of stored formats anew: `cargo run -p nero-tests --example
//! make_golden`. Only for a new version of a format, under a new name; what an
//! earlier build made is kept and must go on being read.

use std::fs;
use std::path::Path;

use nero_journal::frame::{self, FrameKind};
use nero_journal::{Clocks, Segment, Writer};
use nero_tests::golden;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let claim = folder.join("claim-v1");
    let _ = fs::remove_file(&claim);
    let mut segment = Segment::create(&claim, Writer::Shim, &golden::TOKEN, 1).expect("a new file");
    let (claimed, started, exited, gone) = golden::claim();
    let [first, second, third, last] = golden::CLAIM_KINDS;
    let appended = segment
        .append(first, Clocks::now(), &claimed)
        .map(drop)
        .and_then(|()| segment.append(second, Clocks::now(), &started).map(drop))
        .and_then(|()| segment.append(third, Clocks::now(), &exited).map(drop))
        .and_then(|()| segment.append(last, Clocks::now(), &gone).map(drop));
    appended.expect("the disk has space");
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
    ] {
        fs::write(folder.join(name), bytes).expect("the folder is writable");
    }
}
