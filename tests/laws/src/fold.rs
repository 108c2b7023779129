//! Folding of journals: parts that come twice, late, cut elsewhere or in another order give the
//! same facts and points.

use std::collections::BTreeSet;

use nero_journal::v1::RecordKind;
use nero_journal::{HEADER_BYTES, RECORD_OVERHEAD, SegmentId, Writer, encode_header};
use nero_life::fold::{FoldResult, Part, Position, FoldOutput, fold};
use nero_life::journal::Journal;
use nero_model::RunToken;
use prost::DecodeError;
use prost::bytes::{Buf, BufMut};
use prost::encoding::{DecodeContext, WireType};

use crate::Choices;

const TOKEN: [u8; 16] = [7; 16];
const WRITERS: &[Writer] = &[Writer::Shim, Writer::Watcher, Writer::Mum, Writer::Launcher];
/// Kinds of records that a start writes once.
const ONCE: &[RecordKind] =
    &[RecordKind::Claimed, RecordKind::JobStarted, RecordKind::Granted];

/// Bytes in the place of a message, which may be none.
#[derive(Debug)]
struct ForeignMessage<'a>(&'a [u8]);

impl prost::Message for ForeignMessage<'_> {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        buffer.put_slice(self.0);
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn merge_field(
        &mut self,
        _: u32,
        _: WireType,
        _: &mut impl Buf,
        _: DecodeContext,
    ) -> Result<(), DecodeError> {
        Ok(())
    }

    fn clear(&mut self) {}
}

/// A segment, with the ends of header and records and the chain values there.
struct WrittenSegment {
    id: SegmentId,
    bytes: Vec<u8>,
    cuts: Vec<(usize, u32)>,
}

#[derive(Default)]
struct FoldedRun {
    journal: Journal,
    positions: [Position; 3],
    taken: FoldOutput,
}

impl FoldedRun {
    /// Folds a part of the segment with this number, from one cut to another; 0 is its beginning.
    fn take(&mut self, number: usize, segment: &WrittenSegment, from: usize, to: usize) -> FoldResult {
        let (offset, chain) = from.checked_sub(1).map_or((0, 0), |cut| segment.cuts[cut]);
        let part = Part {
            token: RunToken::from_bytes(TOKEN),
            incarnation: 1,
            segment: segment.id,
            offset: offset as u64,
            data: &segment.bytes[offset..segment.cuts[to - 1].0],
            chain,
        };
        let position = &mut self.positions[number];
        fold(&mut self.journal, &part, position, &mut self.taken)
    }

    /// Folds whole segments.
    fn take_all(&mut self, segments: &[WrittenSegment]) {
        for (number, segment) in segments.iter().enumerate() {
            let folded = self.take(number, segment, 0, segment.cuts.len());
            assert!(matches!(folded, FoldResult::Took | FoldResult::Nothing), "{folded:?}");
        }
    }

    /// What must be the same; points of several segments come in any order.
    fn facts(&self) -> String {
        let points = self.taken.points.iter().map(|point| format!("{point:?}"));
        let points: BTreeSet<String> = points.collect();
        let (count, samples) = (self.taken.points.len(), self.taken.samples.len());
        format!("{:?} {:?} {points:?} {count} {samples}", self.journal, self.positions)
    }
}

pub fn law(bytes: &[u8]) {
    let (records, choices) = crate::parts(bytes);
    let (mut records, mut choices) = (Choices(records), Choices(choices));
    let (mut whole, mut pieces) = (FoldedRun::default(), FoldedRun::default());
    let count = 1 + records.below(whole.positions.len());
    let segments = (0..count).map(|number| segment(&mut records, number));
    let segments: Vec<WrittenSegment> = segments.collect();
    whole.take_all(&segments);
    for _ in 0..choices.below(12) {
        let number = choices.below(count);
        let cuts = segments[number].cuts.len();
        let from = choices.below(cuts);
        let to = from + 1 + choices.below(cuts - from);
        let folded = pieces.take(number, &segments[number], from, to);
        let is_refused = matches!(folded, FoldResult::Mismatch | FoldResult::Refused | FoldResult::Full);
        assert!(!is_refused, "{folded:?}");
    }
    pieces.take_all(&segments);
    assert_eq!(whole.facts(), pieces.facts(), "in pieces, other facts are folded");
}

fn segment(choices: &mut Choices<'_>, number: usize) -> WrittenSegment {
    let mut bytes = vec![0; HEADER_BYTES];
    let header = bytes.first_chunk_mut().expect("a header's length");
    let id = SegmentId([number as u8; 8]);
    let writer = WRITERS[choices.below(WRITERS.len())];
    // Segments of one writer are ordered by when they were made, which differs.
    let made = 1_000_000 * (1 + number as u64);
    let mut encoder = encode_header(header, writer, id, &TOKEN, 1, &[1; 16], 9, made);
    let mut cuts = vec![(HEADER_BYTES, encoder.chain)];
    for _ in 0..choices.below(8) {
        let kind = match i32::from(choices.byte() % 64) {
            // The exclusive claim of a start keeps other writers from these.
            kind if number > 0 && ONCE.iter().any(|once| *once as i32 == kind) => 0,
            kind => kind,
        };
        let clock = made + choices.below(1000) as u64;
        let payload = ForeignMessage(choices.bytes(200));
        let from = bytes.len();
        bytes.resize(from + payload.0.len() + RECORD_OVERHEAD, 0);
        let wall = clock.cast_signed();
        let written = encoder.record(&mut bytes[from..], kind, wall, clock, &payload);
        written.expect("it fits");
        cuts.push((bytes.len(), encoder.chain));
    }
    WrittenSegment { id, bytes, cuts }
}
