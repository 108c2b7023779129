//! Files that an earlier build wrote are read by this one.

use std::path::{Path, PathBuf};

use nero_journal::frame::{self, FrameKind};
use nero_journal::{Encoder, Reader, Stop, Writer, scan};
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
fn spec_cancel_and_rules_of_version_1_are_read() {
    let spec: nero_wire::v1::RunSpec = frame::read(FrameKind::Spec, &sample("spec-v1")).unwrap();
    assert_eq!(spec, golden::spec());
    let cancel: nero_wire::v1::Cancel =
        frame::read(FrameKind::Cancel, &sample("cancel-v1")).unwrap();
    assert_eq!(cancel, golden::cancel());
    let rules: nero_wire::v1::RuleSet = frame::read(FrameKind::Rules, &sample("rules-v1")).unwrap();
    assert_eq!(rules, golden::rules());
}

/// The sample of a frame, read as this build reads it.
fn framed<M: prost::Message + Default>(kind: FrameKind, name: &str) -> M {
    frame::read(kind, &sample(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn the_files_of_a_node_beside_runs_are_read_in_version_1() {
    let lease: nero_journal::v1::Lease = framed(FrameKind::Lease, "lease-v1");
    assert_eq!(lease, golden::lease());
    let host: nero_journal::v1::HostSeen = framed(FrameKind::HostSeen, "host-v1");
    assert_eq!(host, golden::host_seen());
    let authority: nero_journal::v1::Authority = framed(FrameKind::Authority, "authority-v1");
    assert_eq!(authority, golden::authority());
    let owner: nero_journal::v1::Owner = framed(FrameKind::Owner, "owner-v1");
    assert_eq!(owner, golden::owner());
    let gone: nero_journal::v1::Gone = framed(FrameKind::Gone, "gone-v1");
    assert_eq!(gone, golden::gone());
    let unnamed: nero_journal::v1::Unnamed = framed(FrameKind::Unnamed, "unnamed-v1");
    assert_eq!(unnamed, golden::unnamed_files());
}

#[test]
fn the_page_of_the_helper_for_gpus_and_the_cards_in_the_ledger_are_read_in_version_1() {
    let page: nero_journal::v1::GpuPage = framed(FrameKind::GpuPage, "gpus-v1");
    assert_eq!(page, golden::gpu_page());
    let bytes = std::fs::read(sample("ledger-cards-v1")).unwrap();
    let (header, mut reader) = scan(&bytes).unwrap();
    assert_eq!(header.writer, Writer::Ledger);
    let records: Vec<_> = reader.by_ref().collect();
    assert_eq!((records.len(), reader.stop()), (1, Stop::End));
    assert!(records[0].is(nero_journal::v1::RecordKind::LedgerCards));
    assert_eq!(records[0].decode(), Ok(golden::ledger_cards()));
}

/// A spec as a later build may write it.
#[derive(Clone, PartialEq, prost::Message)]
struct LaterSpec {
    #[prost(bytes = "vec", tag = "1")]
    token: Vec<u8>,
    #[prost(uint64, tag = "2")]
    experiment: u64,
    #[prost(string, tag = "2000")]
    news: String,
    #[prost(message, optional, tag = "2001")]
    more: Option<nero_journal::v1::Notice>,
}

#[test]
fn fields_of_a_later_build_are_passed_over() {
    let later = LaterSpec {
        token: golden::TOKEN.to_vec(),
        experiment: 144,
        news: "of a later build".to_owned(),
        more: Some(nero_journal::v1::Notice::default()),
    };
    let bytes = frame::encode(FrameKind::Spec, &later);
    let read: nero_wire::v1::RunSpec = frame::decode(FrameKind::Spec, &bytes).unwrap();
    let expected = nero_wire::v1::RunSpec {
        token: golden::TOKEN.to_vec(),
        experiment: 144,
        ..nero_wire::v1::RunSpec::default()
    };
    assert_eq!(read, expected);
}

#[test]
fn records_of_a_later_build_are_passed_over() {
    let known = std::fs::read(sample("claim-v1")).unwrap();
    let (_, mut reader) = scan(&known).unwrap();
    let before: Vec<_> = reader.by_ref().collect();
    let mut encoder = Encoder {
        chain: Reader::chain(&reader),
        sequence: 4,
    };
    let mut more = [0; 256];
    let notice = nero_journal::v1::Notice::of("of a later build");
    let length = encoder.record(&mut more, 4000, 1, 2, &notice).unwrap();
    let bytes = [&known[..reader.offset() as usize], &more[..length]].concat();
    let (_, mut reader) = scan(&bytes).unwrap();
    let records: Vec<_> = reader.by_ref().collect();
    assert_eq!(reader.stop(), Stop::End);
    let (last, first) = records.split_last().unwrap();
    assert_eq!(first, before);
    assert_eq!((last.kind, last.sequence), (4000, 4));
}
