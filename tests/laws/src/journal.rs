//! Segments: the records read are the first ones written, and damage before a good record is told.

use nero_journal::v1::Notice;
use nero_journal::{
    HEADER_BYTES, PAYLOAD_BYTES_MAX, RECORD_OVERHEAD, SegmentId, Stop, Writer, encode_header, scan,
};

use crate::Choices;

/// Lengths of texts. The reader looks behind a bad record as far as the longest one reaches.
const LENGTHS: &[usize] = &[0, 1, 40, 300, 5000, 66_000, PAYLOAD_BYTES_MAX - 8];
/// A segment of another run: whose a whole segment is, its reader's caller compares.
const OTHER: SegmentId = SegmentId([2; 8]);

pub fn law(bytes: &[u8]) {
    if let Ok((_, reader)) = scan(bytes) {
        reader.for_each(drop);
    }
    let (records, choices) = crate::parts(bytes);
    let (mut records, mut choices) = (Choices(records), Choices(choices));
    let (whole, ends) = segment(&mut records, SegmentId([1; 8]));
    let (other, _) = segment(&mut records, OTHER);
    let mut changed = whole.clone();
    let is_cut = damage(&mut choices, &mut changed, &ends, &other);
    let Ok((header, mut reader)) = scan(&changed) else {
        assert!(changed != whole, "a whole segment is refused");
        return;
    };
    if header.segment == OTHER {
        return;
    }
    let mut read = HEADER_BYTES;
    for record in reader.by_ref() {
        let end = ends.iter().find(|end| **end > read);
        assert_eq!(end, Some(&(record.end() as usize)), "a record is invented");
        assert!(changed[read..record.end() as usize] == whole[read..record.end() as usize]);
        read = record.end() as usize;
    }
    let stop = reader.stop();
    let is_damaged = matches!(stop, Stop::Damaged(_));
    assert_eq!(stop == Stop::End, read == changed.len());
    assert!(!(is_cut && is_damaged), "a cut is called damage");
    // An unchanged record behind the last one read shows that what lies between was changed.
    let is_same = |at: usize, end: usize| changed.get(at - 4..end) == whole.get(at - 4..end);
    let is_later = |pair: &[usize]| pair[0] > read && is_same(pair[0], pair[1]);
    let near = ends.partition_point(|end| *end < read + PAYLOAD_BYTES_MAX + RECORD_OVERHEAD);
    let has_later = ends[..ends.len().min(near + 1)].windows(2).any(is_later);
    assert!(is_damaged || is_cut || !has_later, "damage at {read} is not told");
}

/// A segment and the ends of its records. One record may be long.
fn segment(choices: &mut Choices<'_>, id: SegmentId) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = vec![0; HEADER_BYTES];
    let header = bytes.first_chunk_mut().expect("a header's length");
    let mut encoder = encode_header(header, Writer::Shim, id, &[3; 16], 1, &[7; 16], 5, 6);
    let mut ends = Vec::new();
    let count = choices.below(6);
    let long = choices.below(12);
    for number in 0..count {
        let few = if number == long { LENGTHS.len() } else { 5 };
        let length = LENGTHS[choices.below(few)];
        // A text of control characters may look like the heads of more records than a reader tries.
        let letters: [u8; 3] = std::array::from_fn(|_| choices.byte() & 0x5f | 0x20);
        let text = String::from_utf8(letters.repeat(length / 3)).expect("ASCII");
        let notice = Notice::of(text);
        let from = bytes.len();
        bytes.resize(from + length + 16 + RECORD_OVERHEAD, 0);
        let written = encoder.record(&mut bytes[from..], choices.byte().into(), 7, 8, &notice);
        bytes.truncate(from + written.expect("it fits"));
        ends.push(bytes.len());
    }
    (bytes, ends)
}

/// Changes a segment as disks and crashes do; returns whether it is only cut, with zeros behind.
fn damage(
    choices: &mut Choices<'_>,
    bytes: &mut Vec<u8>,
    ends: &[usize],
    other: &[u8],
) -> bool {
    // A long record has few bytes that matter: those of its head.
    let head = ends.get(choices.below(8)).copied().unwrap_or(HEADER_BYTES);
    let is_head = choices.byte() & 1 == 1 && head + 8 < bytes.len();
    let place = |choices: &mut Choices<'_>, length: usize| {
        if is_head { head + choices.below(8) } else { choices.below(length) }
    };
    let at = place(choices, bytes.len());
    let end = at + choices.below(bytes.len() - at);
    match choices.below(7) {
        0 => {
            bytes.truncate(at);
            bytes.resize(at + choices.below(100), 0);
            return true;
        }
        1 => {
            // A checksum finds three flips always.
            for _ in 0..=choices.below(3) {
                let at = place(choices, bytes.len());
                bytes[at] ^= 1 << choices.below(8);
            }
        }
        2 => bytes[at..end].fill(0),
        3 => bytes.extend_from_within(at..end),
        4 => drop(bytes.drain(at..end)),
        5 => drop(bytes.splice(at..end, other[choices.below(other.len())..].iter().copied())),
        _ => bytes.extend_from_slice(other),
    }
    false
}
