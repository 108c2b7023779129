//! Files that an earlier build wrote are read by this one.

use std::path::{Path, PathBuf};

use nero_journal::frame::{self, FrameKind};
use nero_journal::{Stop, Writer, scan};
use nero_tests::golden;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("golden")
        .join(name)
}

#[test]
fn a_claim_of_version_1_is_read() {
    let bytes = std::fs::read(sample("claim-v1")).unwrap();
    let (header, mut reader) = scan(&bytes).unwrap();
    assert_eq!(
        (
            header.version,
            header.writer,
            header.token,
            header.incarnation
        ),
        (1, Writer::Shim, golden::TOKEN, 1)
    );
    let records: Vec<_> = reader.by_ref().collect();
    assert_eq!(reader.stop(), Stop::End);
    assert!(
        records
            .iter()
            .zip(golden::CLAIM_KINDS)
            .all(|(record, kind)| record.is(kind))
    );
    let (claimed, started, exited, gone) = golden::claim();
    assert_eq!(records.len(), 4);
    assert_eq!(records[0].decode(), Ok(claimed));
    assert_eq!(records[1].decode(), Ok(started));
    assert_eq!(records[2].decode(), Ok(exited));
    assert_eq!(records[3].decode(), Ok(gone));
}

#[test]
fn spec_wish_and_rules_of_version_1_are_read() {
    let spec: nero_wire::v1::RunSpec = frame::read(FrameKind::Spec, &sample("spec-v1")).unwrap();
    assert_eq!(spec, golden::spec());
    let cancel: nero_wire::v1::Cancel =
        frame::read(FrameKind::Cancel, &sample("cancel-v1")).unwrap();
    assert_eq!(cancel, golden::cancel());
    let rules: nero_wire::v1::RuleSet = frame::read(FrameKind::Rules, &sample("rules-v1")).unwrap();
    assert_eq!(rules, golden::rules());
}
