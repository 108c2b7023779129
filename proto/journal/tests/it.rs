//! Readers of segments get a prefix of the written records or an error, never
//! other data.

use nero_journal::v1::{JobExited, Notice, RecordKind, ledger_exited::Copy};
use nero_journal::{
    Clocks, Content, HEADER_BYTES, HeaderError, JobRecord, ObservationRecord, Reader, Segment,
    Stop, Writer, scan,
};
use proptest::prelude::*;

const TOKEN: [u8; 16] = [9; 16];

/// A segment with three records, as bytes.
fn written() -> (tempfile::TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.seg");
    let mut segment = Segment::create(&path, Writer::Shim, &TOKEN, 1).unwrap();
    for text in ["one", "", "three and some more"] {
        segment
            .append(RecordKind::Notice, Clocks::now(), &Notice::of(text))
            .unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, segment.offset());
    (folder, bytes)
}

fn texts(bytes: &[u8]) -> Result<Vec<String>, HeaderError> {
    let (_, reader) = scan(bytes)?;
    Ok(reader
        .map(|record| record.decode::<Notice>().unwrap().text)
        .collect())
}

#[test]
fn written_records_read_back() {
    let (_folder, bytes) = written();
    let (header, mut reader) = scan(&bytes).unwrap();
    assert_eq!(
        (header.writer, header.token, header.incarnation),
        (Writer::Shim, TOKEN, 1)
    );
    let records: Vec<_> = reader.by_ref().collect();
    assert_eq!(
        records.iter().map(|r| r.sequence).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert!(records.iter().all(|r| r.is(RecordKind::Notice)));
    assert_eq!(reader.stop(), Stop::End);
    assert_eq!(reader.offset(), bytes.len() as u64);
}

#[test]
fn cut_at_every_byte_a_prefix_remains() {
    let (_folder, bytes) = written();
    let all = texts(&bytes).unwrap();
    for length in 0..bytes.len() {
        match texts(&bytes[..length]) {
            Ok(some) => assert!(all.starts_with(&some) && some.len() < all.len()),
            Err(error) => {
                assert!(length < HEADER_BYTES);
                assert_eq!(error, HeaderError::Short);
            }
        }
        if let Ok((_, mut reader)) = scan(&bytes[..length]) {
            while reader.next().is_some() {}
            assert!(
                !matches!(reader.stop(), Stop::Damaged(_)),
                "a cut end is not damage"
            );
        }
    }
}

/// A segment with a record of each of these many bytes of text.
fn long(lengths: &[usize]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.seg");
    let mut segment = Segment::create(&path, Writer::Watcher, &TOKEN, 1).unwrap();
    for (number, length) in lengths.iter().enumerate() {
        let text = (0..*length).map(|at| char::from(b'a' + (at * 7 + number) as u8 % 26));
        let notice = Notice::of(text.collect::<String>());
        segment
            .append(RecordKind::Notice, Clocks::now(), &notice)
            .unwrap();
    }
    std::fs::read(&path).unwrap()
}

fn stop(bytes: &[u8]) -> Stop {
    let (_, mut reader) = scan(bytes).unwrap();
    reader.by_ref().for_each(drop);
    reader.stop()
}

#[test]
fn every_flipped_bit_is_told_as_damage_also_of_the_last_record() {
    let (_folder, bytes) = written();
    let all = texts(&bytes).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match texts(&flipped) {
            Ok(some) => {
                assert!(all.starts_with(&some) && some.len() < all.len());
                let stop = stop(&flipped);
                assert!(matches!(stop, Stop::Damaged(_)), "bit {bit}: {stop:?}");
            }
            Err(_) => assert!(bit < HEADER_BYTES * 8),
        }
    }
}

#[test]
fn damage_in_records_of_every_length_is_told_as_damage() {
    for first in [100, 40_000, 66_000, 200_000, 1_000_000] {
        let bytes = long(&[first, 10, 300]);
        // Every part of the first record, then all bytes of the others.
        let step = (first / 23).max(1);
        let sparse = (HEADER_BYTES..HEADER_BYTES + first).step_by(step);
        for at in sparse.chain(HEADER_BYTES + first..bytes.len()) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let stop = stop(&flipped);
            assert!(
                matches!(stop, Stop::Damaged(_)),
                "{first}: byte {at}: {stop:?}"
            );
        }
    }
}

#[test]
fn a_record_that_was_not_written_to_its_end_is_no_damage() {
    let bytes = long(&[50, 3_000]);
    for length in HEADER_BYTES..bytes.len() {
        for zeros in [0, 4096] {
            let mut cut = bytes[..length].to_vec();
            cut.resize(length + zeros, 0);
            let stop = stop(&cut);
            assert!(!matches!(stop, Stop::Damaged(_)), "{length}: {stop:?}");
        }
    }
}

#[test]
fn damage_before_a_good_record_is_told_from_a_torn_end() {
    let (_folder, bytes) = written();
    let mut damaged = bytes.clone();
    damaged[HEADER_BYTES + 28] ^= 1; // in the first record's payload
    let (_, mut reader) = scan(&damaged).unwrap();
    assert!(reader.next().is_none());
    assert!(matches!(reader.stop(), Stop::Damaged(d) if d.offset == HEADER_BYTES as u64));

    let mut torn = bytes.clone();
    torn.extend([0; 4096]);
    let (_, mut reader) = scan(&torn).unwrap();
    assert_eq!(reader.by_ref().count(), 3);
    assert_eq!(
        reader.stop(),
        Stop::Unfinished,
        "zeros at the end are not there yet"
    );
}

#[test]
fn a_reader_goes_on_where_it_stood_and_nowhere_else() {
    let (_folder, bytes) = written();
    let (_, mut reader) = scan(&bytes).unwrap();
    let first = reader.next().unwrap();
    let rest = &bytes[first.end() as usize..];
    assert_eq!(Reader::new(rest, first.end(), first.chain).count(), 2);
    assert_eq!(Reader::new(rest, first.end(), first.chain ^ 1).count(), 0);
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let (_folder, mut bytes) = written();
    bytes[8] = 2;
    let crc = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(
        texts(&bytes),
        Err(HeaderError::TooNew { found: 2, known: 1 })
    );
    assert_eq!(
        texts(
            b"#!/bin/sh\necho a file of somebody else, long enough to have a header in it\n    \n"
        ),
        Err(HeaderError::NotASegment)
    );
}

#[test]
fn a_segment_that_exists_is_never_opened_again() {
    let (folder, _) = written();
    let again = Segment::create(&folder.path().join("a.seg"), Writer::Shim, &TOKEN, 1);
    assert_eq!(again.unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
}

#[test]
fn a_record_too_long_is_refused_and_the_segment_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.seg");
    let mut segment = Segment::create(&path, Writer::Watcher, &TOKEN, 1).unwrap();
    let long = Notice::of("x".repeat(nero_journal::PAYLOAD_BYTES_MAX));
    assert!(
        segment
            .append(RecordKind::Notice, Clocks::now(), &long)
            .is_err()
    );
    segment
        .append(RecordKind::JobExited, Clocks::now(), &JobExited::default())
        .unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(scan(&bytes).unwrap().1.count(), 1);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic_and_yield_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(scan(&bytes).is_err());
        prop_assert_eq!(Reader::new(&bytes, 0, 0x1234_5678).count(), 0);
    }
}

#[test]
fn a_record_is_read_by_the_subject_of_its_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.seg");
    let mut segment = Segment::create(&path, Writer::Watcher, &TOKEN, 1).unwrap();
    let exited = JobExited {
        code: 3,
        ..JobExited::default()
    };
    let at = Clocks::now();
    segment.record(at, &exited).unwrap();
    segment.record(at, &Notice::default()).unwrap();
    segment
        .append(RecordKind::Unspecified, at, &exited)
        .unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let records: Vec<_> = scan(&bytes).unwrap().1.collect();
    let Content::Job(JobRecord::JobExited(payload)) = records[0].content() else {
        panic!("{:?}", records[0].content());
    };
    assert_eq!(payload.decode().unwrap(), exited);
    assert_eq!(records[0].message(), Some(exited.clone()));
    assert_eq!(records[0].clocks(), at);
    assert_eq!(records[1].message::<JobExited>(), None);
    let is_notice = |content| matches!(content, Content::Observation(ObservationRecord::Notice(_)));
    assert!(is_notice(records[1].content()));
    assert!(matches!(records[2].content(), Content::Unknown(0)));
    let copy = Copy::new(at, &exited);
    assert_eq!(copy.payload, records[0].payload);
    assert!(copy.is::<JobExited>() && !copy.is::<Notice>());
}
